"""Which masks contradict the others, and which parts of a hull its masks need."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import binary_dilation, binary_erosion, label

from ....forms.reach import marked
from ....io.images import resize
from ....mesh.remesh.volume import Grid
from .carving import Cones

ROWS = 40
"""Rows of the small pictures in which coverage is compared."""
CELLS = 56
"""Cells of the grid on which masks are compared along the longest side of the box: narrower than a small pixel."""
MISSING = 0.1
"""Masks contradict each other if their hull leaves this share of one of them uncovered."""
MOST_WRONG = 0.25
"""At most this share of the masks is left out as wrong. If more are, none of them can be trusted."""
LEAST = 0.005
"""A part of a hull is needed if in at least two views it alone covers this share of the mask."""
PIXELS = 2
"""Least number of small pixels that count as covered by a part alone."""
THICK, SLACK = 3.5, 2.0
"""Pieces of a hull thinner than twice THICK cells that stand out of the body by more than SLACK cells are thin."""


@dataclass(frozen=True, eq=False)
class Small:
    """The pictures at ROWS rows.

    matrices: (N, 4, 4) to clip space.  masks: (N, h, w) share of each pixel inside the mask.  known: (N, h, w) bool.
    """

    matrices: np.ndarray
    masks: np.ndarray
    known: np.ndarray

    @classmethod
    def of(cls, matrices: np.ndarray, masks: np.ndarray, known: np.ndarray | None = None) -> Small:
        """Of masks (N, H, W), valid where known (N, H, W) is true; None: everywhere."""
        height, width = masks.shape[1:]
        rows = min(ROWS, height)
        size = max(round(width * rows / height), 1), rows
        told = np.ones(masks.shape, bool) if known is None else np.asarray(known) > 0
        shares, wholes = (
            np.stack([resize(image.astype(np.float32), size) for image in images])
            for images in (np.asarray(masks) >= 0.5, told)
        )
        return cls(np.asarray(matrices, np.float64), shares, wholes > 0.999)

    def silhouettes(self, points: np.ndarray) -> np.ndarray:
        """(N, h, w) bool: pixels that contain a point (P, 3)."""
        return marked(self.matrices, points.astype(np.float32), self.masks.shape[1:])

    def missed(self, silhouettes: np.ndarray) -> np.ndarray:
        """(N, h, w) bool: pixels entirely inside a mask that are not in, nor beside, silhouettes (N, h, w)."""
        near = np.asarray(binary_dilation(silhouettes, np.ones((1, 3, 3))), dtype=bool)
        return (self.masks > 0.999) & self.known & ~near

    def needs(self, pixels: np.ndarray, share: float) -> bool:
        """Whether pixels (N, h, w), which nothing else covers, are this share of the mask, and PIXELS of them, in at least
        two views (or in the only one)."""
        least = np.maximum(share * self.masks.sum((1, 2)), PIXELS)
        return int((pixels.sum((1, 2)) >= least).sum()) >= min(2, len(pixels))

    def iou(self, points: np.ndarray) -> float:
        """IoU, mean over the views, of the silhouettes of a solid of points (P, 3) with the masks, where those are known: of the
        pixels that each of them touches."""
        found, masks = self.silhouettes(points) & self.known, (self.masks > 0.01) & self.known
        both, either = ((f(found, masks)).sum((1, 2)) for f in (np.logical_and, np.logical_or))
        return float(np.mean(both / np.maximum(either, 1)))


@dataclass(frozen=True)
class Agreement:
    """wrong: the views whose masks contradict the others.  agree: whether the others agree with each other.
    box: (2, 3) around their hull, or None if it is empty."""

    wrong: list[int]
    agree: bool
    box: np.ndarray | None

    @classmethod
    def of(cls, cones: Cones, small: Small) -> Agreement:
        """Compares masks on a grid over the scene.

        A mask that lacks a part carves away what the others show. Such masks are left out one after the other: each time
        the one without which the hull covers most of the pixels that it missed. A mask with a part too many has pixels
        that the hull misses whichever other mask is left out; it is left out, too. If more than MOST_WRONG of the masks
        are wrong, ``wrong`` are those that carve the points on which most masks agree.
        """
        grid = Grid.around(cones.box, CELLS)
        points = grid.points().reshape(-1, 3)
        points = points[cones.domain(points) > -grid.step]
        # A point is outside of a cone if the whole cell around it is.
        outside = cones.fields(points) < -grid.step
        count, wrong, most = outside.sum(0), list[int](), MOST_WRONG * len(cones)
        area = np.maximum((small.masks > 0.999).sum((1, 2)), 1)
        while len(wrong) <= most:
            missed = small.missed(small.silhouettes(points[count == 0]))
            missed[wrong] = False
            if (missed.sum((1, 2)) < MISSING * area).all():
                break
            gains = np.zeros(len(cones))
            for view in set(range(len(cones))) - set(wrong):
                regained = small.silhouettes(points[(count == 1) & outside[view]]) & missed
                regained[view] = False
                gains[view] = (regained.sum((1, 2)) / area).sum()
            if gains.max() >= MISSING:
                found = [int(np.argmax(gains))]
            else:
                found = np.flatnonzero(missed.sum((1, 2)) >= MISSING * area).tolist()
            wrong += found
            count = count - outside[found].sum(0)
        hull = points[count == 0]
        if len(wrong) <= most and len(hull):
            return cls(sorted(wrong), True, np.stack([hull.min(0), hull.max(0)]))
        everyone = outside.sum(0)
        carving = outside[:, everyone == everyone.min()].mean(1)
        return cls(np.flatnonzero(carving >= min(0.5, carving.max())).tolist(), False, None)


def needed(inside: np.ndarray, grid: Grid, small: Small) -> np.ndarray:
    """(X, Y, Z) bool: the hull without the parts that its masks do not need.

    inside: (X, Y, Z) bool on a grid. Phantom parts, where cones meet by chance, and parts that a single wrong mask makes are
    left out: without them all masks but one are covered as well. First whole connected parts, the smallest first, then thin
    pieces, such as webs between limbs and bridges over a hole.
    """
    number, shells = _parts(inside)
    drawn = [small.silhouettes(grid.origin + grid.step * shell) for shell in shells]
    covering = np.sum(drawn, axis=0) if drawn else np.zeros(small.masks.shape)
    wanted = np.zeros(len(shells) + 1, bool)
    for k in np.argsort([len(shell) for shell in shells], kind="stable"):
        wanted[k + 1] = small.needs(drawn[k] & (covering == 1), LEAST)
        if not wanted[k + 1]:
            covering = covering - drawn[k]
    keep = wanted[number]
    # Morphological opening: what is left of the hull is covered by balls of radius THICK that fit inside.
    core = ~near_cells(~keep, THICK)
    if not core.any():
        return keep
    body = keep & near_cells(core, THICK + SLACK)
    covered = small.silhouettes(grid.origin + grid.step * np.argwhere(_shell(body)))
    number, shells = _parts(keep & ~body)
    drawn = [small.silhouettes(grid.origin + grid.step * shell) for shell in shells]
    thin = np.array([False, *(small.needs(pixels & ~covered, 0.0) for pixels in drawn)])[number]
    return body | keep & near_cells(thin, THICK + SLACK) if thin.any() else body


def near_cells(cells: np.ndarray, distance: float) -> np.ndarray:
    """bool, of the shape of the bool array ``cells``: the cells at most this distance, in cells and below 11, from one that is
    set.

    The squared distance is a minimum along one axis after the other. Bytes are enough for it, as only small ones count,
    and much faster than the distance transform of SciPy.

    >>> near_cells(np.array([True, False, False, False]), 2).tolist()
    [True, True, True, False]
    """
    far, reach = np.uint8(255), int(distance)
    found = np.where(cells, np.uint8(0), far)
    for axis in range(found.ndim):
        before, found = np.moveaxis(found, axis, 0), found.copy()
        after = np.moveaxis(found, axis, 0)
        for step in range(1, min(reach, len(after) - 1) + 1):
            # No sum passes 255: it would begin again at 0.
            squared = np.minimum(before, far - np.uint8(step**2)) + np.uint8(step**2)
            np.minimum(after[step:], squared[:-step], out=after[step:])
            np.minimum(after[:-step], squared[step:], out=after[:-step])
    return found <= int(distance**2)


def _shell(inside: np.ndarray) -> np.ndarray:
    """The cells beside the outside: their silhouette is that of all."""
    return inside & ~np.asarray(binary_erosion(inside), dtype=bool)


def _parts(inside: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """The number, from 1 on, of the connected part of each cell (X, Y, Z), 0 outside, and the cells (P, 3) of each shell."""
    number = np.zeros(inside.shape, np.int32)
    label(inside, np.ones((3, 3, 3)), output=number)
    count = int(number.max())
    shell = _shell(inside)
    cells, part = np.argwhere(shell), number[shell]
    order = np.argsort(part, kind="stable")
    ends = np.cumsum(np.bincount(part, minlength=count + 1)[1:])
    return number, np.split(cells[order], ends[:-1]) if count else []
