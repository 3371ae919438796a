"""Rasterize: the nearest triangle at every pixel, and the layers behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...ad import functional as F
from ...ad.types import IVEC2, VEC4
from ..checks import need
from ..graphs.interpolate import face_of
from ..graphs.rasterize import described, drawn
from ..layout import Layout, Parts, Spec, entries, image, with_room
from ..operation import Operation


@dataclass(frozen=True)
class Rasterize(Operation):
    """Inputs: positions (N, V, 4), or (V, 4) with ranges; triangles (T, 3); then ranges (N, 2) if ``ranged``, and the
    layer before (N, H, W, 4) if ``peeled``. Outputs: (u, v, z/w, triangle + 1) and (du/dX, du/dY, dv/dX, dv/dY)."""

    resolution: tuple[int, int]
    """(height, width)."""
    ranged: bool = False
    peeled: bool = False
    with_db: bool = True
    """Whether the second output is computed."""
    grad_db: bool = True
    """Whether the second output is differentiable."""

    @property
    def names(self) -> tuple[str, ...]:
        ranges, layer = ("ranges",) * self.ranged, ("the layer before",) * self.peeled
        return ("pos", "tri", *ranges, *layer)

    def outputs(self, *given: Spec) -> tuple[tuple[int, ...], ...]:
        pos, tri, *rest = given
        axes = ("V", 4) if self.ranged else ("N", "V", 4)
        batch = need("pos", pos, "float32", axes).get("N", 1)
        need("tri", tri, "int32", ("T", 3))
        if self.ranged:
            batch = need("ranges", rest.pop(0), "int32", ("N", 2))["N"]
        shape = (batch, *self.resolution, 4)
        if self.peeled:
            need("the layer before", rest.pop(0), "float32", shape)
        return (shape, shape) if self.with_db else (shape,)

    def complete(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        pos, tri, *rest = arrays
        return [with_room(pos), with_room(tri), *rest]

    def layouts(self, *given: Spec) -> tuple[Layout, ...]:
        pos, tri, *rest = given
        found = [entries(pos), entries(tri)]
        if self.ranged:
            ranges = rest.pop(0)
            found.append(Layout(ranges.shape, (IVEC2,), (1, 1), ranges.shape[0]))
        if self.peeled:
            found.append(image(rest.pop(0)))
        return tuple(found)

    def graph(self, *inputs: Parts) -> tuple[Parts, ...]:
        (position,), (triangles,), *rest = inputs
        height, width = self.resolution
        size = (width, height)
        ranges = rest.pop(0)[0] if self.ranged else None
        before = face_of(rest.pop(0)[0]) if self.peeled else None
        face = drawn(position, triangles, size, ranges, before)
        main, db = described(position, triangles, face, size)
        assert main.vtype is VEC4
        if not self.with_db:
            return ((main,),)
        return (main,), (db if self.grad_db else F.stop_gradient(db),)
