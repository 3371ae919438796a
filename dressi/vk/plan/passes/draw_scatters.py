"""Scatters that have nothing to add where a raster hit nothing: they are drawn instead of dispatched.

A raster's value is -1 where no primitive covers a pixel. If that alone makes every scattered value zero (through
selects, products, lookups out of range), only pixels under the primitives matter, and drawing the same primitives
again visits just these: a fragment works where its own number is the winner's. What a soft silhouette costs is then
its band, not the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....ad.graph import RasterFunction, ScatterFunction, Variable
from ..analysis.known_values import HIT_NOTHING, adds_nothing, values_where
from ..analysis.restrict import restrict
from ..context import Context
from ..limits import DeviceLimits
from ..lists import FaceList
from ..substage import Binding, Raster, Read, ScatterDispatch, ScatterDraw, SubStage, Undecided
from .compact_live_faces import vertices_expected

PIXELS_PER_VERTEX = 8
"""What a vertex costs, measured in pixels of a scatter over the whole image on CPU drivers."""


def draw_scatters(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages, with scatters as draws where a raster of the same schedule bounds them.

    A scatter takes the makers of its values into its shader. Where one of these is wanted as an image too, the
    residual for the value of the loss for example, the scatter would have to visit every pixel for it. Loop fission:
    the image is made apart, and the scatter computes its own at the few pixels it visits.
    """
    limits = context.limits
    rasters = {v for s in sub_stages if isinstance(s.work, Raster) for v in s.outputs}
    split = [
        _split(s, context) if _several(s) and any(r.variable in rasters for r in s.reads) else (s,)
        for s in sub_stages
    ]
    drawn = {
        s.outputs
        for s in _drawn_where_possible([s for parts in split for s in parts], limits)
        if isinstance(s.work, ScatterDraw)
    }
    pairs = zip(sub_stages, split, strict=True)
    found = [s for whole, parts in pairs for s in (parts if parts[-1].outputs in drawn else (whole,))]
    return _drawn_where_possible(found, limits)


def _several(s: SubStage) -> bool:
    return isinstance(s.work, ScatterDispatch) and len(s.outputs) > 1


def _split(s: SubStage, context: Context) -> tuple[SubStage, SubStage]:
    """The images as a SubStage of its own, and the scatter alone."""
    scatter = s.scatter
    assert scatter is not None
    images = tuple(v for v in s.outputs if v is not scatter.output)
    first = restrict(s, context.analysis, images, Undecided())
    return first, restrict(s, context.analysis, (scatter.output,), s.work)


def _drawn_where_possible(sub_stages: Sequence[SubStage], limits: DeviceLimits) -> list[SubStage]:
    """The SubStages, with ``drawn`` set for scatters that a raster of the same schedule bounds."""
    rasters = {
        f.output: (f, s, s.work.faces)
        for s in sub_stages
        for f in s.functions
        if isinstance(s.work, Raster)
        and isinstance(f, RasterFunction)
        and f.fragment is not None
        and f.disjoint
        and _worth_it(f, s.work.faces)
    }
    return [_drawn(s, rasters, limits) for s in sub_stages]


def _worth_it(f: RasterFunction, listed: FaceList | None) -> bool:
    """Many primitives on a small image: then visiting every pixel is cheaper than drawing them again."""
    return vertices_expected(f, listed) * PIXELS_PER_VERTEX <= f.size[0] * f.size[1]


def _drawn(
    s: SubStage,
    rasters: dict[Variable, tuple[RasterFunction, SubStage, FaceList | None]],
    limits: DeviceLimits,
) -> SubStage:
    if not isinstance(s.work, ScatterDispatch) or len(s.outputs) > 1 or not limits.fragment_atomics:
        return s
    for read in s.reads:
        raster, drawing, faces = rasters.get(read.variable, (None, s, None))
        if raster is not None and read.variable.domain == s.domain and _silent(s, read.variable):
            known = {r.variable for r in s.reads}
            # Whatever the vertex shader of the raster needs.
            pulled = [
                r.variable
                for r in drawing.reads
                if r.binding is not Binding.ATTACHMENT and r.variable not in known
            ]
            reads = (*s.reads, *(Read(x, Binding.TEXTURE, True) for x in pulled))
            candidate = replace(s, work=ScatterDraw(raster=raster, faces=faces), reads=reads)
            return s if limits.violation(candidate) else candidate
    return s


def _silent(s: SubStage, raster: Variable) -> bool:
    """Whether all values of the scatter are zero wherever the raster is -1."""
    known = values_where(s.body, {raster: HIT_NOTHING})
    return any(isinstance(f, ScatterFunction) and adds_nothing(f, known) for f in s.body)
