"""What stands on the ground is told from it though it has the same colours: all photographs together show what each place of
the ground looks like, and a pixel that differs from that sees something in front of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import binary_erosion, maximum_filter, minimum_filter

from ..cameras import Camera
from ..surface.color import linear_to_lab, linear_to_srgb

SIDE = 512
"""Cells along each side of the ground."""
BEND, WIDE = 2.3, 2.5
"""Cells are smaller in the middle, by a hyperbolic sine up to here; the ground spreads so many radii of the object."""
LEAST, OFTEN = 5, 0.15
"""Photographs that must show a cell, and their share of all."""
FULL = 0.95
"""Linear light from which a photograph does not tell how bright a place is."""
NOISE = 1.5
"""Differences of CIELAB colours that say nothing, where photographs agree on a cell."""
TURNS, FEW = 3, 7
"""How often exposures and colours are found in turn, by every so many cells."""
MANY = 50
"""Photographs from which on cells are painted in parts."""
MATCH, CHANCE, UNSEEN = 40.0, 0.03, 0.1
"""How much more often the ground has its colour than the object has it, how often it has another, and how often the object has
colours that were not seen on it, relative to others."""


@dataclass(frozen=True, eq=False)
class Picture:
    """A photograph. camera: of its size, with its lens.  linear: (h, w, 3) light.  free: (h, w) bool, where the object is not
    for all that is known."""

    camera: Camera
    linear: np.ndarray
    free: np.ndarray


@dataclass(frozen=True, eq=False)
class Difference:
    """Of the pixels of a photograph from the ground behind them, (h w,) each. away: in what is usual there, NaN where the
    ground is unknown.  near: whether nothing but the object stands between.  shown: (h, w, 3) codes of the ground, NaN likewise."""

    away: np.ndarray
    near: np.ndarray
    shown: np.ndarray | None = None

    @classmethod
    def unknown(cls, shape: tuple[int, ...]) -> Difference:
        return cls(np.full(shape, np.nan), np.zeros(shape, bool))

    @property
    def known(self) -> np.ndarray:
        return np.isfinite(self.away)

    def told(self, odds: np.ndarray, most: float) -> np.ndarray:
        """Odds (h w,) of being object by colours alone, with what the ground says.

        >>> Difference(np.array([0.0, 9.0, 9.0, np.nan]), np.array([True, True, False, True])).told(np.zeros(4), 3.0).round(1)
        array([-3. ,  3. ,  0.1,  0. ])
        """
        away = np.where(self.known, self.away, 0.0)
        ground = MATCH * np.exp(-0.5 * away**2) + np.where(self.near, CHANCE, 1.0)
        return np.where(self.known, np.clip(np.log((np.exp(odds) + UNSEEN) / ground), -most, most), odds)


@dataclass(frozen=True, eq=False)
class Plane:
    """The ground around an object. foot: (3,) below it.  across: (2, 3) unit axes.  radius: of the object."""

    foot: np.ndarray
    across: np.ndarray
    radius: float

    @classmethod
    def of(cls, normal: np.ndarray, height: float, middle: np.ndarray, radius: float) -> Plane:
        """normal: (3,) upwards, unit.  height: along it.  middle, radius: of the object."""
        return cls(middle - (middle @ normal - height) * normal, np.linalg.svd(normal[None])[2][1:], radius)

    @property
    def _step(self) -> float:
        return WIDE * self.radius / float(np.sinh(BEND))

    @property
    def cells(self) -> np.ndarray:
        """(SIDE SIDE, 3): their middles."""
        along = self._step * np.sinh(BEND * ((np.arange(SIDE) + 0.5) / SIDE * 2 - 1))
        flat = np.stack(np.meshgrid(along, along, indexing="ij"), -1).reshape(-1, 2)
        return self.foot + flat @ self.across

    def met(self, camera: Camera) -> tuple[np.ndarray, np.ndarray]:
        """(h, w) cells that the rays of pixels meet, -1 where they meet none, and whether those are below the object."""
        center, rays = camera.rays()
        normal = np.cross(*self.across)
        with np.errstate(divide="ignore", invalid="ignore"):
            length = ((self.foot - center) @ normal) / (rays @ normal)
            flat = (center + rays * length[..., None] - self.foot) @ self.across.T
            place = (np.arcsinh(flat / self._step) / BEND + 1) / 2 * SIDE
            found = (length > 0) & (place >= 0).all(-1) & (place < SIDE).all(-1)
        place = np.where(found[..., None], place, 0).astype(int)
        below = found & (np.linalg.norm(flat, axis=-1) < self.radius)
        return np.where(found, place @ (SIDE, 1), -1), below


def differences(pictures: Sequence[Picture], plane: Plane) -> list[Difference]:
    """Of each photograph from the ground as the others show it. Where photographs do not agree on a place, as it shines or
    something else stands there, colours have to differ more."""
    cells, many = plane.cells, 1 + len(pictures) // MANY
    exposures = _exposures(_sampled(pictures, cells[:: FEW * many]))
    # What no ray meets is the last cell.
    painted = [
        _painted(_sampled(pictures, some) / exposures[:, None]) for some in np.array_split(cells, many)
    ]
    ground, spread = (np.concatenate([*part, [np.nan * part[0][0]]]) for part in zip(*painted, strict=True))
    found = []
    for picture, exposure in zip(pictures, exposures, strict=True):
        place, near = plane.met(picture.camera)
        known = np.asarray(binary_erosion(np.isfinite(spread[place]), np.ones((3, 3)), border_value=1))
        light = np.clip(np.nan_to_num(ground[place]) * exposure, 0, 1)
        # Cameras are known to about a pixel.
        low, high = (part(linear_to_lab(light), (3, 3, 1)) for part in (minimum_filter, maximum_filter))
        colour = linear_to_lab(picture.linear)
        off = np.linalg.norm(np.maximum(np.maximum(low - colour, colour - high), 0), axis=-1)
        away = np.where(known, off / spread[place], np.nan).reshape(-1)
        shown = np.where(known[..., None], linear_to_srgb(light), np.nan).astype(np.float32)
        found.append(Difference(away, near.reshape(-1), shown))
    return found


def _sampled(pictures: Sequence[Picture], points: np.ndarray) -> np.ndarray:
    """(P, C, 3) float32 linear colours of points (C, 3) in photographs, NaN where one does not tell them."""
    seen = np.full((len(pictures), *points.shape), np.nan, np.float32)
    for picture, colours in zip(pictures, seen, strict=True):
        pixel, depth = picture.camera.project(points)
        with np.errstate(invalid="ignore"):
            inside = (depth > 0) & (pixel >= 0).all(-1) & (pixel < picture.camera.size).all(-1)
        x, y = np.where(inside[:, None], pixel, 0).astype(int).T
        told = inside & picture.free[y, x] & (picture.linear[y, x] < FULL).all(-1)
        colours[told] = picture.linear[y, x][told]
    return seen


def _painted(seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Colours (C, 3) of cells by photographs (P, C, 3), and how far photographs are from them, (C,), NaN where few show them."""
    ground, count = _medians(seen)
    spread = np.linalg.norm(linear_to_lab(seen) - linear_to_lab(ground), axis=-1)
    spread = np.maximum(_medians(spread[..., None])[0][:, 0], NOISE)
    return ground, np.where(count < max(LEAST, OFTEN * len(seen)), np.nan, spread)


def _exposures(seen: np.ndarray) -> np.ndarray:
    """(P, 3) of photographs by what they show of cells (P, C, 3), 1 in the geometric mean."""
    exposures = np.ones((len(seen), 3))
    for _ in range(TURNS):
        usual = np.maximum(_medians(seen / exposures[:, None])[0], 1e-3)
        ratios = _medians(np.moveaxis(seen / usual, 1, 0))[0]
        exposures = np.where(ratios > 0, ratios, 1.0)
        exposures /= np.exp(np.log(exposures).mean(0))
    return exposures


def _medians(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Over the first axis of values (P, C, K) those that are not NaN, (C, K), and how many they are, (C,)."""
    values = np.sort(values, 0)
    count = np.isfinite(values[..., 0]).sum(0)
    middle = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, len(values) - 1)
    low, high = (np.take_along_axis(values, place[None, :, None], 0)[0] for place in middle)
    return (low + high) / 2, count
