# Keeps a container's log with its release, whole or not at all: DEPLOYMENT NUMBER RANK CONTAINER.
# It stays on the node: logs are large, and the way to the operator may be slow. Where the deployment keeps secrets,
# their values are taken out on the way, by the rules of `delivery::redact`.
set -eu
umask 077
state="$HOME/.local/state/sparkctl/$1"
folder="$state/releases/$2"
mkdir -p "$folder"
id=$(docker inspect --format '{{printf "%.12s" .Id}}' "$4")
if [ -z "$(ls "$state/secrets" 2>/dev/null)" ]; then
    docker logs --timestamps "$4" > "$folder/.rank-$3.$id.log" 2>&1
else
    command -v python3 >/dev/null || { echo "python3 is not installed: it takes secrets out of logs" >&2; exit 1; }
    python3 /dev/fd/3 "$state/secrets" "$4" > "$folder/.rank-$3.$id.log" 3<<'END OF PROGRAM'
import os
import subprocess
import sys

secrets, container = sys.argv[1:]
# What Rust takes for white space; Python strips more, and knows more ends of lines.
white = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
places = []
for name in os.listdir(secrets):
    if name.startswith("."):
        continue
    with open(os.path.join(secrets, name), encoding="ascii") as file:
        for line in file:
            variable, _, value = line.rstrip("\n").partition(" ")
            for part in bytes.fromhex(value).decode().split("\n"):
                part = part.strip(white)
                if len(part) >= 8:
                    places.append((part.encode(), ("‹secret %s›" % variable).encode()))
places.sort(key=lambda place: -len(place[0]))
command = ["docker", "logs", "--timestamps", container]
log = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
for line in log.stdout:
    for value, place in places:
        line = line.replace(value, place)
    sys.stdout.buffer.write(line)
sys.stdout.buffer.flush()
sys.exit(log.wait())
END OF PROGRAM
fi
mv -f "$folder/.rank-$3.$id.log" "$folder/rank-$3.$id.log"
