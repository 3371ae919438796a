"""Stacks of peeled layers: depth peeling, and composition front to back.

A stack is what one place of the screen shows: the transparent surfaces, front to back, and the opaque one
behind them. All layers are tiles of one batch: one graph shades them, whatever their number. Hard layers are
one stack, at the centre of each pixel, without a derivative by what covers the centre.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import NamedTuple

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.graph.types import INT, VEC2
from ...ad.ops.pixel.constant import Like
from ...ad.transform.tiles import over_tiles, stacked, unstacked
from ...errors import InputError
from ..forms.form import Silhouette
from ..forms.pairs import ScaledGradient
from ..surface.screen import DrawnMesh, Surface, barycentric, corners, covered

# Depth peeling (Everitt 2001): the first K transparent faces at every pixel, front to back, and the opaque
# face behind them.
#
# Layer j is one raster of the transparent faces. It keeps fragments that are nearer than the opaque surface and
# come after layer j - 1 in the order of (depth, face), and the nearest of them wins. So the order is that of
# the depths at the centre of each pixel, and surfaces that pass through each other are right. The depth is z /
# w of the point at the centre, in single precision on devices.
#
# Two faces that share a corner and have one depth at a pixel meet there: the centre lies on their common edge.
# They are one surface, and count once.

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


class Stacks(NamedTuple):
    """Stacks that are shaded together."""

    panes: Surface
    """The transparent surfaces, front to back, of one stack after the other, as tiles of one batch (``stacked``)."""
    solids: Surface
    """The opaque ones behind them, likewise."""
    count: int

    def in_order(self, panes: Variable, solids: Variable, depth: int) -> list[Variable]:
        """Images of all surfaces, from those of the two batches. depth: how many surfaces a stack has."""
        clear, found = unstacked(panes, self.count * (depth - 1)), []
        for k, solid in enumerate(unstacked(solids, self.count)):
            found += [*clear[k * (depth - 1) : (k + 1) * (depth - 1)], solid]
        return found


@dataclass(frozen=True, eq=False)
class Layered(Transparent):
    """A mesh with transparent faces, hard; images of the batch of the positions.

    All transparent surfaces at the centres are tiles of one batch, and so are the opaque ones: they are shaded
    by one graph each, whatever their number.
    """

    peeled: Peeled
    stacks: tuple[Stacks, ...]
    """The first one has one, that at the centre of the pixel."""

    @property
    def depth(self) -> int:
        """How many surfaces a stack has."""
        return len(self.peeled.faces)

    @cached_property
    def surfaces(self) -> tuple[Surface, ...]:
        """All of them, front to back. Differentiable in the positions."""
        found: list[Surface] = []
        for one in self.stacks:
            faces = one.in_order(one.panes.face, one.solids.face, self.depth)
            weights = one.in_order(one.panes.weights, one.solids.weights, self.depth)
            found += [Surface(self.mesh.faces, *pair) for pair in zip(faces, weights, strict=True)]
        return tuple(found)

    @cached_property
    def _there(self) -> list[Variable]:
        """FLOAT masks of the surfaces."""
        return [covered(surface.face) for surface in self.surfaces]

    def composed(self, shade: Shade, background: Like | None = None) -> Variable:
        colours, through = [], []
        for one in self.stacks:
            panes = _shaded(one.panes, one.count * (self.depth - 1), lambda s: shade(s, False))
            solids = _shaded(one.solids, one.count, lambda s: shade(s, True))
            colours += one.in_order(panes[0], solids[0], self.depth)
            through += one.in_order(panes[1], solids[1], self.depth)
        return self.blend(colours, background, through)

    def blend(
        self,
        colours: Sequence[Variable],
        background: Like | None = None,
        through: Sequence[Variable] | None = None,
    ) -> Variable:
        """One image of the shaded ``surfaces`` over a background (a colour or an image, default black).

        colours: the radiance of each surface, a float image.  through: the transmittance of each, an image of
        that type or FLOAT, 0 for opaque ones; left out, all are opaque.  Differentiable in all, in the
        background and in the positions. Raises InputError.
        """
        count = len(self.surfaces)
        if len(colours) != count or (through is not None and len(through) != count):
            raise InputError(
                f"blending needs a colour and a transmittance of each of {count} surfaces, not {len(colours)}"
            )
        far = 0.0 if background is None else background
        return self._blended(colours, through or [F.constant(0.0)] * count, far)

    def _blended(self, colours: Sequence[Variable], through: Sequence[Variable], far: Like) -> Variable:
        colour, clear = compose(self._there, colours, through)
        return colour + clear * far


def _shaded(
    surfaces: Surface, count: int, shade: Callable[[Surface], tuple[Variable, Variable]]
) -> list[Variable]:
    """(radiance, transmittance) of ``count`` surfaces that are tiles of one batch, likewise."""
    if count == 1:
        return list(shade(surfaces))
    face, weights = (Variable(x.vtype, x.size, x.batch // count) for x in (surfaces.face, surfaces.weights))
    outputs = shade(Surface(surfaces.faces, face, weights))
    return over_tiles(outputs, [face, weights], [surfaces.face, surfaces.weights], count)


def stacked_faces(faces: Sequence[Variable]) -> Variable:
    """INT images of faces, -1 for none, as the tiles of one batch (``stacked``)."""
    return faces[0] if len(faces) == 1 else stacked([face + 1 for face in faces]) - 1


def hard_layers(peeled: Peeled) -> Layered:
    """The hard picture of peeled faces."""
    mesh = replace(peeled.mesh, seen=peeled.seen[0])
    hard = covered(mesh.face)
    return Layered(hard, hard, mesh, peeled, (stacks_of(mesh, [peeled.faces]),))


def stacks_of(
    mesh: DrawnMesh,
    faces: Sequence[Sequence[Variable]],
    places: Sequence[Variable] = (),
    scale: Variable | None = None,
) -> Stacks:
    """Stacks of faces (INT each) at the pixel centres, or each at places on the screen (VEC2). scale: FLOAT, of the gradient by
    what the faces show."""

    def surfaces(images: Sequence[Variable], layers: int) -> Surface:
        faces = stacked_faces(images)
        face, values = Variable(INT, mesh.size, faces.batch // len(images)), [faces]
        inputs, at = [face], corners(face, mesh.faces)
        if places:
            place = Variable(VEC2, mesh.size, face.batch)
            weights = barycentric(mesh.position, at, mesh.size, place=place, clamp=True)
            inputs.append(place)
            values.append(stacked([place for place in places for _ in range(layers)]))
        else:
            weights = barycentric(mesh.position, at, mesh.size)
        if scale is not None:
            weights = ScaledGradient(weights, scale).output
        return Surface(mesh.faces, faces, over_tiles([weights], inputs, values, len(images))[0])

    panes = [face for stack in faces for face in stack[:-1]]
    return Stacks(surfaces(panes, len(faces[0]) - 1), surfaces([s[-1] for s in faces], 1), len(faces))
