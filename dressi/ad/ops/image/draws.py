"""Draws of triangles: which pixels they cover, the sub-graph of every fragment, and rasterization.

Clip space is Vulkan's: x to the right, y down, z in [0, w]; ndc -> pixel is (ndc * 0.5 + 0.5) * (W, H), and
the centre of pixel (x, y) is (x + 0.5, y + 0.5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ....errors import GraphError
from ...graph import (
    At,
    Domain,
    DrawFunction,
    Function,
    PixelFunction,
    RasterFunction,
    ReduceFunction,
    Variable,
    as_variable,
)
from ...graph.evaluation import SubGraph
from ...graph.traversal import reached, topological_order
from ...graph.types import FLOAT, INT, IVEC3, VEC4, Access, Size, VType, size_of
from .coordinates import fetch

__all__ = ["rasterize"]

PAIRS = 1 << 19
"""The number of (triangle, pixel) candidates that NumPy holds at a time."""


class Fragments(NamedTuple):
    """Fragments side by side, arrays (count,). at: their pixels and tiles, (1, 1, count). z: z / w."""

    at: At
    face: np.ndarray
    z: np.ndarray


class Draw(DrawFunction):
    """A Function that draws triangles, and runs a ``FragmentGraph`` in every fragment."""

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

    @property
    def places(self) -> frozenset[str]:
        return frozenset(("pixel", "tile"))

    def known_value(self, known):
        return None

    def check_inputs(self) -> None:
        """Raises GraphError unless the inputs are lists and images of a draw."""
        position, domain = self.inputs[0], self.drawn
        if position.vtype is not VEC4:
            raise self.fail("positions are VEC4 in clip space")
        if self.indexed and self.inputs[1].vtype is not IVEC3:
            raise self.fail("faces are IVEC3, three numbers of positions each")
        if self.live is not None and self.live.vtype not in (FLOAT, INT):
            raise self.fail("the mask of live faces is FLOAT or INT")
        for x, access in zip(self.inputs, self.access, strict=True):
            if x.channels > 1:
                raise self.fail(f"{x} has channels; draws read images without, see F.from_channels")
            if x.tiles not in (1, self.batch):
                raise self.fail(f"{x} must have batch 1 or {self.batch}")
            fits = all(n in (1, m) for n, m in zip(x.size, self.size, strict=True))
            if access is Access.SAME_PIXEL and not fits:
                raise self.fail(f"{x} is read at the fragment's own pixel and must have size 1x1 or {domain}")
        held = held_triangles(position, self.inputs[1] if self.indexed else None)
        if not 1 <= self.triangles <= held:
            raise self.fail(f"cannot draw {self.triangles} triangles of a list of {held}")
        if self.triangles_per_face < 1 or self.triangles % self.triangles_per_face:
            raise self.fail(f"{self.triangles} triangles do not make faces of {self.triangles_per_face} each")
        if self.live is not None and self.live.size[0] * self.live.size[1] < self.faces:
            raise self.fail(f"{self.faces} faces need as many texels of the mask, not {self.live}")

    # ---- in NumPy
    def fragments(self, x: tuple[np.ndarray, ...], *, once: bool) -> Iterator[Fragments]:
        """All fragments, in chunks. once: a pixel centre on an edge belongs to one of the triangles beside
        it, as on devices; otherwise to both."""
        corners = self._corners(x)
        flat = corners.reshape(-1, 3, 4)
        for tile, triangle, px, py, z in _covered(flat, corners.shape[1], self.size, once):
            at = At(*(a.reshape(1, 1, -1) for a in (px, py, tile)))
            yield Fragments(at, triangle // self.triangles_per_face, z)

    def _corners(self, x: tuple[np.ndarray, ...]) -> np.ndarray:
        """Clip positions (batch, triangles, 3, 4); 0 for indices out of range and faces that are not live."""
        position = x[0].reshape(x[0].shape[0], -1, 4)
        if self.indexed:
            faces = x[1].reshape(x[1].shape[0], -1, 3)[:, : self.triangles]
            position = np.broadcast_to(position, (self.batch, *position.shape[1:]))
            faces = np.broadcast_to(faces, (self.batch, *faces.shape[1:]))
            valid = (faces >= 0) & (faces < position.shape[1])
            tile = np.arange(self.batch).reshape(-1, 1, 1)
            corners = np.where(valid[..., None], position[tile, np.where(valid, faces, 0)], 0)
        else:
            corners = position[:, : 3 * self.triangles].reshape(len(position), self.triangles, 3, 4)
            corners = np.broadcast_to(corners, (self.batch, self.triangles, 3, 4))
        if not self.masked:
            return corners
        live = x[self.pulled - 1].reshape(len(x[self.pulled - 1]), -1)[:, : self.faces] != 0
        return np.where(np.repeat(live, self.triangles_per_face, axis=1)[..., None, None], corners, 0)

    def values(self, here: Fragments, x: tuple[np.ndarray, ...]) -> list[np.ndarray]:
        """The roots of the sub-graph, arrays (fragments,) + vtype.shape."""
        graph, at, dtype = self.fragment, here.at, x[0].dtype
        whole = dict(zip(graph.formals, x[self.pulled :], strict=True))
        known = dict(zip(graph.given, (here.face.reshape(1, 1, -1), here.z.reshape(1, 1, -1)), strict=False))

        def read(v: Variable, access: Access) -> np.ndarray:
            if access is not Access.SAME_PIXEL:
                return whole[v]
            if v not in known:
                known[v] = fetch(whole[v], at)
            return known[v]

        shape = (1, 1, here.face.size)
        roots = graph.evaluate(at, read, dtype)
        return [np.broadcast_to(a, shape + a.shape[3:]).reshape(here.face.size, *a.shape[3:]) for a in roots]


def held_triangles(position: Variable, faces: Variable | None) -> int:
    held = position if faces is None else faces
    return held.size[0] * held.size[1] // (3 if faces is None else 1)


def check_root(v: Variable, what: str) -> None:
    if v.vtype is not FLOAT:
        raise GraphError(f"{what} of a fragment are FLOAT, not {v} (at {v.where})")


def _covered(corners: np.ndarray, triangles: int, size: Size, once: bool) -> Iterator[tuple[np.ndarray, ...]]:
    """(tile, triangle, x, y, depth) of covered pixels, in chunks of bounded memory.

    ``corners``: (batch * triangles, 3, 4). A centre exactly on an edge belongs to the triangles on both
    sides, or with ``once`` to that to the right of the edge, and of a level edge to that below (the top-left
    rule). A triangle that reaches behind the eye (w <= 0) is drawn as far as it lies before it. A triangle
    without area, or with a corner that is not finite, covers nothing. Fragments with depths outside [0, 1]
    are dropped.
    """
    clip = np.asarray(corners, np.float64)
    good = np.flatnonzero(np.isfinite(clip).all(axis=(1, 2)) & (clip[..., 3] > 0).any(axis=1))
    clip = clip[good]
    # Triangles before the eye are divided by w. The others stay homogeneous; their bounds are the whole
    # image.
    before = np.all(clip[..., 3] > 0, axis=1)
    clip[before] /= clip[before][..., 3:]
    w, z = clip[..., 3], clip[..., 2]
    xy = (clip[..., :2] * 0.5 + 0.5 * w[..., None]) * np.array(size)
    # Relative to one of the corners, the area suffers little cancellation.
    first = (np.arange(len(good)), w.argmax(axis=1))
    x, y = (xy[first] / w[first][:, None]).T
    spans = [_cross(xy, w, x, y, i, j) * w[:, k] for i, j, k in ((1, 2, 0), (2, 0, 1), (0, 1, 2))]
    area = np.sum(spans, axis=0)
    low = np.where(before[:, None], np.clip(np.ceil(xy.min(axis=1) - 0.5), 0, size), 0).astype(np.int64)
    high = np.where(before[:, None], np.clip(np.floor(xy.max(axis=1) - 0.5) + 1, 0, size), size)
    extent = np.maximum(high.astype(np.int64) - low, 0)
    count = extent.prod(axis=1) * ((area != 0) & np.isfinite(area))
    start = np.concatenate([[0], np.cumsum(count)])
    across, down, heavy = (np.ascontiguousarray(a.T) for a in (xy[..., 0], xy[..., 1], w))
    at = 0
    while at < len(good):
        end = max(int(np.searchsorted(start, start[at] + PAIRS, side="right")) - 1, at + 1)
        n = count[at:end]
        k = np.repeat(np.arange(at, end), n)
        offset = np.arange(k.size) - (start[k] - start[at])
        px = low[k, 0] + offset % extent[k, 0]
        py = low[k, 1] + offset // extent[k, 0]
        # Olano and Greer 1997: divided by the determinant, these are the weights of the corners, divided by
        # w, at the pixel.
        dx = [across[i][k] - (px + 0.5) * heavy[i][k] for i in range(3)]
        dy = [down[i][k] - (py + 0.5) * heavy[i][k] for i in range(3)]
        sides = [dx[i] * dy[j] - dx[j] * dy[i] for i, j in ((1, 2), (2, 0), (0, 1))]
        weights = np.stack(sides) / area[k]
        inside = (weights >= 0).all(axis=0)
        if once:
            for side, (i, j) in enumerate(((1, 2), (2, 0), (0, 1))):
                edge = np.flatnonzero(inside & (weights[side] == 0))
                right, below = _inwards(xy[k[edge]], w[k[edge]], area[k[edge]], i, j)
                inside[edge] = (right > 0) | ((right == 0) & (below > 0))
        k, px, py, weights = k[inside], px[inside], py[inside], weights[:, inside]
        depth = (weights * z[k].T).sum(axis=0)
        kept = (depth >= 0) & (depth <= 1)
        k, px, py, depth = k[kept], px[kept], py[kept], depth[kept]
        if k.size:
            yield good[k] // triangles, good[k] % triangles, px, py, depth
        at = end


def _inwards(
    xy: np.ndarray, w: np.ndarray, area: np.ndarray, i: int, j: int
) -> tuple[np.ndarray, np.ndarray]:
    """The change of the weight opposite to the edge (i, j) to the right and down, times a positive factor."""
    right = w[:, j] * xy[:, i, 1] - w[:, i] * xy[:, j, 1]
    down = w[:, i] * xy[:, j, 0] - w[:, j] * xy[:, i, 0]
    return right * np.sign(area), down * np.sign(area)


def _cross(
    xy: np.ndarray, w: np.ndarray, x: np.ndarray | float, y: np.ndarray | float, i: int, j: int
) -> np.ndarray:
    """The determinant of corners i and j of triangles with the ray through (x, y). xy: pixels times w."""
    dx = [xy[:, k, 0] - x * w[:, k] for k in (i, j)]
    dy = [xy[:, k, 1] - y * w[:, k] for k in (i, j)]
    return dx[0] * dy[1] - dx[1] * dy[0]


# The sub-graph that a draw runs in every fragment, over the number of the face and the images that it reads.

Fragment = Callable[[Variable], tuple[Any, Any]]


@dataclass(frozen=True, eq=False)
class FragmentGraph(SubGraph):
    """The graph that a draw runs in every fragment.

    formals: one leaf for each external image of the draw, in order. roots: of a rasterization the depth,
    FLOAT in [0, 1], and maybe a FLOAT mask, 0 where the fragment is discarded; see the kinds of draws. face:
    INT, the number of the face. z: FLOAT, the interpolated depth z / w at the pixel, where fragments may use
    it.
    """

    face: Variable
    z: Variable | None = None

    @property
    def depth(self) -> Variable:
        return self.roots[0]

    @property
    def keep(self) -> Variable | None:
        return self.roots[1] if len(self.roots) > 1 else None

    @property
    def given(self) -> tuple[Variable, ...]:
        """What the rasterizer knows of a fragment."""
        return (self.face,) if self.z is None else (self.face, self.z)

    @cached_property
    def fetched(self) -> tuple[bool, ...]:
        """For each formal, whether a Function reads it at other texels than the fragment's."""
        elsewhere = {
            x
            for f in self.functions
            for x, a in zip(f.inputs, f.access, strict=True)
            if a is not Access.SAME_PIXEL
        }
        return tuple(x in elsewhere for x in self.formals)


