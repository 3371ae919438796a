"""The snippets of all Functions are GLSL: each compiled alone, as the body of a small shader written here."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from examples import EXAMPLES, leaf

from dressi.ad.graph import DrawFunction, Function, ScatterFunction
from dressi.ad.loops.node import LoopFunction
from dressi.ad.ops.pixel.constant import float_literal, int_literal
from dressi.ad.transform.gradient import gradient
from dressi.ad.traversal import topological_order
from dressi.ad.types import FLOAT, Access

SHADERS = Path(__file__).resolve().parents[3] / "shaders"
VALIDATOR = shutil.which("glslangValidator")


def shader(f: Function) -> str:
    """A fragment shader that runs the snippet of f once, all inputs being varyings or dummy fetch functions."""
    words = {"y": "result", "type": f.output.vtype.glsl, "batch": f.output.batch}
    words["size"] = "ivec2({}, {})".format(*f.output.size)
    head = [(SHADERS / name).read_text() for name in f.includes]
    head += ["ivec2 pixel = ivec2(gl_FragCoord.xy); int tile = 0;"]
    for k, (x, access) in enumerate(zip(f.inputs, f.access, strict=True)):
        t = x.vtype.glsl
        words[f"type{k}"], words[f"batch{k}"] = t, x.batch
        words[f"size{k}"] = "ivec2({}, {})".format(*x.size)
        words[str(k)] = f"in{k}"
        if access is Access.SAME_PIXEL:
            head.append(f"uniform {t} in{k};")
        else:
            head.append(f"uniform {t} data{k}; {t} in{k}(ivec2 texel, int tile) {{ return data{k}; }}")
    filled = re.sub(r"\$(\w+)", lambda m: str(words[m[1]]), f.glsl)
    statement = filled if "$y" in f.glsl else f"result = {filled};"
    return "\n".join(
        ["#version 450", *head, "out float color;", "void main() {"]
        + [f"precise {f.output.vtype.glsl} result;", f"{{ {statement} }}", "color = 0.0; }"]
    )


def all_shaders() -> dict[str, str]:
    """Shaders of the Functions in all examples and in their gradients, by a name."""
    found: dict[str, str] = {}
    for builds in EXAMPLES.values():
        for build in builds:
            example = build()
            y = example.output
            roots = [y]
            if example.wrt:
                roots += gradient(y, example.wrt, leaf(y.vtype, y.size, y.batch))
            for f in topological_order(roots):
                if not isinstance(f, (ScatterFunction, DrawFunction, LoopFunction)):
                    found.setdefault(shader(f), f"{type(f).__name__}_{len(found)}")
    return {name: text for text, name in found.items()}


@pytest.mark.skipif(VALIDATOR is None, reason="needs glslangValidator")
def test_all_snippets_compile(tmp_path: Path):
    texts = all_shaders()
    for name, text in texts.items():
        (tmp_path / f"{name}.frag").write_text(text)
    run = subprocess.run(
        [str(VALIDATOR), *(f"{name}.frag" for name in texts)], cwd=tmp_path, capture_output=True, text=True
    )
    problems = [line for line in run.stdout.splitlines() if "ERROR" in line or "WARNING" in line]
    assert run.returncode == 0 and not problems, "\n".join(problems[:40])


def test_float_literals_are_exact():
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2**32, 5000, dtype=np.uint64).astype(np.uint32)
    values = np.concatenate([bits.view(np.float32), np.float32([0, -0.0, 1, 1e20, 0.1, 3.4028235e38, 1e-38])])
    for value in values:
        text = float_literal(float(value))
        if text.startswith("uintBitsToFloat"):
            assert not np.isfinite(value) or abs(value) < np.finfo(np.float32).tiny
            parsed = np.uint32(int(text[16:-2], 16)).view(np.float32)
        else:
            assert re.fullmatch(r"-?(\d+\.\d*|\d+)(e[-+]?\d+)?", text) and re.search(r"[.e]", text)
            parsed = np.float32(float(text))
        assert np.isnan(value) or (parsed == value and np.signbit(parsed) == np.signbit(value))
    assert FLOAT.glsl == "float" and int_literal(-(2**31)) == "int(0x80000000u)" and int_literal(-5) == "-5"
