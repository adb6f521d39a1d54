# Writes a file of a release from standard input, whole or not at all: DEPLOYMENT NUMBER [FILE], left out `release.json`.
# Says `changed` or `unchanged`.
set -eu
umask 077
folder="$HOME/.local/state/sparkctl/$1/releases/$2"
file="${3:-release.json}"
mkdir -p "$folder"
cat > "$folder/.$file.$$"
if cmp -s "$folder/.$file.$$" "$folder/$file"; then
    rm -f "$folder/.$file.$$"
    echo unchanged
else
    sync "$folder/.$file.$$" 2>/dev/null || :
    mv -f "$folder/.$file.$$" "$folder/$file"
    echo changed
fi
