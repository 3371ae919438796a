"""The visual hull of masks: cones as fields, which masks agree, and the surface."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.ndimage import (
    binary_closing,
    binary_dilation,
    binary_erosion,
    gaussian_filter,
    map_coordinates,
    zoom,
)

from ....errors import InputError
from ...forms.soft_target import marked, outline_distances
from ...mesh import Mesh
from ...mesh.remesh.volume import Grid, surface_of
from ...objectives.hull import labelled
from ..data.learned import cut_off, resized
from ..phases.remeshed import unfolded

# Which masks contradict the others, and which parts of a hull its masks need.

ROWS = 40
"""Rows of the small pictures in which coverage is compared."""
AGREEMENT_CELLS = 56
"""Cells of the grid on which masks are compared, along the longest side: narrower than a small pixel."""
MISSING = 0.1
"""Masks contradict each other if their hull leaves this share of one of them uncovered."""
MOST_WRONG = 0.25
"""At most this share of the masks is left out as wrong. If more are, none of them can be trusted."""
LEAST = 0.005
"""A part of a hull is needed if in at least two views it alone covers this share of the mask."""
PIXELS = 2
"""Least number of small pixels that count as covered by a part alone."""
THICK, SLACK = 3.5, 2.0
"""Pieces thinner than twice THICK cells that stand out of the body by more than SLACK cells are thin."""


@dataclass(frozen=True, eq=False)
class Small:
    """The pictures at ROWS rows. matrices: (N, 4, 4) to clip space.  masks: (N, h, w) share of each pixel
    inside the mask.  known: (N, h, w) bool."""

    matrices: np.ndarray
    masks: np.ndarray
    known: np.ndarray

    @classmethod
    def of(cls, matrices: np.ndarray, masks: np.ndarray, known: np.ndarray | None = None) -> Small:
        """From masks (N, H, W), valid where known (N, H, W) is true; None: everywhere."""
        height, width = masks.shape[1:]
        rows = min(ROWS, height)
        size = max(round(width * rows / height), 1), rows
        told = np.ones(masks.shape, bool) if known is None else np.asarray(known) > 0
        shares, wholes = resized(np.asarray(masks) >= 0.5, size), resized(told, size)
        return cls(np.asarray(matrices, np.float64), shares, wholes > 0.999)

    def silhouettes(self, points: np.ndarray) -> np.ndarray:
        """(N, h, w) bool: pixels that contain a point (P, 3)."""
        return marked(self.matrices, points.astype(np.float32), self.masks.shape[1:])

    def missed(self, silhouettes: np.ndarray) -> np.ndarray:
        """(N, h, w) bool: pixels entirely inside a mask that are not in, nor beside, silhouettes (N, h,
        w)."""
        near = np.asarray(binary_dilation(silhouettes, np.ones((1, 3, 3))), dtype=bool)
        return (self.masks > 0.999) & self.known & ~near

    def needs(self, pixels: np.ndarray, share: float) -> bool:
        """Whether pixels (N, h, w), which nothing else covers, are this share of the mask, and PIXELS of
        them, in at least two views (or in the only one)."""
        least = np.maximum(share * self.masks.sum((1, 2)), PIXELS)
        return int((pixels.sum((1, 2)) >= least).sum()) >= min(2, len(pixels))

    def rim(self, points: np.ndarray) -> float:
        """How wide the part of the masks is that a solid of points (P, 3) leaves uncovered, in pixels: its area over
        the length of the outlines. Thin things, whose outlines are long, lose much area by a little."""
        lost = (self.masks - np.minimum(self.silhouettes(points), self.masks))[self.known].sum()
        outline = ((self.masks > 0.01) & (self.masks < 0.99) & self.known).sum()
        return float(lost / max(int(outline), 1))

    def iou(self, points: np.ndarray) -> float:
        """IoU, mean over the views, of the known pixels that a solid of points (P, 3) and the masks touch."""
        drawn, masks = self.silhouettes(points) & self.known, (self.masks > 0.01) & self.known
        both, either = (drawn & masks).sum((1, 2)), (drawn | masks).sum((1, 2))
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

        A mask that lacks a part carves away what the others show. Such masks are left out one after the
        other: each time the one without which the hull covers most of the pixels that it missed. A mask with
        a part too many has pixels that the hull misses whichever other mask is left out; it is left out, too.
        If more than MOST_WRONG of the masks are wrong, ``wrong`` are those that carve the points on which
        most masks agree.
        """
        grid = Grid.around(cones.box, AGREEMENT_CELLS)
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
                further = [int(np.argmax(gains))]
            else:
                further = np.flatnonzero(missed.sum((1, 2)) >= MISSING * area).tolist()
            wrong += further
            count = count - outside[further].sum(0)
        hull = points[count == 0]
        if len(wrong) <= most and len(hull):
            return cls(sorted(wrong), True, np.stack([hull.min(0), hull.max(0)]))
        everyone = outside.sum(0)
        carving = outside[:, everyone == everyone.min()].mean(1)
        return cls(np.flatnonzero(carving >= min(0.5, carving.max())).tolist(), False, None)


