"""Slivers: what is seen between two edges that pass between the same two pixel centres.

Where the outlines of two objects cross on the screen, and one of them is transparent, the strip between their edges shows
neither what the one pixel shows nor what the other does: both objects, or none of them. It is composed of the layers of the
two pixels: those of one of them, without the part of the mesh that ends on the way to the sliver, or with the part that begins
there. So the picture does not jump where one of the edges moves over a centre. The layers of a part that begins lie together,
behind those that are nearer than its first one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.transform.gradient import total
from ..forms.edges.edge_list import BEYOND
from ..forms.edges.seam_faces import Differs, Step
from ..forms.edges.stored import Stored
from ..forms.passings import MIDDLE, STEPS, Passing, PassingEdges, Sliver, Taken
from ..surface.screen import covered
from .peel import Peeled, depth_of
from .transparent import compose

LARGEST = 2**31 - 1


class Crossed(NamedTuple):
    """A sliver between each pixel and the next one along an axis, and what is seen there."""

    sliver: Sliver
    step: Step
    part: Variable
    """INT: the transparent part of the mesh that ends or begins."""
    from_next: Variable
    """FLOAT mask: it does so on the way from the next pixel."""
    apart: Variable
    """FLOAT mask: pixels and their neighbours show different parts; there is no sliver elsewhere."""
    parts: list[Variable]
    """INT: the parts that each pixel shows, by layer."""

    def taken(self, peeled: Peeled, colours: Sequence[Variable], through: Sequence[Variable]) -> Taken:
        """The composed sliver, of the shaded layers at the centre of each pixel and their transmittances. Differentiable in
        both."""
        swapped = [self._swapped(images) for images in (self.parts, _depths(peeled), colours, through)]
        (parts, depths, *shaded), (own_parts, own_depths, *own) = zip(*swapped, strict=True)
        last = len(parts) - 1
        begins = [F.equal(part, self.part) for part in own_parts[:last]]
        nearest = F.constant(BEYOND)
        for here, depth in zip(begins, own_depths, strict=False):
            nearest = F.select(here, F.minimum(nearest, depth), nearest)
        stays = [F.logical_and(F.greater_equal(p, 0), F.not_equal(p, self.part)) for p in parts]
        before = [F.logical_and(s, F.less(z, nearest)) for s, z in zip(stays, depths, strict=True)]
        behind = [F.logical_and(s, F.logical_not(b)) for s, b in zip(stays, before, strict=True)]
        found = [compose(before, *shaded), compose(begins, *own), compose(behind, *shaded)]
        (first, clear), (second, between), (third, rest) = found
        some = F.greater(self.sliver.near, 0.0)
        colour, clear = first + clear * (second + between * third), clear * between * rest
        return Taken(F.select(some, colour, 0.0), F.select(some, clear, 0.0))

    def _gated(self, image: Variable) -> Variable:
        """Constant where there is no sliver, so that what follows is computed on the other blocks of pixels alone."""
        return F.select(self.apart, image, 0)

    def _swapped(self, images: Sequence[Variable]) -> tuple[list[Variable], list[Variable]]:
        """The images at the pixel from which the part is left out or added to, and at the other one."""
        pairs = [(self._gated(image), self._gated(_next(image, self.step))) for image in images]
        return [F.select(self.from_next, b, a) for a, b in pairs], [
            F.select(self.from_next, a, b) for a, b in pairs
        ]


def crossed(peeled: Peeled, lines: PassingEdges, passing: Passing, step: Step) -> tuple[Passing, Crossed]:
    """The sliver behind the edge that passes, and that edge as it borders on the middle between the pixels."""
    parts = [lines.part_of_face(face) for face in peeled.faces]
    all_parts = total(
        [part * pow(31, k, LARGEST) for k, part in enumerate(parts)]
    )  # other parts, another number
    apart = Differs(all_parts, steps=STEPS).output
    apart = Stored(apart).output
    own, following = (
        [F.select(apart, part, -1) for part in side] for side in (parts, [_next(p, step) for p in parts])
    )
    found = F.select(apart, Stored(passing.found).output, 0.0)
    first = F.select(apart, Stored(passing.part).output, -1)
    other, ends = F.constant(-1), F.constant(0.0)
    for shown, others, here in ((following, own, 0.0), (own, following, 1.0)):
        for part in reversed(shown):
            new = F.logical_and(F.greater_equal(part, 0), F.not_equal(part, first))
            new = F.logical_and(new, F.logical_not(_among(part, others)))
            other, ends = F.select(new, part, other), F.select(new, F.constant(here), ends)
    panes = [*own[:-1], *following[:-1]]
    ended = F.not_equal(_among(first, own), _among(first, following))
    one, two = F.logical_and(found, _among(first, panes)), _among(other, panes)
    some = F.select(found, F.logical_and(ended, F.logical_or(one, two)), two)
    some = F.logical_and(some, F.greater_equal(F.minimum(first, other), 0))
    # The edge is one of the other part; it is seen where it lies before what is opaque beyond it.
    limit = depth_of(peeled.mesh, peeled.solid)
    depths = (
        F.select(some, d, 0.0) for d in (F.select(ends, 0.0, limit), F.select(ends, _next(limit, step), 0.0))
    )
    here, there = (F.vec2(face, depth) for face, depth in zip((0.0, some), depths, strict=True))
    edge = lines.nearest(step, [(Stored(here).output, F.shift(Stored(there).output, *step))], [other])
    rest = lines.rest(edge, step)
    # Beyond the border there is no pair.
    both, begin = (
        F.logical_and(covered(edge), some),
        F.select(found, F.select(apart, passing.rest, 0.0), MIDDLE),
    )
    near, far = (F.select(both, of(begin, rest), 0.0) for of in (F.maximum, F.minimum))
    middle = F.maximum(F.minimum(near, MIDDLE), far)
    middle = F.select(F.logical_and(both, found), middle, passing.rest)
    from_next = F.equal(F.less(begin, rest), one)
    part = F.select(one, first, other)
    return passing._replace(rest=middle), Crossed(Sliver(near, far), step, part, from_next, apart, parts)


def _next(image: Variable, step: Step) -> Variable:
    return F.shift(image, -step[0], -step[1])


def _among(part: Variable, parts: Sequence[Variable]) -> Variable:
    """FLOAT mask: a part is one of several."""
    found = F.equal(part, parts[0])
    for one in parts[1:]:
        found = F.logical_or(found, F.equal(part, one))
    return found


def _depths(peeled: Peeled) -> list[Variable]:
    """FLOAT: of the layers at the centre of each pixel."""
    return [F.stop_gradient(depth_of(peeled.mesh, face)) for face in peeled.faces]
