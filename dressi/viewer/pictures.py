"""What the viewer draws: a mesh of Variables, in one of several modes, as a graph of its engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..ad import functional as F
from ..ad.graph import Variable
from ..ad.graph.types import FLOAT, VEC3, Size
from ..render.cameras import Camera
from ..render.cameras.pose import matrices_leaf
from ..render.fit.graphs.round import Subject
from ..render.surface import screen
from ..render.surface.projection import to_clip
from ..render.surface.texturing import barycentric_slopes
from .handles import Axes

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
    """A drawn mesh and what its pixels are made of. photograph: of the same camera, if there is one."""

    subject: Subject
    drawn: screen.DrawnMesh
    matrices: Variable
    photograph: Photograph | None

    @cached_property
    def mask(self) -> Variable:
        """FLOAT: 1 where the mesh is."""
        return screen.covered(self.drawn.face)

    @cached_property
    def weights(self) -> Variable:
        return screen.barycentric(self.drawn.position, self.corners, self.drawn.size)

    @cached_property
    def corners(self):
        return screen.corners(self.drawn.face, self.drawn.faces)

    @cached_property
    def normal(self) -> Variable:
        """VEC3: the smooth normal at each pixel."""
        table = screen.vertex_normals(self.subject.position, self.subject.faces)
        return F.normalize(screen.interpolate(table, self.corners, self.weights))

    @cached_property
    def flat(self) -> Variable:
        """VEC3: the normal of the face at each pixel."""
        return screen.flat_normal(self.subject.position, self.corners)

    @cached_property
    def clay(self) -> Variable:
        """VEC3: the colour of a shape without colours."""
        return F.vec3(self.mask) * 0.0 + CLAY

    @cached_property
    def codes(self) -> Variable:
        """VEC3: colours as they were recovered; clay where there are none yet."""
        codes = self.subject.codes
        return self.clay if codes is None else codes(self.drawn, self.matrices)

    def lit(self, colour: Variable, normal: Variable) -> Variable:
        """A colour under a light at the camera; the backs of faces are as bright as their fronts."""
        return colour * (0.25 + 0.75 * F.abs(F.dot(normal, self.toward)))

    @cached_property
    def toward(self) -> Variable:
        """VEC3: the unit vector from each pixel's point to the camera, nearly: against the optical axis."""
        last_row = F.column(F.transpose(self.matrices), 3)
        return F.normalize(F.swizzle(last_row, "xyz")) * -1.0

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
    return F.abs(F.select(shown.mask, shown.codes, 0.0) - shown.photograph.codes)


def silhouettes(shown: Shown) -> Variable:
    assert shown.photograph is not None
    picture = shown.photograph.codes * 0.6 + F.vec3(shown.photograph.mask) * 0.08
    picture = F.select(outline(F.greater(shown.photograph.mask, 0.5)), TRUTH, picture)
    return F.select(outline(shown.mask), FIT, picture)


def outline(mask: Variable) -> Variable:
    """FLOAT: 1 in pixels of a mask that have a neighbour outside of it."""
    right, left, down, up = (F.shift(mask, *step) for step in ((1, 0), (-1, 0), (0, 1), (0, -1)))
    return mask * (1.0 - F.min(F.min(right, left), F.min(down, up)))


@dataclass(frozen=True)
class Mode:
    """A way of drawing. photograph: whether it is drawn over a photograph, from its camera."""

    name: str
    draw: Callable[[Shown], Variable]
    photograph: bool = False


APART = Mode("difference", textured)
"""The absolute difference of what is compared."""
COLOURED = Mode("textured", textured)
"""The only one that shows strands and points; the others draw faces."""
MODES = (
    Mode("shaded", shaded),
    COLOURED,
    Mode("wireframe", wireframe),
    Mode("normals", normals),
    Mode("difference", difference, photograph=True),
    Mode("silhouettes", silhouettes, photograph=True),
)


