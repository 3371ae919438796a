"""Expressions: equal ones are one, Jacobians, and what is written."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from command_line import refuses, run
from numpy.testing import assert_allclose
from random_graphs.programs import changed, disagreements, random_outputs

from dressi import FLOAT, INT, MAT2, MAT3, VEC2, VEC3, F, GraphError, Variable, gradient, hvp, jvp, vjp
from dressi.ad.expressions.count import as_written, count, fewest, shortest
from dressi.ad.expressions.jacobian import Writer, component_of, jacobian_steps
from dressi.ad.expressions.reader import Reader
from dressi.ad.expressions.table import ONE, Table
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.ops.pixel.kinds import Pointwise
from dressi.ad.transform.fused import fused
from dressi.cli.commands import app

a, b, c = (Variable(FLOAT, name=name) for name in "abc")


@pytest.mark.parametrize(
    "pair",
    [
        lambda: ((a + b) * (a - b), F.square(a) - F.square(b)),
        lambda: (2.0 * a + 4.0 * b + 3.0 * a, 4.0 * b + 5.0 * a),
        lambda: (a * b / b, a),
        lambda: (F.sin(-a), -F.sin(a)),
        lambda: (F.square(F.sin(a)) + F.square(F.cos(a)), F.constant(1.0)),
        lambda: (F.sqrt(a) * F.sqrt(a) * b, a * b),
        lambda: (a - (a + 0.0 * b), F.constant(0.0)),
        lambda: (a / -1.0, -a),
        lambda: (F.mix(a, b, 0.25), 0.75 * a + 0.25 * b),
        lambda: (F.pow(a, 3.0) / a, a * a),
        lambda: (F.sin(a + b - a), F.sin(b)),
        lambda: (F.exp(F.log(a)), a),
        lambda: (F.exp2(-2.0 * F.log2(a)), 1.0 / (a * a)),
        lambda: (F.log(F.exp(a + b)), a + b),
        lambda: (F.square(1.0 / F.sqrt(a)), 1.0 / a),
        lambda: ((b * F.inversesqrt(a)) * (c / F.sqrt(a)), b * c / a),
        lambda: (F.maximum(a, a) + F.minimum(b, b), a + b),
        lambda: (F.maximum(F.maximum(a, b), a), F.maximum(a, b)),
        lambda: (F.select(a > 0.5, F.select(a > 0.5, b, 0.0), c), F.select(a > 0.5, b, c)),
        lambda: (F.select(a > 0.5, c, 3.0 * F.select(a > 0.5, c, b)), F.select(a > 0.5, c, 3.0 * b)),
        lambda: (F.select(a > 0.5, b, F.select(a > 0.5, c, b)), b),
        lambda: (F.select(F.constant(1.0), a, b), a),
        lambda: (F.maximum(a, F.minimum(a, b)), a),
        lambda: (F.square(a > b) * c + (a > b) * c, 2.0 * (a > b) * c),
        lambda: (F.logical_not(F.logical_not(a > b)) * F.logical_and(a > b, a > b), a > b),
        lambda: (F.logical_or(a > b, F.logical_and(b > c, a > b)), a > b),
        lambda: (F.logical_and(a > b, F.constant(1.0)), a > b),
        lambda: (
            F.select(F.logical_and(a > b, b > c), F.select(a > b, c, a), b),
            F.select(F.logical_and(a > b, b > c), c, b),
        ),
        lambda: (
            F.select(a > b, F.select(F.logical_not(F.logical_or(a > b, b > c)), b, c), a),
            F.select(a > b, c, a),
        ),
    ],
)
def test_equal_expressions_are_one(pair):
    x, y = Reader(Table()).read(pair())
    assert x == y


def test_expressions_that_differ_stay_apart():
    terms = [a, b, a + b, a * b, F.sin(a), F.cos(a), F.exp(a), F.sqrt(a), a * a, a / b, F.select(a > b, a, b)]
    terms += [
        F.log(2.0 * F.exp(a)),
        F.exp(0.5 * F.log(a)),
        F.maximum(a, -a),
        F.select(a > b, F.select(b > a, a, b), b),
    ]
    terms += [
        (b / F.sqrt(a)) * c,
        F.maximum(a, F.minimum(b, c)),
        F.square(a - (a > b)),
        2.0**28 * a + b - 2.0**-33 * a,
    ]
    read = [x for (x,) in Reader(Table()).read([*terms, *(2.0 * t for t in terms)])]
    assert len({x.entry for x in read}) == len(terms) and ONE not in {x.entry for x in read}
    assert len(set(read)) == 2 * len(terms)


def test_sums_and_products_are_few():
    assert fewest([a * b + a * c]).total == 2
    assert fewest([a * b * c, b * c + 1.0]).total == 3
    horner = fewest([1.0 + 2.0 * a + 3.0 * a * a + 4.0 * a * a * a])
    assert (horner.adds, horner.multiplies) == (3, 3)
    assert fewest([-(a - b), b - a]).total == 1
    assert fewest([a / c, b]).divides == 1 and fewest([a / c]).multiplies == 0
    assert as_written([a * b + a * c]).total == 3
    x, y, z, p, q, v, w = (Variable(FLOAT, name=name) for name in "xyzpqvw")
    spread = fewest([x * (a * p + b * q) + p * y + q * z])  # p (x a + y) + q (x b + z)
    assert (spread.adds, spread.multiplies) == (3, 4)
    # Multiplied out, both are sums of products of p and q with the same two sums.
    one, other = v * p + w * q, v * q - w * p
    turned = [
        x * one + z * other + y * p + a * p + b * q + c * q,
        z * one - x * other + b * p + c * p - y * q - a * q,
    ]
    assert fewest(turned).multiplies == 8
    assert count(jacobian_steps([a / c], [a, c])).divides == 1
    # Where products are dearer: three vectors turned by one angle, each with three products instead of four.
    pairs = ((x, y), (z, v), (p, q))
    rotated = [w for p, q in pairs for w in (a * p - b * q, b * p + a * q)]
    assert fewest(rotated).multiplies == 12 and fewest(rotated, 2.0).multiplies == 9
    values = dict(zip((a, b, x, y, z, p, q, v), (0.3, -1.2, 0.7, 2.1, -0.4, 0.9, 1.7, -2.3), strict=True))
    assert_allclose(evaluate(written(rotated, 2.0), values), evaluate(rotated, values), rtol=1e-13)
    # A symmetric matrix times three vectors.
    symmetric = [w for p, q in pairs for w in (a * p + b * q, b * p + c * q)]
    assert fewest(symmetric, 2.0).multiplies == 9
    # Constants that no single precision holds stay apart.
    tiny = a
    for _ in range(8):
        tiny = tiny * 1e-12
    assert evaluate(written([tiny])[0:1], {a: 1.0})[0].item() == pytest.approx(1e-96)


@pytest.mark.parametrize(
    ("build", "adds", "multiplies"),
    [
        (lambda: 2.0 * a + 4.0 * b + 3.0 * a, 1, 2),
        (lambda: 0.1 * a + b + 0.2 * a + c + 0.5 * b, 2, 2),
        (lambda: 2.0 * a + 4.0 * b - 5.0 * a, 1, 2),
        (lambda: (2.0 + a) * b + 3.0 * b, 1, 1),
        (lambda: (a + 2.0) - (b + 5.0), 2, 0),
        (lambda: F.maximum(F.constant(2.0), F.constant(3.0)) * a + b * a, 1, 1),
        (lambda: 2.0 * a + F.exp(F.constant(1.0)) * a + b, 1, 1),
        (lambda: (2.0 * a + 4.0 * b + c) - 2.0 * a, 1, 1),
    ],
)
def test_constants_are_computed_when_steps_are_made(build, adds, multiplies):
    y = build()
    found = fewest([y])
    assert (found.adds, found.multiplies, found.calls) == (adds, multiplies, {})
    values = {a: 0.7, b: -1.3, c: 2.1}
    (expected,) = evaluate([y], values)
    assert evaluate(written([y]), values)[0].item() == pytest.approx(expected.item(), rel=1e-14)


def written(outputs, product_cost=1.0):
    reader = Reader(Table())
    roots = [x for y in reader.read(outputs) for x in y]
    return Writer(shortest(reader.table, roots, product_cost)).roots()


@pytest.mark.parametrize("seed", range(12))
def test_steps_compute_what_the_graph_does(seed):
    outputs, values = random_outputs(seed)
    for y, found in zip(evaluate(outputs, values), evaluate(written(outputs), values), strict=True):
        np.testing.assert_allclose(np.broadcast_to(found, y.shape), y, rtol=1e-11, atol=1e-11)
    assert fewest(outputs).total <= as_written(outputs).total


def test_what_is_read_at_other_texels_counts():
    x, y = (Variable.of(np.ones((4, 4)), FLOAT) for _ in range(2))
    found = fewest([F.shift(F.sin(x) * y, 1, 0) + x])
    assert found.calls == {"sin": 1, "gather": 1} and (found.adds, found.multiplies) == (1, 1)


def leaf(vtype, size=(1, 1), seed=0):
    v = Variable(vtype, size)
    v.data = np.random.default_rng(seed).uniform(0.5, 1.5, v.shape)
    return v


def everything():
    p, s = leaf(VEC3, (3, 2)), leaf(FLOAT, (3, 2), 1)
    w, m = leaf(VEC3, seed=2), leaf(MAT3, seed=3)
    n = F.normalize(p)
    outputs = [
        F.dot(n, w), F.cross(p, w) * s, m @ p, F.length(p), F.select(p.x > 1.0, F.sin(s), F.exp(-s) * p.z),
        F.maximum(p.x, p.y) * F.pow(s, 2.5), F.sigmoid(p), F.clamp(s, 0.7, 1.2), F.sqrt(s) / F.abs(p.z),
        F.reflect(n, F.normalize(w)), F.mix(p, w, s), m @ F.transpose(m),
        F.determinant(m), F.inverse(m @ m + s * m),
    ]  # fmt: skip
    return outputs, [p, s, w, m]


def test_rows_are_gradients_of_the_components():
    outputs, inputs = everything()
    rows = F.jacobian(outputs, inputs)
    components = [component_of(y, k) for y in outputs for k in range(y.vtype.components)]
    assert len(rows) == len(components)
    for y, row in zip(components, rows, strict=True):
        for x, entry in zip(inputs, row, strict=True):
            assert (entry.vtype, entry.domain) == (x.vtype, y.domain)
            for k in range(x.vtype.components):
                seed = np.zeros(x.vtype.components)
                seed[k] = 1.0
                (along,) = evaluate(jvp([y], [x], [F.constant(seed.reshape(x.vtype.shape), x.vtype)]))
                (found,) = evaluate([component_of(entry, k)])
                assert_allclose(found, along, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    ("widths", "products", "sums"), [((3, 2, 5, 2, 3), 50, 31), ((2, 4, 1, 4, 2), 20, 12)]
)
def test_jacobians_are_multiplied_in_the_cheapest_order(widths, products, sums):
    layers = [leaf(FLOAT, (1, 1), seed) for seed in range(widths[0])]
    inputs, values, seed = layers, layers, 10
    for width in widths[1:]:
        seed += 100
        values = [
            sum(leaf(FLOAT, (1, 1), seed + 10 * i + j) * x for j, x in enumerate(values))
            for i in range(width)
        ]
    found = count(jacobian_steps(values, inputs))
    assert (found.multiplies, found.adds) == (products, sums)
    for y, row in zip(values, F.jacobian(values, inputs), strict=True):
        assert_allclose(evaluate(row), evaluate(gradient(y, inputs)), rtol=1e-12)


def test_by_an_intermediate_and_of_uniform_values():
    x = leaf(FLOAT, (4, 1))
    y = F.square(x)
    ((by_y,),) = F.jacobian(F.sin(y) * y, y)
    values = y_of = x.data**2
    assert_allclose(evaluate([by_y])[0], np.cos(values) * values + np.sin(y_of))
    ((zero,),) = F.jacobian(F.sin(x), leaf(FLOAT))
    assert (evaluate([zero])[0] == 0).all() and zero.domain == x.domain


def test_hessians_are_symmetric_products():
    p = leaf(VEC3, (2, 1))
    y = F.exp(p.x * p.y) * F.length(p) + F.sin(p.z) * p.x
    rows = F.hessian(y, p)
    dense = np.stack([evaluate([row[0]])[0] for row in rows], axis=-2)
    assert_allclose(dense, np.swapaxes(dense, -1, -2), rtol=1e-12)
    direction = np.array([0.3, -0.2, 0.9])
    (product,) = evaluate(hvp(F.sum(y), [p], [F.constant(direction, VEC3)]))
    assert_allclose(dense @ direction, product, rtol=1e-10)


def test_higher_orders():
    x = leaf(FLOAT, (5, 1))
    third = F.derivative(F.sin(x) * F.exp(x), x, order=3)
    expected = 2.0 * np.exp(x.data) * (np.cos(x.data) - np.sin(x.data))
    assert_allclose(evaluate([third])[0], expected, rtol=1e-12)
    assert evaluate([F.derivative(F.vec2(x, x * x), x, order=0)])[0].shape == (1, 1, 5, 2)
    assert (evaluate([F.derivative(x**3, x, order=4)])[0] == 0.0).all()


def test_a_length_of_zero_keeps_its_derivative():
    p = Variable.of([[0.0, 0.0, 0.0]], VEC3)
    for row in F.jacobian([F.length(p), F.normalize(p), F.sqrt(p.x)], p):
        assert (evaluate(row)[0] == 0.0).all()


@pytest.mark.parametrize("seed", range(6))
def test_random_graphs(seed):
    assert disagreements(100 + seed, 30) == []


def test_masks_extremes_and_selects_keep_their_values():
    assert [text for seed in range(12) for text in changed(seed)] == []


@pytest.mark.parametrize("seed", [5032, 5085, 5088])
def test_ratios_that_are_too_long_are_not_recognised(seed):
    assert disagreements(seed) == []


def test_an_infinite_constant_stays_one():
    x = leaf(FLOAT, (3, 1))
    ((slope,),) = F.jacobian(F.minimum(x * x, float("inf")) + F.constant(float("inf")), x)
    assert_allclose(evaluate([slope])[0], 2.0 * x.data)


def test_vjp_is_the_transpose_of_jvp():
    p = leaf(VEC2, (3, 1))
    y = [F.sin(p), p.x * p.y]
    seeds, along = [leaf(VEC2, (3, 1), 4), leaf(FLOAT, (3, 1), 5)], leaf(VEC2, (3, 1), 6)
    (back,) = evaluate(vjp(y, p, seeds))
    forth = evaluate(jvp(y, p, [along]))
    one = sum((np.asarray(s.data).reshape(f.shape) * f).sum() for s, f in zip(seeds, forth, strict=True))
    assert (back * along.data.reshape(back.shape)).sum() == pytest.approx(one)
    with pytest.raises(GraphError, match="one for each output"):
        vjp(y, p, [1.0])


@fused
def softened(x, *, width):
    return x * x / (F.abs(x) + width)


def test_it_goes_through_hints_loops_checkpoints_and_fused_graphs():
    x = leaf(FLOAT, (3, 1))
    for y in (
        F.store(x * x) * F.recompute(x),
        softened(x, width=0.5) * x,
        F.checkpoint(lambda x: F.sin(x) * x, x),
        F.loop(lambda y: 0.5 * (y + x * x / (1.0 + y * y)), x, 5),
    ):
        ((found,),) = F.jacobian(y, x)
        values = evaluate([found, *gradient(y, [x], F.constant(1.0))])
        assert_allclose(*values, rtol=1e-12)


class Steep(Pointwise):
    """Without a derivative."""

    expression = "$0 * 1e3"

    def compute(self, x):
        return x * 1e3


def test_bad_input():
    x, whole = leaf(FLOAT, (3, 1)), Variable.of(np.arange(3), INT)
    for call, text in (
        (lambda: F.jacobian(F.mean(x), x), "no Function of one texel"),
        (lambda: F.jacobian(F.shift(x, 1, 0), x), "no Function of one texel"),
        (lambda: F.jacobian(whole, x), "a float Variable, not INT"),
        (lambda: F.jacobian(2.0, x), "a float Variable, not 2.0"),
        (lambda: F.jacobian([], x), "no output: give one"),
        (lambda: F.jacobian(x * x, x, limit="many"), "number of operations"),
        (lambda: F.jacobian(F.exp(x) * F.sin(x), x, limit=2), "more than the limit of 2"),
        (lambda: F.hessian(F.vec2(x, x), x), "of one FLOAT"),
        (lambda: F.hessian([x, x], x), "of one FLOAT"),
        (lambda: F.derivative(x, x, order=-1), "order"),
        (lambda: F.derivative(x, leaf(VEC2)), "by one FLOAT"),
        (lambda: F.jacobian(x / 0.0, x), "constant zero"),
        (lambda: F.jacobian(x, leaf(FLOAT, (4, 1))), "has other texels than"),
        (lambda: F.jacobian(F.apply(Steep, x), x), "Steep.*test_expressions"),
        (lambda: F.derivative(F.sin(F.exp(F.sin(x))), x, order=30, limit=200), "more than the limit of 200"),
    ):
        with pytest.raises(GraphError, match=text):
            call()


def problem():
    p, t = Variable(VEC3, name="p"), Variable(FLOAT, name="t")
    m = Variable(MAT2, name="m")
    outputs = [
        F.normalize(p) * F.sin(-t) + F.clamp(p, 0.1, 0.9) / t,
        m @ F.vec2(t, 1.0),
        F.select(t > 0.5, F.pow(t, 1.5), F.atan2(t, p.x)),
        F.fract(t) + F.sign(-p.y),
    ]
    values = {p: [0.3, -1.2, 0.8], t: 1.7, m: [[1.0, 2.0], [3.0, 4.0]]}
    names = "p_x p_y p_z t m_00 m_01 m_10 m_11".split()
    given = dict(zip(names, (0.3, -1.2, 0.8, 1.7, 1.0, 2.0, 3.0, 4.0), strict=True))
    return outputs, np.concatenate([x.ravel() for x in evaluate(outputs, values)]), given


def test_numpy_computes_it():
    outputs, expected, given = problem()
    made: dict = {}
    exec(F.source(outputs, "numpy", "f"), made)
    assert_allclose(made["f"](**given), expected, rtol=1e-14)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_c_compiles_and_computes_it(tmp_path):
    outputs, expected, given = problem()
    header = F.source(outputs, "c", "f")
    (tmp_path / "f.h").write_text(header)
    parameters = header[header.index("f(") + 2 : header.index("double out[")]
    order = parameters.replace("double ", "").split(", ")[:-1]
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "f.h"\nint main(void) {\n'
        f"  double out[{len(expected)}];\n  f({', '.join(repr(given[x]) for x in order)}, out);\n"
        f'  for (int k = 0; k < {len(expected)}; ++k) printf("%.17g\\n", out[k]);\n  return 0;\n}}\n'
    )
    call = ["cc", "-std=c99", "-Wall", "-Werror", "main.c", "-o", "main", "-lm"]
    subprocess.run(call, cwd=tmp_path, check=True, timeout=120)
    said = subprocess.run([tmp_path / "main"], check=True, capture_output=True, text=True, timeout=60).stdout
    assert_allclose([float(x) for x in said.split()], expected, rtol=1e-14)


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


PROGRAM = """
from dressi import F, VEC3, Variable
p = Variable.of([1.0, 2.0, 3.0], VEC3, name="p")
r = Variable.of(1.0, name="r")
outputs = {"distance": F.length(p) - r}
"""


def test_a_program_is_counted_and_written(tmp_path: Path, capsys: pytest.CaptureFixture):
    program, header, graph = tmp_path / "program.py", tmp_path / "f.h", tmp_path / "f.dot"
    program.write_text(PROGRAM)
    arguments = ["count", str(program), "--by", "p,r", "--source", str(header), "--dot", str(graph)]
    app(arguments, standalone_mode=False)
    lines = capsys.readouterr().out.splitlines()
    assert [" ".join(line.split()) for line in lines[1:3]] == ["sums and differences 3 3", "products 3 3"]
    assert any(line.startswith("their derivatives") for line in lines)
    assert "void f(double p_x, double p_y, double p_z, double out[4])" in header.read_text()
    assert graph.read_text().startswith("digraph")


def test_bad_input_of_counts(tmp_path: Path):
    program, empty, broken = tmp_path / "program.py", tmp_path / "empty.py", tmp_path / "broken.py"
    program.write_text(PROGRAM)
    empty.write_text("outputs = 3\n")
    broken.write_text("outputs = (\n")
    for arguments, text in (
        (("none.py",), "no such file"), ((empty,), "no `outputs`"), ((broken,), "is no Python"),
        ((program, "--by", "q"), "they read p, r"), ((program, "--source", "f.rs"), "says the language"),
        ((program, "--product-cost", "0.5"), "product-cost"),
    ):  # fmt: skip
        refuses(run("count", *arguments), text)
