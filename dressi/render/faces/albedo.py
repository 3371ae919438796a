"""The albedo of a face: a base from a scan, and a few modes of variation.

No public model of this kind has measured albedo modes. ``procedural_albedo`` makes some: random mixtures of what makes
skins differ (melanin, blood, lips, brows, beard, freckles and blotches), of which the principal components are kept. They
are a plausible prior, not statistics of people.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import KDTree

from ...errors import InputError
from ..mesh import Mesh
from ..mesh.material import bilinear
from ..shading.harmonics import harmonics
from .model import FaceModel

SKIN = np.array([0.47, 0.28, 0.20])
"""Linear: where there is no scan."""
MELANIN = np.array([0.35, 0.55, 0.75])
BLOOD = np.array([0.05, 0.45, 0.35])
"""Absorbance of red, green and blue, relative."""
SAMPLES, UNEVEN = 200, 0.03
DEFORMED, PAIRINGS, NEAREST = 40, 20, 3
"""Identity modes that follow a scan; how often points are paired; vertices of a scan whose colours a vertex takes."""
LIPS, BROWS, CHEEK = (48, 60), ((17, 22), (22, 27)), (1, 15, 31, 35)
"""Landmarks of Multi-PIE."""


def scan_colours(model: FaceModel, scan: Mesh, to_model: np.ndarray) -> np.ndarray:
    """(V, 3): the colours of a textured scan at the vertices of a model, linear.

    to_model: (4, 4), a similarity that puts the scan roughly onto the mean of the model, to about a tenth of the head. Iterated
    closest points refine it, and identity modes deform the mean to the scan; each vertex then takes the mean colour of the NEAREST
    vertices of the scan. Raises InputError.

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
    """(V, 3) and (count, V, 3): a mean albedo and modes for weights of one standard deviation, for ``FaceModel.with_albedo``.

    base: (V, 3) linear colours, such as those of a scan; default: one colour of skin. Variations: see above. Raises InputError.

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
    found = harmonics(away / np.maximum(np.linalg.norm(away, axis=1, keepdims=True), 1e-12))[:, 1:]
    return (found - found.mean(0)) / np.maximum(found.std(0), 1e-9)


def _places(model: FaceModel) -> list[tuple[np.ndarray, float, np.ndarray]]:
    """Weights of vertices in [0, 1], deviation of the absorbance, its colour: of lips, brows, cheeks and beard."""
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