def needed(inside: np.ndarray, grid: Grid, small: Small) -> np.ndarray:
    """(X, Y, Z) bool: the hull without the parts that its masks do not need.

    inside: (X, Y, Z) bool on a grid. Phantom parts, where cones meet by chance, and parts that a single wrong
    mask makes are left out: without them all masks but one are covered as well. First whole connected parts,
    the smallest first, then thin pieces, such as webs between limbs and bridges over a hole.
    """

    def silhouettes(cells: np.ndarray) -> np.ndarray:
        return small.silhouettes(grid.origin + grid.step * cells)

    number, shells = _parts(inside)
    drawn = [silhouettes(shell) for shell in shells]
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
    covered = silhouettes(np.argwhere(shell(body)))
    number, shells = _parts(keep & ~body)
    thin = np.array([False, *(small.needs(silhouettes(shell) & ~covered, 0.0) for shell in shells)])[number]
    return body | keep & near_cells(thin, THICK + SLACK) if thin.any() else body


def near_cells(cells: np.ndarray, distance: float) -> np.ndarray:
    """bool array like ``cells``: the cells at most this distance, in cells and below 11, from one that is
    set.

    The squared distance is a minimum along one axis after the other. Bytes are enough for it, as only small
    ones count, and much faster than the distance transform of SciPy.

    >>> near_cells(np.array([True, False, False, False]), 2).tolist()
    [True, True, True, False]
    """
    far, reach = np.uint8(255), int(distance)
    squares = np.where(cells, np.uint8(0), far)
    for axis in range(squares.ndim):
        before, squares = np.moveaxis(squares, axis, 0), squares.copy()
        after = np.moveaxis(squares, axis, 0)
        for step in range(1, min(reach, len(after) - 1) + 1):
            # No sum passes 255: it would begin again at 0.
            squared = np.minimum(before, far - np.uint8(step**2)) + np.uint8(step**2)
            np.minimum(after[step:], squared[:-step], out=after[step:])
            np.minimum(after[:-step], squared[step:], out=after[:-step])
    return squares <= int(distance**2)


def shell(inside: np.ndarray) -> np.ndarray:
    """The cells beside the outside: their silhouette is that of all."""
    return inside & ~np.asarray(binary_erosion(inside), dtype=bool)


