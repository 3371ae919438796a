"""Tangent-space normal maps: from a texel to a normal in the world.

A texel (x, y, z) in [-1, 1] means ``normalize(x T + y B + z N)`` with the interpolated normal N and tangent T
and B = sign cross(N, T), not orthogonalised at the pixel: the convention of MikkTSpace and glTF 2.0.
"""

from __future__ import annotations

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.graph.types import IVEC3, VEC2, VEC3
from ..core.lists import as_list


def mapped_normal(
    texel: Variable, normal: Variable, tangent: Variable, scale: Variable | None = None
) -> Variable:
    """VEC3: the unit normal in the world that a texel of a normal map means; 0 where the normal is 0.

    texel: VEC3 in [-1, 1].  normal: VEC3, unit, interpolated.  tangent: VEC4, interpolated, with the sign of
    the bitangent in w.  scale: FLOAT factor of x and y. Differentiable in all of them.

    >>> up, right = as_variable((0.0, 0.0, 1.0)), as_variable((1.0, 0.0, 0.0, 1.0))
    >>> evaluate(mapped_normal(as_variable((0.0, 1.0, 0.0)), up, right)).ravel().tolist()
    [0.0, 1.0, 0.0]
    """
    across = texel.xy if scale is None else texel.xy * scale
    t = tangent.xyz
    sign = F.select(F.less(tangent.w, 0.0), -1.0, F.constant(1.0))
    bitangent = F.cross(normal, t) * sign
    return F.normalize(t * across.x + bitangent * across.y + normal * texel.z)


def vertex_tangents(
    position: Variable, faces: Variable, uvs: Variable, uv_faces: Variable, normals: Variable | None = None
) -> Variable:
    """VEC4 list, an entry for each of ``uvs``: unit tangents along growing u, and the sign of the bitangent.

    position: VEC3 list.  faces: IVEC3 list.  uvs: VEC2 list.  uv_faces: IVEC3 list.  normals: VEC3 list like
    ``position``; tangents are then orthogonal to them. The faces around an entry are weighted by their areas.
    For shapes that change; ``Mesh.tangents`` has those of MikkTSpace. Differentiable in position, uvs and
    normals.

    >>> cube = primitives.cube()
    >>> vertex_tangents(cube.positions, cube.faces, cube.uvs, cube.uv_faces).shape
    (1, 1, 24, 4)
    """
    position, faces = as_list("positions", VEC3, position), as_list("faces", IVEC3, faces)
    uvs, uv_faces = as_list("uvs", VEC2, uvs), as_list("uv_faces", IVEC3, uv_faces)
    numbers = [F.component(faces, i) for i in range(3)]
    a, b, c = (F.lookup(position, index) for index in numbers)
    entries = [F.component(uv_faces, i) for i in range(3)]
    p, q, r = (F.lookup(uvs, index) for index in entries)
    along, beside = q - p, r - p
    # v grows downward, and so does the determinant that says whether u, v and the normal are right-handed.
    turn = along.x * beside.y - along.y * beside.x
    area = F.length(F.cross(b - a, c - a))
    side = F.sign(F.stop_gradient(turn))
    direction = F.normalize(((b - a) * beside.y - (c - a) * along.y) * side) * area
    summed = F.vec4(direction, -side * F.stop_gradient(area))
    parts = [F.scatter_add(summed, index, uvs.size, summed.batch) for index in entries]
    total = parts[0] + parts[1] + parts[2]
    tangent = total.xyz
    if normals is not None:
        # The normal of the vertex that an entry belongs to, whichever of its faces says so.
        at = [F.scatter_add(F.lookup(normals, n) * area, e, uvs.size, summed.batch)
              for n, e in zip(numbers, entries, strict=True)]  # fmt: skip
        normal = F.normalize(at[0] + at[1] + at[2])
        tangent = tangent - normal * F.dot(normal, tangent)
    return F.vec4(F.normalize(tangent), F.select(F.less(total.w, 0.0), -1.0, F.constant(1.0)))
