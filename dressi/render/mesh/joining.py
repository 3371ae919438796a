"""Several meshes as one: colours become those of vertices, and textures and maps lie in one atlas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...config import config
from ...errors import InputError, shown, warn
from ..core.materials import GLTF
from .material import Material, bilinear, wrapped
from .mesh import Mesh
from .rows import drop_unused, weld

_MARGIN = 2
"""Texels around each image of an atlas, so that bilinear lookups never reach its neighbour."""
_SLACK = 1e-4
"""How far UVs may leave a tile without asking for another one: rounding, which the margin holds."""
_MODES = ("opaque", "mask", "blend")


class AtlasError(InputError):
    """The images of several meshes are too large for one atlas.

    >>> from dressi.render.mesh.primitives import cube
    >>> far = cube()
    >>> far.texture, far.uvs = np.ones((9, 9, 3)), far.uvs * 1e9
    >>> joined([far, cube()], "two")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    dressi.render.mesh.joining.AtlasError: mesh 'two': the textures of its 2 materials, repeated as its ...
    """


def joined(meshes: Sequence[Mesh], name: str) -> Mesh:
    """One mesh that looks as several do together.

    meshes: with materials whose maps lie at the UVs as they are (no placements).  name: of the result.

    Vertices are welded. Colour factors that differ are multiplied into the vertex colours. Textures and maps
    that differ go into one atlas with a margin of two texels, at their own resolution: bilinear lookups give
    what they gave before. A texture that repeats is repeated in the atlas as often as its UVs ask for.
    Factors that differ and have a map, such as roughness, become texels of it, except where that would cost
    UVs that no image needs. Normals and UVs are kept where all have them. A warning names what one mesh
    cannot hold. Raises InputError for an atlas above `config.max_megapixels`.

    >>> from dressi.render.mesh.primitives import cube
    >>> red, blue = cube(), cube().moved(cube().positions + 3)
    >>> red.color, blue.color = (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)
    >>> both = joined([red, blue], "both")
    >>> len(both.faces), both.colors.tolist(), both.texture is None
    (24, [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], True)
    """
    if len(meshes) == 1:
        return replace(meshes[0], name=name)
    positions, faces = _stacked([(m.validate().positions, m.faces) for m in meshes])
    mesh = Mesh(*weld(positions, faces), name=name)
    normals = [(m.normals, m.normal_faces) for m in meshes]
    if all(values is not None for values, _ in normals):
        mesh.normals, mesh.normal_faces = weld(*_stacked(normals))
        tangents = [(m.file_tangents, m.file_tangent_faces) for m in meshes]
        if all(values is not None for values, _ in tangents):
            mesh.file_tangents, mesh.file_tangent_faces = weld(*_stacked(tangents))
    elif any(values is not None for values, _ in normals):
        warn(f"mesh '{name}': some parts have no normals, so those of the others were left out")
    if any(m.colors is not None for m in meshes) or len({m.color for m in meshes}) > 1:
        mesh.colors, mesh.color_faces = weld(*_stacked([_corner_colours(m) for m in meshes]))
    else:
        mesh.color = meshes[0].color
    looks = [_Look(m, m.material or Material()) for m in meshes]
    own = [look.material for look in looks]
    mapped = [row for row in GLTF.factors.values() if row.map is not None and row.multiplies]
    # What differs between the parts and has a map becomes texels.
    fields = {row.image.field for row in mapped if len({getattr(m, row.field) for m in own}) > 1}
    fields |= {what for m in own for what in m.maps()}
    textured = any(look.texture is not None for look in looks)
    # What one mesh has once is that of the first with a texture, else with maps, else of all.
    chosen = [k for k, look in enumerate(looks) if look.mesh.material is not None]
    chosen.sort(key=lambda k: (looks[k].texture is None, not looks[k].images))
    first = own[chosen[0]] if chosen else None
    uvs = [(m.uvs, m.uv_faces) for m in meshes]
    kept = all(values is not None for values, _ in uvs)
    if not any(look.images for look in looks) and (kept or not fields):
        # UVs without images are those of a fit or a tool to come.
        mesh.material = first and _with_shared(name, first, own, set())
        if kept:
            mesh.uvs, mesh.uv_faces = weld(*_stacked(uvs))
        return mesh
    atlas = _Atlas(name, looks, len(fields) + textured)
    mesh.uvs, mesh.uv_faces = weld(*_stacked(atlas.uvs()))
    if textured:
        white = np.ones((1, 1, 3), np.float32)
        mesh.texture = atlas.filled([white if x.texture is None else x.texture for x in looks])
    if first is None and not fields:
        return mesh
    # Factors become texels, in a range that images hold: the largest stays a factor.
    most = {row.field: max(1.0, *(float(np.max(getattr(m, row.field))) for m in own)) for row in mapped}
    maps = {what: atlas.filled([_texels(m, what, most) for m in own]) for what in sorted(fields)}
    baked = {row.field: row.default for row in mapped if row.image.field in fields}
    material = _with_shared(name, first or own[0], own, set(baked))
    factors = {what: np.full(np.shape(default), most[what]).tolist() for what, default in baked.items()}
    mesh.material = replace(material, **factors, **maps, wrap=("clamp", "clamp"))
    return mesh


@dataclass(frozen=True, eq=False)
class _Look:
    """A mesh and the material that it is drawn with."""

    mesh: Mesh
    material: Material

    @property
    def texture(self) -> np.ndarray | None:
        return self.mesh.texture if self.mesh.uvs is not None else None

    @property
    def images(self) -> list[np.ndarray]:
        """The texture and the maps that are there."""
        maps = [getattr(self.material, what) for what in self.material.maps()]
        return maps if self.texture is None else [self.texture, *maps]

    @property
    def key(self) -> tuple:
        """Equal for looks that share a place in the atlas."""
        factors = tuple(getattr(self.material, what) for what in GLTF.factors)
        return (*map(id, self.images), factors, self.material.wrap, self.material.maps())

    @property
    def size(self) -> tuple[int, int]:
        """(W, H) that holds its texture and each of its maps."""
        shapes = [np.shape(image)[:2] for image in self.images]
        return max((w for _, w in shapes), default=1), max((h for h, _ in shapes), default=1)


class _Atlas:
    """Places for the images of several looks in one."""

    def __init__(self, name: str, looks: list[_Look], images: int):
        self.looks = looks
        self.of: list[int] = []
        self.cells: list[_Look] = []
        self._uvs: list[np.ndarray] = []
        bounds: list[np.ndarray] = []
        numbers: dict[tuple, int] = {}
        for look in looks:
            number = numbers.setdefault(look.key, len(self.cells))
            uv = _in_tiles(look)
            if number == len(self.cells):
                self.cells.append(look)
                bounds.append(np.array([[0.0, 0.0], [1.0, 1.0]]))
            bounds[number][0] = np.minimum(bounds[number][0], np.floor(uv.min((0, 1)) + _SLACK))
            bounds[number][1] = np.maximum(bounds[number][1], np.ceil(uv.max((0, 1)) - _SLACK))
            self.of.append(number)
            self._uvs.append(uv)
        tiles = np.array(bounds)
        self.sizes = np.array([look.size for look in self.cells])
        room = (tiles[:, 1] - tiles[:, 0]) * self.sizes + 2 * _MARGIN
        pixels = float(room.prod(1).sum()) * images
        if not pixels <= config.max_megapixels * 1_000_000:
            raise AtlasError(
                f"mesh '{name}': the textures of its {len(looks)} materials, repeated as its UVs say, take"
                f" {pixels / 1e6:.6g} megapixels as one atlas, above the limit of {config.max_megapixels};"
                " load_scene keeps materials apart"
            )
        self.low, self.high = tiles.astype(np.int64).swapaxes(0, 1)
        self.at, self.size = _shelves(room.astype(np.int64))

    def uvs(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """UVs and their faces of each look."""
        lists = []
        for number, uv in zip(self.of, self._uvs, strict=True):
            place = self.at[number] + _MARGIN + (uv - self.low[number]) * self.sizes[number]
            lists.append((place.reshape(-1, 2) / self.size, np.arange(uv.shape[0] * 3).reshape(-1, 3)))
        return lists

    def filled(self, images: list[np.ndarray]) -> np.ndarray:
        """The atlas of an image for each look."""
        atlas = np.zeros((self.size[1], self.size[0], *images[0].shape[2:]), np.float32)
        for number, look in enumerate(self.cells):
            image, size = images[self.looks.index(look)], self.sizes[number]
            wrap = look.material.wrap
            if image.shape[1::-1] != tuple(size):
                u, v = ((np.arange(n) + 0.5) / n for n in size)
                uv = np.stack(np.meshgrid(u, v), axis=-1)
                flat = image.reshape(*image.shape[:2], -1)
                image = bilinear(flat, uv, wrap).reshape(*uv.shape[:2], *image.shape[2:])
            columns, rows = (
                wrapped(np.arange(low * n - _MARGIN, high * n + _MARGIN), n, one)
                for low, high, n, one in zip(self.low[number], self.high[number], size, wrap, strict=True)
            )
            x, y = self.at[number]
            atlas[y : y + len(rows), x : x + len(columns)] = image[rows[:, None], columns]
        return atlas


def _shelves(room: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n, 2) the corners of rectangles (n, 2) in rows, the tallest first, and (2,) the size of all."""
    width = int(max(room[:, 0].max(), math.ceil(math.sqrt(float(room.prod(1).sum())))))
    at, x, y, height = np.zeros_like(room), 0, 0, 0
    for number in np.argsort(-room[:, 1], kind="stable").tolist():
        w, h = room[number].tolist()
        if x + w > width:
            x, y, height = 0, y + height, 0
        at[number] = x, y
        x, height = x + w, max(height, h)
    return at, np.array([width, y + height])


