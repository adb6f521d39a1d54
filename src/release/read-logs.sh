# Prints the kept logs of a release: DEPLOYMENT NUMBER. Each begins with a line `== rank R`; a rank
# that was started more than once has more than one, oldest first.
folder="$HOME/.local/state/sparkctl/$1/releases/$2"
for log in $(ls -tr "$folder" 2>/dev/null | grep '^rank-'); do
    rank=${log#rank-}
    echo "== rank ${rank%%.*}"
    cat "$folder/$log"
    echo
done
