"""What a fine mesh shows, as maps of a light one: colours, a normal map, and all else that its material has."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from ...errors import InputError
from ..core.engine import MakeEngine
from ..core.materials import GLTF
from ..forms.soft_target import nearest_outside
from ..io.images import resize
from ..mesh import Material, Mesh
from ..mesh.material import bilinear
from ..mesh.queries import SurfaceDistance
from ..mesh.remesh.remesh import decimate, decimate_closed
from ..mesh.rows import cross, unit
from .occlusion import Charts, bake_occlusion

PADDING = 8
"""Texels between charts: the first three mip levels of one chart read no other."""
TURNS, SLANT, NEAR = 6, 0.2, 1e-4
"""Newton's steps along a ray, the least cosine between it and a face that it is led by, and how near to the fine
mesh it ends, in radii."""
LEAST, MOST = 256, 2048
"""Texels along each side of a texture that nobody has chosen."""


def lighter(mesh: Mesh, faces: int, texels: int) -> Mesh:
    """The shape with about that many faces (``decimate``), smooth normals, and UVs for a square texture of so many
    texels along each side. Raises InputError.

    >>> lighter(primitives.icosphere(3), 200, 256).uvs is not None
    True
    """
    fewer = (decimate_closed if mesh.is_closed() else decimate)(mesh, faces)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fewer = fewer.unwrap(texels, PADDING)
    return replace(fewer, normals=fewer.vertex_normals(), normal_faces=fewer.faces)


def usual_texels(mesh: Mesh) -> int:
    """Texels along each side of a texture that keeps what a mesh shows: of its largest map, or four for each face.

    >>> usual_texels(primitives.icosphere(3))
    256
    """
    maps = [] if mesh.material is None else [getattr(mesh.material, name) for name in mesh.material.maps()]
    sides = [max(image.shape[:2]) for image in (*maps, mesh.texture) if image is not None]
    wanted = max([*sides, int((6 * len(mesh.faces)) ** 0.5)])
    return int(np.clip(2 ** round(np.log2(wanted)), LEAST, MOST))


def bake_maps(
    fine: Mesh, light: Mesh, size: tuple[int, int], make_engine: MakeEngine, *, rays: int = 64
) -> Mesh:
    """The light mesh with maps of ``size`` (W, H) that show the fine one: its colours, all maps of its material, a
    normal map in the tangent space of the light mesh (MikkTSpace and glTF 2.0: +Y up), and ambient occlusion.

    light: a mesh near the surface of the fine one, with UVs, such as ``lighter`` makes. A texel stands for the
    point where the line along the light mesh's normal meets the fine one on the same side, or else for the nearest
    point. Normals are exact at the centres of texels, up to the 8 bits of a file. Texels between charts have the
    values of the nearest chart, so that mip levels do not mix in a background.  rays: of the occlusion
    (``bake_occlusion``); 0 bakes none.

    Numbers, without derivatives. Raises InputError for UVs that are missing, repeat or overlap.

    >>> ball = primitives.icosphere(4)
    >>> baked = bake_maps(ball, lighter(ball, 200, 64), (64, 64), DressiAD, rays=0)
    >>> baked.material.normal.shape, bool(baked.material.normal[..., 2].min() > 0.8)
    ((64, 64, 3), True)
    """
    charts = Charts(light, size)
    values, tangent_faces = light.tangents()
    wanted = {
        "places": charts.spread("places", light.positions[light.faces]),
        "normals": charts.spread("normals", charts.normals()),
        "tangents": charts.spread("tangents", values[tangent_faces]),
    }
    engine = make_engine()
    try:
        images = charts.evaluated(engine, wanted)
    finally:
        engine.close()
    inside = images["inside"]
    place, normal, tangent = (images[name][inside].astype(np.float64) for name in wanted)
    normal = unit(normal)
    face, weights = met(fine, place, normal)
    everywhere = tuple(nearest_outside(~inside))

    def image(rows: np.ndarray) -> np.ndarray:
        whole = np.zeros((size[1], size[0], *rows.shape[1:]), np.float32)
        whole[inside] = rows
        return whole[everywhere]

    material, maps = fine.material or Material(), {}
    points, shown = at(fine.positions, fine.faces, face, weights), normals_at(fine, face, weights)
    bitangent = np.cross(normal, tangent[:, :3]) * np.where(tangent[:, 3:] < 0, -1.0, 1.0)
    # The reader adds up x T + y B + z N as they are interpolated, so the rows of the inverse are the texel.
    frame = np.stack([tangent[:, :3], bitangent, normal], axis=-1)
    singular = np.abs(np.linalg.det(frame)) < 1e-3
    frame[singular] = np.eye(3)
    texel = unit(np.linalg.solve(frame, shown[..., None])[..., 0])
    texel[singular | (texel[:, 2] < 0)] = (0.0, 0.0, 1.0)
    maps["normal"] = image(texel)
    for name in material.maps():
        if not GLTF.maps[name].signed and name != "occlusion":
            maps[name] = image(sampled(fine, getattr(material, name), name, face, weights, inside.sum()))
    if rays:
        sky = (fine, image(points), image(shown))
        maps["occlusion"] = bake_occlusion(light, size, make_engine, rays=rays, fine=sky)
    texture = None
    if fine.texture is not None:
        texture = sampled(fine, fine.texture, "texture", face, weights, inside.sum())
    if fine.colors is not None and fine.color_faces is not None:
        colour = at(fine.colors, fine.color_faces, face, weights)
        texture = colour if texture is None else texture * colour
    kept = dict.fromkeys((*GLTF.maps,)) | maps
    material = replace(material, **kept, placements={}, wrap="clamp", normal_scale=1.0)
    texture = None if texture is None else image(texture)
    return replace(light, texture=texture, color=fine.color, material=material, colors=None, color_faces=None)


def met(fine: Mesh, place: np.ndarray, normal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Faces (P,) and weights (P, 3) of the points of a mesh that lines through (P, 3) along unit normals meet, by
    Newton's steps from the nearest points, which remain where a line meets nothing near."""
    surface = SurfaceDistance(fine, max(20_000, 2 * len(fine.faces)))
    flat, tolerance = fine.face_normals(), NEAR * fine.bounding_sphere()[1]
    face, weights = surface.nearest(place, normal)
    first = at(fine.positions, fine.faces, face, weights)
    reach = 2 * np.linalg.norm(first - place, axis=1)
    found, along, todo = first.copy(), np.zeros(len(place)), np.arange(len(place))
    last, final = face.copy(), weights.copy()
    for _ in range(TURNS):
        n, m = normal[todo], flat[last[todo]]
        slant = (n * m).sum(1)
        lead = np.where((slant > SLANT)[:, None], m / np.maximum(slant, SLANT)[:, None], n)
        along[todo] = ((found[todo] - place[todo]) * lead).sum(1)
        todo = todo[np.abs(along[todo]) <= reach[todo]]
        on = place[todo] + along[todo, None] * normal[todo]
        last[todo], final[todo] = surface.nearest(on, normal[todo])
        found[todo] = at(fine.positions, fine.faces, last[todo], final[todo])
        away = np.linalg.norm(found[todo] - on, axis=1) > tolerance
        arrived = todo[~away]
        face[arrived], weights[arrived] = last[arrived], final[arrived]
        todo = todo[away]
        if not len(todo):
            break
    return face, weights


