# Appends lines from standard input to the journal of a deployment: DEPLOYMENT. Their time is this node's own: it is only
# ever compared with this node's clock.
set -eu
umask 077
folder="$HOME/.local/state/sparkctl/$1"
journal="$folder/journal"
mkdir -p "$folder"
# Some thousand operations; what is older says nothing any more.
if [ "$(stat -c %s "$journal" 2>/dev/null || echo 0)" -gt 4000000 ]; then
    mv -f "$journal" "$journal.old"
fi
# A line that was cut by a full disk, or with the node, spoils no other.
if [ -s "$journal" ] && [ -n "$(tail -c 1 "$journal")" ]; then
    echo >> "$journal"
fi
lines=$(sed "s/\"time\":null/\"time\":\"$(date -u +%Y-%m-%dT%H:%M:%SZ)\"/")
printf '%s\n' "$lines" >> "$journal"
