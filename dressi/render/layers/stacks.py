"""Stacks of peeled layers, composed front to back.

A stack is what one place of the screen shows: the transparent surfaces, front to back, and the opaque one
behind them. All layers are tiles of one batch: one graph shades them, whatever their number. Hard layers are
one stack, at the centre of each pixel, without a derivative by what covers the centre.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.graph.types import INT, VEC2
from ...ad.ops.pixel.constant import Like
from ...ad.transform.tiles import over_tiles, stacked, unstacked
from ...errors import InputError
from ..forms.pairs import ScaledGradient
from ..surface.screen import DrawnMesh, Surface, barycentric, corners, covered
from .peel import Peeled, Shade, Transparent, compose


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
