"""Index maps: what they compute against direct arithmetic, and what they prove against all values."""

import itertools
import random

import numpy as np
import pytest

from dressi.ad.graph.index_map import Affine, IndexMap, wrapped, wrapped_glsl

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

    def __add__(self, other):
        return Int(int(self) + int(other))

    def __sub__(self, other):
        return Int(int(self) - int(other))

    def __mul__(self, other):
        return Int(int(self) * int(other))

    def __neg__(self):
        return Int(-int(self))

    __rmul__, __radd__ = __mul__, __add__


@pytest.mark.parametrize("seed", range(40))
def test_bounds_hold_and_are_reached_and_the_text_has_the_value(seed):
    affine = some_affine(random.Random(seed))
    values = [affine.values(at) for at in places()]
    assert affine.bounds(EXTENTS) == (min(values), max(values))
    names = {k: f"a{k}" for k in range(4)}
    assert all(from_glsl(affine.glsl(names), at) == affine.values(at) for at in places() if affine.terms)
    assert affine.within(max(values) + 1, EXTENTS) == (min(values) >= 0)


@pytest.mark.parametrize("seed", range(120))
def test_a_substituted_value_is_the_value_of_the_values(seed):
    rng = random.Random(seed)
    outer, inner = some_affine(rng), {k: some_affine(rng, exact=rng.random() < 0.5) for k in range(4)}
    found = outer.substituted(inner)
    if found is None:
        return
    for at in places():
        if all(value.whole_at(at) for k, value in inner.items() if k in outer.axes):
            assert found.values(at) == outer.values({k: v.values(at) for k, v in inner.items()})


def test_enough_of_them_are_affine():
    found = 0
    for seed in range(120):
        rng = random.Random(seed)
        outer, inner = some_affine(rng), {k: some_affine(rng, exact=rng.random() < 0.5) for k in range(4)}
        found += outer.substituted(inner) is not None
    assert found > 60


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
