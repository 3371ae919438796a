"""Statistical models of faces: a mean, and modes that are added with weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from ...errors import InputError, shown
from ..mesh import Mesh
from ..mesh.material import bilinear
from ..shading.harmonics import COUNT, even_light, harmonics

POINTS = 68
"""Landmarks of the Multi-PIE (iBUG) scheme: jaw 0 to 16, brows, nose, eyes, mouth."""
JAW = 17
"""Of these, the first ones lie on the contour of the jaw, not on places of the skin."""
UNROUND = 1e-3
"""The columns of a rotation are off unit length and right angles by this at most."""


def table(what: str, values: Any, shape: tuple[int | None, ...], dtype: Any = np.float32) -> np.ndarray:
    """An array of numbers of a shape, None for any length. Raises InputError."""
    array = np.asarray(values)
    fits = array.ndim == len(shape) and all(n is None or n == m for n, m in zip(shape, array.shape))
    kinds = "iu" if np.dtype(dtype).kind in "iu" else "fiu"
    if array.dtype.kind not in kinds or not fits:
        wanted = ", ".join("N" if n is None else str(n) for n in shape)
        given = f"{shown(array.dtype)} {array.shape}"
        raise InputError(f"{what} of a face model are an array ({wanted}), not {given}")
    if not np.isfinite(array).all():
        raise InputError(f"{what} of a face model have values that are NaN or infinite; repair them")
    return array.astype(dtype)


@dataclass(frozen=True, eq=False)
class FaceModel:
    """A face as mean + sum of identity[i] * a[i] + sum of expression[e] * b[e], with its landmarks, regions
    and albedo.

    mesh: the mean, with faces and perhaps UVs, V vertices.  identity: (I, V, 3), for weights of one standard
    deviation. expression: (E, V, 3); weights are in ``expression_bounds``, or have any value where that is
    None. expression_deviation: of their prior.  landmarks: (68,) numbers of vertices in the order of
    Multi-PIE, -1 for those that the model lacks; None: no landmarks.  regions: (V,) bool by name.  albedo:
    (V, 3), linear, the mean.  albedo_modes: (A, V, 3), for weights of one standard deviation.  millimetres:
    in a unit of length. Raises InputError.

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
                given = f"{points.min()} to {points.max()}"
                raise InputError(
                    f"landmarks of a face model are vertices 0 to {count - 1}, or -1, not {given}"
                )
            object.__setattr__(self, "landmarks", points)
        regions = {str(name): np.asarray(inside) for name, inside in self.regions.items()}
        for name, inside in regions.items():
            if inside.dtype != bool or inside.shape != (count,):
                given = f"{shown(inside.dtype)} {inside.shape}"
                raise InputError(f"the region '{shown(name)}' is an array ({count},) of bool, not {given}")
        object.__setattr__(self, "regions", regions)
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
            f"FaceModel of {len(self.mesh.positions)} vertices: {len(self.identity)} identity,"
            f" {len(self.expression)} expression and {len(self.albedo_modes)} albedo modes, {marks} landmarks"
        )

    def weights(self, what: str, values: Any) -> np.ndarray:
        """The weights of "identity", "expression" or "albedo" modes as float64; None: zeros. Raises
        InputError."""
        modes = self.albedo_modes if what == "albedo" else getattr(self, what)
        if values is None:
            return np.zeros(len(modes))
        weights = np.asarray(values, np.float64)
        if weights.shape != (len(modes),):
            raise InputError(f"{what} weights are {len(modes)} numbers, not {weights.shape}")
        if not np.isfinite(weights).all():
            raise InputError(f"{what} weights have values that are NaN or infinite; repair them")
        return weights

    def positions(self, identity: Any = None, expression: Any = None) -> np.ndarray:
        """(V, 3) float64: the vertices, in coordinates of the model. Weights that are left out are 0. Raises
        InputError."""
        moved = self.mesh.positions.copy()
        moved += np.tensordot(self.weights("identity", identity), self.identity, axes=1)
        moved += np.tensordot(self.weights("expression", expression), self.expression, axes=1)
        return moved

    def colours(self, albedo: Any = None) -> np.ndarray:
        """(V, 3): linear albedo, not below 0. Raises InputError when the model has none."""
        if self.albedo is None:
            raise InputError(
                "this face model has no albedo; model.with_albedo(*procedural_albedo(model)) adds one"
            )
        weights = self.weights("albedo", albedo)
        return np.maximum(self.albedo + np.tensordot(weights, self.albedo_modes, axes=1), 0)

    def with_albedo(self, albedo: np.ndarray, modes: np.ndarray | None = None) -> FaceModel:
        """The model with a mean albedo (V, 3) and modes (A, V, 3). Raises InputError."""
        return replace(self, albedo=albedo, albedo_modes=np.zeros((0, 0, 3)) if modes is None else modes)

    def part(self, identity: int | None = None, expression: int | None = None) -> FaceModel:
        """The model with its first modes only. Raises InputError."""
        modes, names = self.expression[:expression], self.expression_names[:expression]
        return replace(self, identity=self.identity[:identity], expression=modes, expression_names=names)


