"""Bundle adjustment: shape and camera poses together, by colours and outlines (``adjust``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.ndimage import gaussian_filter, map_coordinates, maximum_filter, minimum_filter
from scipy.sparse.linalg import splu
from scipy.spatial.transform import Rotation

from ....ad import functional as F
from ....ad.graph.types import IVEC3, VEC3, list_image
from ...cameras import Camera, Cameras
from ...cameras.pose import matrices_leaf, send_matrices
from ...core.engine import MakeEngine
from ...core.lists import list_leaf
from ...forms.soft_target import outline_distances
from ...io.images import scaled_size
from ...mesh import Mesh
from ...objectives.metrics import iou_per_view
from ...surface.color import linear_to_srgb
from ...surface.projection import to_clip
from ...surface.screen import DrawnMesh, barycentric, corners, interpolate
from ..data.learned import resized, signed_distances
from ..graphs.term import with_views
from .remeshed import unfolded, unfolded_from

# Shape and poses together, by Gauss-Newton, near the end of the shape phase where poses are learned.
#
# Outlines alone leave rotations open that a change of the shape hides. The colours of the surface show them,
# but only with a shape on which the pictures agree: with the shape fixed, its errors move the poses. So both
# are unknown:
#
#     minimise   sum (I_v(x_v) - L_v(n) C)^2 / (noise^2 + (PLACE |dI_v|)^2) + OUTLINES / height sum d_v^2
#                + STIFF |L h|^2 + BEND |n . L (X + h n - X0)|^2
#
# x_v: the place in picture v of a point of the surface, where the picture shows it away from contours.  I_v:
# the picture, smoothed by a Gaussian that becomes narrower; dI_v: its slope.  C: the colour of the point,
# eliminated.  L_v: the light of the view as a function of the normal.  d_v: distances in pixels between
# outlines.  X, n, h: vertices, normals, and motions along these.  X0: the vertices at the start.  L: the
# graph Laplacian. Large residuals count less.
#
# Adam does not get there: shape and poses change together along directions in which the loss hardly changes.

STEPS = 8
"""Steps at each smoothing of the pictures."""
NEAR_STEPS, NEAR_SMOOTHINGS = 3, 3
"""Steps at each of so many smoothings, the sharpest ones, where all cameras are nearly right."""
WIDEST, SHARPEST = 1 / 60, 0.7
"""Standard deviation of the first smoothing in image heights, halved until that of the last, in pixels."""
SAMPLES = 8192
"""About the number of points on the surface; no more than a picture has pixels of the object."""
OUTLINES = 40.0
"""Weight of an outline as long as a picture is high."""
STIFF, BEND = 1e3, 3e3
"""Weights of the Laplacian of a step, and of that of all steps so far, for a mesh of VERTICES."""
VERTICES = 4096
DAMPING = 1e-4
"""Relative to the diagonal, added to it."""
PLACED = 100.0
"""Weight of what cameras do ``together`` where they are nearly right, relative to what each of them sees. Points all around tell
where the thing stands between them; its own pictures hardly do: it shifted by half a pixel, and all cameras turned after it."""
FARTHEST = 0.02
"""Longest motion of a vertex in a step, in radii of the scene."""
MOST_ROWS, MOST_PIXELS = 480, 4_000_000
"""Larger pictures are compared at a smaller size: of so many rows, and pixels of all views together."""
LEAST_VIEWS = 3
SAME = 0.002
"""IoU that a camera may lose whose colours are compared on a shape that stays."""
WORSE = 1.5
"""How much larger errors of outlines may become, relative to before; less than a pixel is always allowed."""
LOST, CUT = 0.05, 0.005
"""Where all cameras are nearly right: the IoU that shape and cameras may lose, which the next round gives back. And the IoU by which
an adjusted shape has to be better than the one before, by the new cameras, if it has lost as much; else the one before stays. The
next round does not give back limbs: a plant, thin as a pixel, lost .22 while the error of its outlines stayed below one, and the
rungs of a chair were cut at .018 and .012."""


@dataclass(frozen=True, eq=False)
class Pictures:
    """What is compared, (N, H, W) each. codes: means of the sRGB codes.  masks: bool, what is surely covered.  distances: signed,
    to the outlines, in pixels.  covered: bool, pixels of the masks and those that are not known."""

    codes: np.ndarray
    masks: np.ndarray
    distances: np.ndarray
    covered: np.ndarray

    @classmethod
    def of(
        cls, masks: np.ndarray, colors: np.ndarray, known: np.ndarray | None, size: tuple[int, int]
    ) -> Pictures:
        """From masks (N, H, W) and linear colours on black (N, H, W, 3), at a size (W, H)."""
        shares = resized(masks, size)
        codes = linear_to_srgb(resized(colors, size) / np.maximum(shares, 1e-6)[..., None]).mean(-1)
        inside, distances = shares > 0.99, signed_distances(masks, size) * size[1]
        told = masks >= 0.5 if known is None else (masks >= 0.5) | ~known
        covered = np.stack([resized(one[None].astype(np.float32), size)[0] > 0.5 for one in told])
        if known is not None:
            told = resized(known, size) > 0.999
            # The border of the known pixels is no outline: nothing is compared that is nearer to it than
            # outlines may be.
            wide = 2 * int(np.ceil(REACH)) + 3
            clear = np.stack([minimum_filter(part, wide) for part in told])
            inside, distances = inside & told, np.where(clear, distances, 1e3)
        return cls(codes * inside, inside, distances, covered)


def smoothings(rows: int, near: bool = False) -> list[float]:
    """The standard deviation in pixels of each step, of which there are fewer where cameras are ``near``.

    >>> smoothings(240)[::STEPS], len(smoothings(240, near=True))
    ([4.0, 2.0, 1.0, 0.7], 9)
    """
    sigmas, sigma = [], WIDEST * rows
    while sigma > SHARPEST:
        sigmas.append(sigma)
        sigma /= 2
    sigmas.append(SHARPEST)
    sharp, times = (sigmas[-NEAR_SMOOTHINGS:], NEAR_STEPS) if near else (sigmas, STEPS)
    return [sigma for sigma in sharp for _ in range(times)]


def adjusted(
    mesh: Mesh,
    cameras: Cameras,
    masks: np.ndarray,
    colors: np.ndarray,
    known: np.ndarray | None,
    make_engine: MakeEngine,
    *,
    details: bool = False,
    near: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[Mesh, Cameras] | None:
    """The mesh and the cameras, both in units of the scene, that explain the pictures better; as they were
    where colours do not agree better afterwards, where limbs are lost, and with fewer than ``LEAST_VIEWS`` views; the mesh
    alone where it fits the masks better by the new cameras than what was made of it; None after ``stop()``, which is polled at
    each step.

    masks: (N, H, W), covered from 1/2 on.  colors: (N, H, W, 3) linear, on black.  known: (N, H, W) bool, the
    valid pixels of the masks; None if all are.  details: whether the mesh has details that smoothing would
    take away; otherwise the result is ``unfolded``. What is folded then goes back.  near: whether the cameras are nearly right.
    """
    if len(cameras) < LEAST_VIEWS:
        return mesh, cameras
    size = _size(cameras)
    pictures, small = Pictures.of(masks, colors, known, size), cameras.resized(size)
    with closing(Depths(mesh, small, make_engine)) as depths:
        bundle = Bundle(mesh, small, pictures, depths, near=near)
        before, overlap = bundle.errors(), bundle.overlaps(mesh).mean() if near else 0.0
        for sigma in smoothings(size[1], near):
            if stop():
                return None
            bundle.step(sigma)
        after = bundle.errors()
        if after[0] >= before[0] or after[1] > max(WORSE * before[1], 1.0):
            return mesh, cameras
        found = unfolded_from(bundle.mesh if details else unfolded(bundle.mesh), mesh)
        if near:
            moved, still = (bundle.overlaps(one).mean() for one in (found, mesh))
            if moved < overlap - CUT and moved < still + CUT:
                found, moved = mesh, still
            if overlap - moved > LOST:
                return mesh, cameras
    return found, with_views(cameras, np.stack([camera.view for camera in bundle.cameras]))


def _size(cameras: Cameras) -> tuple[int, int]:
    """Of the pictures that are compared."""
    width, height = cameras.size
    scale = min(1.0, MOST_ROWS / height, float(np.sqrt(MOST_PIXELS / (width * height * len(cameras)))))
    return scaled_size(cameras.size, scale)


def posed(
    mesh: Mesh,
    cameras: Cameras,
    masks: np.ndarray,
    colors: np.ndarray,
    known: np.ndarray | None,
    make_engine: MakeEngine,
    *,
    still: int,
    near: bool = False,
) -> Cameras:
    """The cameras, of which those after the first ``still`` are moved to where their pictures agree with those of
    the others on a mesh that stays; each as it was where its outline does not fit as well afterwards.

    All are in units of the scene; arguments as for ``adjusted``.
    """
    size = _size(cameras)
    pictures, small = Pictures.of(masks, colors, known, size), cameras.resized(size)
    with closing(Depths(mesh, small, make_engine)) as depths:
        bundle = Bundle(mesh, small, pictures, depths, still)
        before = bundle.overlaps(mesh)
        for sigma in smoothings(size[1], near):
            bundle.step(sigma)
        better = bundle.overlaps(mesh) > before - SAME
    pairs = zip(bundle.cameras, small, better, strict=True)
    return with_views(cameras, np.stack([(new if good else old).view for new, old, good in pairs]))


def carried(given: Cameras, found: Cameras, others: Cameras, center: np.ndarray) -> Cameras:
    """Other cameras moved as their neighbours were: from the ``given`` cameras to those that were ``found``.

    What structure from motion gets wrong bends a path as a whole; from a camera to the next it is right. center:
    (3,) the point whose place in each picture is kept.
    """
    moved = []
    for other in others:
        away = np.linalg.norm(given.centers - other.center, axis=1)
        near = np.argsort(away, kind="stable")[:2]
        ways = [other.view @ np.linalg.inv(given[k].view) @ found[k].view for k in near.tolist()]
        weights = 1 / np.maximum(away[near], 1e-9 * away.max())
        turn = Rotation.from_matrix(np.stack([way[:3, :3] for way in ways])).mean(weights).as_matrix()
        place = np.average([way[:3, :3] @ center + way[:3, 3] for way in ways], axis=0, weights=weights)
        moved.append(replace(other, rotation=turn, translation=place - turn @ center))
    return Cameras(moved)


class Bundle:
    """A mesh and cameras in units of the scene, as they are after the steps so far. still: how many cameras, the
    first ones, stay as they are, and the mesh with them; None if all move.  near: whether they do next to nothing
    ``together``."""

    def __init__(
        self,
        mesh: Mesh,
        cameras: Cameras,
        pictures: Pictures,
        depths: Depths,
        still: int | None = None,
        near: bool = False,
    ):
        self._start, self._still, self._near = mesh.positions, still, near
        self.mesh, self.cameras, self._pictures, self._depths = mesh, cameras, pictures, depths
        count = min(SAMPLES, max(int(pictures.masks.sum()) // len(cameras), 1))
        self._samples = Samples(mesh, count)
        self._density = count / len(self._samples.face)
        self._edges = inner_edges(mesh)
        self._laplacian = sparse.csr_array(sparse.eye_array(len(mesh.positions)) - mesh.averaging())
        self._smooth: dict[float, np.ndarray] = {}

    def errors(self) -> tuple[float, float]:
        """Errors of colours, in sRGB codes, and of outlines, in pixels, by the sharpest pictures."""
        colours, outlines = self.terms(SHARPEST)
        return colours.error, outlines.error

    def overlaps(self, mesh: Mesh) -> np.ndarray:
        """(N,) IoU of the silhouettes of a mesh of the same faces with the masks, by the cameras so far."""
        drawn = self._depths.draw(mesh.positions, self.cameras) > 0
        return iou_per_view(drawn.astype(np.float32), self._pictures.covered)

    def terms(self, sigma: float) -> tuple[Equations, Equations]:
        """The equations of colours, in pictures smoothed by ``sigma`` pixels, and of outlines."""
        given = self._pictures
        if sigma not in self._smooth:
            self._smooth = {sigma: blurred(given.codes, given.masks, sigma)}
        depths = self._depths.draw(self.mesh.positions, self.cameras)
        seen = visible(self.mesh, self._samples, self.cameras, depths, given.masks)
        drawn = np.stack([outline_distances((depth > 0).astype(np.float32)) for depth in depths])
        colours = colours_alike(self.mesh, self._samples, seen, self._smooth[sigma])
        return colours, outlines_alike(self.mesh, self.cameras, self._edges, drawn, given.distances)

    def step(self, sigma: float) -> None:
        """One step of Gauss-Newton with pictures smoothed by ``sigma`` pixels."""
        colours, outlines = self.terms(sigma)
        height = OUTLINES / self.cameras.size[1]
        matrix = self._density * colours.matrix + height * outlines.matrix
        right = self._density * colours.right + height * outlines.right
        poses = 6 * len(self.cameras)
        if self._still is not None:
            moves = np.zeros(poses)
            free = slice(6 * self._still, poses)
            block = sparse.csc_array(matrix)[free, free].toarray()
            steps = -np.linalg.solve(block + np.diag(damping(np.diag(block))), right[free]).reshape(-1, 6)
            # Colours know the way for a few pixels; far steps would leave them.
            long = np.abs(steps).max(axis=1, keepdims=True)
            moves[free] = (steps * np.minimum(1, FARTHEST / np.maximum(long, 1e-12))).ravel()
            self._turn(moves)
            return
        # The shape: the Laplacian of its motion in this step, and that of its motion since the start.
        normals = self.mesh.vertex_normals()
        x, y, z = (sparse.diags_array(n) @ self._laplacian @ sparse.diags_array(n) for n in normals.T)
        along = x + y + z
        bent = ((self._laplacian @ (self.mesh.positions - self._start)) * normals).sum(1)
        # The squares of a Laplacian of few vertices are larger.
        share = len(normals) / VERTICES
        stiff = share * (STIFF * (self._laplacian.T @ self._laplacian) + BEND * (along.T @ along))
        right[poses:] += share * BEND * (along.T @ bent)
        if self._near:
            rows = together(self.cameras, self.mesh.positions.mean(0))
            weight = PLACED * len(self.cameras) * float(np.median(matrix.diagonal()[:poses]))
            stays = sparse.csc_array(weight * (rows.T @ rows))
            stays.resize(matrix.shape)
            matrix = sparse.csc_array(matrix) + stays
        moves = -solve(sparse.csc_array(matrix), sparse.csc_array(stiff), right, poses)
        heights = np.clip(moves[poses:, None], -FARTHEST, FARTHEST)
        self.mesh = self.mesh.moved(self.mesh.positions + heights * normals)
        self._turn(moves[:poses])

    def _turn(self, moves: np.ndarray) -> None:
        """Move the cameras by increments of their poses (6 N,)."""
        cameras = []
        # An increment of a pose: a turn about the origin of the scene, then a shift, in the camera's own
        # axes.
        for camera, move in zip(self.cameras, moves.reshape(-1, 6), strict=True):
            rotation = Rotation.from_rotvec(move[:3]).as_matrix() @ camera.rotation
            cameras.append(replace(camera, rotation=rotation, translation=camera.translation + move[3:]))
        self.cameras = Cameras(cameras)


def damping(diagonal: np.ndarray) -> np.ndarray:
    """What is added to the diagonal of equations, so that unknowns which nothing determines stay."""
    return DAMPING * diagonal + 1e-6 * max(float(diagonal.max(initial=0.0)), 1e-12)


def together(cameras: Cameras, middle: np.ndarray) -> np.ndarray:
    """(10, 6 N): what cameras do together, by increments of their poses: the means of their turns (3) and motions (3) in the world,
    their spread (1), relative, and how far the place between them moves where they see a point ``middle`` (3,) of the scene (3)."""
    turns, shifts = (np.stack([getattr(c, name) for c in cameras]) for name in ("rotation", "translation"))
    there, one = turns @ middle, np.broadcast_to(np.eye(3), turns.shape)
    back = turns.transpose(0, 2, 1)
    moves = -back @ np.concatenate([np.cross(one, shifts[:, None]), one], 2)
    spread = cameras.centers - cameras.centers.mean(0)
    grows = np.einsum("ni,nij->nj", spread, moves)[:, None] / max((spread**2).sum(1).mean(), 1e-12)
    # A picture's place: the first two components over the third.
    x, y, z = (there + shifts).T
    plane = np.stack([np.stack([z, 0 * z, -x], 1), np.stack([0 * z, z, -y], 1)], 1) / (z * z)[:, None, None]
    seen = plane @ np.concatenate([-np.cross(one, there[:, None]), one], 2)
    pull = len(turns) * np.linalg.pinv(np.concatenate(plane @ turns)).reshape(3, -1, 2).transpose(1, 0, 2)
    rows = np.concatenate([np.concatenate([back, 0 * back], 2), moves, grows, pull @ seen], 1) / len(turns)
    return np.concatenate(rows, axis=1)


def solve(matrix: sparse.csc_array, stiff: sparse.csc_array, right: np.ndarray, poses: int) -> np.ndarray:
    """x with (matrix + stiff for the unknowns after ``poses`` + damping) x = right.

    The block of the vertices, which is sparse, is factorised; the poses follow from its Schur complement.
    """
    damped = sparse.csc_array(matrix + sparse.diags_array(damping(matrix.diagonal())))
    across = damped[:poses, poses:].toarray()
    inner = splu(
        sparse.csc_array(damped[poses:, poses:] + stiff),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    reduced = damped[:poses, :poses].toarray() - across @ inner.solve(across.T)
    moves = np.linalg.solve(reduced, right[:poses] - across @ inner.solve(right[poses:]))
    return np.concatenate([moves, inner.solve(right[poses:] - across.T @ moves)])


def inner_edges(mesh: Mesh) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (E, 2) and faces (E, 2) of the edges between two faces."""
    ends = np.sort(np.concatenate([mesh.faces[:, pair] for pair in ([0, 1], [1, 2], [2, 0])]), axis=1)
    face = np.tile(np.arange(len(mesh.faces)), 3)
    order = np.lexsort(ends.T)
    ends, face = ends[order], face[order]
    twice = np.flatnonzero((ends[1:] == ends[:-1]).all(1))
    return ends[twice], np.stack([face[twice], face[twice + 1]], axis=1)


