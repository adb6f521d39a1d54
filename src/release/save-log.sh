# Keeps a rank's log, from standard input, with its release: DEPLOYMENT NUMBER RANK.
# A log that is there already grows: the same release may have run more than once.
set -eu
umask 077
folder="$HOME/.local/state/sparkctl/$1/releases/$2"
mkdir -p "$folder"
cat >> "$folder/rank-$3.log"
