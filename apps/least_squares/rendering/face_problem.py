"""A head with identity weights as a least-squares problem: one shaded picture, its mask and landmarks."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from dressi import DressiAD, F, Variable
from dressi.ad.graph.types import FLOAT, INT, MAT4, VEC2, VEC3, list_image
from dressi.ad.least_squares import Robust, cauchy
from dressi.errors import InputError
from dressi.render import Camera, Light, Mesh, render
from dressi.render.cameras.rigid import exp_se3
from dressi.render.core.lists import list_leaf
from dressi.render.fit.data.learned import signed_distances

FILE = "face/ict_facekit_head_f16.npz"
LANDMARKS = (
    268, 493, 1914, 2044, 1401, 3615, 4240, 4114, 2734, 2509, 978, 4527, 4942, 4857, 1140, 2075, 1147, 4269, 3360, 1507,
    1542, 1537, 1528, 1518, 1511, 3742, 3751, 3756, 3721, 3725, 3732, 5708, 5695, 2081, 0, 4275, 6200, 6213, 6346, 6461,
    5518, 5957, 5841, 5702, 5711, 5533, 6216, 6207, 6470, 5517, 5966,
)  # fmt: skip
"""Vertices of the Multi-PIE landmarks 18 to 68 (brows, nose, eyes, mouth), as the head's documentation lists them."""
MILLIMETRES = 10.0
"""In a unit of the head."""
LIGHT = Light(direction=(0.4, 0.5, 0.8), colour=0.8, ambient=0.15)
SAMPLES = 4


@dataclass(frozen=True, eq=False)
class Head:
    """neutral: (V, 3).  modes: (K, V, 3), added with weights.  faces: (F, 3)."""

    neutral: np.ndarray
    modes: np.ndarray
    faces: np.ndarray

    @classmethod
    def load(cls, folder: Path, modes: int) -> Head:
        """Of the data folder. Raises InputError."""
        file = folder / FILE
        if not file.is_file():
            raise InputError(f"there is no '{file}'; set DRESSI_DATA to the folder that holds '{FILE}'")
        with np.load(file) as data:
            quads = data["quads"]
            faces = np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])
            real = (faces != np.roll(faces, 1, axis=1)).all(1)  # a triangle repeats its last vertex
            return cls(data["neutral"].astype(float), data["identity"][:modes].astype(float), faces[real])

    def positions(self, weights: np.ndarray) -> np.ndarray:
        return self.neutral + np.einsum("k,kvc->vc", weights, self.modes)


@dataclass(frozen=True, eq=False)
class Values:
    """weights: (K,).  pose: (6,), rotation and translation of ``exp_se3``."""

    weights: np.ndarray
    pose: np.ndarray

    @property
    def motion(self) -> np.ndarray:
        """(4, 4)."""
        return np.asarray(exp_se3(self.pose[:3], self.pose[3:]), np.float64)

    @classmethod
    def random(cls, modes: int, seed: int) -> Values:
        """Weights within 1.5, a turn of about 6 degrees and a shift of about 9 mm."""
        rng = np.random.default_rng(seed)
        weights = rng.uniform(-1.5, 1.5, modes)
        return cls(weights, np.concatenate([0.06 * rng.normal(size=3), 0.5 * rng.normal(size=3)]))


