"""`python3 -m sglang.launch_server`."""

import sys

from stub_engine.sglang_server import serve

if __name__ == "__main__":
    sys.exit(serve(sys.argv[1:]))
