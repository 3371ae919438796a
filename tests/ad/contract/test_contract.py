"""The notation of contractions, and maps of indices."""

import itertools
import random

import numpy as np
import pytest

from dressi import FLOAT, MAT3, VEC3, F, GraphError, Variable
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.index_map import Affine, IndexMap, wrapped, wrapped_glsl
from dressi.ad.graph.program import Program
from dressi.ad.imaging.contract import FUNCTIONS
from dressi.config import shader_text
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.core.limits import profile
from dressi.vk.plan.glsl.writer import stage_of
from dressi.vk.run.shaders.pyglslang import compile_glsl

A = Variable(FLOAT, (5, 4), name="a")
B = Variable(FLOAT, (3, 5), name="b")
MANY = Variable(FLOAT, (5, 4), batch=2, channels=3, name="many")
WRONG = {
    "no expression": ("out[y, x] = a[y, x", {"a": A}, "is no expression"),
    "no output": ("a[y, x] * 2", {"a": A}, "is written as"),
    "twice": ("out[y, y] = a[y, y]", {"a": A}, "names the axis 'y' of the output twice"),
    "five axes": ("out[a1, n, c, y, x] = a[y, x]", {"a": A}, "more than the four axes"),
    "no operand": ("out[y, x] = 2.0", {}, "reads no operand"),
    "unknown operand": ("out[y, x] = a[y, x] * c[y, x]", {"a": A}, "reads 'c', which is not given"),
    "unused": ("out[y, x] = a[y, x]", {"a": A, "w": B}, "does not use 'w'"),
    "unused number": ("out[y, x] = a[y, x]", {"a": A, "r": 2}, "does not use 'r'"),
    "leaves": ("out[y, x] = a[y + 1, x]", {"a": A, "extents": {"y": 4}}, r"at y \+ 1 along y, which leaves \[0, 4\)"),
    "below": ("out[y, x] = a[y - 1, x]", {"a": A, "extents": {"y": 2}}, "which leaves"),
    "channels leave": ("out[n, c, y, x] = many[n, c + 1, y, x]", {"many": MANY, "extents": {"c": 3}}, "along c"),
    "extents disagree": ("out[y, x] = a[y, k] * b[k, x]", {"a": B, "b": B}, "gives the axis k the extent 3 and"),
    "nothing tells": ("out[y, x] = a[y, x] * d", {"a": A}, "does not tell the extent of the axis d"),
    "no such axis": ("out[y, x] = a[y, x]", {"a": A, "extents": {"z": 3}}, "has no axis 'z'"),
    "product of axes": ("out[y, x] = a[y * x, x]", {"a": A}, r"has the index 'y \* x'"),
    "computed index": ("out[y, x] = a[b[y, x], x]", {"a": A, "b": B}, "use F.lookup"),
    "two divisions": ("out[y, x] = a[y // 2 + x // 2, x]", {"a": A}, "adds two divisions"),
    "gap on the left": ("out[y, 3 * x + i] = a[y, x]", {"a": A, "extents": {"i": 2}}, "multiplies the axis x on the left by 3"),
    "number on the left": ("out[0, x] = a[y, x]", {"a": A}, "on the left"),
    "einsum": ("ij,jk->ik", {"a": A, "b": B}, r"'out\[i, k\] = a\[i, j\] \* b\[j, k\]'"),
    "no text": (A, {}, "takes its notation first"),
    "values of a function": ("out[y, x] = sin(a[y, x], 1, 2)", {"a": A}, "calls 'sin' with 3 values"),
    "function": ("out[y, x] = sum(a[y, x])", {"a": A}, "calls 'sum'"),
    "code": ("out[y, x] = a[y, x] if [] else 1.0", {"a": A}, "which is no arithmetic"),
    "attribute": ("out[y, x] = a.data[y, x]", {"a": A}, "which is no arithmetic"),
    "border": ("out[y, x] = a[y, x]", {"a": A, "border": "wrap"}, "has the border 'wrap'"),
    "combine": ("out[y, x] = a[y, x]", {"a": A, "combine": "mul"}, "combines terms by 'mul'"),
    "batch": ("out[n, c, y, x] = many[c, y, x]", {"many": MANY}, "has 2 along the batch"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_said(name):
    expression, given, message = WRONG[name]
    with pytest.raises(GraphError, match=message) as found:
        F.contract(expression, **given)
    assert __file__ in str(found.value)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: F.correlate(MANY, Variable(FLOAT, (3, 3), 4, channels=2)), "makes 4 channels from 2"),
        (lambda: F.correlate(MANY, Variable(FLOAT, (3, 3), 4, channels=1), groups=3), "makes 4 channels from 1 in each of 3"),
        (lambda: F.correlate(Variable(VEC3, (4, 4)), Variable(FLOAT, (3, 3), 4, channels=3)), "use F.to_channels"),
        (lambda: F.correlate(A, B, stride=0), "a stride must be at least 1"),
        (lambda: F.correlate(A, B, border="wrap"), "one of zero, clamp, mirror, reflect, repeat"),
        (lambda: F.correlate(A, Variable(FLOAT, (9, 9)), border=None), "is smaller than the kernel"),
        (lambda: F.matmul(A, A), "5 columns, the second 4 rows"),
        (lambda: F.max_pool(A, 6), "smaller than a window of 6x6; use F.pad"),
        (lambda: F.channel(MANY, 3), "has no channels 3 to 3"),
        (lambda: F.concatenate_channels(A, B), "cannot be put together"),
        (lambda: F.from_channels(A), "2 to 4 channels"),
        (lambda: F.to_channels(MANY), "cannot become channels"),
        (lambda: MANY + Variable(FLOAT, (5, 4), batch=2, channels=2), "must be equal or 1"),
        (lambda: Variable(FLOAT, (4, 4), channels=0), "a number of channels must be at least 1"),
    ],
)  # fmt: skip
def test_what_is_named_is_refused_by_name(call, message):
    with pytest.raises(GraphError, match=message):
        call()


