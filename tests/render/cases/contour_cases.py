"""The contour form by brute force in float64: every pixel against every possible silhouette edge.

The definition: let B be the face seen at a pixel centre p, and q the point of an edge that is nearest to p. The edge counts
if B is the background, or if its depth at q is less than that of the plane of B at q. It does not count if it is an edge of
B, or if p lies on the side of its mesh by more than a tenth of a pixel. The nearest edge that counts within r
covers the pixel with (1 - near(d) / r)^2 of its colour at q; near(d) is that of the outer form.
"""

from dataclasses import dataclass

import brute_force
import numpy as np
import outer_cases as oc
from soft_cases import Case, Executor

from dressi import VEC3, F, Variable
from dressi.render.forms.contour import Contours
from dressi.render.forms.hard_soft_ras import hard_soft_ras

SIZE, RADIUS = oc.SIZE, oc.RADIUS
MARGIN = 2e-5
"""Differences of depths that single precision may not see: pixels where they decide are not compared."""


@dataclass
class Expected:
    """Images (H, W)."""

    hard: oc.Picture
    weight: np.ndarray
    """Of the margin."""
    inner: np.ndarray
    """(H, W, 2): the place on the screen where the colour of the margin is taken."""
    doubtful: np.ndarray
    """Whether rounding decides about an edge."""


def cross(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]


