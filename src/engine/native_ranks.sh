# Prints the addresses of the ranks that are connected to a native launch's head, a line each: CONTAINER.
exec docker exec "$1" cat /tmp/sparkctl-ranks
