"""What the head of figure 15 is given: eye balls with tears along the lids, teeth, gums, and the inside of the mouth."""

from dataclasses import replace
from typing import Any

import numpy as np
from head import BALL, Head, boundary_loops

from dressi.render import Mesh
from dressi.render.mesh.primitives import icosphere
from dressi.render.shading.bsdf.human import CORNEA


def eye_ball(centre: np.ndarray, around: int = 64, along: int = 48, iris: float = 0.5) -> Mesh:
    """A ball that looks along +z, with a cornea; texture coordinates are (place + 1) / 2."""
    polar = np.linspace(0, np.pi, along) ** 1.4 / np.pi**0.4
    turn = np.linspace(0, 2 * np.pi, around, endpoint=False)
    r, z = np.sin(polar), np.cos(polar)
    middle = np.sqrt(1 - iris**2) - np.sqrt(CORNEA**2 - iris**2)
    bulge = middle + np.sqrt(np.maximum(CORNEA**2 - r**2, 0))
    z = np.where((z > 0) & (r < iris), bulge, z)
    ring = np.stack(
        [r[:, None] * np.cos(turn), r[:, None] * np.sin(turn), np.repeat(z[:, None], around, 1)], -1
    )
    points = ring.reshape(-1, 3)
    k, j = np.meshgrid(np.arange(along - 1), np.arange(around), indexing="ij")
    a, b = k * around + j, k * around + (j + 1) % around
    faces = np.concatenate(
        [
            np.stack([a, a + around, b], -1).reshape(-1, 3),
            np.stack([b, a + around, b + around], -1).reshape(-1, 3),
        ]
    )
    # v grows downward, as y of the texture coordinates.
    uvs = np.stack([points[:, 0], -points[:, 1]], 1) * 0.5 + 0.5
    white = eye_white()
    return Mesh(points * BALL + centre, faces, uvs=uvs, uv_faces=faces, texture=white, name="eye")


def eye_white(size: int = 128) -> np.ndarray:
    """(size, size, 3): the sclera over the place on the ball: vessels and blood towards its corners, less light below the lids."""
    x, y = np.moveaxis(eye_places(size), -1, 0)
    rng = np.random.default_rng(3)
    aside = np.clip((np.abs(x) - 0.4) / 0.5, 0, 1) ** 1.5
    vessels = np.zeros((size, size))
    for _ in range(26):
        side, at, slope = np.sign(rng.normal()), rng.uniform(-0.35, 0.35), rng.uniform(-0.3, 0.3)
        waves = sum(rng.normal() / k * np.sin(k * (7 * x + rng.uniform(0, 6))) for k in (1, 2, 4))
        way = y - at - slope * (np.abs(x) - 0.5) - 0.03 * waves
        vessels = np.maximum(
            vessels, (np.sign(x) == side) * np.exp(-((way / 0.012) ** 2)) * rng.uniform(0.3, 1.0)
        )
    blood = np.clip(0.35 * aside + 0.45 * aside * vessels, 0, 1)[..., None]
    below_lids = 1 - 0.55 * np.clip((-y - 0.28) / 0.3, 0, 1) - 0.3 * np.clip((y - 0.25) / 0.3, 0, 1)
    white = (0.74, 0.70, 0.66) * (1 - blood) + np.array([0.62, 0.25, 0.2]) * blood
    return white * below_lids[..., None]


def eye_places(size: int = 64) -> np.ndarray:
    """(size, size, 2): the place on the ball at each texel, for ``EyeBsdf``."""
    axis = (np.arange(size) + 0.5) / size * 2 - 1
    return np.stack(np.meshgrid(axis, axis), -1)


