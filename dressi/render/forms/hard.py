"""The hard raster as a form: coverage is 1 where the mesh covers the pixel centre, 0 elsewhere, without a derivative."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.ops.pixel.constant import Like
from ..surface.screen import DrawnMesh, Surface, covered
from .form import Form, Silhouette


@dataclass(frozen=True, eq=False)
class HardSilhouette(Silhouette):
    """The hard raster alone: nothing is soft, and the silhouette has no derivative."""

    @cached_property
    def surfaces(self) -> tuple[Surface, ...]:
        return (self.mesh.surface(self.mesh.face),)

    def blend(self, colours: Sequence[Variable], background: Like | None = None) -> Variable:
        return F.select(self.hard, colours[0], 0.0 if background is None else background)


def hard_form(mesh: DrawnMesh) -> HardSilhouette:
    """The hard picture of a mesh."""
    hard = covered(mesh.face)
    return HardSilhouette(hard, hard, mesh)


HARD = Form("hard", hard_form)
