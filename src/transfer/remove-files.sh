# Removes files below a folder: FOLDER. Input: their paths, a NUL behind each. Folders that are empty then go as well.
cd "$1" || exit 1
list=$(mktemp) || exit 1
trap 'rm -f "$list"' EXIT
cat > "$list"
xargs -0 rm -f -- < "$list" || exit 1
xargs -0 -r dirname -z -- < "$list" | sort -zu | xargs -0 -r rmdir -p --ignore-fail-on-non-empty -- 2>/dev/null
exit 0
