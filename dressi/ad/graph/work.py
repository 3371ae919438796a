"""What a Function reads, and the work of one evaluation, as its class declares it. The planner uses these
figures to decide whether to store a value or to compute it again; results do not depend on them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from .types import Access

UNROLLED = 4
"""Texels that one iteration of an unrolled loop takes."""


class Edge(NamedTuple):
    """An input of a Function. maker: the Function that computes it, None for a leaf. near: whether it is read
    at the invocation's own texel, of an image over the same domain."""

    variable: Any
    maker: Any
    access: Access
    near: bool


class Work:
    """The figures that a class of Functions declares. The defaults are for classes of users.

    A class sets each as an attribute, or as a property if it depends on the application:

    ``operations``: arithmetic operations for one component of the output, or for one iteration of a loop. An
      addition counts 2 (one for its result), a root or exponential 9, a GLSL function of a dozen lines 31.
    ``iterations``: the most loop iterations of one evaluation; nested loops multiply. The planner keeps
      shaders below the limits of drivers: lavapipe ends all loops of an invocation after 65,535, silently.
    ``fetches``: texels of each FETCH input that one evaluation reads; ``math.inf``, the default, if it
      depends on the data. An input of which few texels are read may be computed again instead of stored.
    ``footprint``: the distance, along either axis, at which an evaluation reads FETCH inputs of the output's
      domain; ``math.inf``, the default, if it is not bounded. Values known that far around make it known.
    ``quiet``: the value of the output at nearly all texels, or None. What follows from the output is only
      computed on texels with another value, or on blocks with one. Planners expect these along lines where a
      Function has a ``footprint``, and else in half of an image.
    ``divides``: whether the texels that are not ``quiet`` are one of several parts of an image: what only
      counts there gets shaders of its own.

    >>> class Blur(PixelFunction):
    ...     access, operations, fetches = (Access.FETCH,), 4.0, 2.0
    ...     glsl = "0.5 * ($0(pixel, tile) + $0(max(pixel - ivec2(1, 0), ivec2(0)), tile))"
    ...     infer = lambda self: (self.inputs[0].vtype, self.inputs[0].domain)
    >>> F.apply(Blur, Variable.of([1.0, 2.0], FLOAT)).creator.reads(0)
    2.0
    """

    operations: float | Any = 16.0
    iterations: int | Any = 0
    ranges: int | None = None
    """The number of the input, IVEC2 (first, count), whose counts are the iterations, also as they are
    sent."""
    fetches: float | Any = math.inf
    footprint: float | Any = math.inf
    quiet: float | None = None
    divides: bool = False
    stores_inputs: bool = False
    """Whether its inputs are stored in any case, and not computed again."""
    recomputes_inputs: bool = False
    """Whether whoever reads its inputs computes them again, whatever that costs."""
    saves_memory: bool = False
    """Whether it exists to save memory: the planner orders what runs so that few bytes live at a time."""
    if TYPE_CHECKING:
        access: Any

    def shortened(self, most: int) -> Any:
        """A Variable equal to the output, from Functions that loop at most ``most`` times each; None, the
        default, if no way is known. Planners ask for it where one longer loop would keep thousands of
        invocations waiting."""
        return None

    def reads(self, k: int) -> float:
        """Texels of input ``k`` that one evaluation reads."""
        return float(self.fetches) if self.access[k] is Access.FETCH else 1.0
