"""Distances between clouds of points and points of surfaces, on the device and differentiable.

    chamfer_loss     mean distance, or its square, to the nearest point of the other cloud
    hausdorff_loss   the largest of these distances
    f_score_loss     1 - F-score: the share of points that are nearer than a threshold, made smooth
    surface_samples  points spread evenly over a surface, other ones in each step

The nearest point is found in a tree of boxes. The points lie in an order in which neighbours are near each
other; a box holds ``FAN`` of them, or as many boxes of the level below. The order is data of the host and
decides the time alone. The boxes are made anew from the points in every step, so the nearest point is exact
however far the points have moved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from ...ad import functional as F
from ...ad.graph import Domain, PixelFunction, Variable
from ...ad.graph.evaluation import known_value
from ...ad.graph.types import FLOAT, INT, IVEC3, LIST_WIDTH, VEC3, Access, list_size, whole
from ...ad.ops.pixel.constant import Like
from ...errors import InputError
from ..core.lists import as_list

FAN = 8
"""Points or boxes in a box."""
TOP = 8
"""Most boxes of the highest level, all of which are looked at."""
WIDTH = 16
"""Entries in a row of a cloud's lists, or a multiple."""
MOST = 400_000
"""Most points of a cloud: a search of all boxes of more exceeds the iterations that drivers allow."""


def _entry(table: int, index: str) -> str:
    """GLSL: an entry of the list that is input ``table``."""
    return f"${table}(ivec2(({index}) % $size{table}.x, ({index}) / $size{table}.x), tile)"


