"""What ways to draw transparent surfaces have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.ops.pixel.constant import Like
from ..forms.form import Silhouette
from ..surface.screen import Surface

Shade = Callable[[Surface, bool], tuple[Variable, Variable]]
"""From a surface, and whether it is of opaque faces, to its radiance and transmittance, VEC3 each."""


@dataclass(frozen=True, eq=False)
class Transparent(Silhouette):
    """A mesh with transparent faces; images of the batch of the positions. ``mesh`` is all of it."""

    @property
    def seen(self) -> Surface:
        """The nearest surface at the pixel centre, transparent or not."""
        return self.mesh.surface(self.mesh.face)

    @abstractmethod
    def composed(self, shade: Shade, background: Like | None = None) -> Variable:
        """One image of all surfaces, shaded, over a background (a colour or an image, default black). Differentiable in all
        that the shading reads, in the background and in the positions."""


def compose(
    there: Sequence[Variable], colours: Sequence[Variable], through: Sequence[Variable]
) -> tuple[Variable, Variable]:
    """(colour, transmittance) of a stack, front to back: c_1 + t_1 (c_2 + t_2 (...)) and t_1 t_2 ...

    there: FLOAT masks; the other layers are left out.  colours, through: at least as many.  Differentiable in both.
    """
    total, clear = F.constant(0.0), F.constant(1.0)
    for k, here in reversed(list(enumerate(there))):
        own = F.select(here, through[k], F.constant(1.0))
        total, clear = F.select(here, colours[k], 0.0) + own * total, own * clear
    return total, clear
