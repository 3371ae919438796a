"""Sets of photographs in which some do not belong: of another thing, mirrored, or of another exposure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....errors import listed
from ...cameras import Cameras
from ...io import Photos
from ...io.images import resize
from ...objectives.hull import look_up

CELLS, ROWS = 40, 28
"""Cells along each side of the grid on which masks are compared, and rows of the small pictures."""
DENIED, STRANGE = 0.1, 0.7
"""Share of the other masks that may deny a point, and the overlap with what is left of them, relative to the usual
one, below which a mask is of another thing."""
FEWEST = 6
"""Photographs among which one can be strange."""
APART = 3.0
"""Factor between the brightness of two photographs, with none in between, from which exposures differ."""


def agreeing(photos: Photos) -> Photos:
    """The photographs that show one thing, in one exposure, with a sentence in ``notes`` for what was done.

    Left out are masks that overlap with the hull of the others by less than ``STRANGE`` of the usual; a third at
    most, else nothing. Photographs whose mean brightness within the masks is apart from that of the others by a
    factor of ``APART`` are multiplied by that of the medians, in linear light.
    """
    notes, sizes = list(photos.notes), sorted({view.camera.size for view in photos.originals})
    if len(sizes) > 1:
        width, height = photos.cameras.size
        several = listed([f"{w}x{h}" for w, h in sizes])
        notes.append(f"photographs of the sizes {several} are shrunk into {width}x{height} pixels and padded")
    kept = np.setdiff1d(np.arange(len(photos.names)), strangers(photos))
    if len(kept) < len(photos.names):
        names = listed([f"'{name}'" for k, name in enumerate(photos.names) if k not in kept])
        notes.append(
            f"the masks of {names} contradict those of the other photographs, as of another thing, a mirror image or a"
            " wrong camera; they are left out"
        )
        arrays = {name: getattr(photos, name) for name in ("images", "masks", "known", "depths")}
        lists = {name: getattr(photos, name) for name in ("names", "originals")}
        photos = replace(
            photos,
            cameras=Cameras([photos.cameras[k] for k in kept]),
            **{name: None if values is None else values[kept] for name, values in arrays.items()},
            **{name: tuple(values[k] for k in kept) if values else () for name, values in lists.items()},
        )
    factors = exposure_factors(photos)
    dark = np.flatnonzero(factors != 1)
    if len(dark):
        factor, names = float(factors[dark[0]]), listed([f"'{photos.names[k]}'" for k in dark])
        how = f"{factor:.1f} times as dark" if factor > 1 else f"{1 / factor:.1f} times as bright"
        notes.append(f"{names} are {how} as the other photographs; they are brought to their exposure")
        images = np.minimum(photos.images * factors[:, None, None, None], 1.0).astype(np.float32)
        photos = replace(photos, images=images)
    return replace(photos, notes=tuple(notes))


def strangers(photos: Photos) -> list[int]:
    """Numbers of the photographs whose masks are of another thing than those of the others."""
    masks, low, high = photos.masks >= 0.5, *photos.bounds
    known = np.ones(masks.shape, bool) if photos.known is None else photos.known
    axis = ((np.arange(CELLS) + 0.5) / CELLS * 2 - 1) * (0.525 * (high - low).max())
    points = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3) + (low + high) / 2
    width, height = photos.cameras.size
    size = max(round(width * ROWS / height), 1), ROWS
    seen, covered, places, small = [], [], [], []
    for mask, told, camera in zip(masks, known, photos.cameras, strict=True):
        sees, covers = look_up(mask, told, camera, points)
        pixel, _ = camera.resized(size).project(points)
        x, y = np.clip(np.floor(np.where(sees[:, None], pixel, 0)).astype(int), 0, np.subtract(size, 1)).T
        shares = [resize(one.astype(np.float32), size).reshape(-1) for one in (mask, told)]
        seen.append(sees)
        covered.append(covers)
        places.append(y * size[0] + x)
        # Pixels that a mask covers in part count where the hull covers them, too: whole ones show no thin limbs.
        small.append((shares[0] > 0.01, shares[0] > 0.99, shares[1] > 0.99))
    left, out = list(range(len(masks))), []
    see, cover = (np.sum(some, axis=0, dtype=np.int32) for some in (seen, covered))
    while len(left) >= FEWEST:
        overlaps = []
        for k in left:
            sees, denied = see - seen[k], (see - seen[k]) - (cover - covered[k])
            there = (2 * sees >= len(left)) & (denied <= DENIED * (len(left) - 1)) & seen[k]
            touched, whole, told = small[k]
            drawn = np.zeros(len(told), bool)
            drawn[places[k][there]] = True
            overlaps.append((drawn & touched & told).sum() / max(((drawn | whole) & told).sum(), 1))
        worst = int(np.argmin(overlaps))
        if overlaps[worst] >= STRANGE * np.median(overlaps):
            break
        out.append(left.pop(worst))
        see, cover = see - seen[out[-1]], cover - covered[out[-1]]
    return out if 3 * len(out) <= len(masks) else []


def exposure_factors(photos: Photos) -> np.ndarray:
    """(N,) factors of the linear light: 1, or of the smaller of two groups that brings it to the other."""
    light = np.maximum(photos.images.mean(-1), 1e-4)
    logs = np.array([np.log(one[mask > 0.5]).mean() for one, mask in zip(light, photos.masks, strict=True)])
    order, factors = np.argsort(logs), np.ones(len(logs))
    gaps = np.diff(logs[order])
    if not len(gaps) or gaps.max() < np.log(APART):
        return factors
    parts = np.split(order, [int(gaps.argmax()) + 1])
    few, many = sorted(parts, key=len)
    factors[few] = np.exp(np.median(logs[many]) - np.median(logs[few]))
    return factors
