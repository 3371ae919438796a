"""What a user reads when GLSL of their own does not compile, and includes from their own folder."""

import importlib.util
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from dressi import Device, DressiAD, F, PixelFunction, Variable, evaluate
from dressi.config import config
from dressi.errors import DressiError, GraphError, InputError, ShaderError
from dressi.vk.run.shaders import pyglslang
from dressi.vk.run.shaders.pyglslang import CompilerProgram

pytestmark = pytest.mark.one_driver  # shaders are compiled on the host


class Scale(PixelFunction):
    """Its GLSL is replaced by the tests."""

    fields = ("glsl",)
    glsl = ""

    def __init__(self, x, glsl):
        self.glsl = glsl
        super().__init__(x)

    def infer(self):
        return self.inputs[0].vtype, self.broadcast()

    def eval(self, x):
        return x


class Written(PixelFunction):
    glsl = """
        float twice = $0 + $0;
        $y = twise;  // the typing error of this test
    """

    def infer(self):
        return self.inputs[0].vtype, self.broadcast()

    def eval(self, x):
        return 2 * x


@pytest.fixture(autouse=True)
def no_cache():
    with config(cache=None):
        yield


def leaf() -> Variable:
    return Variable(size=(4, 4), data=np.ones((1, 4, 4)))


def error(own: Device, y: Variable) -> str:
    with DressiAD(own) as ad:
        ad.set_output("y", y)
        with pytest.raises(ShaderError) as caught:
            ad.step()
    return str(caught.value)


def test_the_function_its_snippet_and_both_places_are_shown(own):
    text = Path(__file__).read_text().splitlines()
    y = Written(leaf() + 1).output
    message = error(own, F.sqrt(y * 2))
    head, _, rest = message.partition("\n\n")
    lines = head.splitlines()
    assert lines[0].startswith("the GLSL of Written does not compile, line 2: ")
    assert "twise" in lines[0] and "undeclared" in lines[0]
    assert lines[1] == "    1 | float twice = $0 + $0;"
    assert lines[2] == ">   2 | $y = twise;  // the typing error of this test"
    wrong = 1 + next(k for k, line in enumerate(text) if "$y = twise;  // the" in line)
    applied = 1 + next(k for k, line in enumerate(text) if "Written(leaf() + 1)" in line)
    assert lines[3] == f"Written at {__file__}:{wrong}, applied at {__file__}:{applied}"
    assert "does not compile" in rest and "fragment" in rest and "| " in rest


@pytest.mark.parametrize(
    ("glsl", "line", "word"),
    [
        ("$0 * facto", 1, "facto"),
        ("float a = $0;\n\n  float b = a *;\n$y = b;", 3, "syntax error"),
        ("vec3 a = vec3($0);\n$y = a;", 2, "cannot convert"),
        ("float a = $0;\n$y = a", 2, "syntax error"),
        ("if ($0 > 1.0) {\n  $y = 3.0;", 2, "syntax error"),
        ("sin($0", 1, "syntax error"),
    ],
    ids=["name", "operand", "type", "semicolon", "brace", "bracket"],
)
@pytest.mark.parametrize("where", ["fragment", "recomputed", "scatter", "reduction"])
def test_the_line_of_the_snippet_is_found_in_every_kind_of_shader(own, glsl, line, word, where):
    x = Scale(leaf(), glsl).output
    if where == "fragment":
        y = F.sqrt(x)
    elif where == "recomputed":
        y = F.shift(x, 1, 0) + F.shift(x, 0, 1)
    elif where == "scatter":
        y = F.scatter_add(x, F.linear_index((4, 4)), (16, 1), bound=4.0)
    else:
        y = F.square(F.sum(x))
    message = error(own, y)
    assert message.startswith(f"the GLSL of Scale does not compile, line {line}: "), message
    assert word in message.splitlines()[0]
    assert f"applied at {__file__}:" in message


def test_of_two_applications_the_wrong_one_is_named(own):
    right = Scale(leaf(), "$0 * 2.0").output
    wrong = Scale(right, "$0 * facto").output
    message = error(own, wrong + right)
    line = 1 + next(
        k for k, text in enumerate(Path(__file__).read_text().splitlines()) if 'Scale(right, "$0 * f' in text
    )
    assert f"applied at {__file__}:{line}" in message and ">   1 | $0 * facto" in message


@pytest.mark.parametrize("program", ["glslc", "glslangValidator"])
def test_programs_are_read_too(own, monkeypatch, program):
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"there is no {program}")
    monkeypatch.setattr(pyglslang, "compiler", lambda: CompilerProgram(Path(path)))
    message = error(own, Scale(leaf(), "float a = $0;\n$y = b;").output)
    assert message.startswith("the GLSL of Scale does not compile, line 2: 'b'"), message


