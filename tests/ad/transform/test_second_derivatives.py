"""Second derivatives of every Function: forward over reverse and reverse over reverse, against differences."""

import numpy as np
import pytest
from examples import EXAMPLES, Build
from second_derivatives import differences, directions, forward, reverse, weighted, worst

from dressi.ad import functional as F
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Function, Variable
from dressi.ad.ops.pixel.shortcut import Shortcut
from dressi.ad.program import Program
from dressi.ad.transform.gradient import gradient, hvp, jvp
from dressi.ad.transform.simplify import simplify
from dressi.ad.traversal import leaves, topological_order
from dressi.ad.types import FLOAT, VEC2, VEC3
from dressi.errors import GraphError

CASES = [
    pytest.param(cls, build, id=f"{cls.__name__}-{k}")
    for cls, builds in EXAMPLES.items()
    for k, build in enumerate(builds)
]
DIFFERENTIABLE = [case for case in CASES if case.values[1]().wrt]


@pytest.mark.parametrize("cls, build", DIFFERENTIABLE)
def test_products_with_the_hessian_are_differences_of_the_gradient(cls: type[Function], build: Build):
    example = build()
    loss, wrt = weighted(example.output), example.wrt
    along = directions(wrt)
    expected = differences(loss, wrt, along)
    for mode in (forward, reverse):
        assert worst(evaluate(mode(loss, wrt, along)), expected) < 1e-5


# Estimated or stopped on purpose; or, at the data of the examples, jumps, kinks and NaN that a select does not take.
APART = {"InverseUVSample", "StopGradient", "Round", "Select", "Normalize", "Equal", "NotEqual"}


def others(build: Build) -> list[Variable]:
    """Float leaves by which the example is not said to be differentiable."""
    example = build()
    if example.output.vtype.is_int:
        return []
    return [x for x in leaves([example.output]) if not x.vtype.is_int and x not in {*example.wrt}]


@pytest.mark.parametrize(
    "cls, build", [c for c in CASES if c.values[0].__name__ not in APART and others(c.values[1])]
)
def test_no_float_input_has_a_silent_zero(cls: type[Function], build: Build):
    """By each of them the derivative is that of differences, or an error that names the Function."""
    y = build().output
    wrt = [x for x in leaves([y]) if not x.vtype.is_int]
    loss = F.sum(F.sum_components(y))
    try:
        found = evaluate(gradient(loss, wrt))
    except GraphError as error:
        assert f"{cls.__name__}(" in str(error)
        return
    along = directions(wrt)
    high, low = (
        evaluate([loss], {x: x.data + s * 1e-6 * t.data for x, t in zip(wrt, along, strict=True)})[0]
        for s in (1, -1)
    )
    total = sum(float((g * t.data).sum()) for g, t in zip(found, along, strict=True))
    assert total == pytest.approx(float((high - low).item() / 2e-6), abs=1e-6)


# ---- where derivatives are replaced by zeros
@pytest.mark.parametrize(
    "build",
    [
        lambda x: F.sqrt(x),
        lambda x: F.length(F.vec2(x, 0.0)),
        lambda x: F.dot(F.normalize(F.vec3(x, 0.0, x)), (1.0, 2.0, 3.0)),
        lambda x: F.atan2(x, 0.0 * x),
        lambda x: F.pow(x, F.constant(1.5)),
        lambda x: F.asin(1.0 + x),
        lambda x: F.acos(x - 1.0),
        lambda x: F.select(F.greater(x, 0.0), F.log(x), x),
        lambda x: F.select(F.greater(x, 0.0), F.log2(x), x),
        lambda x: F.select(F.greater(x, 0.0), F.inversesqrt(x), x),
        lambda x: F.abs(x),
        lambda x: F.clamp(x, 0.0, 1.0),
        lambda x: F.max(x, 0.0) + F.min(0.0, x),
    ],
)
def test_second_derivatives_at_the_end_of_the_domain_are_zero_and_no_number_is_lost(build):
    x = Variable(data=0.0)
    along = [F.constant(1.0)]
    for mode in (forward, reverse):
        assert evaluate(mode(build(x), [x], along))[0].item() == 0


@pytest.mark.parametrize("power, expected", [(2, 2.0), (3, 0.0), (4, 0.0)])
def test_whole_powers_are_exact_at_zero(power, expected):
    x = Variable(data=0.0)
    assert evaluate(hvp(x**power, [x], [F.constant(1.0)]))[0].item() == expected


