"""Whether a soft silhouette is near enough to its target to get a useful gradient.

The gradient of a silhouette loss pulls two shapes together only while their soft margins overlap: weakly up to two radii
apart, reliably within one radius. Beyond that the loss still has a gradient, but it does not depend on the target: it
shrinks unwanted coverage, and the mesh collapses where it stands.
"""

from __future__ import annotations

import numpy as np

from ...errors import InputError
from .soft_target import outside_distance


def gap(masks: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """(N,) how far the silhouettes ``masks`` (N, H, W) and their targets are apart, in image heights.

    Measured from outline to outline; 0 if they overlap or if one of them is empty. A pixel counts as covered from 0.5.
    Raises InputError.
    """
    masks, targets = np.asarray(masks), np.asarray(targets)
    if masks.shape != targets.shape or masks.ndim != 3:
        raise InputError(
            f"silhouettes and targets are two stacks (N, H, W) of one size, not {masks.shape} and {targets.shape}"
        )
    found = np.zeros(len(masks))
    for k, (mask, target) in enumerate(zip(masks >= 0.5, targets >= 0.5, strict=True)):
        if mask.any() and target.any():
            # Distances are between pixel centres; each outline lies half a pixel outside of them.
            found[k] = max(outside_distance(target)[mask].min() - 0.5 / len(mask), 0.0)
    return found


def check_reach(masks: np.ndarray, targets: np.ndarray, radius: float) -> str | None:
    """None if every silhouette reaches its target with soft margins of ``radius`` (image heights), else a sentence that
    names the views that do not. Raises InputError if no view that shows both does.

    masks, targets: (N, H, W), hard silhouettes at the start. The margins overlap up to two radii.
    """
    apart = gap(masks, targets)
    shown = np.array([(m >= 0.5).any() and (t >= 0.5).any() for m, t in zip(masks, targets, strict=True)])
    missed = np.flatnonzero(apart >= 2 * radius)
    if len(missed) == 0:
        return None
    wanted = min(float(apart.max()), 1.0)
    cure = f"start nearer to the target, or with a radius of {wanted:.2g} or more"
    reach = f"the silhouette and its target lie {apart.max():.2g} image heights apart, and a radius of {radius:.2g} reaches {2 * radius:.2g}"
    if len(missed) == shown.sum():
        raise InputError(f"nothing would pull the mesh to its target: {reach}; {cure}")
    views = ", ".join(str(k) for k in missed[:8]) + (", ..." if len(missed) > 8 else "")
    return f"in {len(missed)} of {len(masks)} views (number {views}) {reach}: these views give no useful gradient; {cure}"


def marked(matrices: np.ndarray, points: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """(N, H, W) bool: the pixels that contain a point (P, 3) in each view (N, 4, 4 to clip space). For the vertices of a fine
    mesh this approximates its silhouette.  shape: (H, W). Points behind the viewer or outside the picture are left out.
    Computed in the type of the points: float32 suffices for small pictures.
    """
    height, width = shape
    found = np.zeros((len(matrices), height, width), bool)
    kind = np.result_type(points.dtype, np.float32)
    points = points.astype(kind, copy=False)
    for image, matrix in zip(found, matrices.astype(kind), strict=True):
        x, y, depth = (matrix[k, :3] @ points.T + matrix[k, 3] for k in (0, 1, 3))
        scale = 0.5 / np.where(depth > 1e-6, depth, kind.type(np.inf))
        column, row = ((part * scale + 0.5) * side for part, side in ((x, width), (y, height)))
        shown = (depth > 1e-6) & (column >= 0) & (column < width) & (row >= 0) & (row < height)
        image[row[shown].astype(np.int32), column[shown].astype(np.int32)] = True
    return found
