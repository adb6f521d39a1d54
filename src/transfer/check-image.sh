# Proves that an image can become a container: that it is unpacked, or can be.
# $1: the image. No input.
container=$(docker create --pull never --network none --entrypoint true "$1") || exit 1
docker rm "$container" >/dev/null