# ---- includes

MODULE = """
from dressi.ad.graph import PixelFunction

class Noisy(PixelFunction):
    includes = {includes}
    glsl = "noise($0)"
    def infer(self): return self.inputs[0].vtype, self.broadcast()
    def eval(self, x): return x
"""


def module(folder: Path, includes: object):
    """A module of a user in a folder of their own."""
    file = folder / "mine.py"
    file.write_text(MODULE.format(includes=repr(includes)))
    spec = importlib.util.spec_from_file_location("mine_for_a_test", file)
    assert spec and spec.loader
    made = sys.modules["mine_for_a_test"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def value(own: Device, y: Variable) -> float:
    with DressiAD(own) as ad:
        ad.set_output("y", y)
        ad.step()
        return float(ad.recv("y")[0, 0, 0])


@pytest.mark.parametrize(
    "path", ["noise.glsl", "glsl/noise.glsl", "../shared/noise.glsl", "absolute", "text"]
)
def test_includes_come_from_the_folder_of_the_class(own, tmp_path, path):
    folder = tmp_path / "project"
    folder.mkdir()
    file = tmp_path / "project" / "noise.glsl" if path in ("absolute", "text") else folder / path
    file.parent.mkdir(exist_ok=True)
    file.write_text("float noise(float x) { return 7.0 * x; }\n")
    includes = {"absolute": (str(file),), "text": "noise.glsl"}.get(path, (path,))
    assert value(own, module(folder, includes).Noisy(leaf()).output) == 7


def test_an_edited_include_is_compiled_again(own, tmp_path):
    with config(cache=tmp_path / "cache"):
        for factor in (3.0, 5.0, 3.0):
            (tmp_path / "noise.glsl").write_text(f"float noise(float x) {{ return {factor} * x; }}\n")
            assert value(own, module(tmp_path, ("noise.glsl",)).Noisy(leaf()).output) == factor


def test_an_edited_include_is_seen_by_evaluations(own, tmp_path):
    """They keep programs by what these compute."""
    file, x = tmp_path / "noise.glsl", leaf()
    kind = None
    with DressiAD(own) as ad:
        for factor in (3.0, 52.0):
            file.write_text(f"float noise(float x) {{ return {factor} * x; }}\n")
            kind = kind or module(tmp_path, ("noise.glsl",)).Noisy
            y = kind(x).output
            assert evaluate(y, device=own.physical.index)[0, 0, 0] == factor
            assert ad.recv(y)[0, 0, 0] == factor


def test_own_shaders_can_be_included_and_two_functions_share_a_file(own, tmp_path):
    (tmp_path / "noise.glsl").write_text("float noise(float x) { return 2.0 * x; }\n")
    kind = module(tmp_path, ("trigonometry.glsl", "noise.glsl")).Noisy
    assert value(own, kind(kind(leaf()).output).output) == 4


def test_a_line_of_an_included_file_is_named(own, tmp_path):
    (tmp_path / "noise.glsl").write_text("// noise\nfloat noise(float x) {\n  return y;\n}\n")
    message = error(own, module(tmp_path, ("noise.glsl",)).Noisy(leaf()).output)
    assert message.startswith(f"the included file '{tmp_path / 'noise.glsl'}' does not compile, line 3: 'y'")


@pytest.mark.parametrize(
    ("prepare", "kind", "words"),
    [
        (
            lambda p: None,
            GraphError,
            "Noisy includes 'noise.glsl', which is no file in .* where Noisy is defined",
        ),
        (lambda p: (p / "noise.glsl").mkdir(), GraphError, "which is no file in "),
        (lambda p: (p / "noise.glsl").write_bytes(b"\xff\xfe\x00"), InputError, "not text in UTF-8"),
        (lambda p: (p / "noise.glsl").write_bytes(b" " * ((1 << 20) + 1)), InputError, "is it GLSL"),
    ],
    ids=["missing", "folder", "binary", "large"],
)
def test_includes_that_cannot_be_read_are_named(own, tmp_path, prepare, kind, words):
    prepare(tmp_path)
    y = module(tmp_path, ("noise.glsl",)).Noisy(leaf()).output
    with DressiAD(own) as ad:
        ad.set_output("y", y)
        with pytest.raises(kind, match=words) as caught:
            ad.step()
    assert str(tmp_path) in str(caught.value)
    assert isinstance(caught.value, DressiError)
