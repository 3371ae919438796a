"""Ambient occlusion as a texture: how much of an even sky each texel of a mesh sees."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.graph.types import IVEC3, VEC3, VEC4
from ...errors import InputError
from ..cameras.shutter import GOLDEN
from ..core.engine import MakeEngine
from ..core.lists import list_leaf
from ..forms.soft_target import nearest_outside
from ..mesh import Mesh
from ..shading.shadows import Occluders, Shadow, ShadowMap
from ..surface.screen import DrawnMesh, barycentric, corners, covered, interpolate

TOGETHER = 8
"""How many directions a step draws."""
OVERLAP = 0.02
"""Share of the texels that several faces may cover: rounding at the borders of faces."""


def bake_occlusion(
    mesh: Mesh,
    size: tuple[int, int],
    make_engine: MakeEngine,
    *,
    rays: int = 256,
    among: Sequence[Mesh] = (),
    shadow: Shadow | None = None,
    smooth: bool = True,
) -> np.ndarray:
    """(H, W) float32 in [0, 1], linear: ambient occlusion at the texels of a texture of ``size`` (W, H).

    The integral of max(cosine, 0) over pi over the directions in which a texel sees past all faces: 1 for a
    convex mesh. It is a sum over ``rays`` directions of each hemisphere, evenly spread and the same for all
    texels, weighted by the cosine; a shadow map of each tells who is hidden. So what is nearer than ``bias``
    texels of the map hides nothing.  among: other meshes that hide the sky, such as a floor.  shadow: the
    maps, by default ``Shadow(1024, 1)``.  smooth: cosines by the normals of the mesh, or of its vertices; else
    of its faces. Texels beside the charts have the value of the nearest one inside.

    Numbers, without derivatives. ``Material(occlusion=)`` darkens environments and ambient light by them, and
    glTF files keep them. Raises InputError for a mesh without UVs, and for those that repeat or overlap.

    >>> bake_occlusion(primitives.cube(), (16, 16), DressiAD, rays=16, smooth=False).round(3).min().item()
    1.0
    """
    if mesh.uvs is None or mesh.uv_faces is None:
        raise InputError(f"mesh '{mesh.name}' has no UVs to bake occlusion for; use mesh.unwrap()")
    if min(mesh.uvs.min(), 1 - mesh.uvs.max()) < -1e-6:
        raise InputError(f"UVs of mesh '{mesh.name}' repeat the texture outside of [0, 1]; use mesh.unwrap()")
    if not isinstance(rays, int) or rays < 1:
        raise InputError(f"rays of a texel are a whole number above 0, not {rays!r}; 256 leave little noise")
    counts = np.cumsum([0] + [len(one.positions) for one in (mesh, *among)])
    everything = [one.faces + first for one, first in zip((mesh, *among), counts, strict=False)]
    position = list_leaf("positions", VEC3, np.concatenate([one.positions for one in (mesh, *among)]))
    faces = list_leaf("faces", IVEC3, np.concatenate(everything))
    occluders = Occluders(position, faces, sum(map(len, everything)))
    # Every corner for itself: UVs, places and normals have one numbering.
    count = len(mesh.faces)
    own = list_leaf("corners", IVEC3, np.arange(3 * count).reshape(count, 3))
    at = mesh.uvs[mesh.uv_faces].reshape(-1, 2) * 2 - 1
    clip = list_leaf("uvs", VEC4, np.column_stack([at, np.full(len(at), 0.5), np.ones(len(at))]))
    chart = DrawnMesh(clip, own, size, count)
    weights, texel = barycentric(clip, corners(chart.face, own), size), corners(chart.face, own)

    def spread(name: str, values: np.ndarray) -> Variable:
        return interpolate(list_leaf(name, VEC3, values.reshape(-1, 3)), texel, weights)

    flat = np.repeat(mesh.face_normals(), 3, axis=0)
    if not smooth:
        bent = flat
    elif mesh.normals is not None and mesh.normal_faces is not None:
        bent = mesh.normals[mesh.normal_faces]
    else:
        bent = mesh.vertex_normals()[mesh.faces]
    point, plane = spread("places", mesh.positions[mesh.faces]), F.normalize(spread("planes", flat))
    towards = Variable(VEC3, batch=TOGETHER, name="towards")
    seen = ShadowMap.of(shadow or Shadow(1024, 1), occluders, towards).lit(point, plane)
    cosine = F.maximum(F.dot(F.normalize(spread("normals", bent)), towards), 0.0)
    sums = F.sum(F.vec2(cosine * seen * F.greater(F.dot(plane, towards), 0.0), cosine), "n")
    total = np.zeros((size[1], size[0], 2))
    engine = make_engine()
    try:
        engine.set_output("inside", covered(chart.face))
        engine.set_output("layers", chart.summed(lambda face, _: F.constant(1.0)))
        engine.set_output("sums", sums)
        for some in _directions(rays):
            engine.send(towards, some[:, None, None])
            engine.step()
            total += engine.recv("sums")[0]
        inside, layers = (engine.recv(name)[0] > limit for name, limit in (("inside", 0.5), ("layers", 1.5)))
    finally:
        engine.close()
    if not inside.any():
        raise InputError(f"no texel of {size[0]}x{size[1]} lies in a face of mesh '{mesh.name}'; take more")
    if layers.sum() > OVERLAP * inside.sum():
        raise InputError(f"UVs of mesh '{mesh.name}' overlap at {layers.sum()} texels; use mesh.unwrap()")
    return (total[..., 0] / np.maximum(total[..., 1], 1e-12)).astype(np.float32)[
        tuple(nearest_outside(~inside))
    ]


def _directions(rays: int) -> np.ndarray:
    """(steps, TOGETHER, 3): at least twice as many unit directions, on a spiral over the sphere."""
    number = np.arange(-(-2 * rays // TOGETHER) * TOGETHER) + 0.5
    z, turn = 1 - 2 * number / len(number), number * GOLDEN
    across = np.sqrt(1 - z * z)
    return np.stack([across * np.cos(turn), across * np.sin(turn), z], -1).reshape(-1, TOGETHER, 3)
