"""Hints for the planner: what is stored in an image, and what every reader computes again."""

from __future__ import annotations

from functools import cached_property

from ...graph import Variable
from ...graph.types import Access
from .constant import Like, operands
from .kinds import Linear

__all__ = ["recompute", "store"]


class Hint(Linear):
    """The base of Functions that return their input."""

    operations = 1.0
    exact = True
    glsl = "$0"

    def infer(self):
        return self.inputs[0].vtype, self.inputs[0].domain

    def eval(self, x):
        return x

    def transpose(self, gy):
        return gy


class Later(Hint):
    """Identity with control dependencies. Inputs (x, later...): x, for readers that run after the others."""

    fetches = 0.0
    stores_inputs = True

    @cached_property
    def access(self):
        return (Access.SAME_PIXEL, *[Access.FETCH] * (len(self.inputs) - 1))

    def evaluate(self, at, x, *later):
        return x

    def vjp(self, gy, i):
        return gy if i == 0 else None

    def jvp(self, tangents):
        return tangents[0]


class Store(Hint):
    stores_inputs = True


class Recompute(Hint):
    recomputes_inputs = True


def store(x: Like) -> Variable:
    """x, which the plan stores in an image or a buffer, from where other passes and other texels read it.

    x: any type; the result has its type and domain. Results do not depend on it, only times. Differentiable.

    >>> x = Variable.of([1.0, 2.0, 3.0, 4.0, 5.0])
    >>> evaluate(F.shift(F.store(F.exp(x * 0.0)), 1, 0)).tolist()
    [[[1.0, 1.0, 1.0, 1.0, 1.0]]]
    """
    return Store(*operands(x)).output


def recompute(x: Like) -> Variable:
    """x, which every pass computes again wherever it reads it, as far as shaders may grow.

    x: any type; the result has its type and domain. It changes times and memory, not results. Differentiable.

    >>> x = Variable.of([1.0, 2.0, 3.0, 4.0, 5.0])
    >>> evaluate(F.sum(F.recompute(F.square(x)))).item()
    55.0
    """
    return Recompute(*operands(x)).output
