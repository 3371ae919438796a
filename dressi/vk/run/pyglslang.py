"""GLSL to SPIR-V: glslang in process, through ctypes, with a cache on disk.

`compiler()` takes the first of these that works on the machine:

1. a shared library of glslang with its C interface (distribution, Vulkan SDK, Homebrew),
2. the distribution's static libraries (Debian's `glslang-dev`), linked once into a shared one in the cache (0.2 s),
3. a shared library of shaderc (what the Vulkan SDK brings on Windows and macOS),
4. with a warning, the programs `glslc` (one process for all shaders) or `glslangValidator` (one process a shader).

The results are kept in `config.cache` under the hash of source, stage and compiler.
"""

import atexit
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from dressi.config import config
from dressi.errors import ShaderError
from dressi.vk.run.glsl_compilers import (
    Compiler,
    CompilerProgram,
    GlslangLibrary,
    Shader,
    ShadercLibrary,
    fingerprint,
)

CURE = (
    "install glslang: on Debian or Ubuntu `apt install glslang-dev spirv-tools g++`, elsewhere the Vulkan SDK"
)

_STAGES = ("vertex", "fragment", "compute")
_MAGIC = (0x07230203).to_bytes(4, "little")


def compile_glsl(source: str, stage: str, name: str) -> bytes:
    """SPIR-V 1.0 of one shader.

    source: GLSL with its #version line. stage: "vertex", "fragment" or "compute". name: what messages call it.
    Raises ShaderError with the compiler's log and the numbered source.
    """
    return compile_many([Shader(source, stage, name)])[0]


def compile_many(shaders: Sequence[Shader | tuple[str, str, str]]) -> list[bytes]:
    """SPIR-V of each (source, stage, name), in order; equal shaders are compiled once.

    Raises ShaderError for the first one that does not compile.
    """
    jobs = [Shader(*shader) for shader in shaders]
    for job in jobs:
        if job.stage not in _STAGES:
            raise ShaderError(
                f"shader {job.name!r}: the stage is {job.stage!r}; use one of {', '.join(_STAGES)}"
            )
    if not jobs:
        return []
    chosen = compiler()
    keys = [_key(job, chosen) for job in jobs]
    known = {key: found for key in keys if (found := _load(key)) is not None}
    missing = {key: job for key, job in zip(keys, jobs, strict=True) if key not in known}
    if missing:
        for key, spirv in zip(missing, chosen.compile(list(missing.values())), strict=True):
            _save(key, spirv)
            known[key] = spirv
    return [known[key] for key in keys]


# The cache: one file a shader, a SHA-256 of the SPIR-V before it, so that a torn or foreign file is seen.


def _key(job: Shader, chosen: Compiler) -> str:
    return hashlib.sha256(f"{chosen.identity}\0{job.stage}\0{job.source}".encode()).hexdigest()


def _file(key: str) -> Path | None:
    return config.cache / "spirv" / key[:2] / f"{key}.spv" if config.cache else None


def _load(key: str) -> bytes | None:
    file = _file(key)
    if file is None:
        return None
    try:
        content = file.read_bytes()
    except OSError:
        return None
    digest, spirv = content[:32], content[32:]
    return spirv if spirv[:4] == _MAGIC and hashlib.sha256(spirv).digest() == digest else None


def _save(key: str, spirv: bytes) -> None:
    file = _file(key)
    if file is None:
        return
    # A full or read-only disk costs time, not the result. The rename keeps readers of other processes whole.
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_name(f"{file.name}.{os.getpid()}")
        temporary.write_bytes(hashlib.sha256(spirv).digest() + spirv)
        temporary.replace(file)


# Finding a compiler


@cache
def compiler() -> Compiler:
    """The compiler of this process, found at the first call. Raises ShaderError when the machine has none."""
    found = find_compiler()
    if not found.in_process:
        warnings.warn(
            f"glslang was not found as a library; shaders are compiled by the slower {found}. To speed up, {CURE}",
            RuntimeWarning,
            stacklevel=2,
        )
    return found


def find_compiler() -> Compiler:
    """The first that works, in the order of the module's docstring. Raises ShaderError when there is none."""
    for found in _candidates():
        return found
    raise ShaderError(f"no GLSL compiler was found; {CURE}")


