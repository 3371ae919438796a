"""Depth peeling (Everitt 2001): the first K transparent faces at every pixel, front to back, and the opaque
face behind them.

Layer j is one raster of the transparent faces. It keeps fragments that are nearer than the opaque surface and
come after layer j - 1 in the order of (depth, face), and the nearest of them wins. So the order is that of
the depths at the centre of each pixel, and surfaces that pass through each other are right. The depth is z /
w of the point at the centre, in single precision on devices.

Two faces that share a corner and have one depth at a pixel meet there: the centre lies on their common edge.
They are one surface, and count once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.ops.pixel.constant import Like
from ...errors import InputError
from ..forms.form import Silhouette
from ..surface.screen import DrawnMesh, Surface, covered

MOST = 16
"""Layers."""
SAME = 1e-7
"""Depths (z / w) that differ by at most this are one depth, where faces share a corner."""
FARTHEST = 1.0
"""The depth where nothing opaque is seen: that of the far plane."""


@dataclass(frozen=True, eq=False)
class Peeled:
    """The faces that every pixel shows; images of the batch of the positions, without derivative."""

    mesh: DrawnMesh
    """All faces, the opaque ones first."""
    opaque: int
    """How many faces at the start of the list are opaque."""
    solid: Variable
    """INT: the nearest opaque face, -1 for none."""
    layers: tuple[Variable, ...]
    """INT: the transparent faces before it, front to back; -1 where there are no more."""

    @cached_property
    def missed(self) -> Variable:
        """FLOAT mask: there are more transparent faces before the opaque one than layers, and they are left
        out."""
        return covered(_next(self.mesh, self.opaque, self.solid, self.layers[-1]))

    @property
    def faces(self) -> tuple[Variable, ...]:
        """INT: the ``layers``, and the opaque face behind them."""
        return (*self.layers, self.solid)

    @cached_property
    def seen(self) -> tuple[Variable, ...]:
        """INT: the ``layers``, with the opaque face where there are no more, and this face."""
        filled = [F.select(covered(face), face, self.solid) for face in self.layers]
        return (*filled, self.solid)


def peel(mesh: DrawnMesh, opaque: int, layers: int = 4) -> Peeled:
    """The first ``layers`` transparent faces at every pixel; definitions at the top of this module.

    mesh: its first ``opaque`` faces hide what is behind them, the others are transparent.  layers: from 1 to
    16, one raster each. Raises InputError.
    """
    if not isinstance(layers, int) or not 1 <= layers <= MOST:
        raise InputError(f"transparent layers are a whole number from 1 to {MOST}, not {layers!r}")
    if not 0 <= opaque < mesh.face_count:
        raise InputError(f"{opaque} opaque faces of {mesh.face_count} leave no transparent one to be peeled")
    if opaque:
        solid = replace(mesh, face_count=opaque).face
    else:
        solid = F.expand(F.constant(-1), mesh.clip.batch, mesh.size)
    peeled: list[Variable] = []
    for _ in range(layers):
        peeled.append(_next(mesh, opaque, solid, peeled[-1] if peeled else None))
    return Peeled(mesh, opaque, solid, tuple(peeled))


def _next(mesh: DrawnMesh, opaque: int, solid: Variable, last: Variable | None) -> Variable:
    """INT: the nearest transparent face before the face ``solid`` and, by (depth, face), after ``last``."""
    limit = depth_of(mesh, solid)
    seen = replace(mesh, live=F.greater_equal(F.linear_index(mesh.faces.size), opaque))
    before = None
    if last is not None:
        own = F.select(covered(last), F.lookup(mesh.faces, F.maximum(last, 0)), -1)
        before = last, depth_of(mesh, last), own

    def fragment(face: Variable) -> tuple[Variable, Variable]:
        depth, kept = mesh.fragment(face)
        keep = F.less(depth, limit)
        if kept is not None:
            keep = F.logical_and(keep, kept)
        if before is None:
            return depth, keep
        last, nearer, own = before
        tied = F.logical_and(F.equal(depth, nearer), F.greater(face, last))
        after = F.logical_or(F.greater(depth, nearer), tied)
        alike = F.less_equal(F.abs(depth - nearer), SAME)
        one = F.logical_and(alike, _meet(F.lookup(mesh.faces, face), own))
        again = F.logical_or(F.equal(face, last), one)
        return depth, F.logical_and(keep, F.logical_and(after, F.logical_not(again)))

    return seen.drawn(fragment)


def depth_of(mesh: DrawnMesh, face: Variable) -> Variable:
    """FLOAT: the depth of the face at the centre of each pixel; that of the far plane without one."""
    depth, _ = mesh.fragment(face)
    return F.select(covered(face), depth, FARTHEST)


def _meet(f: Variable, g: Variable) -> Variable:
    """FLOAT mask: two faces (IVEC3) share a corner."""
    turned = g, F.swizzle(g, "yzx"), F.swizzle(g, "zxy")
    return reduce(F.maximum, [F.max_component(F.to_float(F.equal(f, other))) for other in turned])


# What ways to draw transparent surfaces have in common.

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
        """One image of all surfaces, shaded, over a background (a colour or an image, default black).
        Differentiable in all that the shading reads, in the background and in the positions."""


def compose(
    there: Sequence[Variable], colours: Sequence[Variable], through: Sequence[Variable]
) -> tuple[Variable, Variable]:
    """(colour, transmittance) of a stack, front to back: c_1 + t_1 (c_2 + t_2 (...)) and t_1 t_2 ...

    there: FLOAT masks; the other layers are left out.  colours, through: at least as many.  Differentiable in
    both.
    """
    total, clear = F.constant(0.0), F.constant(1.0)
    for k, here in reversed(list(enumerate(there))):
        own = F.select(here, through[k], F.constant(1.0))
        total, clear = F.select(here, colours[k], 0.0) + own * total, own * clear
    return total, clear
