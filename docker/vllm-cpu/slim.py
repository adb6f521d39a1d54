#!/usr/bin/env python3
"""Make a site-packages folder with torch (CUDA build), vLLM and Ray small enough for a test image.

    slim.py SITE_PACKAGES        changes the folder in place

torch as published is linked to CUDA libraries of several GB, and the loader wants them present although a CPU run
calls none of them. Of those only the small libcudart has to be real. Each of the others, and torch's own CUDA half
(470 MB), becomes a stand-in with the same soname that defines just the symbols which the rest of torch wants of it:
functions trap, so a call that should never happen is loud; typeinfo is real enough for pybind11 to register the class;
other data is zero. Then what a CPU run of a text model never loads is removed, and debug information is stripped.
Needs nm, objdump, strip and cc.
"""
import collections
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# torch's CUDA half: registers its kernels when it is loaded, so without it torch is a CPU build
TORCH_CUDA = "libtorch_cuda.so"
GONE = ["libtorch_cuda.so", "libtorch_cuda_linalg.so", "libtorch_nvshmem.so"]
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
# Never loaded by a CPU run of a text model.
UNUSED = """
torch/include torch/test torch/bin/protoc* torch/share torch/lib/*.a torch/utils/benchmark nvidia/*/include
ray/dashboard/client ray/jars ray/rllib ray/tune ray/serve ray/train ray/air ray/llm ray/cpp
triton triton-*.dist-info */tests */test */*/tests pip pip-*.dist-info
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
            if kind == "U":
                self.wanted.add(name)
            elif kind not in "Aawv":
                self.defined[name.replace("@@", "@")] = kind


def stand_in(path, symbols):
    """Write a library that defines the symbols, given as name[@version] with their kind in nm's letters."""
    code, versions = [], collections.defaultdict(list)
    for number, (name, kind) in enumerate(sorted(symbols.items())):
        symbol, _, version = name.partition("@")
        versions[version].append(symbol)
        if symbol.startswith("_ZTI"):
            code.append(f'extern char vt[] __asm__("_ZTVN10__cxxabiv117__class_type_infoE"); '
                        f'void *d{number}[8] __asm__("{symbol}") = {{vt + 16, "{symbol[4:]}"}};')
        elif kind in "BbDdRrVu":
            code.append(f'char d{number}[256] __asm__("{symbol}") __attribute__((aligned(16)));')
        else:
            body = CALLED.get(symbol, "void %s(void) { __builtin_trap(); }").replace("%s", f"f{number}")
            code.append(f'{body}\n__asm__(".globl {symbol}\\n.set {symbol}, f{number}\\n.type {symbol}, @function");')
    script = "".join(f'{version} {{ global: {" ".join(s + ";" for s in names)} }};\n'
                     for version, names in versions.items() if version)
    with tempfile.TemporaryDirectory() as folder:
        source, version_script = Path(folder, "stand_in.c"), Path(folder, "versions")
        source.write_text("\n".join(code))
        version_script.write_text(script)
        path.unlink(missing_ok=True)
        subprocess.run(["cc", "-shared", "-fPIC", "-O0", "-o", path, source, f"-Wl,-soname,{path.name}"]
                       + ([f"-Wl,--version-script={version_script}"] if script else []), check=True)


def main(site):
    before = size(site)
    for pattern in UNUSED:
        for path in site.glob(pattern):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    torch_lib = site / "torch/lib"
    libraries = [Library(p) for d in ("torch", "nvidia") for p in (site / d).rglob("*.so*") if not p.is_symlink()]
    gone = {name: kind for library in libraries if library.path.name in GONE for name, kind in library.defined.items()}
    kept = [library for library in libraries if library.path.name not in GONE]
    wanted = {name for library in kept for name in library.wanted} - {name for library in kept for name in library.defined}
    for name in GONE:
        (torch_lib / name).unlink(missing_ok=True)
    stand_in(torch_lib / TORCH_CUDA, {name: gone[name] for name in wanted if name in gone})

    have = {p.name for p in site.rglob("*.so*")}
    for soname in {n for library in kept for n in library.needed if re.match(r"lib(cu|nv|nccl)(?!da\.so)", n)} - have:
        # its symbols have its name as version, or begin with its name
        prefix = soname[len("lib"):soname.index(".")]
        stand_in(torch_lib / soname, {n: "T" for n in wanted if n.endswith(f"@{soname}") or "@" not in n and n.lower().startswith(prefix)})

    # not for all packages: strip breaks libraries that patchelf has enlarged
    for path in (p for d in ("torch", "vllm", "ray") for p in (site / d).rglob("*") if p.is_file() and not p.is_symlink()):
        with open(path, "rb") as f:
            if f.read(4) == b"\x7fELF":
                subprocess.run(["strip", "--strip-unneeded", path], check=True)
    print(f"{before // 10**6} MB -> {size(site) // 10**6} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
