"""The terms of the loss of the shape phase. A new one is a class here and a row of ``FitOptions``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ....ad import functional as F
from ....ad import optim
from ....ad.graph import Variable
from ....ad.graph.types import FLOAT, VEC3
from ...core.lists import list_leaf
from ...forms.form import Silhouette
from ...io.images import resize
from ...objectives.losses import charbonnier, l2
from ...objectives.regularizers import edge_length_loss, normal_consistency
from ...surface.color import linear_to_srgb
from ...surface.screen import DrawnMesh, barycentric, corners, covered, interpolate
from ..data.learned import cut_off, least_distances, resized, signed_distances
from .term import BETAS, Canvas, Term


class Bending(Term):
    """The squared Laplacian of the positions, which smooths, or of their difference from a given shape, which
    keeps its details."""

    def __init__(self, canvas: Canvas):
        position, rest = canvas.position, canvas.rest
        moved = position if rest is None else position - list_leaf("rest", VEC3, rest)
        weight = canvas.plan.smoothness * canvas.factors.smoothness
        super().__init__(canvas.lists.bending(moved, weight), factors=("smoothness",))


# The colour term (photo-consistency): a point of the surface has one colour in all pictures.

PACE = 0.05
"""Learning rate of Adam for colours, in sRGB codes."""


class HarmonicLight:
    """The brightness of a surface in each view as a function of its normal: spherical harmonics up to degree
    two, which multiply the colours. Models lights fixed in the world or to the camera, and exposures."""

    def __init__(self, normals: np.ndarray, views: int):
        x, y, z = np.asarray(normals, np.float64).T
        bands = (x, y, z), (x * y, y * z, z * x), (x * x - y * y, 3 * z * z - 1, np.ones_like(x))
        self.parameters = [
            Variable(VEC3, (1, 1), views, name=f"light {i}", data=np.zeros((views, 1, 1, 3)))
            for i in range(3)
        ]
        total = F.constant(1.0)
        for i, (band, leaf) in enumerate(zip(bands, self.parameters, strict=True)):
            basis = F.expand(list_leaf(f"harmonics {i}", VEC3, np.stack(band, axis=1)), views)
            total = F.dot(basis, leaf) + total
        self.shade = total
        """FLOAT list of vertices, N tiles."""


class Colours(Term):
    """Colours of the vertices are learned with the shape. Where poses are learned, too, each view has a light
    of its own."""

    scheduled = True

    def __init__(self, canvas: Canvas, weight: float):
        views, lists, light = canvas.views, canvas.lists, None
        if canvas.matrices is None:
            light = HarmonicLight(lists.mesh.vertex_normals(), len(views.masks))
        at = canvas.size, canvas.margin, lists.vertices, canvas.pick, light
        colour, distance = colour_term(canvas.soft.mesh, views.colors, views.masks, *at)
        paces = {colour: optim.adam(PACE, BETAS)}
        if light is not None:
            paces |= {leaf: optim.adam(0.02, BETAS) for leaf in light.parameters}
        super().__init__(
            distance * (weight * canvas.factors.colour),
            optimizers=paces,
            of_vertices=(colour,),
            factors=("colour",),
            codes=partial(vertex_colours, colour=colour),
            # What the light of a view makes of them is compared with its picture, not they themselves.
            shown=light is None,
        )


def colour_term(
    drawn: DrawnMesh,
    colors: np.ndarray,
    masks: np.ndarray,
    size: tuple[int, int],
    margin: int,
    count: int,
    pick: Callable[[Variable], Variable] = lambda views: views,
    light: HarmonicLight | None = None,
) -> tuple[Variable, Variable]:
    """Colours of the ``count`` vertices as a leaf to be learned, VEC3 list, and their distance from the
    pictures.

    colors (N, H, W, 3), linear on black, and masks (N, H, W) are filtered in linear light to ``size``, with a
    margin, and compared as sRGB codes: the distance is the sum of squared differences over mask pixels that
    the mesh covers, divided by the number of all mask pixels. It is differentiable in the colours, and in the
    positions through interpolation over the surface; outline and visibility are held fixed.  pick: selects
    the views of the step from N.
    """
    around = ((margin, margin), (margin, margin))
    codes, inside = [], []
    for color, mask in zip(colors, masks, strict=True):
        share = resize(mask.astype(np.float32), size)
        # The colours lie on black: their mean over a pixel is that of what covers it, times its share.
        mean = resize(color.astype(np.float32), size) / np.maximum(share, 1e-6)[..., None]
        codes.append(np.pad(linear_to_srgb(mean), (*around, (0, 0))))
        inside.append(np.pad((share > 0.99).astype(np.float32), around))
    weight, total = np.stack(inside), max(float(np.sum(inside)), 1.0)
    target = Variable(VEC3, drawn.size, len(masks), name="colours", data=np.stack(codes))
    within = Variable(FLOAT, drawn.size, len(masks), name="inside", data=weight)
    colour = list_leaf("colour", VEC3, np.full((count, 3), 0.5))
    lit = colour if light is None else F.expand(colour, drawn.position.batch) * pick(light.shade)
    shown = vertex_colours(drawn, lit)
    difference = l2(shown, pick(target), pick(within) * covered(drawn.face), "sum")
    return colour, difference * (len(masks) / (3 * total * drawn.position.batch))


def vertex_colours(drawn: DrawnMesh, colour: Variable) -> Variable:
    """VEC3: the colours of vertices (VEC3 list) at each pixel, 0 where there is no face."""
    at = corners(drawn.face, drawn.faces)
    return interpolate(colour, at, barycentric(drawn.position, at, drawn.size))


class Consistency(Term):
    """1 - cos of the angles between the normals of neighbouring faces, in the mean over the edges: they lie
    in one plane, or meet at a crease."""

    def __init__(self, canvas: Canvas, weight: float):
        super().__init__(normal_consistency(canvas.position, canvas.edges) * weight)


class EdgeLength(Term):
    """Squares of (length / mean length - 1), in the mean over the edges."""

    def __init__(self, canvas: Canvas, weight: float):
        super().__init__(edge_length_loss(canvas.position, canvas.lists.neighbours) * weight)


TOLERANCE = 0.02
"""Differences of depths, in units of the scene, above which the term grows linearly: outliers pull no more
than others."""


class Depths(Term):
    """Distances of the surface along the optical axis are the measured ones. They show concavities that no
    outline shows."""

    share, far = 0.3, False

    def __init__(self, canvas: Canvas, weight: float):
        views, matrices = canvas.views, canvas.matrices
        assert views.depths is not None
        # Learned poses are in units of the scene, matrices are from them to the world.
        unit = 1.0 if matrices is None else float(np.linalg.norm(matrices[0, 3, :3]))
        at = canvas.size, canvas.margin, unit, canvas.form.exact_inside, canvas.pick
        super().__init__(depth_term(canvas.soft, views.depths, views.masks, *at) * weight)


def depth_term(
    drawn: Silhouette,
    depths: np.ndarray,
    masks: np.ndarray,
    size: tuple[int, int],
    margin: int,
    unit: float = 1.0,
    blended: bool = False,
    pick: Callable[[Variable], Variable] = lambda views: views,
) -> Variable:
    """FLOAT 1x1: the distance of the drawn depths from measured ones (N, H, W), in units of the scene, 0
    where unknown.

    Compared at ``size`` with a margin, over pixels inside of the masks (N, H, W) whose depth is known and
    that the mesh covers: ``charbonnier`` of the scale TOLERANCE over that scale, which for large differences
    is their magnitude. It is divided by the number of all such pixels, covered or not. Differentiable in the
    positions.

    unit: how many units of clip w are one unit of the scene.  blended: whether depths are blended at edges
    inside of outlines (for forms that are ``exact_inside``); otherwise the nearest surface at the pixel
    centre is compared, its visibility held fixed.  pick: selects the views of the step from N.
    """
    told = [depth_at(*pair, size) for pair in zip(depths, masks, strict=True)]
    target = np.pad(np.stack(told), ((0, 0), (margin, margin), (margin, margin)))
    total = max(float((target > 0).sum()), 1.0)
    mesh, views = drawn.mesh, len(target)
    measured = pick(Variable(FLOAT, mesh.size, views, name="depths", data=target))
    weight = F.greater(measured, 0.0) * covered(mesh.face)
    found = depth_image(drawn, blended) * (1 / unit)
    distance = charbonnier(found, measured, weight, "sum", scale=TOLERANCE)
    return distance * (views / (total * mesh.position.batch * TOLERANCE))


def depth_image(drawn: Silhouette, blended: bool = False) -> Variable:
    """FLOAT: clip w, the distance from the camera along its axis, of the nearest surface, 0 where there is
    none; or blended from all surfaces of the form. Differentiable in the positions."""
    mesh = drawn.mesh
    table = F.component(mesh.position, 3)
    if blended:
        return drawn.blend([surface.interpolate(table) for surface in drawn.surfaces])
    at = corners(mesh.face, mesh.faces)
    return interpolate(table, at, barycentric(mesh.position, at, mesh.size))


def depth_at(depths: np.ndarray, mask: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """(h, w) float32: depths (H, W) inside of a mask (H, W) at another size; the mean of those that are
    known, 0 where that is less than half of the pixel, and where the pixel is not inside of the mask as a
    whole."""
    told = ((depths > 0) & (mask >= 0.5)).astype(np.float32)
    share, inside = resize(told, size), resize(mask.astype(np.float32), size)
    mean = resize(depths.astype(np.float32) * told, size) / np.maximum(share, 1e-6)
    return np.where((share >= 0.5) & (inside > 0.99), mean, 0.0)


class Outlines(Term):
    """L2 of soft silhouettes and the masks, in the mean over the picture without its margin.

    Beyond the border of a truncated mask the coverage is unknown. There the loss of a one-sided form is 0 as
    long as the silhouette lies between the one for an uncovered and the one for a covered outside.
    """

    def __init__(self, canvas: Canvas):
        form, views, soft = canvas.form, canvas.views, canvas.soft
        masks, known, size, margin, wide = views.masks, views.known, canvas.size, canvas.margin, canvas.wide

        def image(name: str, data: np.ndarray) -> Variable:
            return canvas.pick(Variable(FLOAT, wide, len(masks), name=name, data=data))

        def target_of(distances: Variable) -> Variable:
            assert form.target is not None
            return form.target(distances, canvas.radius, canvas.layers)

        target, weight = target_of(image("outline", signed_distances(masks, size, margin))), None
        if form.one_sided and cut_off(masks, known).any():
            most = target_of(image("nearest", least_distances(masks, size, margin, known)))
            target = F.maximum(target, F.minimum(soft.silhouette, most))
        elif not form.one_sided and known is not None:
            weight = image("known", resized(known, size) > 0.999)
        super().__init__(l2(soft.silhouette, target, weight) * (wide[0] * wide[1] / (size[0] * size[1])))
