"""Visual hulls of silhouettes: how far masks alone determine a shape.

The hull of some masks is the largest shape that fits into all of them. The IoU of its silhouettes in other
views is the baseline for fits from silhouettes: a better fit has used more than the masks.
"""

from __future__ import annotations

import numpy as np
import scipy

from ...errors import InputError
from ..cameras import Camera, Cameras
from .metrics import iou

_POOL = 4
"""Cells along each side of one of the grid that says which rays miss the hull."""
_WRONG = 0.1
"""Share of the masks that may lack a part which the box of the object holds all the same."""
_CELLS = 128
"""Most cells along each side of the grid that bounds the hull: 16 times a power of two. Two for a pixel of
the masks are enough, as a cell is kept if it lies within 1.5 pixels of one that is covered."""


def hull_iou(
    train_masks: np.ndarray,
    train_cameras: Cameras,
    held_out_masks: np.ndarray,
    held_out_cameras: Cameras,
    bounds: np.ndarray,
    *,
    largest: bool = True,
    train_known: np.ndarray | None = None,
    held_out_known: np.ndarray | None = None,
) -> float:
    """IoU, mean over the held-out views, of the hull's silhouettes against masks (M, H, W), where those are
    known. See `hull_masks`."""
    masks = hull_masks(
        train_masks, train_cameras, held_out_cameras, bounds, largest=largest, known=train_known
    )
    return iou(masks, held_out_masks, held_out_known)


def hull_masks(
    masks: np.ndarray,
    cameras: Cameras,
    views: Cameras,
    bounds: np.ndarray,
    *,
    largest: bool = True,
    step: float = 0.5,
    known: np.ndarray | None = None,
) -> np.ndarray:
    """(M, H, W) 0 or 1: silhouettes of the hull of masks (N, H', W') in other views.

    A pixel is covered when some point of the ray through its centre, inside bounds (2, 3), lies in every
    mask. Neighbouring samples of a ray are `step` mask pixels apart; a coarse grid skips empty space. A point
    outside a mask's image, or where it is not known (N, H', W'), is unknown there and is not carved; a point
    that no camera sees is not in the hull.

    largest: keep only the largest connected component. A hull of few masks has phantom components where the
    cones of the masks happen to meet; their number depends on the bounds.
    """
    masks = np.asarray(masks) >= 0.5
    known = _known(masks, known)
    bounds = np.asarray(bounds, dtype=np.float64)
    grid = _grid(masks, known, cameras, bounds, largest)
    return np.stack([_silhouette(masks, known, cameras, grid, view, bounds, step) for view in views])


def inside_masks(
    masks: np.ndarray,
    cameras: Cameras,
    points: np.ndarray,
    least_seen: int = 1,
    known: np.ndarray | None = None,
    lacking: int = 0,
) -> np.ndarray:
    """(P,) bool: points (P, 3) of the hull of bool masks (N, H, W), seen by at least `least_seen` cameras
    where those are known. So many masks may be `lacking` a point."""
    alive = np.arange(len(points))
    seen, outside = np.zeros((2, len(points)), dtype=np.int64)
    for mask, told, camera in zip(masks, _known(masks, known), cameras, strict=True):
        sees, covered = look_up(mask, told, camera, points[alive])
        seen[alive] += sees
        outside[alive] += sees & ~covered
        alive = alive[outside[alive] <= lacking]
    inside = np.zeros(len(points), dtype=bool)
    inside[alive] = True
    return inside & (seen >= least_seen)


