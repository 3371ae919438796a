"""The colour term of the shape phase (photo-consistency): a point of the surface has one colour in all pictures."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ....ad import functional as F
from ....ad import optim
from ....ad.graph import Variable
from ....ad.types import FLOAT, VEC3
from ...io.images import resize
from ...lists import list_leaf
from ...objectives.losses import l2
from ...surface.color import linear_to_srgb
from ...surface.screen import DrawnMesh, barycentric, corners, covered, interpolate
from ..graphs.term import BETAS, Canvas, Term

PACE = 0.05
"""Learning rate of Adam for colours, in sRGB codes."""


class HarmonicLight:
    """The brightness of a surface in each view as a function of its normal: spherical harmonics up to degree two, which
    multiply the colours. Models lights fixed in the world or to the camera, and exposures."""

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
    """Colours of the vertices are learned with the shape. Where poses are learned, too, each view has a light of its own."""

    scheduled = True

    def __init__(self, canvas: Canvas, weight: float):
        views = canvas.views
        light = HarmonicLight(canvas.mesh.vertex_normals(), canvas.count) if canvas.matrices is None else None
        colour, distance = colour_term(
            canvas.soft.mesh,
            views.colors,
            views.masks,
            canvas.size,
            canvas.margin,
            canvas.lists.vertices,
            canvas.pick,
            light,
        )
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
    """Colours of the ``count`` vertices as a leaf to be learned, VEC3 list, and their distance from the pictures.

    colors (N, H, W, 3), linear on black, and masks (N, H, W) are filtered in linear light to ``size``, with a margin, and
    compared as sRGB codes: the distance is the sum of squared differences over mask pixels that the mesh covers, divided by
    the number of all mask pixels. It is differentiable in the colours, and in the positions through interpolation over the surface; outline and visibility are
    held fixed.  pick: selects the views of the step from N.
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
