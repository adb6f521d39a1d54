# Makes a model of 40 shards, 119 GB of holes, and notes them as seen, as if they had been hashed.
import json, os, struct

folder = "/home/spark/models/bench-sparse"
os.makedirs(folder + "/.sparkctl", exist_ok=True)
os.chdir(folder)
each = 119_000_000_000 // 40
names = ["config.json", "tokenizer.json"]
for name in names:
    with open(name, "w") as file:
        file.write("{}")
for shard in range(1, 41):
    name = "model-%05d-of-00040.safetensors" % shard
    header = json.dumps({"w%d" % shard: {"dtype": "U8", "shape": [each], "data_offsets": [0, each]}}).encode()
    with open(name, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + each)
    names.append(name)
seen = {}
for name in names:
    stat = os.stat(name)
    seen[name] = {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns, "inode": stat.st_ino, "sha256": "%064x" % len(name)}
with open(".sparkctl/seen.json", "w") as file:
    json.dump({"format": 1, "files": seen}, file)