def split(
    face: Variable, roots: Sequence[Variable], z: Variable | None = None
) -> tuple[FragmentGraph, tuple[Variable, ...]]:
    """(the fragment graph of ``roots``, the outer Variables that its formals stand for)."""
    order = topological_order(roots)
    given = (face,) if z is None else (face, z)
    moving: set[Variable] = {*given}
    free: set[Variable] = set()
    for f in order:
        local = isinstance(f, PixelFunction) and not isinstance(f, ReduceFunction)
        for x, access in zip(f.inputs, f.access, strict=True):
            if x in moving and (access is not Access.SAME_PIXEL or not local):
                raise f.fail(
                    "inside a fragment the face, and what follows from it, can only be used texel by texel,"
                    " by PixelFunctions"
                )
        if not moving.isdisjoint(f.inputs):
            moving.add(f.output)
            continue
        # It is cheaper to compute constants and coordinates in the fragment than to read them.
        if local and free.issuperset(f.inputs) and _movable(f, face.domain):
            free.add(f.output)
    inner = moving | free

    def inside(v: Variable) -> list[Variable]:
        edges = v.creator.edges if v.creator is not None and v not in given else ()
        return [e.variable for e in edges if e.variable in inner and e.access is Access.SAME_PIXEL]

    needed = reached((r for r in roots if r in inner), inside)
    built: dict[Variable, Variable] = {v: v for v in given}
    formals: dict[Variable, Variable] = {}

    def formal(v: Variable) -> Variable:
        if v not in formals:
            formals[v] = Variable(
                v.vtype, v.size, v.batch, channels=v.channels, name=v.name or f"external{len(formals)}"
            )
        return formals[v]

    for f in order:
        if f.output in needed:
            built[f.output] = f.rebuild(
                *(
                    built[x] if x in inner and a is Access.SAME_PIXEL else formal(x)
                    for x, a in zip(f.inputs, f.access, strict=True)
                )
            ).output
    made = tuple(built[r] if r in inner else formal(r) for r in roots)
    return FragmentGraph(tuple(formals.values()), made, face, z), tuple(formals)


