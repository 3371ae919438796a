"""Shortcuts: first derivatives in a cheaper form than the graph from which second derivatives are taken.

Some first derivatives have a form that is cheaper than the graph that differentiation builds, and has the same value: a
fused shader function, or a graph without the terms that are zero. Differentiating the cheap form would give a wrong
second derivative, or none. So a shortcut pairs the cheap form with the ordinary graph: the value is that of the former,
the derivatives are those of the latter. In programs without second derivatives nothing reads the ordinary graph, and
simplification drops it.

    distance to a line: d = |p - q(t)|, where d does not change with t to first order. The gradient by q with constant t
    is right. Its derivative with constant t is wrong, because the nearest point q moves along the line.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ...graph import PixelFunction, Variable
from ...types import Access


class Alias(PixelFunction):
    """Kind: the output is the first input. The other inputs are only used by derivatives."""

    operations = 1.0
    glsl = "$0"

    def infer(self):
        return self.inputs[0].vtype, self.broadcast()

    def eval(self, *x: np.ndarray) -> np.ndarray:
        return x[0]


class AliasBeside(Alias):
    """Kind: an ``Alias`` whose other inputs are of any domains. Derivatives read them as whole images."""

    fetches = 0.0  # the value alone is read

    @cached_property
    def access(self):
        return (Access.SAME_PIXEL, *[Access.FETCH] * (len(self.inputs) - 1))

    def infer(self):
        return self.inputs[0].vtype, self.inputs[0].domain

    def jvp(self, tangents):
        return tangents[0]


class Shortcut(Alias):
    """Inputs (short, exact), which have equal values: the value of the first, the derivatives of the second."""

    def infer(self):
        short, exact = self.inputs
        if short.vtype is not exact.vtype:
            raise self.fail("needs two Variables of one type")
        return super().infer()

    def vjp(self, gy, i):
        return gy if i == 1 else None

    def jvp(self, tangents):
        return tangents[1]


def shortcut(short: Variable, exact: Variable) -> Variable:
    """``short``, with the derivatives of ``exact``. The two have equal types and values; sizes and batches broadcast."""
    return Shortcut(short, exact).output
