"""A scan of a head for figure 15: points with normals and colours, laid on the face model.

A scan is a mesh with UVs whose y is up and whose face looks along z, in any unit, with the eyes and the lips closed. Colours and
normals are those of its material, or ``color.*`` and ``normal.*`` in its folder, which the scan of DRESSI_DATA/head has.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dressi.errors import InputError
from dressi.render import Mesh, load_mesh
from dressi.render.io.files import data_file
from dressi.render.io.images import FORMATS, load_image

NOSE, CROWN = (0.0, -0.2, 13.0), 14.5
"""The tip of the nose of the model, and the height of its crown, in centimetres."""
CHEST = 0.4
"""The share of the height of a scan below which the nose is not sought."""


class Place(NamedTuple):
    """Where the scan lies on the model: scale * points @ rotation.T + shift, in centimetres."""

    scale: float
    rotation: np.ndarray
    shift: np.ndarray

    def of(self, points: np.ndarray) -> np.ndarray:
        return self.scale * points @ self.rotation.T + self.shift

    def back(self, points: np.ndarray) -> np.ndarray:
        return (points - self.shift) @ self.rotation / self.scale

    def then(self, other: "Place") -> "Place":
        return Place(other.scale * self.scale, other.rotation @ self.rotation, other.of(self.shift))


@dataclass
class Scan:
    """Points of the scan, in centimetres of the model."""

    name: str
    points: np.ndarray
    normals: np.ndarray
    mapped: np.ndarray
    """Unit normals of the normal map."""
    colours: np.ndarray
    place: Place
    """Of the file."""

    def moved(self, by: Place) -> "Scan":
        normals, mapped = (x @ by.rotation.T for x in (self.normals, self.mapped))
        return replace(
            self, points=by.of(self.points), normals=normals, mapped=mapped, place=self.place.then(by)
        )


def unit(v: np.ndarray) -> np.ndarray:
    return v / np.maximum(np.linalg.norm(v, axis=-1, keepdims=True), 1e-12)


def similarity(source: np.ndarray, target: np.ndarray) -> Place:
    """What moves points to others best (Umeyama 1991)."""
    a, b = source - source.mean(0), target - target.mean(0)
    u, s, vt = np.linalg.svd(b.T @ a)
    d = np.diag([1.0, 1.0, np.sign(np.linalg.det(u @ vt))])
    rotation = u @ d @ vt
    scale = float(np.trace(np.diag(s) @ d) / (a**2).sum())
    return Place(scale, rotation, target.mean(0) - scale * rotation @ source.mean(0))


def first_place(mesh: Mesh) -> Place:
    """By the tip of the nose, the foremost point above the chest, and the crown."""
    p = mesh.positions
    low, high = p[:, 1].min(), p[:, 1].max()
    upper = p[p[:, 1] > low + CHEST * (high - low)]
    nose = upper[upper[:, 2].argmax()]
    if high - nose[1] < 0.05 * (high - low):
        raise InputError(f"the foremost point of '{mesh.name}' is its top: a scan has y up and looks along z")
    scale = (CROWN - NOSE[1]) / (high - nose[1])
    return Place(scale, np.eye(3), NOSE - scale * nose)


def load_scan(file: Path | None = None, count: int = 400_000) -> Scan:
    """Points all over the scan of a file, or of DRESSI_DATA."""
    path = file or data_file("head/LeePerrySmith.glb")
    mesh = load_mesh(path)
    if mesh.uvs is None or mesh.uv_faces is None:
        raise InputError(
            f"'{path}' has no UVs, by which its colours are found: unwrap it and export it again"
        )
    # The scan of DRESSI_DATA has v upward.
    uvs = mesh.uvs if file else mesh.uvs * (1, -1) + (0, 1)
    colour = mesh.texture if (image := beside(path, "color")) is None else load_image(image)
    if colour is None:
        raise InputError(
            f"'{path}' has no colours: give it a texture, or put color.png or color.jpg beside it"
        )
    normal_map = None if mesh.material is None else mesh.material.normal
    if (image := beside(path, "normal")) is not None:
        normal_map = load_image(image, linear=False) * 2 - 1
    rng = np.random.default_rng(0)
    corners = mesh.positions[mesh.faces]
    cross = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    area = np.linalg.norm(cross, axis=1)
    face = rng.choice(len(area), count, p=area / area.sum())
    w = rng.dirichlet((1, 1, 1), count)[..., None]
    vertex_normals = np.zeros_like(mesh.positions)
    for k in range(3):
        np.add.at(vertex_normals, mesh.faces[:, k], cross)
    normals = unit((unit(vertex_normals)[mesh.faces[face]] * w).sum(1))
    e, q = corners[face], uvs[mesh.uv_faces[face]]
    uv, points = (q * w).sum(1), (e * w).sum(1)
    mapped = normals
    if normal_map is not None:
        along, across = q[:, 1] - q[:, 0], q[:, 2] - q[:, 0]
        turn = along[:, 0] * across[:, 1] - along[:, 1] * across[:, 0]
        tangent = (e[:, 1] - e[:, 0]) * across[:, 1:] - (e[:, 2] - e[:, 0]) * along[:, 1:]
        tangent = unit(tangent * np.sign(turn)[:, None])
        tangent = unit(tangent - normals * (tangent * normals).sum(1, keepdims=True))
        texel = sampled(normal_map, uv)
        # The map has its green channel upward.
        bitangent = np.cross(normals, tangent)
        mapped = unit(tangent * texel[:, :1] + bitangent * texel[:, 1:2] + normals * texel[:, 2:])
    place = first_place(mesh)
    return Scan(str(path), place.of(points), normals, mapped, sampled(colour, uv), place)


def beside(path: Path, stem: str) -> Path | None:
    """The picture of this name in the folder of a scan."""
    found = [path.with_name(stem + suffix) for suffix in FORMATS]
    return next((x for x in found if x.is_file()), None)


def sampled(image: np.ndarray, uv: np.ndarray) -> np.ndarray:
    """The nearest texels."""
    height, width = image.shape[:2]
    x, y = ((uv[:, k] % 1 * n).astype(int) % n for k, n in ((0, width), (1, height)))
    return image[y, x, :3]
