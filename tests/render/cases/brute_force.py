"""An independent rasterizer of the face form of HardSoftRas: float64 NumPy, every (face, pixel) pair, no graph.

The definitions it implements, one picture of ``width`` x ``height`` pixels, lengths in units of the image height:

- vertex on the screen: ``x = (X / W * 0.5 + 0.5) * width / height``, ``y = Y / W * 0.5 + 0.5``, depth ``Z / W``;
- dist(pixel centre, face): distance to the nearest of the three edges (as segments), positive inside and on
  the face, negative outside;
- a fragment exists where ``dist >= -radius``; its depth is ``0.5 depth`` for ``dist >= 0``, else
  ``0.5 |dist| + 0.5`` (equation 3); layers 1..K are the K first by (depth, face number);
- D = sigmoid(dist / sigma), S = (dist of layer 1 >= 0), E = 1 where the square window of +-delta around the
  pixel (cut at the border of the image) holds both values of S;
- silhouette = E (1 - prod(1 - D)) + (1 - E) S (equations 4 and 6).

Faces are cut into polygons at the near plane (``clipped``); what is left of their own edges counts, the cut does not.
They are dropped when a corner is not finite or has z >= 0 and w <= 0, when the projection has no area, and, with
``cull="back"``, when it is turned away from the viewer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

W_MINIMUM = 1e-6
AREA_MINIMUM = 1e-10


P = ParamSpec("P")
T = TypeVar("T")


def remembered(function: Callable[P, T]) -> Callable[P, T]:
    """What depends on no driver is computed once: the results of the last calls, by the contents of their arguments."""
    results: dict[Any, T] = {}

    @wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> T:
        values = (*arguments, *options.items())
        key = tuple((v.tobytes(), v.shape, v.dtype) if isinstance(v, np.ndarray) else v for v in values)
        if key not in results:
            if len(results) >= 64:
                del results[next(iter(results))]
            results[key] = function(*arguments, **options)
        return results[key]

    return call


def to_screen(clip: np.ndarray, width: int, height: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Screen positions (V, 2) in units of the image height, depths (V,), and which vertices can be drawn."""
    w = clip[:, 3]
    good = np.isfinite(clip).all(1) & (w > W_MINIMUM) & (clip[:, 2] >= 0)
    ndc = np.where(good[:, None], clip[:, :3], 0) / np.where(good, w, 1.0)[:, None]
    xy = (ndc[:, :2] * 0.5 + 0.5) * np.array([width / height, 1.0])
    return np.where(good[:, None], xy, 0.0), np.where(good, ndc[:, 2], 0.0), good