def _in_tiles(look: _Look) -> np.ndarray:
    """(F, 3, 2) UVs of corners; those of a face are moved to the first tiles where an image repeats."""
    mesh = look.mesh
    if mesh.uvs is None or mesh.uv_faces is None:
        return np.full((len(mesh.faces), 3, 2), 0.5)
    uv = mesh.uvs[mesh.uv_faces]
    if not look.images:
        # One colour; corners stay apart, for whoever draws on them.
        low, extent = uv.min((0, 1)), np.maximum(np.ptp(uv, axis=(0, 1)), 1e-30)
        return (uv - low) / extent
    period = np.array([{"repeat": 1, "mirror": 2}.get(wrap, 0) for wrap in look.material.wrap])
    first = np.floor((uv.min(1, keepdims=True) + _SLACK) / np.maximum(period, 1)) * period
    return uv - first


def _texels(material: Material, field: str, most: dict[str, float]) -> np.ndarray:
    """A map times its factors over the largest ones; the factors alone where there is no map."""
    image = GLTF.maps[field]
    values = getattr(material, field)
    if values is None:
        neutral = (0.0, 0.0, 1.0) if image.signed else 1.0
        shape = (1, 1, image.width) if image.width else (1, 1)
        values = np.broadcast_to(np.asarray(neutral, np.float32), shape)
    factor = np.ones(max(image.width, 1), np.float32)
    for row in GLTF.factors.values():
        if row.map is image and row.multiplies:
            share = np.asarray(getattr(material, row.field)) / most[row.field]
            factor[slice(None) if row.column is None else row.column] = share
    return values * (factor if image.width else factor[0])


