"""Random index maps, and the matrices that they stand for."""

import itertools
import random

import numpy as np

from dressi.ad.graph import Domain
from dressi.ad.graph.index_map import BORDERS, Affine, IndexMap, wrapped

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
