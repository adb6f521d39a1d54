# Says whether this user can use the Docker Engine, without asking it. No arguments, no input.
# Prints one word: usable, forbidden, stopped, absent; for `forbidden` then the user's name.
socket=/var/run/docker.sock
if [ -S "$socket" ]; then
  if [ -r "$socket" ] && [ -w "$socket" ]; then echo usable; else echo "forbidden $(id -un)"; fi
elif command -v dockerd >/dev/null 2>&1 || command -v docker >/dev/null 2>&1; then
  echo stopped
else
  echo absent
fi
