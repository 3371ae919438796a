"""How close the result of a fit is to its pictures: in all of them, and in each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..drawing.draw import draw
from ..engine import MakeEngine
from ..objectives.metrics import code_gains, code_psnr, interior, iou, iou_per_view, ssim
from ..surface.color import linear_to_srgb, srgb_to_linear
from .data.dataset import Observations
from .data.result import FitResult


@dataclass(frozen=True, eq=False)
class Score:
    """Quality of a result in N views. masks, colors: the rendered images.

    iou, psnr, ssim: over the masks of the views. plain: the PSNR without the exposures that the fit knows, or expects, of the
    views. inside: PSNR over their ``interior``, which masks that are wrong by a pixel or two say nothing about. exposed,
    exposed_inside: both with a gain of each view and channel that is solved for, as pictures of other exposures are compared.
    NaN where there are no such pixels.
    gains: (N, 3) of the codes.
    """

    iou: float
    psnr: float
    plain: float
    ssim: float
    inside: float
    exposed: float
    exposed_inside: float
    gains: np.ndarray
    masks: np.ndarray
    colors: np.ndarray

    def as_dict(self) -> dict[str, float | None]:
        """For JSON, which has no infinity: the PSNR of equal images, and that of no pixels, is null."""
        names = ("iou", "psnr", "plain", "ssim", "inside", "exposed", "exposed_inside")
        return {name: _number(getattr(self, name)) for name in names}


def score(
    result: FitResult,
    views: Observations,
    make_engine: MakeEngine,
    exposures: np.ndarray | None = None,
    gains: np.ndarray | None = None,
) -> Score:
    """Silhouettes and colours of the result, drawn with as many samples as those of the views, against them.

    exposures: (N,) factors of the light of the views.  gains: (N, 3) factors of their sRGB codes: what the fit knows or
    expects of their exposures, which ``plain`` leaves out."""
    masks, colors = draw(result.mesh, views.cameras, make_engine, views.samples, result.light)
    if views.photographed:
        covered = masks >= 0.5
        colors = colors * (covered / np.maximum(masks, 0.5))[..., None]
        masks = covered.astype(np.float32)
    if exposures is not None:
        colors = colors * exposures[:, None, None, None]
    covered, deep = views.masks >= 0.5, interior(masks, views.masks)
    plain = _psnr(colors, views.colors, covered)
    if gains is not None:
        colors = srgb_to_linear(np.clip(linear_to_srgb(colors) * gains[:, None, None], 0, 1)).astype(
            np.float32
        )
    gains = code_gains(colors, views.colors, deep)
    return Score(
        iou(masks, views.masks, views.known),
        _psnr(colors, views.colors, covered),
        plain,
        ssim(colors, views.colors, views.masks, views.known),
        _psnr(colors, views.colors, deep),
        _psnr(colors, views.colors, covered, gains),
        _psnr(colors, views.colors, deep, gains),
        gains,
        masks,
        colors,
    )


def _psnr(
    images: np.ndarray, targets: np.ndarray, inside: np.ndarray, gains: np.ndarray | None = None
) -> float:
    """In dB over the pixels ``inside``, of codes times gains (N, 3); NaN where there are none."""
    if not inside.any():
        return float("nan")
    codes, wanted = (linear_to_srgb(one[inside].astype(np.float64)) for one in (images, targets))
    if gains is not None:
        codes = np.clip(codes * gains[np.nonzero(inside)[0]], 0, 1)
    return code_psnr(codes, wanted)


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def picture_facts(found: Score, views: Observations) -> list[dict[str, Any]]:
    """Of each view: its name and what is left of it: IoU, PSNR of the mask and of its interior, and the gains."""
    overlaps, deep = iou_per_view(found.masks, views.masks, views.known), interior(found.masks, views.masks)
    facts = []
    for k, (camera, overlap) in enumerate(zip(views.cameras, overlaps, strict=True)):
        one = slice(k, k + 1)
        pair = found.colors[one], views.colors[one]
        facts.append(
            {
                "view": k,
                "name": camera.name,
                "iou": float(overlap),
                "psnr": _number(_psnr(*pair, views.masks[one] >= 0.5)),
                "inside": _number(_psnr(*pair, deep[one], found.gains[one])),
                "gains": found.gains[k].round(4).tolist(),
            }
        )
    return facts


def pose_facts(views: Observations, shown: np.ndarray) -> list[dict[str, Any]]:
    """Of each view that is shown, where it is seen from: ``eye``, ``forward`` and ``up`` in the world and ``fov``, the
    vertical field of view in degrees."""
    cameras = [views.cameras[int(k)] for k in shown]
    return [
        {
            "eye": camera.center.tolist(),
            "forward": camera.forward.tolist(),
            "up": camera.up.tolist(),
            "fov": float(np.degrees(2 * np.arctan(0.5 * camera.size[1] / camera.intrinsics[1, 1]))),
        }
        for camera in cameras
    ]
