"""What the viewer draws: a mesh whose vertices are Variables, in one of several modes, as a graph of the same engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..ad import functional as F
from ..ad.graph import Variable
from ..ad.types import FLOAT, VEC3, Size
from ..render.cameras.pose import matrices_leaf
from ..render.fit.graphs.round import Subject
from ..render.surface.footprint import barycentric_slopes
from ..render.surface.normals import flat_normal, vertex_normals
from ..render.surface.projection import to_clip
from ..render.surface.screen import DrawnMesh, barycentric, corners, covered, interpolate

BACKGROUND = (0.13, 0.14, 0.16)
CLAY = (0.72, 0.70, 0.67)
FIT, TRUTH = (0.96, 0.55, 0.15), (0.20, 0.75, 0.95)
"""Colours of the outlines of the fit and of the photograph. All colours are sRGB codes."""


@dataclass(frozen=True, eq=False)
class Photograph:
    """What a picture is compared with: codes, VEC3 sRGB codes on black, and mask, FLOAT in [0, 1]."""

    codes: Variable
    mask: Variable


@dataclass(frozen=True, eq=False)
class Shown:
    """A mesh as it is drawn, and what its pixels are made of. photograph: of the same camera, where there is one."""

    subject: Subject
    drawn: DrawnMesh
    matrices: Variable
    photograph: Photograph | None

    @cached_property
    def mask(self) -> Variable:
        """FLOAT: 1 where the mesh is."""
        return covered(self.drawn.face)

    @cached_property
    def weights(self) -> Variable:
        return barycentric(self.drawn.position, self.corners, self.drawn.size)

    @cached_property
    def corners(self):
        return corners(self.drawn.face, self.drawn.faces)

    @cached_property
    def normal(self) -> Variable:
        """VEC3: the smooth normal at each pixel."""
        table = vertex_normals(self.subject.position, self.subject.faces)
        return F.normalize(interpolate(table, self.corners, self.weights))

    @cached_property
    def flat(self) -> Variable:
        """VEC3: the normal of the face at each pixel."""
        return flat_normal(self.subject.position, self.corners)

    @cached_property
    def clay(self) -> Variable:
        """VEC3: the colour of a shape without colours."""
        return F.vec3(self.mask) * 0.0 + CLAY

    @cached_property
    def codes(self) -> Variable:
        """VEC3: colours as they were recovered; clay where there are none yet."""
        codes = self.subject.codes
        return self.clay if codes is None else codes(self.drawn)

    def lit(self, colour: Variable, normal: Variable) -> Variable:
        """A colour under a light at the camera; the backs of faces are as bright as their fronts."""
        facing = F.abs(F.dot(normal, self.toward))
        return colour * (0.25 + 0.75 * facing)

    @cached_property
    def toward(self) -> Variable:
        """VEC3: the unit vector from each pixel's point to the camera, nearly: against the optical axis."""
        row = F.transpose(self.matrices)
        last = F.column(row, 3)
        return F.normalize(F.swizzle(last, "xyz")) * -1.0

    def on_background(self, colour: Variable) -> Variable:
        return F.select(self.mask, colour, BACKGROUND)


def shaded(shown: Shown) -> Variable:
    return shown.on_background(shown.lit(shown.clay, shown.normal))


def textured(shown: Shown) -> Variable:
    if shown.subject.picture is not None:
        return shown.subject.picture(shown.matrices, shown.drawn.size)
    return shaded(shown) if shown.subject.codes is None else shown.on_background(shown.codes)


def wireframe(shown: Shown) -> Variable:
    across, down = barycentric_slopes(shown.drawn.position, shown.corners, shown.drawn.size)
    # The distance of the pixel from each edge, in pixels.
    away = shown.weights / F.maximum(F.sqrt(F.hadamard(across, across) + F.hadamard(down, down)), 1e-9)
    nearest = F.min(F.min(away.x, away.y), away.z)
    share = F.clamp(nearest - 0.25, 0.0, 1.0)
    lit = shown.lit(shown.clay, shown.flat)
    return shown.on_background(lit * share + F.vec3(1.0 - share) * 0.12)


def normals(shown: Shown) -> Variable:
    return shown.on_background(shown.normal * 0.5 + 0.5)


def difference(shown: Shown) -> Variable:
    assert shown.photograph is not None
    codes = F.select(shown.mask, shown.codes, 0.0)
    return F.abs(codes - shown.photograph.codes)


def silhouettes(shown: Shown) -> Variable:
    assert shown.photograph is not None
    picture = shown.photograph.codes * 0.6 + F.vec3(shown.photograph.mask) * 0.08
    truth = outline(F.greater(shown.photograph.mask, 0.5))
    picture = F.select(truth, TRUTH, picture)
    return F.select(outline(shown.mask), FIT, picture)


def outline(mask: Variable) -> Variable:
    """FLOAT: 1 in pixels of a mask that have a neighbour outside of it."""
    steps = [(1, 0), (-1, 0), (0, 1), (0, -1)]
    around = [F.shift(mask, dx, dy) for dx, dy in steps]
    return mask * (1.0 - F.min(F.min(around[0], around[1]), F.min(around[2], around[3])))


@dataclass(frozen=True)
class Mode:
    """A way of drawing. photograph: whether it is drawn over a photograph, from its camera."""

    name: str
    draw: Callable[[Shown], Variable]
    photograph: bool = False


MODES = (
    Mode("shaded", shaded),
    Mode("textured", textured),
    Mode("wireframe", wireframe),
    Mode("normals", normals),
    Mode("difference", difference, photograph=True),
    Mode("silhouettes", silhouettes, photograph=True),
)


@dataclass(eq=False)
class Pictures:
    """The pictures of one engine's subject, by mode and size: graphs that are made once.

    camera: the leaf of the view's matrix.
    """

    subject: Subject
    camera: Variable = field(default_factory=lambda: matrices_leaf(np.eye(4)[None]))
    _made: dict[tuple[str, Size], tuple[Variable, Photograph | None]] = field(default_factory=dict)

    def picture(self, mode: Mode, size: Size) -> tuple[Variable, Photograph | None]:
        """VEC3 of ``size``, sRGB codes, and the leaves of the photograph that it reads."""
        key = mode.name, size
        if key not in self._made:
            photograph = None
            if mode.photograph:
                width, height = size
                photograph = Photograph(
                    Variable(VEC3, size, name="photograph", data=np.zeros((1, height, width, 3))),
                    Variable(FLOAT, size, name="mask of the photograph", data=np.zeros((1, height, width))),
                )
            subject = self.subject
            drawn = DrawnMesh(to_clip(subject.position, self.camera), subject.faces, size, subject.face_count)
            codes = mode.draw(Shown(subject, drawn, self.camera, photograph))
            self._made[key] = F.clamp(codes, 0.0, 1.0), photograph
        return self._made[key]
