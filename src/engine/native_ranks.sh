# Prints the addresses of the ranks that a native launch's head has, a line each: CONTAINER FILE.
exec docker exec "$1" cat "$2"