class Depths:
    """Depth images of a mesh whose vertices and cameras move: one graph that draws all views; ``close``
    it."""

    def __init__(self, mesh: Mesh, cameras: Cameras, make_engine: MakeEngine):
        self._position = list_leaf("position", VEC3, mesh.positions)
        self._matrices = matrices_leaf(cameras.matrices)
        clip, faces = to_clip(self._position, self._matrices), list_leaf("faces", IVEC3, mesh.faces)
        drawn = DrawnMesh(clip, faces, cameras.size, len(mesh.faces))
        at = corners(drawn.face, faces)
        depth = interpolate(F.component(clip, 3), at, barycentric(clip, at, cameras.size))
        self._engine = make_engine()
        self._engine.set_output("depth", depth)

    def draw(self, positions: np.ndarray, cameras: Cameras) -> np.ndarray:
        """(N, H, W): depths along the axes of the cameras, 0 where there is nothing."""
        self._engine.send(self._position, list_image(positions))
        send_matrices(self._engine, self._matrices, cameras.matrices)
        self._engine.step()
        return np.array(self._engine.recv("depth"))

    def close(self) -> None:
        self._engine.close()


# The brightness of the surface in each picture as a function of its normal, fitted to points of the surface.

TURNS = 6
"""How often colours and lights are fitted in turn."""
NOISE = 0.05
"""Differences of colours, in sRGB codes, that count less: highlights and shadows follow no normal."""
STIFF_LIGHT = 1e-4
"""Weight of differences from a light of 1, relative to a point of colour 1."""
RANGE = (0.2, 5.0)


