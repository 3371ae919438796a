"""Lenses: where a camera really sees a direction, by the models of OpenCV and COLMAP.

A lens takes a point (x, y, z) in front of the camera to a place (u, v) of the image plane, K (u, v, 1) in
pixels. Formulas stand once, for arrays (float64) and for Variables, whose coefficients have gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.graph.evaluation import evaluate
from ...ad.graph.types import FLOAT, Size
from ...errors import InputError

FARTHEST = 1e4
"""Radius of the image plane beyond which no picture reaches."""
STEPS = 6
"""Of Newton's method, from a table with ``TABLE`` radii: to rounding."""
TABLE = 2048


@dataclass(frozen=True)
class Lens:
    """Radial and tangential distortion (Brown, Conrady), as OpenCV and COLMAP write it, with (x, y) at depth
    1 and r^2 = x^2 + y^2:

        q = (1 + k1 r^2 + k2 r^4 + k3 r^6) / (1 + k4 r^2 + k5 r^4 + k6 r^6)
        u = x q + 2 p1 x y + p2 (r^2 + 2 x^2)
        v = y q + p1 (r^2 + 2 y^2) + 2 p2 x y

    Coefficients are numbers or FLOAT Variables 1x1, which pictures are differentiable in. COLMAP's OPENCV has
    k1, k2, p1, p2, its FULL_OPENCV all of them. Raises InputError when one is not finite.

    >>> Lens(k1=0.1).distort(np.array([1.0, 0.0])).round(6).tolist()
    [1.1, 0.0]
    """

    k1: Any = 0.0
    k2: Any = 0.0
    p1: Any = 0.0
    p2: Any = 0.0
    k3: Any = 0.0
    k4: Any = 0.0
    k5: Any = 0.0
    k6: Any = 0.0

    counts: ClassVar[tuple[int, ...]] = (4, 5, 8)
    """Of coefficients, in the order of the fields, that OpenCV knows."""
    bent: ClassVar[bool] = False
    """Whether a lens without coefficients differs from a pinhole."""
    needed: ClassVar[tuple[tuple[float, float], ...]] = ((0, 0), (0, 1), (1, 0), (1, 1))
    """Where a picture has to have rays, in shares of its sides: the farthest of these."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Variable):
                if value.vtype is not FLOAT or value.size != (1, 1):
                    raise InputError(f"{field.name} of a lens is a number or a FLOAT 1x1, not {value}")
            elif not np.isfinite(value):
                raise InputError(f"the lens distortion {astuple(self)} must be finite numbers")

    @classmethod
    def from_opencv(cls, coefficients: Sequence[float] | np.ndarray) -> Self:
        """From OpenCV's ``distCoeffs``: k1 k2 p1 p2 [k3 [k4 k5 k6]], or k1 to k4 of a fisheye. Raises
        InputError.

        >>> Lens.from_opencv([0.1, 0.0, 0.0, 0.0, 0.2]).k3
        0.2
        """
        values = np.asarray(coefficients, np.float64).ravel()
        if len(values) not in cls.counts:
            raise InputError(
                f"{cls.__name__} has {' or '.join(map(str, cls.counts))} coefficients in OpenCV's order,"
                f" {' '.join(field.name for field in fields(cls))}, not {len(values)}"
            )
        return cls(*values.tolist())

    @property
    def model(self) -> str:
        """COLMAP's name, of the model with the fewest coefficients."""
        return "FULL_OPENCV" if any((self.k3, self.k4, self.k5, self.k6)) else "OPENCV"

    @property
    def coefficients(self) -> dict[str, Any]:
        """Those that are not 0, by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: x for name, x in values.items() if isinstance(x, Variable) or x}

    def __bool__(self) -> bool:
        """Whether it differs from a pinhole."""
        return self.bent or bool(self.coefficients)

    def started(self) -> Self:
        """The lens with the values that Variables start from."""
        names = [name for name, x in self.coefficients.items() if isinstance(x, Variable)]
        values = evaluate([getattr(self, name) for name in names]) if names else []
        return replace(self, **{n: float(np.ravel(v)[0]) for n, v in zip(names, values, strict=True)})

    # ---- the model

    def _radial(self, square: Any) -> Any:
        top = 1.0 + square * (self.k1 + square * (self.k2 + square * self.k3))
        if not any(name in self.coefficients for name in ("k4", "k5", "k6")):
            return top
        return top / (1.0 + square * (self.k4 + square * (self.k5 + square * self.k6)))

    def _plane(self, x: Any, y: Any) -> tuple[Any, Any]:
        """u, v of (x, y) at depth 1."""
        square = x * x + y * y
        radial = self._radial(square)
        if not any(name in self.coefficients for name in ("p1", "p2")):
            return x * radial, y * radial
        u = x * radial + self.p1 * (2.0 * x * y) + self.p2 * (square + 2.0 * x * x)
        return u, y * radial + self.p1 * (square + 2.0 * y * y) + self.p2 * (2.0 * x * y)

    def bend(self, point: Variable, limit: Variable) -> tuple[Variable, Variable]:
        """VEC3 of points in front of the camera that a pinhole shows where the lens shows the given ones, and
        FLOAT: their distance for the raster, at most 0 for those that no picture shows.

        limit: FLOAT, the ``radius`` up to which the model holds; it goes on straight from there, so that
        nothing folds back into the picture.
        """
        across = F.sqrt(F.dot(point.xy, point.xy) + 1e-30)
        # Beyond the limit, and behind the camera, a point keeps its direction at the limit. That is linear in
        # homogeneous coordinates, so that faces which reach there are clipped as those of a pinhole.
        depth = F.maximum(point.z, across / limit)
        u, v = self._plane(point.x / depth, point.y / depth)
        return F.vec3(u * depth, v * depth, point.z), point.z

    def seen(self, points: np.ndarray) -> np.ndarray:
        """(..., 2) u, v of points (..., 3) in axes of the camera, NaN behind it; numbers alone."""
        depth = np.where(points[..., 2] > 0, points[..., 2], np.nan)
        return np.stack(self._plane(points[..., 0] / depth, points[..., 1] / depth), axis=-1)

    def distort(self, points: np.ndarray) -> np.ndarray:
        """(..., 2) where points (..., 2) at depth 1 are seen."""
        points = np.asarray(points, np.float64)
        return self.seen(np.concatenate([points, np.ones((*points.shape[:-1], 1))], axis=-1))

    def directions(self, seen: np.ndarray) -> np.ndarray:
        """(..., 3) directions, of depth 1, that are seen at u, v (..., 2): ``seen`` undone by Newton's
        method. NaN where there is none."""
        seen = np.asarray(seen, np.float64)
        far = np.hypot(seen[..., 0], seen[..., 1])
        at = seen * (self._inverse(far) / np.maximum(far, 1e-30))[..., None]
        at = np.where(far[..., None] > 0, at, seen)
        for _ in range(STEPS):
            x, y = at[..., 0], at[..., 1]
            columns = []
            for move in (1e-30j, 0.0), (0.0, 1e-30j):  # derivatives of a polynomial by a complex step
                columns.append(np.imag(np.stack(self._plane(x + move[0], y + move[1]), axis=-1)) / 1e-30)
            (a, c), (b, d) = (np.moveaxis(column, -1, 0) for column in columns)
            e, f = np.moveaxis(np.stack(self._plane(x, y), axis=-1) - seen, -1, 0)
            with np.errstate(divide="ignore", invalid="ignore"):
                at = at - np.stack([d * e - b * f, a * f - c * e], axis=-1) / (a * d - b * c)[..., None]
        off = np.abs(np.stack(self._plane(at[..., 0], at[..., 1]), axis=-1) - seen).max(-1)
        good = off < 1e-9 * (1 + far)
        return np.concatenate(
            [np.where(good[..., None], at, np.nan), np.where(good, 1.0, np.nan)[..., None]], -1
        )

    # ---- where it ends

    def _slope(self) -> np.ndarray:
        """Numerator of the derivative of the seen radius, a polynomial in r^2, the highest power first."""
        top, below = (np.poly1d([*reversed(c), 1.0]) for c in (self._numbers[:3], self._numbers[3:]))
        twice = np.poly1d([2.0, 0.0])
        return (top * below + twice * (top.deriv() * below - top * below.deriv())).coeffs

    @property
    def _numbers(self) -> tuple[float, ...]:
        return self.k1, self.k2, self.k3, self.k4, self.k5, self.k6

    @property
    def radius(self) -> float:
        """The radius r (fisheyes: the angle) up to which what is seen moves outward; inf without an end."""
        ends = np.concatenate([np.roots(self._slope()), self._poles()])
        real = ends[(np.abs(ends.imag) < 1e-9) & (ends.real > 0)].real
        return float(np.sqrt(real.min())) if len(real) else float("inf")

    def _poles(self) -> np.ndarray:
        return np.roots([*reversed(self._numbers[3:]), 1.0])

    @property
    def reach(self) -> float:
        """The radius at depth 1 up to which the lens is monotonic; beyond it the model is invalid."""
        return self.radius

    def _radius_seen(self, radius: Any) -> Any:
        return radius * self._radial(np.square(radius))

    def _most(self) -> float:
        return min(self.radius, FARTHEST)

    def _inverse(self, seen: np.ndarray) -> np.ndarray:
        """Radii, or angles, that are seen at radii, without what is tangential; nearly, NaN beyond the end."""
        most = self._most()
        far = most * np.linspace(0, 1, TABLE) ** (1 if most < 10 else 8)
        return np.interp(seen, self._radius_seen(far), far, right=np.nan)

    def fold(self, intrinsics: np.ndarray, size: tuple[int, int]) -> str:
        """Says where the border of a picture lies beyond the end of the model; empty where it does not."""
        lens, (width, height) = self.started(), size
        points = np.array([(x * width, y * height, 1.0) for x, y in self.needed])
        far = np.linalg.norm((points @ np.linalg.inv(intrinsics).T)[:, :2], axis=1)
        wanted, end = float(far.min() if self.bent else far.max()), lens._most()
        seen = float(lens._radius_seen(end))
        if wanted <= seen:
            return ""
        focal = float(np.sqrt(intrinsics[0, 0] * intrinsics[1, 1]))
        return (
            f"the lens {lens.model} has no inverse at the edge of the picture: it folds at radius {end:.4g},"
            f" seen {seen * focal:.5g} pixels from the principal point, and the edge reaches"
            f" {wanted * focal:.5g}; crop the picture, or calibrate with points near its corners"
        )

    def limit(self, intrinsics: np.ndarray, size: tuple[int, int]) -> float:
        """The radius that a picture reaches, and half as much again, unless the model ends before."""
        lens, (width, height) = self.started(), size
        x, y = np.meshgrid(np.linspace(0, width, 5), np.linspace(0, height, 5))
        plane = (np.stack([x, y, np.ones_like(x)], -1) @ np.linalg.inv(intrinsics).T)[..., :2]
        inner = lens._inverse(np.linalg.norm(plane, axis=-1))
        return min(lens._most(), 1.5 * float(np.nanmax(inner)))


@dataclass(frozen=True)
class FisheyeLens(Lens):
    """OpenCV's fisheye (Kannala, Brandt): seen at radius t (1 + k1 t^2 + k2 t^4 + k3 t^6 + k4 t^8), with t
    the angle from the axis, up to half a turn. COLMAP's OPENCV_FISHEYE.

    >>> FisheyeLens().seen(np.array([1.0, 0.0, 0.0])).round(4).tolist()
    [1.5708, 0.0]
    """

    counts: ClassVar[tuple[int, ...]] = (4,)
    bent: ClassVar[bool] = True
    model: ClassVar[str] = "OPENCV_FISHEYE"
    needed: ClassVar[tuple[tuple[float, float], ...]] = ((0, 0.5), (1, 0.5), (0.5, 0), (0.5, 1))
    """The nearest of these: corners beyond the circle that a fisheye shows are empty."""

    def __post_init__(self) -> None:
        super().__post_init__()
        extra = [name for name in ("p1", "p2", "k5", "k6") if name in self.coefficients]
        if extra:
            raise InputError(f"a fisheye has k1 to k4, not {', '.join(extra)}; take Lens for those")

    @classmethod
    def from_opencv(cls, coefficients: Sequence[float] | np.ndarray) -> Self:
        values = np.asarray(coefficients, np.float64).ravel()
        if len(values) != 4:
            raise InputError(f"a fisheye has 4 coefficients, k1 k2 k3 k4, not {len(values)}")
        return cls(**dict(zip(("k1", "k2", "k3", "k4"), values.tolist(), strict=True)))

    def _radial(self, square: Any) -> Any:
        return 1.0 + square * (self.k1 + square * (self.k2 + square * (self.k3 + square * self.k4)))

    def bend(self, point: Variable, limit: Variable) -> tuple[Variable, Variable]:
        across = F.sqrt(F.dot(point.xy, point.xy) + 1e-30)
        angle, far = F.atan2(across, point.z), F.length(point)
        inside = F.minimum(angle, limit)
        # Straight on beyond the limit, as a plane lens does.
        scale = angle * self._radial(inside * inside) / across
        # Nothing is drawn from the middle between the limit and the axis behind.
        front = F.less(angle, 0.5 * (limit + np.pi))
        return F.vec3(point.xy * (scale * far), far), F.select(front, far, -far)

    def seen(self, points: np.ndarray) -> np.ndarray:
        across = np.hypot(points[..., 0], points[..., 1])
        angle = np.arctan2(across, points[..., 2])
        scale = self._radius_seen(angle) / np.where(across > 0, across, 1.0)
        return points[..., :2] * np.where(across > 0, scale, 1.0 / np.abs(points[..., 2]))[..., None]

    def directions(self, seen: np.ndarray) -> np.ndarray:
        """(..., 3) unit directions."""
        seen = np.asarray(seen, np.float64)
        far = np.hypot(seen[..., 0], seen[..., 1])
        angle, step = self._inverse(far), 1e-30
        for _ in range(STEPS):
            slope = self._radius_seen(angle + step * 1j).imag / step
            with np.errstate(divide="ignore", invalid="ignore"):
                angle = np.minimum(angle - (self._radius_seen(angle) - far) / slope, self._most())
        scale = np.where(far > 0, np.sin(angle) / np.maximum(far, 1e-30), 1.0)
        return np.concatenate([seen * scale[..., None], np.cos(angle)[..., None]], axis=-1)

    def _slope(self) -> np.ndarray:
        return np.array([9 * self.k4, 7 * self.k3, 5 * self.k2, 3 * self.k1, 1.0])

    def _poles(self) -> np.ndarray:
        return np.zeros(0)

    @property
    def reach(self) -> float:
        end = self._most()
        return float(np.tan(end)) if end < np.pi / 2 else float("inf")

    def _most(self) -> float:
        return min(self.radius, np.pi)


@dataclass(frozen=True)
class RollingLens(Lens):
    """A lens whose camera moves while the rows of a picture are read, one after the other (a rolling shutter).

    After a share t of a motion, a turn w in radians and a shift s in distances of what is looked at, both in axes of the camera
    over the time of all rows, the lens sees the point p = (x, y, 1) as

        p + t (w x p + s),   t = begin + across x + down y

    The turn is small, and t is that of the row in which a pinhole that does not move sees the point: of motions of a few
    pixels, both are off by about a hundredth of them. What is not as far away as what is looked at is off by its share of the
    shift.

    >>> RollingLens(shift_x=0.01, down=1.0).distort(np.array([[0.0, -0.5], [0.0, 0.5]])).tolist()
    [[-0.005, -0.5], [0.005, 0.5]]
    """

    turn_x: Any = 0.0
    turn_y: Any = 0.0
    turn_z: Any = 0.0
    shift_x: Any = 0.0
    shift_y: Any = 0.0
    shift_z: Any = 0.0
    begin: Any = 0.0
    across: Any = 0.0
    down: Any = 0.0

    @classmethod
    def of(cls, lens: Lens, motion: np.ndarray, intrinsics: np.ndarray, size: Size) -> Self:
        """A lens with a motion (6,), the turn and the shift, from the first to the last row, t = -1/2 to 1/2.

        lens: a ``Lens``.  intrinsics: (3, 3) K in pixels.  size: (W, H). Raises InputError.
        """
        if lens.bent:
            raise InputError(f"the lens {lens.model} has no motion of its camera; take a Lens")
        axis = read_along(size)
        begin, slope = intrinsics[axis, 2] / size[axis] - 0.5, intrinsics[axis, axis] / size[axis]
        values = (*motion, begin, slope * (axis == 0), slope * (axis == 1))
        return cls(**lens.coefficients, **dict(zip(MOTION, map(float, values), strict=True)))

    def _plane(self, x: Any, y: Any) -> tuple[Any, Any]:
        t = self.begin + self.across * x + self.down * y
        depth = 1.0 + t * (self.turn_x * y - self.turn_y * x + self.shift_z)
        u = x + t * (self.turn_y - self.turn_z * y + self.shift_x)
        v = y + t * (self.turn_z * x - self.turn_x + self.shift_y)
        return super()._plane(u / depth, v / depth)


def read_along(size: Size) -> int:
    """The axis of pixels along which pictures of a size (W, H) are read one row after the other: rows are the long side of a
    sensor, also where it is held upright.

    >>> read_along((640, 480)), read_along((480, 640))
    (1, 0)
    """
    return int(size[0] >= size[1])


MOTION = tuple(field.name for field in fields(RollingLens))[-9:]
"""Names of the coefficients that a lens does not have whose camera stands still."""


class Bending(NamedTuple):
    """The lens of N views, as an argument of a picture."""

    kind: type[Lens]
    values: dict[str, Any]
    """By name: FLOAT Variables 1x1, or arrays (N,)."""
    intrinsics: Any
    """MAT3 1x1, or (N, 3, 3): K in pixels."""
    limit: np.ndarray
    """(N,): see ``Lens.limit``."""

    @classmethod
    def of(
        cls, lenses: Sequence[Lens], matrices: np.ndarray, size: Size, intrinsics: Any = None
    ) -> Self | None:
        """Of lenses with K (N, 3, 3); None where all are pinholes. intrinsics: instead of K, a MAT3. Raises
        InputError."""
        if not any(lenses):
            return None
        kinds = {type(lens) for lens in lenses}
        if len(kinds) > 1:
            raise InputError("the views of a picture have one kind of lens; draw fisheyes apart from others")
        if EquirectangularLens in kinds:
            raise InputError(
                "a panorama is not drawn by moving vertices, for its border cuts faces: draw surround(eye, size) and"
                " resample its pictures for the camera"
            )
        values: dict[str, Any] = {}
        for name in sorted({name for lens in lenses for name in lens.coefficients}):
            own = [getattr(lens, name) for lens in lenses]
            known = [x for x in own if isinstance(x, Variable)]
            if known and any(x is not known[0] for x in own):
                raise InputError(f"{name} is one Variable for all views of a picture; give N tiles of it")
            values[name] = known[0] if known else np.array(own, np.float64)
        limits = [lens.limit(k, size) for lens, k in zip(lenses, matrices, strict=True)]
        k = matrices if intrinsics is None else intrinsics
        return cls(kinds.pop(), values, k, np.array(limits))


def through_lens(
    lens: Lens, clip: Variable, matrices: Variable, intrinsics: Variable, limit: Variable, size: Size
) -> Variable:
    """VEC4 list: where vertices with the clip positions of pinholes go by their lens.

    matrices: MAT4 1x1, world to clip.  intrinsics: MAT3 1x1.  limit: FLOAT 1x1. Differentiable in all but the
    limit. Edges between the vertices stay straight; where a lens bends a long one, divide its faces.
    """
    half = F.constant(np.array([[2 / size[0], 0, -1], [0, 2 / size[1], -1], [0, 0, 1.0]]))
    frame, rows = F.matmul(half, intrinsics), F.transpose(matrices)
    bent, far = lens.bend(F.matmul(F.inverse(frame), F.vec3(clip.xy, clip.w)), limit)
    slope = F.length(F.column(rows, 2).xyz) / F.length(F.column(rows, 3).xyz)
    place = F.matmul(frame, bent)
    return F.vec4(place.xy, clip.z + slope * (far - clip.w), place.z)


@dataclass(frozen=True)
class EquirectangularLens(Lens):
    """A whole panorama: u is the angle to the right of the axis, v the angle below the horizon, in radians.
    ``Camera.equirectangular`` has its K. It has no coefficients.

    >>> EquirectangularLens().seen(np.array([1.0, 0.0, 1.0])).round(4).tolist()
    [0.7854, 0.0]
    """

    bent: ClassVar[bool] = True
    model: ClassVar[str] = "EQUIRECTANGULAR"

    def __post_init__(self) -> None:
        if self.coefficients:
            raise InputError(f"a panorama has no coefficients, not {', '.join(self.coefficients)}")

    def seen(self, points: np.ndarray) -> np.ndarray:
        x, y, z = np.moveaxis(np.asarray(points, np.float64), -1, 0)
        return np.stack([np.arctan2(x, z), np.arctan2(y, np.hypot(x, z))], axis=-1)

    def directions(self, seen: np.ndarray) -> np.ndarray:
        """(..., 3) unit directions."""
        u, v = np.moveaxis(np.asarray(seen, np.float64), -1, 0)
        return np.stack([np.cos(v) * np.sin(u), np.sin(v), np.cos(v) * np.cos(u)], axis=-1)

    def fold(self, intrinsics: np.ndarray, size: Size) -> str:
        return ""

    def limit(self, intrinsics: np.ndarray, size: Size) -> float:
        return np.pi


PINHOLE = Lens()

MODELS = {
    "SIMPLE_PINHOLE": (0, "f cx cy", Lens),
    "PINHOLE": (1, "fx fy cx cy", Lens),
    "SIMPLE_RADIAL": (2, "f cx cy k1", Lens),
    "RADIAL": (3, "f cx cy k1 k2", Lens),
    "OPENCV": (4, "fx fy cx cy k1 k2 p1 p2", Lens),
    "OPENCV_FISHEYE": (5, "fx fy cx cy k1 k2 k3 k4", FisheyeLens),
    "FULL_OPENCV": (6, "fx fy cx cy k1 k2 p1 p2 k3 k4 k5 k6", Lens),
    "SIMPLE_RADIAL_FISHEYE": (8, "f cx cy k1", FisheyeLens),
    "RADIAL_FISHEYE": (9, "f cx cy k1 k2", FisheyeLens),
    "SIMPLE_FISHEYE": (14, "f cx cy", FisheyeLens),
    "FISHEYE": (15, "fx fy cx cy", FisheyeLens),
}
"""COLMAP's camera models: number in binary files, names of the parameters, and the lens."""
