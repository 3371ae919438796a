"""Rasters of which nothing counts but what they cover: devices draw them without depths."""

from __future__ import annotations

from ..ops.image.raster import Rasterize
from ..program import Program
from .rewrite import mapped, rewrite


def covering_rasters(program: Program) -> Program:
    """Where nothing counts of a raster but what it covers, it says no more: a device then needs no depths.

    less_equal(0, rasterize(...)) -> less_equal(0, rasterize(..., covering))
    """
    users = [(f, k, x) for f in program.functions for k, x in enumerate(f.inputs)]
    counted = {x for f, k, x in users if isinstance(x.creator, Rasterize) and k not in f.sign_only}
    counted.update(program.roots)
    replaced = {
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
        if isinstance(f, Rasterize) and f.fragment is None and not f.covering and f.output not in counted
    }
    return mapped(program, rewrite(program.roots, (), replaced)) if replaced else program
