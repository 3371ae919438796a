"""Statistical models of faces: a mean, and modes that are added with weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...errors import InputError, shown
from ..mesh import Mesh
from ..shading.harmonics import COUNT
from ..shading.harmonics_light import even_light

POINTS = 68
"""Landmarks of the Multi-PIE (iBUG) scheme: jaw 0 to 16, brows, nose, eyes, mouth."""
JAW = 17
"""Of these, the first ones lie on the contour of the jaw, not on places of the skin."""
UNROUND = 1e-3
"""By so much the columns of a rotation are off unit length and right angles at most."""


def table(what: str, values: Any, shape: tuple[int | None, ...], dtype: Any = np.float32) -> np.ndarray:
    """An array of numbers of a shape, None for any length. Raises InputError."""
    found = np.asarray(values)
    fits = found.ndim == len(shape) and all(n is None or n == m for n, m in zip(shape, found.shape))
    kinds = "iu" if np.dtype(dtype).kind in "iu" else "fiu"
    if found.dtype.kind not in kinds or not fits:
        wanted = ", ".join("N" if n is None else str(n) for n in shape)
        raise InputError(
            f"{what} of a face model are an array ({wanted}), not {shown(found.dtype)} {found.shape}"
        )
    if not np.isfinite(found).all():
        raise InputError(f"{what} of a face model have values that are NaN or infinite; repair them")
    return found.astype(dtype)


@dataclass(frozen=True, eq=False)
class FaceModel:
    """A face as mean + sum of identity[i] * a[i] + sum of expression[e] * b[e], with its landmarks, regions and albedo.

    mesh: the mean, with faces and perhaps UVs, V vertices.  identity: (I, V, 3), for weights of one standard deviation.
    expression: (E, V, 3); weights are in ``expression_bounds``, or have any value where that is None.
    expression_deviation: of their prior.  landmarks: (68,) numbers of vertices in the order of Multi-PIE, -1 for those that the
    model lacks; None: no landmarks.  regions: (V,) bool by name.  albedo: (V, 3), linear, the mean.  albedo_modes: (A, V, 3),
    for weights of one standard deviation.  millimetres: in a unit of length. Raises InputError.

    >>> ball = primitives.icosphere(1)
    >>> model = FaceModel(ball, identity=ball.positions[None] * 0.1)
    >>> model.positions([1.0]).max().round(2).item()
    1.1
    """

    mesh: Mesh
    identity: np.ndarray
    expression: np.ndarray = field(default_factory=lambda: np.zeros((0, 0, 3)))
    expression_names: tuple[str, ...] = ()
    expression_bounds: tuple[float, float] | None = (0.0, 1.0)
    expression_deviation: float = 0.5
    landmarks: np.ndarray | None = None
    regions: Mapping[str, np.ndarray] = field(default_factory=dict)
    albedo: np.ndarray | None = None
    albedo_modes: np.ndarray = field(default_factory=lambda: np.zeros((0, 0, 3)))
    millimetres: float = 1.0

    def __post_init__(self) -> None:
        self.mesh.validate()
        count = len(self.mesh.positions)
        for name in ("identity", "expression", "albedo_modes"):
            values = np.asarray(getattr(self, name))
            values = np.zeros((0, count, 3)) if values.size == 0 else values
            object.__setattr__(self, name, table(f"{name} modes", values, (None, count, 3)))
        if not len(self.identity):
            raise InputError("a face model has at least one identity mode")
        names = tuple(map(str, self.expression_names))
        if names and len(names) != len(self.expression):
            raise InputError(f"{len(names)} expression names for {len(self.expression)} expression modes")
        object.__setattr__(self, "expression_names", names)
        if self.albedo is not None:
            object.__setattr__(self, "albedo", table("albedo", self.albedo, (count, 3)))
        elif len(self.albedo_modes):
            raise InputError("a face model with albedo modes has a mean albedo, too")
        if self.landmarks is not None:
            points = table("landmarks", self.landmarks, (POINTS,), np.int64)
            if points.min() < -1 or points.max() >= count:
                raise InputError(
                    f"landmarks of a face model are vertices 0 to {count - 1}, or -1, not {points.min()} to {points.max()}"
                )
            object.__setattr__(self, "landmarks", points)
        found = {}
        for name, value in self.regions.items():
            inside = np.asarray(value)
            if inside.dtype != bool or inside.shape != (count,):
                raise InputError(
                    f"the region '{shown(name)}' is an array ({count},) of bool, not {shown(inside.dtype)} {inside.shape}"
                )
            found[str(name)] = inside
        object.__setattr__(self, "regions", found)
        for name in ("millimetres", "expression_deviation"):
            number = float(getattr(self, name))
            if not (np.isfinite(number) and number > 0):
                raise InputError(f"{name} of a face model is a number above 0, not {number}")
        bounds = self.expression_bounds
        if bounds is not None and not (len(bounds) == 2 and bounds[0] < bounds[1]):
            raise InputError(f"expression_bounds of a face model are (low, high), not {shown(bounds)}")

    def __repr__(self) -> str:
        marks = 0 if self.landmarks is None else int((self.landmarks >= 0).sum())
        return (
            f"FaceModel of {len(self.mesh.positions)} vertices: {len(self.identity)} identity, {len(self.expression)}"
            f" expression and {len(self.albedo_modes)} albedo modes, {marks} landmarks"
        )

    def weights(self, what: str, values: Any) -> np.ndarray:
        """The weights of "identity", "expression" or "albedo" modes as float64; None: zeros. Raises InputError."""
        modes = self.albedo_modes if what == "albedo" else getattr(self, what)
        if values is None:
            return np.zeros(len(modes))
        found = np.asarray(values, np.float64)
        if found.shape != (len(modes),):
            raise InputError(f"{what} weights are {len(modes)} numbers, not {found.shape}")
        if not np.isfinite(found).all():
            raise InputError(f"{what} weights have values that are NaN or infinite; repair them")
        return found

    def positions(self, identity: Any = None, expression: Any = None) -> np.ndarray:
        """(V, 3) float64: the vertices, in coordinates of the model. Weights that are left out are 0. Raises InputError."""
        parts = ((self.identity, "identity", identity), (self.expression, "expression", expression))
        moved = self.mesh.positions.copy()
        for modes, what, values in parts:
            moved += np.tensordot(self.weights(what, values), modes, axes=1)
        return moved

    def colours(self, albedo: Any = None) -> np.ndarray:
        """(V, 3): linear albedo, not below 0. Raises InputError when the model has none."""
        if self.albedo is None:
            raise InputError(
                "this face model has no albedo; model.with_albedo(*procedural_albedo(model)) adds one"
            )
        return np.maximum(
            self.albedo + np.tensordot(self.weights("albedo", albedo), self.albedo_modes, axes=1), 0
        )

    def with_albedo(self, albedo: np.ndarray, modes: np.ndarray | None = None) -> FaceModel:
        """The model with a mean albedo (V, 3) and modes (A, V, 3). Raises InputError."""
        return replace(self, albedo=albedo, albedo_modes=np.zeros((0, 0, 3)) if modes is None else modes)

    def part(self, identity: int | None = None, expression: int | None = None) -> FaceModel:
        """The model with its first modes only. Raises InputError."""
        names = self.expression_names[:expression]
        return replace(
            self,
            identity=self.identity[:identity],
            expression=self.expression[:expression],
            expression_names=names,
        )


@dataclass(frozen=True, eq=False)
class Face:
    """The parameters of one face of a model: a shape, its place, its colours, the light, and the zoom of the cameras.

    identity: (I,).  expression: (E,).  motion: (4, 4), or (N, 4, 4) for a place in each of N views: from the model to the
    world.  albedo: (A,).  light: (16, 3), spherical harmonics, degrees 0 to 2 count.  zoom: factor of the focal lengths.

    >>> ball = primitives.icosphere(1)
    >>> Face(FaceModel(ball, identity=ball.positions[None] * 0.1)).positions().shape
    (42, 3)
    """

    model: FaceModel
    identity: Any = None
    expression: Any = None
    motion: np.ndarray = field(default_factory=lambda: np.eye(4))
    albedo: Any = None
    light: np.ndarray = field(default_factory=even_light)
    zoom: float = 1.0

    def __post_init__(self) -> None:
        for name in ("identity", "expression", "albedo"):
            object.__setattr__(self, name, self.model.weights(name, getattr(self, name)))
        motion = np.asarray(self.motion, np.float64)
        if motion.shape[-2:] != (4, 4) or motion.ndim not in (2, 3):
            raise InputError(f"the motion of a face is (4, 4) or (N, 4, 4), not {motion.shape}")
        turn = motion[..., :3, :3]
        away = np.abs(turn @ np.swapaxes(turn, -1, -2) - np.eye(3)).max()
        if not (np.isfinite(motion).all() and away < UNROUND and (np.linalg.det(turn) > 0).all()):
            raise InputError(
                "the motion of a face is a rotation and a shift of finite numbers; zoom and identity scale"
            )
        object.__setattr__(self, "motion", motion)
        light = np.asarray(self.light, np.float64)
        if light.shape != (COUNT, 3) or not np.isfinite(light).all():
            raise InputError(f"the light of a face is ({COUNT}, 3) finite numbers, not {light.shape}")
        if not 0 < self.zoom < np.inf:
            raise InputError(f"the zoom of a face is a number above 0, not {self.zoom!r}")

    def positions(self) -> np.ndarray:
        """(V, 3): the vertices, in coordinates of the model."""
        return self.model.positions(self.identity, self.expression)

    def world(self, view: int = 0) -> np.ndarray:
        """(V, 3): the vertices, in the world."""
        motion = self.motion if self.motion.ndim == 2 else self.motion[view]
        return self.positions() @ motion[:3, :3].T + motion[:3, 3]

    def mesh(self) -> Mesh:
        """In coordinates of the model, with its albedo as colours of the vertices if it has one."""
        mesh = replace(self.model.mesh, positions=self.positions(), normals=None, normal_faces=None)
        if self.model.albedo is not None:
            mesh = replace(mesh, colors=self.model.colours(self.albedo), color_faces=mesh.faces)
        return mesh
