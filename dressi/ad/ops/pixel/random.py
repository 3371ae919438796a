"""Random numbers: functions of a seed and a counter, equal in every bit on the host and on all devices."""

from __future__ import annotations

import numpy as np

from ...graph import Domain, PixelFunction, Variable, domain_of
from ...graph.types import FLOAT, INT, VEC2, Size
from .constant import Like, integers

__all__ = ["random", "sobol2"]

MASK = np.uint64(0xFFFFFFFF)


def _bits(index: np.ndarray, counter: np.ndarray, seed: np.ndarray) -> np.ndarray:
    """PCG3D of shaders/random.glsl on integers of any sign; 32 bits in uint64."""
    x, y, z = (
        (
            (np.asarray(v, np.int64) & 0xFFFFFFFF).astype(np.uint64) * np.uint64(1664525)
            + np.uint64(1013904223)
        )
        & MASK
        for v in np.broadcast_arrays(index, counter, seed)
    )

    def churn(x, y, z):
        x = (x + y * z) & MASK
        y = (y + z * x) & MASK
        return x, y, (z + x * y) & MASK

    x, y, z = (v ^ (v >> np.uint64(16)) for v in churn(x, y, z))
    return churn(x, y, z)[0]


def _unit(bits: np.ndarray) -> np.ndarray:
    return (bits >> np.uint64(8)).astype(np.float64) / 2.0**24


class Random(PixelFunction):
    """Inputs (seed, counter) INT: FLOAT in [0, 1), a hash of seed, counter, texel and tile."""

    operations = 68.0
    zero_derivative = True
    fields = ("domain",)
    domain: Domain
    includes = ("random.glsl",)
    glsl = "unit_float(random_bits(uint((tile * $size.y + pixel.y) * $size.x + pixel.x), uint($1), uint($0)))"

    def infer(self):
        if any(x.vtype is not INT for x in self.inputs):
            raise self.fail("seed and counter must be INT")
        own, domain = self.broadcast(), self.domain
        for have, want in zip((*own.size, *own[1:]), (*domain.size, *domain[1:]), strict=True):
            if have not in (1, want):
                raise self.fail(f"seed and counter do not broadcast to {self.domain}")
        return FLOAT, self.domain

    def evaluate(self, at, seed, counter):
        width, height = self.domain.size
        return _unit(_bits((at.tile * height + at.y) * width + at.x, counter, seed))


class Sobol2(PixelFunction):
    """Input INT index: VEC2, the point of that number in the two-dimensional Sobol sequence, in [0, 1)."""

    operations = 32.0
    zero_derivative = True
    includes = ("random.glsl",)
    glsl = "sobol2(uint($0))"

    def infer(self):
        if self.inputs[0].vtype is not INT:
            raise self.fail("the index must be INT")
        return VEC2, self.broadcast()

    def eval(self, index):
        rest = (np.asarray(index, np.int64) & 0xFFFFFFFF).astype(np.uint64)
        x, y = np.zeros_like(rest), np.zeros_like(rest)
        direction = np.uint64(0x80000000)
        for bit in range(32):
            chosen = (rest >> np.uint64(bit)) & np.uint64(1)
            x |= chosen << np.uint64(31 - bit)
            y ^= chosen * direction
            direction ^= direction >> np.uint64(1)
        return np.stack((_unit(x), _unit(y)), axis=-1)


def random(seed: Like, counter: Like, size: Size, batch: int = 1) -> Variable:
    """Random numbers, uniform in [0, 1) in steps of 2**-24: a hash of seed, counter, texel and tile.

    seed, counter: INT Variables (one texel, or the domain of the result) or Python ints; send another counter
    for other numbers. size (W, H), batch: of the result, FLOAT. The same on all devices and on the host. No
    derivative. Raises GraphError.

    >>> a, b = F.random(1, 0, (64, 64)), F.random(1, 1, (64, 64))
    >>> 0.4 < evaluate(F.mean(a)).item() < 0.6, evaluate(F.mean(F.equal(a, b))).item() < 0.01
    (True, True)
    """
    seed, counter = integers(seed, counter)
    return Random(seed, counter, domain_of(size, batch)).output


def sobol2(index: Like) -> Variable:
    """Points of the two-dimensional Sobol sequence in [0, 1), cut to 24 bits, exact.

    index: INT, the number of the point. The result is VEC2 of its domain. Any 2**k points from a multiple of
    2**k on fall into different cells of width 2**-k in each dimension. No derivative. Raises GraphError.

    >>> evaluate(F.sobol2(Variable.of([0, 1, 2, 3], INT))).tolist()
    [[0.0, 0.0], [0.5, 0.5], [0.25, 0.75], [0.75, 0.25]]
    """
    return Sobol2(*integers(index)).output
