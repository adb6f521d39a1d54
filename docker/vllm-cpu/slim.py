#!/usr/bin/env python3
"""Make a site-packages folder with torch (CUDA build), vLLM and Ray small enough for a test image.

    slim.py SITE_PACKAGES        changes the folder in place

torch as published is linked to CUDA libraries of several GB, and the loader wants them present although a
CPU run calls none of them. Each library that torch's own libraries are linked to is replaced by a stand-in with
the same soname which defines just the symbols that somebody in the tree wants of it and nobody else has:
functions trap, so a call that should never happen is loud; typeinfo is real enough for pybind11 to register the
class; other data is zero. Then what is never loaded is removed, and debug information is stripped.
Needs nm, objdump, strip and cc.
"""
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# Replaced by stand-ins. libtorch_cuda registers its kernels when it is loaded, so without it torch is a CPU build.
CUDA = re.compile(r"lib(torch_cuda|torch_nvshmem|cublas|cublasLt|cufft|cufile|cupti|curand|cusolver|cusparse|cusparseLt|"
                  r"cudnn|nvJitLink|nvrtc|nccl|nvshmem_host)\.so")
# Called when torch is imported, so these may not trap. `%s` is the stand-in's name in C.
CALLED = {
    # returns a reference to a variable
    "_ZN4c10d15get_gil_checkerEv": "static long %s_v; void *%s(void) { return &%s_v; }",
    "_ZN4c10d17nvshmem_extension20is_nvshmem_availableEv": "int %s(void) { return 0; }",
    # a default argument: an object with a reference count of zero, a type that pybind11 can look up, no-op methods
    "_ZN4c10d16ProcessGroupNCCL7OptionsC1Eb":
        'extern char %s_t[] __asm__("_ZTIN4c10d16ProcessGroupNCCL7OptionsE"); static void %s_no(void) {} '
        "static void *%s_vt[32] = {0, %s_t, [2 ... 31] = %s_no}; "
        "void %s(void **self) { self[0] = %s_vt + 2; self[1] = self[2] = self[3] = 0; }",
}
# Never loaded by a CPU run of a text model. numba is only used to speed up n-gram speculation.
UNUSED = """
triton triton-*.dist-info nvidia/*/include nvidia/*/bin nvidia/*/lib/*.a nvidia/*/lib/*.bc torch/include torch/test torch/bin/protoc*
torch/share torch/lib/*.a torch/lib/libtorch_cuda_linalg.so torch/utils/benchmark
pip pip-*.dist-info cuda cuda_*.dist-info cuda_bindings* nvidia_* tvm_ffi/include
cv2 opencv_python_headless* torchcodec* torchaudio/lib
ray/dashboard/client ray/jars ray/rllib ray/tune ray/serve ray/train ray/air ray/cpp ray/core/generated_test ray/thirdparty_files/*/tests
vllm/third_party/flashmla vllm/benchmarks/datasets/*.txt
*/tests */test */*/tests
""".split()


def tool(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def size(path):
    return sum(f.lstat().st_size for f in path.rglob("*") if f.is_file())


class Library:
    def __init__(self, path):
        self.path = path
        self.needed = re.findall(r"NEEDED\s+(\S+)", tool("objdump", "-p", path))
        self.defined, self.wanted = {}, set()
        for line in tool("nm", "-D", path).splitlines():
            *_, kind, name = line.split()
            if kind in "Uwv":
                self.wanted.add(name)
            elif kind not in "Aa":
                self.defined[name.replace("@@", "@")] = kind


def stand_in(library, wanted):
    """Replace the library by one that defines the wanted symbols only."""
    code, versions = [], collections.defaultdict(list)
    for number, name in enumerate(sorted(wanted)):
        symbol, _, version = name.partition("@")
        versions[version].append(symbol)
        kind = library.defined[name]
        if symbol.startswith("_ZTI"):
            code.append(f'extern char vt[] __asm__("_ZTVN10__cxxabiv117__class_type_infoE"); '
                        f'void *d{number}[8] __asm__("{symbol}") = {{vt + 16, "{symbol[4:]}"}};')
        elif kind in "BbDdRrVvu" and symbol not in CALLED:
            code.append(f'char d{number}[256] __asm__("{symbol}") __attribute__((aligned(16)));')
        else:
            body = CALLED.get(symbol, "void %s(void) { __builtin_trap(); }").replace("%s", f"f{number}")
            code.append(f'{body}\n__asm__(".globl {symbol}\\n.set {symbol}, f{number}\\n.type {symbol}, @function");')
    script = "".join(f'{version} {{ global: {" ".join(chr(34) + s + chr(34) + ";" for s in symbols)} }};\n'
                     for version, symbols in versions.items() if version)
    with tempfile.TemporaryDirectory() as folder:
        source, versions_file, result = (os.path.join(folder, n) for n in ("stub.c", "stub.map", "stub.so"))
        Path(source).write_text("\n".join(code))
        Path(versions_file).write_text(script)
        subprocess.run(["cc", "-shared", "-fPIC", "-O0", "-o", result, source, f"-Wl,-soname,{library.path.name}"]
                       + ([f"-Wl,--version-script={versions_file}"] if script else []), check=True)
        library.path.unlink()
        shutil.copy(result, library.path)


def main(site):
    before = size(site)
    for pattern in UNUSED:
        for path in site.glob(pattern):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    libraries = [Library(p) for p in site.rglob("*.so*") if p.is_file() and not p.is_symlink() and p.read_bytes()[:4] == b"\x7fELF"]
    cuda = [lib for lib in libraries if CUDA.match(lib.path.name)]
    others = [lib for lib in libraries if lib not in cuda and "nvidia/" not in str(lib.path) or "cudart" in lib.path.name]
    linked = {name for lib in others for name in lib.needed}
    provided = {name for lib in others for name in lib.defined}
    wanted = {name for lib in others for name in lib.wanted} - provided
    gone = [lib for lib in cuda if lib.path.name not in linked]
    for lib in cuda:
        if lib in gone:
            lib.path.unlink()
            continue
        if lib.path.name == "libtorch_cuda.so":  # it also brings in those that only it is linked to
            for other in gone:
                lib.defined = {**other.defined, **lib.defined}
        stand_in(lib, wanted & set(lib.defined))
    for lib in libraries:
        if "nvidia/" in str(lib.path) and lib not in cuda and lib.path.name not in linked:
            lib.path.unlink()
        elif lib in others and lib.path.relative_to(site).parts[0] in ("torch", "vllm", "ray"):
            # not those that came out of patchelf with a *.libs folder: strip breaks their alignment
            stripped = lib.path.with_name(lib.path.name + ".stripped")
            if subprocess.run(["strip", "--strip-unneeded", "-o", stripped, lib.path], capture_output=True).returncode == 0:
                shutil.copymode(lib.path, stripped)
                stripped.replace(lib.path)
            else:
                stripped.unlink(missing_ok=True)
    print(f"{before // 10**6} MB -> {size(site) // 10**6} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
