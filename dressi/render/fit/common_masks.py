"""Masks for photographs without masks, from the cameras, the points of a reconstruction, and colours.

1. The object lies in a sphere around the point that the cameras look at. Points of the reconstruction in it,
   above the ground, are on the object; the others, and pixels whose rays miss the sphere, are background. For
   cameras that were given, points are those that pycolmap finds, if it is installed.
2. Colours seen so far as object and as background give each pixel the odds of being object.
3. In a picture, odds spread to neighbours of like colours: min sum w (q_i - q_j)^2 + sum c (q_i - p_i)^2.
   w falls with the difference of colours, p is the odds as a share, c how sure they are (a random walker).
4. Cells of a grid count that nearly all other pictures that see them hold for object. They correct the odds of
   pixels whose rays meet such cells; pixels whose rays meet none that most pictures may hold for object are
   background. From 2 again, with smaller cells where the object may be: thin limbs are narrower than the first.
5. What the ground looks like, of which the first round left most, tells what stands before it in the same colours.
6. The last round tells colours apart more finely and spreads odds less far: it finds dark parts before a dark background, and
   gaps. Earlier ones do not, as fine colours of what stands beside the object would be taken for the object's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
from scipy import sparse
from scipy.ndimage import (
    binary_closing,
    binary_dilation,
    binary_erosion,
    binary_fill_holes,
    gaussian_filter,
    maximum_filter,
    zoom,
)
from scipy.sparse.linalg import cg

from ...errors import InputError
from ..io.calibration import Calibration, SparsePoints, View, sparse_points
from ..io.images import read_image, resize, scaled_size, to_linear_rgb
from ..io.photos import WAYS
from ..objectives.hull import labelled
from ..reconstruct.motion import find_ground, looked_at
from ..surface.color import linear_to_lab, linear_to_srgb
from .ground import Difference, Picture, Plane, differences

WIDTH, OUTLINED = 512, 1280
"""Pixels of the longer side of the pictures that are segmented, and of those that outlines are moved in."""
REACH = 0.55
"""Radius of the sphere, in distances of the cameras from its middle."""
FAR = 1.4
"""Radii of the sphere: points farther away are background."""
FEWEST = 3
FEW, CORE = 20, 0.3
"""Points or pixels that colours are taken from in any case; relative radius of the middle of the sphere."""
ROUNDS = 5
CELLS, PARTS, MOST_CELLS = 80, 3, 1_500_000
"""Cells along each side of the grid, and parts along each side of a cell where the object may be: at most so many in
all, so that thick things have larger ones."""
CUT_AFTER = 2, 3
"""Rounds after which cells that may be object are cut into parts."""
AGREE = 0.85
"""Share of the pictures that see a cell of the object which hold it for object."""
MAYBE, DOUBT = 0.88, 0.3
"""The same of a cell that may be of the object, beside which pictures hold a pixel for object, if by this share alone: a limb
that a few pictures lack stays, and so does a horn of the ground's colours until it is seen before others."""
SEEN, OFTEN = 0.15, 0.5
"""Shares of all pictures that must see a cell of the object, and one that confirms a part of a mask: a few pictures look the
same way and agree on what lies behind the object."""
SPECK = 0.001
"""Share of a mask below which holes are filled, and of its largest part below which parts are dropped: what all
pictures say decides on larger ones."""
SURE = 6.0
"""Odds of the pixels of points, and of those that rays of the sphere do not meet."""
HINT = 2.0
"""Odds from the cells. Sure colours of the background outweigh them: gaps are seen from few directions."""
TOLD, FINE_TOLD = 0.05, 0.1
"""How much odds count, relative to one neighbour of the same colour, and in the last round."""
GROUND_TOLD = 4.0
"""How many times as much they count before a known ground."""
ABOVE, LOW = 0.012, 0.007
"""Distances of the cameras, and radii of the sphere: a point, or a cell, this high above the ground does not lie on it."""
SPREADS = 2.0
"""The ground spreads so many times as far as what stands on it; a smaller plane is the foot of the object."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Cubes in the world. middles: (C, 3).  side: their length."""

    middles: np.ndarray
    side: float

    def cut(self, chosen: np.ndarray) -> Cells:
        """Chosen cells (C,) in parts.

        >>> Cells(np.zeros((2, 3)), 3.0).cut(np.array([True, False])).middles[:2].tolist()
        [[-1.0, -1.0, -1.0], [-1.0, -1.0, 0.0]]
        """
        room = (MOST_CELLS / max(int(chosen.sum()), 1)) ** (1 / 3)
        parts = int(np.clip(room, 1, PARTS))
        side = self.side / parts
        places = side * (np.arange(parts) - (parts - 1) / 2)
        steps = np.stack(np.meshgrid(places, places, places, indexing="ij"), axis=-1).reshape(-1, 3)
        return Cells((self.middles[chosen][:, None] + steps).reshape(-1, 3), side)


