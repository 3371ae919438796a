"""Ambient occlusion as a texture: how much of an even sky each texel of a mesh sees."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.graph.types import IVEC3, VEC3, VEC4
from ...errors import InputError
from ..cameras.shutter import GOLDEN
from ..core.engine import Engine, MakeEngine
from ..core.lists import list_leaf
from ..forms.soft_target import nearest_outside
from ..mesh import Mesh
from ..shading.lights import Occluders, Shadow, ShadowMap
from ..surface.screen import DrawnMesh, barycentric, corners, covered, interpolate

TOGETHER = 8
"""How many directions a step draws."""
OVERLAP = 0.02
"""Share of the texels that several faces may cover: rounding at the borders of faces."""


class Charts:
    """A mesh drawn into a texture of ``size`` (W, H) by its UVs: what its corners hold, at the centres of texels.

    Raises InputError for a mesh without UVs, and for UVs that repeat."""

    def __init__(self, mesh: Mesh, size: tuple[int, int]):
        if mesh.uvs is None or mesh.uv_faces is None:
            raise InputError(f"mesh '{mesh.name}' has no UVs to bake for; use mesh.unwrap()")
        if min(mesh.uvs.min(), 1 - mesh.uvs.max()) < -1e-6:
            raise InputError(
                f"UVs of mesh '{mesh.name}' repeat the texture outside of [0, 1]; use mesh.unwrap()"
            )
        self.mesh, self.size = mesh, size
        # Every corner for itself: UVs, places and normals have one numbering.
        count = len(mesh.faces)
        own = list_leaf("corners", IVEC3, np.arange(3 * count).reshape(count, 3))
        at = mesh.uvs[mesh.uv_faces].reshape(-1, 2) * 2 - 1
        clip = list_leaf("uvs", VEC4, np.column_stack([at, np.full(len(at), 0.5), np.ones(len(at))]))
        self._drawn = DrawnMesh(clip, own, size, count)
        texel = corners(self._drawn.face, own)
        self._texel, self._weights = texel, barycentric(clip, texel, size)

    def spread(self, name: str, values: np.ndarray) -> Variable:
        """VEC3 or VEC4 of ``size``: values at the corners (F, 3, C), interpolated; 0 beside the charts."""
        width = values.shape[-1]
        rows = list_leaf(name, VEC3 if width == 3 else VEC4, values.reshape(-1, width))
        return interpolate(rows, self._texel, self._weights)

    def normals(self) -> np.ndarray:
        """(F, 3, 3) normals at the corners: those of the mesh, or of its vertices."""
        mesh = self.mesh
        if mesh.normals is not None and mesh.normal_faces is not None:
            return mesh.normals[mesh.normal_faces]
        return mesh.vertex_normals()[mesh.faces]

    def evaluated(self, engine: Engine, images: dict[str, Variable]) -> dict[str, np.ndarray]:
        """(H, W, ...) images of an engine that has no outputs yet, and ``inside`` (H, W) bool: texels of charts.
        Raises InputError where no texel is inside, or where charts overlap."""
        face = self._drawn.face
        engine.set_output("inside", covered(face))
        engine.set_output("layers", self._drawn.summed(lambda face, _: F.constant(1.0)))
        for name, image in images.items():
            engine.set_output(name, image)
        engine.step()
        inside, layers = (engine.recv(name)[0] > limit for name, limit in (("inside", 0.5), ("layers", 1.5)))
        name, (width, height) = self.mesh.name, self.size
        if not inside.any():
            raise InputError(f"no texel of {width}x{height} lies in a face of mesh '{name}'; take more")
        if layers.sum() > OVERLAP * inside.sum():
            raise InputError(f"UVs of mesh '{name}' overlap at {layers.sum()} texels; use mesh.unwrap()")
        return {key: engine.recv(key)[0] for key in images} | {"inside": inside}


def bake_occlusion(
    mesh: Mesh,
    size: tuple[int, int],
    make_engine: MakeEngine,
    *,
    rays: int = 256,
    among: Sequence[Mesh] = (),
    shadow: Shadow | None = None,
    smooth: bool = True,
    fine: tuple[Mesh, np.ndarray, np.ndarray] | None = None,
) -> np.ndarray:
    """(H, W) float32 in [0, 1], linear: ambient occlusion at the texels of a texture of ``size`` (W, H).

    The integral of max(cosine, 0) over pi over the directions in which a texel sees past all faces: 1 for a
    convex mesh. It is a sum over ``rays`` directions of each hemisphere, evenly spread and the same for all
    texels, weighted by the cosine; a shadow map of each tells who is hidden. So what is nearer than ``bias``
    texels of the map hides nothing.  among: other meshes that hide the sky, such as a floor.  shadow: the
    maps, by default ``Shadow(1024, 1)``.  smooth: cosines by the normals of the mesh, or of its vertices; else
    of its faces.  fine: the mesh that hides the sky in place of ``mesh``, and the points and unit normals of it,
    (H, W, 3) each, that texels stand for (``bake_maps``). Texels beside the charts have the value of the
    nearest one inside.

    Numbers, without derivatives. ``Material(occlusion=)`` darkens environments and ambient light by them, and
    glTF files keep them. Raises InputError for a mesh without UVs, and for those that repeat or overlap.

    >>> bake_occlusion(primitives.cube(), (16, 16), DressiAD, rays=16, smooth=False).round(3).min().item()
    1.0
    """
    charts = Charts(mesh, size)
    if not isinstance(rays, int) or rays < 1:
        raise InputError(f"rays of a texel are a whole number above 0, not {rays!r}; 256 leave little noise")
    hiding = (mesh if fine is None else fine[0], *among)
    counts = np.cumsum([0] + [len(one.positions) for one in hiding])
    everything = [one.faces + first for one, first in zip(hiding, counts, strict=False)]
    position = list_leaf("positions", VEC3, np.concatenate([one.positions for one in hiding]))
    faces = list_leaf("faces", IVEC3, np.concatenate(everything))
    occluders = Occluders(position, faces, sum(map(len, everything)))
    if fine is None:
        flat = np.repeat(mesh.face_normals()[:, None], 3, axis=1)
        point, plane = charts.spread("places", mesh.positions[mesh.faces]), charts.spread("planes", flat)
        normal = charts.spread("normals", charts.normals()) if smooth else plane
    else:
        point, plane = (Variable(VEC3, size, data=image[None]) for image in fine[1:])
        normal = plane
    plane, normal = F.normalize(plane), F.normalize(normal)
    towards = Variable(VEC3, batch=TOGETHER, name="towards")
    seen = ShadowMap.of(shadow or Shadow(1024, 1), occluders, towards).lit(point, plane)
    cosine = F.maximum(F.dot(normal, towards), 0.0)
    sums = F.sum(F.vec2(cosine * seen * F.greater(F.dot(plane, towards), 0.0), cosine), "n")
    total = np.zeros((size[1], size[0], 2))
    engine = make_engine()
    try:
        first, *rest = _directions(rays)
        engine.send(towards, first[:, None, None])
        baked = charts.evaluated(engine, {"sums": sums})
        total += baked["sums"]
        for some in rest:
            engine.send(towards, some[:, None, None])
            engine.step()
            total += engine.recv("sums")[0]
    finally:
        engine.close()
    share = (total[..., 0] / np.maximum(total[..., 1], 1e-12)).astype(np.float32)
    return share[tuple(nearest_outside(~baked["inside"]))]


def _directions(rays: int) -> np.ndarray:
    """(steps, TOGETHER, 3): at least twice as many unit directions, on a spiral over the sphere."""
    number = np.arange(-(-2 * rays // TOGETHER) * TOGETHER) + 0.5
    z, turn = 1 - 2 * number / len(number), number * GOLDEN
    across = np.sqrt(1 - z * z)
    return np.stack([across * np.cos(turn), across * np.sin(turn), z], -1).reshape(-1, TOGETHER, 3)
