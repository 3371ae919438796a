"""Triangle meshes on the host: shape, texture coordinates and albedo, in NumPy.

Everything that a renderer sends to the device starts here, and everything that a fit recovers ends here.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from dressi.errors import InputError


class SeamSplit(NamedTuple):
    """A mesh with one vertex per distinct corner, as files and graphics interfaces store it."""

    positions: np.ndarray
    """(S, 3) float64."""
    faces: np.ndarray
    """(F, 3) int64 into all other arrays."""
    uvs: np.ndarray | None
    """(S, 2) float64 or None."""
    normals: np.ndarray | None
    """(S, 3) float64 or None."""
    source: np.ndarray
    """(S,) int64: the welded vertex that each split vertex came from."""


@dataclass
class Mesh:
    """A triangle mesh whose positions are welded, and whose UVs and normals live on face corners.

    positions: (V, 3) float64.  faces: (F, 3) int64, counter-clockwise seen from outside.
    uvs: (U, 2) float64 with uv_faces: (F, 3) int64, or both None. glTF convention: (0, 0) is the corner of
    the first texel, v grows downward; coordinates outside [0, 1] repeat.
    normals: (N, 3) float64 unit with normal_faces: (F, 3) int64, or both None: those of the file, for saving
    and smooth shading; `vertex_normals` computes them from the shape.
    texture: (H, W, 3) linear albedo or None.  color: (3,) linear factor that multiplies the texture.
    """

    positions: np.ndarray
    faces: np.ndarray
    uvs: np.ndarray | None = None
    uv_faces: np.ndarray | None = None
    normals: np.ndarray | None = None
    normal_faces: np.ndarray | None = None
    texture: np.ndarray | None = None
    color: tuple[float, float, float] = (1.0, 1.0, 1.0)
    name: str = "mesh"

    def __post_init__(self) -> None:
        self.positions = _array(self.positions, np.float64, 3, self.name, "positions")
        self.faces = _array(self.faces, np.int64, 3, self.name, "faces")
        if (self.uvs is None) != (self.uv_faces is None) or (self.normals is None) != (
            self.normal_faces is None
        ):
            raise InputError(
                f"mesh '{self.name}': uvs with uv_faces and normals with normal_faces come in pairs"
            )
        if self.uvs is not None:
            self.uvs = _array(self.uvs, np.float64, 2, self.name, "uvs")
            self.uv_faces = _array(self.uv_faces, np.int64, 3, self.name, "uv_faces")
        if self.normals is not None:
            self.normals = _array(self.normals, np.float64, 3, self.name, "normals")
            self.normal_faces = _array(self.normal_faces, np.int64, 3, self.name, "normal_faces")

    # ------------------------------------------------------------------ checks

    def validate(self) -> Mesh:
        """Return self; raise InputError when the arrays cannot be a mesh.

        Refused: no faces, NaN or infinite positions, UVs or normals, indices out of range, index lists of
        different lengths. Degenerate faces are allowed here, see `clean`.
        """
        if len(self.faces) == 0:
            raise InputError(f"mesh '{self.name}' has no faces; give a mesh with at least one triangle")
        self._check("positions", self.positions, "faces", self.faces, "vertex")
        if self.uvs is not None and self.uv_faces is not None:
            self._check("uvs", self.uvs, "uv_faces", self.uv_faces, "UV")
        if self.normals is not None and self.normal_faces is not None:
            self._check("normals", self.normals, "normal_faces", self.normal_faces, "normal")
        return self

    def _check(self, what: str, values: np.ndarray, index_name: str, index: np.ndarray, one: str) -> None:
        if index.shape != self.faces.shape:
            raise InputError(
                f"mesh '{self.name}': {index_name} has {len(index)} rows for {len(self.faces)} faces; give one per face"
            )
        bad = ~np.isfinite(values).all(axis=1)
        if bad.any():
            raise InputError(
                f"mesh '{self.name}': {one} {int(np.argmax(bad))} of {what} is NaN or infinite"
                f" ({int(bad.sum())} such in all); repair the mesh"
            )
        wrong = ((index < 0) | (index >= len(values))).any(axis=1)
        if wrong.any():
            face = int(np.argmax(wrong))
            raise InputError(
                f"mesh '{self.name}': face {face} has {index_name} {index[face].tolist()}, out of range for"
                f" {len(values)} {what}; repair the mesh"
            )

    def clean(self) -> Mesh:
        """A valid mesh without degenerate faces and unused vertices; raises InputError like `validate`.

        A face is degenerate when two corners are the same vertex, or when its height is below 1e-7 of its
        longest edge (nothing is left of its area in float32). Those are dropped with one warning.
        """
        self.validate()
        keep = ~self.degenerate_faces()
        if not keep.any():
            raise InputError(
                f"mesh '{self.name}': all {len(keep)} faces are degenerate; give a mesh with some area"
            )
        mesh = self
        if not keep.all():
            warnings.warn(
                f"mesh '{self.name}': {int((~keep).sum())} of {len(keep)} faces are degenerate and were dropped",
                stacklevel=2,
            )
            mesh = replace(
                self,
                faces=self.faces[keep],
                uv_faces=None if self.uv_faces is None else self.uv_faces[keep],
                normal_faces=None if self.normal_faces is None else self.normal_faces[keep],
            )
        positions, faces = _drop_unused(mesh.positions, mesh.faces)
        return replace(mesh, positions=positions, faces=faces)

    def degenerate_faces(self) -> np.ndarray:
        """(F,) bool: faces that `clean` drops."""
        a, b, c = (self.positions[self.faces[:, k]] for k in range(3))
        longest2 = np.max([((p - q) ** 2).sum(1) for p, q in ((a, b), (b, c), (c, a))], axis=0)
        twice_area = np.linalg.norm(np.cross(b - a, c - a), axis=1)
        return twice_area <= 1e-7 * longest2

    # ------------------------------------------------------------------- shape

    def bounds(self) -> np.ndarray:
        """(2, 3): smallest and largest coordinates."""
        return np.stack([self.positions.min(0), self.positions.max(0)])

    def bounding_sphere(self) -> tuple[np.ndarray, float]:
        """Centre of the bounding box, and the distance to the farthest vertex from it."""
        center = self.bounds().mean(0)
        return center, float(np.sqrt(((self.positions - center) ** 2).sum(1).max()))

    def face_normals(self) -> np.ndarray:
        """(F, 3): unit normals, zero for a degenerate face."""
        a, b, c = (self.positions[self.faces[:, k]] for k in range(3))
        return _unit(np.cross(b - a, c - a))

    def face_areas(self) -> np.ndarray:
        """(F,)."""
        a, b, c = (self.positions[self.faces[:, k]] for k in range(3))
        return 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1)

    def vertex_normals(self) -> np.ndarray:
        """(V, 3): unit sums of area-weighted face normals, zero where there is none."""
        a, b, c = (self.positions[self.faces[:, k]] for k in range(3))
        weighted = np.cross(b - a, c - a)
        normals = np.zeros_like(self.positions)
        for k in range(3):
            np.add.at(normals, self.faces[:, k], weighted)
        return _unit(normals)

    def signed_volume(self) -> float:
        """Volume enclosed, positive when a closed mesh's faces turn outward."""
        a, b, c = (self.positions[self.faces[:, k]] - self.positions[0] for k in range(3))
        return float(np.einsum("ij,ij->", a, np.cross(b, c)) / 6)

    def edges(self) -> np.ndarray:
        """(E, 2) int64: every edge once, smaller vertex first, sorted."""
        return np.unique(np.sort(self._half_edges(), axis=1), axis=0)

    def neighbours(self) -> tuple[np.ndarray, np.ndarray]:
        """Vertices around each vertex in compressed rows: (V + 1,) offsets and (2 E,) sorted indices."""
        edges = self.edges()
        both = np.concatenate([edges, edges[:, ::-1]])
        both = both[np.lexsort((both[:, 1], both[:, 0]))]
        counts = np.bincount(both[:, 0], minlength=len(self.positions))
        return np.concatenate([[0], np.cumsum(counts)]), both[:, 1]

    def parts(self) -> np.ndarray:
        """(F,) int: number, from 0 on, of the connected part that each face belongs to."""
        ends = self.edges()
        linked = sparse.coo_array((np.ones(len(ends)), tuple(ends.T)), shape=(len(self.positions),) * 2)
        part = connected_components(linked, directed=False)[1][self.faces[:, 0]]
        return np.unique(part, return_inverse=True)[1]

    def averaging(self) -> sparse.csr_array:
        """(V, V) sparse matrix that takes the mean of each vertex's neighbours."""
        offsets, near = self.neighbours()
        counts = np.diff(offsets)
        weights = np.repeat(1 / np.maximum(counts, 1), counts)
        return sparse.csr_array((weights, near, offsets), shape=(len(counts),) * 2)

    def is_closed(self) -> bool:
        """Whether each edge belongs to exactly two faces, which run through it in opposite directions."""
        half = self._half_edges()
        size = len(self.positions)
        forward = np.sort(half[:, 0] * size + half[:, 1])
        backward = np.sort(half[:, 1] * size + half[:, 0])
        return bool((np.diff(forward) > 0).all() and np.array_equal(forward, backward))

    def euler_characteristic(self) -> int:
        """V - E + F over the vertices in use: 2 for one closed surface without holes, 0 for a torus."""
        return len(np.unique(self.faces)) - len(self.edges()) + len(self.faces)

    def _half_edges(self) -> np.ndarray:
        return np.concatenate([self.faces[:, [0, 1]], self.faces[:, [1, 2]], self.faces[:, [2, 0]]])

    # ------------------------------------------------------------------ change

    def moved(self, positions: np.ndarray) -> Mesh:
        """The same topology, UVs and albedo with other positions (V, 3). File normals are dropped: they are
        stale."""
        positions = np.asarray(positions, dtype=np.float64)
        if positions.shape != self.positions.shape:
            raise InputError(
                f"mesh '{self.name}' has {self.positions.shape} positions; {positions.shape} were given"
            )
        return replace(self, positions=positions, normals=None, normal_faces=None)

    def subdivide(self, times: int = 1) -> Mesh:
        """Each face becomes four by its edges' midpoints, `times` times. UVs are kept, file normals
        dropped."""
        mesh = replace(self, normals=None, normal_faces=None)
        for _ in range(times):
            positions, faces = _midpoints(mesh.positions, mesh.faces)
            uvs, uv_faces = mesh.uvs, mesh.uv_faces
            if uvs is not None and uv_faces is not None:
                uvs, uv_faces = _midpoints(uvs, uv_faces)
            mesh = replace(mesh, positions=positions, faces=faces, uvs=uvs, uv_faces=uv_faces)
        return mesh

    def split_at_seams(self, normals: bool = False) -> SeamSplit:
        """One vertex per distinct (position, UV, normal) corner, in the order of the welded vertices.

        normals: those of the file where there are any, otherwise the smooth `vertex_normals`.
        """
        corners = [self.faces.reshape(-1)]
        normal_values = None
        if normals and self.normal_faces is not None:
            corners.append(self.normal_faces.reshape(-1))
        if self.uv_faces is not None:
            corners.append(self.uv_faces.reshape(-1))
        unique, index = np.unique(np.stack(corners, axis=1), axis=0, return_inverse=True)
        source = unique[:, 0]
        if normals:
            normal_values = (
                self.vertex_normals()[source] if self.normals is None else self.normals[unique[:, 1]]
            )
        return SeamSplit(
            positions=self.positions[source],
            faces=index.reshape(-1, 3),
            uvs=None if self.uvs is None else self.uvs[unique[:, -1]],
            normals=normal_values,
            source=source,
        )

    def unwrap(self, resolution: int = 512, padding: int = 2) -> Mesh:
        """The same shape with new UVs by xatlas: charts that do not overlap, `padding` texels apart.

        A texture belongs to the UVs that it was made for, so it is dropped.
        """
        import xatlas

        atlas = xatlas.Atlas()
        # xatlas has absolute epsilons: a shape of unit size keeps tiny and huge meshes away from them.
        center, radius = self.bounding_sphere()
        unit = (self.positions - center) / max(radius, 1e-30)
        atlas.add_mesh(unit.astype(np.float32), self.faces.astype(np.uint32))
        options = xatlas.PackOptions()
        options.resolution, options.padding = resolution, padding
        atlas.generate(pack_options=options)
        _, index, uvs = atlas[0]
        warnings.warn(
            f"mesh '{self.name}': UVs for {len(self.faces)} faces were made by xatlas ({atlas.chart_count} charts)",
            stacklevel=2,
        )
        return replace(self, uvs=uvs.astype(np.float64), uv_faces=index.astype(np.int64), texture=None)

    def sample_texture(self, uv: np.ndarray) -> np.ndarray:
        """Albedo (..., 3) at UVs (..., 2): bilinear, repeating, times the colour factor; linear light."""
        uv = np.asarray(uv, dtype=np.float64)
        if self.texture is None:
            return np.broadcast_to(np.asarray(self.color, dtype=np.float64), uv.shape[:-1] + (3,)).copy()
        height, width = self.texture.shape[:2]
        place = uv * (width, height) - 0.5
        low = np.floor(place)
        fraction = place - low
        x0, y0 = low[..., 0].astype(np.int64), low[..., 1].astype(np.int64)
        total = np.zeros(uv.shape[:-1] + (3,))
        for dy in (0, 1):
            for dx in (0, 1):
                weight = np.abs(1 - dx - fraction[..., 0]) * np.abs(1 - dy - fraction[..., 1])
                total += weight[..., None] * self.texture[(y0 + dy) % height, (x0 + dx) % width]
        return total * np.asarray(self.color)


