# Writes a release's record from standard input: DEPLOYMENT NUMBER. Says `changed` or `unchanged`.
set -eu
umask 077
folder="$HOME/.local/state/sparkctl/$1/releases/$2"
mkdir -p "$folder"
cat > "$folder/.release.json.$$"
if cmp -s "$folder/.release.json.$$" "$folder/release.json"; then
    rm -f "$folder/.release.json.$$"
    echo unchanged
else
    sync "$folder/.release.json.$$" 2>/dev/null || :
    mv -f "$folder/.release.json.$$" "$folder/release.json"
    echo changed
fi