def _movable(f: Function, domain: Domain) -> bool:
    """Whether f has the same values in the fragments of ``domain`` as in an image of its own."""
    if any(a is not Access.SAME_PIXEL for a in f.access):
        return False
    own = f.output.domain
    same_size = own.size == domain.size or ("pixel" not in f.places and own.size == (1, 1))
    return same_size and (own.tiles == domain.tiles or ("tile" not in f.places and own.tiles == 1))


# Rasterization: an INT image without derivative. Values that depend smoothly on the geometry are computed
# from the winning face by ordinary Functions.


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
        covering: bool = False,
    ):
        self.indexed, self.masked = faces is not None, live is not None
        self.size, self.batch = size, batch
        self.triangles, self.triangles_per_face = triangles, triangles_per_face
        self.fragment, self.covering = fragment, covering
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
) -> Variable:
    """INT of ``size``, without derivative: the number of the winning face at every pixel, -1 for none.

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
    pixel, outside of the rasterization. If depths are equal the face with the lower number wins. Raises
    GraphError.

    >>> position = Variable.of([[-1.0, -1, 0, 1], [1, -1, 0, 1], [-1, 1, 0, 1]], VEC4)  # half of the image
    >>> evaluate(F.rasterize(position, size=(4, 3)))[0].tolist()
    [[0, 0, 0, -1], [0, 0, -1, -1], [0, -1, -1, -1]]
    """
    size = size_of(size)
    triangles = held_triangles(position, faces) if triangles is None else triangles
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
        position, faces, live, externals, size, batch, triangles, triangles_per_face, graph
    ).output