@dataclass(frozen=True, eq=False)
class Small:
    """A picture at the size that is segmented. colour: (h, w, 3) CIELAB.  bins: (h w,) of the histograms.
    cells, sees: (C,) flat indices of the pixels of cells, and whether the picture has them.  wide: pixels between two
    cells, rounded up.
    """

    view: View
    colour: np.ndarray
    bins: np.ndarray
    cells: np.ndarray
    sees: np.ndarray
    wide: int = 1

    @property
    def shape(self) -> tuple[int, int]:
        return self.colour.shape[0], self.colour.shape[1]


def common_masks(calibration: Calibration, points: SparsePoints | None = None) -> dict[Path, np.ndarray]:
    """(H, W) bool masks of the photographs by their files, at their own sizes. points: that are known of the
    scene, with the indices of the views; None for those of the calibration. Raises InputError."""
    views = calibration.views
    if len(views) < FEWEST:
        raise InputError(
            f"the photographs of '{calibration.path}' have no mask, and masks are found from {FEWEST}"
            f" photographs or more; give {WAYS}"
        )
    region = Region.of(calibration, sparse_points(calibration.model, views) if points is None else points)
    cells = region.cells
    smalls = [_small(view, cells, region.middle) for view in views]
    fixed = [region.sure(i, small) for i, small in enumerate(smalls)]
    shares = [region.first(small, odds) for small, odds in zip(smalls, fixed, strict=True)]
    hints = [np.zeros(odds.shape) for odds in fixed]
    ground = [Difference.unknown(odds.shape) for odds in fixed]
    for number in range(ROUNDS):
        last = number + 1 == ROUNDS
        told = (fine_odds if last else colour_odds)(smalls, shares)
        rows = zip(fixed, told, hints, ground, strict=True)
        told = [
            np.where(sure != 0, sure, below.told(odds, MOST_ODDS) + hint) for sure, odds, hint, below in rows
        ]
        shares = [_spread(*row, last) for row in zip(smalls, told, shares, ground, strict=True)]
        agreed, possible, seen = _held(smalls, shares)
        hints = [_hint(small, agreed, possible) for small in smalls]
        if number == 0 and region.ground is not None:
            ground = region.differences(smalls, shares)
        # Where the ground is known, what was held so far does not decide what may be object: a horn of the ground's colour,
        # lost once, comes back before other ground.
        pairs = zip(ground, hints, strict=True)
        hints = [np.where(below.known, np.maximum(hint, 0), hint) for below, hint in pairs]
        if number + 1 in CUT_AFTER:
            cells = cells.cut(possible)
            smalls = [_with_cells(small, cells, region.middle) for small in smalls]
    often = possible & (seen >= OFTEN)
    shares = [_confirmed(small, share, often) for small, share in zip(smalls, shares, strict=True)]
    rows = zip(smalls, shares, ground, strict=True)
    masks = {small.view.image: _full(small, share, below) for small, share, below in rows}
    if not any(mask.any() for mask in masks.values()):
        what = f"the photographs of '{calibration.path}' look at no common object that stands out"
        raise InputError(f"{what}; give masks, or {WAYS}")
    return masks


