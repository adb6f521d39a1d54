# Writes from standard input what must not run any more on nodes that were away, whole or not at all: DEPLOYMENT.
# Where there is nothing, the file goes. Says `changed`.
set -eu
umask 077
folder="$HOME/.local/state/sparkctl/$1"
mkdir -p "$folder"
cat > "$folder/.ended.json.$$"
if [ -s "$folder/.ended.json.$$" ]; then
    sync "$folder/.ended.json.$$" 2>/dev/null || :
    mv -f "$folder/.ended.json.$$" "$folder/ended.json"
else
    rm -f "$folder/.ended.json.$$" "$folder/ended.json"
fi
echo changed
