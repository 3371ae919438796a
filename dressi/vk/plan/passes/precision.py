"""Passes that round otherwise: 16-bit floats between shaders, and fused products and sums."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ....ad.graph import Function, RasterFunction, ReduceFunction, Variable
from ....ad.graph.traversal import reached
from ....errors import PlanError
from ..analysis.context import Context
from ..core.substage import Compute, Fragment, Scatter, SubStage, TiledCompute

# 16-bit intermediates: what passes hand to each other on pixels takes half the bytes.
#
# Half floats have 11 significant bits and end at 65504. They serve colours, distances in pixels and their
# gradients; they do not serve positions: with half positions the face form's gradient is off by a fifth.
# Where a program rasterizes, only images over the pixels of a raster are narrow, because lists of vertices
# and faces hold positions. What rasters read, integers, single texels and all that outlives a step stay as
# they are.
#
# What is added up stays wide as well: values that a shader with a scatter or a reduction reads, and those
# that make the bound of a scatter. The summands of gradients are small: of a mean over a million pixels they
# are below 6e-8, the smallest half float. And a scatter clamps what its bound does not cover: both have to
# see the same bits.


def narrow_intermediates(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages with narrow outputs. Raises PlanError on devices without images of 16-bit floats."""
    if not context.limits.half_images:
        raise PlanError(
            "this device has no images of 16-bit floats for all uses; leave narrow_intermediates out of the"
            " options"
        )
    added = _added_up(context)
    rasters = {f.output.domain for f in context.functions if isinstance(f, RasterFunction)}

    def narrow(s: SubStage) -> SubStage:
        pixels = not rasters or s.domain in rasters
        if not isinstance(s.work, Fragment | Compute) or not pixels:
            return s
        outputs = (v for v in s.outputs if v.domain == s.domain and v.size != (1, 1) and not v.vtype.is_int)
        return replace(s, narrow=frozenset(outputs) - context.unchanged - added)

    return [narrow(s) for s in sub_stages]


def _added_up(context: Context) -> set[Variable]:
    """What shaders read that add values up, or that make the bound of a scatter of what they read."""
    uses = context.uses

    def bounded(k: int) -> list[int]:
        s = uses.sub_stages[k]
        bounds = [] if s.scatter is None else [s.scatter.inputs[0]]
        # A bound is a maximum, and that is a tree of them.
        bounds += [r.variable for r in s.reads if all(isinstance(f, ReduceFunction) for f in s.functions)]
        return [uses.maker[v] for v in bounds if v in uses.maker]

    adding = reached((k for k, s in enumerate(uses.sub_stages) if _adds(s)), bounded)
    return {r.variable for k in adding for r in uses.sub_stages[k].reads}


def _adds(s: SubStage) -> bool:
    return isinstance(s.work, Scatter | TiledCompute) or any(
        isinstance(f, ReduceFunction) for f in s.everything
    )


# Products and sums that the driver may fuse: one multiply-add, rounded once instead of twice.
#
# By default every temporary is ``precise`` in GLSL, which forbids that. It has to be where a value is tested:
#
# - Two shaders may compute the same value and compare it with something. They have to agree, or a pixel
#   counts as inside for one and as outside for the other.
# - Two triangles share an edge. Each computes ``a * b - c * d`` with its own order of corners; a fused
#   product makes one sum positive and leaves the other at zero, so that the pixel belongs to both or to none.
# - Floors, comparisons and indices turn the last bit of a value into another texel.
#
# So this pass leaves ``precise`` on everything that such inputs depend on: those which classes of Functions
# name in ``decides_on``, by default all. Compensated sums and fixed-point sums say ``precise`` in their own
# snippets. The rest is free: gradients of smooth losses, optimizers, shading.
#
# Off by default, since packed plans promise the bits of the baseline. On lavapipe it changed neither bits nor
# time. On GPU and tiler records all arithmetic together is 0 to 18 % of a predicted step.


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
