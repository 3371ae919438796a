"""Rasterization: the number of the face that wins each pixel.

Clip space is Vulkan's: x to the right, y down, z in [0, w]; ndc -> pixel is (ndc * 0.5 + 0.5) * (W, H), and
the centre of pixel (x, y) is (x + 0.5, y + 0.5). The result is an INT image without derivative. Values that
depend smoothly on the geometry are computed from the winning face by ordinary Functions.
"""

from __future__ import annotations

import numpy as np

from ...graph import At, Domain, RasterFunction, Variable, as_variable
from ...types import INT, Size, VType, size_of
from .draws import Draw, Fragment, FragmentGraph, check_root, held_triangles, split

__all__ = ["rasterize"]


class Rasterize(Draw, RasterFunction):
    """See :func:`rasterize`."""

    zero_derivative = True

    def __init__(
        self,
        position: Variable,
        faces: Variable | None,
        live: Variable | None,
        externals: tuple[Variable, ...],
        size: Size,
        batch: int,
        triangles: int,
        triangles_per_face: int,
        fragment: FragmentGraph | None,
        disjoint: bool,
        covering: bool = False,
    ):
        self.indexed, self.masked = faces is not None, live is not None
        self.size, self.batch = size, batch
        self.triangles, self.triangles_per_face = triangles, triangles_per_face
        self.fragment, self.disjoint, self.covering = fragment, disjoint, covering
        super().__init__(position, *(x for x in (faces, live) if x is not None), *externals)

    def infer(self) -> tuple[VType, Domain]:
        self.check_inputs()
        return INT, self.drawn

    def evaluate(self, at: At, *x: np.ndarray) -> np.ndarray:
        width, height = self.size
        depths = np.ones(self.batch * height * width, np.float32)
        winners = np.full(self.batch * height * width, -1, np.int64)
        for here in self.fragments(x, once=False):
            face, depth = here.face, here.z
            px, py, tile = (a.reshape(-1) for a in here.at)
            if self.fragment is not None:
                depth, *keep = self.values(here, x)
                alive = ~np.isnan(depth)
                for mask in keep:
                    alive &= mask != 0
                depth, face, px, py, tile = (a[alive] for a in (np.clip(depth, 0, 1), face, px, py, tile))
            # Depths are compared in the precision that devices store, so that faces which meet in an edge tie
            # there too.
            depth, pixel = depth.astype(np.float32), (tile * height + py) * width + px
            order = np.lexsort((face, depth, pixel))
            first = order[np.diff(pixel[order], prepend=-1) != 0]
            pixel, depth, face = pixel[first], depth[first], face[first]
            held, holder = depths[pixel], winners[pixel]
            better = (depth < held) | ((depth == held) & (face < holder))
            depths[pixel[better]], winners[pixel[better]] = depth[better], face[better]
        return np.minimum(winners, 0 if self.covering else winners).reshape(self.batch, height, width)


def rasterize(
    position: Variable,
    faces: Variable | None = None,
    *,
    size: Size,
    triangles: int | None = None,
    triangles_per_face: int = 1,
    live: Variable | None = None,
    fragment: Fragment | None = None,
    disjoint: bool | None = None,
) -> Variable:
    """The number of the winning face at every pixel, -1 where there is none: INT of ``size``, without
    derivative.

    position: VEC4 list in clip space; its batch (or that of faces or of what the fragment reads) is the batch
    of the result.  faces: IVEC3 list; absent, three consecutive positions make a triangle.  triangles: how
    many are drawn, by default all of the list; triangle t belongs to face t // triangles_per_face. Nothing is
    culled, both sides are drawn. Triangles that reach behind the eye (w <= 0), or outside of the depths 0 to
    1, are clipped.

    live: FLOAT or INT list, one texel a face; a face whose texel is 0 is not drawn. If most are 0, devices
    list the live faces in order and draw only those. Its batch is 1 or that of the result, and counts towards
    it.

    Without ``fragment`` the nearest face wins, by the interpolated z / w. Otherwise ``fragment(face)``
    returns ``(depth, keep)``: the FLOAT depth, in [0, 1), and a FLOAT mask (or None) that is 0 where the
    fragment is discarded. Fragments with a depth of 1 or more never win. The fragment may use any outer
    Variables, and PixelFunctions over ``face`` (INT); what does not depend on ``face`` is computed once a
    pixel, outside of the rasterization. If depths are equal the face with the lower number wins.

    disjoint: promises that the triangles of one face never overlap, so that a pixel has at most one fragment
    of the winning face; by default true if a face is one triangle. Raises GraphError.

    >>> position = Variable.of([[-1.0, -1, 0, 1], [1, -1, 0, 1], [-1, 1, 0, 1]], VEC4)  # half of the image
    >>> evaluate(F.rasterize(position, size=(4, 3)))[0].tolist()
    [[0, 0, 0, -1], [0, 0, -1, -1], [0, -1, -1, -1]]
    """
    size = size_of(size)
    triangles = held_triangles(position, faces) if triangles is None else triangles
    disjoint = triangles_per_face == 1 if disjoint is None else disjoint
    batch = max(x.tiles for x in (position, faces, live) if x is not None)
    graph, externals = None, ()
    if fragment is not None:
        face = Variable(INT, size, batch, name="face")
        depth, keep = fragment(face)
        roots = [as_variable(depth)] + ([] if keep is None else [as_variable(keep)])
        for root in roots:
            check_root(root, "depth and keep")
        graph, externals = split(face, roots)
        batch = max(batch, *(x.tiles for x in externals), 1)
    return Rasterize(
        position, faces, live, externals, size, batch, triangles, triangles_per_face, graph, disjoint
    ).output