def test_empty_normals_leave_others_alone():
    """One empty texel must not turn a shared parameter into NaN."""
    v = Variable(VEC3, (3, 1), data=[[[[0.0, 0.0, 0.0], [1.0, 2.0, 2.0], [0.5, -1.0, 0.3]]]])
    scale = Variable(data=1.5)
    loss = F.sum(F.square(F.normalize(v * scale).x) + F.length(v * scale))
    for mode in (forward, reverse):
        h = evaluate(mode(loss, [v, scale], directions([v, scale])))
        assert (
            all(np.isfinite(values).all() for values in h) and not h[0][0, 0, 0].any() and h[0][0, 0, 1].any()
        )


# ---- ties
def test_of_texels_that_tie_the_first_gets_the_gradient():
    x = Variable(FLOAT, (4, 2), data=[[[1.0, 5.0, 5.0, 2.0], [5.0, 0.0, 5.0, 0.0]]])
    largest, smallest, row = evaluate(
        [gradient(y, [x])[0] for y in (F.max(x), F.min(x), F.sum(F.max(x, "x")))]
    )
    assert largest[0].tolist() == [[0, 0, 0, 0], [1, 0, 0, 0]]  # of the columns, (5, 5, 5, 2), the first
    assert smallest[0].tolist() == [[0, 0, 0, 0], [0, 1, 0, 0]]
    assert row[0].tolist() == [[0, 1, 0, 0], [1, 0, 0, 0]]


def test_windows_give_the_gradient_to_the_first_of_equal_texels():
    x = Variable(FLOAT, (5, 1), data=[[[1.0, 3.0, 3.0, 0.0, 2.0]]])
    largest, smallest = evaluate(
        [gradient(F.sum(f(x, 1, "x")), [x])[0] for f in (F.window_max, F.window_min)]
    )
    assert largest[0, 0].tolist() == [0, 3, 1, 0, 1] and smallest[0, 0].tolist() == [2, 0, 0, 3, 0]


def test_components_have_extremes_of_their_own():
    x = Variable(VEC2, (2, 1), 2, data=[[[[1.0, 9.0], [2.0, 8.0]]], [[[3.0, 1.0], [0.0, 2.0]]]])
    (g,) = evaluate(gradient(F.sum_components(F.max(x) * F.constant((10.0, 20.0))), [x]))
    assert g.tolist() == [[[[0, 20], [0, 0]]], [[[10, 0], [0, 0]]]]


# ---- estimates of the gradient are not differentiated
def test_the_gradient_through_inverse_uv_has_exact_derivatives_by_uv_alone():
    texture = Variable(VEC3, (6, 5), data=np.random.default_rng(0).uniform(size=(1, 5, 6, 3)))
    uv = Variable(VEC2, (4, 3), data=np.random.default_rng(1).uniform(size=(1, 3, 4, 2)))

    def losses(sampled: Variable) -> Variable:
        return F.sum(F.dot(sampled, sampled) + sampled.x)

    estimated = losses(F.sample_inverse_uv(texture, uv, F.constant(1.0)))
    exact = losses(F.sample(texture, uv))
    along = directions([uv])
    for mode in (forward, reverse):
        found, expected = (evaluate(mode(loss, [uv], along))[0] for loss in (estimated, exact))
        np.testing.assert_allclose(found, expected, atol=1e-12)
    by_texture = gradient(estimated, [texture])
    with pytest.raises(GraphError, match=r"InverseUVSample.*use F.sample"):
        jvp(by_texture, [texture], directions([texture]))
    with pytest.raises(GraphError, match=r"GatherNumbered.*F.sample"):
        gradient(F.sum(by_texture[0].x), [uv])
    with pytest.raises(GraphError, match=r"InverseUVSample.*use F.sample"):
        jvp(gradient(estimated, [uv]), [texture], directions([texture]))


# ---- shortcuts
def test_programs_of_first_order_hold_no_shortcut():
    x = Variable(VEC3, (3, 2), data=np.ones((1, 2, 3, 3)))
    loss = F.sum(F.sqrt(x.x) + F.length(x) + F.normalize(x).y + F.atan2(x.y, x.z))
    (g,) = gradient(loss, [x])
    assert any(isinstance(f, Shortcut) for f in topological_order([g]))
    program = simplify(Program({"gradient": g}))
    assert not any(isinstance(f, Shortcut) for f in program.functions)
    np.testing.assert_allclose(*evaluate([g, program.outputs["gradient"]]))