def weld(positions: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Join vertices whose positions are equal as float32. Returns (V, 3) in order of first use, and new
    faces."""
    keys = np.ascontiguousarray(np.asarray(positions).astype(np.float32) + np.float32(0))  # -0.0 becomes 0.0
    return _join(np.asarray(positions, dtype=np.float64), keys, np.asarray(faces))


def weld_values(values: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Join rows of UVs or normals that are equal as float32, like `weld`."""
    return weld(values, index)


def _join(values: np.ndarray, keys: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = keys.view(np.dtype((np.void, keys.dtype.itemsize * keys.shape[1]))).reshape(-1)
    _, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
    order = np.argsort(
        first
    )  # np.unique sorts by value; keep the file's order, neighbours stay near in memory
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return values[first[order]], rank[inverse.reshape(-1)][index]


def _drop_unused(positions: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    used = np.zeros(len(positions), dtype=bool)
    used[faces.reshape(-1)] = True
    if used.all():
        return positions, faces
    return positions[used], (np.cumsum(used) - 1)[faces]


def _midpoints(values: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    half = np.sort(np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]), axis=1)
    edges, index = np.unique(half, axis=0, return_inverse=True)
    middle = index.reshape(3, -1) + len(values)  # numbers of the new vertices on edges ab, bc, ca
    (a, b, c), (ab, bc, ca) = faces.T, middle
    parts = [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
    new_faces = np.stack([np.stack(part, axis=1) for part in parts], axis=1).reshape(-1, 3)
    return np.concatenate([values, values[edges].mean(axis=1)]), new_faces


def _unit(vectors: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)


def _array(values: np.ndarray | None, dtype: type, columns: int, name: str, what: str) -> np.ndarray:
    array = np.asarray(values)
    if array.size == 0:
        return np.zeros((0, columns), dtype=dtype)
    if array.ndim != 2 or array.shape[1] != columns:
        raise InputError(f"mesh '{name}': {what} must be (n, {columns}), not {array.shape}")
    if not np.issubdtype(array.dtype, np.number) or (dtype is np.int64 and array.dtype.kind not in "iu"):
        raise InputError(f"mesh '{name}': {what} must be {np.dtype(dtype).name} numbers, not {array.dtype}")
    return np.ascontiguousarray(array, dtype=dtype)
