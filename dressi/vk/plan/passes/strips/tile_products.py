"""Products of two operands, matrix products and convolutions, by tiles of workgroups that hold blocks of both operands.

An invocation by itself reads a row of its strips for each of its columns; a workgroup reads it once for all of them. Which
tile, and whether any, is what the predictor expects to be done soonest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...context import Context
from ...lowering.tiling.chain import links_of, shared_words
from ...lowering.tiling.parts import SHARED_BYTES
from ...lowering.tiling.products import ProductLayout, products
from ...lowering.tiling.strips import strips_in
from ...predict.strips import Memo, strips_seconds
from ...substage import SubStage, TiledCompute
from .divide import each_alone

MOST_TURNS = 65535
"""Of all loops of an invocation; lavapipe ends it there."""


def tile_products(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages; dispatches of one contraction are made by tiles of workgroups where they are expected to be done sooner."""
    return each_alone(sub_stages, context, _tiled)


def _tiled(s: SubStage, context: Context) -> SubStage:
    (f,), memo = strips_in(s), Memo()
    limits, model = context.limits, context.cost
    best, found = strips_seconds(s, limits, model), s
    for strips in products(f, limits, model, context.options.half_products):
        tried = replace(s, work=TiledCompute({f: strips}))
        if not _fits(tried):
            continue
        seconds = strips_seconds(tried, limits, model, memo)
        if seconds < best:
            best, found = seconds, tried
    return found


def _fits(s: SubStage) -> bool:
    (link,) = links_of(s)
    assert isinstance(link.layout, ProductLayout), "it was divided so"
    return 4 * shared_words(s) <= SHARED_BYTES and link.layout.turns <= MOST_TURNS