def tears(head: Head, eye: int, along: int = 80, across: int = 6) -> Mesh:
    """The fluid between an eye ball and its lids, strips with hollow sections, and the caruncle in the corner by the nose."""
    centre, lid = head.eyes[eye], head.lids[eye]
    left, right = lid[lid[:, 0].argmin()], lid[lid[:, 0].argmax()]
    step = 0.01
    x = np.linspace(left[0] + 0.06, right[0] - 0.06, along)
    y = np.arange(lid[:, 1].min() - 0.3, lid[:, 1].max() + 0.1, step)
    skin, ball = front(head.mesh, x, y), front(eye_ball(centre), x, y)
    seen = ball > skin
    # Less of it stands in the corners of the eye, and below the upper lid.
    high = TEARS * np.sin(np.pi * np.linspace(0.15, 0.85, along))
    t = np.linspace(0, 1, across)[:, None, None]

    def before(surface: np.ndarray, height: np.ndarray) -> np.ndarray:
        rows = np.clip(np.round((height - y[0]) / step).astype(int), 0, len(y) - 1)
        z = np.polyval(np.polyfit(x, surface[rows, np.arange(along)], 8), x)
        return np.stack([x, height, z + 0.015], axis=1)

    strips = []
    for side, share in ((1, 1.0), (-1, UPPER)):
        # The lowest or the highest row of the ball that is seen in each column, as a smooth line.
        edge = seen[::side].argmax(0)
        row = np.where(seen.any(0), edge if side > 0 else len(y) - 1 - edge, len(y) // 2)
        lid_line, own = np.polyval(np.polyfit(x, y[row], 6), x), side * share * high
        first, middle, last = (
            before(ball, lid_line + own),
            before(ball, lid_line),
            before(np.maximum(skin, ball), lid_line - 0.8 * own),
        )
        points = (1 - t) ** 2 * first + 2 * t * (1 - t) * middle + t**2 * last
        strips.append(_strip(points[::side]))
    nose = left if centre[0] > 0 else right
    flesh = icosphere(3)
    caruncle = flesh.positions * (0.17, 0.13, 0.14) + nose + (0.11 * np.sign(centre[0]), 0.02, 0.0)
    parts = [*((s.positions, s.faces) for s in strips), (caruncle, flesh.faces)]
    first = np.cumsum([0, *(len(p) for p, _ in parts)])
    faces = np.concatenate([f + k for (_, f), k in zip(parts, first, strict=False)])
    return Mesh(np.concatenate([p for p, _ in parts]), faces, color=(0.6, 0.36, 0.32), name="tears")


def front(mesh: Mesh, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(Y, X): the largest z of a mesh above each place of a grid of ascending x and y, -inf where it has a hole."""
    corners = mesh.positions[mesh.faces]
    low, high = corners.min(1), corners.max(1)
    near = (high[:, 0] > x[0]) & (low[:, 0] < x[-1]) & (high[:, 1] > y[0]) & (low[:, 1] < y[-1])
    found = np.full((len(y), len(x)), -np.inf)
    for (a, b, c), first, last in zip(corners[near], low[near], high[near], strict=True):
        columns = slice(*np.searchsorted(x, (first[0], last[0])))
        rows = slice(*np.searchsorted(y, (first[1], last[1])))
        twice = (b - a)[0] * (c - a)[1] - (b - a)[1] * (c - a)[0]
        if twice == 0:
            continue
        px, py = x[columns] - a[0], y[rows, None] - a[1]
        u = (px * (c - a)[1] - py * (c - a)[0]) / twice
        v = (py * (b - a)[0] - px * (b - a)[1]) / twice
        z = np.where((u >= 0) & (v >= 0) & (u + v <= 1), a[2] + u * (b - a)[2] + v * (c - a)[2], -np.inf)
        found[rows, columns] = np.maximum(found[rows, columns], z)
    return found


def _strip(points: np.ndarray, **more: Any) -> Mesh:
    """A mesh of rows of points, (rows, columns, 3), that is seen from where columns run to the right while rows run down."""
    rows, columns = points.shape[:2]
    k = np.arange(rows * columns).reshape(rows, columns)
    a, b, c, d = (x.ravel() for x in (k[:-1, :-1], k[:-1, 1:], k[1:, :-1], k[1:, 1:]))
    faces = np.concatenate([np.stack([a, c, b], 1), np.stack([b, c, d], 1)])
    return Mesh(points.reshape(-1, 3), faces, **more)


WIDTHS = (0.42, 0.34, 0.4, 0.36, 0.4)
"""Half widths of teeth from the middle to a side, in centimetres."""


BEND = 0.15
"""How far, times the square of their distance from the middle, teeth lie back along their row: a parabola."""
LOWER = 0.8
"""Widths of lower teeth, relative to the upper ones."""
CROWN, PAPILLA = 0.95, 0.38
"""Centimetres: from the edge of a tooth to the gum at its middle, and how much further the gum reaches between two teeth."""
UPPER = 0.6
"""Height of the fluid below the upper lid, relative to that on the lower one."""
TEARS = 0.045
"""Centimetres: the height of the fluid on the ball, and its width on the lid."""
TEETH_SPAN = (3.2, 1.6)
"""Half of what the texture coordinates of the teeth span, in centimetres."""


def teeth(mouth: np.ndarray, upper: bool) -> Mesh:
    """A row of rounded boxes on a parabola behind the lips."""
    middle, sign = mouth[0], 1.0 if upper else -1.0
    points, faces, place, count = [], [], 0.0, 0
    ball = icosphere(3)
    box = np.sign(ball.positions) * np.abs(ball.positions) ** 0.55
    for side in (1, -1):
        place = 0.0
        for width in WIDTHS:
            width = width * (1.0 if upper else LOWER)
            x = side * (place + width)
            place += 2 * width * 0.99
            slope = np.arctan(2 * BEND * x)
            size = np.array([width, 0.6 if upper else 0.45, 0.28])
            body = box * size
            # Crowns are wider at the edge than at the gums.
            body[:, 0] *= 1 - 0.12 * sign * body[:, 1] / size[1]
            c, s = np.cos(slope), np.sin(slope)
            body = body @ np.array([[c, 0, -s], [0, 1, 0], [s, 0, c]])
            at = middle + (x, sign * size[1] + _closed(upper), _arch(x, upper))
            points.append(body + at)
            faces.append(ball.faces + count)
            count += len(body)
    where, index = np.concatenate(points), np.concatenate(faces)
    uvs = _mouth_uvs(where, mouth)
    return Mesh(where, index, uvs=uvs, uv_faces=index, color=(0.8, 0.74, 0.62), name="teeth")


def _closed(upper: bool) -> float:
    """The height of the edges of a row of teeth above the middle of the mouth: the jaw is a little open."""
    return -0.42 if upper else -0.5


def _arch(x: Any, upper: bool) -> Any:
    """How far the middle of a tooth at x lies before the opening of the mouth."""
    return -1.2 - BEND * x * x - (0.0 if upper else 0.15)


def _mouth_uvs(points: np.ndarray, mouth: np.ndarray) -> np.ndarray:
    return (points - mouth[0])[:, :2] / TEETH_SPAN * (0.5, -0.5) + 0.5


def gums(mouth: np.ndarray, upper: bool, along: int = 241, up: int = 12) -> Mesh:
    """The gum of a row of teeth: scalloped around their crowns, with papillae between them, and swollen above."""
    sign, widths = (1.0, WIDTHS) if upper else (-1.0, tuple(LOWER * x for x in WIDTHS))
    ends = np.concatenate([[0.0], np.cumsum([2 * 0.99 * x for x in widths])])
    x = np.linspace(-ends[-1], ends[-1], along)
    tooth = np.clip(np.searchsorted(ends, np.abs(x), "right") - 1, 0, len(widths) - 1)
    aside = 2 * (np.abs(x) - ends[tooth]) / (ends[tooth + 1] - ends[tooth]) - 1  # -1 to 1 within the tooth
    between = np.abs(aside) ** 2.5
    edge = sign * _closed(upper) + CROWN - PAPILLA * between
    t = np.linspace(0, 1, up)[:, None]
    # From behind the front of the teeth over a round border to a wall that lies a little before them.
    height = edge + (1.1 if upper else 0.6) * t**1.5
    swell = (
        -0.12 + 0.2 * np.sqrt(np.clip(5 * t, 0, 1)) - 0.05 * between * (1 - t) ** 4 + 0.05 * np.sin(np.pi * t)
    )
    points = np.stack(
        [np.broadcast_to(x, height.shape), sign * height, _arch(x, upper) + 0.26 + swell], axis=-1
    )
    if upper:
        points = points[::-1]
    mesh = _strip(points + mouth[0], color=(0.5, 0.17, 0.16), name="gums")
    return replace(mesh, uvs=_mouth_uvs(mesh.positions, mouth), uv_faces=mesh.faces)


def teeth_places(mouth: np.ndarray, width: int = 64, height: int = 32) -> np.ndarray:
    """(height, width, 3): points on the front of the teeth, at the texels of their texture coordinates."""
    x, y = np.meshgrid((np.arange(width) + 0.5) / width * 2 - 1, 1 - (np.arange(height) + 0.5) / height * 2)
    x, y = x * TEETH_SPAN[0], y * TEETH_SPAN[1]
    return mouth[0] + np.stack([x, y, _arch(x, True) + 0.25], axis=-1)


def mouth_bag(mouth: np.ndarray) -> Mesh:
    """The inside of the mouth: a bag that opens forward."""
    ball = icosphere(4)
    keep = ball.positions[ball.faces].mean(1)[:, 2] < 0.55
    points = ball.positions * (3.0, 1.9, 2.6) + mouth[0] - (0, 0, 3.6)
    return Mesh(points, ball.faces[keep][:, ::-1], color=(0.28, 0.05, 0.045), name="mouth")


def cut(mesh: Mesh) -> Mesh:
    """A plane of plaster that closes the lowest border of a mesh."""
    edges = mesh.faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    count = len(mesh.positions)
    open_edges = edges[~np.isin(edges @ (count, 1), edges @ (1, count))]
    lowest = min(boundary_loops(mesh.faces), key=lambda loop: mesh.positions[loop, 1].mean())
    open_edges = open_edges[np.isin(open_edges[:, 0], lowest)]
    points = np.concatenate([mesh.positions[open_edges[:, 1]], mesh.positions[open_edges[:, 0]]])
    k, middle = np.arange(len(open_edges)), points.mean(0)
    faces = np.stack([k, k + len(k), np.full(len(k), 2 * len(k))], axis=1)
    # A little inside, so that it is not seen through the border.
    points = middle + 0.97 * (points - middle)
    return Mesh(np.concatenate([points, middle[None]]), faces, color=(0.3, 0.29, 0.28), name="cut")
