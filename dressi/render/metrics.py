"""How close a result is to its target: silhouettes, colours, surfaces."""

from __future__ import annotations

import numpy as np
from scipy.spatial import KDTree

from dressi.errors import InputError
from dressi.render.color import linear_to_srgb
from dressi.render.mesh import Mesh


def iou(masks: np.ndarray, targets: np.ndarray) -> float:
    """Intersection over union of silhouettes (N, H, W), mean over the views; >= 0.5 counts as covered.

    A view that is empty in both counts as 1.
    """
    return float(np.mean(iou_per_view(masks, targets)))


def iou_per_view(masks: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """(N,) intersection over union of each view."""
    a, b = np.asarray(masks) >= 0.5, np.asarray(targets) >= 0.5
    if a.shape != b.shape or a.ndim != 3:
        raise InputError(f"silhouettes must be two stacks (N, H, W) of one size, not {a.shape} and {b.shape}")
    both, either = (a & b).sum((1, 2)), (a | b).sum((1, 2))
    return np.where(either == 0, 1.0, both / np.maximum(either, 1))


def psnr(images: np.ndarray, targets: np.ndarray, masks: np.ndarray) -> float:
    """Peak signal to noise ratio in dB of linear images (N, H, W, 3) against linear targets, as people see
    them.

    Both are converted to sRGB in [0, 1]; the squared error is pooled over the pixels of the target masks (N,
    H, W), all views and channels. Pixels that a result does not cover must be black in `images`. Equal images
    give inf.
    """
    images, targets, inside = np.asarray(images), np.asarray(targets), np.asarray(masks) >= 0.5
    if images.shape != targets.shape or images.shape[:3] != inside.shape:
        raise InputError(
            f"images, targets and masks must be of one size, not {images.shape}, {targets.shape} and {inside.shape}"
        )
    if not inside.any():
        raise InputError("the target masks are empty, so there is nothing to compare; check the masks")
    difference = linear_to_srgb(images[inside].astype(np.float64)) - linear_to_srgb(
        targets[inside].astype(np.float64)
    )
    error = float(np.mean(difference**2))
    return float("inf") if error == 0 else -10 * float(np.log10(error))


def sample_surface(mesh: Mesh, count: int, seed: int = 0) -> np.ndarray:
    """(count, 3) points spread evenly over the surface; the same seed gives the same points."""
    random = np.random.default_rng(seed)
    areas = mesh.face_areas()
    face = random.choice(len(areas), size=count, p=areas / areas.sum())
    u, v = random.random((2, count))
    root = np.sqrt(u)
    weights = np.stack([1 - root, root * (1 - v), root * v], axis=1)
    return np.einsum("nk,nkd->nd", weights, mesh.positions[mesh.faces[face]])


def chamfer(a: Mesh | np.ndarray, b: Mesh | np.ndarray, count: int = 20_000, seed: int = 0) -> float:
    """Mean distance from each surface to the other, averaged over both directions, in the units of the
    meshes.

    Meshes are sampled with `count` points; arrays (P, 3) are taken as points.
    """
    first = sample_surface(a, count, seed) if isinstance(a, Mesh) else np.asarray(a)
    second = sample_surface(b, count, seed + 1) if isinstance(b, Mesh) else np.asarray(b)
    return 0.5 * float(KDTree(second).query(first)[0].mean() + KDTree(first).query(second)[0].mean())