@dataclass(frozen=True, eq=False)
class Region:
    """Where the object is. middle, radius: of the sphere.  seen_points, seen_others: of each view, the points
    (P, 3) that it sees on the object, and on the ground or far away.  ground: unit normal, and height along
    it."""

    middle: np.ndarray
    radius: float
    seen_points: list[np.ndarray]
    seen_others: list[np.ndarray]
    ground: tuple[np.ndarray, float] | None

    @classmethod
    def of(cls, calibration: Calibration, found: SparsePoints) -> Region:
        cameras = [view.camera for view in calibration.views]
        centers = np.stack([camera.center for camera in cameras])
        middle = looked_at(centers, np.stack([camera.forward for camera in cameras]))
        distance = float(np.median(np.linalg.norm(centers - middle, axis=1)))
        radius = REACH * distance
        if calibration.bounds is not None:
            middle = calibration.bounds.mean(0)
            radius = 0.55 * float(np.linalg.norm(np.ptp(calibration.bounds, axis=0)))
        up, points = np.mean([camera.up for camera in cameras], axis=0), found.positions
        ground = find_ground(points, centers, up / max(float(np.linalg.norm(up)), 1e-9), 0.01 * distance)
        away = np.linalg.norm(points - middle, axis=1)
        near, far = away < radius, away > FAR * radius
        if ground is not None and not _spreads(points, near, *ground, ABOVE * distance):
            ground = None
        if ground is not None:
            above = points @ ground[0] - ground[1] > ABOVE * distance
            near &= above
            far |= ~above
        seen = [found.seen_by(i) for i in range(len(cameras))]
        on, others = ([points[s[chosen[s]]] for s in seen] for chosen in (near, far))
        return cls(middle, radius, on, others, ground)

    @cached_property
    def cells(self) -> Cells:
        """Those of a grid in the sphere that are above the ground."""
        axis = (np.arange(CELLS) + 0.5) / CELLS * 2 - 1
        cells = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
        cells = self.middle + self.radius * cells[np.linalg.norm(cells, axis=1) < 1]
        if self.ground is not None:
            cells = cells[cells @ self.ground[0] > self.ground[1] + LOW * self.radius]
        return Cells(cells, 2 * self.radius / CELLS)

    def sure(self, number: int, small: Small) -> np.ndarray:
        """(h w,) odds of the pixels that are known before colours are compared, 0 elsewhere."""
        met = _covered(small, np.ones(len(small.cells), bool))
        odds = np.where(met, 0.0, -SURE).reshape(-1)
        for points, value in ((self.seen_others[number], -SURE), (self.seen_points[number], SURE)):
            place, seen = _place(small.view, small.shape, points)
            odds[place[seen]] = value
        return odds

    def differences(self, smalls: Sequence[Small], shares: Sequence[np.ndarray]) -> list[Difference]:
        """Of pictures from the ground, where they do not show the object by shares (h w,)."""
        assert self.ground is not None
        pictures = []
        for small, share in zip(smalls, shares, strict=True):
            size = small.shape[1], small.shape[0]
            camera = small.view.camera.with_lens(small.view.lens).resized(size)
            free = ~np.asarray(binary_dilation(share.reshape(small.shape) > 0.5), dtype=bool)
            pictures.append(Picture(camera, to_linear_rgb(resize(_flat(small.view), size)), free))
        return differences(pictures, Plane.of(*self.ground, self.middle, self.radius))

    def first(self, small: Small, sure: np.ndarray) -> np.ndarray:
        """(h w,) shares that the first colours are taken from. Without points, the object is what the middle
        of the sphere covers; if the sphere fills the picture, the background is at its border."""
        share = np.where(sure > 0, 1.0, np.where(sure < 0, 0.0, 0.5))
        if (sure > 0).sum() < FEW:
            inner = np.linalg.norm(self.cells.middles - self.middle, axis=1) < CORE * self.radius
            share = np.where((sure == 0) & _covered(small, inner).reshape(-1), 0.8, share)
        if (sure < 0).sum() < FEW:
            share = np.where(border(small.shape).reshape(-1) & (sure == 0), 0.2, share)
        return share


