"""Seams: lines on the screen on which two faces pass through each other, or where the near plane cuts a face.

Neither is an edge of the mesh. Let p and q be the centres of two neighbouring pixels that show different faces A and B,
and D_A, D_B the depths of the planes of these faces, which are affine on the screen. The seam lies where g = 0,

    A passes through B:              g = D_B - D_A,
    the near plane cuts A:           g = D_A            (q shows what lies behind),
    the near plane cuts B:           g = -D_B           (p shows what lies behind),

with g(p) > 0 > g(q), at x = g(p) / (g(p) - g(q)) of the way from p to q. So its place depends on the vertices of
both faces, which give the derivative. Each surface must reach the seam: a walk over the mesh leads from the face at the
centre to the face at the seam, whose plane counts, and ends at borders and folds. Two walks that end on one face, or on
faces that share a vertex, meet on one surface: no seam. As for edges between pixels, a pair of neighbours in a row counts
when the seam is at least 45 degrees steep, and a pair in a column otherwise.

Exact are the pictures that take the surface on the other side at the seam, with a share of 1/2 - x: where the seam moves over
a centre, the pixel has 1/2 of either surface before and after.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from ....ad import functional as F
from ....ad.graph import Domain, PixelFunction, Variable
from ....ad.graph.types import FLOAT, INT, IVEC3, IVEC4, VEC3, Access
from ....ad.ops.pixel.kinds import shortcut
from ...core.lists import at_points, read_list
from ...surface.screen import (
    Corners,
    DrawnMesh,
    Faces,
    Surface,
    barycentric,
    common_batch,
    corners,
    covered,
    pixel_centres,
    pixel_rays,
)
from .around_edges import STEPS, walk
from .edge_list import EdgeList, shared_corners

RIGHT, DOWN, LEFT, UP = (1, 0), (0, 1), (-1, 0), (0, -1)
"""Steps from a pixel to its neighbours."""


class Seam(NamedTuple):
    """The nearest seam between a pixel and its neighbours."""

    found: Variable
    """FLOAT mask."""
    faces: tuple[Variable, Variable]
    """INT: the faces at the seam of the surfaces that the pixel and the neighbour show, -1 for the background."""
    place: Variable
    """FLOAT in [0, 1]: pixels from the centre of the pixel to the seam on the way to the neighbour; differentiable in
    position."""
    point: Variable
    """VEC2: the place on the screen; differentiable in position."""


def seam_pixels(
    mesh: DrawnMesh,
    edges: EdgeList,
    planes: Variable,
    steps: tuple[Step, ...],
    hidden: Variable | None = None,
) -> Variable:
    """INT: 0 where a seam may pass between the centre of the pixel and those of its neighbours at ``steps``, else -1.

    planes: ``face_planes``.  hidden: FLOAT, 1 where seams are not looked for.
    """
    # First what costs little: where all pixels of a block show one face, the planes are not looked at.
    differs = Differs(mesh.face, steps=steps).output
    looked = differs if hidden is None else F.logical_and(differs, F.less(hidden, 1.0))
    found = SeamPairs(
        F.to_int(looked) - 1, mesh.face, planes, shared_corners(mesh, edges), steps=steps
    ).output
    return F.to_int(found) - 1


def nearest_seam(
    mesh: DrawnMesh,
    edges: EdgeList,
    planes: Variable,
    pixels: Variable,
    steps: tuple[Step, ...],
    reach: float,
) -> Seam:
    """The nearest seam at most ``reach`` pixels from each of the ``seam_pixels`` on the way to the neighbours at ``steps``."""
    lists = mesh.face, planes, mesh.faces, edges.neighbours, mesh.points.vertex, shared_corners(mesh, edges)
    seam = SeamFaces(pixels, *lists, steps=steps, reach=reach).output
    own, other, number, kind = (F.component(seam, i) for i in range(4))
    found, height = covered(number), float(mesh.size[1])
    step = F.constant(tuple(c / height for c in steps[0]))
    for k, s in enumerate(steps[1:], 1):
        step = F.select(F.equal(number, k), tuple(c / height for c in s), step)
    p = pixel_centres(mesh.size)
    # The near plane has the depth 0 everywhere, like the plane of no face.
    one = F.select(F.equal(kind, OTHER_CUT), -1, own)
    two = F.select(F.equal(kind, OWN_CUT), -1, other)
    g = F.select(covered(two), F.lookup(planes, two), 0.0) - F.select(
        covered(one), F.lookup(planes, one), 0.0
    )
    fall = -F.dot(g.xy, step)
    place = (F.dot(g.xy, p) + g.z) / F.select(F.equal(fall, 0.0), 1.0, fall)
    place = F.clamp(shortcut(place, _exact(mesh, one, two, p, step)))  # 0 without faces
    return Seam(found, (own, other), place, p + step * place)


def _exact(mesh: DrawnMesh, one: Variable, two: Variable, p: Variable, step: Variable) -> Variable:
    """FLOAT: x of the seam between two faces, the near plane for -1, on the way from p along ``step``. Differentiable in
    position."""
    faces = corners(one, mesh.faces), corners(two, mesh.faces)
    start, end = (plane_depth(mesh, faces[1], s) - plane_depth(mesh, faces[0], s) for s in (p, p + step))
    fall = start - end
    return start / F.select(F.equal(fall, 0.0), 1.0, fall)


def plane_depth(mesh: DrawnMesh, at: Corners, place: Variable) -> Variable:
    """FLOAT: the depth of the plane of a face at a place on the screen, 0 without a face. Differentiable in position."""
    x, y, w, ray = pixel_rays(mesh.position, at, mesh.size, place)
    areas = F.cross(x - w * ray.x, y - w * ray.y)
    table = F.component(mesh.position, 2)
    z = F.vec3(*(F.lookup(table, i) for i in at))
    over = F.dot(areas, w)
    return F.select(F.not_equal(over, 0.0), F.dot(areas, z) / F.select(F.equal(over, 0.0), 1.0, over), 0.0)


def surface_at(mesh: DrawnMesh, face: Variable, place: Variable) -> Surface:
    """The surface of a face at a place on the screen, or the point of the face next to it."""
    weights = barycentric(mesh.position, corners(face, mesh.faces), mesh.size, place=place, clamp=True)
    return Surface(mesh.faces, face, weights)


# Which pixels have a seam between them and a neighbour, and the faces that meet there (``seams``).
#
# None of the Functions has a derivative. They choose two faces; ordinary Functions compute from that choice whatever depends
# smoothly on the vertices.

SLACK = 0.1
"""Pixels. A seam counts up to this far beyond the centres: Vulkan lets drivers round corners to a grid of 1/16."""
WIDE = 0.5
"""Pixels. The planes of the faces at the centres may meet this far beyond the centres, where surfaces are curved."""
NOISE = 1e-6
"""Planes whose depths part by less than this from one pixel to the next are not told apart in single precision."""
FACES, OWN_CUT, OTHER_CUT = 0, 1, 2
"""Kinds of seams: of two faces; the near plane cuts the face at the pixel, or that at the neighbour."""
Step = tuple[int, int]


class Steps(PixelFunction):
    """Base of Functions that compare the pixel with its neighbours at ``steps``."""

    fields = ("steps",)
    footprint, quiet = 1, 0.0

    def __init__(self, *inputs: Variable, steps: tuple[Step, ...]):
        self.steps = steps
        super().__init__(*inputs)


class Differs(Steps):
    """Input face INT: FLOAT mask, a neighbour at ``steps`` has another value. Neighbours beyond the border have the same."""

    operations, fetches = 6.0, 3.0
    zero_derivative = True

    @cached_property
    def access(self):
        return (Access.FETCH,)

    def known_value(self, known):
        return np.array(0.0) if 0 in known else None

    def infer(self):
        face = self.inputs[0]
        if face.vtype is not INT:
            raise self.fail("needs an INT image of faces")
        return FLOAT, face.domain

    @cached_property
    def glsl(self) -> str:
        there = "$0(clamp(pixel + ivec2({0}, {1}), ivec2(0), $size - 1), tile)"
        differ = " || ".join(f"face != {there.format(*step)}" for step in self.steps)
        return f"int face = $0(pixel, tile);\n$y = float({differ});"

    def evaluate(self, at, face):
        x, y, tile = at_points(at)
        height, width = face.shape[1:]
        own, found = face[tile, y, x], np.zeros(x.shape, bool)
        for dx, dy in self.steps:
            found |= own != face[tile, np.clip(y + dy, 0, height - 1), np.clip(x + dx, 0, width - 1)]
        return found.astype(float)


class SeamPairs(Steps):
    """Inputs (which INT, face INT, planes VEC3 list, faces IVEC3 list): FLOAT mask, a seam may pass between the centre of the
    pixel and those of its neighbours at ``steps``, by the planes of the faces that they show. 0 where ``which`` is negative."""

    operations, fetches = 60.0, 3.0
    zero_derivative = True
    includes = ("face.glsl", "seam.glsl")

    @cached_property
    def access(self):
        return (Access.SAME_PIXEL,) + (Access.FETCH,) * 3

    def known_value(self, known):
        alone = (0 in known and np.all(known[0] < 0)) or (1 in known and np.all(known[1] < 0))
        return np.array(0.0) if alone else None

    def infer(self):
        which, face, planes, faces = self.inputs
        if [which.vtype, face.vtype, planes.vtype, faces.vtype] != [INT, INT, VEC3, IVEC3]:
            raise self.fail("needs two INT images, VEC3 planes of faces and IVEC3 faces")
        return FLOAT, Domain(face.size, common_batch(self))

    @cached_property
    def glsl(self) -> str:
        plane = "{0} < 0 ? vec3(0.0) : $2(face_texel({0}, $size2), tile)"
        corner = "$3(face_texel(max({0}, 0), $size3), tile)"
        text = (
            "float height = float($size.y);\nvec2 p = (vec2(pixel) + 0.5) / height;\nbool looked = $0 >= 0;\n"
            f"int face = $1(pixel, tile);\nivec3 f = {corner.format('face')};\n"
            f"vec3 own = {plane.format('face')};\n$y = 0.0;\n"
        )
        for k, (x, y) in enumerate(self.steps):
            text += (
                f"int next{k} = $1(clamp(pixel + ivec2({x}, {y}), ivec2(0), $size - 1), tile);\n"
                f"if (looked && face != next{k} && seam_possible(own, {plane.format(f'next{k}')}, p, ivec2({x}, {y}),"
                f" height, {SLACK!r})) {{\n"
                f"  ivec3 o = {corner.format(f'next{k}')};\n"
                "  bool meet = any(equal(f, o)) || any(equal(f, o.yzx)) || any(equal(f, o.zxy));\n"
                f"  if (min(face, next{k}) < 0 || !meet) $y = 1.0;\n"
                "}\n"
            )
        return text

    def evaluate(self, at, which, face, planes, faces):
        x, y, tile = at_points(at)
        height, width = face.shape[1:]
        of = tile if len(face) > 1 else np.zeros_like(tile)
        p = (np.stack([x, y], axis=-1) + 0.5) / height
        own = face[of, y, x]
        found = np.zeros(x.shape, bool)
        for step in self.steps:
            other = face[of, np.clip(y + step[1], 0, height - 1), np.clip(x + step[0], 0, width - 1)]
            d, e = (
                [(plane[..., :2] * c).sum(-1) + plane[..., 2] for c in (p, p + np.array(step) / height)]
                for f in (own, other)
                for plane in [np.where((f < 0)[..., None], 0.0, read_list(planes, tile, np.maximum(f, 0)))]
            )
            f, o = (read_list(faces, tile, np.maximum(n, 0)) for n in (own, other))
            meet = (f[..., :, None] == o[..., None, :]).any((-1, -2))
            falls = d[0] - d[1], e[1] - e[0]
            cut = [(f > 0) & (low < SLACK * f) for f, low in zip(falls, (d[1], e[0]), strict=True)]
            more = SLACK * np.abs(falls[0] + falls[1])
            both = (own >= 0) & (other >= 0)
            cross = both & (e[0] - d[0] >= -more) & (e[1] - d[1] <= more)
            found |= (own != other) & (cut[0] | cut[1] | cross) & ~(both & meet)
        return np.where(found & (np.broadcast_to(which, x.shape) >= 0), 1.0, 0.0)


class SeamFaces(Faces):
    """Inputs (which INT, face INT, planes VEC3, faces IVEC3, neighbours IVEC3, vertex VEC4, corners IVEC3; all but the first two lists):
    IVEC4 (own, other, number of the step, kind), the nearest seam between the centre of the pixel and that of one of the
    neighbours at ``steps``; (-1, -1, -1, -1) for none, and where ``which`` is negative.

    own, other: the faces at the seam of the surfaces that the pixel and the neighbour show, -1 for the background.  It
    lies at most ``reach`` pixels from the centre.  planes: ``face_planes``.  neighbours: ``EdgeList.neighbours``.  corners: the
    faces with one number for all copies of a vertex; faces that share one meet.
    """

    operations, fetches = 150.0, 8.0
    zero_derivative = True
    fields = ("steps", "reach")
    includes = ("face.glsl", "inner.glsl", "seam.glsl")

    def __init__(self, *inputs: Variable, steps: tuple[Step, ...], reach: float):
        self.steps, self.reach = steps, reach
        super().__init__(*inputs)

    @cached_property
    def access(self):
        return (Access.SAME_PIXEL,) + (Access.FETCH,) * 6

    def infer(self):
        which, face, planes, faces, neighbours, vertex, shared = self.inputs
        self.check_lists(faces, vertex)
        kinds = [which.vtype, face.vtype, planes.vtype, neighbours.vtype, shared.vtype]
        if kinds != [INT, INT, VEC3, IVEC3, IVEC3]:
            raise self.fail("needs two INT images, VEC3 planes of faces, IVEC3 neighbours and corners")
        return IVEC4, Domain(face.size, common_batch(self))

    def known_value(self, known):
        return np.full(4, -1) if 0 in known and (np.asarray(known[0]) < 0).all() else None

    @cached_property
    def glsl(self) -> str:
        at = self.fetch_corners("f", 3, 5)
        plane = "{0} < 0 ? vec3(0.0) : $2(face_texel({0}, $size2), tile)"
        steps = ", ".join(f"ivec2({x}, {y})" for x, y in self.steps)
        count = len(self.steps)
        return (
            f"const ivec2 steps[{count}] = ivec2[{count}]({steps});\n"
            f"float height = float($size.y), best = {self.reach!r};\n"
            "vec2 p = (vec2(pixel) + 0.5) / height;\n"
            "ivec2 seen = ivec2($0 < 0 ? -2 : $1(pixel, tile), -1);\n"
            "$y = ivec4(-1);\n"
            f"for (int k = 0; k < {count} && seen.x > -2; ++k) {{\n"
            "  ivec2 next = pixel + steps[k];\n"
            "  if (any(lessThan(next, ivec2(0))) || any(greaterThanEqual(next, $size))) continue;\n"
            "  seen.y = $1(next, tile);\n"
            "  if (seen.x == seen.y) continue;\n"
            f"  vec3 own = {plane.format('seen.x')}, other = {plane.format('seen.y')};\n"
            "  for (int kind = 0; kind < 3; ++kind) {\n"
            "    if ((kind == 0 && min(seen.x, seen.y) < 0)) continue;\n"
            "    vec3 g = kind == 0 ? other - own : kind == 1 ? own : -other;\n"
            f"    float place = seam_place(g, p, steps[k], height, {WIDE!r}, {NOISE!r}, false);\n"
            "    if (place > 1.0) continue;\n"
            "    vec2 goal = p + place * vec2(steps[k]) / height;\n"
            "    ivec2 last = ivec2(-1), reached = ivec2(0);\n"
            "    for (int s = 0; s < 2; ++s) {\n"
            "      int face = seen[s], before = -1;\n"
            "      float facing = 0.0;\n"
            "      vec2 start = s == 0 ? p : p + vec2(steps[k]) / height;\n"
            f"      for (int n = 0; n < {STEPS} && face >= 0; ++n) {{\n"
            "        ivec3 f = $3(face_texel(face, $size3), tile);\n"
            f"        float when;\n        ivec2 found = inner_exit({at}, start, goal, facing, when);\n"
            "        if (found.x == 0) break;\n"
            "        last[s] = face;\n"
            "        if (found.y < 0) { reached[s] = 1; break; }\n"
            "        int on = $4(face_texel(face, $size4), tile)[found.y];\n"
            "        if (on == before) break;\n"
            "        before = face;\n        face = on;\n"
            "      }\n"
            "    }\n"
            "    if ((kind != 2 && reached.x == 0) || (kind != 1 && reached.y == 0) || last.x == last.y) continue;\n"
            "    if (kind == 0) {\n"
            "      ivec3 f = $6(face_texel(last.x, $size6), tile), o = $6(face_texel(last.y, $size6), tile);\n"
            "      if (any(equal(f, o)) || any(equal(f, o.yzx)) || any(equal(f, o.zxy))) continue;\n"
            "    }\n"
            "    if (last.x >= 0) own = $2(face_texel(last.x, $size2), tile);\n"
            "    if (last.y >= 0) other = $2(face_texel(last.y, $size2), tile);\n"
            "    g = kind == 0 ? other - own : kind == 1 ? own : -other;\n"
            f"    place = seam_place(g, p, steps[k], height, {SLACK!r}, {NOISE!r}, true);\n"
            "    if (place > best) continue;\n"
            "    best = place;\n    $y = ivec4(last, k, kind);\n    break;\n"
            "  }\n"
            "}"
        )

    def evaluate(self, at, which, face, planes, faces, neighbours, vertex, shared):
        x, y, tile = at_points(at)
        which = np.broadcast_to(which, x.shape)
        height, width = face.shape[1:]
        of = tile if len(face) > 1 else np.zeros_like(tile)
        best = np.full(x.shape, self.reach)
        result = np.full((*x.shape, 4), -1, np.int64)
        for k, step in enumerate(self.steps):
            there = (x + step[0], y + step[1])
            inside = (there[0] >= 0) & (there[0] < width) & (there[1] >= 0) & (there[1] < height)
            own = face[of, y, x]
            other = face[of, np.clip(there[1], 0, height - 1), np.clip(there[0], 0, width - 1)]
            pairs = np.nonzero(inside & (own != other) & (which >= 0))
            seen = np.stack([own[pairs], other[pairs]])
            p = (np.stack([x[pairs], y[pairs]], axis=-1) + 0.5) / height
            q = p + np.array(step) / height
            t = tile[pairs]
            first, second = (
                np.where((f < 0)[:, None], 0.0, read_list(planes, t, np.maximum(f, 0))) for f in seen
            )
            open_ = np.ones(len(t), bool)
            for kind in (FACES, OWN_CUT, OTHER_CUT):
                g = (second - first, first, -second)[kind]
                place = _place(g, p, step, height, WIDE, False)
                tried = open_ & (place <= 1)
                if kind == FACES:
                    tried &= (seen >= 0).all(0)
                goal = p + place[:, None] * np.array(step) / height
                last, sides, _ = zip(
                    *(walk(np.where(tried, f, -1), s, goal, t, faces, neighbours, vertex)
                      for f, s in zip(seen, (p, q), strict=True)),
                    strict=True,
                )  # fmt: skip
                reached = [(f >= 0) & (side < 0) for f, side in zip(last, sides, strict=True)]
                good = tried & (reached[0] | (kind == OTHER_CUT)) & (reached[1] | (kind == OWN_CUT))
                good &= last[0] != last[1]
                if kind == FACES:
                    corner = [read_list(shared, t, np.maximum(f, 0)) for f in last]
                    good &= ~(corner[0][:, :, None] == corner[1][:, None]).any((1, 2))
                one, two = (read_list(planes, t, np.maximum(f, 0)) for f in last)
                place = _place((two - one, one, -two)[kind], p, step, height, SLACK, True)
                good &= place <= best[pairs]
                at_good = tuple(c[good] for c in pairs)
                best[at_good] = place[good]
                result[at_good] = np.stack(
                    [last[0], last[1], np.full(len(t), k), np.full(len(t), kind)], axis=-1
                )[good]
                open_ &= ~good
        return result


def _place(
    g: np.ndarray, p: np.ndarray, step: tuple[int, int], height: int, slack: float, steep: bool
) -> np.ndarray:
    """Where the planes ``g`` (N, 3) fall through 0 on the way from p (N, 2) along ``step``, in pixels; 2 for nowhere."""
    size = np.abs(g[:, :2])
    found = size[:, 0] >= size[:, 1] if step[0] else size[:, 1] > size[:, 0]
    start, fall = (g[:, :2] * p).sum(-1) + g[:, 2], -(g[:, :2] * step).sum(-1) / height
    found |= not steep
    found &= (fall > NOISE) & (start >= -slack * fall) & (start <= (1 + slack) * fall)
    return np.where(found, np.clip(start / np.where(found, fall, 1.0), 0, 1), 2.0)
