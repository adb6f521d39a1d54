# Prints the kept logs of a deployment: DEPLOYMENT NUMBER. Each begins with a line `== rank-R.log`.
folder="$HOME/.local/state/sparkctl/$1/releases/$2"
for log in "$folder"/rank-*.log; do
    [ -f "$log" ] || continue
    echo "== ${log##*/}"
    cat "$log"
    echo
done