@pytest.mark.parametrize(
    "expression, options, shape",
    [
        ("out[y, x] = a[y + j, x + i]", {"extents": {"j": 2, "i": 3}}, (1, 3, 3)),
        ("out[y, x] = a[2 * y + j, x]", {"extents": {"j": 2}}, (1, 2, 5)),
        ("out[y, x] = a[2 * y + j - 1, x]", {"extents": {"j": 3}, "border": "zero"}, (1, 2, 5)),
        ("out[y, x] = a[3 - y, x // 2]", {"border": "clamp"}, (1, 4, 10)),
        ("out[x] = a[y, x]", {}, (1, 1, 5)),
        ("out[k, y, x] = a[y, x] * k", {"extents": {"k": 3}}, (3, 4, 5)),
        ("out[n, k, y, x] = a[y, x] * k + 0 * n", {"extents": {"k": 3, "n": 2}}, (2, 3, 4, 5)),
    ],
)
def test_extents_follow(expression, options, shape):
    assert F.contract(expression, a=A, **options).shape == shape


def test_values_of_axes_numbers_and_conditions():
    a = Variable.of(np.arange(20.0).reshape(4, 5))
    y, x = np.mgrid[:4, :5]
    made = F.contract("out[y, x] = a[y, x] * s if x > y else -a[y, x] / (1 + y)", a=a, s=3)
    expected = np.where(x > y, 3 * a.data[0], -a.data[0] / (1 + y))
    np.testing.assert_allclose(evaluate([made])[0][0], expected)


def test_arrays_with_a_type_and_four_axes_have_channels():
    values = np.arange(120.0).reshape(2, 3, 4, 5)
    x = Variable.of(values, FLOAT)
    assert (x.shape, x.batch, x.channels) == ((2, 3, 4, 5), 2, 3)
    assert (evaluate([F.channel(x, -1)])[0] == values[:, 2]).all()
    assert Variable.of(np.zeros((2, 3, 4, 5, 3)), VEC3).channels == 3
    with pytest.raises(GraphError, match="too many axes"):
        Variable.of(values)


ARGUMENTS = [
    *([f"{name}[0, x]"] * count for name in ("s", "v", "m") for count in (1, 2, 3, 4)),
    ["v[0, x]", "v[0, x]", "0.5"],
    ["m[0, x]", "1"],
    *(["to_int(x)"] * count for count in (2, 3, 4)),
]


@pytest.mark.parametrize("family", sorted({f.__module__ for f in FUNCTIONS.values()}))
def test_every_function_compiles_in_a_contraction_alone(family):
    """Whatever helpers its GLSL needs come with it."""
    operands = {"s": Variable(FLOAT, (2, 1)), "v": Variable(VEC3, (2, 1)), "m": Variable(MAT3, (2, 1))}
    for name in (name for name, f in FUNCTIONS.items() if f.__module__ == family):
        for arguments in ARGUMENTS:
            text = f"out[x] = {name}({', '.join(arguments)})"
            used = {k: v for k, v in operands.items() if f"{k}[" in text}
            try:
                y = F.contract(text + ("" if used else " + to_int(s[0, x])"), **used or {"s": operands["s"]})
            except GraphError:
                continue
            break
        else:
            raise AssertionError(f"{name} takes none of the arguments that are tried")
        plan = build_plan(Program({"y": y}), profile("lavapipe"), shader_text)
        for s in plan.sub_stages:
            for part, source in plan.shaders[s].sources.items():
                compile_glsl(source, stage_of(part), name)