def _candidates() -> Iterator[Compiler]:
    for file in _shared("glslang"):
        with suppress(OSError, AttributeError):
            yield GlslangLibrary(file)
    for folder in _library_folders():
        with suppress(OSError, AttributeError):
            yield GlslangLibrary(link_static(folder))
    for file in _shared("shaderc_shared", "shaderc"):
        with suppress(OSError, AttributeError):
            yield ShadercLibrary(file)
    yield from programs()


def programs() -> Iterator[Compiler]:
    """The compilers on the search path and in the Vulkan SDK that run as processes."""
    sdk = os.environ.get("VULKAN_SDK")
    folders = [None, *([f"{sdk}/bin", f"{sdk}/Bin"] if sdk else [])]
    for name in ("glslc", "glslangValidator"):
        for folder in folders:
            if path := shutil.which(name, path=folder):
                yield CompilerProgram(Path(path))


def _library_folders() -> list[Path]:
    folders = []
    if sdk := os.environ.get("VULKAN_SDK"):
        folders += [Path(sdk) / "lib", Path(sdk) / "Bin", Path(sdk) / "bin", Path(sdk) / "macOS" / "lib"]
    if sys.platform == "darwin":
        folders += [Path("/opt/homebrew/lib"), Path("/usr/local/lib")]
    elif sys.platform != "win32":
        folders += [
            Path("/usr/local/lib"),
            Path("/usr/lib64"),
            Path("/usr/lib"),
            *Path("/usr/lib").glob("*-linux-gnu"),
        ]
    return [folder for folder in folders if folder.is_dir()]


def _shared(*stems: str) -> list[Path]:
    """Shared libraries by stem in the usual folders; the plain name before those with a version, new ones first."""
    patterns = {"win32": ["{}.dll"], "darwin": ["lib{}.dylib", "lib{}.*.dylib"]}.get(
        sys.platform, ["lib{}.so", "lib{}.so.*"]
    )
    return [
        path
        for folder in _library_folders()
        for stem in stems
        for pattern in patterns
        for path in sorted(folder.glob(pattern.format(stem)), reverse=True)
    ]


# In the order in which GNU ld needs them; names that only some releases have are left out where they are missing.
_STATIC = ["glslang", "MachineIndependent", "GenericCodeGen", "OSDependent", "OGLCompiler", "SPIRV", "HLSL"]
_STATIC_PLAIN = ["SPIRV-Tools-opt", "SPIRV-Tools"]


def _temporary_folder() -> Path:
    folder = tempfile.mkdtemp(prefix="dressi-glslang-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def link_static(folder: Path) -> Path:
    """One shared library out of the static ones in `folder`, made once and kept in the cache.

    Raises OSError when they are not there or no C++ compiler is.
    """
    whole = [folder / f"lib{name}.a" for name in [*_STATIC, "glslang-default-resource-limits"]]
    whole = [file for file in whole if file.is_file()]
    plain = [file for name in _STATIC_PLAIN if (file := folder / f"lib{name}.a").is_file()]
    if not whole or whole[0].name != "libglslang.a":
        raise OSError(f"no libglslang.a in {folder}")
    suffix = "dylib" if sys.platform == "darwin" else "so"
    cached = config.cache / "glslang" if config.cache else _temporary_folder()
    target = cached / f"libglslang-{fingerprint(whole + plain)}.{suffix}"
    if target.is_file():
        return target
    linker = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if linker is None:
        raise OSError("the static libraries of glslang need a C++ compiler to be linked")
    if sys.platform == "darwin":
        inputs = [f"-Wl,-force_load,{file}" for file in whole] + [str(file) for file in plain]
    else:
        inputs = ["-Wl,--whole-archive", *map(str, whole), "-Wl,--no-whole-archive", *map(str, plain)]
        inputs += ["-Wl,--no-undefined", "-lpthread"]
    try:
        cached.mkdir(parents=True, exist_ok=True)
    except OSError:  # a read-only home: link again in each process
        target = _temporary_folder() / target.name
    temporary = target.with_name(f"{os.getpid()}-{target.name}")
    result = subprocess.run(
        [linker, "-shared", "-o", str(temporary), *inputs], capture_output=True, check=False
    )
    if result.returncode:
        temporary.unlink(missing_ok=True)
        raise OSError(f"linking {whole[0]} failed: {result.stderr.decode(errors='replace').strip()}")
    temporary.replace(target)
    return target
