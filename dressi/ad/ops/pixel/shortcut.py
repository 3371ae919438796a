"""Derivatives that are shortcuts: first derivatives in a cheaper form than the graph that further ones are taken of.

Some derivatives have a form that is cheaper than what differentiating a graph gives, and equal to it: a fused shader
function, or a path left out because what flows along it is zero. The derivative *of* that form is not the second
derivative, where it leaves something out, or there is none. So each such form comes with the ordinary graph that it
stands for. Simplification drops what only derivatives read: programs of first order hold the shortcut alone.

    distance to a line: d = |p - q(t)|, where d does not change with t to first order:
    gradient by q with t held: right; its derivative with t held: wrong, the point q slides along the line
"""

from __future__ import annotations

import numpy as np

from ...graph import PixelFunction, Variable


class Alias(PixelFunction):
    """Kind: the value is that of the first input; further ones are there for derivatives."""

    operations = 1.0
    glsl = "$0"

    def infer(self):
        return self.inputs[0].vtype, self.broadcast()

    def eval(self, *x: np.ndarray) -> np.ndarray:
        return x[0]


class Shortcut(Alias):
    """Inputs (short, exact), which are equal: the value of the first, the derivatives of the second."""

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
