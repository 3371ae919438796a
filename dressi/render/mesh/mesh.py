"""Triangle meshes on the host: shape, texture coordinates and albedo, in NumPy.

Everything that a renderer sends to the device starts here, and everything that a fit recovers ends here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dressi.errors import InputError, KnownAttributes, warn
from dressi.figures import Figures

from ..surface.color import check_linear
from .compiled import compiled
from .material import Material, bilinear
from .rows import connected, distinct, drop_unused, face_rows, midpoints, unit, value_rows
from .tangents import Tangents, corner_tangents

if TYPE_CHECKING:
    import scipy

_STALE = dict.fromkeys(("normals", "normal_faces", "file_tangents", "file_tangent_faces"))
"""What a file says about a shape: dropped when the shape changes."""
_ROWS = {"positions": 3, "uvs": 2, "colors": 3, "normals": 3, "file_tangents": 4, "second_uvs": 2}
"""Columns of the lists that faces refer to: one at vertices, the others at the corners of faces."""
_FACES = {what: "faces" if what == "positions" else what[:-1] + "_faces" for what in _ROWS}
_WORDS = {
    "positions": "vertex", "uvs": "UV", "normals": "normal", "colors": "colour", "second_uvs": "second UV",
    "file_tangents": "tangent",
}  # fmt: skip
"""Messages call one row so."""


class SeamSplit(NamedTuple):
    """A mesh with one vertex per distinct corner, as files and devices store it: `Mesh.split_at_seams`.

    >>> from dressi.render.mesh.primitives import cube
    >>> split = cube().split_at_seams()
    >>> split.positions.shape, split.uvs.shape, split.faces.shape
    ((24, 3), (24, 2), (12, 3))
    """

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
    colors: np.ndarray | None = None
    """(S, 3) float64 linear light or None."""
    tangents: np.ndarray | None = None
    """(S, 4) float64 or None."""
    second_uvs: np.ndarray | None = None
    """(S, 2) float64 or None."""


@dataclass(eq=False, repr=False)
class Mesh(KnownAttributes, Figures):
    """A triangle mesh whose positions are welded, and whose UVs, normals and colours live on face corners.

    positions: (V, 3) float64.  faces: (F, 3) int64, counter-clockwise seen from outside; integers of any kind
    are taken, and lists.
    uvs: (U, 2) float64 with uv_faces: (F, 3) int64, or both None. glTF convention: (0, 0) is the corner of
    the first texel, v grows downward; coordinates outside [0, 1] repeat, or what the material's ``wrap``
    says.
    normals: (N, 3) float64 unit with normal_faces: (F, 3) int64, or both None: those of the file, for saving
    and smooth shading; `vertex_normals` computes them from the shape.
    texture: (H, W, 3) linear albedo or None.  color: (3,) linear factor that multiplies the texture.
    colors: (C, 3) float64 with color_faces: (F, 3) int64, or both None: vertex colours in linear light with
    sRGB primaries. color_faces may be left out when there is one colour a vertex (C = V). The albedo of a
    point is color * texture * its interpolated vertex colour, as in glTF; `vertex_colors` gives one a vertex.
    material: how it reflects and emits light, with maps at the same UVs; None for a rough dielectric.
    second_uvs: (U, 2) float64 with second_uv_faces: (F, 3) int64, or both None: for maps whose `Placement`
    says so.
    file_tangents: (T, 4) float64 with file_tangent_faces: (F, 3) int64, or both None: those of the file;
    `tangents` gives them, or computes them from the UVs.

    Attributes can be set later, too. Raises InputError when an array has another shape or type, and when an
    attribute is set that there is not; `validate` and `clean` check the values.

    >>> import numpy as np
    >>> mesh = Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]], name="corner")
    >>> mesh
    Mesh 'corner': 3 vertices, 1 faces, no UVs, no texture, bounds [0, 0, 0] to [1, 1, 0]
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
    colors: np.ndarray | None = None
    color_faces: np.ndarray | None = None
    material: Material | None = None
    file_tangents: np.ndarray | None = None
    file_tangent_faces: np.ndarray | None = None
    second_uvs: np.ndarray | None = None
    second_uv_faces: np.ndarray | None = None

    def __post_init__(self) -> None:
        for name in (*_ROWS, *_FACES.values()):
            setattr(self, name, getattr(self, name))
        self._check_pairs()

    def __setattr__(self, name: str, value: Any) -> None:
        # Before the last field is there, messages do not know the name of the mesh.
        if value is None or "second_uv_faces" not in self.__dict__:
            super().__setattr__(name, value)
            return
        if name in _ROWS:
            value = value_rows(value, _ROWS[name], self.name, name)
        elif name.endswith("faces"):
            value = face_rows(value, self.name, name)
        super().__setattr__(name, value)
        if name == "colors" and self.color_faces is None and len(value) == len(self.positions):
            self.color_faces = self.faces

    def _check_pairs(self) -> None:
        for what, index in _FACES.items():
            if (getattr(self, what) is None) != (getattr(self, index) is None):
                raise InputError(
                    f"mesh '{self.name}': {what} and {index} come in pairs; give both or neither"
                )

    def lists(self) -> Iterator[tuple[str, str, np.ndarray, np.ndarray]]:
        """(name of the rows, name of their faces, rows, faces) of positions, and of UVs, normals, colours and
        tangents where there are some."""
        for what, index in _FACES.items():
            if getattr(self, what) is not None:
                yield what, index, getattr(self, what), getattr(self, index)

    def __repr__(self) -> str:
        parts = [f"{len(self.positions)} vertices", f"{len(self.faces)} faces"]
        parts.append("no UVs" if self.uvs is None else f"{len(self.uvs)} UVs")
        if self.texture is None:
            parts.append("no texture")
        else:
            parts.append("{1}x{0} texture".format(*np.shape(self.texture)))
        if self.colors is not None:
            parts.append(f"{len(self.colors)} vertex colours")
        if len(self.positions):
            parts += ["bounds {} to {}".format(*([float(f"{x:.4g}") for x in row] for row in self.bounds()))]
        return f"Mesh '{self.name}': {', '.join(parts)}".replace(".0,", ",").replace(".0]", "]")

    # ------------------------------------------------------------------ checks

    def validate(self) -> Mesh:
        """Return self; raise InputError when the arrays cannot be a mesh.

        Refused: no faces, NaN or infinite positions, UVs or normals, indices out of range, index lists of
        different lengths, colours that are code values from 0 to 255, and a material that `Material.validate`
        refuses, or that has maps without UVs. Degenerate faces are allowed here, see `clean`.
        """
        if len(self.faces) == 0:
            raise InputError(f"mesh '{self.name}' has no faces; give a mesh with at least one triangle")
        self._check_pairs()
        for what, index, rows, faces in self.lists():
            if faces.shape != self.faces.shape:
                raise InputError(
                    f"mesh '{self.name}': {index} has {len(faces)} rows for {len(self.faces)} faces; give one"
                    " per face"
                )
            bad = ~np.isfinite(rows).all(axis=1)
            if bad.any():
                raise InputError(
                    f"mesh '{self.name}': {_WORDS[what]} {int(np.argmax(bad))} of {what} is NaN or infinite"
                    f" ({int(bad.sum())} such in all); repair the mesh"
                )
            wrong = ((faces < 0) | (faces >= len(rows))).any(axis=1)
            if wrong.any():
                face = int(np.argmax(wrong))
                from_one = faces.min() == 1 and faces.max() == len(rows)
                raise InputError(
                    f"mesh '{self.name}': face {face} has {index} {faces[face].tolist()}, out of range for"
                    f" {len(rows)} {what};" + (" count from 0: faces - 1" if from_one else " repair the mesh")
                )
        for what in ("texture", "color", "colors"):
            if getattr(self, what) is not None:
                check_linear(f"{what} of mesh '{self.name}'", getattr(self, what))
        if self.material is not None:
            self.material.validate().check_uvs(self.name, self.uvs is not None, self.second_uvs is not None)
        return self

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
            lost = int((~keep).sum())
            warn(f"mesh '{self.name}': {lost} of {len(keep)} faces are degenerate and were dropped")
            mesh = self.with_faces(keep)
        positions, faces = drop_unused(mesh.positions, mesh.faces)
        return replace(mesh, positions=positions, faces=faces)

    def with_faces(self, keep: np.ndarray) -> Mesh:
        """The mesh with some of its faces: keep is (F,) bool, or their numbers. All vertices stay.

        >>> from dressi.render.mesh.primitives import cube
        >>> len(cube().with_faces([0, 1]).faces)
        2
        """
        return replace(self, **{index: faces[keep] for _, index, _, faces in self.lists()})

    def degenerate_faces(self) -> np.ndarray:
        """(F,) bool: faces that `clean` drops."""
        corners = self.positions[self.faces]
        longest2 = ((corners - np.roll(corners, 1, axis=1)) ** 2).sum(2).max(1)
        return np.linalg.norm(self._crosses(), axis=1) <= 1e-7 * longest2

    # ------------------------------------------------------------------ measures and connectivity

    def bounds(self) -> np.ndarray:
        """(2, 3): smallest and largest coordinates."""
        return np.stack([self.positions.min(0), self.positions.max(0)])

    def bounding_sphere(self) -> tuple[np.ndarray, float]:
        """Centre of the bounding box, and the distance to the farthest vertex from it."""
        center = self.bounds().mean(0)
        return center, float(np.sqrt(((self.positions - center) ** 2).sum(1).max()))

    def face_normals(self) -> np.ndarray:
        """(F, 3): unit normals, zero for a degenerate face."""
        return unit(self._crosses())

    def face_areas(self) -> np.ndarray:
        """(F,)."""
        return 0.5 * np.linalg.norm(self._crosses(), axis=1)

    def vertex_normals(self) -> np.ndarray:
        """(V, 3): unit sums of area-weighted face normals, zero where there is none."""
        normals, weighted = np.zeros_like(self.positions), self._crosses()
        for corner in self.faces.T:
            np.add.at(normals, corner, weighted)
        return unit(normals)

    def signed_volume(self) -> float:
        """Volume enclosed, positive when a closed mesh's faces turn outward."""
        a, b, c = (self.positions[self.faces[:, k]] - self.positions[0] for k in range(3))
        return float(np.einsum("ij,ij->", a, np.cross(b, c)) / 6)

    def edges(self) -> np.ndarray:
        """(E, 2) int64: every edge once, smaller vertex first, sorted."""
        start, end = self._half_edges().T
        size = len(self.positions)
        # Numbers sort faster than rows.
        keys = distinct(np.minimum(start, end) * size + np.maximum(start, end))
        return np.stack(np.divmod(keys, max(size, 1)), axis=1)

    def edge_lengths(self) -> np.ndarray:
        """(E,) lengths of ``edges``."""
        a, b = self.positions[self.edges()].transpose(1, 0, 2)
        return np.linalg.norm(a - b, axis=1)

    def neighbours(self) -> tuple[np.ndarray, np.ndarray]:
        """Vertices around each vertex in compressed rows: (V + 1,) offsets and (2 E,) sorted indices."""
        (a, b), size = self.edges().T, len(self.positions)
        start, end = np.divmod(np.sort(np.concatenate([a * size + b, b * size + a])), max(size, 1))
        counts = np.bincount(start, minlength=size)
        return np.concatenate([[0], np.cumsum(counts)]), end

    def parts(self) -> np.ndarray:
        """(F,) int: number, from 0 on, of the connected part that each face belongs to."""
        start, end = self.edges().T
        part = connected(start, end, len(self.positions))[self.faces[:, 0]]
        return np.unique(part, return_inverse=True)[1]

    def component_count(self) -> int:
        """Number of connected components; see `components`."""
        return int(self.parts().max()) + 1 if len(self.faces) else 0

    def averaging(self) -> scipy.sparse.csr_array:
        """(V, V) sparse matrix that takes the mean of each vertex's neighbours."""
        import scipy  # few meshes need it

        offsets, near = self.neighbours()
        counts = np.diff(offsets)
        weights = np.repeat(1 / np.maximum(counts, 1), counts)
        return scipy.sparse.csr_array((weights, near, offsets), shape=(len(counts),) * 2)

    def is_closed(self) -> bool:
        """Whether each edge belongs to exactly two faces, which run through it in opposite directions."""
        half = self._half_edges()
        size = len(self.positions)
        forward = np.sort(half[:, 0] * size + half[:, 1])
        backward = np.sort(half[:, 1] * size + half[:, 0])
        return bool((np.diff(forward) > 0).all() and np.array_equal(forward, backward))

    def euler_characteristic(self) -> int:
        """V - E + F over the vertices in use: 2 for one closed surface without holes, 0 for a torus."""
        return len(distinct(self.faces)) - len(self.edges()) + len(self.faces)

    def _crosses(self) -> np.ndarray:
        """(F, 3) normals as long as twice the areas."""
        a, b, c = self.positions[self.faces.T]
        return np.cross(b - a, c - a)

    def _half_edges(self) -> np.ndarray:
        return np.concatenate([self.faces[:, [0, 1]], self.faces[:, [1, 2]], self.faces[:, [2, 0]]])

    # ------------------------------------------------------------------ change

    def moved(self, positions: np.ndarray) -> Mesh:
        """The same topology, UVs and albedo with other positions (V, 3). Normals and tangents of the file are
        dropped: they are stale."""
        positions = np.asarray(positions, dtype=np.float64)
        if positions.shape != self.positions.shape:
            raise InputError(
                f"mesh '{self.name}' has {self.positions.shape} positions; {positions.shape} were given"
            )
        return replace(self, positions=positions, **_STALE)

    def with_shape(self, positions: np.ndarray, faces: np.ndarray) -> Mesh:
        """Another shape with name, colour factor and material of this one, and nothing on its faces."""
        material = None if self.material is None else self.material.without_maps()
        return Mesh(positions, faces, color=self.color, name=self.name, material=material)

    def subdivide(self, times: int = 1) -> Mesh:
        """Each face becomes four by its edges' midpoints, `times` times. UVs are kept, the file's normals are
        dropped."""
        mesh = replace(self, **_STALE)
        for _ in range(times):
            parts = {}
            for what, index, rows, faces in mesh.lists():
                parts[what], parts[index] = midpoints(rows, faces)
            mesh = replace(mesh, **parts)
        return mesh

    def tangents(self) -> Tangents:
        """(values (T, 4), faces (F, 3)) for normal maps: those of the file where there are any, otherwise
        computed from the UVs, and from the normals of the file or the smooth `vertex_normals`, by the rules
        of MikkTSpace. InputError without UVs.

        >>> from dressi.render.mesh.primitives import cube
        >>> values, faces = cube().tangents()
        >>> sorted(set(values[:, 3].tolist()))
        [1.0]
        """
        if self.file_tangents is not None and self.file_tangent_faces is not None:
            return Tangents(self.file_tangents, self.file_tangent_faces)
        if self.uvs is None or self.uv_faces is None:
            raise InputError(f"mesh '{self.name}' has no UVs, which tangents go along; unwrap it")
        normals, faces = self.normals, self.normal_faces
        if normals is None or faces is None:
            normals, faces = self.vertex_normals(), self.faces
        return corner_tangents(self.positions, self.faces, self.uvs, self.uv_faces, normals, faces)

    def split_at_seams(self, normals: bool = False, tangents: bool = False) -> SeamSplit:
        """One vertex per distinct (position, UV, normal) corner, in the order of the welded vertices.

        normals: those of the file where there are any, otherwise the smooth `vertex_normals`.  tangents:
        `tangents`.
        """
        if tangents:
            values, faces = self.tangents()
            self = replace(self, file_tangents=values, file_tangent_faces=faces)
        left_out = {what for what, keep in (("normals", normals), ("file_tangents", tangents)) if not keep}
        lists = [(what, rows, faces) for what, _, rows, faces in self.lists() if what not in left_out]
        corners = np.stack([faces.reshape(-1) for *_, faces in lists], axis=1)
        unique, index = np.unique(corners, axis=0, return_inverse=True)
        split = {what: rows[unique[:, k]] for k, (what, rows, _) in enumerate(lists)}
        source = unique[:, 0]
        if normals and self.normals is None:
            split["normals"] = self.vertex_normals()[source]
        return SeamSplit(
            positions=split["positions"],
            faces=index.reshape(-1, 3),
            uvs=split.get("uvs"),
            normals=split.get("normals"),
            source=source,
            colors=split.get("colors"),
            tangents=split.get("file_tangents"),
            second_uvs=split.get("second_uvs"),
        )

    def unwrap(self, resolution: int = 512, padding: int = 2) -> Mesh:
        """The same shape with new UVs by xatlas: charts that do not overlap, `padding` texels apart.

        A texture belongs to the UVs that it was made for, so it is dropped, as are the material's maps
        (`Material.without_maps`). Raises InputError without the package xatlas.
        """
        xatlas = compiled("xatlas", "xatlas", "Mesh.unwrap")
        atlas = xatlas.Atlas()
        # xatlas has absolute epsilons: a shape of unit size keeps tiny and huge meshes away from them.
        center, radius = self.bounding_sphere()
        scaled = (self.positions - center) / max(radius, 1e-30)
        atlas.add_mesh(scaled.astype(np.float32), self.faces.astype(np.uint32))
        options = xatlas.PackOptions()
        options.resolution, options.padding = resolution, padding
        atlas.generate(pack_options=options)
        _, index, uvs = atlas[0]
        count = atlas.chart_count
        warn(f"mesh '{self.name}': UVs for {len(self.faces)} faces were made by xatlas ({count} charts)")
        material = None if self.material is None else self.material.without_maps()
        stale = dict.fromkeys(("file_tangents", "file_tangent_faces", "second_uvs", "second_uv_faces"))
        return replace(
            self, uvs=uvs, uv_faces=index.astype(np.int64), texture=None, material=material, **stale
        )

    def vertex_colors(self) -> np.ndarray:
        """(V, 3) linear light: one colour a vertex, the mean of its corners, white without colours.

        >>> import numpy as np
        >>> mesh = Mesh(np.eye(3), [[0, 1, 2]], colors=np.eye(3))
        >>> mesh.vertex_colors()[1].tolist()
        [0.0, 1.0, 0.0]
        """
        total = np.zeros_like(self.positions)
        if self.colors is None or self.color_faces is None:
            return total + 1
        count = np.bincount(self.faces.reshape(-1), minlength=len(total))
        np.add.at(total, self.faces.reshape(-1), self.colors[self.color_faces.reshape(-1)])
        total[count == 0] = 1
        return total / np.maximum(count, 1)[:, None]

    def sample_texture(self, uv: np.ndarray) -> np.ndarray:
        """Albedo (..., 3) at UVs (..., 2): bilinear, times the colour factor; linear light. Outside [0, 1]
        the texture repeats, or what the material says."""
        uv = np.asarray(uv, dtype=np.float64)
        if self.texture is None:
            return np.broadcast_to(np.asarray(self.color, dtype=np.float64), uv.shape[:-1] + (3,)).copy()
        material = self.material or Material()
        place = material.place("texture")
        uv = uv @ np.transpose(place.matrix) + place.offset
        return bilinear(self.texture, uv, material.wrap_of("texture")) * np.asarray(self.color)
