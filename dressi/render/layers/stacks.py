"""Pictures of peeled layers: stacks of surfaces, composed front to back, hard or with silhouettes antialiased.

A stack is what one place of the screen shows: the transparent surfaces, front to back, and the opaque one behind them.

    hard        one stack, at the centre of each pixel. No derivative by what covers the centre.
    antialias   two more: of what the pixel and the next one to the right (below) show, at the edge that passes between
                their centres (``forms.antialias``), on the other side of it. The whole stack is taken, because a surface that
                ends moves all layers behind it one forward. So layers are composed first, and the composed pictures are
                blended: the result is the mean over the pixel of the two composed pictures, exactly.

Where edges of several layers pass between two centres, the one of the first layer counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.ops.pixel.constant import Like
from ...errors import InputError
from ..forms.antialias import ANTIALIAS, Passing, passings, shares, taken, with_neighbours
from ..forms.edges.edge_list import EdgeList, edges_of
from ..forms.edges.seams import DOWN, RIGHT
from ..forms.edges.stored import Stored
from ..forms.form import Form
from ..forms.hard import HARD
from ..surface.screen import DrawnMesh, Surface, barycentric, corners, covered
from .peel import Peeled, peel
from .transparent import Shade, Transparent

Stack = tuple[Surface, ...]


@dataclass(frozen=True, eq=False)
class Layered(Transparent):
    """A mesh with transparent faces; images of the batch of the positions."""

    peeled: Peeled
    stacks: tuple[Stack, ...]
    """At the pixel centre; and, antialiased, at the edges to the right and below."""
    passing: tuple[Passing, ...]
    """What passes to the right and below; empty in hard pictures."""

    @property
    def surfaces(self) -> tuple[Surface, ...]:
        """Of all stacks, each front to back. Differentiable in the positions."""
        return tuple(surface for stack in self.stacks for surface in stack)

    @property
    def solid(self) -> tuple[bool, ...]:
        """Which of the ``surfaces`` are opaque: the last of each stack."""
        return tuple(k == len(stack) - 1 for stack in self.stacks for k in range(len(stack)))

    def composed(self, shade: Shade, background: Like | None = None) -> Variable:
        shaded = [shade(surface, solid) for surface, solid in zip(self.surfaces, self.solid, strict=True)]
        return self.blend([colour for colour, _ in shaded], background, [through for _, through in shaded])

    def blend(
        self,
        colours: Sequence[Variable],
        background: Like | None = None,
        through: Sequence[Variable] | None = None,
    ) -> Variable:
        """One image of the shaded ``surfaces`` over a background (a colour or an image, default black).

        colours: the radiance of each surface, a float image.  through: the transmittance of each, an image of that type or
        FLOAT, 0 for opaque ones; left out, all are opaque.  Differentiable in all, in the background and in the
        positions. Raises InputError.
        """
        count = len(self.surfaces)
        if len(colours) != count or (through is not None and len(through) != count):
            raise InputError(
                f"blending needs a colour and a transmittance of each of {count} surfaces, not {len(colours)}"
            )
        far = 0.0 if background is None else background
        depth = count // len(self.stacks)
        composed = [
            compose(stack, colours[k * depth :], None if through is None else through[k * depth :])
            for k, stack in enumerate(self.stacks)
        ]
        colour, clear = composed[0]
        picture = colour + clear * far
        if not self.passing:
            return picture
        near, parts, scale, total = shares([passing.rest for passing in self.passing])
        result = picture * (1.0 - total * scale)
        for k, (share, (dx, dy), step) in enumerate(parts):
            found = self.passing[k // 2].found
            colour, clear = (Stored(F.select(found, v, 0.0)).output for v in composed[1 + k // 2])
            if step > 0:
                colour, clear = (F.shift(v, dx, dy, "zero") for v in (colour, clear))
            result = result + (colour + clear * far) * (share * scale)
        return F.select(near, result, picture)


def compose(
    surfaces: Sequence[Surface], colours: Sequence[Variable], through: Sequence[Variable] | None = None
) -> tuple[Variable, Variable]:
    """(colour, transmittance) of a stack: c_1 + t_1 (c_2 + t_2 (...)) and t_1 t_2 ..., a layer of surfaces after the other.

    colours, through: as for ``Layered.blend``, of at least as many. Where a surface has no face it is left out.
    Differentiable in both.
    """
    total, clear = None, None
    for k, surface in reversed(list(enumerate(surfaces))):
        there = covered(surface.face)
        colour = F.select(there, colours[k], 0.0)
        own = F.select(there, 0.0 if through is None else through[k], F.constant(1.0))
        total = colour if total is None else colour + own * total
        clear = own if clear is None else own * clear
    assert total is not None and clear is not None
    return total, clear


def draw_layers(form: Form, mesh: DrawnMesh, opaque: int, layers: int = 4, **options: Any) -> Layered:
    """The picture of a mesh whose faces from number ``opaque`` on are transparent.

    form: one of ``LAYERED``.  layers: of transparent faces, ``peel``.  options: of the form, ``antialiased_layers``.
    Differentiable in the positions: through the surfaces, and, antialiased, through the silhouettes of every layer and the
    lines on which they pass through each other. Raises InputError.
    """
    if form not in LAYERED:
        able = " or ".join(f"form='{other.name}'" for other in LAYERED)
        raise InputError(f"the {form.name} form draws no transparent surfaces; take {able}")
    return LAYERED[form](peel(mesh, opaque, layers), **options)


def hard_layers(peeled: Peeled) -> Layered:
    """The hard picture of peeled faces."""
    mesh = replace(peeled.mesh, seen=peeled.seen[0])
    hard = covered(mesh.face)
    return Layered(hard, hard, mesh, peeled, (_centre(peeled),), ())


def antialiased_layers(peeled: Peeled, *, edges: EdgeList | None = None, with_seams: bool = True) -> Layered:
    """The hard picture of peeled faces with the silhouettes of all layers antialiased; options of ``antialias_form``."""
    mesh = peeled.mesh
    edges = edges or edges_of(mesh)
    passing = passings([replace(mesh, seen=face) for face in peeled.seen], edges, with_seams)
    beside = tuple(
        tuple(taken(replace(mesh, seen=face), edges, between, step)[1] for face in peeled.faces)
        for between, step in zip(passing, (RIGHT, DOWN), strict=True)
    )
    nearest = replace(mesh, seen=peeled.seen[0])
    hard = covered(nearest.face)
    soft = F.clamp(with_neighbours(hard, [between.rest for between in passing]))
    return Layered(hard, soft, nearest, peeled, (_centre(peeled), *beside), passing)


def _centre(peeled: Peeled) -> Stack:
    """The surfaces at the pixel centre."""
    mesh = peeled.mesh
    weights = (barycentric(mesh.position, corners(face, mesh.faces), mesh.size) for face in peeled.faces)
    return tuple(Surface(mesh.faces, face, w) for face, w in zip(peeled.faces, weights, strict=True))


LAYERED: dict[Form, Callable[..., Layered]] = {HARD: hard_layers, ANTIALIAS: antialiased_layers}
"""How the forms that can do it draw peeled faces."""
