"""Shape and poses together, by Gauss-Newton: near the end of the shape phase where poses are learned.

Outlines alone leave rotations open that a change of the shape hides. The colours of the surface show them, but only with a
shape on which the pictures agree: with the shape fixed, its errors move the poses. So both are unknown:

    minimise   sum (I_v(x_v) - L_v(n) C)^2 / (noise^2 + (PLACE |dI_v|)^2) + OUTLINES / height sum d_v^2
               + STIFF |L h|^2 + BEND |n . L (X + h n - X0)|^2

x_v: the place in picture v of a point of the surface, where the picture shows it away from contours.  I_v: the picture,
smoothed by a Gaussian that becomes narrower; dI_v: its slope.  C: the colour of the point, eliminated.  L_v: the light of the
view as a function of the normal.  d_v: distances in pixels between outlines.  X, n, h: vertices, normals, and motions along
these.  X0: the vertices at the start.  L: the graph Laplacian. Large residuals count less.

Adam does not get there: shape and poses change together along directions in which the loss hardly changes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from scipy.ndimage import minimum_filter
from scipy.sparse.linalg import splu
from scipy.spatial.transform import Rotation

from ...cameras import Camera, Cameras
from ...engine import MakeEngine
from ...forms.soft_target import outline_distances
from ...io.images import resize, scaled_size
from ...mesh import Mesh
from ...surface.color import linear_to_srgb
from ..graphs.mask_distances import signed_distances
from ..graphs.moving import with_views
from ..phases.unfold import unfolded
from .depths import Depths
from .terms import REACH, Equations, Samples, blurred, colours_alike, outlines_alike, visible

STEPS = 8
"""Steps at each smoothing of the pictures."""
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
FARTHEST = 0.02
"""Longest motion of a vertex in a step, in radii of the scene."""
MOST_ROWS, MOST_PIXELS = 480, 4_000_000
"""Larger pictures are compared at a smaller size: of so many rows, and pixels of all views together."""
LEAST_VIEWS = 3
WORSE = 1.5
"""How much larger errors of outlines may become, relative to before; less than a pixel is always allowed."""


@dataclass(frozen=True, eq=False)
class Pictures:
    """What is compared. codes: (N, H, W) means of the sRGB codes.  masks: (N, H, W) bool.  distances: (N, H, W) signed,
    to the outlines, in pixels."""

    codes: np.ndarray
    masks: np.ndarray
    distances: np.ndarray

    @classmethod
    def of(
        cls, masks: np.ndarray, colors: np.ndarray, known: np.ndarray | None, size: tuple[int, int]
    ) -> Pictures:
        """Of masks (N, H, W) and linear colours on black (N, H, W, 3), at a size (W, H)."""
        shares = np.stack([resize(mask.astype(np.float32), size) for mask in masks])
        seen = np.stack([resize(color.astype(np.float32), size) for color in colors])
        codes = linear_to_srgb(seen / np.maximum(shares, 1e-6)[..., None]).mean(-1)
        inside = shares > 0.99
        distances = signed_distances(masks, size) * size[1]
        if known is not None:
            told = np.stack([resize(part.astype(np.float32), size) for part in known]) > 0.999
            # The border of the known pixels is no outline: nothing is compared that is nearer to it than outlines may be.
            wide = 2 * int(np.ceil(REACH)) + 3
            clear = np.stack([minimum_filter(part, wide) for part in told])
            inside, distances = inside & told, np.where(clear, distances, 1e3)
        return cls(codes * inside, inside, distances)


def smoothings(rows: int) -> list[float]:
    """Standard deviations in pixels.

    >>> smoothings(240)
    [4.0, 2.0, 1.0, 0.7]
    """
    found, sigma = [], WIDEST * rows
    while sigma > SHARPEST:
        found.append(sigma)
        sigma /= 2
    return [*found, SHARPEST]


def adjusted(
    mesh: Mesh,
    cameras: Cameras,
    masks: np.ndarray,
    colors: np.ndarray,
    known: np.ndarray | None,
    make_engine: MakeEngine,
    *,
    details: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[Mesh, Cameras] | None:
    """The mesh and the cameras, both in units of the scene, that explain the pictures better; None after ``stop()``,
    which is polled at each step.

    masks: (N, H, W), covered from 1/2 on.  colors: (N, H, W, 3) linear, on black.  known: (N, H, W) bool, the valid
    pixels of the masks; None if all are.  details: whether the mesh has details that smoothing would take away. Otherwise
    the result is ``unfolded``.
    Both are returned as they were where colours do not agree better afterwards, and with fewer than ``LEAST_VIEWS`` views.
    """
    if len(cameras) < LEAST_VIEWS:
        return mesh, cameras
    width, height = cameras.size
    scale = min(1.0, MOST_ROWS / height, float(np.sqrt(MOST_PIXELS / (width * height * len(cameras)))))
    size = scaled_size(cameras.size, scale)
    pictures, small = Pictures.of(masks, colors, known, size), cameras.resized(size)
    with closing(Depths(mesh, small, make_engine)) as depths:
        bundle = Bundle(mesh, small, pictures, depths)
        before = bundle.errors()
        for sigma in smoothings(size[1]):
            for _ in range(STEPS):
                if stop():
                    return None
                bundle.step(sigma)
        after = bundle.errors()
    if after[0] >= before[0] or after[1] > max(WORSE * before[1], 1.0):
        return mesh, cameras
    moved = with_views(cameras, np.stack([camera.view for camera in bundle.cameras]))
    return bundle.mesh if details else unfolded(bundle.mesh), moved


class Bundle:
    """A mesh and cameras in units of the scene, as they are after the steps so far."""

    def __init__(self, mesh: Mesh, cameras: Cameras, pictures: Pictures, depths: Depths):
        self._start = mesh.positions
        self.mesh, self.cameras, self._pictures, self._depths = mesh, cameras, pictures, depths
        count = min(SAMPLES, max(int(pictures.masks.sum()) // len(cameras), 1))
        self._samples = Samples(mesh, count)
        self._density = count / len(self._samples.face)
        self._edges = inner_edges(mesh)
        self._laplacian = sparse.csr_array(sparse.eye_array(len(mesh.positions)) - mesh.averaging())
        self._smooth: dict[float, np.ndarray] = {}

    def errors(self) -> tuple[float, float]:
        """Of colours, in sRGB codes, and of outlines, in pixels, by the sharpest pictures."""
        colours, outlines = self.terms(SHARPEST)
        return colours.error, outlines.error

    def terms(self, sigma: float) -> tuple[Equations, Equations]:
        """Of the colours of pictures smoothed by ``sigma`` pixels, and of outlines."""
        given = self._pictures
        if sigma not in self._smooth:
            self._smooth = {sigma: blurred(given.codes, given.masks, sigma)}
        depths = self._depths.draw(self.mesh.positions, self.cameras)
        seen = visible(self.mesh, self._samples, self.cameras, depths, given.masks)
        drawn = np.stack([outline_distances((depth > 0).astype(np.float32)) for depth in depths])
        return (
            colours_alike(self.mesh, self._samples, seen, self._smooth[sigma]),
            outlines_alike(self.mesh, self.cameras, self._edges, drawn, given.distances),
        )

    def step(self, sigma: float) -> None:
        """One step of Gauss-Newton with pictures smoothed by ``sigma`` pixels."""
        colours, outlines = self.terms(sigma)
        height = OUTLINES / self.cameras.size[1]
        matrix = self._density * colours.matrix + height * outlines.matrix
        right = self._density * colours.right + height * outlines.right
        # The shape: the Laplacian of its motion in this step, and that of its motion since the start.
        poses, normals = 6 * len(self.cameras), self.mesh.vertex_normals()
        x, y, z = (sparse.diags_array(n) @ self._laplacian @ sparse.diags_array(n) for n in normals.T)
        along = x + y + z
        bent = ((self._laplacian @ (self.mesh.positions - self._start)) * normals).sum(1)
        # The squares of a Laplacian of few vertices are larger.
        share = len(normals) / VERTICES
        stiff = share * (STIFF * (self._laplacian.T @ self._laplacian) + BEND * (along.T @ along))
        right[poses:] += share * BEND * (along.T @ bent)
        moves = -solve(sparse.csc_array(matrix), sparse.csc_array(stiff), right, poses)
        heights = np.clip(moves[poses:, None], -FARTHEST, FARTHEST)
        self.mesh = self.mesh.moved(self.mesh.positions + heights * normals)
        self.cameras = Cameras(
            [
                _moved(camera, move)
                for camera, move in zip(self.cameras, moves[:poses].reshape(-1, 6), strict=True)
            ]
        )


def solve(matrix: sparse.csc_array, stiff: sparse.csc_array, right: np.ndarray, poses: int) -> np.ndarray:
    """x with (matrix + stiff for the unknowns after ``poses`` + damping) x = right.

    The block of the vertices, which is sparse, is factorised; the poses follow from its Schur complement.
    """
    diagonal = matrix.diagonal()
    floor = 1e-6 * max(float(diagonal.max(initial=0.0)), 1e-12)
    damping = DAMPING * diagonal + floor
    damped = sparse.csc_array(matrix + sparse.diags_array(damping))
    across = damped[:poses, poses:].toarray()
    inner = splu(
        sparse.csc_array(damped[poses:, poses:] + stiff),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    reduced = damped[:poses, :poses].toarray() - across @ inner.solve(across.T)
    found = np.linalg.solve(reduced, right[:poses] - across @ inner.solve(right[poses:]))
    return np.concatenate([found, inner.solve(right[poses:] - across.T @ found)])


def inner_edges(mesh: Mesh) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (E, 2) and faces (E, 2) of the edges between two faces."""
    ends = np.sort(
        np.concatenate([mesh.faces[:, [0, 1]], mesh.faces[:, [1, 2]], mesh.faces[:, [2, 0]]]), axis=1
    )
    face = np.tile(np.arange(len(mesh.faces)), 3)
    order = np.lexsort(ends.T)
    ends, face = ends[order], face[order]
    twice = np.flatnonzero((ends[1:] == ends[:-1]).all(1))
    return ends[twice], np.stack([face[twice], face[twice + 1]], axis=1)


def _moved(camera: Camera, move: np.ndarray) -> Camera:
    """The camera after an increment (6,): a turn about the origin of the scene, then a shift, in its own axes."""
    turn = Rotation.from_rotvec(move[:3]).as_matrix()
    return replace(camera, rotation=turn @ camera.rotation, translation=camera.translation + move[3:])