def _with_shared(name: str, first: Material, all_of: list[Material], baked: set[str]) -> Material:
    """The first material, with a warning that names numbers and flags of the others that differ."""
    rest = [what for what in GLTF.factors if what not in baked] + ["double_sided", "unlit"]
    differ = sorted(what for what in rest if len({getattr(m, what) for m in all_of}) > 1)
    if {"mask", "blend"} <= {m.alpha_mode for m in all_of}:
        differ.append("alpha_mode")
    if differ:
        warn(
            f"mesh '{name}': its {len(all_of)} materials differ in {', '.join(differ)}; those of"
            f" '{shown(first.name)}' are used for all. load_scene keeps materials apart"
        )
    # Opaque parts have an alpha of 1; cut-outs among translucent parts lose their sharp edge.
    mode = max((m.alpha_mode for m in all_of), key=_MODES.index)
    return replace(first, alpha_mode=mode)


def _corner_colours(mesh: Mesh) -> tuple[np.ndarray, np.ndarray]:
    """Vertex colours times the colour factor, and their faces."""
    factor = np.asarray(mesh.color, np.float64)
    if mesh.colors is None or mesh.color_faces is None:
        return factor[None], np.zeros_like(mesh.faces)
    return mesh.colors * factor, mesh.color_faces


def _stacked(lists: Sequence[tuple[Any, Any]]) -> tuple[np.ndarray, np.ndarray]:
    """Rows and their faces of several lists as one."""
    starts = np.cumsum([0] + [len(rows) for rows, _ in lists])
    faces = [index + start for (_, index), start in zip(lists, starts, strict=False)]
    return np.concatenate([rows for rows, _ in lists]), np.concatenate(faces)


# Connected components of a mesh.


def components(mesh: Mesh) -> list[Mesh]:
    """The connected components of a mesh, each a Mesh with its UVs, colours and texture, largest area first.

    Faces are connected when they share a vertex. ``mesh.component_count()`` counts them alone.

    >>> import numpy as np
    >>> from dressi.render.mesh.primitives import cube
    >>> small, large = cube(0.5), cube(2.0)
    >>> positions = np.concatenate([small.positions, large.positions + 9])
    >>> both = Mesh(positions, np.concatenate([small.faces, large.faces + 8]))
    >>> [len(part.faces) for part in components(both)], both.component_count()
    ([12, 12], 2)
    """
    part = mesh.parts()
    order = np.argsort(part, kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(part))[:-1])
    areas = np.bincount(part, weights=mesh.face_areas())
    pieces = []
    for k in np.argsort(-areas, kind="stable"):
        piece = mesh.with_faces(groups[k])
        positions, faces = drop_unused(piece.positions, piece.faces)
        pieces.append(replace(piece, positions=positions, faces=faces))
    return pieces
