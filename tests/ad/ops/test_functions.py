"""Every Function against its own rules: types, derivatives of first and second order, both modes of them."""

import numpy as np
import pytest
from examples import EXAMPLES, Build

from dressi.ad import functional as F
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import DrawFunction, Function, ScatterFunction, Variable
from dressi.ad.loops.node import LoopFunction
from dressi.ad.transform.gradient import gradient, jvp
from dressi.ad.traversal import topological_order
from dressi.ad.types import MAT3, VEC3

STEP = 1e-5


def concrete_functions() -> list[type[Function]]:
    """All classes of `dressi.ad` below Function that nothing in `dressi.ad` derives from."""
    found, stack = [], [Function]
    while stack:
        cls = stack.pop()
        below = [c for c in cls.__subclasses__() if c.__module__.startswith("dressi.ad.")]
        stack += below
        if not below:
            found.append(cls)
    return sorted(set(found), key=lambda c: (c.__module__, c.__name__))


CASES = [
    pytest.param(cls, build, id=f"{cls.__name__}-{k}")
    for cls, builds in EXAMPLES.items()
    for k, build in enumerate(builds)
]
DIFFERENTIABLE = [case for case in CASES if case.values[1]().wrt]
SEVERAL = [case for case in DIFFERENTIABLE if len(case.values[1]().wrt) > 1]


@pytest.mark.parametrize("cls", concrete_functions(), ids=lambda c: c.__name__)
def test_every_function_has_an_example(cls):
    assert EXAMPLES.get(cls), f"add an example of {cls.__name__} to tests/ad/examples.py"


@pytest.mark.parametrize("cls, build", CASES)
def test_example_contains_the_function_and_evaluates(cls: type[Function], build: Build):
    output = build().output
    functions = topological_order([output])
    assert cls in {type(f) for f in functions}
    (value,) = evaluate([output])
    assert value.shape == output.shape
    assert np.isfinite(value).all()
    for f in functions:
        if not isinstance(f, (ScatterFunction, DrawFunction, LoopFunction)):
            assert isinstance(f.glsl, str) and f.glsl
        twin = f.rebuild(*f.inputs)
        assert (twin.output.vtype, twin.output.domain) == (f.output.vtype, f.output.domain)
        assert twin.attributes == f.attributes and hash(twin.attributes) == hash(f.attributes)


def direction(x: Variable, salt: int) -> Variable:
    rng = np.random.default_rng((salt, *x.shape))
    return Variable(x.vtype, x.size, x.batch, channels=x.channels, data=rng.uniform(-1, 1, x.shape))


def along(outputs: list[Variable], x: Variable, t: Variable, step: float = STEP) -> list[np.ndarray]:
    """Central difference of the outputs when x moves along t."""
    high = evaluate(outputs, {x: x.data + step * t.data})
    low = evaluate(outputs, {x: x.data - step * t.data})
    return [(a - b) / (2 * step) for a, b in zip(high, low, strict=True)]


def close(actual: float, expected: float, scale: float, tolerance: float) -> bool:
    return abs(actual - expected) <= tolerance * (abs(expected) + scale)


@pytest.mark.parametrize("cls, build", DIFFERENTIABLE)
def test_gradient_is_the_central_difference(cls: type[Function], build: Build):
    example = build()
    y, seed = example.output, direction(example.output, 1)
    gradients = gradient(y, example.wrt, seed)
    for k, (x, g) in enumerate(zip(example.wrt, gradients, strict=True)):
        assert (g.vtype, g.domain) == (x.vtype, x.domain)
        t = direction(x, 10 + k)
        (value,), (slope,) = evaluate([g]), along([y], x, t)
        expected = float((slope * seed.data).sum())
        scale = float(np.abs(slope * seed.data).sum()) + float(np.abs(value * t.data).sum())
        assert close(float((value * t.data).sum()), expected, scale, 1e-7), cls.__name__


@pytest.mark.parametrize("cls, build", DIFFERENTIABLE)
def test_reverse_mode_is_the_transpose_of_forward_mode(cls: type[Function], build: Build):
    example = build()
    y, seed = example.output, direction(example.output, 1)
    tangents = [direction(x, 20 + k) for k, x in enumerate(example.wrt)]
    gradients = gradient(y, example.wrt, seed)
    forward, *backward = evaluate([*jvp([y], example.wrt, tangents), *gradients])
    terms = [g * t.data for g, t in zip(backward, tangents, strict=True)]
    scale = sum(float(np.abs(p).sum()) for p in terms)
    assert close(sum(float(p.sum()) for p in terms), float((forward * seed.data).sum()), scale, 1e-11)


@pytest.mark.parametrize("cls, build", SEVERAL)
def test_each_tangent_alone(cls: type[Function], build: Build):
    example = build()
    for k, x in enumerate(example.wrt):
        t = direction(x, 30 + k)
        (forward,) = evaluate(jvp([example.output], [x], [t]))
        (slope,) = along([example.output], x, t)
        assert np.allclose(forward, slope, rtol=1e-6, atol=1e-7 * (1 + np.abs(slope).max()))


@pytest.mark.parametrize("cls, build", DIFFERENTIABLE)
def test_second_derivative_is_the_central_difference_of_the_first(cls: type[Function], build: Build):
    example = build()
    y, seed = example.output, direction(example.output, 1)
    gradients = gradient(y, example.wrt, seed)
    tangents = [direction(x, 40 + k) for k, x in enumerate(example.wrt)]
    slope = sum(
        (F.sum(F.sum_components(F.hadamard(g, t))) for g, t in zip(gradients, tangents, strict=True)),
        F.constant(0.0),
    )
    second = gradient(slope, example.wrt)
    for k, (x, h) in enumerate(zip(example.wrt, second, strict=True)):
        u = direction(x, 50 + k)
        (value,), (difference,), (first,) = evaluate([h]), along([slope], x, u), evaluate([slope])
        scale = float(np.abs(value * u.data).sum()) + float(np.abs(first).sum()) + 1.0
        assert close(float((value * u.data).sum()), float(difference.sum()), scale, 1e-6), cls.__name__


def test_determinant_has_a_derivative_where_the_matrix_is_singular():
    v = Variable(VEC3, data=[0.5, -1.0, 2.0])
    m = Variable(MAT3, data=np.outer(v.data, v.data) + np.outer([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]))
    (g,) = evaluate(gradient(F.determinant(m), [m]))
    (slope,) = along([F.determinant(m)], m, t := direction(m, 3))
    assert np.allclose((g * t.data).sum(), slope, atol=1e-8) and np.isfinite(g).all() and np.any(g)


@pytest.mark.parametrize("cls", EXAMPLES, ids=lambda c: c.__name__)
def test_shorter_loops_mean_the_same(cls):
    examples = [build() for build in EXAMPLES[cls]]
    slopes = [g for e in examples if e.wrt for g in gradient(e.output, e.wrt, direction(e.output, 1))]
    outputs = [v for v in (*(e.output for e in examples), *slopes) if v.creator is not None]
    for f in topological_order(outputs):
        for most in (2, 3, 7):
            if f.iterations > most and (shorter := f.shortened(most)) is not None:
                np.testing.assert_allclose(*evaluate([shorter, f.output]), rtol=1e-12, atol=1e-12)