def _spreads(points: np.ndarray, near: np.ndarray, normal: np.ndarray, height: float, thick: float) -> bool:
    """Whether the points (P, 3) on a plane spread farther than those above it that are near, (P,) bool."""
    above = points @ normal - height
    flat = points - above[:, None] * normal
    on, standing = np.abs(above) < thick, near & (above > thick)
    if not standing.any():
        return True
    away = np.linalg.norm(flat - np.median(flat[standing], axis=0), axis=1)
    return bool(np.percentile(away[on], 90) > SPREADS * np.percentile(away[standing], 90))


def _covered(small: Small, chosen: np.ndarray, gap: int = 2) -> np.ndarray:
    """(h, w) bool: the pixels whose rays meet chosen cells (C,). gap: between cells, so many times as wide as one, that is
    covered as well."""
    mask, wide = np.zeros(small.shape, dtype=bool), small.wide
    mask.reshape(-1)[small.cells[chosen & small.sees]] = True
    padded = np.pad(mask, 2 * wide, mode="edge")
    closed = np.asarray(binary_closing(padded, np.ones((gap * wide + 1,) * 2)))
    return closed[2 * wide : -2 * wide, 2 * wide : -2 * wide]


def _held(smalls: Sequence[Small], shares: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(C,) each: whether nearly all pictures that see cells hold them for object, whether they may be, and the share of the
    pictures that see them."""
    seen, held, beside = (np.zeros(len(smalls[0].sees), np.int32) for _ in range(3))
    for small, share in zip(smalls, shares, strict=True):
        # A cell may be wider than a limb in it, whose place cameras know to a pixel.
        near = maximum_filter(share.reshape(small.shape) > DOUBT, 2 * ((small.wide + 1) // 2) + 1)
        seen += small.sees
        held += small.sees & (share > 0.5)[small.cells]
        beside += small.sees & near.reshape(-1)[small.cells]
    enough = seen >= max(SEEN * len(smalls), 2)
    return (held >= AGREE * seen) & enough, beside >= MAYBE * seen, seen / len(smalls)


def _hint(small: Small, agreed: np.ndarray, possible: np.ndarray) -> np.ndarray:
    """(h w,) odds of a picture by cells (C,): more where rays meet some that pictures agree on, and hardly any where
    they meet none that may be object."""
    # Cells are no farther apart than one is wide: a wider gap is one between limbs.
    shallow = binary_dilation(~_covered(small, agreed, gap=1), iterations=small.wide)
    return np.where(shallow, np.where(_covered(small, possible), 0.0, -SURE), HINT).reshape(-1)


def _confirmed(small: Small, share: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Shares (h w,) of a picture without small parts whose rays mostly meet none of chosen cells (C,): other pictures
    tell a leaf, whose stem is lost, from the background."""
    number, areas = labelled(share.reshape(small.shape) > 0.5)
    shown = np.bincount(number.reshape(-1), _covered(small, cells).reshape(-1), len(areas))
    dropped = (areas < PART * areas[1:].max(initial=0)) & (shown < 0.5 * areas)
    dropped[0] = False
    return np.where(dropped[number.reshape(-1)], 0.0, share)


def _place(view: View, shape: tuple[int, int], points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Flat indices (P,) of the pixels of points (P, 3), through the lens, and whether the picture has
    them."""
    camera, (height, width) = view.camera, shape
    at = points @ camera.rotation.T + camera.translation
    front = at[:, 2] > 1e-9
    plane = at[:, :2] / np.where(front, at[:, 2], 1.0)[:, None]
    if view.lens:
        front &= np.hypot(plane[:, 0], plane[:, 1]) < view.lens.reach
        plane = view.lens.distort(np.where(front[:, None], plane, 0.0))
    pixel = plane @ camera.intrinsics[:2, :2].T + camera.intrinsics[:2, 2]
    x, y = np.floor(np.clip(pixel * (np.array([width, height]) / camera.size), -1, 1e6)).astype(np.int32).T
    seen = front & (x >= 0) & (y >= 0) & (x < width) & (y < height)
    return np.where(seen, y * width + x, 0), seen


def _flat(view: View) -> np.ndarray:
    """(H, W, 1 or 3) codes of a photograph; what is transparent is black, as in a picture without alpha."""
    codes = read_image(view.image)
    return linear_to_srgb(to_linear_rgb(codes) * codes[..., 3:]) if codes.shape[-1] == 4 else codes


def _small(view: View, cells: Cells, middle: np.ndarray) -> Small:
    codes = _flat(view)
    height, width = codes.shape[:2]
    scale = min(1.0, WIDTH / max(width, height))
    colour = lab(resize(codes, (max(round(width * scale), 2), max(round(height * scale), 2))))
    nothing = np.zeros(0, np.int32), np.zeros(0, bool)
    return _with_cells(Small(view, colour.astype(np.float32), bins_of(colour), *nothing), cells, middle)


def _with_cells(small: Small, cells: Cells, middle: np.ndarray) -> Small:
    """A picture with other cells around the middle (3,) of the object."""
    camera = small.view.camera
    depth = max(float(camera.rotation[2] @ middle + camera.translation[2]), 1e-9)
    pixels = camera.intrinsics[0, 0] / depth * small.shape[1] / camera.size[0]
    place, sees = _place(small.view, small.shape, cells.middles)
    return replace(small, cells=place, sees=sees, wide=int(np.clip(np.ceil(cells.side * pixels), 1, 20)))


def _laplacian(colour: np.ndarray, fine: bool) -> sparse.csr_array:
    """(h w, h w): weights between neighbours of like colours; one of the same colour has weight 1. fine: whether faint outlines
    count as well, those of dark parts before a dark background."""
    height, width = colour.shape[:2]
    number = np.arange(height * width).reshape(height, width)
    first = np.concatenate([number[:, :-1].ravel(), number[:-1].ravel()])
    second = np.concatenate([number[:, 1:].ravel(), number[1:].ravel()])
    flat = colour.reshape(-1, 3)
    square = ((flat[first] - flat[second]) ** 2).sum(1)
    far, means = (np.sqrt(square), 1) if fine else (square, 2)
    weight = np.exp(-far / max(means * float(far.mean()), 1e-6)) + 1e-3
    rows = np.concatenate([first, second]), np.concatenate([second, first])
    beside = sparse.csr_array((np.tile(weight, 2), rows), (flat.shape[0],) * 2)
    return sparse.csr_array(sparse.diags_array(beside.sum(1)) - beside)


def _spread(small: Small, odds: np.ndarray, before: np.ndarray, ground: Difference, fine: bool) -> np.ndarray:
    """(h w,) shares of object, of odds that spread to neighbours of like colours."""
    count = (FINE_TOLD if fine else TOLD) * np.where(ground.known, GROUND_TOLD, 1) * np.abs(odds) + 1e-4
    count = np.where(np.abs(odds) >= SURE, 10.0, count)
    prior = 1 / (1 + np.exp(-odds))
    matrix = _laplacian(small.colour, fine) + sparse.diags_array(count)
    scale = sparse.diags_array(1 / matrix.diagonal())
    found, _ = cg(matrix, count * prior, x0=before, rtol=1e-2, maxiter=100, M=scale)
    return np.clip(found, 0, 1)


def _full(small: Small, share: np.ndarray, ground: Difference) -> np.ndarray:
    """The mask at the size of the photograph."""
    codes, share = _flat(small.view), share.reshape(small.shape)
    full = codes.shape[1], codes.shape[0]
    scale = min(1.0, OUTLINED / max(full))
    codes = resize(codes, scaled_size(full, scale))
    height, width = codes.shape[:2]
    factors = height / share.shape[0], width / share.shape[1]
    mask = np.asarray(zoom(share, factors, order=1, grid_mode=True, mode="nearest")) > 0.5
    if mask.any():
        shown = None if ground.shown is None else resize(ground.shown, (width, height))
        mask = clean(sharpened(codes, mask, shown), SPECK, SPECK)
    return mask if scale == 1.0 else resize(mask.astype(np.float32), full) > 0.5


# Odds of being object by colour: of histograms of what was seen so far as object and as background.

BINS, BLUR = 32, 0.5
"""Bins along each axis of CIELAB, and how far counts spread, in bins."""
FINE, FINE_BLUR, USUAL = 128, 0.35, 0.5
"""The same where colours are told apart finely, as what is not quite as black as the background is the object's; and how much
the usual odds count beside."""
TILES, COARSE, ELSEWHERE = 8, 8, 0.2
"""Tiles along each side of a picture, bins of theirs along each axis, and the least share that a colour of the
background keeps where no background around has it."""
RARE, LEAST = 10, 1e-5
"""Pixels of a colour that tell nothing yet, and the least share that these are: the first colours are taken from so few pixels
that one alone would decide."""
MOST_ODDS = 3.0
"""Most odds of a colour."""


class Binned(Protocol):
    """A picture. bins: (h w,) of the histograms, see ``bins_of``."""

    @property
    def bins(self) -> np.ndarray: ...

    @property
    def shape(self) -> tuple[int, int]: ...


def bins_of(colour: np.ndarray, side: int = BINS) -> np.ndarray:
    """(h w,) bins of CIELAB colours (h, w, 3), of so many along each axis."""
    levels = np.clip((colour + (0, 64, 64)) / (100, 128, 128), 0, 1 - 1e-9)
    return ((levels * side).astype(int) @ (side * side, side, 1)).reshape(-1)


def colour_odds(
    smalls: Sequence[Binned], shares: Sequence[np.ndarray], side: int = BINS, blur: float = BLUR
) -> list[np.ndarray]:
    """Odds (h w,) of the colours of each picture: the object's are those of all pictures, the background's
    half its own. A colour of the background that none of it around has counts less. side, blur: bins along each axis of
    CIELAB, and how far counts spread."""

    def histogram(bins: np.ndarray, weight: np.ndarray) -> np.ndarray:
        count = np.bincount(bins, weight, side**3).reshape((side,) * 3)
        smooth = gaussian_filter(count, blur, mode="constant")
        return smooth / max(float(smooth.sum()), 1e-12)

    every = np.concatenate([small.bins for small in smalls])
    share = np.concatenate(list(shares))
    on, off = share > 0.75, share < 0.25
    front, back = histogram(every, on), histogram(every, off)
    rare = max(RARE / max(min(on.sum(), off.sum()), RARE), LEAST)
    odds = []
    for small, own in zip(smalls, shares, strict=True):
        behind = (0.5 * back + 0.5 * histogram(small.bins, own < 0.25)).reshape(-1)[small.bins]
        before = (front + rare).reshape(-1)[small.bins]
        odds.append(
            np.clip(np.log(before / (behind * _around(small, own, side) + rare)), -MOST_ODDS, MOST_ODDS)
        )
    return odds


def fine_odds(smalls: Sequence[Small], shares: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The odds of colours that are told apart more finely as well. Of a fine colour that hardly any pixel has the usual odds
    tell."""
    fine = [replace(small, bins=bins_of(small.colour, FINE)) for small in smalls]
    pairs = zip(colour_odds(fine, shares, FINE, FINE_BLUR), colour_odds(smalls, shares), strict=True)
    return [np.clip(one + USUAL * usual, -MOST_ODDS, MOST_ODDS) for one, usual in pairs]


def _around(small: Binned, share: np.ndarray, side: int) -> np.ndarray:
    """(h w,) how often the background around a pixel has its colour, relative to the whole, ELSEWHERE to
    1."""
    height, width = small.shape
    y, x = np.mgrid[:height, :width]
    tile = (y * TILES // height * TILES + x * TILES // width).reshape(-1)
    levels = np.stack(np.unravel_index(small.bins, (side,) * 3)) * COARSE // side
    place = tile * COARSE**3 + np.ravel_multi_index(tuple(levels), (COARSE,) * 3)
    count = np.bincount(place, share < 0.25, TILES**2 * COARSE**3).reshape(TILES, TILES, -1)
    near = gaussian_filter(count, (1.0, 1.0, 0.0), mode="nearest")
    usual = near.mean((0, 1))
    return np.clip(near / np.maximum(usual, 1e-9), ELSEWHERE, 1.0).reshape(-1)[place]


# From the contrast of a picture to a clean mask: noise threshold, connected components, sharp outlines.

SEEN_SHARE = 3.0
"""Smallest CIELAB distance that counts: just above what is noticeable, and above JPEG artefacts."""
NOISE = 4.0
"""The noise threshold lies this many standard deviations of the background above its median."""
RIM = 0.25
"""Weight of the pixels second to an outline in the colours of its sides, where those farther away have 1: a limb darkens towards
its outline, which would come to lie too far inside, but the mask may be a pixel too wide."""
PART, HOLE = 0.05, 0.01
"""Parts smaller than this share of the largest are dropped, holes smaller than this share of a mask
filled."""


def lab(codes: np.ndarray) -> np.ndarray:
    """(H, W, 3) CIELAB of sRGB codes (H, W, 1, 3 or 4); alpha is ignored."""
    return linear_to_lab(to_linear_rgb(codes))


def clean(mask: np.ndarray, hole: float = HOLE, part: float = PART) -> np.ndarray:
    """A mask without specks, parts smaller than a share of the largest and holes smaller than a share of it."""
    core = binary_dilation(binary_erosion(mask, np.ones((2, 2))), np.ones((3, 3)))
    mask = mask & core
    number, areas = labelled(mask)
    if len(areas) > 2:
        mask = mask & np.append(False, areas[1:] >= part * areas[1:].max())[number]
    number, areas = labelled(binary_fill_holes(mask) & ~mask)
    areas[0] = mask.size
    return mask | (areas < max(hole * mask.sum(), 1))[number]


def border(shape: tuple[int, ...]) -> np.ndarray:
    """(H, W) bool: the outer 4 %, at least a pixel, along each side."""
    frame = np.ones(shape, dtype=bool)
    a, b = (max(round(0.04 * n), 1) for n in shape)
    frame[a:-a, b:-b] = False
    return frame


def least_distance(distance: np.ndarray) -> float:
    """The distance above which a pixel is not background, from the noise at the picture's border."""
    usual = distance[border(distance.shape)]
    middle = float(np.median(usual))
    return max(SEEN_SHARE, middle + NOISE * 1.4826 * float(np.median(np.abs(usual - middle))))


def grown(value: np.ndarray, least: float, sure: float) -> np.ndarray:
    """(H, W) bool: connected parts above ``least`` that contain a pixel above ``sure`` (hysteresis)."""
    number, areas = labelled(value > least)
    kept = np.zeros(len(areas), dtype=bool)
    kept[np.unique(number[value > sure])] = True
    kept[0] = False
    return kept[number]


def sharpened(
    codes: np.ndarray, mask: np.ndarray, background: np.ndarray | None = None, deep: int = 1
) -> np.ndarray:
    """The mask with its outline moved to where a pixel, a linear mix of both sides, is half object. Only
    pixels beside the outline change, and so many pixels deep inside. background: codes where it is known, NaN elsewhere."""
    linear = to_linear_rgb(codes).astype(np.float32)
    inner, outer = (RIM * _eroded(part, 1) + (1 - RIM) * _eroded(part, 2) for part in (mask, ~mask))
    front, here = _means(linear, inner)
    back, there = _means(linear, outer)
    known = np.zeros(mask.shape, bool) if background is None else np.isfinite(background).all(-1)
    if background is not None:
        back[known], there[known] = to_linear_rgb(background)[known], 1
    axis = front - back
    square = (axis * axis).sum(-1)
    share = ((linear - back) * axis).sum(-1) / np.maximum(square, 1e-12)
    told = (here > 1e-4) & (there > 1e-4) & (square > 1e-4)
    beside = ~_eroded(~mask, 1) & ~_eroded(mask, deep)
    return np.where(beside & told, share >= 0.5, mask)


def _eroded(mask: np.ndarray, pixels: int) -> np.ndarray:
    """The eroded mask; the border of the picture does not erode."""
    return np.asarray(binary_erosion(mask, iterations=pixels, border_value=1), dtype=bool)


def _means(image: np.ndarray, where: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The Gaussian mean of the pixels around each pixel by their weights (H, W) in [0, 1], and the total weight, at most 1."""
    weight = gaussian_filter(where.astype(np.float32), 1.0)
    total = gaussian_filter(image * where[..., None], (1.0, 1.0, 0))
    return total / np.maximum(weight, 1e-6)[..., None], weight
