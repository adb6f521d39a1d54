# Prints the addresses of the nodes that Ray counts as alive, a line each: CONTAINER HEAD_ADDRESS:PORT.
exec docker exec "$1" python3 -c '
import sys, ray
ray.init(address=sys.argv[1], logging_level="ERROR", log_to_driver=False)
for node in ray.nodes():
    if node["Alive"]:
        print(node["NodeManagerAddress"])
' "$2"
