"""The antialias form: analytic antialiasing of silhouettes in screen space (Laine et al. 2020, section 3.6).

The picture is the hard one, except where an edge of the nearer surface passes between the centres of two neighbouring
pixels: one of them takes some of the colour on the other side. Let x be the position of the edge between the centres of p
(x = 0) and q (x = 1). Pixel q extends from 1/2 to 3/2 and p from -1/2 to 1/2:

    x < 1/2:  p takes 1/2 - x of the surface that q shows,    x > 1/2:  q takes x - 1/2 of the surface that p shows,

at the edge: of the nearer surface the point on the edge, of the farther one the point behind it. A walk over the mesh leads
there from the centre of the pixel that shows the surface. So pixels at a vertical or horizontal silhouette get exactly the
share of their area that is covered, and shading does not jump where the edge moves over a centre: there both pixels have
1/2 of either surface at the centre. (Laine et al. take the colour of the other pixel as a whole; ``blend`` with one colour
does that. It jumps by the difference of the shading between two pixels, which loses 5 to 20 % of the derivative.)

The edges that count are silhouette edges of the nearer surface (of its connected part of the mesh), inner contours included,
at least 45 degrees steep relative to the row (or column) of the pair. Of several, the one next to the farther pixel counts,
where the nearer surface ends (``crossings``). The edges are drawn, not looked up through the triangle at the pixel: at the limb of a smooth mesh the
triangle that owns the silhouette is thinner than a pixel and covers no centre. Where no edge passes, the lines count on which
faces pass through each other or the near plane cuts them (``seams``). A pixel that takes from several neighbours takes one
share of each, at most 1 in total: values stay between those of the surfaces.

The derivative by the vertices is that of x and of the point at the edge, exact while the same edges count; colours have
theirs. It reaches one pixel. Not antialiased are parts thinner than the distance between two centres. Edges of open
meshes count like silhouettes. Faces that share no vertices are one surface where their edges lie at one place (``edge_list``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.ops.pixel.constant import Like
from ...errors import InputError
from ..surface.screen import DrawnMesh, Surface, covered
from .edges.edge_list import EdgeList, edges_of
from .edges.seams import surface_at
from .form import Form, Silhouette
from .passings import STEPS, Passing, Taken, blended, passings, taken_face, with_neighbours


@dataclass(frozen=True, eq=False)
class Antialiased(Silhouette):
    """The result of the antialias form; images of the batch of the positions."""

    passing: tuple[Passing, ...]
    """Between each pixel and its neighbour to the right, and below."""
    taken: tuple[Surface, ...]
    """What is taken there, without a face where it is the background. Differentiable in position."""

    @cached_property
    def surfaces(self) -> tuple[Surface, ...]:
        """The nearest face at the pixel centre and, with ``at_edges``, what is taken between the pixel and the next one to the
        right, and below. Differentiable in position."""
        return (self.mesh.surface(self.mesh.face), *self.taken)

    def antialias(self, picture: Variable) -> Variable:
        """The hard ``picture`` (a float image) with its silhouettes blended: pixels take the colours of their neighbours.
        Differentiable in picture and positions."""
        return with_neighbours(picture, self.passing)

    def blend(self, colours: Sequence[Variable], background: Like | None = None) -> Variable:
        """The shaded ``surfaces`` (a float image each) before the background (a colour or an image, default black), with
        silhouettes blended. With the colour of the first one alone, pixels take colours of whole pixels. Differentiable in the
        colours, positions and background. Raises InputError."""
        if len(colours) not in (1, 3):
            raise InputError(
                f"blending needs a colour of the surface, or one of each of the three surfaces, not {len(colours)}"
            )
        far = 0.0 if background is None else background
        picture = F.select(self.hard, colours[0], far)
        if len(colours) == 1:
            return self.antialias(picture)
        taken = []
        for passing, surface, colour in zip(self.passing, self.taken, colours[1:], strict=True):
            # A shader may have a colour where there is no surface.
            shown = covered(surface.face)
            behind = F.logical_and(passing.found, F.logical_not(shown))
            taken.append(Taken(F.select(shown, colour, 0.0), behind))
        return blended(picture, self.passing, taken, far)


def antialias_form(
    mesh: DrawnMesh, *, edges: EdgeList | None = None, with_seams: bool = True, at_edges: bool = True
) -> Antialiased:
    """The hard picture of a mesh with its silhouettes antialiased; definitions at the top of this module.

    edges: ``edge_list`` of the faces drawn, by default made of their data.  with_seams: whether the lines on which faces pass
    through each other, or the near plane cuts them, are antialiased too.  at_edges: whether pixels take the colours at the edge; False blends whole pixels as
    Laine et al. do, which shades once instead of three times and loses 5 to 20 % of the derivative of colours by positions.
    Differentiable in position through the ends of the edges between two pixels. Raises InputError, GraphError.
    """
    edges = edges or edges_of(mesh)
    hard = covered(mesh.face)
    passing = passings((mesh,), edges, with_seams)
    taken = [
        surface_at(mesh, *taken_face(mesh, edges, one, step))
        for one, step in (zip(passing, STEPS, strict=True) if at_edges else ())
    ]
    result = Antialiased(hard, hard, mesh, passing, tuple(taken))
    return replace(result, silhouette=F.clamp(result.antialias(hard)))


ANTIALIAS = Form("antialias", antialias_form, exact_inside=True)