def estimate_bounds(
    masks: np.ndarray, cameras: Cameras, grid: int = 64, known: np.ndarray | None = None
) -> np.ndarray:
    """(2, 3) box of the object that masks (N, H, W) show where they are known, from its coarse hull.

    The search starts from the point nearest to the rays through the masks' centroids. Raises InputError
    naming the view when a camera looks away from the object or stands inside it, and when fewer than two
    views are given.
    """
    if len(cameras) < 2:
        raise InputError(
            "one photograph does not say where the object is; give at least two, or a bounding box"
        )
    masks = np.asarray(masks) >= 0.5
    center = nearest_point(*mask_rays(masks, cameras))
    extents = []
    for mask, camera in zip(masks, cameras, strict=True):
        pixel, depth = camera.project(center)
        if depth <= 0:
            raise InputError(f"the camera of '{camera.name}' looks away from the object; check its matrices")
        y, x = np.nonzero(mask)
        reach = np.hypot(
            (x + 0.5 - pixel[0]) / camera.intrinsics[0, 0], (y + 0.5 - pixel[1]) / camera.intrinsics[1, 1]
        )
        extents.append(reach.max() * depth)
    distances = np.linalg.norm(cameras.centers - center, axis=1)
    typical = float(np.median(extents))
    if (distances < typical).any():
        name = cameras[int(np.argmin(distances))].name
        raise InputError(f"the camera of '{name}' is inside the object; check its matrices")
    # Half of the distance is a bound: an object does not extend behind most of its cameras.
    half = 1.25 * min(max(extents), float(np.median(distances)))
    axis = (np.arange(grid) + 0.5) / grid * 2 - 1
    points = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3) * half + center
    # Thin parts fall between the points of a coarse grid: a cell counts if masks show any of it.
    reach = np.sqrt(3) * half / grid
    wide = [reach * camera.intrinsics[0, 0] / camera.project(center)[1] for camera in cameras]
    grown = np.stack(
        [
            scipy.ndimage.distance_transform_edt(~mask) <= pixels
            for mask, pixels in zip(masks, wide, strict=True)
        ]
    )
    lacking = int(_WRONG * len(cameras))
    inside = inside_masks(grown, cameras, points, (len(cameras) + 1) // 2, known, lacking)
    if not inside.any():
        return np.stack([center - typical, center + typical])
    points = points[_largest(inside.reshape((grid,) * 3)).reshape(-1)]
    return np.stack([points.min(0) - half / grid, points.max(0) + half / grid])


def check_cameras(cameras: Cameras, bounds: np.ndarray) -> None:
    """Raise InputError naming the views whose cameras are inside the box, look away from it, or miss it."""
    center, radius = sphere_of(bounds)
    wrong: dict[str, list[str]] = {}
    for camera in cameras:
        pixel, depth = camera.project(center)
        if ((camera.center > bounds[0]) & (camera.center < bounds[1])).all():
            wrong.setdefault("inside the object's box", []).append(f"'{camera.name}'")
        elif depth <= 0:
            wrong.setdefault("turned so that the object is behind it", []).append(f"'{camera.name}'")
        else:
            reach = radius / depth * np.array([camera.intrinsics[0, 0], camera.intrinsics[1, 1]])
            if (pixel + reach < 0).any() or (pixel - reach > camera.size).any():
                wrong.setdefault("placed so that it does not see the object", []).append(f"'{camera.name}'")
    if wrong:
        text = "; ".join(f"the camera of {', '.join(names)} is {how}" for how, names in wrong.items())
        raise InputError(f"{text}; check its matrices and the object's box")


def sphere_of(bounds: np.ndarray) -> tuple[np.ndarray, float]:
    """Centre and radius of the sphere through the corners of a box (2, 3)."""
    return bounds.mean(0), float(np.linalg.norm(bounds[1] - bounds[0]) / 2)


def _known(masks: np.ndarray, known: np.ndarray | None) -> np.ndarray:
    return np.ones(masks.shape, dtype=bool) if known is None else np.asarray(known) > 0


def look_up(
    mask: np.ndarray, told: np.ndarray, camera: Camera, points: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(P,) bool each: whether points (P, 3) project to known pixels of an image, and whether its mask is set there.

    >>> from dressi.render import Camera
    >>> camera, all_set = Camera.perspective(40, (8, 8), (0, 0, 4), (0, 0, 0)), np.ones((8, 8), bool)
    >>> [found.tolist() for found in look_up(all_set, all_set, camera, np.array([[0.0, 0, 0], [9, 0, 0]]))]
    [[True, False], [True, False]]
    """
    matrix = (camera.intrinsics @ camera.view[:3]).astype(points.dtype)
    image = points @ matrix[:, :3].T + matrix[:, 3]
    front = image[:, 2] > 0
    depth = np.where(front, image[:, 2], 1)
    # Clipped before the conversion: far outside, pixel numbers do not fit into an integer.
    x = np.floor(np.clip(image[:, 0] / depth, -1, camera.size[0])).astype(np.int32)
    y = np.floor(np.clip(image[:, 1] / depth, -1, camera.size[1])).astype(np.int32)
    within = front & (x >= 0) & (y >= 0) & (x < camera.size[0]) & (y < camera.size[1])
    place = np.where(within, y, 0), np.where(within, x, 0)
    sees = within & told[place]
    return sees, mask[place] & sees


def _grid(
    masks: np.ndarray, known: np.ndarray, cameras: Cameras, bounds: np.ndarray, largest: bool
) -> np.ndarray:
    """(C, C, C) uint8, from coarse to fine: 0 for cells without a point of the hull, 2 for those that lie in
    it altogether, 1 for the others. Only these are divided: the work grows with the surface of the hull."""
    outside = [_distances(mask | ~told) for mask, told in zip(masks, known, strict=True)]
    inside = [_distances(~(mask & told)) for mask, told in zip(masks, known, strict=True)]
    cells, side = np.indices((16,) * 3).reshape(3, -1).T, 16
    grid = np.zeros((side,) * 3, dtype=np.uint8)
    while True:
        centers = bounds[0] + (cells + 0.5) / side * (bounds[1] - bounds[0])
        reach = float(np.linalg.norm(bounds[1] - bounds[0])) / side / 2
        kinds = _kinds(outside, inside, cameras, centers.astype(np.float32), reach)
        grid[tuple(cells.T)] = kinds
        if side >= min(2 * max(masks.shape[1:]), _CELLS):
            break
        children = np.indices((2, 2, 2)).reshape(3, -1).T
        cells, side = (2 * cells[kinds == 1][:, None] + children).reshape(-1, 3), 2 * side
        grid = grid.repeat(2, 0).repeat(2, 1).repeat(2, 2)
    return grid * _largest(grid > 0) if largest else grid


def _largest(grid: np.ndarray) -> np.ndarray:
    """The connected part with the most cells of a bool grid."""
    labels, sizes = labelled(grid, np.ones((3, 3, 3)))
    return grid & (labels == 1 + np.argmax(np.append(sizes[1:], 0)))


def labelled(mask: np.ndarray, structure: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the connected parts of a bool array, from 1 on, 0 outside; and the size of each
    number."""
    number = np.zeros(mask.shape, dtype=np.int32)
    scipy.ndimage.label(mask, structure, output=number)
    return number, np.bincount(number.reshape(-1))


def _silhouette(
    masks: np.ndarray,
    known: np.ndarray,
    cameras: Cameras,
    grid: np.ndarray,
    view: Camera,
    bounds: np.ndarray,
    step: float,
) -> np.ndarray:
    width, height = view.size
    origin, directions = view.rays()
    directions = directions.reshape(-1, 3)
    with np.errstate(divide="ignore"):
        near, far = ((bounds[k] - origin) / directions for k in (0, 1))
    start = np.maximum(np.minimum(near, far).max(1), 0)
    length = np.maximum(near, far).min(1) - start
    pixels = np.nonzero(length > 0)[0]
    covered = np.zeros(width * height, dtype=np.float32)
    count = _samples(cameras, bounds, step)

    def cells(grid: np.ndarray, rays: np.ndarray, samples: int) -> tuple[np.ndarray, np.ndarray]:
        """Depths (R, samples) along rays, and the cells of a grid there."""
        side = len(grid)
        scale = side / (bounds[1] - bounds[0])
        fractions = (np.arange(samples) + 0.5) / samples
        depth = (start[rays, None] + fractions * length[rays, None]).astype(np.float32)
        # One axis after the other keeps the arrays small and in the cache.
        place = np.zeros(depth.shape, dtype=np.int32)
        for k in range(3):
            offset = ((origin[k] - bounds[0, k]) * scale[k]).astype(np.float32)
            slope = (directions[rays, k] * scale[k]).astype(np.float32)
            place *= side
            place += np.clip(depth * slope[:, None] + offset, 0, side - 1).astype(np.int32)
        return depth, grid.reshape(-1)[place]

    # Most rays miss the hull. Between samples a cell of the coarse grid apart a ray passes no cell but theirs
    # and their neighbours.
    coarse = grid.reshape(len(grid) // _POOL, _POOL, len(grid) // _POOL, _POOL, -1, _POOL).max((1, 3, 5))
    near_hull = scipy.ndimage.binary_dilation(coarse > 0, np.ones((3, 3, 3)))
    apart = int(np.ceil(3**0.5 * len(coarse)))
    pixels = pixels[cells(near_hull, pixels, apart)[1].any(axis=1)]
    # From coarse to fine: few samples decide most covered pixels; only the rest is sampled densely.
    for samples in sorted({max(count // 16, 8), count}):
        chunk = max(1, 1_000_000 // samples)
        for i in range(0, len(pixels), chunk):
            rays = pixels[i : i + chunk]
            depth, kinds = cells(grid, rays, samples)
            sure = (kinds == 2).any(axis=1)
            covered[rays[sure]] = 1
            row, column = np.nonzero((kinds == 1) & ~sure[:, None])
            points = (origin + depth[row, column, None] * directions[rays[row]]).astype(np.float32)
            covered[rays[row[inside_masks(masks, cameras, points, known=known)]]] = 1
        pixels = pixels[covered[pixels] == 0]
    return covered.reshape(height, width)


def _kinds(
    outside: list[np.ndarray], inside: list[np.ndarray], cameras: Cameras, points: np.ndarray, reach: float
) -> np.ndarray:
    """(P,) uint8: 0 where nothing within `reach` of a point (P, 3) can lie in the hull, 2 where all of it
    does, else 1. outside, inside: ``_distances`` to pixels that carve nothing, and to those that are not
    known to be covered."""
    alive, sure = np.arange(len(points)), np.ones(len(points), dtype=bool)
    for to_covered, to_open, camera in zip(outside, inside, cameras, strict=True):
        # Row by row: arrays of one coordinate each are several times as fast as one of short rows.
        local = camera.rotation.astype(np.float32) @ points[alive].T
        u, v, depth = local + camera.translation.astype(np.float32)[:, None]
        u, v = (a / np.where(depth > 0, depth, np.float32(1)) for a in (u, v))
        k = camera.intrinsics
        x, y = (
            np.floor(np.clip(row[0] * u + row[1] * v + row[2], -1, most)).astype(np.int32) + 1
            for row, most in zip(k[:2].astype(np.float32), camera.size, strict=True)
        )
        # An offset d moves (X, Y) / Z by at most |d| (1 + |(X, Y) / Z|) / (Z - |d|); 1.5 pixels are for the
        # rounding of both places to pixels.
        room = depth - reach
        moved = reach * (1 + np.sqrt(u * u + v * v)) / np.where(room > 0, room, 1)
        moved = moved * np.linalg.norm(k[:2, :2], 2) + 1.5
        sure[alive] &= (to_open[y, x] > moved) & (room > 0)
        alive = alive[(to_covered[y, x] <= moved) | (room <= 0)]
    kinds = np.zeros(len(points), dtype=np.uint8)
    kinds[alive] = 1 + sure[alive]
    return kinds


def _distances(mask: np.ndarray) -> np.ndarray:
    """(H + 2, W + 2) pixels to the nearest one that is set or outside the image: what is outside is
    unknown."""
    return np.asarray(
        scipy.ndimage.distance_transform_edt(~np.pad(mask, 1, constant_values=True)), dtype=np.float32
    )


def _samples(cameras: Cameras, bounds: np.ndarray, step: float) -> int:
    """Samples for a ray through the whole box so that no image sees two of them further apart than `step`
    pixels."""
    center, radius = sphere_of(bounds)
    most = 0.0
    for camera in cameras:
        distance = max(float(np.linalg.norm(camera.center - center)) - radius / 2, 1e-9)
        most = max(most, 2 * radius * camera.intrinsics[:2, :2].max() / distance)
    return int(np.clip(np.ceil(most / step), 16, 4096))


def mask_rays(masks: np.ndarray, cameras: Cameras) -> tuple[np.ndarray, np.ndarray]:
    """Origins (N, 3) and unit directions (N, 3) in the world of the rays through the centroids of masks (N,
    H, W), covered where not 0. No mask may be empty."""
    directions = []
    for mask, camera in zip(masks, cameras, strict=True):
        y, x = np.nonzero(mask)
        inside = np.linalg.solve(camera.intrinsics, [x.mean() + 0.5, y.mean() + 0.5, 1.0])
        directions.append(camera.rotation.T @ (inside / np.linalg.norm(inside)))
    return np.stack([camera.center for camera in cameras]), np.stack(directions)


def nearest_point(
    origins: np.ndarray, directions: np.ndarray, guess: np.ndarray | None = None, pull: float = 1e-3
) -> np.ndarray:
    """(3,) the point with the least squared distance to rays from origins (N, 3) in unit directions (N, 3).

    guess: (3,) a point whose squared distance counts ``pull`` times; it decides along directions that the
    rays leave open.
    """
    across = np.eye(3) - directions[:, :, None] * directions[:, None, :]
    system, right = across.sum(0), np.einsum("nij,nj->i", across, origins)
    if guess is not None:
        system, right = system + pull * np.eye(3), right + pull * guess
    return np.linalg.lstsq(system, right, rcond=None)[0]