@dataclass(frozen=True, eq=False)
class Face:
    """The parameters of one face: shape, place, colours, the light, and the zoom of the cameras.

    identity: (I,).  expression: (E,).  motion: (4, 4), or (N, 4, 4) for a place in each of N views: from the
    model to the world.  albedo: (A,).  light: (16, 3), spherical harmonics, degrees 0 to 2 count.  zoom:
    factor of the focal lengths.

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
            text = "the motion of a face is a rotation and a shift of finite numbers; zoom and identity scale"
            raise InputError(text)
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
        """The mesh in coordinates of the model, with its albedo as colours of vertices if it has one."""
        mesh = replace(self.model.mesh, positions=self.positions(), normals=None, normal_faces=None)
        if self.model.albedo is not None:
            mesh = replace(mesh, colors=self.model.colours(self.albedo), color_faces=mesh.faces)
        return mesh


# The albedo of a face: a base from a scan, and a few modes of variation.
#
# No public model of this kind has measured albedo modes. ``procedural_albedo`` makes some: random mixtures of
# what makes skins differ (melanin, blood, lips, brows, beard, freckles and blotches), of which the principal
# components are kept. They are a plausible prior, not statistics of people.

SKIN = np.array([0.47, 0.28, 0.20])
"""Linear: where there is no scan."""
MELANIN = np.array([0.35, 0.55, 0.75])
BLOOD = np.array([0.05, 0.45, 0.35])
"""Absorbance of red, green and blue, relative."""
SAMPLES, UNEVEN = 200, 0.03
DEFORMED, PAIRINGS, NEAREST = 40, 20, 3
"""Identity modes that follow a scan; rounds of pairing; vertices of a scan whose colours a vertex takes."""
LIPS, BROWS, CHEEK = (48, 60), ((17, 22), (22, 27)), (1, 15, 31, 35)
"""Landmarks of Multi-PIE."""


def scan_colours(model: FaceModel, scan: Mesh, to_model: np.ndarray) -> np.ndarray:
    """(V, 3): the colours of a textured scan at the vertices of a model, linear.

    to_model: (4, 4), a similarity that puts the scan roughly onto the mean of the model, to about a tenth of
    the head. Iterated closest points refine it, and identity modes deform the mean to the scan; each vertex
    then takes the mean colour of the NEAREST vertices of the scan. Raises InputError.

    >>> ball = primitives.icosphere(1)
    >>> texture = np.full((4, 4, 3), 0.5)
    >>> scan = Mesh(ball.positions, ball.faces, uvs=np.zeros((42, 2)), uv_faces=ball.faces, texture=texture)
    >>> scan_colours(FaceModel(ball, identity=ball.positions[None]), scan, np.eye(4)).mean().round(2).item()
    0.5
    """
    if scan.uvs is None or scan.texture is None or scan.uv_faces is None:
        raise InputError(f"the scan '{scan.name}' has no texture; its colours are those of a texture")
    to_model = np.asarray(to_model, np.float64)
    if to_model.shape != (4, 4) or not np.isfinite(to_model).all():
        raise InputError(f"to_model is a similarity (4, 4), not {to_model.shape}")
    points = scan.positions @ to_model[:3, :3].T + to_model[:3, 3]
    modes = model.identity[:DEFORMED].astype(np.float64)
    weights = np.zeros(len(modes))
    # The neck and the rim of the model have no counterpart, so that the worst pairs do not count.
    for step in range(PAIRINGS):
        mean = model.mesh.positions + np.tensordot(weights, modes, axes=1)
        distance, pair = KDTree(points).query(mean)
        pair = np.asarray(pair)
        kept = distance <= np.quantile(distance, 0.8)
        if step < PAIRINGS // 2:
            points = _similarity(points, points[pair[kept]], mean[kept])
        else:
            rows = modes[:, kept].reshape(len(modes), -1)
            right = rows @ (points[pair[kept]] - model.mesh.positions[kept]).ravel()
            prior = (0.05 * np.ptp(mean, axis=0).max()) ** 2
            weights = np.linalg.solve(rows @ rows.T + prior * np.eye(len(modes)), right)
    mean = model.mesh.positions + np.tensordot(weights, modes, axes=1)
    seen = np.zeros((len(points), 3))
    seen[scan.faces.ravel()] = bilinear(scan.texture, scan.uvs[scan.uv_faces.ravel()], ("repeat", "repeat"))
    _, near = KDTree(points).query(mean, k=NEAREST)
    return seen[near].mean(1)


def _similarity(points: np.ndarray, own: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Points moved by the similarity that puts ``own`` onto ``other``."""
    a, b = own - own.mean(0), other - other.mean(0)
    left, singular, right = np.linalg.svd(a.T @ b)
    signs = np.array([1.0, 1.0, np.sign(np.linalg.det(left @ right))])
    scale = (singular * signs).sum() / (a**2).sum()
    return (points - own.mean(0)) @ (left * signs) @ right * scale + other.mean(0)


