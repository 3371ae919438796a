"""A graph in numbers: Functions are numbered once, producers first, and what every analysis asks of them stands in lists."""

from __future__ import annotations

from collections.abc import Iterable

from ....ad.graph import Function, PixelFunction, ScatterFunction
from ....ad.types import Access


class Numbered:
    """functions: producers first; number: of each.  makers: of each the numbers of the Functions that make its inputs, in
    order, -1 for leaves and for what is made elsewhere.  same_pixel: those of them that it reads at its own pixel.
    elsewhere: those of other texels or domains.  working: the
    domains over which they run.  joins: whether a Function can share a shader with the makers of what it reads at its own
    pixel.  fusable: whether it can share one with such readers.

    Lists made by ``flags`` end with a 0 more: that of the number -1.
    """

    def __init__(self, functions: list[Function]):
        self.functions = functions
        self.number = number = {f: k for k, f in enumerate(functions)}
        same = Access.SAME_PIXEL
        self.makers, self.same_pixel, self.elsewhere = [], [], []
        for f in functions:
            makers, here, far = [], [], []
            for _, maker, access, near in f.edges:
                m = number.get(maker, -1)
                makers.append(m)
                if m >= 0:
                    if access is same:
                        here.append(m)
                    if not near:
                        far.append(m)
            self.makers.append(makers)
            self.same_pixel.append(here)
            self.elsewhere.append(far)
        self.working = [f.working_domain for f in functions]
        self.joins = [isinstance(f, (PixelFunction, ScatterFunction)) for f in functions]
        self.fusable = [isinstance(f, PixelFunction) and f.quiet is None for f in functions]

    def flags(self, functions: Iterable[Function | None]) -> bytearray:
        """1 for the numbers of these Functions; what is not among the numbered ones is left out."""
        found, number = bytearray(len(self.functions) + 1), self.number
        for f in functions:
            if f in number:
                found[number[f]] = 1
        return found
