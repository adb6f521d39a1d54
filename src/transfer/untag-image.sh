# Takes a name from an image, and the image with it where that was its last.
# $1: the name. No input.
docker rmi "$1"
