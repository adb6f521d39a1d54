# Holds this node for one operation until standard input ends: DEPLOYMENT HOLDER SECONDS TOKEN.
# Says `locked`; or `held` and by whom; or `inherited` where the holder has the same token.
# The kernel frees the lock with this process, however it ends. A holder whose machine is gone closes
# nothing: after SECONDS without a beat (refresh-lock.sh) the lock is free as well. Both times are
# this node's own. The lock is the node's, whoever logs in: it lies where every user may write.
folder=/run/lock
[ -w "$folder" ] || folder=/tmp
folder=$folder/sparkctl
[ -d "$folder" ] || mkdir -m 1777 "$folder" 2>/dev/null
if [ ! -d "$folder" ] || [ -L "$folder" ]; then
    echo "$folder is no folder" >&2
    exit 1
fi
umask 022
[ -e "$folder/lock" ] || : 2>/dev/null > "$folder/lock"
# Another user's file is opened for reading only: that is enough for the lock.
exec 9< "$folder/lock" || exit 1
if ! flock -n 9; then
    for file in "$folder"/holder.*; do
        { read -r pid && read -r token && read -r holder; } < "$file" 2>/dev/null || continue
        [ -d "/proc/$pid" ] || continue
        if [ "$token" = "$4" ]; then
            echo inherited
            exit 0
        fi
        step=$(cat "$folder/beat.${file##*.}" 2>/dev/null)
        echo "held $holder${step:+, at $step}"
        exit 0
    done
    echo "held somebody who did not say"
    exit 0
fi
id=$(id -u)
: > "$folder/beat.$id" || exit 1
printf '%s\n%s\n%s\n' "$$" "$4" "$2" > "$folder/holder.$id" || exit 1
echo locked
(
    exec 9>&-
    while sleep 2; do
        beat=$(stat -c %Y "$folder/beat.$id" 2>/dev/null || echo 0)
        [ $(($(date +%s) - beat)) -le "$3" ] || break
    done
    kill $$
) > /dev/null 2>&1 &
cat > /dev/null 9>&-
kill $! 2>/dev/null
rm -f "$folder/holder.$id" "$folder/beat.$id"