def at(rows: np.ndarray, faces: np.ndarray, face: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(P, C) rows at points of faces (P,), by their weights (P, 3)."""
    return np.einsum("pk,pkd->pd", weights, rows[faces[face]])


def normals_at(mesh: Mesh, face: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(P, 3) unit shading normals at points of faces: those of its normal map, of the file, or of vertices."""
    rows, faces = mesh.vertex_normals(), mesh.faces
    if mesh.normals is not None and mesh.normal_faces is not None:
        rows, faces = mesh.normals, mesh.normal_faces
    normal, material = unit(at(rows, faces, face, weights)), mesh.material
    if material is None or material.normal is None:
        return normal
    tangent = at(*mesh.tangents(), face, weights)
    sign = np.where(tangent[:, 3:] < 0, -1.0, 1.0)
    x, y, z = np.split(sampled(mesh, material.normal, "normal", face, weights), 3, axis=1)
    t, scale = tangent[:, :3], material.normal_scale
    return unit(scale * x * t + scale * y * sign * np.cross(normal, t) + z * normal)


def sampled(
    mesh: Mesh, image: np.ndarray, what: str, face: np.ndarray, weights: np.ndarray, texels: float = np.inf
) -> np.ndarray:
    """(P, ...) a map of a mesh at points of faces, where its material places it. Raises InputError without UVs.

    texels: how many the whole surface will have; a map that has more is averaged first.
    """
    material = mesh.material or Material()
    place = material.place(what)
    uvs, faces = (mesh.second_uvs, mesh.second_uv_faces) if place.uv_set else (mesh.uvs, mesh.uv_faces)
    if uvs is None or faces is None:
        if image.shape[:2] != (1, 1):
            raise InputError(
                f"mesh '{mesh.name}' has a map of {what} but no UVs; unwrap it before maps are made"
            )
        return np.broadcast_to(image[0, 0], (len(face), *image.shape[2:]))
    uvs = uvs @ np.transpose(place.matrix) + place.offset
    (height, width), (a, b, c) = image.shape[:2], uvs[faces.T]
    own = 0.5 * np.abs(cross(b - a, c - a)).sum() * width * height
    fewer = max(int(np.sqrt(own / texels) + 0.3), 1)
    image = resize(image, (max(width // fewer, 1), max(height // fewer, 1)))
    return bilinear(image, at(uvs, faces, face, weights), material.wrap_of(what))
