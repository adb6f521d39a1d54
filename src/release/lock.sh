# Holds the lock of a deployment until standard input ends: DEPLOYMENT HOLDER.
# Says `locked`, or `held` and by whom. The kernel frees the lock with the process, however it ends.
umask 077
folder="$HOME/.local/state/sparkctl/$1"
mkdir -p "$folder" || exit 1
exec 9>> "$folder/lock"
if flock -n 9; then
    printf '%s\n' "$2" > "$folder/lock.holder"
    echo locked
    # `exec` leaves no shell behind that would hold the lock for longer.
    exec cat > /dev/null
fi
echo "held $(cat "$folder/lock.holder" 2>/dev/null)"