def harmonics(normals: np.ndarray) -> np.ndarray:
    """(P, 9): spherical harmonics up to degree two, not normalised, of unit normals (P, 3)."""
    x, y, z = normals.T
    bands = [np.ones_like(x), x, y, z, x * y, y * z, z * x, x * x - y * y, 3 * z * z - 1]
    return np.stack(bands, axis=1)


def shades(normals: np.ndarray, point: np.ndarray, view: np.ndarray, value: np.ndarray) -> np.ndarray:
    """(R,): a factor on the colour of each observation of a point (R,) by a view (R,), with a value (R,).

    normals: (P, 3). Each view has its own light, ``harmonics`` of the normal, near 1. Models lights fixed in
    the world or to the camera, and exposures.
    """
    basis, shade = harmonics(normals)[point], np.ones(len(value))
    for _ in range(TURNS):
        above, below = (np.bincount(point, part, len(normals)) for part in (value * shade, shade * shade))
        colour = (above / np.maximum(below, 1e-9))[point]
        trust = 1 / (1 + ((value - shade * colour) / NOISE) ** 2)
        for number in np.unique(view):
            own = view == number
            rows = basis[own] * colour[own, None]
            weighted = rows * trust[own, None]
            stiff = STIFF_LIGHT * own.sum() * np.eye(rows.shape[1])
            light = np.linalg.solve(weighted.T @ rows + stiff, weighted.T @ (value[own] - colour[own]))
            shade[own] = np.clip(1 + basis[own] @ light, *RANGE)
    return shade


