"""Functions as text: C and NumPy compute what the graph does."""

import shutil
import subprocess

import numpy as np
import pytest

from dressi.ad import functional as F
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.types import FLOAT, MAT2, VEC3
from dressi.errors import GraphError


def problem():
    p, t = Variable(VEC3, name="p"), Variable(FLOAT, name="t")
    m = Variable(MAT2, name="m")
    y = F.normalize(p) * F.sin(-t) + F.clamp(p, 0.1, 0.9) / t
    outputs = [
        y,
        m @ F.vec2(t, 1.0),
        F.select(t > 0.5, F.pow(t, 1.5), F.atan2(t, p.x)),
        F.fract(t) + F.sign(-p.y),
    ]
    values = {p: [0.3, -1.2, 0.8], t: 1.7, m: [[1.0, 2.0], [3.0, 4.0]]}
    given = {
        "p_x": 0.3,
        "p_y": -1.2,
        "p_z": 0.8,
        "t": 1.7,
        "m_00": 1.0,
        "m_01": 2.0,
        "m_10": 3.0,
        "m_11": 4.0,
    }
    return outputs, np.concatenate([x.ravel() for x in evaluate(outputs, values)]), given


def test_numpy_computes_it():
    outputs, expected, given = problem()
    made: dict = {}
    exec(F.source(outputs, "numpy", "f"), made)
    np.testing.assert_allclose(made["f"](**given), expected, rtol=1e-14)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_c_compiles_and_computes_it(tmp_path):
    outputs, expected, given = problem()
    header = F.source(outputs, "c", "f")
    (tmp_path / "f.h").write_text(header)
    order = (
        header[header.index("f(") + 2 : header.index("double out[")].replace("double ", "").split(", ")[:-1]
    )
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "f.h"\nint main(void) {\n'
        f"  double out[{len(expected)}];\n  f({', '.join(repr(given[x]) for x in order)}, out);\n"
        f'  for (int k = 0; k < {len(expected)}; ++k) printf("%.17g\\n", out[k]);\n  return 0;\n}}\n'
    )
    call = ["cc", "-std=c99", "-Wall", "-Werror", "main.c", "-o", "main", "-lm"]
    subprocess.run(call, cwd=tmp_path, check=True, timeout=120)
    said = subprocess.run([tmp_path / "main"], check=True, capture_output=True, text=True, timeout=60).stdout
    np.testing.assert_allclose([float(x) for x in said.split()], expected, rtol=1e-14)


def test_glsl_has_its_names_and_bad_names_are_refused():
    outputs, _, _ = problem()
    text = F.source(outputs, "glsl", "f")
    assert text.startswith("void f(float p_x, float p_y, float p_z, float t, ") and "result[6]" in text
    x, twin = Variable(FLOAT, name="x"), Variable(FLOAT, name="x")
    for outputs, language, word in (
        ([x], "rust", "glsl"), ([], "c", "no output"), (3.0, "c", "not 3.0"), ([x + twin], "c", "two leaves"), ([Variable(FLOAT) * 1.0], "c", "no name"),
        ([Variable(FLOAT, name="for") * 2.0], "c", "another name"), ([F.mean(Variable(FLOAT, (2, 2), name="i"))], "c", "text"),
    ):  # fmt: skip
        with pytest.raises(GraphError, match=word):
            F.source(outputs, language)
    with pytest.raises(GraphError, match="at least 1 sum"):
        F.source(x, product_cost=0.5)
