"""Small graphs for coordinates and for reads by an index map; and random maps, with the matrices that they
stand for."""

import itertools
import random

import numpy as np
from example_tools import BATCH, SIZE, Example, add, example, of

from dressi import FLOAT, INT, IVEC2, IVEC3, VEC2, VEC3, F, gradient
from dressi.ad.contract.contraction import ContractFunction
from dressi.ad.graph import Domain, Variable
from dressi.ad.graph.index_map import BORDERS, Affine, IndexMap, wrapped
from dressi.ad.networks.layers import GridIndex
from dressi.ad.ops.image import coordinates
from dressi.ad.ops.image.image import Gather


def pulled(y: Variable, x: Variable) -> Variable:
    """A read of x and its transpose, one after the other."""
    return gradient(F.sum(F.sum_components(F.square(y))), [x])[0]


add(coordinates.PixelCoordinates, lambda: Example(F.pixel_coordinates(SIZE, BATCH)))
add(coordinates.LinearIndex, lambda: Example(F.linear_index(SIZE, BATCH)))
add(coordinates.ChannelIndex, lambda: Example(coordinates.ChannelIndex(Domain(SIZE, 6, 3)).output))
for vtype, cells in ((IVEC2, 6), (IVEC2, 90), (IVEC3, 3), (IVEC3, 40)):  # dense in turns with hashed
    add(GridIndex, example(lambda x, n=cells: GridIndex(x, n, 64).output, of(vtype, SIZE, BATCH, 0, cells)))
add(coordinates.TileIndex, lambda: Example(F.tile_index(SIZE, BATCH)))
for vtype in (VEC3, FLOAT):
    x = of(vtype, SIZE, BATCH)
    add(
        Gather,
        example(lambda x: F.crop(x, 1, 2, (3, 2)), x),
        example(lambda x: F.pad(x, 1, 0, 2, 3), x),
        example(lambda x: F.shift(x, 2, -1, "zero"), x),
        example(F.flip, x),
        example(lambda x: F.flip(x, "xy"), x),
        example(F.swap_axes, x),
        example(lambda x: F.subsample(x, 2), x),
        example(lambda x: F.subsample(x, (3, 2), (2, 1)), x),
        example(lambda x: F.repeat(x, (3, 2)), x),
        *(
            example(lambda x, b=b: F.pad(x, 3, 0, 12, 9, b), x)
            for b in ("clamp", "mirror", "reflect", "repeat")
        ),
    )
add(Gather, example(lambda x: F.pad(x, 1, 1, 1, 1), of(IVEC2, SIZE, 1, 1, 9)))
for d in ((1, 0), (-2, 1), (0, -3), (7, 5), (-6, -9), (0, 0)):
    for b in ("clamp", "repeat", "mirror", "reflect"):
        add(Gather, example(lambda x, d=d, b=b: F.shift(x, *d, b), of(FLOAT, SIZE, BATCH)))
        add(Gather, example(lambda x, d=d, b=b: pulled(F.shift(x, *d, b), x), of(VEC2, SIZE, BATCH)))
add(Gather, example(lambda x: F.shift(x, 1, 1), of(FLOAT, (1, 4))))
for size in ((8, 3), (2, 2), (10, 8), (5, 7), (1, 1)):
    add(Gather, example(lambda x, s=size: F.resize(x, s, "nearest"), of(VEC2, SIZE, BATCH)))
add(Gather, example(lambda x: F.resize(x, (7, 3), "nearest"), of(INT, SIZE, BATCH, -9, 9)))

TAKEN, SHAPE = (2, 1, 3, 4), (3, 1, 4, 5)


def some_map(rng: random.Random) -> IndexMap:
    """Any map into TAKEN over SHAPE; borders only where every index follows from one axis."""
    border = rng.choice(BORDERS)
    affines = []
    for k in range(4):
        axes = rng.sample(range(4), rng.choice((0, 1, 1, 1, 2)) if border == "zero" else 1)
        terms = {a: rng.choice((-3, -2, -1, 1, 1, 2, 3)) for a in axes}
        if rng.random() < 0.4:
            terms = {k: 1}
        divisor = rng.choice((1, 1, 1, 2, 3))
        affines.append(
            Affine.of(terms, rng.randint(-4, 5), divisor, exact=border == "zero" and rng.random() < 0.3)
        )
    return IndexMap(*affines, border=border)


def domain(shape) -> Domain:
    return Domain((shape[3], shape[2]), shape[0])


def summed(g: Variable, index: IndexMap) -> ContractFunction:
    """The transpose of a gather of g, over SHAPE, by the places of its terms."""
    moved = {a: Affine.axis(4 + a) for a in range(4)}
    fields = {
        "parallel": tuple((n,) for n in TAKEN),
        "reduced": SHAPE,
        "maps": (IndexMap.to(list(moved.values())),),
    }
    place = index.substituted(moved)
    return ContractFunction(g, **fields, place=place)


def matrix(index: IndexMap, taken, shape) -> np.ndarray:
    """Of the gather: a row for each texel of the output."""
    found = np.zeros((np.prod(shape), np.prod(taken)))
    for row, p in enumerate(itertools.product(*map(range, shape))):
        at = dict(enumerate(p))
        q = [a.values(at) for a in index.affines]
        if not all(a.whole_at(at) for a in index.affines):
            continue
        if index.border != "zero":
            q = [int(wrapped(v, n, index.border)) for v, n in zip(q, taken, strict=True)]
        if all(0 <= v < n for v, n in zip(q, taken, strict=True)):
            found[row, np.ravel_multi_index(q, taken)] = 1
    return found
