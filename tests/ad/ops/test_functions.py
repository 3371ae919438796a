"""Every Function: its values, its gradient against central differences, its GLSL, and where it is
differentiable."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from examples import CASES, DIFFERENTIABLE, EXAMPLES, Build, concrete_functions, leaf
from PIL import Image

from dressi import F, GraphError, gradient, jvp
from dressi.ad.graph import At, DrawFunction, Function, ScatterFunction, Variable
from dressi.ad.graph.evaluation import Evaluator, evaluate, with_tiles
from dressi.ad.graph.traversal import topological_order
from dressi.ad.graph.types import FLOAT, INT, IVEC2, IVEC3, MAT2, MAT3, VEC2, VEC3, VEC4, Access
from dressi.ad.loops.loop import LoopFunction
from dressi.ad.ops.pixel.constant import float_literal, int_literal
from dressi.ad.ops.pixel.random import _bits

STEP = 1e-5


SEVERAL = [case for case in DIFFERENTIABLE if len(case.values[1]().wrt) > 1]


@pytest.mark.parametrize("cls", concrete_functions("dressi.ad."), ids=lambda c: c.__name__)
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
    products = [F.sum_components(F.hadamard(g, t)) for g, t in zip(gradients, tangents, strict=True)]
    slope = sum(map(F.sum, products), F.constant(0.0))
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


def value(x: Variable) -> np.ndarray:
    return evaluate([x])[0]


def texel(x: Variable) -> np.ndarray:
    """The value of a Variable of one texel."""
    return value(x)[0, 0, 0]


def image(array, vtype=FLOAT) -> Variable:
    """A leaf with that array (batch, H, W, ...)."""
    array = np.asarray(array)
    return Variable(vtype, (array.shape[2], array.shape[1]), array.shape[0], data=array)


RAMP = image(np.arange(2 * 3 * 4, dtype=float).reshape(2, 3, 4))


# ---- literals and types
def test_numbers_take_the_kind_of_the_variable_beside_them():
    assert (RAMP + 1).vtype is FLOAT
    index = F.linear_index((2, 2))
    assert (index + 1).vtype is INT and (2 * index).vtype is INT and (index % 2).vtype is INT
    assert (F.pixel_coordinates((2, 2)) + (1, 2)).vtype is IVEC2
    assert (RAMP + (1, 2, 3)).vtype is VEC3
    assert F.constant(1).vtype is INT and F.constant(np.eye(3)).vtype is MAT3
    assert all(x.vtype is FLOAT for x in (F.constant(1.0), F.constant(2, FLOAT), F.constant(True)))
    assert texel(F.constant(2.0, VEC3)).tolist() == [2, 2, 2]


def test_numpy_on_the_left_leaves_the_operation_to_the_variable():
    x = image(np.full((1, 1, 1), 3.0))
    assert texel(np.float64(2.0) * x) == 6 and texel(np.float32(2.0) - x) == -1
    assert texel(np.array([1.0, 2.0]) * x).tolist() == [3, 6]
    assert texel(np.int64(1) / x) == pytest.approx(1 / 3)


def test_matrices_are_row_column():
    m = F.mat2((1.0, 2.0), (3.0, 4.0))  # columns
    assert texel(m).tolist() == [[1, 3], [2, 4]]
    assert texel(F.constant([[1.0, 3.0], [2.0, 4.0]])).tolist() == [[1, 3], [2, 4]]
    assert texel(m[0]).tolist() == [1, 2] and texel(F.column(m, -1)).tolist() == [3, 4]
    assert texel(m[1, 0]) == 2
    assert texel(m @ (1.0, 10.0)).tolist() == [31, 42]
    assert texel(F.matmul((1.0, 10.0), m)).tolist() == [21, 43]
    assert texel(F.fill(F.constant(3.0), MAT2)).tolist() == [[3, 3], [3, 3]]
    assert F.constant([[1.0, 3.0], [2.0, 4.0]]).creator.glsl == "mat2(1.0, 2.0, 3.0, 4.0)"


def test_vectors():
    v = F.constant((1.0, 2.0, 3.0, 4.0))
    assert texel(v.wzyx).tolist() == [4, 3, 2, 1] and texel(v.rgb).tolist() == [1, 2, 3]
    assert texel(v[1:3]).tolist() == [2, 3] and texel(v[-1]) == 4
    assert [float(texel(c)) for c in v] == [1, 2, 3, 4]
    assert texel(F.vec3(v)).tolist() == [1, 2, 3] and texel(F.vec2(5)).tolist() == [5, 5]
    assert texel(F.ivec2(-1.5, 2)).tolist() == [-1, 2]
    assert texel(F.vec4(F.ivec2(1, 2), v.zw)).tolist() == [1, 2, 3, 4]
    assert F.vec4(v) is v and v.xyzw is v
    assert texel(F.refract((0.0, 1.0), (1.0, 0.0), 1.5)).tolist() == [0, 0]  # total reflection
    assert texel(F.max_component(F.constant(np.arange(9.0).reshape(3, 3)))) == 8


def test_integers_divide_as_in_glsl():
    a = image(np.array([[[-7, 7, -6, 5]]]), INT)
    assert value(a / 3).ravel().tolist() == [-2, 2, -2, 1]
    assert value(a % 3).ravel().tolist() == [-1, 1, 0, 2]
    assert value(F.mod(F.to_float(a), 3.0)).ravel().tolist() == [2, 1, 0, 2]
    assert value(F.to_int(F.to_float(a) * 0.5)).ravel().tolist() == [-3, 3, -3, 2]


def test_round_takes_the_even_of_two_and_whole_powers_take_negative_bases():
    assert value(F.round(image([[[0.5, 1.5, 2.5, -0.5]]]))).ravel().tolist() == [0, 2, 2, 0]
    assert texel(F.constant(-2.0) ** 3) == -8 and texel(F.constant(-2.0) ** 0) == 1
    assert texel(F.constant(9.0) ** 0.5) == 3


# ---- derivatives at kinks, as documented
@pytest.mark.parametrize(
    "build, expected",
    [
        (lambda x: F.sqrt(x), 0.0),
        (lambda x: F.abs(x), 0.0),
        (lambda x: F.length(F.vec2(x, 0.0)), 0.0),
        (lambda x: F.normalize(F.vec2(x, 0.0)).x, 0.0),
        (lambda x: F.atan2(x, 0.0), 0.0),
        (lambda x: F.pow(x, F.constant(1.5)), 0.0),
        (lambda x: F.asin(1.0 + x), 0.0),
        (lambda x: F.acos(x - 1.0), 0.0),
        (lambda x: F.max(x, 0.0), 1.0),
        (lambda x: F.max(0.0, x), 0.0),
        (lambda x: F.min(x, 0.0), 1.0),
        (lambda x: F.min(0.0, x), 0.0),
        (lambda x: F.clamp(x, 0.0, 1.0), 1.0),
        (lambda x: F.clamp(x, -1.0, 0.0), 1.0),
        (lambda x: F.clamp(x, 1.0, 2.0), 0.0),
        (lambda x: F.select(F.greater(x, 1.0), F.log(x), 2.0 * x), 2.0),
        (lambda x: F.sigmoid(x * 1e4 - 1e4), 0.0),
        (lambda x: F.stop_gradient(x) * 3.0 + x, 1.0),
        (lambda x: x**2, 0.0),
        (lambda x: x**1, 1.0),
    ],
)
def test_derivative_at_zero(build, expected):
    x = Variable(data=0.0)
    assert texel(gradient(build(x), [x])[0]) == expected


# ---- images
def test_shift_moves_the_image():
    one = image(np.arange(12.0).reshape(1, 3, 4))
    a = np.arange(12.0).reshape(3, 4)
    assert np.array_equal(value(F.shift(one, 1, -1, "repeat"))[0], np.roll(a, (-1, 1), (0, 1)))
    assert value(F.shift(one, 1, 0))[0, 0].tolist() == [0, 0, 1, 2]
    assert value(F.shift(one, 1, 0, "zero"))[0, 1].tolist() == [0, 4, 5, 6]
    assert np.array_equal(value(F.crop(RAMP, 1, 2, (2, 1))), value(RAMP)[:, 2:3, 1:3])
    assert np.array_equal(value(F.pad(RAMP, 1, 2, 3, 4)), np.pad(value(RAMP), ((0, 0), (2, 4), (1, 3))))


def test_coordinates():
    xy = value(F.pixel_coordinates((4, 3), 2))
    assert xy.shape == (2, 3, 4, 2) and xy[1, 2, 3].tolist() == [3, 2]
    assert value(F.linear_index((4, 3), 2))[1, 2, 3] == 11
    assert value(F.tile_index((4, 3), 2))[1, 2, 3] == 1


def test_resize():
    a = np.random.default_rng(0).random((1, 6, 8))
    assert np.allclose(value(F.resize(image(a), (4, 3), "area")), a.reshape(1, 3, 2, 4, 2).mean((2, 4)))
    assert np.array_equal(value(F.resize(image(a), (16, 12), "nearest")), a.repeat(2, 1).repeat(2, 2))
    ramp = image(np.arange(4.0).reshape(1, 1, 4))
    assert np.allclose(value(F.resize(ramp, (8, 1)))[0, 0], [0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3])
    large = np.asarray(Image.fromarray(a[0].astype(np.float32)).resize((20, 18), Image.Resampling.BICUBIC))
    cubic = value(F.resize(image(a), (20, 18), "cubic"))[0]
    assert np.allclose(cubic[6:-6, 6:-6], large[6:-6, 6:-6], atol=1e-6)  # at the edge others leave texels out
    for filter in ("nearest", "bilinear", "area", "cubic"):
        assert np.allclose(value(F.resize(image(np.full((1, 6, 8), 3.0)), (5, 11), filter)), 3)


def test_take_and_windows():
    index = Variable(INT, (1, 1), 3, data=np.array([1, 0, 7]).reshape(3, 1, 1))
    taken = value(F.take(RAMP, index))
    assert np.array_equal(taken[:2], value(RAMP)[::-1]) and not taken[2].any()
    assert value(F.window_max(RAMP, 1, "x"))[0, 0].tolist() == [1, 2, 3, 3]
    assert value(F.window_min(RAMP, 1, "y"))[1, :, 0].tolist() == [12, 12, 16]


# ---- reductions
def test_reductions():
    a = value(RAMP)
    assert texel(F.sum(RAMP)) == a.sum() and texel(F.mean(RAMP)) == a.mean()
    assert np.array_equal(value(F.sum(RAMP, "n")), a.sum(0, keepdims=True))
    assert np.array_equal(value(F.mean(RAMP, "xy")), a.mean((1, 2), keepdims=True))
    assert np.array_equal(value(F.max(RAMP, axes="x")), a.max(2, keepdims=True))
    assert texel(F.min(RAMP)) == 0 and texel(F.max(F.max(RAMP, 30.0), "xyn")) == 30
    one = image(np.ones((1, 1, 1)))
    assert F.sum(one) is one  # nothing to add


def test_the_transpose_of_expand_sums_over_the_batch_for_any_number_of_views():
    from dressi.ad.ops.image.reduce import Sum

    for batch in (1, 3):
        x = Variable(VEC3, (4, 1), data=np.ones((1, 1, 4, 3)))
        (g,) = gradient(F.sum(F.expand(x, batch).x), [x])
        assert isinstance(g.creator, Sum) and g.creator.axis == "n"
        assert np.array_equal(value(g)[..., 0], np.full((1, 1, 4), batch))


# ---- tables
def test_lookup_and_scatter_count_row_by_row_and_ignore_what_is_outside():
    index = image(np.array([[[0, 5, 11, 12, -1]]]), INT)
    one = F.crop(F.take(RAMP, 0), 0, 0, (4, 3))
    assert value(F.lookup(one, index))[0, 0].tolist() == [0, 5, 11, 0, 0]
    own = value(F.lookup(RAMP, index))
    assert own.shape == (2, 1, 5) and own[1, 0].tolist() == [12, 17, 23, 0, 0]
    texels = image(np.array([[[[1, 2], [3, -1], [4, 0]]]]), IVEC2)
    assert value(F.lookup(one, texels))[0, 0].tolist() == [9, 0, 0]
    added = value(F.scatter_add(F.constant(2.0), image(np.array([[[3, 3, 6, 99]]]), INT), (4, 2)))
    assert added[0].tolist() == [[0, 0, 0, 4], [0, 0, 2, 0]]
    top = value(F.scatter_max(F.linear_index((4, 1)), image(np.array([[[3, 3, 6, 99]]]), INT), (4, 2)))
    assert top[0].tolist() == [[-1, -1, -1, 1], [-1, -1, 2, -1]]


def test_scatter_measures_its_bound():
    x = Variable(VEC2, (4, 1), data=np.array([[[[1, -5], [2, 3], [0, 4], [1, 1]]]]))
    small, large = (F.scatter_add(x, F.linear_index((4, 1)), size).creator for size in ((4, 1), (512, 512)))
    assert small is not None and texel(small.inputs[0]) == np.inf  # small tables take every magnitude
    assert large is not None and texel(large.inputs[0]) == 5


# ---- random numbers
def test_random_numbers_are_those_of_pcg3d():
    def reference(v):
        v = [(n * 1664525 + 1013904223) % 2**32 for n in v]
        for last in (False, True):
            v[0] = (v[0] + v[1] * v[2]) % 2**32
            v[1] = (v[1] + v[2] * v[0]) % 2**32
            v[2] = (v[2] + v[0] * v[1]) % 2**32
            if not last:
                v = [n ^ (n >> 16) for n in v]
        return v[0]

    for v in ((0, 0, 0), (5, 17, 2**31 - 1), (123456, 2**32 - 3, 99)):
        assert int(_bits(*(np.array([n]) for n in v))[0]) == reference(list(v))


def test_random_numbers_are_uniform_and_differ():
    a, b, c = (value(F.random(s, n, (64, 64), 2)) for s, n in ((1, 0), (1, 1), (2, 0)))
    assert a.min() >= 0 and a.max() < 1 and abs(a.mean() - 0.5) < 0.01 and abs(a.var() - 1 / 12) < 0.003
    for other in (b, c, a[::-1]):
        assert abs(np.corrcoef(a.ravel(), other.ravel())[0, 1]) < 0.04
    assert np.array_equal(a * 2**24, np.round(a * 2**24))


def test_sobol_points_are_those_of_scipy():
    qmc = pytest.importorskip("scipy.stats.qmc")
    expected = qmc.Sobol(2, scramble=False).random(256)
    found = value(F.sobol2(F.linear_index((256, 1))))[0, 0]
    assert sorted(map(tuple, found)) == sorted(map(tuple, expected))  # scipy goes through them in Gray code
    assert np.allclose(found[:4], [[0, 0], [0.5, 0.5], [0.25, 0.75], [0.75, 0.25]])


# ---- errors name the thing, the cure, and this line
@pytest.mark.parametrize(
    "build, words",
    [
        (lambda: F.constant(1 << 31), "does not fit INT, whose integers have 32 bits"),
        (lambda: Variable(MAT3) * Variable(VEC3), "use @"),
        (lambda: Variable(MAT3) * Variable(MAT3), "F.hadamard"),
        (lambda: Variable(VEC2) + Variable(VEC3), "types must be equal"),
        (lambda: Variable(FLOAT, (4, 4)) + Variable(FLOAT, (3, 4)), "F.resize"),
        (lambda: Variable(INT) + Variable(FLOAT), "F.to_float"),
        (lambda: Variable(INT) + 0.5, "F.to_float"),
        (lambda: F.sin(Variable(INT)), "F.to_float"),
        (lambda: F.lookup(Variable(), Variable()), "F.to_int"),
        (lambda: F.lookup(Variable(FLOAT, (1, 1), 2), Variable(INT, (1, 1), 3)), "F.take"),
        (lambda: F.lookup(Variable.of(np.zeros(5)), Variable.of([0, 3])), "a list with vtype=INT"),
        (lambda: F.lookup(Variable.of(np.zeros(5)), Variable.of([0, 3, 4])), "a list with vtype=INT"),
        (lambda: F.scatter_add(Variable(INT), 0, (2, 2)), "F.to_float"),
        (lambda: F.scatter_add(Variable(), 0, (2, 2), 3), "batch of 3|batch 3"),
        (lambda: F.vec3(Variable(VEC2)), "3 components"),
        (lambda: Variable(VEC2).z, "no components"),
        (lambda: Variable(VEC2)[2], "no component 2"),
        (lambda: F.crop(Variable(FLOAT, (4, 4)), 2, 0, (3, 3)), "F.pad"),
        (lambda: F.resize(Variable(FLOAT, (4, 4)), (2, 2), "lanczos"), "bilinear"),
        (lambda: F.resize(Variable(INT, (4, 4)), (2, 2)), "nearest"),
        (lambda: F.shift(Variable(), 1, 1, "wrap"), "repeat"),
        (lambda: F.sample(Variable(VEC4, (4, 4)), Variable(VEC3)), "VEC2"),
        (lambda: F.sample(Variable(IVEC3, (4, 4)), Variable(VEC2)), "floats"),
        (lambda: F.matmul(Variable(MAT2), Variable(VEC3)), "same order"),
        (lambda: F.constant("no"), "numbers"),
        (lambda: F.constant(np.zeros(7)), r"shape \(7,\) .*Variable\.of"),
        (lambda: F.constant(0.5, INT), "not a constant"),
        (lambda: F.sum(Variable(), "z"), "axes"),
        (lambda: F.select(Variable(VEC2), Variable(VEC3), 0.0), "condition"),
        (lambda: F.take(Variable(FLOAT, (4, 4), 3), Variable(INT, (2, 1))), "1x1"),
        (lambda: F.random(Variable(FLOAT), 0, (4, 4)), "INT"),
        (lambda: bool(Variable()), "F.select"),
        (lambda: list(Variable()), "no components to go through"),
    ],
)
def test_errors(build, words):
    with pytest.raises(GraphError, match=words):
        build()


def test_errors_name_the_line_of_user_code():
    with pytest.raises(GraphError, match=r"Add\(VEC2 .*VEC3 .*test_functions.py:\d+"):
        Variable(VEC2) + Variable(VEC3)


SHADERS = Path(__file__).resolve().parents[3] / "shaders"
VALIDATOR = shutil.which("glslangValidator")


def shader(f: Function) -> str:
    """A fragment shader that runs the snippet of f once, all inputs being varyings or dummy fetch
    functions."""
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
    names: dict[str, str] = {}
    for case in CASES:
        example = case.values[1]()
        y = example.output
        slopes = gradient(y, example.wrt, leaf(y.vtype, y.size, y.batch)) if example.wrt else []
        for f in topological_order([y, *slopes]):
            if not isinstance(f, (ScatterFunction, DrawFunction, LoopFunction)):
                names.setdefault(shader(f), f"{type(f).__name__}_{len(names)}")
    return {name: text for text, name in names.items()}


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


@pytest.mark.parametrize("cls, build", CASES)
def test_scattered_texels_have_the_values_of_the_image(cls: type[Function], build: Build):
    function = build().output.creator
    assert function is not None
    if isinstance(function, (ScatterFunction, DrawFunction)):
        return
    variables = [*function.inputs, function.output]
    pairs = zip(variables, Evaluator(variables)(), strict=True)
    *inputs, whole = (values.reshape(v.tiled) for v, values in pairs)
    (width, height), batch, _ = function.output.domain
    rng = np.random.default_rng(3)
    x, y, tile = (rng.integers(0, n, (1, 1, 17)) for n in (width, height, batch))
    at = At(x, y, tile)
    local = []
    for variable, values, access in zip(function.inputs, inputs, function.access, strict=True):
        if access is Access.SAME_PIXEL:
            values = with_tiles(values, variable, function.output.domain)
            # As in a fragment: one value for each place, or a single one where the input has one texel.
            place = [np.minimum(i, n - 1) for i, n in zip((tile, y, x), values.shape)]
            single = values.shape[:3] == (1, 1, 1)
            local.append(values if single else values[tuple(place)])
        else:
            local.append(values)
    found = np.broadcast_to(function.evaluate(at, *local), (1, 1, 17, *function.output.vtype.shape))
    assert np.allclose(found, whole[tile, y, x], equal_nan=True)
