"""An engine that takes its key on its command line only: VARIABLE MODULE FLAG...

Runs MODULE as `python3 -m` would, with `--api-key` and the value of VARIABLE behind its flags: so the key stands in no
command line that others can see, and in the environment of no process that the engine starts.
"""
import os
import runpy
import sys

variable, module, *flags = sys.argv[1:]
sys.argv = [module, *flags, "--api-key", os.environ.pop(variable)]
runpy.run_module(module, run_name="__main__", alter_sys=True)
