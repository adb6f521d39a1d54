# Prints the benchmark of a release: DEPLOYMENT NUMBER. Nothing where there is none.
file="$HOME/.local/state/sparkctl/$1/releases/$2/bench.json"
[ ! -e "$file" ] || cat "$file"
