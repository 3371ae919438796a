"""What the programs of faces share: the model in DRESSI_DATA with an albedo, random faces, and errors of vertices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image
from scipy.spatial.transform import Rotation

from dressi import Device, DressiAD
from dressi.render import Camera, Cameras, load_mesh, srgb_to_linear
from dressi.render.faces import (
    Face,
    FaceData,
    FaceGraph,
    FaceModel,
    load_face_model,
    procedural_albedo,
    save_face_model,
    scan_colours,
)
from dressi.render.io.files import data_file
from dressi.render.io.images import resize
from dressi.render.mesh.primitives import icosphere
from dressi.render.shading.harmonics import CLAMPED_COSINE, harmonics

FULL_HEAD = 200.0
"""Millimetres from the crown to the chin, to which errors are scaled."""
BRIGHTEST = 0.95
"""Colour of random faces, linear: a picture that clips says less."""
DISTANCE, FIELD = 60.0, 30.0
"""Of the cameras, in units of the model (cm) and degrees."""


def face_model(cache: Path | None = None) -> FaceModel:
    """ICT-FaceKit with an albedo: the colours of the scan in ``head``, and procedural modes around them.  cache: a file that keeps
    it. Raises InputError."""
    if cache is not None and cache.exists():
        return load_face_model(cache)
    model = load_face_model(data_file("face", "ict_facekit_head_f16.npz"))
    scan = load_mesh(data_file("head", "LeePerrySmith.glb"))
    codes = np.asarray(Image.open(data_file("head", "color.jpg")).convert("RGB"), np.float64) / 255
    # The picture was made for UVs whose origin is the bottom left corner.
    scan = replace(scan, texture=srgb_to_linear(codes[::-1]), material=None)
    points, mean = scan.positions, model.mesh.positions
    nose, own = points[points[:, 2].argmax()], mean[mean[:, 2].argmax()]
    scale = (mean[:, 1].max() - own[1]) / (points[:, 1].max() - nose[1])
    to_model = np.eye(4)
    to_model[:3] = np.concatenate([scale * np.eye(3), (own - scale * nose)[:, None]], axis=1)
    model = model.with_albedo(*procedural_albedo(model, scan_colours(model, scan, to_model)))
    if cache is not None:
        save_face_model(cache, model)
    return model


def random_face(model: FaceModel, seed: int) -> Face:
    """Weights of identity and albedo of deviation 1, six expressions up to .8, a turn of about 10 degrees, and light from a
    random direction near the front, exposed so that no colour is above .95."""
    rng = np.random.default_rng(seed)
    expression = np.zeros(len(model.expression))
    few = rng.choice(len(expression), min(6, len(expression)), replace=False)
    expression[few] = rng.uniform(0.1, 0.8, len(few))
    motion = np.eye(4)
    motion[:3, :3] = Rotation.from_rotvec(rng.normal(size=3) * (0.1, 0.2, 0.05)).as_matrix()
    motion[:3, 3] = rng.normal(size=3)
    towards = rng.normal(size=3) * (0.5, 0.4, 0.2) + (0.0, 0.3, 1.0)
    towards /= np.linalg.norm(towards)
    light = np.zeros((16, 3))
    light[0], light[1:4] = 2.4, 1.4 * towards[[1, 2, 0], None]
    light *= rng.uniform(0.85, 1.15, 3)
    identity = rng.normal(size=len(model.identity))
    albedo = rng.normal(size=len(model.albedo_modes))
    if model.albedo is not None:
        # Normals of all directions: those of the face may be any of them. This light has degrees 0 and 1.
        gathered = np.repeat(CLAMPED_COSINE[:2], (1, 3))[:, None] * light[:4]
        irradiance = harmonics(icosphere(3).positions)[:, :4] @ gathered
        brightest = irradiance.max(0) * model.colours(albedo).max(0)
        light *= min(1.0, BRIGHTEST / float(brightest.max()))
    return Face(model, identity, expression, motion, albedo, light)


def cameras(turns: list[float], size: int) -> Cameras:
    """Around the head, at the turns in degrees."""
    found = []
    for turn in np.radians(turns):
        eye = DISTANCE * np.array([np.sin(turn), 0.05, np.cos(turn)]) + (0, -2, 0)
        found.append(Camera.perspective(FIELD, (size, size), eye, (0.0, -2.5, 0.0), near=10.0, far=200.0))
    return Cameras(found)


class Noises(NamedTuple):
    """Standard deviations of what is measured: landmarks in pixels at 256 rows, linear light, millimetres."""

    landmarks: float = 1.0
    colour: float = 0.01
    depth: float = 1.0


NOISES = Noises()


@dataclass(eq=False)
class Photographer:
    """Pictures, landmarks and depths of faces: sampled twice along each axis, with hidden landmarks left out, and with noise."""

    model: FaceModel
    views: Cameras
    device: Device

    def __post_init__(self) -> None:
        width, height = self.views.size
        self._fine = Cameras([camera.resized((2 * width, 2 * height)) for camera in self.views])
        self._graph: FaceGraph | None = None

    def _drawn(self, face: Face) -> tuple[np.ndarray, np.ndarray]:
        """(N, 2 H, 2 W, 3) and (N, 2 H, 2 W): colours and depths, 0 where there is nothing."""
        size = self._fine.size
        data = FaceData(self._fine, pictures=np.zeros((len(self._fine), size[1], size[0], 3)))
        if self._graph is None:
            self._graph, self._engine = FaceGraph(data, face), DressiAD(self.device)
            self._engine.set_output("colour", self._graph.picture.colour)
            self._engine.set_output("depth", self._graph.picture.depth)
        drawn = [self._graph.picture.colour, self._graph.picture.depth]
        for leaf, array in self._graph.values(data, face, drawn).items():
            self._engine.send(leaf, array)
        return np.asarray(self._engine.recv("colour")), np.asarray(self._engine.recv("depth"))

    def take(self, face: Face, seed: int, noises: Noises = NOISES, *, depths: bool = False) -> FaceData:
        rng = np.random.default_rng([seed, 1])
        fine, far = self._drawn(face)
        size = self.views.size
        masks = np.stack([resize((d > 0).astype(float), size) for d in far])
        pictures = np.stack([resize(c, size) for c in fine])
        pictures = np.clip(pictures + noises.colour * rng.normal(size=pictures.shape), 0, 1)
        measured = far[:, ::2, ::2].astype(np.float64)
        away = noises.depth / self.model.millimetres * rng.normal(size=measured.shape)
        measured = np.where(measured > 0, measured + away, 0.0)
        world, marks = face.world()[self.model.landmarks], []
        for camera, d in zip(self.views, measured, strict=True):
            places, along = camera.project(world)
            row, column = (np.clip(places[:, k].astype(int), 0, size[k] - 1) for k in (1, 0))
            # A point behind the surface is seen by no detector; near contours it is.
            hidden = along > d[row, column] + 1.5
            places = places + noises.landmarks * size[1] / 256 * rng.normal(size=places.shape)
            marks.append(np.where(hidden[:, None] & (d[row, column] > 0)[:, None], np.nan, places))
        return FaceData(self.views, pictures, np.stack(marks), measured if depths else None, masks)

    def close(self) -> None:
        if self._graph is not None:
            self._engine.close()


def vertex_errors(found: Face, truth: Face) -> dict[str, np.ndarray]:
    """(V,) millimetres of a head of 200 mm, by how the two are put onto each other: not at all, by a rigid motion, or by a
    similarity."""
    a, b = found.world(), truth.world()
    model = truth.model
    head = b @ truth.motion[:3, :3]  # upright
    chin = head[model.landmarks[8], 1] if model.landmarks is not None else head[:, 1].min()
    unit = FULL_HEAD / (head[:, 1].max() - chin)
    own, other = a - a.mean(0), b - b.mean(0)
    left, singular, right = np.linalg.svd(own.T @ other)
    signs = np.array([1.0, 1.0, np.sign(np.linalg.det(left @ right))])
    turned, scale = own @ (left * signs) @ right, (singular * signs).sum() / (own**2).sum()
    moved = {"in place": a - b, "rigid": turned - other, "similarity": scale * turned - other}
    return {name: unit * np.linalg.norm(away, axis=1) for name, away in moved.items()}