@dataclass(frozen=True, eq=False)
class Projected:
    """P points in a camera. place: (P, 2) pixels.  at: (P, 3) in the camera's axes; the third is the
    depth."""

    camera: Camera
    place: np.ndarray
    at: np.ndarray

    def __getitem__(self, index: np.ndarray) -> Projected:
        return Projected(self.camera, self.place[index], self.at[index])

    def inside(self, margin: float) -> np.ndarray:
        """(P,) bool: in front of the camera, and at least so many pixels from the border of the picture."""
        low, high = np.array([margin, margin]), np.array(self.camera.size) - margin
        return (self.at[:, 2] > self.camera.near) & (self.place > low).all(1) & (self.place < high).all(1)

    def pixels(self) -> tuple[np.ndarray, np.ndarray]:
        """Row and column of the pixel of each point, those outside at the border."""
        column, row = np.floor(np.clip(self.place, 0, np.array(self.camera.size) - 1)).astype(int).T
        return row, column

    def look_up(self, image: np.ndarray) -> np.ndarray:
        """(P,): an image (H, W) at the points, bilinearly."""
        return map_coordinates(image, self.place.T[::-1] - 0.5, order=1, mode="nearest")

    def slopes(self, image: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Derivatives of what the points see in an image (H, W): (P,) how steep it is, by pixels; (P, 6) by
        an increment of the pose (``cameras.pose``); (P, 3) by motions of the points in the scene."""
        down, right = (self.look_up(part) for part in np.gradient(image))
        steep = np.hypot(right, down)
        depth = self.at[:, 2:]
        # The slope by K x: the place is its first two components over the third.
        scaled = np.stack([right, down], axis=1) / depth
        scaled = np.concatenate([scaled, -(scaled * self.place).sum(1, keepdims=True)], axis=1)
        slope = scaled @ self.camera.intrinsics
        turn = np.cross(self.at - self.camera.translation, slope)
        return steep, np.concatenate([turn, slope], axis=1), slope @ self.camera.rotation


def projected(camera: Camera, points: np.ndarray) -> Projected:
    """Points (P, 3) of the scene in a camera."""
    at = points @ camera.rotation.T + camera.translation
    depth = np.where(np.abs(at[:, 2:]) < 1e-12, 1e-12, at[:, 2:])
    place = (at @ camera.intrinsics.T)[:, :2] / depth
    return Projected(camera, place, at)


# The terms of a bundle adjustment as least squares: residuals of observations and their derivatives.
#
# Unknowns are six numbers of each pose and one of each vertex: its motion along its normal.

CLEAR = 0.3
"""Least cosine between the normal and the direction to the camera of points that are compared."""
STEP, NEAR = 0.03, 0.02
"""Radii of the scene, beside the slope of a surface that is just ``CLEAR``: differences of the depths around
a pixel at a contour, and of the depths of a point and its pixel where the point is hidden."""
BORDER = 3
"""Pixels at the border of the pictures that are left out."""
REACH, SOFT = 6.0, 1.0
"""Pixels: outlines farther apart are not compared; those a few times farther than SOFT count less."""
PLACE = 0.25
"""Pixels: errors of places, which make residuals of steep colours large. Residuals a few times larger than
expected count less."""
LEAST_NOISE = 0.002
"""Least scale of residuals of colours, in sRGB codes: half of a code of 8 bits."""


@dataclass(frozen=True, eq=False)
class Equations:
    """Weighted normal equations: the step is -matrix^-1 right. matrix: sparse (U, U).  right: (U,).  error:
    root of the weighted mean of squared residuals."""

    matrix: sparse.csc_array
    right: np.ndarray
    error: float


class Observed(NamedTuple):
    """Derivatives of M observations of one view. by_pose: (M, 6).  by_vertex: (M, K), by motions along their
    normals of the K vertices (M, K) that each depends on."""

    view: int
    by_pose: np.ndarray
    by_vertex: np.ndarray
    vertices: np.ndarray


class Samples:
    """Fixed points on the faces of a mesh, about ``count`` in all, at least one a face."""

    def __init__(self, mesh: Mesh, count: int):
        each = max(round(count / len(mesh.faces)), 1)
        rng = np.random.default_rng(0)
        self.face = np.tile(np.arange(len(mesh.faces)), each)
        self.weights = rng.dirichlet(np.full(3, 2.0), len(self.face))
        self.vertices = mesh.faces[self.face]

    def of(self, values: np.ndarray) -> np.ndarray:
        """(P, ...): values (V, ...) of vertices at the points."""
        return np.einsum("pk,pk...->p...", self.weights, values[self.vertices])


def visible(
    mesh: Mesh, samples: Samples, cameras: Cameras, depths: np.ndarray, masks: np.ndarray
) -> list[tuple[np.ndarray, Projected, np.ndarray]]:
    """For each view: the points that it sees away from contours (M,), where, and their cosines to the camera
    (M,).

    depths: (N, H, W) of the mesh, 0 where there is none.  masks: (N, H, W) bool, where colours are known.
    """
    points, normals, views = samples.of(mesh.positions), mesh.face_normals()[samples.face], []
    for camera, depth, mask in zip(cameras, depths, masks, strict=True):
        seen = projected(camera, points)
        to_eye = camera.center - points
        cosine = (normals * to_eye).sum(1) / np.maximum(np.linalg.norm(to_eye, axis=1), 1e-12)
        near, far = minimum_filter(depth, 3), maximum_filter(depth, 3)
        # How much the depth of a surface that is just clear changes from pixel to pixel.
        steep = near / np.sqrt(abs(np.linalg.det(camera.intrinsics[:2, :2]))) / CLEAR
        clear = (near > 0) & (far - near < STEP + 2 * steep) & (minimum_filter(mask, 3) > 0)
        row, column = seen.pixels()
        away = np.abs(seen.at[:, 2] - depth[row, column])
        shown = clear[row, column] & (away < NEAR + steep[row, column] / 2)
        index = np.flatnonzero(shown & seen.inside(BORDER) & (cosine > CLEAR))
        views.append((index, seen[index], cosine[index]))
    return views


def blurred(codes: np.ndarray, masks: np.ndarray, sigma: float) -> np.ndarray:
    """(N, H, W): codes smoothed by a Gaussian of ``sigma`` pixels, of the pixels of the masks alone."""
    smooth = []
    for code, mask in zip(codes, masks, strict=True):
        share = np.maximum(gaussian_filter(mask.astype(float), sigma), 1e-3)
        smooth.append(gaussian_filter(code * mask, sigma) / share)
    return np.stack(smooth)


def colours_alike(
    mesh: Mesh, samples: Samples, seen: Sequence[tuple[np.ndarray, Projected, np.ndarray]], codes: np.ndarray
) -> Equations:
    """A point of the surface has one colour in all pictures, up to the light of each (``shades``).  codes:
    (N, H, W). The colours of the points, their means, are eliminated. Large residuals count less."""
    normals, own = mesh.vertex_normals(), samples.of(mesh.vertex_normals())
    own = own / np.maximum(np.linalg.norm(own, axis=1, keepdims=True), 1e-12)
    times = np.bincount(np.concatenate([index for index, _, _ in seen]), minlength=len(own))
    parts, points, values, steeps, weights = [], [], [], [], []
    for view, (index, there, cosine) in enumerate(seen):
        kept = times[index] >= 2
        index, there = index[kept], there[kept]
        steep, by_pose, by_point = there.slopes(codes[view])
        vertices = samples.vertices[index]
        by_vertex = np.einsum("mkc,mc->mk", normals[vertices], by_point) * samples.weights[index]
        parts.append(Observed(view, by_pose, by_vertex, vertices))
        points.append(index)
        values.append(there.look_up(codes[view]))
        steeps.append(steep)
        weights.append(cosine[kept])
    value, weight, point = (np.concatenate(rows) for rows in (values, weights, points))
    view = np.repeat(np.arange(len(points)), [len(index) for index in points])
    shade = shades(own, point, view, value)
    slopes = _scaled(jacobian(parts, len(seen), len(normals)), 1 / shade)
    value = value / shade

    def mean(weight: np.ndarray) -> sparse.csr_array:
        """Weighted means over the observations of each point."""
        total = np.bincount(point, weight, len(own))
        rows = weight / np.maximum(total, 1e-12)[point]
        return sparse.csr_array((rows, (point, np.arange(len(point)))), (len(own), len(point)))

    away = value - (mean(weight) @ value)[point]
    noise = max(1.4826 * float(np.median(np.abs(away))) if len(away) else 0.0, LEAST_NOISE)
    scale = noise**2 + (PLACE * np.concatenate(steeps) / shade) ** 2
    weight = weight / (scale + away**2 / 4)
    average = mean(weight)
    away = value - (average @ value)[point]
    common = average @ slopes
    total = np.bincount(point, weight, len(own))
    matrix = slopes.T @ _scaled(slopes, weight) - common.T @ _scaled(common, total)
    right = slopes.T @ (weight * away)
    return Equations(sparse.csc_array(matrix), right, _error(weight, away))


def outlines_alike(
    mesh: Mesh, cameras: Cameras, edges: tuple[np.ndarray, np.ndarray], drawn: np.ndarray, masks: np.ndarray
) -> Equations:
    """Outlines of the mesh lie on those of the masks; residuals in pixels, weights in pixels of length.

    edges: vertices (E, 2) and faces (E, 2) of the edges between two faces.  drawn, masks: (N, H, W) signed
    distances in pixels to the outlines of the mesh as it is drawn, and to those of the masks.
    """
    ends, beside = edges
    normals, faces = mesh.vertex_normals(), mesh.face_normals()
    corner, parts, residuals, weights = mesh.positions[mesh.faces[:, 0]], [], [], []
    for view, camera in enumerate(cameras):
        front = ((camera.center - corner) * faces).sum(1) > 0
        turns = np.flatnonzero(front[beside[:, 0]] != front[beside[:, 1]])
        seen = projected(camera, mesh.positions[ends[turns]].mean(1))
        # Of the edges where the surface turns away, those at the outline as it is drawn are visible there.
        away = seen.look_up(masks[view])
        kept = seen.inside(BORDER) & (np.abs(seen.look_up(drawn[view])) < 1) & (np.abs(away) < REACH)
        index, seen, away = turns[kept], seen[kept], away[kept]
        _, by_pose, by_point = seen.slopes(masks[view])
        by_vertex = np.einsum("mkc,mc->mk", normals[ends[index]], by_point) / 2
        parts.append(Observed(view, by_pose, by_vertex, ends[index]))
        first, second = (projected(camera, mesh.positions[ends[index, k]]).place for k in (0, 1))
        residuals.append(away)
        weights.append(np.linalg.norm(first - second, axis=1) / (1 + (away / SOFT) ** 2))
    slopes = jacobian(parts, len(cameras), len(normals))
    away, weight = np.concatenate(residuals), np.concatenate(weights)
    matrix = slopes.T @ _scaled(slopes, weight)
    return Equations(sparse.csc_array(matrix), slopes.T @ (weight * away), _error(weight, away))


def jacobian(parts: Sequence[Observed], views: int, vertices: int) -> sparse.csr_array:
    """(M, 6 views + vertices): the derivatives of all observations, view by view."""
    columns, values = [], []
    for part in parts:
        own = np.broadcast_to(6 * part.view + np.arange(6), part.by_pose.shape)
        columns.append(np.concatenate([own, 6 * views + part.vertices], axis=1))
        values.append(np.concatenate([part.by_pose, part.by_vertex], axis=1))
    column, value = np.concatenate(columns), np.concatenate(values)
    starts = np.arange(len(column) + 1) * column.shape[1]
    return sparse.csr_array((value.ravel(), column.ravel(), starts), (len(column), 6 * views + vertices))


def _scaled(rows: sparse.csr_array, factors: np.ndarray) -> sparse.csr_array:
    return sparse.csr_array(sparse.diags_array(np.asarray(factors, np.float64)) @ rows)


def _error(weight: np.ndarray, away: np.ndarray) -> float:
    return float(np.sqrt((weight * away * away).sum() / max(float(weight.sum()), 1e-12)))
