"""Handles: axes in the picture by which a person moves, turns and scales what a Variable places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..ad import functional as F
from ..ad.graph import Variable
from ..ad.graph.types import MAT4, VEC3, VEC4, Size
from ..errors import InputError
from ..render.cameras import Camera
from ..render.cameras.rigid import axis_angle_to_matrix
from ..vk.run.engine import DressiAD

TRANSFORMS = ("move", "turn", "scale")
"""What a drag along an axis does."""


class Handle:
    """Writes a leaf that places something: the viewer draws its axes, and a drag along one of them moves it.

    leaf: a VEC3 (a place, such as that of a light, which is only moved) or a MAT4 (the ``to_world`` of a node) of one
    texel and one tile. unit: (4, 4) from the world to what is drawn, by default the same. The engine's next step
    or picture uses what was written, and ``matrix`` is the present value, also where an optimizer has changed it.
    Raises InputError.

    >>> from dressi.viewer import Handle
    >>> place = Variable.of((1.0, 0.0, 0.0), VEC3, name="place")
    >>> with DressiAD() as ad:
    ...     ad.set_loss(F.square(F.length(place)))
    ...     handle = Handle(place, ad)
    ...     handle.move((0, 2, 0))
    ...     ad.step()
    ...     handle.matrix[:3, 3].tolist(), ad.losses()
    ([1.0, 2.0, 0.0], [5.0])
    """

    def __init__(self, leaf: Variable, engine: DressiAD, unit: np.ndarray | None = None):
        one = leaf.is_leaf and leaf.size == (1, 1) and leaf.batch == 1
        if not one or leaf.vtype not in (VEC3, MAT4):
            raise InputError(f"a handle moves a leaf of one VEC3 or MAT4, not {leaf} (made at {leaf.where})")
        self.leaf, self.name, self._engine = leaf, leaf.name or "place", engine
        self.unit = np.eye(4) if unit is None else unit
        self.transforms: Sequence[str] = TRANSFORMS if leaf.vtype is MAT4 else TRANSFORMS[:1]

    @property
    def matrix(self) -> np.ndarray:
        """(4, 4) float64: the present value; of a place the shift to it."""
        value = np.asarray(self._engine.recv(self.leaf), np.float64)
        matrix = np.eye(4)
        if self.leaf.vtype is MAT4:
            return value.reshape(4, 4)
        matrix[:3, 3] = value.reshape(3)
        return matrix

    def move(self, shift: Sequence[float] | np.ndarray) -> None:
        """Shift it, (3,) in the world."""
        matrix = self.matrix
        matrix[:3, 3] += shift
        self._write(matrix)

    def turn(self, axis: Sequence[float] | np.ndarray, degrees: float) -> None:
        """Turn it about its own origin, by the right hand about an axis of the world. Raises InputError."""
        way = np.asarray(axis, np.float64)
        self._around(axis_angle_to_matrix(way * np.radians(degrees) / np.linalg.norm(way)))

    def scale(self, factor: float) -> None:
        """Make it larger by a factor, about its own origin. Raises InputError."""
        self._around(np.eye(3) * factor)

    def _around(self, change: np.ndarray) -> None:
        if self.leaf.vtype is VEC3:
            raise InputError(f"{self.name} is a place, which can only be moved; a MAT4 turns and scales")
        matrix = self.matrix
        matrix[:3, :3] = change @ matrix[:3, :3]
        self._write(matrix)

    def _write(self, matrix: np.ndarray) -> None:
        value = matrix if self.leaf.vtype is MAT4 else matrix[:3, 3]
        self._engine.send(self.leaf, value[None, None, None])


# The axes on the screen.

LENGTH = 0.16
"""Of an axis, in distances of the camera."""
NEAR = 9.0
"""How far from an axis it can be taken, in units of the window."""
COLOURS = ((0.93, 0.30, 0.27), (0.45, 0.80, 0.30), (0.30, 0.55, 0.98))
"""sRGB codes of the axes x, y and z."""
NOWHERE = (-9.0, -9.0, -9.0, -9.0)


@dataclass(eq=False)
class Axes:
    """Three axes over a picture. ends: VEC4 leaves, from (x, y) to (x, y) in clip space; they are sent before each
    picture."""

    ends: tuple[Variable, ...] = field(
        default_factory=lambda: tuple(
            Variable(VEC4, (1, 1), name=f"axis {k}", data=np.array(NOWHERE)[None, None, None]) for k in "xyz"
        )
    )

    def over(self, codes: Variable, size: Size) -> Variable:
        """A picture with the axes drawn over it, and a knob at the end of each."""
        at = F.to_float(F.pixel_coordinates(size)) + 0.5
        half, width = (size[0] / 2, size[1] / 2), max(size[1] / 300, 0.75)
        for ends, colour in zip(self.ends, COLOURS, strict=True):
            begin, end = (F.hadamard(F.swizzle(ends, s) + 1.0, half) for s in ("xy", "zw"))
            along, away = end - begin, at - begin
            share = F.clamp(F.dot(away, along) / F.maximum(F.dot(along, along), 1e-6), 0.0, 1.0)
            outside = F.min(F.length(away - along * share) - width, F.length(at - end) - 4 * width)
            cover = F.clamp(0.5 - outside, 0.0, 1.0)
            codes = codes * (1.0 - cover) + F.vec3(cover) * colour
        return codes


@dataclass(frozen=True)
class OnScreen:
    """Where the axes of a handle are in a room of the window. begin: (2,), ends: (3, 2) in clip space, NaN behind
    the camera.  length: of an axis in the world.  room: width and height in units of the window."""

    begin: np.ndarray
    ends: np.ndarray
    length: float
    room: tuple[float, float]

    @classmethod
    def of(cls, handle: Handle, camera: Camera, room: tuple[float, float]) -> OnScreen:
        origin = handle.unit[:3, :3] @ handle.matrix[:3, 3] + handle.unit[:3, 3]
        length = LENGTH * float(np.linalg.norm(camera.center - origin))
        points = np.concatenate([origin[None], origin + length * np.eye(3)])
        clip = points @ camera.world_to_clip[:, :3].T + camera.world_to_clip[:, 3]
        places = np.where(clip[:, 3:] > 1e-6, clip[:, :2] / np.maximum(clip[:, 3:], 1e-6), np.nan)
        return cls(places[0], places[1:], length / float(np.cbrt(np.linalg.det(handle.unit[:3, :3]))), room)

    @property
    def values(self) -> np.ndarray:
        """(3, 4): what ``Axes.ends`` hold."""
        both = np.concatenate([np.broadcast_to(self.begin, (3, 2)), self.ends], axis=1)
        return both if np.isfinite(both).all() else np.broadcast_to(NOWHERE, (3, 4))

    @property
    def _half(self) -> np.ndarray:
        return np.array(self.room) / 2

    def axis_at(self, x: float, y: float) -> int | None:
        """The axis at a place of the window, nearest to it; None where there is none."""
        begin, along = (self.begin + 1) * self._half, (self.ends - self.begin) * self._half
        away = np.array([x, y]) - begin
        share = np.clip((along @ away) / np.maximum((along**2).sum(1), 1e-6), 0, 1)
        far = np.linalg.norm(away - along * share[:, None], axis=1)
        nearest = int(np.argmin(far))  # that of NaN, behind the camera
        return nearest if far[nearest] <= NEAR else None

    def drag(self, handle: Handle, transform: str, axis: int, right: float, down: float) -> None:
        """The pointer that holds an axis moves by units of the window."""
        along, moved = (self.ends[axis] - self.begin) * self._half, np.array([right, down])
        squared = float(along @ along)
        if not squared > 1.0:
            return  # the axis points at the camera
        share = float(along @ moved) / squared
        if transform == "move":
            handle.move(share * self.length * np.eye(3)[axis])
        elif transform == "turn":
            across = along[0] * moved[1] - along[1] * moved[0]
            handle.turn(np.eye(3)[axis], 180 * across / np.sqrt(squared) / self.room[1])
        else:
            handle.scale(float(np.exp(share)))
