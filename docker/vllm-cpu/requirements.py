#!/usr/bin/env python3
"""requirements.py WHEEL...: what the wheels require, without extras and without what the test image leaves out."""
import email
import re
import sys
import zipfile

LEFT_OUT = re.compile(
    r"torch|triton|nvidia|cuda"  # torch is one of the wheels; slim.py stands in for CUDA
    r"|numba$|intel-openmp|ninja"  # speed, compilers
    r"|opencv|anthropic|opentelemetry-exporter"  # pictures, client and telemetry code that is imported on demand
)
# extras that drag in much more than the server imports
INSTEAD = {"fastapi": "uvicorn[standard]\nhttpx\npython-multipart\nfastapi", "mistral_common": "mistral_common"}

for path in sys.argv[1:]:
    wheel = zipfile.ZipFile(path)
    metadata = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
    for line in email.message_from_bytes(wheel.read(metadata)).get_all("Requires-Dist"):
        name, extras, rest = re.match(r"([\w.-]+)(\[[^]]*\])?(.*)", line).groups()
        if "extra ==" not in rest and not LEFT_OUT.match(name):
            print((INSTEAD[name] if name in INSTEAD else name + (extras or "")) + rest)
