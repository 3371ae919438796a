"""The depth term of the shape phase: distances along the optical axis, which show concavities that no outline shows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....ad import functional as F
from ....ad.graph import Variable
from ....ad.types import FLOAT
from ...forms.form import Silhouette
from ...io.images import resize
from ...objectives.losses import charbonnier
from ...surface.screen import barycentric, corners, covered, interpolate
from ..graphs.term import Canvas, Term

TOLERANCE = 0.02
"""Differences in units of the scene above which the term grows linearly: outliers pull no more than others."""


class Depths(Term):
    """Depths of the surface are the measured ones."""

    share, far = 0.3, False

    def __init__(self, canvas: Canvas, weight: float):
        views, blended = canvas.views, canvas.form.exact_inside
        assert views.depths is not None
        at = canvas.size, canvas.margin, canvas.unit, blended, canvas.pick
        super().__init__(depth_term(canvas.soft, views.depths, views.masks, *at) * weight)


def depth_term(
    drawn: Silhouette,
    depths: np.ndarray,
    masks: np.ndarray,
    size: tuple[int, int],
    margin: int,
    unit: float = 1.0,
    blended: bool = False,
    pick: Callable[[Variable], Variable] = lambda views: views,
) -> Variable:
    """FLOAT 1x1: the distance of the drawn depths from measured ones (N, H, W), in units of the scene, 0 where unknown.

    Compared at ``size`` with a margin, over pixels inside of the masks (N, H, W) whose depth is known and that the mesh
    covers: ``charbonnier`` of the scale TOLERANCE over that scale, which for large differences is their magnitude. It is
    divided by the number of all such pixels, covered or not. Differentiable in the positions.

    unit: how many units of clip w are one unit of the scene.  blended: whether depths are blended in the soft margins of
    contours (for forms that are ``exact_inside``); otherwise the nearest surface at the pixel centre is compared, its
    visibility held fixed.  pick: selects the views of the step from N.
    """
    told = [depth_at(*pair, size) for pair in zip(depths, masks, strict=True)]
    target = np.pad(np.stack(told), ((0, 0), (margin, margin), (margin, margin)))
    total = max(float((target > 0).sum()), 1.0)
    mesh, views = drawn.mesh, len(target)
    measured = pick(Variable(FLOAT, mesh.size, views, name="depths", data=target))
    weight = F.greater(measured, 0.0) * covered(mesh.face)
    found = depth_image(drawn, blended) * (1 / unit)
    distance = charbonnier(found, measured, weight, "sum", scale=TOLERANCE)
    return distance * (views / (total * mesh.position.batch * TOLERANCE))


def depth_image(drawn: Silhouette, blended: bool = False) -> Variable:
    """FLOAT: clip w, the distance from the camera along its axis, of the nearest surface, 0 where there is none; or
    blended from all surfaces of the form. Differentiable in the positions."""
    mesh = drawn.mesh
    table = F.component(mesh.position, 3)
    if blended:
        return drawn.blend([surface.interpolate(table) for surface in drawn.surfaces])
    at = corners(mesh.face, mesh.faces)
    return interpolate(table, at, barycentric(mesh.position, at, mesh.size))


def depth_at(depths: np.ndarray, mask: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """(h, w) float32: depths (H, W) inside of a mask (H, W) at another size; the mean of those that are known, 0 where that
    is less than half of the pixel, and where the pixel is not inside of the mask as a whole."""
    told = ((depths > 0) & (mask >= 0.5)).astype(np.float32)
    share, inside = resize(told, size), resize(mask.astype(np.float32), size)
    mean = resize(depths.astype(np.float32) * told, size) / np.maximum(share, 1e-6)
    return np.where((share >= 0.5) & (inside > 0.99), mean, 0.0)
