"""The place on a surface slightly inside of its contour."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ....ad.graph import Domain
from ....ad.types import INT, IVEC3, VEC2, Access
from ...lists import at_points, read_list
from ...surface.screen import Faces, common_batch, is_present

STEPS = 12
"""How many faces a walk passes at most."""
FLAT = 1e-12
"""Square image heights. A face with at most this area is seen edge-on: a walk cannot start on it."""


class InnerFace(Faces):
    """Inputs (face INT, start VEC2, goal VEC2, faces IVEC3 list, neighbours IVEC3 list, vertex VEC4 list): INT, the face at
    ``goal`` of the surface that has ``face`` at ``start``, on the screen.

    Walks from ``start``, a point of ``face``, straight to ``goal``, over edges to the ``neighbours`` (``EdgeList``). The
    walk ends early on the last face before a border or a fold of the surface, and after STEPS faces. -1 without a face,
    and where ``face`` is seen edge-on.
    """

    operations, fetches = 200.0, 10.0
    zero_derivative = True
    includes = ("face.glsl", "inner.glsl")

    @cached_property
    def access(self):
        return (Access.SAME_PIXEL,) * 3 + (Access.FETCH,) * 3

    def infer(self):
        face, start, goal, faces, neighbours, vertex = self.inputs
        self.check_lists(faces, vertex)
        if [face.vtype, start.vtype, goal.vtype, neighbours.vtype] != [INT, VEC2, VEC2, IVEC3]:
            raise self.fail("needs an INT face, a start and a goal on the screen, VEC2, and IVEC3 neighbours")
        return INT, Domain(face.size, common_batch(self))

    def known_value(self, known):
        return np.array(-1) if 0 in known and (np.asarray(known[0]) < 0).all() else None

    @cached_property
    def glsl(self) -> str:
        corners = self.fetch_corners("f", 3, 5)
        return (
            "int face = $0, before = -1;\nvec2 start = $1, goal = $2;\nfloat facing = 0.0;\n$y = -1;\n"
            f"for (int k = 0; k < {STEPS} && face >= 0; ++k) {{\n"
            "  ivec3 f = $3(face_texel(face, $size3), tile);\n"
            f"  ivec2 found = inner_exit({corners}, start, goal, facing);\n"
            "  if (found.x == 0) break;\n"
            "  $y = face;\n"
            "  if (found.y < 0) break;\n"
            "  int next = $4(face_texel(face, $size4), tile)[found.y];\n"
            "  if (next == before) break;\n"
            "  before = face;\n  face = next;\n"
            "}"
        )

    def evaluate(self, at, face, start, goal, faces, neighbours, vertex):
        tile = at_points(at)[2]
        return walk(np.broadcast_to(face, tile.shape), start, goal, tile, faces, neighbours, vertex)[0]


def walk(
    face: np.ndarray,
    start: np.ndarray,
    goal: np.ndarray,
    tile: np.ndarray,
    faces: np.ndarray,
    neighbours: np.ndarray,
    vertex: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """(the last face of the walks of ``InnerFace``, whether it contains the goal)."""
    found, reached = np.full(tile.shape, -1), np.zeros(tile.shape, bool)
    live = np.nonzero(face >= 0)  # the walks that go on
    start, goal = (np.broadcast_to(p, (*tile.shape, 2))[live] for p in (start, goal))
    face, tile = face[live], tile[live]
    before, facing = np.full(face.shape, -1), np.zeros(face.shape)
    for _ in range(STEPS if face.size else 0):
        f = read_list(faces, tile, face)
        v = np.stack([read_list(vertex, tile, f[:, i]) for i in range(3)])
        w = np.where(v[..., 2] < 0, v[..., 3], 1.0)[..., None]
        u = [[v[i, :, :2] - p * w[i] for i in range(3)] for p in (start, goal)]
        spans = [[_span(x[(k + 1) % 3], x[(k + 2) % 3]) for k in range(3)] for x in u]
        area = sum(spans[1][k] * w[k, :, 0] for k in range(3))
        sign = np.sign(area)
        good = (np.abs(area) > FLAT) & is_present(v).all(0) & ((facing == 0) | (facing == sign))
        found[tuple(c[good] for c in live)] = face[good]
        side, first = np.full(face.shape, -1), np.full(face.shape, np.inf)
        for k in range(3):
            here, there = np.maximum(spans[0][k] * sign, 0), spans[1][k] * sign
            when = np.where(there < 0, here / np.maximum(here - there, 1e-30), np.inf)
            side, first = np.where(when < first, k, side), np.minimum(when, first)
        reached[tuple(c[good & (side < 0)] for c in live)] = True
        next_ = read_list(neighbours, tile, face)[np.arange(face.size), np.maximum(side, 0)]
        goes = good & (side >= 0) & (next_ != before) & (next_ >= 0)
        if not goes.any():
            break
        live = tuple(c[goes] for c in live)
        before, face, facing = face[goes], next_[goes], sign[goes]
        tile, start, goal = tile[goes], start[goes], goal[goes]
    return found, reached


def _span(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return u[..., 1] * v[..., 0] - u[..., 0] * v[..., 1]