def _parts(inside: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """The number, from 1 on, of the connected part of each cell (X, Y, Z), 0 outside, and the cells (P, 3) of
    each shell."""
    number, sizes = labelled(inside, np.ones((3, 3, 3)))
    rim = shell(inside)
    cells, part = np.argwhere(rim), number[rim]
    order = np.argsort(part, kind="stable")
    ends = np.cumsum(np.bincount(part, minlength=len(sizes))[1:])
    return number, np.split(cells[order], ends[:-1]) if len(sizes) > 1 else []


# The visual hull of masks as a signed field: how deep a point lies inside the cones of all masks.

PAD = 8
"""Pixels around a mask. Distances at their border extend beyond it."""
SMOOTH = 0.7
"""Blur of the distances in pixels, which removes the staircase of a binary outline."""
COARSE = 4
"""Cells of the fine grid along one cell of the grid that is evaluated first."""

SCENE = np.array([[-1.0] * 3, [1.0] * 3])
"""The box around the unit sphere, in which the object lies in units of the scene."""
SEEN = 1 / 3
"""Share of the views that have to show a point. What fewer show has hardly been carved."""
CARVED, LACK, FARTHEST = 0.12, 0.25, 8.0
"""Shares of the masks that may carve a limb, and that lack it at least; and how far from the rest it lies at most, in cells."""
CHUNK = 1 << 15
"""Points that are evaluated at once, so that what is computed of them stays in the cache."""


@dataclass(frozen=True, eq=False)
class Cones:
    """The cones of N masks. The field of a cone is the approximate signed distance to it, positive inside.

    matrices: (N, 4, 4) from the space of the points to clip space.  size: (W, H) of the masks.  distances: N
    images (H + 2 PAD, W + 2 PAD), signed pixels to the outline.  told: N such images of 0 and 1, the pixels
    whose coverage is known; None if all are.  box: (2, 3), outside of which nothing is.
    """

    matrices: np.ndarray
    size: tuple[int, int]
    distances: list[np.ndarray]
    told: list[np.ndarray | None]
    box: np.ndarray

    @classmethod
    def of(
        cls, matrices: np.ndarray, masks: np.ndarray, known: np.ndarray | None = None, box: np.ndarray = SCENE
    ) -> Cones:
        """The cones of masks (N, H, W). known: (N, H, W) bool, the valid pixels.

        Where coverage is unknown nothing is carved: beyond the border of a mask that is ``cut_off``, and at
        pixels that are not known. Any other mask shows the object as a whole, so that its outside goes on
        beyond the border.
        """
        cut, images, seen = cut_off(masks, known), [], []
        for i, mask in enumerate(np.asarray(masks) >= 0.5):
            told = np.ones(mask.shape, bool) if known is None else np.asarray(known[i]) > 0
            maybe = outline_distances(np.pad(mask | ~told, PAD, constant_values=bool(cut[i])))
            images.append(gaussian_filter(maybe, SMOOTH, mode="nearest").astype(np.float32))
            wide = np.pad(told, PAD, constant_values=not cut[i])
            seen.append(None if wide.all() else wide.astype(np.float32))
        height, width = masks.shape[1:]
        return cls(np.asarray(matrices, np.float64), (width, height), images, seen, np.asarray(box))

    def __len__(self) -> int:
        return len(self.matrices)

    def without(self, views: set[int]) -> Cones:
        """The cones of the other views."""
        rest = [i for i in range(len(self)) if i not in views]
        distances, told = ([images[i] for i in rest] for images in (self.distances, self.told))
        return replace(self, matrices=self.matrices[rest], distances=distances, told=told)

    def field(self, view: int, points: np.ndarray) -> np.ndarray:
        """(P,) float32 field of one cone at points (P, 3), in their units; infinite behind the camera."""
        row, column, depth = self._pixels(view, points)
        pixels = map_coordinates(self.distances[view], [row, column], order=1, mode="nearest")
        return np.where(depth > 1e-6, pixels * depth * np.float32(1 / self._focal(view)), np.inf)

    def domain(self, points: np.ndarray) -> np.ndarray:
        """(P,) a field of where the object can be at all: in the box, and where at least SEEN of the views
        show it."""
        inside = np.minimum(points - self.box[0], self.box[1] - points).min(1)
        limited = [view for view, told in enumerate(self.told) if told is not None]
        if not limited:
            return inside
        count = np.full(len(points), len(self) - len(limited))
        for view in limited:
            row, column, depth = self._pixels(view, points.astype(np.float32))
            seen = map_coordinates(self.told[view], [row, column], order=0, mode="nearest")
            count += (depth > 1e-6) & (seen > 0)
        return np.where(count < SEEN * len(self), -np.abs(inside), inside)

    def _focal(self, view: int) -> float:
        """Pixels of a length across the view, times its depth: |row 1| H / 2."""
        return float(np.linalg.norm(self.matrices[view, 1, :3])) * self.size[1] / 2

    def _pixels(self, view: int, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Row and column of float32 points (P, 3) in the padded image of a view, and their depth."""
        matrix, (width, height) = self.matrices[view].astype(np.float32), self.size
        x, y, depth = (matrix[k, :3] @ points.T + matrix[k, 3] for k in (0, 1, 3))
        scale = 0.5 / np.where(depth > 1e-6, depth, np.float32(1))
        row = y * scale * np.float32(height) + np.float32(0.5 * height + PAD - 0.5)
        column = x * scale * np.float32(width) + np.float32(0.5 * width + PAD - 0.5)
        return row, column, depth

    def fields(self, points: np.ndarray) -> np.ndarray:
        """(N, P) the fields of all cones at points (P, 3)."""
        return np.stack([self.field(view, points.astype(np.float32)) for view in range(len(self))])

    def hull(self, points: np.ndarray, least: float = -np.inf) -> np.ndarray:
        """(P,) the least field of all cones, positive inside the hull; below ``least`` only an upper
        bound."""
        field = self.domain(points)
        for first in range(0, len(points), CHUNK):
            alive = np.arange(first, min(first + CHUNK, len(points)))
            some = points[alive].astype(np.float32)
            for view in range(len(self)):
                stays = field[alive] >= least
                some, alive = some[stays], alive[stays]
                field[alive] = np.minimum(field[alive], self.field(view, some))
        return field

    def on(self, grid: Grid) -> np.ndarray:
        """(X, Y, Z) field of the hull on a grid: interpolated from a grid COARSE times as wide where the
        surface is farther away than a cell of that."""
        wide = tuple((count - 2) // COARSE + 2 for count in grid.shape)
        step = COARSE * grid.step
        points = Grid(grid.origin, step, (wide[0], wide[1], wide[2])).points().reshape(-1, 3)
        reach = np.sqrt(3) * step
        coarse = np.clip(self.hull(points, -2 * reach), -2 * reach, 2 * reach).reshape(wide)
        fine = zoom(coarse, [(COARSE * (count - 1) + 1) / count for count in wide], order=1)
        fine = np.ascontiguousarray(fine[tuple(slice(count) for count in grid.shape)])
        near = np.abs(fine) < reach
        points = grid.origin + grid.step * np.argwhere(near)
        fine[near] = np.clip(self.hull(points, -3 * grid.step), -2 * reach, 2 * reach)
        return fine

    def given_back(self, field: np.ndarray, grid: Grid) -> np.ndarray:
        """(X, Y, Z) a field of the hull on a grid, with limbs that few masks carve and many others lack, as thick as the rest of
        the masks allow. One made mask that lacks a rung, or a camera that is a pixel off, cuts it."""
        inside = grid.origin + grid.step * np.argwhere(field > 0)
        cells = np.argwhere((field <= 0) & (field > -FARTHEST * grid.step))
        if not len(inside) or not len(cells):
            return field
        width, height = self.size
        drawn = marked(self.matrices, inside.astype(np.float32), (height, width))
        points, lack = (grid.origin + grid.step * cells).astype(np.float32), np.zeros(len(cells), np.int32)
        for view, told in enumerate(self.told):
            # Cells that are wider than a pixel leave gaps between them.
            _, _, depth = self._pixels(view, inside.astype(np.float32))
            pixels = grid.step * self._focal(view) / np.median(depth)
            wide = 1 if pixels <= 1 else int(np.ceil(pixels)) + 1
            covered = np.asarray(binary_closing(np.pad(drawn[view], PAD), np.ones((wide, wide))), dtype=bool)
            missing = (self.distances[view] > 0) & ~covered & (True if told is None else told > 0)
            missing[:PAD] = missing[-PAD:] = missing[:, :PAD] = missing[:, -PAD:] = False
            row, column, depth = self._pixels(view, points)
            found = map_coordinates(missing.astype(np.uint8), [row, column], order=0, mode="constant")
            lack += (depth > 1e-6) & (found > 0)
        chosen = lack >= LACK * len(self)
        if not chosen.any():
            return field
        thick = np.sort(self.fields(points[chosen]), axis=0)[int(CARVED * len(self))]
        field, at = field.copy(), tuple(cells[chosen].T)
        field[at] = np.maximum(field[at], thick)
        return field


# The visual hull of the masks as a mesh to start from.

CELLS = 160
"""Most cells of the grid of the hull along its longest side."""
FINER = 2.0
"""How many times as many cells stereo has, whose depths are within a small part of a cell: total variation takes about
a cell off thin parts."""
MOST_CELLS = 8_000_000
"""Of the grid of stereo: thirty million take more than two minutes of a processor."""
CELLS_OF_PIXEL = 4
"""Most of them for a pixel of the longer side of the masks: smaller ones show nothing more."""
BLURS = (0.5, 1.0, 2.0)
"""Smoothing of the field in cells, for the creases where cones meet; hulls of frayed masks need more."""
MOST_FACES = 4.0
"""Most faces of the start relative to those that it should have."""


@dataclass(frozen=True, eq=False)
class Hull:
    """field: (X, Y, Z) on the grid, positive inside.  wrong: views left out because their masks contradict
    the others. agree: whether the others agree; if not there is no field."""

    field: np.ndarray
    grid: Grid
    small: Small
    wrong: list[int]
    agree: bool
    cones: Cones
    """Of the masks that agree."""

    @classmethod
    def of(
        cls, matrices: np.ndarray, masks: np.ndarray, known: np.ndarray | None = None, box: np.ndarray = SCENE
    ) -> Hull:
        """The hull of masks (N, H, W), valid where known (N, H, W) is true.  matrices: (N, 4, 4) from units
        of the scene to clip space.  box: (2, 3) around the object, in these units."""
        cones, small = Cones.of(matrices, masks, known, box), Small.of(matrices, masks, known)
        found = Agreement.of(cones, small)
        if not found.agree or found.box is None:
            nothing = np.full((1, 1, 1), -1.0), Grid(np.zeros(3), 1.0, (1, 1, 1))
            return cls(*nothing, small, found.wrong, False, cones)
        if found.wrong:
            cones = cones.without(set(found.wrong))
        return cls._on(found.box, CELLS, small, found.wrong, cones)

    @classmethod
    def _on(cls, box: np.ndarray, cells: int, small: Small, wrong: list[int], cones: Cones) -> Hull:
        """In a box (2, 3), on a grid of so many cells along its longest side."""
        grid = Grid.around(box, min(cells, CELLS_OF_PIXEL * max(cones.size)))
        field = cones.on(grid)
        keep = needed(field > 0, grid, small)
        # Points that are dropped lie outside; the surface between them and those that are kept is half way.
        field = cones.given_back(np.where((field > 0) & ~keep, -0.5 * grid.step, field), grid)
        reach = 3 * grid.step
        return cls(np.clip(field, -reach, reach), grid, small, wrong, bool(keep.any()), cones)

    def finer(self) -> Hull:
        """The same on a grid of up to FINER times as many cells along each side, about MOST_CELLS in all at most."""
        times = min((MOST_CELLS / self.field.size) ** (1 / 3), FINER)
        if times < 1.1:
            return self
        inside = self.points()
        margin = 2 * self.grid.step
        box = np.stack([inside.min(0) - margin, inside.max(0) + margin])
        found = self._on(box, int(times * CELLS), self.small, self.wrong, self.cones)
        return found if found.agree else self

    def points(self) -> np.ndarray:
        """(P, 3) the points of the grid inside the hull."""
        return self.grid.origin + self.grid.step * np.argwhere(self.field > 0)

    def mesh(self, faces: int) -> Mesh:
        """The surface as a closed mesh of about that many faces, more where thin parts need them, without UVs
        and folds. Raises InputError if no smoothing of BLURS gives one."""
        for blur in BLURS:
            mesh = surface_of(gaussian_filter(self.field, blur), self.grid, faces)
            if mesh is not None and len(mesh.faces) <= MOST_FACES * faces:
                return unfolded(mesh)
        raise InputError(
            f"the visual hull of the masks is too rough for a closed mesh of {faces} faces: check the masks,"
            " or give --start sphere"
        )