@dataclass
class Clipped:
    """A mesh cut at the near plane: triangles of the polygons that are left of its faces."""

    faces: np.ndarray
    """(T, 3): vertices, those from V on are new."""
    owner: np.ndarray
    """(T,): the face that a triangle is of."""
    real: np.ndarray
    """(T, 3): whether the side from corner k to k + 1 is part of an edge of the face."""
    pairs: np.ndarray
    """(N, 2): new vertex V + k is where the edge between these two meets the near plane."""

    def points(self, clip: np.ndarray) -> np.ndarray:
        """Clip positions of the old and the new vertices."""
        a, b = clip[self.pairs[:, 0]], clip[self.pairs[:, 1]]
        t = a[:, 2:3] / (a[:, 2:3] - b[:, 2:3])
        new = a + t * (b - a)
        new[:, 2] = 0
        return np.concatenate([clip, new])

    def pull(self, clip: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """The gradient by the vertices (V, 4) from that by old and new ones."""
        a, b, new = clip[self.pairs[:, 0]], clip[self.pairs[:, 1]], gradient[len(clip) :]
        apart = a[:, 2] - b[:, 2]
        t, by_t = (a[:, 2] / apart)[:, None], (new * (b - a)).sum(1)
        by_a, by_b = (1 - t) * new, t * new
        by_a[:, 2], by_b[:, 2] = -by_t * b[:, 2] / apart**2, by_t * a[:, 2] / apart**2
        total = gradient[: len(clip)].copy()
        np.add.at(total, self.pairs[:, 0], by_a)
        np.add.at(total, self.pairs[:, 1], by_b)
        return total


def clipped(clip: np.ndarray, faces: np.ndarray) -> Clipped:
    """Sutherland and Hodgman at z = 0, each polygon a fan of triangles."""
    there = np.isfinite(clip).all(1) & ((clip[:, 2] < 0) | (clip[:, 3] > W_MINIMUM))
    new: dict[tuple[int, int], int] = {}
    triangles, owner, real = [], [], []
    for number, face in enumerate(faces.tolist()):
        if not there[face].all():
            continue
        corners, sides = [], []  # the side after each corner: of the face's own edge, or the cut
        for a, b in zip(face, face[1:] + face[:1], strict=True):
            behind = clip[a, 2] >= 0, clip[b, 2] >= 0
            if behind[0]:
                corners.append(a)
                sides.append(True)
            if behind[0] != behind[1]:
                corners.append(new.setdefault((min(a, b), max(a, b)), len(clip) + len(new)))
                sides.append(behind[1])
        for k in range(1, len(corners) - 1):
            triangles.append((corners[0], corners[k], corners[k + 1]))
            owner.append(number)
            real.append((k == 1 and sides[0], sides[k], k == len(corners) - 2 and sides[-1]))
    return Clipped(
        np.array(triangles, int).reshape(-1, 3), np.array(owner, int), np.array(real, bool).reshape(-1, 3), np.array(list(new), int).reshape(-1, 2)
    )  # fmt: skip


def double_area(xy: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Twice the signed area; positive when counter-clockwise for the viewer (y grows downward)."""
    a, b, c = (xy[faces[:, i]] for i in range(3))
    return (b[:, 1] - a[:, 1]) * (c[:, 0] - a[:, 0]) - (b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1])


@dataclass
class Fragments:
    """Pairs of a face and a pixel that the enlarged face reaches: parallel arrays."""

    pixel: np.ndarray
    face: np.ndarray
    dist: np.ndarray
    depth: np.ndarray
    start: np.ndarray  # nearest edge: its end points (vertex numbers) ...
    end: np.ndarray
    weight: np.ndarray  # ... and how much of the nearest point is the second one
    away: np.ndarray  # unit vector from the nearest point to the pixel

    def __getitem__(self, keep: np.ndarray) -> Fragments:
        return Fragments(*(getattr(self, name)[keep] for name in self.__dataclass_fields__))


def fragments(
    clip: np.ndarray, faces: np.ndarray, size: tuple[int, int], radius: float, cull: str
) -> Fragments:
    """Every fragment of every enlarged face, ordered by (pixel, depth, face)."""
    width, height = size
    cut = clipped(clip, faces)
    faces = cut.faces
    xy, depths, good = to_screen(cut.points(clip), width, height)
    area = double_area(xy, faces)
    drawn = good[faces].all(1) & (np.abs(area) > AREA_MINIMUM)
    if cull == "back":
        drawn &= area > 0
    numbers = np.flatnonzero(drawn)
    corners = xy[faces[numbers]]
    low = np.ceil((corners.min(1) - radius) * height - 0.5 - 1e-9).astype(int).clip(0)
    high = np.floor((corners.max(1) + radius) * height - 0.5 + 1e-9).astype(int)
    span = (np.minimum(high, [width - 1, height - 1]) - low + 1).clip(0)
    counts = span[:, 0] * span[:, 1]

    def spread(values: np.ndarray) -> np.ndarray:
        """Values of triangles at their fragments."""
        return np.repeat(values, counts)

    total = counts.sum()
    inner = np.arange(total) - spread(np.cumsum(counts) - counts)
    columns = spread(np.maximum(span[:, 0], 1))
    x, y = spread(low[:, 0]) + inner % columns, spread(low[:, 1]) + inner // columns
    px, py = (x + 0.5) / height, (y + 0.5) / height
    inside, best = np.ones(total, bool), np.full(total, np.inf)
    start, end = np.zeros(total, int), np.zeros(total, int)
    weight, away_x, away_y, depth = best.copy(), np.zeros(total), np.zeros(total), np.zeros(total)
    sides, areas = spread(np.sign(area[numbers])), spread(area[numbers])
    for i in range(3):
        first, second, third = (faces[numbers, (i + j) % 3] for j in range(3))
        a, b = np.minimum(first, second), np.maximum(first, second)
        u = xy[b] - xy[a]
        ax, ay, bx, by, ux, uy = (spread(v) for v in (*xy[a].T, *xy[b].T, *u.T))
        qx, qy = px - ax, py - ay
        cross = (uy * qx - ux * qy) * spread(np.where(first < second, 1.0, -1.0))
        inside &= cross * sides >= 0
        depth += cross / areas * spread(depths[third])
        t = (qx * ux + qy * uy) / spread(np.maximum((u * u).sum(1), 1e-30))
        before, behind = t <= 0, t >= 1
        ox = px - np.where(before, ax, np.where(behind, bx, ax + t * ux))
        oy = py - np.where(before, ay, np.where(behind, by, ay + t * uy))
        squared = ox * ox + oy * oy
        closer = (squared < best) & spread(cut.real[numbers, i])
        best = np.where(closer, squared, best)
        start, end = np.where(closer, spread(a), start), np.where(closer, spread(b), end)
        weight = np.where(closer, t.clip(0, 1), weight)
        away_x, away_y = np.where(closer, ox, away_x), np.where(closer, oy, away_y)
    # Of two triangles of one face the nearest edge counts; inside is inside of either.
    face, pixel = spread(cut.owner[numbers]), y * width + x
    key = pixel * (face.max(initial=0) + 1) + face
    alone = len(np.unique(cut.owner)) == len(cut.owner)
    order = np.argsort(key) if alone else np.lexsort((best, key))
    first = np.flatnonzero(np.diff(key[order], prepend=-1))
    if len(first):
        depth = np.maximum.reduceat(np.where(inside, depth, -np.inf)[order], first)
    order = order[first]
    face, pixel, best, start, end, weight, away_x, away_y = (
        a[order] for a in (face, pixel, best, start, end, weight, away_x, away_y)
    )
    depth, length = depth[: len(face)], np.sqrt(best)
    inside = depth > -np.inf
    dist = np.where(inside, length, -length)
    away = np.stack([away_x, away_y], axis=1) / np.maximum(length, 1e-30)[:, None]
    shifted = np.where(inside, 0.5 * depth.clip(0, 1), 0.5 * length + 0.5)
    found = Fragments(pixel, face, dist, shifted, start, end, weight, away)[dist >= -radius]
    return found[np.lexsort((found.depth, found.pixel))]  # equal ones stay in order of their faces


def dilate(image: np.ndarray, texels: int) -> np.ndarray:
    """Maximum over the square window of +-texels, cut at the border."""
    padded = np.pad(image, texels, constant_values=image.min())
    columns = np.max([padded[:, i : i + image.shape[1]] for i in range(2 * texels + 1)], axis=0)
    return np.max([columns[i : i + image.shape[0]] for i in range(2 * texels + 1)], axis=0)


@dataclass
class Picture:
    """What is drawn. Layers are (K, height, width); ``face`` is -1 and ``d`` is 0 where a layer is empty."""

    layers: list[Fragments]
    face: np.ndarray
    dist: np.ndarray
    d: np.ndarray
    hard: np.ndarray
    edge: np.ndarray
    silhouette: np.ndarray
    cut: Clipped


def render(
    clip: np.ndarray,
    faces: np.ndarray,
    size: tuple[int, int],
    *,
    radius: float,
    layers: int = 3,
    sigma: float | None = None,
    delta: float | None = None,
    cull: str = "back",
) -> Picture:
    """Draw the mesh. ``clip`` (V, 4), ``faces`` (F, 3); lengths are fractions of the image height."""
    width, height = size
    sigma = radius / 7 if sigma is None else sigma
    found = fragments(clip, faces, size, radius, cull)
    first = np.searchsorted(found.pixel, found.pixel)
    rank = np.arange(len(found.pixel)) - first
    peeled = [found[rank == k] for k in range(layers)]
    face = np.full((layers, height * width), -1)
    dist = np.full((layers, height * width), -radius)
    d = np.zeros((layers, height * width))
    for k, layer in enumerate(peeled):
        face[k, layer.pixel] = layer.face
        dist[k, layer.pixel] = layer.dist
        d[k, layer.pixel] = 1 / (1 + np.exp(-layer.dist / sigma))
    shape = (layers, height, width)
    face, dist, d = face.reshape(shape), dist.reshape(shape), d.reshape(shape)
    hard = ((face[0] >= 0) & (dist[0] >= 0)).astype(float)
    reach = int(np.floor((radius if delta is None else delta) * height + 0.5))
    edge = dilate(hard, reach) * dilate(1 - hard, reach)
    silhouette = edge * (1 - np.prod(1 - d, axis=0)) + (1 - edge) * hard
    return Picture(peeled, face, dist, d, hard, edge, silhouette, clipped(clip, faces))


def frozen_silhouette(picture: Picture, clip: np.ndarray, sigma: float) -> np.ndarray:
    """The silhouette when the vertices move but the winners, their nearest edges, S and E stay as they were."""
    _, height, width = picture.face.shape
    xy, _, _ = to_screen(picture.cut.points(clip), width, height)
    missed = np.ones(height * width)
    for layer in picture.layers:
        p = np.stack([layer.pixel % width + 0.5, layer.pixel // width + 0.5], 1) / height
        a, b = xy[layer.start], xy[layer.end]
        t = ((p - a) * (b - a)).sum(1) / np.maximum(((b - a) ** 2).sum(1), 1e-30)
        length = np.linalg.norm(p - a - t.clip(0, 1)[:, None] * (b - a), axis=1)
        dist = np.where(layer.dist >= 0, length, -length)
        missed[layer.pixel] *= 1 - 1 / (1 + np.exp(-dist / sigma))
    soft = 1 - missed.reshape(height, width)
    return picture.edge * soft + (1 - picture.edge) * picture.hard


def frozen_gradient(
    picture: Picture, clip: np.ndarray, upstream: np.ndarray, sigma: float, step: float = 1e-6
) -> np.ndarray:
    """Central differences of ``sum(upstream * frozen silhouette)`` by every clip coordinate, (V, 4)."""
    result = np.zeros(clip.shape)
    for index in np.ndindex(*clip.shape):
        loss = []
        for sign in (step, -step):
            moved = clip.copy()
            moved[index] += sign
            loss.append((upstream * frozen_silhouette(picture, moved, sigma)).sum())
        result[index] = (loss[0] - loss[1]) / (2 * step)
    return result
