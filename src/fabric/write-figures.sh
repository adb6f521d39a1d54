# Writes what the node remembers of its links' speed, from standard input, whole or not at all.
set -eu
umask 077
folder="$HOME/.local/state/sparkctl"
mkdir -p "$folder"
trap 'rm -f "$folder/.fabric.json.$$"' EXIT
cat > "$folder/.fabric.json.$$"
sync "$folder/.fabric.json.$$" 2>/dev/null || :
mv -f "$folder/.fabric.json.$$" "$folder/fabric.json"