class Grouped(PixelFunction):
    """Input a list of ``count`` entries: what holds groups of FAN consecutive ones. No derivative.

    kind: "points" VEC3 to boxes, "boxes" to boxes, "sums" FLOAT to sums. Boxes are a VEC3 list of two entries
    each, the least and the largest coordinates.
    """

    operations, zero_derivative = 8.0, True
    fields = ("count", "kind")
    count: int
    kind: str
    iterations = FAN
    fetches = float(FAN)

    @cached_property
    def access(self):
        return (Access.FETCH,)

    @property
    def groups(self) -> int:
        return -(-self.count // FAN)

    def infer(self):
        size = list_size(self.groups * (1 if self.kind == "sums" else 2))
        return self.inputs[0].vtype, Domain(size, self.inputs[0].tiles)

    @cached_property
    def glsl(self) -> str:
        number = "int k = pixel.y * $size.x + pixel.x;\n"
        if self.kind == "sums":
            loop = f"for (int i = k * {FAN}; i < min(k * {FAN} + {FAN}, {self.count}); ++i)"
            return f"{number}$y = 0.0;\n{loop} $y += {_entry(0, 'i')};"
        # An odd texel is the upper corner: the least of the negated values, negated.
        own = _entry(0, "i" if self.kind == "points" else "2 * i + k % 2")
        loop = f"for (int i = k / 2 * {FAN}; i < min(k / 2 * {FAN} + {FAN}, {self.count}); ++i)"
        return (
            f"{number}float turn = k % 2 == 0 ? 1.0 : -1.0;\n$y = vec3(3e38);\n"
            f"{loop} $y = min($y, turn * {own});\n$y *= turn;"
        )

    def evaluate(self, at, x):
        tiles = len(x)
        rows = x.reshape(tiles, -1, *x.shape[3:])
        starts = np.arange(0, self.count, FAN)
        if self.kind == "sums":
            made = np.add.reduceat(rows[:, : self.count], starts, axis=1)
        else:
            low, high = (rows, rows) if self.kind == "points" else (rows[:, 0::2], rows[:, 1::2])
            made = np.stack(
                [
                    np.minimum.reduceat(low[:, : self.count], starts, axis=1),
                    np.maximum.reduceat(high[:, : self.count], starts, axis=1),
                ],
                axis=2,
            ).reshape(tiles, -1, 3)
        width, height = self.output.size
        image = np.zeros((tiles, width * height, *made.shape[2:]))
        image[:, : made.shape[1]] = made
        return image.reshape(tiles, height, width, *made.shape[2:])[at.tile, at.y, at.x]


def _levels(x: Variable, count: int, kind: str) -> tuple[tuple[Variable, ...], tuple[int, ...]]:
    """The levels of a tree over a list, from the lowest, and how many nodes each has: at most TOP at last."""
    made, counts = [], []
    while count > TOP or not made:
        x = Grouped(x, count, kind).output
        count = -(-count // FAN)
        kind = "boxes" if kind == "points" else kind
        made.append(x)
        counts.append(count)
    return tuple(made), tuple(counts)


class Nearest(PixelFunction):
    """Inputs (query VEC3, points VEC3 list, its levels of boxes): INT, the number of the nearest point. No
    derivative: it is piecewise constant.

    The way down to the nearest box of each level gives a first distance; then whatever is not nearer is left
    out.
    """

    operations, zero_derivative = 14.0, True
    fetches = math.inf
    fields = ("count",)
    count: int
    decides_on = None

    @cached_property
    def access(self):
        return (Access.SAME_PIXEL, *[Access.FETCH] * (len(self.inputs) - 1))

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Entries of the points and of each level."""
        found = [self.count]
        for _ in self.inputs[2:]:
            found.append(-(-found[-1] // FAN))
        return tuple(found)

    @property
    def iterations(self) -> int:
        """For a query that is as far from all points."""
        return sum(self.counts[1:]) + FAN * len(self.counts)

    def infer(self):
        query, points, *_ = self.inputs
        if query.vtype is not VEC3 or points.vtype is not VEC3 or points.tiles != 1:
            raise self.fail("takes VEC3 lists, and points of batch 1")
        return INT, query.domain

    @cached_property
    def glsl(self) -> str:
        def away(level: int, index: str) -> str:
            """Declares the squared distance of a node as d."""
            if level == 0:
                return f"vec3 v = {_entry(1, index)} - at; float d = dot(v, v);"
            low, high = (_entry(1 + level, f"2 * {index}{more}") for more in ("", " + 1"))
            return f"vec3 v = max(max({low} - at, at - {high}), vec3(0.0)); float d = dot(v, v);"

        def over(level: int, name: str, parent: str) -> str:
            """The head of a loop over the children of a node of the level above."""
            if level == len(self.counts) - 1:
                return f"for (int {name} = 0; {name} < {self.counts[level]}; ++{name})"
            end = f"min({parent} * {FAN} + {FAN}, {self.counts[level]})"
            return f"for (int {name} = {parent} * {FAN}, {name}e = {end}; {name} < {name}e; ++{name})"

        top = len(self.counts) - 1
        text = "vec3 at = $0;\nint node = 0, taken = 0;\nfloat best = 3e38;\n"
        for level in range(top, -1, -1):
            text += (
                f"best = 3e38;\n{over(level, 'i', 'node')} {{ {away(level, 'i')}"
                " if (d < best) { best = d; taken = i; } }\nnode = taken;\n"
            )
        text += "$y = node;\n"
        for level in range(top, 0, -1):
            name, parent = f"n{level}", f"n{level + 1}"
            text += f"{over(level, name, parent)} {{ {away(level, name)}\nif (d < best) {{\n"
        # No loop over points: some drivers end all loops of an invocation after 65,535 iterations, which a
        # query as far from all points, such as the centre of a sphere, would reach.
        text += f"{{ int i = n1 * {FAN}, e = min(i + {FAN}, {self.count}) - 1, j;\n"
        for k in range(FAN):
            text += f"j = min(i + {k}, e); {{ {away(0, 'j')} if (d < best) {{ best = d; $y = j; }} }}\n"
        return text + "}\n" + "}}\n" * top

    def evaluate(self, at, query, points, *levels):
        tree = scipy.spatial.KDTree(points.reshape(-1, 3)[: self.count])
        shape = np.broadcast_shapes(at.x.shape, at.y.shape, at.tile.shape)
        flat = np.broadcast_to(query, (*shape, 3)).reshape(-1, 3)
        finite, found = np.isfinite(flat).all(1), np.zeros(len(flat), np.int64)
        found[finite] = np.asarray(tree.query(flat[finite])[1])
        return found.reshape(shape)


# Clouds, and distances between them.


@dataclass(frozen=True, eq=False)
class Cloud:
    """Points in an order in which neighbours are near each other; made by ``cloud``."""

    points: Variable
    """VEC3 list, in that order."""
    order: Variable
    """INT list, a leaf: the number of each point in the list that was given."""
    count: int

    @cached_property
    def boxes(self) -> tuple[Variable, ...]:
        """The levels of the tree, VEC3 lists, from the lowest."""
        return _levels(self.points, self.count, "points")[0]

    def data(self, points: np.ndarray) -> dict[Variable, np.ndarray]:
        """What to send for an order by other places (P, 3), such as the present ones: results are the same,
        but the search is fast again after points have moved far."""
        return {self.order: _compact(spatial_order(_checked(points, self.count)))}


def cloud(points: Variable | Any, near: Any = None, *, count: int | None = None) -> Cloud:
    """A cloud for ``chamfer_loss`` and the like.

    points: VEC3 list, or an array (P, 3) as a leaf; at least one, finite.  near: (P, 3) about where they are,
    if they are computed from what is only sent later; decides the time alone.  count: of the points of a list
    whose last row has others behind them. Differentiable in points.
    Raises InputError.

    >>> cloud(np.eye(3)).count
    3
    """
    if count is None:
        count = (points.count or points.domain.area) if isinstance(points, Variable) else len(points)
    if not count:
        raise InputError("a cloud has no points; give an array (P, 3) of at least one")
    if count > MOST:
        raise InputError(f"a cloud has at most {MOST} points, not {count}; give a sample of them")
    given = as_list("points", VEC3, points)
    if near is None:
        known = known_value(given)
        near = None if known is None else known.reshape(-1, 3)[:count]
    order = np.arange(count) if near is None else spatial_order(_checked(near, count))
    rows = _compact(order)
    order = Variable(INT, rows.shape[2:0:-1], name="order of points", data=rows, count=count)
    return Cloud(F.lookup(given, order), order, count)


def _compact(values: np.ndarray) -> np.ndarray:
    """(1, H, W): a list in rows as short as may be, so that texels of a block, which devices compute in
    step, are near each other in the list."""
    width = min(max(WIDTH * -(-len(values) // (LIST_WIDTH * WIDTH)), WIDTH), len(values))
    rows = np.zeros((-(-len(values) // width), width), values.dtype)
    rows.reshape(-1)[: len(values)] = values
    return rows[None]


def _checked(points: Any, count: int) -> np.ndarray:
    points = np.asarray(points, np.float64)
    if points.shape != (count, 3):
        raise InputError(f"places of {count} points are an array ({count}, 3), not {points.shape}")
    if not np.isfinite(points).all():
        wrong = int(np.flatnonzero(~np.isfinite(points).all(1))[0])
        raise InputError(f"point {wrong} of a cloud is not finite: {points[wrong].tolist()}; leave it out")
    return points


def spatial_order(points: np.ndarray) -> np.ndarray:
    """(P,) the order of points (P, 3) along Morton's curve: neighbours in it are near each other.

    >>> spatial_order(np.array([[0.0, 0, 0], [1, 1, 1], [0.1, 0, 0]])).tolist()
    [0, 2, 1]
    """
    low = points.min(0)
    cells = ((points - low) / max(float(np.ptp(points, axis=0).max()), 1e-300) * 1023).astype(np.uint64)
    for shift, mask in ((16, 0x30000FF), (8, 0x300F00F), (4, 0x30C30C3), (2, 0x9249249)):
        cells = (cells | cells << np.uint64(shift)) & np.uint64(mask)
    return np.argsort(cells[:, 0] | cells[:, 1] << np.uint64(1) | cells[:, 2] << np.uint64(2), kind="stable")


def nearest(query: Variable, points: Cloud) -> Variable:
    """INT like ``query`` (VEC3): the number, in ``points.points``, of the nearest point of the cloud. Exact;
    no derivative. Raises GraphError."""
    return Nearest(query, points.points, *points.boxes, points.count).output


def distances_to(query: Variable, points: Cloud, *, squared: bool = False) -> Variable:
    """FLOAT like ``query`` (VEC3): the distance, or its square, to the nearest point of the cloud.

    Differentiable in both; where two points are equally near, by one of them, and 0 at distance 0.
    """
    away = query - F.lookup(points.points, nearest(query, points))
    return F.dot(away, away) if squared else F.length(away)


def _both(a: Any, b: Any, squared: bool = False) -> tuple[Variable, Variable]:
    a, b = (x if isinstance(x, Cloud) else cloud(x) for x in (a, b))
    return distances_to(a.points, b, squared=squared), distances_to(b.points, a, squared=squared)


def chamfer_loss(a: Any, b: Any, *, squared: bool = True) -> Variable:
    """FLOAT 1x1: the mean squared distance from each cloud to the other, averaged over both directions.

    a, b: clouds, VEC3 lists or arrays (P, 3), (Q, 3).  squared: False takes distances, as the measure
    ``chamfer`` does. Half of what PyTorch3D's ``chamfer_distance`` sums. Differentiable in both. Raises
    InputError.

    >>> evaluate(chamfer_loss(np.zeros((1, 3)), np.array([[1.0, 0, 0], [3, 0, 0]]))).item()
    3.0
    """
    there, back = _both(a, b, squared)
    return 0.5 * (F.mean(there) + F.mean(back))


def hausdorff_loss(a: Any, b: Any) -> Variable:
    """FLOAT 1x1: the largest distance from a point of either cloud to the other cloud. Differentiable, by the
    point that is farthest. Raises InputError.

    >>> evaluate(hausdorff_loss(np.zeros((1, 3)), np.array([[1.0, 0, 0], [3, 0, 0]]))).item()
    3.0
    """
    there, back = _both(a, b)
    return F.maximum(F.max(there), F.max(back))


def f_score_loss(a: Any, b: Any, threshold: float, *, softness: float = 0.1) -> Variable:
    """FLOAT 1x1: 1 - F-score, the harmonic mean of the shares of points that are nearer to the other cloud
    than ``threshold``.

    softness: a point counts by a sigmoid of its distance, whose width is this share of the threshold. 0
    counts as the measure ``f_score`` does and has no derivative. Raises InputError.

    >>> evaluate(f_score_loss(np.zeros((1, 3)), np.array([[1.0, 0, 0], [3, 0, 0]]), 2.0, softness=0)).item()
    0.33...
    """
    if not (threshold > 0 and softness >= 0):
        raise InputError(
            f"the threshold {threshold:g} of an F-score is positive, and its softness {softness:g} not"
            " negative"
        )

    def near(distance: Variable) -> Variable:
        if softness == 0:
            return F.mean(F.less(distance, threshold))
        return F.mean(F.sigmoid((threshold - distance) * (1 / (softness * threshold))))

    there, back = (near(distance) for distance in _both(a, b))
    return 1.0 - 2.0 * there * back / F.maximum(there + back, 1e-12)


# Points of surfaces.


class Chosen(PixelFunction):
    """Inputs (place FLOAT, weights FLOAT list, its levels of sums): INT, the number of the entry at which the
    sum of the weights passes ``place``; places are multiples of the whole sum. No derivative."""

    operations, zero_derivative = 6.0, True
    fetches = float(FAN)
    fields = ("count",)
    count: int

    @cached_property
    def access(self):
        return (Access.SAME_PIXEL, *[Access.FETCH] * (len(self.inputs) - 1))

    @property
    def iterations(self) -> int:
        return FAN * (len(self.inputs) + 1)

    def infer(self):
        return INT, self.inputs[0].domain

    @cached_property
    def glsl(self) -> str:
        counts = [self.count]
        for _ in self.inputs[2:]:
            counts.append(-(-counts[-1] // FAN))
        top = len(counts) - 1
        text = (
            f"int node = 0; float total = 0.0;\nfor (int i = 0; i < {counts[top]}; ++i)"
            f" total += {_entry(1 + top, 'i')};\nfloat rest = $0 * total;\n"
        )
        for level in range(top, -1, -1):
            first, end = (
                ("0", f"{counts[top]}") if level == top else ("f", f"min(f + {FAN}, {counts[level]})")
            )
            # Rounding may leave a rest beyond the last entry: then the last one with a weight is chosen.
            text += (
                f"{{ int f = node * {FAN}; float w = 0.0; int last = {first}; float left = rest;\n"
                f"for (int i = {first}; i < {end}; ++i) {{ float own = {_entry(1 + level, 'i')};\n"
                "if (own > 0.0) { last = i; w = own; left = rest; if (rest < own) break; }"
                " rest -= own; }\n"
                "node = last; rest = min(left, w); }\n"
            )
        return text + "$y = node;"

    def evaluate(self, at, place, weights, *levels):
        sums = np.cumsum(weights.reshape(-1)[: self.count])
        last = int(np.max(np.flatnonzero(np.diff(sums, prepend=0)), initial=0))
        place = np.broadcast_to(place, np.broadcast_shapes(at.x.shape, at.y.shape, at.tile.shape))
        return np.minimum(np.searchsorted(sums, place * sums[-1], side="right"), last)


@dataclass(frozen=True, eq=False)
class SurfaceSamples:
    """Points of a surface; made by ``surface_samples``."""

    face: Variable
    """INT list: the face of each point."""
    weights: Variable
    """VEC3 list: barycentric coordinates."""
    corners: Variable
    """IVEC3 list: the vertices of the face."""

    def of(self, values: Variable) -> Variable:
        """List: what a list of vertices (any float type) is at the points. Differentiable in values."""
        at = [F.lookup(values, F.component(self.corners, k)) * F.component(self.weights, k) for k in range(3)]
        return at[0] + at[1] + at[2]


def surface_samples(
    position: Variable, faces: Variable | Any, count: int, *, counter: Like = 0, seed: int = 0
) -> SurfaceSamples:
    """``count`` points spread evenly over a surface; ``.of(position)`` are their places.

    position: VEC3 list.  faces: IVEC3 list or an array (F, 3); faces without area get no points.  counter:
    INT, such as a step: others are points of other places. Points are stratified: of areas beside each other
    each has its share. Which faces they lie on follows the present areas and has no derivative; their places
    are differentiable in position. Raises InputError.

    >>> cube = primitives.cube()
    >>> found = surface_samples(Variable.of(cube.positions), cube.faces, 60)
    >>> bool(np.isclose(np.abs(evaluate(found.of(Variable.of(cube.positions)))).max(-1), 1).all())
    True
    """
    data = faces.data if isinstance(faces, Variable) else np.asarray(faces)
    if data is not None and not data.any():
        raise InputError("a mesh without faces has no surface to take points of")
    faces = as_list("faces", IVEC3, faces)
    total = faces.count or faces.domain.area
    count = whole(count, "a number of points", 1)
    a, b, c = (F.lookup(position, F.component(faces, k)) for k in range(3))
    area = F.length(F.cross(b - a, c - a))
    size, number = list_size(count), Variable.of(np.arange(count), FLOAT, name="number of point")
    u, v, w = (F.random(3 * seed + k, counter, size) for k in range(3))
    levels, _ = _levels(area, total, "sums")
    face = Chosen((number + u) * (1 / count), area, *levels, total).output
    root = F.sqrt(v)
    weights = F.vec3(1.0 - root, root * (1.0 - w), root * w)
    return SurfaceSamples(face, weights, F.lookup(faces, face))
