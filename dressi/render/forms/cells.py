"""Edges in the squares between the centres of four pixels: how long they are, and which area lies beyond them.

Edges are known where they cross the sides of such a square (``pairs.pair_of``), as a place and a slope. Inside, two edges go on
to where they meet: a corner of an outline, or where one surface goes behind another one. So do three. Edges that do not meet,
such as the two ends of one straight edge, share the way between them. For polygons with one corner in a square, lengths and
areas are exact, wherever the corner lies between rows and columns; a tip that passes between two centres is not seen.
"""

from __future__ import annotations

from functools import cached_property
from itertools import combinations

import numpy as np

from ...ad.graph import PixelFunction
from ...ad.graph.types import FLOAT, VEC4, Access
from ..core.lists import at_points
from ..surface.screen import face_cross

PARALLEL = 0.02
"""The sine of the angle below which two edges are one."""
BEYOND = 0.5
"""Edges may meet so far outside of the square: a tip between two centres."""
STEEPEST = 1e6


class Cells(PixelFunction):
    """Input VEC4: of the edge between the pixel and the next one in its row the place in pixels from the centre, -1 for none,
    and by how many it moves from one row to the next; then those of the edge in the column."""

    operations, fetches = 800.0, 16.0
    zero_derivative = True
    footprint = 1
    includes = ("face.glsl", "cells.glsl")
    counts = "any(greaterThanEqual(place, vec4(0.0)))"
    each = ""
    """GLSL: in which of the four squares around the pixel, which lies at (0, 0) of it, to do what."""

    @cached_property
    def access(self):
        return (Access.FETCH,)

    def infer(self):
        if self.inputs[0].vtype is not VEC4:
            raise self.fail("needs a VEC4 image of places and slopes")
        return VEC4, self.inputs[0].domain

    def known_value(self, known):
        lines = known.get(0)
        nothing = lines is not None and (np.asarray(lines)[..., ::2] < 0).all()
        return np.zeros(self.output.vtype.shape) if nothing else None

    @cached_property
    def glsl(self) -> str:
        sides = ["low.x, pixel.y", "low.x, other.y", "pixel.x, low.y", "other.x, low.y"]
        fetches = "\n".join(
            f"    at = ivec2({side}); there = all(equal(at, clamp(at, ivec2(0), $size - 1)));\n"
            f"    if (there) line = $0(at, tile).{'xy' if k < 2 else 'zw'}; else line = vec2(-1.0, 0.0);\n"
            f"    place[{k}] = line.x < 0.0 || s[{k // 2}] > 0 ? line.x : 1.0 - line.x; "
            f"slope[{k}] = line.y * float(s.x * s.y);"
            for k, side in enumerate(sides)
        )
        # Most pixels of a block have no edge around them. Reading twice where they have one costs less than a table.
        return f"""$y = {self.output.vtype.glsl}(0.0);
bool any_edge = false;
for (int k = 0; k < 8 && !any_edge; ++k) {{
  vec4 line = $0(clamp(pixel + ivec2(k % 3, k / 3) - 1, ivec2(0), $size - 1), tile);
  any_edge = max(line.x, line.z) >= 0.0;
}}
if (any_edge) {{
  for (int c = 0; c < 4; ++c) {{
    ivec2 s = ivec2(1 - 2 * (c & 1), 1 - (c & 2)), low = pixel + min(s, 0), other = pixel + s, at;
    vec4 place, slope;
    vec2 line;
    bool there;
{fetches}
    if (!({self.counts})) continue;
    vec2 start[4], end[4];
    cells_segments(place, slope, start, end);
    {self.each}
  }}
}}"""

    def evaluate(self, at, lines):
        x, y, tile = at_points(at)
        height, width = lines.shape[1:3]
        tile = tile if len(lines) > 1 else np.zeros_like(tile)
        result = np.zeros((*x.shape, *self.output.vtype.shape))
        for c, (sx, sy) in enumerate(((1, 1), (-1, 1), (1, -1), (-1, -1))):
            left, low = x + min(sx, 0), y + min(sy, 0)
            place, slope = [], []
            for k, (i, j) in enumerate(((left, y), (left, y + sy), (x, low), (x + sx, low))):
                there = (i >= 0) & (i < width) & (j >= 0) & (j < height)
                line = lines[tile, np.clip(j, 0, height - 1), np.clip(i, 0, width - 1)]
                at_side = np.where(there, line[..., k // 2 * 2], -1.0)
                kept = (at_side < 0) | ((sx, sy)[k // 2] > 0)
                place.append(np.where(kept, at_side, 1 - at_side))
                slope.append(np.where(there, line[..., k // 2 * 2 + 1], 0.0) * sx * sy)
            self.add(result, c, np.stack(place), *segments(np.stack(place), np.stack(slope)))
        return result

    def add(self, result: np.ndarray, c: int, place: np.ndarray, start: np.ndarray, end: np.ndarray) -> None:
        """NumPy meaning of ``each``. place: (4, ...); start and end: (4, ..., 2)."""
        raise NotImplementedError


class Extents(Cells):
    """VEC4: in pixels from the row, how far the edge between the pixel and the next one in it goes below and above; and likewise
    from the column to the right and left the edge between the pixel and that below."""

    operations = 300.0
    counts = "(c & 1) == 0 && place[0] >= 0.0 || (c & 2) == 0 && place[2] >= 0.0"
    each = (
        "if ((c & 1) == 0) $y[c >> 1] = place[0] < 0.0 ? 0.0 : end[0].y;\n"
        "  if ((c & 2) == 0) $y[2 + c] = place[2] < 0.0 ? 0.0 : end[2].x;"
    )

    def add(self, result, c, place, start, end):
        if c & 1 == 0:
            result[..., c >> 1] = np.where(place[0] < 0, 0.0, end[0, ..., 1])
        if c & 2 == 0:
            result[..., 2 + c] = np.where(place[2] < 0, 0.0, end[2, ..., 0])


class Taken(Cells):
    """VEC4: which parts of the pixel lie beyond an edge, to the right, to the left, below and above."""

    each = "vec2 taken = cells_taken(place, start, end);\n  $y[c & 1] += taken.x;\n  $y[2 + (c >> 1)] += taken.y;"

    def add(self, result, c, place, start, end):
        u, v = taken(place, start, end)
        result[..., c & 1] += u
        result[..., 2 + (c >> 1)] += v


class Given(Cells):
    """FLOAT: which parts of the four neighbours lie beyond an edge on the side of the pixel, together."""

    operations = 1000.0
    each = "$y += cells_given(place, start, end);"

    def infer(self):
        return FLOAT, super().infer()[1]

    def add(self, result, c, place, start, end):
        result += given(place, start, end)


def segments(place: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``cells_segments``, of sides (4, ...): where edges start and end, (4, ..., 2)."""
    far = np.array([0.0, 1.0, 0.0, 1.0]).reshape(4, *[1] * (place.ndim - 1)) + 0 * place
    along = np.arange(4).reshape(4, *[1] * (place.ndim - 1)) < 2
    start = np.where(along[..., None], np.stack([place, far], -1), np.stack([far, place], -1))
    ones = np.ones_like(slope)
    way = np.where(along[..., None], np.stack([slope, ones], -1), np.stack([ones, slope], -1))
    way *= ((1 - 2 * far) / np.hypot(slope, 1.0))[..., None]
    end, two = start.copy(), (place >= 0).sum(0) == 2
    most, outside = (_within(start, way, more) for more in (0.0, BEYOND))
    reach, best = 0.5 * most, np.zeros_like(most)
    for k, j in combinations(range(4), 2):
        there, to = (place[k] >= 0) & (place[j] >= 0), start[j] - start[k]
        turn, off = face_cross(way[k], way[j]), face_cross(to, way[k])
        parallel = abs(turn) < PARALLEL
        straight = there & parallel & (abs(off) < PARALLEL)
        when = [x / np.where(parallel, 1.0, turn) for x in (face_cross(to, way[j]), off)]
        within = when[0] <= most[k]
        meet = there & ~parallel & (np.minimum(*when) >= 0) & (within | two)
        score = np.where(straight, 3.0, np.where(meet, abs(turn) + within, 0.0))
        for side, own in zip((k, j), when, strict=True):
            better = score > best[side]
            so_far = np.where(straight, 0.5 * most[side], np.minimum(own, outside[side]))
            reach[side] = np.where(better, so_far, reach[side])
            best[side] = np.where(better, score, best[side])
    end += np.where(place < 0, 0.0, reach)[..., None] * way
    return start, end


def _within(start: np.ndarray, way: np.ndarray, more: float) -> np.ndarray:
    """``cells_within``."""
    ends = (way > 0) * (1 + 2 * more) - more - start
    return np.where(way == 0, 4.0, ends / np.where(way == 0, 1.0, way)).min(-1).clip(0)


def taken(place: np.ndarray, start: np.ndarray, end: np.ndarray) -> list[np.ndarray]:
    """``cells_taken``: (u, v), each (...)."""
    right, up = place[0] >= 0, place[2] >= 0
    result = [0.25 * np.where(side >= 0, (0.5 - side).clip(0), 0.0) for side in (place[0], place[2])]
    for k in range(4):
        turned = up if k == 1 else right if k == 3 else np.zeros_like(up)
        first = ((k in (0, 3)) != turned)[..., None]
        counts = (place[k] >= 0) & ~((k % 2 == 1) & right & up)
        a = np.where(first, start[k], end[k]) - 0.5
        b = np.where(first, end[k], start[k]) - 0.5
        for c in range(2):
            p, q = a[..., c], b[..., c]
            out = (np.minimum(p, q) >= 0) | (np.maximum(p, q) <= -1)
            way = (b - a) / np.where(p == q, 1.0, q - p)[..., None]
            ends = [end + way * (x.clip(-1, 0) - x)[..., None] for end, x in ((a, p), (b, q))]
            a, b = np.where(out[..., None], b, ends[0]), np.where(out[..., None], b, ends[1])
        area = np.where(counts, 0.5 * face_cross(a, b), 0.0)
        for axis in range(2):
            result[axis] = result[axis] + np.where((k >= 2) != turned, axis == 1, axis == 0) * area
    return [x.clip(0) for x in result]


def given(place: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """``cells_given``, (...)."""
    result = np.zeros(place.shape[1:])
    for axis in range(2):
        sides = [k if k // 2 == axis else k ^ 1 for k in range(4)]
        mirrored = [x[sides] for x in (place, start, end)]
        own = slice(2 * axis, 2 * axis + 2)
        mirrored[0][own] = np.where(mirrored[0][own] < 0, -1.0, 1 - mirrored[0][own])
        for x in mirrored[1:]:
            x[..., axis] = 1 - x[..., axis]
        result = result + taken(*mirrored)[axis]
    return result
