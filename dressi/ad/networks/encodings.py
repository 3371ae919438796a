"""Encodings of positions, from which networks learn details: Fourier features, sinusoids, hash grids."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Sequence

import numpy as np

from ...errors import GraphError
from .. import functional as F
from ..graph import PixelFunction, Variable
from ..graph.types import FLOAT, INT, IVEC2, IVEC3, VEC2, VEC3, whole
from .layers import Weights, features, weight_of

__all__ = ["fourier_features", "hash_grid", "hash_grid_init", "sinusoidal_positions"]


def fourier_features(x: Variable, frequencies: int | np.ndarray, include: bool = False) -> Variable:
    """Sines and cosines of positions: of pi 2^k times each coordinate (Mildenhall et al., NeRF, equation 4),
    or of 2 pi times random products (Tancik et al., Fourier Features).

    x: FLOAT of D channels, or VECn of D components.  frequencies: how many octaves k = 0, 1, ..., or an array
    (M, D), such as normal numbers times a scale.  include: whether x itself is there too, at first. The
    result is FLOAT of 2 M channels, all sines before all cosines, with M = D times the octaves, coordinate by
    coordinate. Differentiable in x. Raises GraphError.

    >>> networks.fourier_features(Variable(VEC2, (64, 64)), 6).channels
    24
    """
    x = features(x, "an encoding")
    if isinstance(frequencies, np.ndarray):
        matrix = 2.0 * math.pi * frequencies
    else:
        octaves = math.pi * 2.0 ** np.arange(whole(frequencies, "a number of octaves", 1))
        matrix = np.kron(np.eye(x.channels), octaves[:, None])
    if matrix.ndim != 2 or matrix.shape[1] != x.channels:
        raise GraphError(
            f"frequencies of {x.channels} coordinates are an array (M, {x.channels}), not {matrix.shape}"
        )
    angle = F.contract(
        "out[n, m, y, x] = image[n, c, y, x] * matrix[0, 0, m, c]", image=x, matrix=Variable.of(matrix, FLOAT)
    )
    return F.concatenate_channels(*([x] if include else []), F.sin(angle), F.cos(angle))


def sinusoidal_positions(length: int, channels: int) -> Variable:
    """Positions of tokens, to be added to them. Vaswani et al., Attention Is All You Need, section 3.5.

    length: tokens, a row. channels: an even number; sines and cosines take turns. The result is FLOAT
    (length, 1) of these channels, a constant without derivative. Raises GraphError.

    >>> evaluate(networks.sinusoidal_positions(3, 2)).shape
    (1, 2, 1, 3)
    """
    length, channels = whole(length, "a length", 1), whole(channels, "a number of channels", 2)
    if channels % 2:
        raise GraphError(f"sinusoidal positions have an even number of channels, not {channels}")
    rates = 10000.0 ** (-np.arange(0, channels, 2) / channels)
    angles = rates[:, None] * np.arange(length)
    values = np.stack((np.sin(angles), np.cos(angles)), axis=1).reshape(1, channels, 1, length)
    return Variable(FLOAT, (length, 1), channels=channels, name="positions", data=values)


# Grids of features at many resolutions, whose fine levels share a table by a hash (instant-ngp).

PRIMES = (1, 2654435761, 805459861)
"""Factors of the coordinates in the hash: equation 4."""


class GridIndex(PixelFunction):
    """Input IVEC2 or IVEC3, a vertex of a grid of ``resolution`` cells: INT, its place in a table of
    ``entries``, row by row if all vertices fit, else by the hash of Mueller et al., equation 4."""

    operations = 10.0
    zero_derivative = True
    fields = ("resolution", "entries")
    resolution: int
    entries: int

    def infer(self):
        if self.inputs[0].vtype not in (IVEC2, IVEC3):
            raise self.fail("takes IVEC2 or IVEC3")
        if not self.dense and self.entries & (self.entries - 1):
            raise self.fail(f"the table holds a power of two of entries, not {self.entries}")
        return INT, self.broadcast()

    @property
    def dimensions(self) -> int:
        return self.inputs[0].vtype.components

    @property
    def dense(self) -> bool:
        return (self.resolution + 1) ** self.dimensions <= self.entries

    @property
    def glsl(self) -> str:
        axes = "xyz"[: self.dimensions]
        if self.dense:
            return " + ".join(f"$0.{a} * {(self.resolution + 1) ** k}" for k, a in enumerate(axes))
        mixed = " ^ ".join(f"(uint($0.{a}) * {p}u)" for a, p in zip(axes, PRIMES, strict=False))
        return f"int(({mixed}) & {self.entries - 1}u)"

    def eval(self, vertex):
        axes = [np.asarray(vertex[..., k], np.int64) for k in range(self.dimensions)]
        if self.dense:
            return sum(a * (self.resolution + 1) ** k for k, a in enumerate(axes))
        mixed = np.zeros_like(axes[0])
        for a, p in zip(axes, PRIMES, strict=False):
            mixed ^= (a * p) & 0xFFFFFFFF
        return mixed & (self.entries - 1)


def hash_grid_init(
    rng: np.random.Generator, levels: int = 8, entries: int = 1 << 14, features: int = 2
) -> dict[str, np.ndarray]:
    """Arrays for ``hash_grid``: "tables" (levels, entries, features), uniform in [-1e-4, 1e-4].

    rng: numpy.random.default_rng(seed). levels: of resolution. entries: of each table, a power of two.
    features: of each entry, 2 to 4. Raises GraphError.

    >>> networks.hash_grid_init(np.random.default_rng(0), levels=4, entries=256)["tables"].shape
    (4, 256, 2)
    """
    if entries < 1 or entries & (entries - 1):
        raise GraphError(
            f"the tables of a hash grid hold a power of two of entries, such as 16384, not {entries}"
        )
    if not 2 <= features <= 4 or levels < 1:
        raise GraphError(f"a hash grid has levels of 2 to 4 features, not {levels} of {features}")
    return {"tables": rng.uniform(-1e-4, 1e-4, (levels, entries, features))}


def resolutions(levels: int, coarsest: int, finest: int) -> list[int]:
    """Cells along a side of every level, by a constant factor: equations 2 and 3. Raises GraphError."""
    if not 1 <= coarsest <= finest:
        raise GraphError(
            f"resolutions of a hash grid go from coarse to fine, not from {coarsest} to {finest}"
        )
    growth = (finest / coarsest) ** (1.0 / max(levels - 1, 1))
    return [math.floor(coarsest * growth**level + 1e-6) for level in range(levels)]


def hash_grid(layer: Weights, x: Variable, coarsest: int = 16, finest: int = 512) -> Variable:
    """Features at positions, interpolated in grids. Mueller et al., Instant Neural Graphics Primitives.

    layer: "tables", see ``hash_grid_init``.  x: VEC2 or VEC3 in [0, 1]; what lies outside is moved to the
    border.  coarsest, finest: cells along each side of the first and the last level. The result is FLOAT, of
    levels times features channels. Differentiable in the tables and, in cells, in x. Raises GraphError.

    >>> grid = networks.parameters(networks.hash_grid_init(np.random.default_rng(0), levels=4, entries=256))
    >>> networks.hash_grid(grid, Variable(VEC2, (32, 32)), 4, 64).shape
    (1, 8, 32, 32)
    """
    tables = weight_of(layer, "tables", "a hash grid")
    if tables.count is None or tables.vtype.is_scalar:
        raise GraphError(f"the tables of a hash grid are (levels, entries, features), not {tables}")
    if x.vtype not in (VEC2, VEC3) or x.channels > 1:
        raise GraphError(f"a hash grid takes positions VEC2 or VEC3, not {x}")
    levels = []
    for level, cells in enumerate(resolutions(tables.batch, coarsest, finest)):
        place = F.clamp(x, 0.0, 1.0) * float(cells)
        lower = F.minimum(F.floor(place), float(cells - 1))
        within, vertex = place - lower, F.to_int(lower)
        table = tables if tables.batch == 1 else F.take(tables, level)
        parts = []
        for corner in itertools.product((0, 1), repeat=x.vtype.components):
            index = GridIndex(vertex + corner, cells, tables.count).output
            parts.append(F.lookup(table, index) * _weight(within, corner))
        levels.append(F.to_channels(functools.reduce(operator.add, parts)))
    return F.concatenate_channels(*levels)


def _weight(within: Variable, corner: Sequence[int]) -> Variable:
    """The weight of a corner of a cell: linear along each axis."""
    sides = [
        F.component(within, k) if high else 1.0 - F.component(within, k) for k, high in enumerate(corner)
    ]
    return functools.reduce(operator.mul, sides)
