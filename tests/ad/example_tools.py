"""What examples of Functions are made of: leaves with deterministic data, and the registry.

Data are exact in float32, and lie away from kinks and ties, so that central differences are meaningful.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dressi.ad.graph import Function, Variable
from dressi.ad.graph.types import FLOAT, VType


@dataclass(frozen=True)
class Example:
    """A graph: its output, and the leaves by which the output is differentiable there (not all, maybe
    none)."""

    output: Variable
    wrt: tuple[Variable, ...] = ()


Build = Callable[[], Example]
EXAMPLES: dict[type[Function], list[Build]] = {}

SIZE, BATCH = (5, 4), 2


def leaf(vtype: VType = FLOAT, size=SIZE, batch=1, low=-1.0, high=1.0, *, salt=0, name=None) -> Variable:
    """A leaf with random data in [low, high), different for every type, domain and ``salt``."""
    seed = zlib.crc32(repr((vtype.name, size, batch, low, high, salt)).encode())
    rng = np.random.default_rng(seed)
    shape = (batch, size[1], size[0], *vtype.shape)
    if vtype.is_int:
        return Variable(vtype, size, batch, data=rng.integers(int(low), int(high), shape), name=name)
    values = rng.uniform(low, high, shape).astype(np.float32)
    return Variable(vtype, size, batch, data=values, name=name)


def apart(vtype: VType = FLOAT, size=SIZE, batch=1, *, offset=0.3, salt=0) -> Variable:
    """A leaf of distinct values k + offset, k whole numbers around 0: no ties, and no kink of floor or
    abs."""
    shape = (batch, size[1], size[0], *vtype.shape)
    count = int(np.prod(shape))
    order = np.random.default_rng(zlib.crc32(repr((shape, salt)).encode())).permutation(count)
    return Variable(vtype, size, batch, data=(order - count // 2 + offset).astype(np.float32).reshape(shape))


def add(cls: type[Function], *builds: Build) -> None:
    EXAMPLES.setdefault(cls, []).extend(builds)


def example(
    function: Callable[..., Variable], *make: Callable[[], Variable], only: int | None = None
) -> Build:
    """The function of fresh leaves; differentiable by the first ``only`` of those that hold floats."""

    def build() -> Example:
        inputs = [m() for m in make]
        wrt = [x for x in inputs[:only] if not x.vtype.is_int]
        return Example(function(*inputs), tuple(wrt))

    return build


def of(vtype=FLOAT, size=SIZE, batch=1, low=-1.0, high=1.0, salt=0) -> Callable[[], Variable]:
    return lambda: leaf(vtype, size, batch, low, high, salt=salt)
