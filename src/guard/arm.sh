# Gives this node a guard: DEPLOYMENT NUMBER, what it is to bring back on standard input. Says `armed` and as what, or
# `absent` and why; a guard counts only when it has said itself that it lives and the Docker Engine answers it.
set -u
umask 077
folder="$HOME/.local/state/sparkctl/$1/guard"
number=$2
absent() {
    # One that was started after all ends as soon as it sees that.
    rm -f "$folder/$number".*
    printf 'absent %s\n' "$1"
    exit 0
}
mkdir -p "$folder" || exit 1
# A guard of before has nothing left to decide; one that has decided is not disturbed.
rm -f "$folder"/*.armed
for file in "$folder"/*.acting; do
    [ ! -e "$file" ] || { echo "the guard of release $(basename "$file" .acting) is at work" >&2; exit 1; }
done
rm -f "$folder"/*
program > "$folder/guard.py" && cat > "$folder/$number.new" && mv "$folder/$number.new" "$folder/$number.armed" || exit 1
python=$(command -v python3) || absent "python3 is not installed"
command -v systemd-run > /dev/null && [ -d /run/systemd/system ] || absent "systemd does not run there"
name=$(id -un)
unit="sparkctl-guard-$1-$number-$$"
set -- --quiet --collect --unit "$unit" --property Restart=on-failure --property RestartSec=1 \
    "$python" "$folder/guard.py" "$folder" "$number"
lingers() { [ "$(timeout -k 1 5 loginctl show-user "$name" -p Linger --value 2>/dev/null)" = yes ] || [ -e "/var/lib/systemd/linger/$name" ]; }
way=
if command -v sudo > /dev/null && timeout -k 1 5 sudo -n true > /dev/null 2>&1 < /dev/null &&
    timeout -k 1 20 sudo -n systemd-run --uid "$name" "$@" > /dev/null 2>&1 < /dev/null; then
    way=system
else
    was=yes
    lingers || { was=no; timeout -k 1 10 loginctl --no-ask-password enable-linger > /dev/null 2>&1 < /dev/null; }
    lingers || absent "\`sudo\` asks for a password, and units of $name end with the login (\`loginctl enable-linger $name\`)"
    XDG_RUNTIME_DIR=${XDG_RUNTIME_DIR:-/run/user/$(id -u)}
    export XDG_RUNTIME_DIR
    # Who lingers from now on may have a manager that is just starting.
    tries=0
    while [ ! -S "$XDG_RUNTIME_DIR/systemd/private" ] && [ "$tries" -lt 25 ]; do
        tries=$((tries + 1))
        sleep 0.2
    done
    said=$(timeout -k 1 20 systemd-run --user "$@" 2>&1 < /dev/null) || absent "systemd refuses it: $(printf '%s' "$said" | head -n 1)"
    [ "$was" = yes ] && way=user || way=lingering
fi
tries=0
while [ ! -e "$folder/$number.alive" ]; do
    tries=$((tries + 1))
    [ "$tries" -le 75 ] || absent "it was started, and does not reach the Docker Engine"
    sleep 0.2
done
echo "armed $way"
