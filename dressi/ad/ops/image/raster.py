"""Rasterization: the number of the face that wins each pixel.

Clip space is Vulkan's: x to the right, y down, z in [0, w]; ndc -> pixel is (ndc * 0.5 + 0.5) * (W, H), and the
centre of pixel (x, y) is (x + 0.5, y + 0.5). The result is an INT image without derivative. Values that depend smoothly on
the geometry are computed from the winning face by ordinary Functions.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from ....errors import GraphError
from ...evaluate import values_at
from ...graph import (
    At,
    Domain,
    RasterFunction,
    Variable,
    as_variable,
)
from ...types import FLOAT, INT, IVEC3, VEC4, Access, Size, VType
from .fragment import Fragment, FragmentGraph, split

__all__ = ["rasterize"]

PAIRS = 1 << 19
"""The number of (triangle, pixel) candidates that NumPy holds at a time."""


class Rasterize(RasterFunction):
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

    @property
    def sign_only(self) -> tuple[int, ...]:
        graph = self.fragment
        if graph is None:
            return ()
        counted = {v for f in graph.functions for k, v in enumerate(f.inputs) if k not in f.sign_only}
        counted.update(graph.roots)
        return tuple(self.pulled + k for k, v in enumerate(graph.formals) if v not in counted)

    @cached_property
    def access(self) -> tuple[Access, ...]:
        fetched = self.fragment.fetched if self.fragment else ()
        return (Access.PULL,) * self.pulled + tuple(Access.FETCH if f else Access.SAME_PIXEL for f in fetched)

    def infer(self) -> tuple[VType, Domain]:
        position, domain = self.inputs[0], Domain(self.size, self.batch)
        if position.vtype is not VEC4:
            raise self.fail("positions are VEC4 in clip space")
        if self.indexed and self.inputs[1].vtype is not IVEC3:
            raise self.fail("faces are IVEC3, three numbers of positions each")
        if self.live is not None and self.live.vtype not in (FLOAT, INT):
            raise self.fail("the mask of live faces is FLOAT or INT")
        for x, access in zip(self.inputs, self.access, strict=True):
            if x.channels > 1:
                raise self.fail(f"{x} has channels; rasterizations read images without, see F.from_channels")
            if x.tiles not in (1, self.batch):
                raise self.fail(f"{x} must have batch 1 or {self.batch}")
            if access is Access.SAME_PIXEL and any(
                n not in (1, m) for n, m in zip(x.size, self.size, strict=True)
            ):
                raise self.fail(f"{x} is read at the fragment's own pixel and must have size 1x1 or {domain}")
        last = self.inputs[1] if self.indexed else position
        held = last.size[0] * last.size[1] // (1 if self.indexed else 3)
        if not 1 <= self.triangles <= held:
            raise self.fail(f"cannot draw {self.triangles} triangles of a list of {held}")
        if self.triangles_per_face < 1 or self.triangles % self.triangles_per_face:
            raise self.fail(f"{self.triangles} triangles do not make faces of {self.triangles_per_face} each")
        if self.live is not None and self.live.size[0] * self.live.size[1] < self.faces:
            raise self.fail(f"{self.faces} faces need as many texels of the mask, not {self.live}")
        return INT, domain

    def evaluate(self, at: At, *x: np.ndarray) -> np.ndarray:
        corners = self._corners(x)
        width, height = self.size
        depths = np.ones(self.batch * height * width, np.float32)
        winners = np.full(self.batch * height * width, -1, np.int64)
        triangles = corners.shape[1]
        for tile, triangle, px, py, z in _covered(corners.reshape(-1, 3, 4), triangles, self.size):
            face = triangle // self.triangles_per_face
            depth = z
            if self.fragment is not None:
                at = At(*(a.reshape(1, 1, -1) for a in (px, py, tile)))
                depth, keep = self._fragments(at, face, x[self.pulled :], x[0].dtype)
                alive = (keep != 0) & ~np.isnan(depth)
                depth, face, px, py, tile = (a[alive] for a in (np.clip(depth, 0, 1), face, px, py, tile))
            # Depths are compared in the precision that devices store, so that faces which meet in an edge tie there too.
            depth, pixel = depth.astype(np.float32), (tile * height + py) * width + px
            order = np.lexsort((face, depth, pixel))
            first = order[np.diff(pixel[order], prepend=-1) != 0]
            pixel, depth, face = pixel[first], depth[first], face[first]
            held, holder = depths[pixel], winners[pixel]
            better = (depth < held) | ((depth == held) & (face < holder))
            depths[pixel[better]], winners[pixel[better]] = depth[better], face[better]
        return np.minimum(winners, 0 if self.covering else winners).reshape(self.batch, height, width)

    def _corners(self, x: tuple[np.ndarray, ...]) -> np.ndarray:
        """Clip positions of the corners, (batch, triangles, 3, 4). They are 0 for indices out of range and for faces that are
        not live."""
        corners = self._all_corners(x)
        if not self.masked:
            return corners
        live = x[self.pulled - 1].reshape(len(x[self.pulled - 1]), -1)[:, : self.faces] != 0
        return np.where(np.repeat(live, self.triangles_per_face, axis=1)[..., None, None], corners, 0)

    def _all_corners(self, x: tuple[np.ndarray, ...]) -> np.ndarray:
        position = x[0].reshape(x[0].shape[0], -1, 4)
        if not self.indexed:
            corners = position[:, : 3 * self.triangles].reshape(len(position), self.triangles, 3, 4)
            return np.broadcast_to(corners, (self.batch, self.triangles, 3, 4))
        faces = x[1].reshape(x[1].shape[0], -1, 3)[:, : self.triangles]
        position = np.broadcast_to(position, (self.batch, *position.shape[1:]))
        faces = np.broadcast_to(faces, (self.batch, *faces.shape[1:]))
        valid = (faces >= 0) & (faces < position.shape[1])
        tile = np.arange(self.batch).reshape(-1, 1, 1)
        return np.where(valid[..., None], position[tile, np.where(valid, faces, 0)], 0)

    def _fragments(
        self, at: At, face: np.ndarray, externals: tuple[np.ndarray, ...], dtype: np.dtype
    ) -> tuple[np.ndarray, np.ndarray]:
        """(depth, keep) of the fragments at the flattened pixels ``at``, each of shape (fragments,)."""
        graph = self.fragment
        assert graph is not None
        whole = dict(zip(graph.formals, externals, strict=True))
        here: dict[Variable, np.ndarray] = {graph.face: face.reshape(1, 1, -1)}

        def read(v: Variable, access: Access) -> np.ndarray:
            if access is not Access.SAME_PIXEL:
                return whole[v]
            if v not in here:
                here[v] = _gather(whole[v], at)
            return here[v]

        for function in graph.functions:
            inputs = [read(v, a) for v, a in zip(function.inputs, function.access, strict=True)]
            here[function.output] = values_at(function, at, inputs, dtype)
        depth, keep = read(graph.depth, Access.SAME_PIXEL), 1.0
        if graph.keep is not None:
            keep = read(graph.keep, Access.SAME_PIXEL)
        shape = (1, 1, face.size)
        return np.broadcast_to(depth, shape).reshape(-1), np.broadcast_to(keep, shape).reshape(-1)


def _gather(image: np.ndarray, at: At) -> np.ndarray:
    """The values of ``image`` at the given texels. Axes of extent 1 broadcast."""
    if image.shape[:3] == (1, 1, 1):
        return image
    return image[
        tuple(c if n > 1 else 0 for c, n in zip((at.tile, at.y, at.x), image.shape[:3], strict=True))
    ]


def _covered(corners: np.ndarray, triangles: int, size: Size) -> Iterator[tuple[np.ndarray, ...]]:
    """(tile, triangle, x, y, depth) of covered pixels, in chunks of bounded memory.

    ``corners``: (batch * triangles, 3, 4). A centre exactly on an edge belongs to the triangles on both sides. A triangle
    that reaches behind the eye (w <= 0) is drawn as far as it lies before it. A triangle without area, or with a corner
    that is not finite, covers nothing. Fragments with depths outside [0, 1] are dropped.
    """
    clip = np.asarray(corners, np.float64)
    good = np.flatnonzero(np.isfinite(clip).all(axis=(1, 2)) & (clip[..., 3] > 0).any(axis=1))
    clip = clip[good]
    # Triangles before the eye are divided by w. The others stay homogeneous; their bounds are the whole image.
    before = np.all(clip[..., 3] > 0, axis=1)
    clip[before] /= clip[before][..., 3:]
    w, z = clip[..., 3], clip[..., 2]
    xy = (clip[..., :2] * 0.5 + 0.5 * w[..., None]) * np.array(size)
    first = (
        np.arange(len(good)),
        w.argmax(axis=1),
    )  # relative to one of the corners, the area suffers little cancellation
    x, y = (xy[first] / w[first][:, None]).T
    spans = [_cross(xy, w, x, y, i, j) * w[:, k] for i, j, k in ((1, 2, 0), (2, 0, 1), (0, 1, 2))]
    area = np.sum(spans, axis=0)
    low = np.where(before[:, None], np.clip(np.ceil(xy.min(axis=1) - 0.5), 0, size), 0).astype(np.int64)
    high = np.where(before[:, None], np.clip(np.floor(xy.max(axis=1) - 0.5) + 1, 0, size), size).astype(
        np.int64
    )
    extent = np.maximum(high - low, 0)
    count = extent.prod(axis=1) * ((area != 0) & np.isfinite(area))
    start = np.concatenate([[0], np.cumsum(count)])
    at = 0
    while at < len(good):
        end = max(int(np.searchsorted(start, start[at] + PAIRS, side="right")) - 1, at + 1)
        n = count[at:end]
        k = np.repeat(np.arange(at, end), n)
        offset = np.arange(k.size) - (start[k] - start[at])
        px = low[k, 0] + offset % extent[k, 0]
        py = low[k, 1] + offset // extent[k, 0]
        # Olano and Greer 1997: divided by the determinant, these are the weights of the corners, divided by w, at the pixel.
        sides = [_cross(xy[k], w[k], px + 0.5, py + 0.5, i, j) for i, j in ((1, 2), (2, 0), (0, 1))]
        weights = np.stack(sides) / area[k]
        inside = (weights >= 0).all(axis=0)
        k, px, py, weights = k[inside], px[inside], py[inside], weights[:, inside]
        depth = (weights * z[k].T).sum(axis=0)
        kept = (depth >= 0) & (depth <= 1)
        k, px, py, depth = k[kept], px[kept], py[kept], depth[kept]
        if k.size:
            yield good[k] // triangles, good[k] % triangles, px, py, depth
        at = end


def _cross(
    xy: np.ndarray, w: np.ndarray, x: np.ndarray | float, y: np.ndarray | float, i: int, j: int
) -> np.ndarray:
    """The determinant of corners i and j of triangles with the ray through (x, y). xy: pixels times w."""
    dx = [xy[:, k, 0] - x * w[:, k] for k in (i, j)]
    dy = [xy[:, k, 1] - y * w[:, k] for k in (i, j)]
    return dx[0] * dy[1] - dx[1] * dy[0]


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
    """The number of the winning face at every pixel, -1 where there is none: INT of ``size``, without derivative.

    position: VEC4 list in clip space; its batch (or that of faces or of what the fragment reads) is the batch of
    the result.  faces: IVEC3 list; absent, three consecutive positions make a triangle.  triangles: how many are
    drawn, by default all of the list; triangle t belongs to face t // triangles_per_face. Nothing is culled, both
    sides are drawn. Triangles that reach behind the eye (w <= 0), or outside of the depths 0 to 1, are clipped.

    live: FLOAT or INT list, one texel a face; a face whose texel is 0 is not drawn. If most are 0, devices list the live
    faces in order and draw only those. Its batch is 1 or that of the result, and counts towards it.

    Without ``fragment`` the nearest face wins, by the interpolated z / w. Otherwise ``fragment(face)`` returns
    ``(depth, keep)``: the FLOAT depth, in [0, 1), and a FLOAT mask (or None) that is 0 where the fragment is discarded.
    Fragments with a depth of 1 or more never win. The fragment may use any outer Variables, and PixelFunctions over
    ``face`` (INT); what does not depend on ``face`` is computed once a pixel, outside of the rasterization. If depths are
    equal the face with the lower number wins.

    disjoint: promises that the triangles of one face never overlap, so that a pixel has at most one fragment of the
    winning face; by default true if a face is one triangle. Raises GraphError.

    >>> position = Variable.of([[-1.0, -1, 0, 1], [1, -1, 0, 1], [-1, 1, 0, 1]], VEC4)  # half of the image
    >>> evaluate(F.rasterize(position, size=(4, 3)))[0].tolist()
    [[0, 0, 0, -1], [0, 0, -1, -1], [0, -1, -1, -1]]
    """
    size = (int(size[0]), int(size[1]))
    if triangles is None:
        held = faces if faces is not None else position
        triangles = held.size[0] * held.size[1] // (1 if faces is not None else 3)
    disjoint = triangles_per_face == 1 if disjoint is None else disjoint
    batch = max(x.tiles for x in (position, faces, live) if x is not None)
    graph, externals = None, ()
    if fragment is not None:
        face = Variable(INT, size, batch, name="face")
        depth, keep = fragment(face)
        roots = [as_variable(depth)] + ([] if keep is None else [as_variable(keep)])
        for root in roots:
            if root.vtype is not FLOAT:
                raise GraphError(f"depth and keep of a fragment are FLOAT, not {root} (at {root.where})")
        graph, externals = split(face, roots)
        batch = max(batch, *(x.tiles for x in externals), 1)
    return Rasterize(
        position, faces, live, externals, size, batch, triangles, triangles_per_face, graph, disjoint
    ).output
