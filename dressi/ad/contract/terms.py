"""The terms of a contraction: axes, reads and guards; the extents n, c, y, x of images."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..graph import Domain, Variable
from ..graph.evaluation import SubGraph
from ..graph.index_map import Affine, IndexMap
from ..graph.types import VType
from ..ops.pixel.arithmetic import Mul
from .readers import FEW, Readers, readers

COMBINE = {"add": np.add, "max": np.maximum, "min": np.minimum}

Guard = tuple[Affine, int]
"""An index that has to be whole and in [0, extent)."""


def shape_of(x: Variable) -> tuple[int, int, int, int]:
    """The extents n, c, y, x of an image."""
    return x.batch, x.channels, x.size[1], x.size[0]


def domain_of_shape(shape: Sequence[int]) -> Domain:
    n, c, y, x = shape
    return Domain((x, y), n * c, c)


def nothing(combine: str, vtype: VType) -> float:
    """The neutral value: the result of no terms."""
    if combine == "add":
        return 0
    numbers = np.iinfo(np.int32)
    low, high = (numbers.min, numbers.max) if vtype.is_int else (-np.inf, np.inf)
    return low if combine == "max" else high


def nothing_glsl(combine: str, vtype: VType) -> str:
    low, high = ("-2147483647 - 1", "2147483647") if vtype.is_int else ("-1.0 / 0.0", "1.0 / 0.0")
    return f"{vtype.glsl}({ {'add': '0', 'max': low, 'min': high}[combine] })"


@lru_cache(64)
def identity(vtype: VType) -> SubGraph:
    value = Variable(vtype)
    return SubGraph((value,), (value,))


def is_product(body: SubGraph) -> bool:
    """Whether a body is the product of its formals, each once."""
    factors: list[Variable] = []
    stack = [body.root]
    while stack:
        v = stack.pop()
        if isinstance(v.creator, Mul):
            stack.extend(v.creator.inputs)
        else:
            factors.append(v)
    return len(factors) == len(body.formals) and {*factors} == {*body.formals}


class Terms:
    """What the terms of a contraction are made of. Fields: see ``ContractFunction``; defaults: a plain
    sum."""

    fields = ("parallel", "reduced", "maps", "guards", "combine", "indices", "body", "place")
    parallel: tuple[tuple[int, ...], ...]
    reduced: tuple[int, ...]
    maps: tuple[IndexMap, ...]
    guards: tuple[Guard, ...] = ()
    combine: str = "add"
    indices: tuple[Affine, ...] = ()
    place: IndexMap | None = None
    long = 32
    """Terms of a loop from which on its sum is compensated (Kahan)."""

    @cached_property
    def body(self) -> SubGraph:
        return identity(self.inputs[0].vtype)

    @property
    def form(self) -> dict[str, Any]:
        """The fields of an equal contraction of other inputs."""
        return {name: getattr(self, name) for name in Terms.fields}

    @cached_property
    def extents(self) -> tuple[int, ...]:
        """The extents of all axes, by number."""
        return (*itertools.chain(*self.parallel), *self.reduced)

    @cached_property
    def axes(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of the parallel axes that make up each axis of the output."""
        numbers = itertools.count()
        return tuple(tuple(next(numbers) for _ in extents) for extents in self.parallel)

    @property
    def reduced_axes(self) -> range:
        return range(len(self.extents) - len(self.reduced), len(self.extents))

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents n, c, y, x of the output."""
        return tuple(math.prod(extents) for extents in self.parallel)

    @cached_property
    def readers(self) -> Readers:
        """The terms of a texel, where these follow from their ``place``."""
        assert self.place is not None
        return readers(self.place, tuple(axes[0] for axes in self.axes), self.extents, self.reduced_axes)

    @property
    def sums(self) -> bool:
        """Whether it adds up what it reads of one input."""
        return self.combine == "add" and len(self.inputs) == 1 and self.body.root is self.body.formals[0]

    @property
    def selects(self) -> bool:
        """Whether each texel is one texel of the input, or zero."""
        return (
            self.sums
            and self.place is None
            and self.terms == 1
            and len(self.extents) == 4 + len(self.reduced)
        )

    @property
    def writes_out(self) -> bool:
        """Whether the terms are unrolled instead of nested loops."""
        loops = sum(extent > 1 for extent in self.reduced)
        return self.terms == 1 or (loops > 1 and self.terms <= FEW and len(self.inputs) == 1)

    if TYPE_CHECKING:
        inputs: Any
        output: Any
        fail: Any

    @property
    def terms(self) -> int:
        """The number of terms of one texel of the output."""
        return math.prod(self.reduced)
