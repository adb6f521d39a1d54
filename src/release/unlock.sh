# Frees this node's lock where its holder gives no sign of life any more: SECONDS.
# Says `free`; `held` and by whom, where the holder lives; `freed` and from whom.
folder=/run/lock
[ -w "$folder" ] || folder=/tmp
folder=$folder/sparkctl
[ -e "$folder/lock" ] || { echo free; exit 0; }
exec 9< "$folder/lock" || exit 1
for file in "$folder"/holder.*; do
    if flock -n 9; then
        echo free
        exit 0
    fi
    { read -r pid && read -r token && read -r holder; } < "$file" 2>/dev/null || continue
    [ -d "/proc/$pid" ] || continue
    beat=$(stat -c %Y "$folder/beat.${file##*.}" 2>/dev/null || echo 0)
    age=$(($(date +%s) - beat))
    if [ "$age" -le "$1" ]; then
        echo "held $holder, $age s ago the last sign of life"
        exit 0
    fi
    kill "$pid" || exit 1
    echo "freed $holder, $age s ago the last sign of life"
    exit 0
done
if flock -n 9; then echo free; else echo "held by a process that did not say whose it is"; fi
