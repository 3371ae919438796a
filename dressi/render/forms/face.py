"""The face form of HardSoftRas (Takimoto et al. 2022, section 3.4): a few hardware-rasterized layers of enlarged faces.

Every face is drawn enlarged by a radius r. A fragment knows its signed distance to the face, hard faces (inside)
come before soft ones (outside), soft ones are ordered by distance, and K layers are peeled off. The definitions:

- dist: to the nearest of the face's three edges (segments), positive inside and on the face, in image heights.
  All edges count, those inside the silhouette too: just inside a shared edge the first layer has dist = d, the
  neighbour's soft face -d. Both sides of a closed mesh are drawn: the two faces that meet at the silhouette leave the
  stack together, and only then does the derivative agree with finite differences of the rendered loss. Culling back
  faces (cull="back") loses that agreement and is meant for speed with coarse targets only.
- a fragment exists where dist >= -r; depth = 0.5 z inside, 0.5 |dist| + 0.5 outside (3); r < 1.
- layers are ordered by (depth, face number); each holds the first fragment after that of the layer before.
- D = sigmoid(dist / sigma), sigma = r / 7; S = layer 1 is hard; E = 1 where the square window of +-delta pixels
  (delta = r, cut at the border of the image) holds hard and other pixels.
- silhouette = E (1 - prod(1 - D)) + (1 - E) S, from (4) and (6); colour by (5), see ``blend``.

A face that crosses the near plane is clipped there. The remaining parts of its three edges count, the line of the cut does
not. Beyond the far plane there are no fragments: where the nearest point of a face lies beyond it, the face is not there.

Two faces that share an edge compute the same bits for their distance to it (the ends are taken in the order of their
numbers), so that every device sees a tie.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.ops.pixel.constant import Like
from ...ad.types import Size, list_size
from ...errors import InputError
from ..surface.screen import DrawnMesh, Surface, barycentric, corners, covered, culling, pixel_centres
from .edges.point_distance import place_on, point_distance
from .edges.segments import segment
from .form import Form, Silhouette, fraction
from .mask_extremes import Extremes
from .soft_faces import NearestEdge, enlarged, face_records, face_segments


@dataclass(frozen=True, eq=False)
class SoftLayer:
    """One peeled layer; images of the batch of the positions."""

    face: Variable
    """INT: the face, -1 where the layer is empty."""
    dist: Variable
    """FLOAT: signed distance in image heights; differentiable. Undefined where the layer is empty."""
    probability: Variable
    """FLOAT: D = sigmoid(dist / sigma), 0 where the layer is empty; differentiable."""


@dataclass(frozen=True, eq=False)
class SoftLayers(Silhouette):
    """The result of the face form: the silhouette by equations (4) and (6), and the layers that it is blended from."""

    layers: tuple[SoftLayer, ...]
    """From front to back."""
    edge: Variable
    """FLOAT mask E: the pixel belongs to the band around the silhouette. No derivative."""

    @cached_property
    def surfaces(self) -> tuple[Surface, ...]:
        faces = self.mesh.faces
        found = []
        for layer in self.layers:
            at = corners(layer.face, faces)
            # Clamped to the nearest point of a soft face: no extrapolation.
            weights = barycentric(self.mesh.position, at, self.mesh.size, clamp=True)
            found.append(Surface(faces, layer.face, weights))
        return tuple(found)

    def blend(self, colours: Sequence[Variable], background: Like | None = None) -> Variable:
        """One image of the shaded layers (a float image each, front to back), by equations (4) and (5).

        On the band the result is the mean of the colours with weights D, elsewhere the front colour where it covers.
        Without ``background`` the outside is black, as in the paper. With it (a colour or an image) the band is composed
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