@dataclass
class FaceProblem:
    """Residuals of a head whose weights and pose are unknown, in a picture of a known light by a known camera.

        mask        (coverage - target) / size                       by the outer form
        colour      (shaded - picture) / size                        where both show the surface
        landmarks   (place - place in the picture) / sqrt(count)     in image heights
        prior       weights

    each times its weight, a leaf (``set_stage``). The colour is robust against contours that the picture shows elsewhere.
    """

    head: Head
    truth: Values
    size: int
    unknowns: list[Variable] = field(init=False)
    residuals: dict[str, Variable] = field(init=False)
    picture: np.ndarray = field(init=False)
    """(H, W, 3): the one that they are found from."""

    def __post_init__(self) -> None:
        size, count = (self.size, self.size), len(self.head.modes)
        camera = Camera.perspective(30, size, (8.0, -0.5, 48.0), (0.0, -2.5, 1.0), near=10, far=100)
        self._camera, self._matrix = camera, Variable.of(camera.world_to_clip, vtype=MAT4)
        mask, landmarks = self._seen()
        self.weights = Variable(FLOAT, (1, 1), count, name="weights", data=np.zeros((count, 1, 1)))
        self.rotation, self.shift = (
            Variable(VEC3, name=name, data=np.zeros((1, 1, 1, 3))) for name in ("rotation", "shift")
        )
        self.unknowns = [self.weights, self.rotation, self.shift]
        names = ("mask", "colour", "landmarks", "prior")
        self._factors = {n: Variable(FLOAT, name=f"{n} factor", data=np.ones((1, 1, 1))) for n in names}
        self._radius = Variable(FLOAT, name="radius", data=np.full((1, 1, 1), 0.1))
        # The modes are tiles of a batch, so that their sum with the weights is a sum over the batch.
        shapes = np.concatenate([list_image(mode) for mode in self.head.modes])
        modes = Variable(VEC3, shapes.shape[2:0:-1], count, name="modes", data=shapes)
        positions = list_leaf("neutral", VEC3, self.head.neutral) + F.sum(modes * self.weights, "n")
        motion = exp_se3(self.rotation, self.shift)
        drawn = render(
            Mesh(self.head.neutral, self.head.faces), camera, positions=positions, to_world=motion, light=LIGHT,
            radius=self._radius, form="outer",
        )  # fmt: skip
        target = drawn.estimator.target
        assert target is not None
        outline = Variable(FLOAT, size, name="outline", data=signed_distances(mask[None], size))
        inside = Variable(FLOAT, size, name="inside", data=(mask > 0.999)[None].astype(float))
        seen = Variable(FLOAT, size, name="picture", data=self.picture[None, ..., 0])
        both = F.logical_and(F.greater(inside, 0.5), F.greater_equal(drawn.face, 0))
        index = list_leaf("landmark vertices", INT, np.array(LANDMARKS))
        clip = F.matmul(self._matrix, F.matmul(motion, F.vec4(F.lookup(positions, index), 1.0)))
        places = clip.xy / clip.w * 0.5 + 0.5
        away = places - list_leaf("landmark places", VEC2, landmarks)
        away = F.select(F.less(F.linear_index(away.size), len(LANDMARKS)), away, 0.0)
        grey = F.select(both, F.component(drawn.colour, 0) - seen, 0.0)
        plain = {
            "mask": (drawn.mask - target(outline, self._radius, 1)) * (1 / self.size),
            "colour": grey * (1 / self.size),
            "landmarks": away * (1 / np.sqrt(len(LANDMARKS))),
            "prior": self.weights,
        }
        self.residuals = {name: r * self._factors[name] for name, r in plain.items()}

    def energy(self, width: float | None) -> list[Variable | Robust]:
        """width: of the colours' Cauchy kernel, None for none; differences of colours."""
        if width is None:
            return list(self.residuals.values())
        kernel = cauchy(width / self.size)
        return [Robust(r, kernel) if name == "colour" else r for name, r in self.residuals.items()]

    def set_stage(self, ad: DressiAD, radius: float, **factors: float) -> None:
        """radius: of the outer form, image heights.  factors: of the residuals, by name."""
        ad.send(self._radius, np.full((1, 1, 1), radius))
        for name, value in factors.items():
            ad.send(self._factors[name], np.full((1, 1, 1), value))

    def values(self, ad: DressiAD) -> Values:
        """The weights and the pose of an engine."""
        parts = [np.asarray(ad.recv(leaf), np.float64).reshape(-1) for leaf in self.unknowns]
        return Values(parts[0], np.concatenate(parts[1:]))

    def shown(self, ad: DressiAD) -> np.ndarray:
        """(H, W, 3): the picture of the values of an engine, without a soft margin."""
        return self._picture(self.values(ad))

    def _picture(self, values: Values) -> np.ndarray:
        mesh = Mesh(self.head.positions(values.weights), self.head.faces)
        return render(mesh, self._camera, to_world=values.motion, light=LIGHT, form="hard").colour

    def errors(self, ad: DressiAD) -> dict[str, float]:
        """Roots of mean squares of weights and vertices (millimetres), the farthest vertex, degrees and millimetres of the pose."""
        values, truth = self.values(ad), self.truth
        weights, found, true = values.weights, values.motion, truth.motion
        away = np.linalg.norm(self.head.positions(weights) - self.head.positions(truth.weights), axis=1)
        turn = Rotation.from_matrix(found[:3, :3] @ true[:3, :3].T).magnitude()
        return {
            "weights": float(np.sqrt(np.mean((weights - truth.weights) ** 2))),
            "vertices_mm": float(np.sqrt(np.mean(away**2))) * MILLIMETRES,
            "farthest_mm": float(away.max()) * MILLIMETRES,
            "degrees": float(np.degrees(turn)),
            "shift_mm": float(np.linalg.norm((found - true)[:3, 3])) * MILLIMETRES,
        }

    def _seen(self) -> tuple[np.ndarray, np.ndarray]:
        """The mask (H, W) and the landmarks (L, 2) in image heights; makes the picture."""
        pose, mesh = self.truth.motion, Mesh(self.head.positions(self.truth.weights), self.head.faces)
        self.picture = self._picture(self.truth)
        mask = render(mesh, self._camera, to_world=pose, light=None, samples=SAMPLES, outputs=("mask",)).mask
        world = mesh.positions[list(LANDMARKS)] @ pose[:3, :3].T + pose[:3, 3]
        return mask, self._camera.project(world)[0] / self.size
