"""Products and sums that the driver may fuse: one multiply-add, rounded once instead of twice.

By default every temporary is ``precise`` in GLSL, which forbids that. It has to be where a value is tested:

- Two shaders may compute the same value and compare it with something. They have to agree, or a pixel counts as inside
  for one and as outside for the other.
- Two triangles share an edge. Each computes ``a * b - c * d`` with its own order of corners; a fused product makes one sum
  positive and leaves the other at zero, so that the pixel belongs to both or to none.
- Floors, comparisons and indices turn the last bit of a value into another texel.

So this pass leaves ``precise`` on everything that such inputs depend on: those which classes of Functions name in
``decides_on``, by default all. Compensated sums and fixed-point sums say ``precise`` in their own snippets. The rest is free:
gradients of smooth losses, optimizers, shading.

Off by default, since packed plans promise the bits of the baseline. On lavapipe it
changed neither bits nor time. On GPU and tiler records all arithmetic together is 0 to 18 % of a predicted step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ....ad.graph import Function, Variable
from ..context import Context
from ..substage import SubStage


def contract_operations(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages with the Functions that may be contracted."""
    tested = tested_values(context.functions)

    def free(s: SubStage) -> frozenset[Function]:
        known = (f for f in s.everything if f.decides_on is not None and not f.zero_derivative)
        return frozenset(f for f in known if f.output not in tested)

    return [replace(s, contracted=free(s)) for s in sub_stages]


def tested_values(functions: Iterable[Function]) -> set[Variable]:
    """Everything that an input which decides depends on. functions: producers first."""
    tested: set[Variable] = set()
    for f in reversed(tuple(functions)):
        some = None if f.zero_derivative or f.output in tested else f.decides_on
        tested.update(f.inputs if some is None else [f.inputs[k] for k in some])
    return tested
