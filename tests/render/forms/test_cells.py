"""Edges between the centres of four pixels: areas and lengths of polygons are exact."""

import numpy as np
import pytest

from dressi import F, evaluate
from dressi.ad.graph.types import IVEC3, VEC4
from dressi.render import list_leaf
from dressi.render.forms.cells import segments, taken
from dressi.render.forms.form import HARD
from dressi.render.forms.hard_soft_ras import draw_form
from dressi.render.forms.pairs import EDGES

SIZE, SAMPLES, GRID = 12, 32, 80
STARTS, ENDS = np.array([(0, 0), (0, 1), (0, 0), (1, 0)]), np.array([(1, 0), (1, 1), (0, 1), (1, 1)])


def square_of(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float]:
    """The sides of a square that one or two straight edges cross, and the area beyond them of the quarter at (0, 0)."""
    normals = rng.normal(size=(rng.integers(1, 3), 2))
    if rng.integers(4) == 0:
        normals = np.round(normals / abs(normals).max(1, keepdims=True))  # along rows, columns and diagonals
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    offsets = rng.uniform(-0.6, 0.6, len(normals)) + normals.sum(1) / 2
    either = rng.integers(2)

    def inside(points: np.ndarray) -> np.ndarray:
        below = points @ normals.T < offsets
        return below.any(-1) if either else below.all(-1)

    place, slope = np.full(4, -1.0), np.zeros(4)
    for k, (p, q) in enumerate(zip(STARTS, ENDS, strict=True)):
        along = inside(p + np.linspace(0, 1, 400)[:, None] * (q - p))
        if (along[1:] != along[:-1]).sum() > 1:
            return square_of(rng)  # A tip that no centre sees.
        if along[0] == along[-1]:
            continue
        way = normals @ (q - p)
        crossed = (offsets - normals @ p) / np.where(way == 0, 1e-9, way)
        line = np.argmin(abs(crossed - np.argmax(along != along[0]) / 399))
        place[k] = crossed[line]
        slope[k] = -normals[line, 1 - k // 2] / normals[line, k // 2]
    quarter = (np.stack(np.meshgrid(*[np.arange(GRID)] * 2), -1) + 0.5) / GRID / 2
    return place, slope, (inside(quarter) != inside(np.zeros(2))).mean() / 4


def test_areas_beyond_corners_are_exact():
    rng = np.random.default_rng(1)
    squares = [square_of(rng) for _ in range(400)]
    place, slope, areas = (np.stack(x, -1) for x in zip(*squares, strict=True))
    found = sum(taken(place, *segments(place, slope)))
    assert (areas > 0.01).sum() > 100
    assert (abs(found - areas) < 0.004).mean() > 0.99
    assert abs(found - areas).mean() < 0.001


@pytest.mark.parametrize("seed", range(3))
def test_a_polygon_covers_its_area(seed: int):
    """Five corners anywhere: pixel by pixel as with 32x32 samples, but at the tip of a corner beyond all centres."""
    rng = np.random.default_rng(seed)
    angle = 2 * np.pi * (np.arange(5) + rng.uniform(-0.2, 0.2, 5)) / 5
    corners = np.stack([np.cos(angle), np.sin(angle), 0 * angle, 1 + 0 * angle], -1) * (0.75, 0.75, 1, 1)
    faces = np.array([(0, 1, 2), (0, 2, 3), (0, 3, 4)])

    def mask(form, samples):
        clip, size = list_leaf("corners", VEC4, corners + (0, 0, 0.5, 0)), (SIZE * samples, SIZE * samples)
        return draw_form(form, clip, list_leaf("faces", IVEC3, faces), size, len(faces)).silhouette

    truth, own = evaluate([F.resize(mask(HARD, SAMPLES), (SIZE, SIZE), "area"), mask(EDGES, 1)])
    assert ((truth > 0.02) & (truth < 0.98)).sum() > 20
    assert (abs(own - truth) > 0.01).sum() <= 2 and abs(own - truth).max() < 0.1
