# Keeps a container's log with its release, whole or not at all: DEPLOYMENT NUMBER RANK CONTAINER.
# It stays on the node: logs are large, and the way to the operator may be slow.
set -eu
umask 077
folder="$HOME/.local/state/sparkctl/$1/releases/$2"
mkdir -p "$folder"
id=$(docker inspect --format '{{printf "%.12s" .Id}}' "$4")
docker logs --timestamps "$4" > "$folder/.rank-$3.$id.log" 2>&1
mv -f "$folder/.rank-$3.$id.log" "$folder/rank-$3.$id.log"