def face_form(
    mesh: DrawnMesh,
    radius: Variable,
    *,
    layers: int = 3,
    sigma: Like | None = None,
    delta: Like | None = None,
) -> SoftLayers:
    """Soft layers of a mesh by the definitions at the top of this module.

    radius: FLOAT 1x1, a fraction of the image height.  layers: K, how many are peeled.  sigma: softness, default
    radius / 7.  delta: half width of the band E, default radius; infinite, E = 1 everywhere (SoftRas). Differentiable in
    the positions. Raises InputError for options, GraphError for types.
    """
    if layers < 1:
        raise InputError(f"hard_soft_ras peels at least one layer, not {layers}")
    softness = 1.0 / (radius * (1 / 7) if sigma is None else fraction("sigma", sigma))
    width = None if delta == inf else radius if delta is None else fraction("delta", delta)
    faces, size = mesh.faces, mesh.size
    # Where no fragment is drawn, the window of the band holds no hard pixel: devices can skip it.
    texels = None if width is None else F.to_int(width * float(size[1]) + 0.5)
    drawn = radius
    if texels is not None and width is radius:
        drawn = F.maximum(radius, (F.to_float(texels) + 0.125) / float(size[1]))
    # A quarter of a pixel of slack: then the distance alone decides which fragments exist, and not the grid to which a
    # device rounds corners (1/16 pixel at the coarsest).
    reach = drawn + 0.25 / size[1]
    pairs = face_segments(faces, mesh.points.vertex, mesh.face_count, culling(mesh.cull))
    # Gradients are summed per segment end first and then once per vertex: fewer additions than per pixel and vertex.
    smooth = segment(mesh.points.smooth, pairs.x, pairs.y, far=False)
    ends = F.stop_gradient(smooth)
    triangles = enlarged(reach, ends, mesh.face_count, size)
    # All inputs of a fragment depend on the face alone, so that a device may read them once per triangle.
    records = face_records(ends, pairs, mesh.points.vertex, list_size(mesh.face_count))

    def nearest_edge(face: Variable) -> Variable:
        return NearestEdge(face, *(F.lookup(record, face) for record in records)).output

    last: tuple[Variable, Variable] | None = None
    peeled: list[SoftLayer] = []
    centres = pixel_centres(size)
    hard: Variable | None = None
    drawn_at: Variable | None = None
    for _ in range(layers):
        face = _peel(triangles, nearest_edge, size, drawn, mesh.face_count, last)
        nearest = nearest_edge(face)
        last = (nearest.y, face)
        dist = _signed_distance(centres, nearest, F.lookup(smooth, face * 3 + F.to_int(nearest.z)))
        within, kept = covered(face), face
        if hard is None:
            hard, drawn_at = F.greater_equal(nearest.x, 0.0), within
        if drawn is not radius:
            within = F.logical_and(within, F.greater_equal(nearest.x, -radius))
            kept = F.select(within, face, -1)
        peeled.append(SoftLayer(kept, dist, F.select(within, F.sigmoid(dist * softness), 0.0)))
    assert hard is not None
    edge = F.constant(1.0) if texels is None else _band(hard, texels, None if drawn is radius else drawn_at)
    missed = 1.0 - peeled[0].probability
    for layer in peeled[1:]:
        missed = missed * (1.0 - layer.probability)
    return SoftLayers(hard, F.select(edge, 1.0 - missed, hard), mesh, tuple(peeled), edge)


def _band(hard: Variable, texels: Variable, where: Variable | None) -> Variable:
    """E: whether the window of +-texels holds both hard and other pixels.  where: a mask that contains every pixel whose row
    of the window holds a hard pixel."""
    row = Extremes(hard, texels, "x").output
    row = row if where is None else F.select(where, row, F.constant((0.0, 0.0)))
    around = Extremes(row, texels, "y").output
    return around.y - around.x


def _peel(
    triangles: Variable,
    nearest_edge: Callable[[Variable], Variable],
    size: Size,
    radius: Variable,
    face_count: int,
    last: tuple[Variable, Variable] | None,
) -> Variable:
    """The front face among all fragments that come after ``last`` (depth, face)."""

    def fragment(face: Variable) -> tuple[Variable, Variable]:
        nearest = nearest_edge(face)
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


def _signed_distance(centres: Variable, nearest: Variable, ends: Variable) -> Variable:
    """Differentiable distance of the pixel centres to the nearest edges found, VEC4 (a, b)."""
    a, b = ends.xy, ends.zw
    away = point_distance(centres, a, b, place_on(centres, a, b))
    return F.select(F.greater_equal(nearest.x, 0.0), away, -away)


def peeled_target(distance: Variable, radius: Like, layers: int) -> Variable:
    """FLOAT: the silhouette of a closed mesh by (4), from the signed distance to its outline (positive inside).

    At the outline of a closed mesh both faces of the nearest edge are among the layers, and with three or more
    layers often a third that shares a corner: 1 - (1 - sigmoid(d / sigma))^k, k between 2 and 3. With k = 1, or with
    the hard mask, the outline would settle 0.2 radii too far inside.
    """
    k = {1: 1.0, 2: 2.0}.get(layers, 2.5)
    return 1.0 - F.pow(1.0 - F.sigmoid(distance / F.mul(radius, 1 / 7)), k)


PRESETS = {
    "aa": lambda size: {"layers": 1, "radius": 1 / size[1], "delta": 1 / size[1]},
    "default": lambda size: {"layers": 3, "radius": 0.01},
    "softras": lambda size: {"layers": 5, "radius": 0.1, "sigma": 0.0285, "delta": inf},
}
"""The modes of section 3.4.3, figure 6."""

FACE = Form("face", face_form, peeled_target, PRESETS)
