"""HardSoftRas (Takimoto et al. 2022, section 3.4): far-range gradients from a few hardware-rasterized layers.

This is the face form; ``outer_form`` is the other one behind the same call.

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
from typing import Literal, overload

from ..ad import functional as F
from ..ad.constant import Like
from ..ad.graph import Variable, as_variable
from ..ad.types import Size
from ..errors import InputError
from .edges import EdgeList, edge_list
from .outer_form import OuterSilhouette, outer_form
from .screen import Projected, covered, culling, pixel_centres, project
from .silhouette import Silhouette
from .soft_faces import Enlarge, Extremes, FaceRecord, NearestEdge


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
class SoftLayers(Silhouette):
    """What the face form returns: the silhouette by equations (4) and (6), and the layers it is blended from."""

    layers: tuple[SoftLayer, ...]
    """From front to back."""
    edge: Variable
    """FLOAT mask E: the pixel belongs to the band around the silhouette. No derivative."""

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


FORMS = ("face", "outer")
"""How distances are measured."""


@overload
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
    form: Literal["face"] = "face",
) -> SoftLayers: ...
@overload
def hard_soft_ras(
    position: Variable,
    faces: Variable,
    *,
    size: Size,
    radius: Like,
    face_count: int,
    cull: str = "none",
    form: Literal["outer"],
    edges: EdgeList | None = None,
) -> OuterSilhouette: ...
@overload
def hard_soft_ras(
    position: Variable,
    faces: Variable,
    *,
    size: Size,
    radius: Like,
    face_count: int,
    layers: int | None = None,
    sigma: Like | None = None,
    delta: Like | None = None,
    cull: str = "none",
    form: str,
    edges: EdgeList | None = None,
) -> Silhouette: ...
def hard_soft_ras(
    position: Variable,
    faces: Variable,
    *,
    size: Size,
    radius: Like,
    face_count: int,
    layers: int | None = None,
    sigma: Like | None = None,
    delta: Like | None = None,
    cull: str = "none",
    form: str = "face",
    edges: EdgeList | None = None,
) -> Silhouette:
    """The soft silhouette of a mesh (Dressi, section 3.4) in one of two forms.

    "face": the paper's, by the definitions at the top of this module; ``SoftLayers``.
    "outer": soft outside of the outline only, by those of ``outer_form``; ``OuterSilhouette``.

    position: VEC4 list in clip space, batch N (views).  faces: IVEC3 list, the first ``face_count`` are drawn.
    size: of the images.  radius: fraction of the image height in (0, 1), a number or a FLOAT 1x1 Variable, which
    can then change from step to step.  cull: "none" or "back".  Of the face form alone: layers, K, how many are
    peeled, default 3; sigma, softness, default radius / 7; delta, half width of the band E, default radius.  Of the
    outer form alone: edges, ``edge_list`` of the faces, by default made of the data of ``faces``.
    Images have size ``size`` and batch N. Differentiable in position. Faces with a corner behind the viewer or in
    front of the near plane are dropped. Raises InputError for options, GraphError for types.
    """
    if form not in FORMS:
        raise InputError(f"form is one of {', '.join(FORMS)}, not {form!r}")
    foreign = {"edges": edges} if form == "face" else {"layers": layers, "sigma": sigma, "delta": delta}
    for name, value in foreign.items():
        if value is not None:
            raise InputError(f"{name} has no meaning in the {form} form; leave it out")
    layers = 3 if layers is None else layers
    if layers < 1:
        raise InputError(f"hard_soft_ras peels at least one layer, not {layers}")
    for name, value in (("radius", radius), ("sigma", sigma), ("delta", delta)):
        if isinstance(value, int | float) and not 0 < value < 1:
            raise InputError(f"{name} is a fraction of the image height in (0, 1), not {value}")
    radius = as_variable(radius)
    size = (int(size[0]), int(size[1]))
    if form == "outer":
        edges = edges or _edges_of(faces, face_count)
        return outer_form(position, faces, edges, size=size, radius=radius, face_count=face_count, cull=cull)
    softness = radius * (1 / 7) if sigma is None else as_variable(sigma)
    width = radius if delta is None else as_variable(delta)
    return _face_form(position, faces, size, radius, face_count, layers, softness, width, culling(cull))


def _edges_of(faces: Variable, face_count: int) -> EdgeList:
    if faces.data is None or faces.batch != 1:
        raise InputError(
            f"the outer form needs the edges, and {faces} has no data to make them of; give edges=edge_list(faces)"
        )
    return edge_list(faces.data.reshape(-1, 3)[:face_count])


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
    # A quarter of a pixel more than the radius: which fragments there are is decided by their distance alone, not
    # by how finely a device rasterizes (the coarsest places corners on a grid of 1/16 pixel).
    reach = radius + 0.25 / size[1]
    triangles = Enlarge(reach, faces, points.vertex, face_count, size, cull).output
    # What a fragment reads depends on the face alone, so that devices may read it once a triangle.
    records = [FaceRecord(faces, points.vertex, part).output for part in range(3)]

    def nearest_edge(face: Variable) -> Variable:
        return NearestEdge(face, *(F.lookup(record, face) for record in records)).output

    last: tuple[Variable, Variable] | None = None
    peeled: list[SoftLayer] = []
    centres, softness = pixel_centres(size), 1.0 / sigma
    hard: Variable | None = None
    for _ in range(layers):
        face = _peel(triangles, nearest_edge, size, radius, face_count, last)
        nearest = nearest_edge(face)
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
    return SoftLayers(hard, F.select(edge, 1.0 - missed, hard), tuple(peeled), edge)


def _peel(
    triangles: Variable,
    nearest_edge: Callable[[Variable], Variable],
    size: Size,
    radius: Variable,
    face_count: int,
    last: tuple[Variable, Variable] | None,
) -> Variable:
    """The face in front, of all fragments that come after ``last`` (depth, face)."""

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
