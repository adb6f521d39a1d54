# Keeps a file from standard input, whole or not at all: DEPLOYMENT files|secrets NAME. Says `changed` or `unchanged`.
# A placed file is named by its SHA-256 and everybody may read it; secrets end with a line `end` and are their owner's.
set -eu
umask 077
folder="$HOME/.local/state/sparkctl/$1/$2"
mkdir -p "$folder"
new="$folder/.$3.$$"
trap 'rm -f "$new"' EXIT
cat > "$new"
if [ "$2" = files ]; then
    whole=$(sha256sum < "$new")
    [ "${whole%% *}" = "$3" ] || { echo "it did not come whole" >&2; exit 1; }
    chmod 444 "$new"
else
    [ "$(tail -n 1 "$new")" = end ] || { echo "it did not come whole" >&2; exit 1; }
    chmod 600 "$new"
fi
if cmp -s "$new" "$folder/$3"; then
    echo unchanged
else
    sync "$new" 2>/dev/null || :
    mv -fT "$new" "$folder/$3"
    echo changed
fi
