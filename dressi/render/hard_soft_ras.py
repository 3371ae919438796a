"""HardSoftRas (Takimoto et al. 2022, section 3.4): far-range gradients from a few hardware-rasterized layers.

Every face is drawn enlarged by a radius r. A fragment knows its signed distance to the face, hard faces (inside)
come before soft ones (outside), soft ones are ordered by distance, and K layers are peeled off. The definitions:

- dist: to the nearest of the face's three edges (segments), positive inside and on the face, in image heights.
  All edges count, those inside the silhouette too: just inside a shared edge the first layer has dist = d, the
  neighbour's soft face -d. Both sides of a closed mesh are drawn: at the silhouette the two faces that meet there
  leave the stack together, which is what makes the derivative agree with the re-rendered loss. Dropping faces that
  are turned away (cull="back") costs that agreement and is meant for speed on coarse targets only.
- a fragment exists where dist >= -r; depth = 0.5 z inside, 0.5 |dist| + 0.5 outside (3); r < 1.
- layers are ordered by (depth, face number); each holds the first fragment after that of the layer before.
- D = sigmoid(dist / sigma), sigma = r / 7; S = layer 1 is hard; E = 1 where the square window of +-delta pixels
  (delta = r, cut at the border of the image) holds hard and other pixels.
- silhouette = E (1 - prod(1 - D)) + (1 - E) S, from (4) and (6); colour by (5), see ``blend``.

Two faces that share an edge get the same bits for their distance to it (its ends are taken in the order of their
numbers), so that ties are ties on every device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..ad import functional as F
from ..ad.constant import Like
from ..ad.graph import Domain, PixelFunction, Variable, as_variable
from ..ad.types import FLOAT, INT, VEC2, VEC4, Access, Size, list_size
from ..errors import InputError
from .screen import (
    Faces,
    Projected,
    at_points,
    covered,
    culling,
    dropped,
    face_cross,
    pixel_centres,
    project,
)

SMALLEST_COSINE = 0.8660254  # of 30 degrees: below this smallest angle the bounding box is drawn


class Enlarge(Faces):
    """Inputs (reach FLOAT, faces, vertex): six clip-space corners a face, VEC4 list of 6 x ``faces``.

    The triangle (or two) covers every pixel within ``reach`` (image heights) of the face: the triangle with its
    sides moved outward, the other collapsed; for a smallest angle under 30 degrees (and for faces much smaller
    than the reach) the expanded bounding box. Faces that are not drawn collapse.
    """

    fields = ("count", "size", "cull")

    def __init__(self, reach: Variable, faces: Variable, vertex: Variable, count: int, size: Size, cull: int):
        self.count, self.size, self.cull = count, size, cull
        super().__init__(reach, faces, vertex)

    @property
    def access(self):
        return (Access.SAME_PIXEL, Access.FETCH, Access.FETCH)

    def infer(self):
        reach, faces, vertex = self.inputs
        self.check_lists(faces, vertex)
        if reach.vtype is not FLOAT or reach.size != (1, 1):
            raise self.fail("the reach is FLOAT 1x1, a fraction of the image height")
        if not 1 <= self.count <= faces.size[0] * faces.size[1]:
            raise self.fail(f"cannot draw {self.count} faces of a list of {faces.size[0] * faces.size[1]}")
        batches = {x.batch for x in self.inputs} - {1}
        if len(batches) > 1:
            raise self.fail("batches must be equal or 1")
        return VEC4, Domain(list_size(6 * self.count), max(batches, default=1))

    @property
    def glsl(self) -> str:
        aspect = self.size[0] / self.size[1]
        return (
            "int index = pixel.y * $size.x + pixel.x;\n"
            f"ivec3 f = $1(face_texel(min(index / 6, {self.count - 1}), $size1), tile);\n"
            f"$y = face_enlarged({self.fetch_corners('f', 1, 2)}, index % 6, $0, {aspect!r}, {self.cull});"
        )

    def evaluate(self, at, reach, faces, vertex):
        x, y, tile = at_points(at)
        index = y * self.output.size[0] + x
        f = self.read_list(faces, tile, np.minimum(index // 6, self.count - 1))
        abc = [self.read_list(vertex, tile, f[..., i]) for i in range(3)]
        a, b, c = (v[..., :2] for v in abc)
        corner, aspect = index % 6, self.size[0] / self.size[1]
        side = np.stack([np.linalg.norm(u, axis=-1) for u in (b - c, c - a, a - b)])
        around = side.sum(0)
        with np.errstate(all="ignore"):
            inner = np.abs(face_cross(b - a, c - a)) / around
            next1, next2 = side[[1, 2, 0]], side[[2, 0, 1]]
            cosine = ((next1**2 + next2**2 - side**2) / (2 * next1 * next2)).max(0)
            centre = sum(s[..., None] * v for s, v in zip(side, (a, b, c), strict=True)) / around[..., None]
            start = np.select([(corner == 0)[..., None], (corner == 1)[..., None]], [a, b], c)
            moved = centre + (start - centre) * (1 + reach / inner)[..., None]
        wide, high = np.array([aspect, 1.0]) + 0.01, np.minimum(np.minimum(a, b), c) - reach[..., None]
        low, high = (
            high.clip(-0.01, wide),
            (np.maximum(np.maximum(a, b), c) + reach[..., None]).clip(-0.01, wide),
        )
        box = np.stack(
            [
                np.where(np.isin(corner, (1, 2, 4)), high[..., 0], low[..., 0]),
                np.where(np.isin(corner, (2, 4, 5)), high[..., 1], low[..., 1]),
            ],
            axis=-1,
        )
        plain = (cosine <= SMALLEST_COSINE) & (inner > 0.01 * reach)
        place = np.where(plain[..., None], moved, box) / (aspect, 1.0) * 2 - 1
        nowhere = dropped(*abc, self.cull) | (plain & (corner > 2))
        place = np.where(nowhere[..., None], 2.0, place)
        return np.concatenate([place, np.broadcast_to((0.5, 1.0), place.shape)], axis=-1)


class NearestEdge(Faces):
    """Inputs (face INT, faces, vertex): VEC4 (dist, depth, first, second) of the face at the pixel's centre.

    dist: signed distance to the nearest edge.  depth: shifted by equation (3), as a device stores it.  first and
    second: numbers of that edge's ends, exact because a list holds at most 2**24 vertices. (-2, 2, -1, -1) where
    the face is -1. No derivative: what depends smoothly on the vertices is built from the ends.
    """

    @property
    def access(self):
        return (Access.SAME_PIXEL, Access.FETCH, Access.FETCH)

    def infer(self):
        face, faces, vertex = self.inputs
        self.check_lists(faces, vertex)
        if face.vtype is not INT:
            raise self.fail("the face is INT")
        batches = {x.batch for x in self.inputs} - {1}
        if len(batches) > 1:
            raise self.fail("batches must be equal or 1")
        return VEC4, Domain(face.size, max(batches, default=1))

    @property
    def glsl(self) -> str:
        return (
            "ivec3 f = face_sorted($1(face_texel(max($0, 0), $size1), tile));\n"
            "vec2 p = (vec2(pixel) + 0.5) / float($size.y);\n"
            f"$y = $0 < 0 ? vec4(-2.0, 2.0, -1.0, -1.0) : face_nearest(p, f, {self.fetch_corners('f', 1, 2)});"
        )

    def evaluate(self, at, face, faces, vertex):
        x, y, tile = at_points(at)
        face = np.broadcast_to(face, x.shape)
        f = np.sort(self.read_list(faces, tile, face), axis=-1)
        abc = [self.read_list(vertex, tile, f[..., i]) for i in range(3)]
        a, b, c = (v[..., :2] for v in abc)
        p = (np.stack([x, y], axis=-1) + 0.5) / self.output.size[1]
        area = face_cross(b - a, c - a)
        cross = np.stack([face_cross(c - b, p - b), -face_cross(c - a, p - a), face_cross(b - a, p - a)])
        inside = (cross * np.sign(area) >= 0).all(0)
        squared = np.stack([_squared_distance(p, *ends) for ends in ((a, b), (b, c), (a, c))])
        nearest = squared.argmin(0)
        away = np.sqrt(squared.min(0))
        with np.errstate(all="ignore"):
            depth = sum(w * v[..., 2] for w, v in zip(cross, abc, strict=True)) / area
        shifted = np.where(inside, 0.5 * np.clip(depth, 0, 1), 0.5 + 0.5 * away).astype(np.float32)
        found = np.stack(
            [
                np.where(inside, away, -away),
                shifted,
                np.where(nearest == 1, f[..., 1], f[..., 0]),
                np.where(nearest == 0, f[..., 1], f[..., 2]),
            ],
            axis=-1,
        )
        return np.where((face < 0)[..., None], (-2.0, 2.0, -1.0, -1.0), found)


def _squared_distance(p: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    u, q = b - a, p - a
    t = ((q * u).sum(-1) / np.maximum((u * u).sum(-1), 1e-30))[..., None]
    away = np.where(t <= 0, q, np.where(t >= 1, p - b, q - t * u))
    return (away * away).sum(-1)


class Extremes(PixelFunction):
    """Inputs (image, reach INT): VEC2 (smallest, largest) within +-reach texels along ``axis``, cut at the border.

    The image is FLOAT, or VEC2 of such extremes along the other axis. No derivative.
    """

    fields = ("axis",)

    def __init__(self, image: Variable, reach: Variable, axis: str):
        self.axis = axis
        super().__init__(image, reach)

    @property
    def access(self):
        return (Access.FETCH, Access.SAME_PIXEL)

    def infer(self):
        image, reach = self.inputs
        if image.vtype not in (FLOAT, VEC2) or reach.vtype is not INT:
            raise self.fail("needs a FLOAT or VEC2 image and an INT reach")
        if reach.size != (1, 1) or reach.batch not in (1, image.batch):
            raise self.fail("the reach is one texel")
        return VEC2, image.domain

    @property
    def glsl(self) -> str:
        step = "ivec2(i, 0)" if self.axis == "x" else "ivec2(0, i)"
        return (
            "$y = vec2($0(pixel, tile));\n"
            f"for (int i = -$1; i <= $1; ++i) {{\n"
            f"  vec2 found = vec2($0(clamp(pixel + {step}, ivec2(0), $size0 - 1), tile));\n"
            "  $y = vec2(min($y.x, found.x), max($y.y, found.y));\n}"
        )

    def evaluate(self, at, image, reach):
        x, y, tile = at_points(at)
        image = image if image.ndim == 4 else np.stack([image, image], axis=-1)
        reach = np.broadcast_to(reach, x.shape)
        width, height = self.inputs[0].size
        low, high = image[tile, y, x, 0], image[tile, y, x, 1]
        for i in range(-int(reach.max()), int(reach.max()) + 1):
            moved = (
                (np.clip(x + i, 0, width - 1), y) if self.axis == "x" else (x, np.clip(y + i, 0, height - 1))
            )
            found = image[tile, moved[1], moved[0]]
            use = np.abs(i) <= reach
            low = np.where(use, np.minimum(low, found[..., 0]), low)
            high = np.where(use, np.maximum(high, found[..., 1]), high)
        return np.stack([low, high], axis=-1)


@dataclass(frozen=True, eq=False)
class SoftLayer:
    """One peeled layer; images of the batch of the positions."""

    face: Variable
    """INT: the face, -1 where the layer is empty."""
    dist: Variable
    """FLOAT: signed distance in image heights; differentiable. Without meaning where the layer is empty."""
    probability: Variable
    """FLOAT: D = sigmoid(dist / sigma), 0 where the layer is empty; differentiable."""


@dataclass(frozen=True, eq=False)
class SoftLayers:
    """What ``hard_soft_ras`` returns: the layers from front to back, and what is blended from them."""

    layers: tuple[SoftLayer, ...]
    hard: Variable
    """FLOAT mask S: the first layer covers the pixel centre. No derivative."""
    edge: Variable
    """FLOAT mask E: the pixel belongs to the band around the silhouette. No derivative."""
    silhouette: Variable
    """FLOAT in [0, 1], equations (4) and (6); differentiable."""

    def blend(self, colours: Sequence[Variable], background: Like | None = None) -> Variable:
        """One image of the shaded layers (a float image each, front to back), by equations (4) and (5).

        On the band the colours are averaged with the weights D, elsewhere the front one is shown where it covers.
        Without ``background`` this is the paper's: black outside. With it (a colour or an image) the band is laid
        over the background with the silhouette as opacity. Differentiable in colours, positions and background.
        """
        if len(colours) != len(self.layers):
            raise InputError(
                f"blending needs a colour for each of {len(self.layers)} layers, not {len(colours)}"
            )
        weights = [layer.probability for layer in self.layers]
        total = _sum(weights)
        soft = _sum([c * w for c, w in zip(colours, weights, strict=True)]) / F.maximum(total, 1e-8)
        front = colours[0]
        if background is None:
            return F.select(self.edge, soft, F.select(self.hard, front, 0.0))
        soft = F.mix(background, soft, self.silhouette)
        return F.select(self.edge, soft, F.select(self.hard, front, background))


def _sum(parts: Sequence[Variable]) -> Variable:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


Form = Callable[..., SoftLayers]


def hard_soft_ras(
    position: Variable,
    faces: Variable,
    *,
    size: Size,
    radius: Like,
    face_count: int,
    layers: int = 3,
    sigma: Like | None = None,
    delta: Like | None = None,
    cull: str = "none",
    form: str = "face",
) -> SoftLayers:
    """Soft layers and silhouette of a mesh (Dressi, section 3.4); the definitions are at the top of this module.

    position: VEC4 list in clip space, batch N (views).  faces: IVEC3 list, the first ``face_count`` are drawn.
    size: of the images.  radius: fraction of the image height in (0, 1), a number or a FLOAT 1x1 Variable, which
    can then change from step to step.  layers: K, how many are peeled.  sigma: softness, default radius / 7.
    delta: half width of the band E, default radius.  cull: "none" or "back".  form: how distances are measured,
    one of ``FORMS``.
    Images have size ``size`` and batch N. Differentiable in position. Faces with a corner behind the viewer or in
    front of the near plane are dropped. Raises InputError for options, GraphError for types.
    """
    if form not in FORMS:
        raise InputError(f"form is one of {', '.join(FORMS)}, not {form!r}")
    if layers < 1:
        raise InputError(f"hard_soft_ras peels at least one layer, not {layers}")
    for name, value in (("radius", radius), ("sigma", sigma), ("delta", delta)):
        if isinstance(value, int | float) and not 0 < value < 1:
            raise InputError(f"{name} is a fraction of the image height in (0, 1), not {value}")
    radius = as_variable(radius)
    sigma = radius * (1 / 7) if sigma is None else as_variable(sigma)
    delta = radius if delta is None else as_variable(delta)
    size = (int(size[0]), int(size[1]))
    return FORMS[form](position, faces, size, radius, face_count, layers, sigma, delta, culling(cull))


def _face_form(
    position: Variable,
    faces: Variable,
    size: Size,
    radius: Variable,
    face_count: int,
    layers: int,
    sigma: Variable,
    delta: Variable,
    cull: int,
) -> SoftLayers:
    points = project(position, size)
    # One pixel more than the radius: which fragments there are is decided by their distance alone, not by how
    # finely a device rasterizes.
    reach = radius + 1.0 / size[1]
    triangles = Enlarge(reach, faces, points.vertex, face_count, size, cull).output
    last: tuple[Variable, Variable] | None = None
    peeled: list[SoftLayer] = []
    centres, softness = pixel_centres(size), 1.0 / sigma
    hard: Variable | None = None
    for _ in range(layers):
        face = _peel(triangles, faces, points.vertex, size, radius, face_count, last)
        nearest = NearestEdge(face, faces, points.vertex).output
        last = (nearest.y, face)
        hard = F.greater_equal(nearest.x, 0.0) if hard is None else hard
        dist = _signed_distance(centres, nearest, points)
        probability = F.select(covered(face), F.sigmoid(dist * softness), 0.0)
        peeled.append(SoftLayer(face, dist, probability))
    assert hard is not None
    texels = F.to_int(delta * float(size[1]) + 0.5)
    around = Extremes(Extremes(hard, texels, "x").output, texels, "y").output
    edge = around.y - around.x
    missed = 1.0 - peeled[0].probability
    for layer in peeled[1:]:
        missed = missed * (1.0 - layer.probability)
    return SoftLayers(tuple(peeled), hard, edge, F.select(edge, 1.0 - missed, hard))


def _peel(
    triangles: Variable,
    faces: Variable,
    vertex: Variable,
    size: Size,
    radius: Variable,
    face_count: int,
    last: tuple[Variable, Variable] | None,
) -> Variable:
    """The face in front, of all fragments that come after ``last`` (depth, face)."""

    def fragment(face: Variable) -> tuple[Variable, Variable]:
        nearest = NearestEdge(face, faces, vertex).output
        depth = nearest.y
        keep = F.greater_equal(nearest.x, -radius)
        if last is not None:
            tied = F.logical_and(F.equal(depth, last[0]), F.greater(face, last[1]))
            after = F.logical_or(F.greater(depth, last[0]), tied)
            keep = F.logical_and(keep, F.logical_and(after, F.not_equal(face, last[1])))
        return depth, keep

    return F.rasterize(
        triangles, size=size, triangles=2 * face_count, triangles_per_face=2, fragment=fragment
    )


def _signed_distance(centres: Variable, nearest: Variable, points: Projected) -> Variable:
    """Differentiable distance of the pixel centres to the nearest edges found.

    The place on the edge, t, is held fixed: the nearest point is either inside the edge, where moving t changes
    nothing to first order, or an end.
    """
    a, b = (F.lookup(points.screen, F.to_int(F.component(nearest, i))) for i in (2, 3))
    along = b - a
    t = F.dot(centres - a, along) / F.maximum(F.dot(along, along), 1e-30)
    away = F.length(centres - F.mix(a, b, F.stop_gradient(F.clamp(t))))
    return F.select(F.greater_equal(nearest.x, 0.0), away, -away)


FORMS: dict[str, Form] = {"face": _face_form}
"""How distances are measured, by name."""