def procedural_albedo(
    model: FaceModel, base: np.ndarray | None = None, count: int = 10, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """(V, 3) and (count, V, 3): a mean albedo and modes for weights of one standard deviation, for
    ``FaceModel.with_albedo``.

    base: (V, 3) linear colours, such as those of a scan; default: one colour of skin. Variations: see above.
    Raises InputError.

    >>> ball = primitives.icosphere(2)
    >>> model = FaceModel(ball, identity=ball.positions[None])
    >>> [part.shape for part in procedural_albedo(model, count=3)]
    [(162, 3), (3, 162, 3)]
    """
    points = model.mesh.positions
    if base is None:
        base = np.tile(SKIN, (len(points), 1))
    base = np.asarray(base, np.float64)
    if base.shape != points.shape or not np.isfinite(base).all() or (base < 0).any():
        raise InputError(f"the base of an albedo is {points.shape} colours of at least 0, not {base.shape}")
    if not 1 <= count <= SAMPLES // 2:
        raise InputError(f"an albedo has 1 to {SAMPLES // 2} modes, not {count}")
    rng = np.random.default_rng(seed)
    smooth = _smooth(points)
    places = _places(model)
    log = np.log(np.maximum(base, 1e-3))
    samples = []
    for _ in range(SAMPLES):
        uneven = smooth @ rng.normal(size=(smooth.shape[1], 2)) * UNEVEN
        absorbed = np.outer(0.5 * rng.normal() + uneven[:, 0], MELANIN)
        absorbed = absorbed + np.outer(0.25 * rng.normal() + uneven[:, 1], BLOOD)
        for weights, deviation, colour in places:
            absorbed = absorbed + np.outer(weights * deviation * rng.normal(), colour)
        samples.append(np.exp(log - absorbed).clip(0, 1).ravel())
    table = np.array(samples)
    mean = table.mean(0)
    away = table - mean
    # The products of samples are a small matrix; its vectors give the components.
    _, vectors = np.linalg.eigh(away @ away.T)
    modes = vectors[:, ::-1][:, :count].T @ away / np.sqrt(SAMPLES)
    return mean.reshape(-1, 3), modes.reshape(count, -1, 3)


def _smooth(points: np.ndarray) -> np.ndarray:
    """(V, 15): harmonics of degree 1 to 3 of the directions from the middle, of deviation 1."""
    away = points - (points.min(0) + points.max(0)) / 2
    values = harmonics(away / np.maximum(np.linalg.norm(away, axis=1, keepdims=True), 1e-12))[:, 1:]
    return (values - values.mean(0)) / np.maximum(values.std(0), 1e-9)


def _places(model: FaceModel) -> list[tuple[np.ndarray, float, np.ndarray]]:
    """For lips, brows, cheeks and beard: weights of vertices in [0, 1], deviation and colour of the
    absorbance."""
    if model.landmarks is None or (model.landmarks < 0).any():
        return []
    points = model.mesh.positions
    marks = points[model.landmarks]
    unit = np.linalg.norm(marks[45] - marks[36])  # between the outer corners of the eyes

    def near(places: np.ndarray, reach: float) -> np.ndarray:
        return np.exp(-((KDTree(places).query(points)[0] / (reach * unit)) ** 2))

    chin = marks[[5, 6, 7, 8, 9, 10, 11]]
    brows = np.concatenate([marks[slice(*part)] for part in BROWS])
    return [
        (near(marks[slice(*LIPS)], 0.09), 0.35, BLOOD),
        (near(brows, 0.08), 0.5, MELANIN),
        (near(marks[[31, 35]] * 0.5 + marks[[2, 14]] * 0.5, 0.2), 0.4, BLOOD),
        (near(np.concatenate([chin, marks[[57]]]), 0.25), 0.25, MELANIN),
        (near(marks[[30, 33]], 0.15), 0.2, BLOOD),
    ]