def planes(clip: np.ndarray, faces: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """(F, 3): depth = u x + v y + c."""
    width, height = size
    aspect = width / height
    w = clip[:, 3]
    rows = np.stack([(clip[:, 0] + w) * 0.5 * aspect, (clip[:, 1] + w) * 0.5, w], axis=1)[faces]
    flat = np.abs(np.linalg.det(rows)) < 1e-12
    rows[flat] = np.eye(3)
    return np.where(flat[:, None], 0, np.linalg.solve(rows, clip[faces, 2][..., None])[..., 0])


def render(clip: np.ndarray, faces: np.ndarray, size=SIZE, radius=RADIUS) -> Expected:
    width, height = size
    hard = oc.render(clip, faces, size, radius=radius)
    cut = brute_force.clipped(clip, faces)
    xy, depth, _ = brute_force.to_screen(cut.points(clip), *size)
    y, x = np.mgrid[:height, :width]
    p = (np.stack([x.ravel(), y.ravel()], axis=1) + 0.5) / height
    seen = hard.face.ravel()
    plane = planes(clip, faces, size)[np.maximum(seen, 0)]
    # Names of the vertices of each face, those made by the cut included.
    own = [set() for _ in faces]
    for parent, corners in zip(cut.owner, cut.faces, strict=True):
        own[parent] |= set(corners.tolist())
    best, point = np.full(len(p), np.inf), np.zeros((len(p), 2))
    doubtful = np.zeros(len(p), bool)
    for a, b in oc.silhouettes(clip, faces, size, "none"):
        u, away = xy[b] - xy[a], p - xy[a]
        t = np.clip(away @ u / max(u @ u, 1e-30), 0, 1)
        q = xy[a] + t[:, None] * u
        d = np.linalg.norm(p - q, axis=1)
        gap = (plane[:, :2] * q).sum(1) + plane[:, 2] - ((1 - t) * depth[a] + t * depth[b])
        belongs = np.array([k >= 0 and {a, b} <= own[k] for k in seen])
        others = [(set(f) - {a, b}).pop() for f in cut.faces.tolist() if {a, b} < set(f)]
        sides = [np.sign(cross(u, xy[c] - xy[a])) for c in others]
        inside = np.zeros(len(p), bool)
        if sides and len(set(sides)) == 1:
            offset = cross(u, away) * sides[0] / max(np.linalg.norm(u), 1e-30)
            inside = offset > 0.1 / height
        near = (d < radius) & (d < best + 1e-6)
        doubtful |= near & (seen >= 0) & ~belongs & (np.abs(gap) < MARGIN)
        counts = (seen < 0) | ((gap > 0) & ~belongs & ~inside)
        closer = counts & near & (d < best)
        best[closer] = d[closer]
        point[closer] = q[closer]
    near = np.minimum(best, np.maximum(2 * best - 0.1 / height, 0))
    weight = np.maximum(1 - np.minimum(near, 2) / radius, 0) ** 2
    shape = (height, width)
    depth = 0.5 / (1 + 0.5 * np.minimum(best, 2)[:, None] * height)
    inner = point + (point - p) * depth
    return Expected(hard, weight.reshape(shape), inner.reshape(*shape, 2), doubtful.reshape(shape))


def contours(case: Case, *, size=SIZE, radius=RADIUS) -> tuple[Variable, Contours]:
    position, faces = case.variables()
    drawn = hard_soft_ras(
        position, faces, size=size, radius=radius, face_count=len(case.faces), form="contour"
    )
    return position, drawn


def check_picture(run: Executor, case: Case) -> None:
    """The margin and the hard picture in vertex colours are those of brute force, but where drivers disagree about which of
    two sheets covers a centre, and where rounding decides about an edge. The silhouette is that of the outer form."""
    table = np.random.default_rng(8).uniform(size=(len(case.clip), 3))
    expected = render(case.clip, case.faces)
    position, drawn = contours(case)
    colours = Variable(VEC3, position.size, data=table[None, None])
    margin, surface = drawn.surfaces[:2]
    picture, own, behind, weight, silhouette, outer, seam = run(
        [
            drawn.blend([s.interpolate(colours) for s in drawn.surfaces], (0.1, 0.9, 0.4)),
            margin.interpolate(colours),
            surface.interpolate(colours),
            drawn.margin,
            drawn.silhouette,
            oc.outer(case)[1].silhouette,
            drawn.seam.found,
        ]
    )
    compared = ~expected.doubtful
    assert compared.mean() > 0.9
    assert np.mean((np.abs(weight[0] - expected.weight) > 2e-3)[compared]) <= 0.004
    assert (
        np.mean(np.abs(behind[0] - expected.hard.colours(table)).max(-1)[expected.hard.hard > 0] > 0.01)
        <= 0.006
    )
    there = expected.hard.hard[..., None] > 0
    share = weight[0][..., None]
    blended = share * own[0] + (1 - share) * np.where(there, behind[0], (0.1, 0.9, 0.4))
    # ``test_seams.py`` tests pictures at seams.
    assert np.mean((np.abs(picture[0] - blended).max(-1) > 1e-3)[seam[0] == 0]) <= 0.002
    np.testing.assert_allclose(silhouette, outer, atol=1e-6)


def check_place(run: Executor, case: Case) -> None:
    """The margin shows the mesh where the definition says, seen from the same camera, in front of what it hides.

    Clip positions as an attribute tell the place. Thin parts end before, and the walk stops there."""
    width, height = SIZE
    expected = render(case.clip, case.faces)
    position, drawn = contours(case)
    margin, surface = drawn.surfaces[:2]
    clip, hard, weight, face = run(
        [margin.interpolate(position), surface.interpolate(position), drawn.margin, margin.face]
    )
    used = (weight[0] > 0) & ~expected.doubtful & (np.abs(weight[0] - expected.weight) < 2e-3)
    assert (face[0][used] >= 0).all()
    w = np.where(used, clip[0, ..., 3], 1.0)
    place = (clip[0, ..., :2] / w[..., None] + 1) / 2 * (width / height, 1)
    off = np.linalg.norm(place - expected.inner, axis=-1)[used] * height
    assert np.mean(off > 0.02) <= 0.08 and np.median(off) < 1e-3
    inside = used & (hard[0, ..., 3] > 0)
    nearer = clip[0, ..., 2] / w < hard[0, ..., 2] / np.where(inside, hard[0, ..., 3], 1.0) + 0.01
    assert nearer[inside].sum() >= 0.9 * inside.sum()


def gradient_parts(case: Case) -> tuple[list[Variable], Variable]:
    """Leaves (positions, colours) and a picture in smooth colours."""
    position, drawn = contours(case)
    smooth = 0.5 + 0.4 * np.sin(3 * case.clip[:, :3] + (0.0, 1.0, 2.0))
    table = Variable(VEC3, position.size, data=smooth[None, None])
    shaded = [s.interpolate(table) for s in drawn.surfaces]
    return [position, table], drawn.blend(shaded, (0.4, 0.4, 0.4)) - F.constant((0.5, 0.4, 0.3))
