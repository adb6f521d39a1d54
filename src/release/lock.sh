# Holds the lock of a deployment until standard input ends: DEPLOYMENT HOLDER SECONDS.
# Says `locked`, or `held` and by whom. The kernel frees the lock with this process, however it ends.
# A holder whose machine is gone closes nothing: after SECONDS without a beat (refresh-lock.sh) the
# lock is free as well. Both times are this node's own.
umask 077
folder="$HOME/.local/state/sparkctl/$1"
mkdir -p "$folder" || exit 1
exec 9>> "$folder/lock"
if ! flock -n 9; then
    echo "held $(cat "$folder/lock.holder" 2>/dev/null)"
    exit 0
fi
printf '%s\n' "$2" > "$folder/lock.holder"
: > "$folder/lock.beat"
echo locked
(
    exec 9>&-
    while sleep 5; do
        beat=$(stat -c %Y "$folder/lock.beat" 2>/dev/null || echo 0)
        [ $(($(date +%s) - beat)) -le "$3" ] || break
    done
    kill $$
) > /dev/null 2>&1 &
cat > /dev/null 9>&-
kill $! 2>/dev/null