@dataclass(eq=False)
class Pictures:
    """The pictures of one engine's subject, by mode and size: graphs that are made once.

    camera: the leaf of the view's matrix.  axes: drawn over all of them, if there are handles.  against: another
    subject, shown to the right of ``wiper``, a FLOAT leaf: the share of the width at which it begins.
    """

    subject: Subject
    axes: Axes | None = None
    against: Subject | None = None
    wiper: Variable = field(default_factory=lambda: Variable.of(0.5, name="wiper"))
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
            codes = self._drawn(self.subject, mode, size, photograph)
            if self.against is not None:
                other = self._drawn(self.against, mode, size, photograph)
                codes = F.abs(codes - other) if mode is APART else self._wiped(codes, other, size)
            codes = F.clamp(codes, 0.0, 1.0)
            self._made[key] = codes if self.axes is None else self.axes.over(codes, size), photograph
        return self._made[key]

    def _drawn(self, subject: Subject, mode: Mode, size: Size, photograph: Photograph | None) -> Variable:
        position = to_clip(subject.position, self.camera)
        drawn = screen.DrawnMesh(position, subject.faces, size, subject.face_count)
        return mode.draw(Shown(subject, drawn, self.camera, photograph))

    def _wiped(self, left: Variable, right: Variable, size: Size) -> Variable:
        """One picture left of the wiper, the other one right of it, with a line between them."""
        beyond = F.to_float(F.pixel_coordinates(size)).x + 0.5 - self.wiper * float(size[0])
        both = F.select(F.less(beyond, 0.0), left, right)
        return F.select(F.less(F.abs(beyond), 0.75), (1.0, 1.0, 1.0), both)


# A camera that orbits around a mesh, moved by mouse and keys.

FOV_Y = 35.0
"""Vertical field of view in degrees."""
NEAREST, FARTHEST = 0.2, 40.0
"""Range of the distance, in radii of the scene."""


@dataclass
class Orbit:
    """Angles in degrees, as in ``dressi.render.ring``: azimuth 0 looks from +z, 90 from +x.

    up: (3,) the direction that stays upright. center: (3,) what it looks at.

    >>> from dressi.viewer.pictures import Orbit
    >>> orbit = Orbit()
    >>> orbit.turn(90.0, 0.0); orbit.zoom(2.0)
    >>> orbit.camera((64, 64)).center.round(3).tolist()
    [-1.539, 0.596, 0.56]
    """

    azimuth: float = 20.0
    elevation: float = 20.0
    distance: float = 3.4857
    center: np.ndarray = field(default_factory=lambda: np.zeros(3))
    up: np.ndarray = field(default_factory=lambda: np.array([0.0, 1.0, 0.0]))

    def turn(self, right: float, down: float) -> None:
        """Turn the object by degrees to the right and down."""
        self.azimuth = (self.azimuth - right + 180.0) % 360.0 - 180.0
        self.elevation = float(np.clip(self.elevation + down, -89.0, 89.0))

    def zoom(self, factor: float) -> None:
        """Come nearer by a factor."""
        self.distance = float(np.clip(self.distance / factor, NEAREST, FARTHEST))

    def pan(self, right: float, down: float) -> None:
        """Shift the object to the right and down, in heights of the picture."""
        rotation = self.camera((2, 2)).rotation
        step = 2 * self.distance * np.tan(np.radians(FOV_Y / 2))
        self.center = self.center - step * (right * rotation[0] + down * rotation[1])

    def home(self) -> None:
        """Back to where it began."""
        start = Orbit()
        self.azimuth, self.elevation, self.distance, self.center = (
            start.azimuth, start.elevation, start.distance, start.center,
        )  # fmt: skip

    def camera(self, size: tuple[int, int]) -> Camera:
        """The camera for pictures of ``size``. Narrow pictures show as much as square ones."""
        a, e = np.radians([self.azimuth, self.elevation])
        toward = np.array([np.sin(a) * np.cos(e), np.sin(e), np.cos(a) * np.cos(e)])
        eye = self.center + self.distance * (self._upright() @ toward)
        narrow = min(1.0, size[0] / size[1])
        fov = 2 * np.degrees(np.arctan(np.tan(np.radians(FOV_Y / 2)) / narrow))
        near = max(self.distance - 3.0, 0.02 * self.distance)
        return Camera.perspective(
            float(fov), size, eye, self.center, up=self.up, near=near, far=self.distance + 10.0
        )

    def _upright(self) -> np.ndarray:
        """(3, 3): the rotation that takes +y to ``up``."""
        up = self.up / np.linalg.norm(self.up)
        side = np.cross(up, [0.0, 0.0, 1.0])
        if np.linalg.norm(side) < 1e-6:
            side = np.array([1.0, 0.0, 0.0])
        side /= np.linalg.norm(side)
        return np.stack([side, up, np.cross(side, up)], axis=1)
