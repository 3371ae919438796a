"""Rasterizations of which only the coverage is used: devices draw them without a depth attachment."""

from __future__ import annotations

from ..ops.image.raster import Rasterize
from ..program import Program
from .rewrite import replaced


def use_coverage_only(program: Program) -> Program:
    """If only the coverage of a raster is used, its output is reduced to that, and devices drop the depth attachment.

    less_equal(0, rasterize(...)) -> less_equal(0, rasterize(..., covering))
    """
    reads = [(f, k, x) for f in program.functions for k, x in enumerate(f.inputs)]
    needed = {x for f, k, x in reads if isinstance(x.creator, Rasterize) and k not in f.sign_only}
    needed.update(program.roots)
    covering = {
        f.output: Rasterize(
            f.inputs[0],
            f.inputs[1] if f.indexed else None,
            f.live,
            (),
            f.size,
            f.batch,
            f.triangles,
            f.triangles_per_face,
            None,
            f.disjoint,
            covering=True,
        ).output
        for f in program.functions
        if isinstance(f, Rasterize) and f.fragment is None and not f.covering and f.output not in needed
    }
    return replaced(program, covering)
