"""The picture of a scene with nodes of strands and points, drawn among the surfaces, behind what is opaque in front of them.

Where they lie between transparent surfaces, each node counts as one layer at the mean depth of what is seen of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.types import INT
from ..layers.peel import depth_of
from ..layers.transparent import Transparent
from ..lists import list_leaf
from ..shading.lights import LightSource
from ..strands.draw import StrandPicture, draw_strands
from ..surface.screen import Surface, covered
from .fibres import Fibres, lit_by
from .picture import Picked, Picture
from .point import SurfacePoint


def opaque_depth(picture: Picture) -> Variable | None:
    """FLOAT: z / w of the nearest opaque surface at the centre of each pixel, that of the far plane where there is none."""
    mesh, count = picture._plain.mesh, picture.view.opaque_faces
    if count is not None:
        mesh = replace(mesh, face_count=count, seen=None)
    return F.stop_gradient(depth_of(mesh, mesh.face)) if mesh.face_count else None


@dataclass(frozen=True, eq=False)
class FibrePicture(Picture):
    """A ``Picture`` with nodes of strands and points over that of the other nodes. ``normal``, ``point``, ``uv`` and attributes
    are those of the surfaces."""

    surfaces: Picture
    fibres: tuple[tuple[Fibres, StrandPicture], ...]
    numbers: np.ndarray
    """Of the nodes of surfaces in the scene."""

    @cached_property
    def _weights(self) -> list[Variable]:
        """FLOATs: how much each node of strands lets through of what is behind it, once for those in front of each other."""
        drawn = [picture for _, picture in self.fibres]
        found = []
        for k, own in enumerate(drawn):
            weight = F.constant(1.0)
            for j, other in enumerate(drawn):
                if j != k:
                    nearer = F.less(other.distance, own.distance)
                    tied = F.equal(other.distance, own.distance) if j < k else F.constant(0.0)
                    before = F.logical_or(nearer, tied)
                    weight = weight * (1.0 - other.mask * F.stop_gradient(before))
            found.append(weight)
        return found

    @cached_property
    def _through(self) -> Variable:
        """FLOAT: how much all strands let through."""
        total = F.constant(1.0)
        for _, picture in self.fibres:
            total = total * (1.0 - picture.mask)
        return total

    @cached_property
    def mask(self) -> Variable:
        """FLOAT in [0, 1]: how much surfaces and strands cover the pixel. Differentiable."""
        return 1.0 - (1.0 - self.surfaces.mask) * self._through

    @cached_property
    def colour(self) -> Variable:
        """VEC3: everything shaded, over the background, linear. Differentiable."""
        total = self._surfaces
        for (_, picture), weight in zip(self.fibres, self._weights, strict=True):
            total = total + F.hadamard(picture.colour, self._panes_before(picture)) * weight
        return total

    @property
    def _surfaces(self) -> Variable:
        """VEC3: what is seen of the surfaces and of the background: a pane behind those strands that are nearer."""
        own = self.surfaces
        if self._transparent is None:
            return own.colour * self._through
        shader, through = own.shader or SurfacePoint.lit, self._resized(self._through)

        def veiled(surface: Surface, solid: bool) -> tuple[Variable, Variable]:
            colour, clear = own._layer(shader, surface, solid)
            veil = through
            if not solid:
                veil, depth = F.constant(1.0), self._depth_of(surface)
                for _, picture in self.fibres:
                    nearer = F.less(self._resized(F.stop_gradient(picture.distance)), depth)
                    veil = veil * (1.0 - self._resized(picture.mask) * F.stop_gradient(nearer))
            return colour * veil, clear

        far = F.constant((0.0, 0.0, 0.0)) if own.background is None else self._resized(own.background)
        return own._shown(self._transparent.composed(veiled, far * through))

    def _panes_before(self, picture: StrandPicture) -> Variable:
        """VEC3: how much transparent surfaces let through of strands that they lie before."""
        white = F.constant((1.0, 1.0, 1.0))
        if self._transparent is None:
            return white
        depth = self._resized(F.stop_gradient(picture.distance))

        def clear(surface: Surface, solid: bool) -> tuple[Variable, Variable]:
            _, through = self.surfaces._layer(None, surface, solid)
            before = F.stop_gradient(F.less(self._depth_of(surface), depth))
            return (white, through) if solid else (0.0 * white, F.select(before, through, white))

        return self.surfaces._shown(self._transparent.composed(clear, white))

    @property
    def _transparent(self) -> Transparent | None:
        drawn = self.surfaces._drawn
        return drawn if isinstance(drawn, Transparent) else None

    def _depth_of(self, surface: Surface) -> Variable:
        return SurfacePoint(self.surfaces._whole, surface).depth

    def _resized(self, image: Variable) -> Variable:
        """An image of the picture for its samples."""
        return (
            image
            if self.samples == 1 or image.size == (1, 1)
            else F.resize(image, self.surfaces._drawn.mesh.size, "nearest")
        )

    @cached_property
    def depth(self) -> Variable:
        """FLOAT: the distance from the camera along its axis (``Picture.depth``), of strands where they cover half of the pixel or more; in
        forms that blend depth, all that is seen, blended over 0."""
        if self.estimator.exact_inside and self._transparent is None:
            total = self.surfaces.depth * self._through
            for (_, picture), weight in zip(self.fibres, self._weights, strict=True):
                total = total + picture.depth * weight
            return total
        depth, hidden = self.surfaces.depth, self._through
        for shown, (_, picture) in zip(self._half, self.fibres, strict=True):
            depth = F.select(shown, picture.distance, depth)
        return F.select(F.less(hidden, 1.0), depth, self.surfaces.depth)

    @cached_property
    def _half(self) -> list[Variable]:
        """FLOAT masks: where each node of strands covers half of the pixel or more, and no transparent surface lies before it."""
        found = []
        for (_, picture), weight in zip(self.fibres, self._weights, strict=True):
            shown = F.greater_equal(picture.mask * weight, 0.5)
            if self._transparent is not None:
                pane = self.surfaces.seen
                before = F.logical_and(covered(pane.face), F.less(pane.depth, picture.distance))
                shown = F.logical_and(shown, F.logical_not(before))
            found.append(shown)
        return found

    @cached_property
    def _picked(self) -> Picked:
        """Of strands where they are what is seen (``_half``): the number of their node, for the material too, and no face."""
        node, material, face = self.surfaces._picked
        table = list_leaf("numbers of nodes", INT, self.numbers)
        node = F.select(F.less(node, 0), -1, F.lookup(table, node))
        material = F.select(F.less(material, 0), -1, F.lookup(table, material))
        for shown, (one, _) in zip(self._half, self.fibres, strict=True):
            node, material = (F.select(shown, F.constant(one.number), n) for n in (node, material))
            face = F.select(shown, -1, face)
        return Picked(node, material, face)


def with_fibres(
    picture: Picture, found: Sequence[Fibres], numbers: np.ndarray, lights: Sequence[LightSource]
) -> Picture:
    """The picture with nodes of strands and points."""
    view, size = picture.view, picture.size
    limit = opaque_depth(picture)
    drawn = [
        (
            one,
            draw_strands(one.shape, view.matrices, size=size, shader=lit_by(one, lights, view), limit=limit),
        )
        for one in found
    ]
    own = {f.name: getattr(picture, f.name) for f in fields(Picture)}
    return FibrePicture(**own, surfaces=picture, fibres=tuple(drawn), numbers=numbers)
