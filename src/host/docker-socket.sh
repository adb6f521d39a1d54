# Says whether this user can use the Docker Engine, without asking it. No arguments, no input.
# Prints one word: usable, forbidden, stopped, absent; for `forbidden` then the user's name.
socket=/var/run/docker.sock
# A socket outlives the engine that listened on it; the kernel tells whether one does (flag 10000).
listening() {
  [ ! -r /proc/net/unix ] || grep -q "^[^ ]* [^ ]* [^ ]* 00010000 .*/run/docker\.sock\$" /proc/net/unix
}
if [ -S "$socket" ] && listening; then
  if [ -r "$socket" ] && [ -w "$socket" ]; then echo usable; else echo "forbidden $(id -un)"; fi
elif command -v dockerd >/dev/null 2>&1 || command -v docker >/dev/null 2>&1; then
  echo stopped
else
  echo absent
fi