EXTENTS = (3, 4, 2, 5)


def some_affine(rng: random.Random, exact: bool = False) -> Affine:
    terms = {axis: rng.randint(-3, 3) for axis in rng.sample(range(4), rng.randint(0, 3))}
    return Affine.of(terms, rng.randint(-5, 5), rng.choice((1, 1, 2, 3)), exact)


def places():
    return [dict(enumerate(p)) for p in itertools.product(*map(range, EXTENTS))]


def from_glsl(text: str, at: dict[int, int]) -> int:
    """The value of an expression by the rules of GLSL, whose division rounds to zero."""
    names = {f"a{k}": Int(v) for k, v in at.items()}
    condition, _, rest = text.partition(" ? ")
    if rest:
        yes, _, no = rest.partition(" : ")
        text = f"({yes} if {condition[1:]} else {no}"
    return int(eval(text, {}, names))


class Int(int):
    """An integer of GLSL."""

    def __truediv__(self, other):
        return Int(abs(int(self)) // other * (1 if self >= 0 else -1))

    # fmt: off
    def __add__(self, other): return Int(int(self) + int(other))
    def __sub__(self, other): return Int(int(self) - int(other))
    def __mul__(self, other): return Int(int(self) * int(other))
    def __neg__(self): return Int(-int(self))
    # fmt: on
    __rmul__, __radd__ = __mul__, __add__


@pytest.mark.parametrize("seed", range(40))
def test_bounds_hold_and_are_reached_and_the_text_has_the_value(seed):
    affine = some_affine(random.Random(seed))
    values = [affine.values(at) for at in places()]
    assert affine.bounds(EXTENTS) == (min(values), max(values))
    names = {k: f"a{k}" for k in range(4)}
    assert all(from_glsl(affine.glsl(names), at) == affine.values(at) for at in places() if affine.terms)
    assert affine.within(max(values) + 1, EXTENTS) == (min(values) >= 0)


def test_a_substituted_value_is_the_value_of_the_values():
    affine = 0
    for seed in range(120):
        rng = random.Random(seed)
        outer, inner = some_affine(rng), {k: some_affine(rng, exact=rng.random() < 0.5) for k in range(4)}
        if (composed := outer.substituted(inner)) is None:
            continue
        affine += 1
        for at in places():
            if all(value.whole_at(at) for k, value in inner.items() if k in outer.axes):
                values = {k: v.values(at) for k, v in inner.items()}
                assert composed.values(at) == outer.values(values), (seed, at)
    assert affine > 60


@pytest.mark.parametrize("border", ["clamp", "mirror", "reflect", "repeat"])
def test_borders_by_numpy_and_by_glsl(border):
    mode = {"clamp": "edge", "mirror": "symmetric", "reflect": "reflect", "repeat": "wrap"}[border]
    index = np.arange(-7, 11)
    assert (wrapped(index, 4, border) == np.pad(np.arange(4), (7, 7), mode)).all()
    text = wrapped_glsl("i", 4, border, (-7, 10))
    names = {"clamp": lambda v, low, high: min(max(v, low), high), "min": min}
    assert [eval(text, names, {"i": int(i)}) for i in index] == wrapped(index, 4, border).tolist()
    assert wrapped_glsl("i", 4, border, (0, 3)) == "i"
    names["max"] = max
    for extent, low, high in itertools.product((1, 2, 3), (-4, -3, -1, 2), (3, 4, 6)):
        text = wrapped_glsl("i", extent, border, (low, high))
        if "?" not in text:
            found = [eval(text, names, {"i": i}) for i in range(low, high + 1)]
            assert found == wrapped(np.arange(low, high + 1), extent, border).tolist(), (extent, low, high)


def test_footprints():
    blur = IndexMap.of(y=Affine.of({2: 1, 4: 1}, -1), x=Affine.of({3: 1, 5: 2}, -2))
    assert blur.footprint((1, 1, 8, 8, 3, 3)) == 2
    assert blur.inside((1, 1, 8, 8), (1, 1, 8, 8, 3, 3)) is False
    assert IndexMap.of(x=Affine.axis(2), y=Affine.axis(3)).footprint((1, 1, 8, 8)) == np.inf
