"""What the head of figure 15 is given: eye balls, teeth, and the inside of the mouth."""

import numpy as np
from head import BALL, boundary_loops

from dressi.render import Mesh
from dressi.render.mesh.primitives import icosphere
from dressi.render.shading.bsdf.eye import CORNEA


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
    return Mesh(points * BALL + centre, faces, uvs=uvs, uv_faces=faces, color=(0.78, 0.74, 0.72), name="eye")


def eye_places(size: int = 64) -> np.ndarray:
    """(size, size, 2): the place on the ball at each texel, for ``EyeBsdf``."""
    axis = (np.arange(size) + 0.5) / size * 2 - 1
    return np.stack(np.meshgrid(axis, axis), -1)


WIDTHS = (0.42, 0.34, 0.4, 0.36, 0.38, 0.5)
"""Half widths of teeth from the middle to a side, in centimetres."""


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
            width = width * (1.0 if upper else 0.8)
            x = side * (place + width)
            place += 2 * width * 0.99
            slope = np.arctan(2 * 0.11 * x)
            size = np.array([width, 0.52 if upper else 0.45, 0.28])
            body = box * size
            # Crowns are wider at the edge than at the gums.
            body[:, 0] *= 1 - 0.12 * sign * body[:, 1] / size[1]
            c, s = np.cos(slope), np.sin(slope)
            body = body @ np.array([[c, 0, -s], [0, 1, 0], [s, 0, c]])
            at = middle + (
                x,
                sign * 0.42 + (0.08 if upper else -0.02),
                -0.95 - 0.11 * x * x - (0.0 if upper else 0.15),
            )
            points.append(body + at)
            faces.append(ball.faces + count)
            count += len(body)
    where = np.concatenate(points)
    uvs = (where - middle)[:, :2] / TEETH_SPAN * (0.5, -0.5) + 0.5
    index = np.concatenate(faces)
    return Mesh(where, index, uvs=uvs, uv_faces=index, color=(0.8, 0.74, 0.62), name="teeth")


def teeth_places(mouth: np.ndarray, width: int = 64, height: int = 32) -> np.ndarray:
    """(height, width, 3): points on the front of the teeth, at the texels of their texture coordinates."""
    x, y = np.meshgrid((np.arange(width) + 0.5) / width * 2 - 1, 1 - (np.arange(height) + 0.5) / height * 2)
    x, y = x * TEETH_SPAN[0], y * TEETH_SPAN[1]
    return mouth[0] + np.stack([x, y, -0.7 - 0.11 * x * x], axis=-1)


def mouth_bag(mouth: np.ndarray) -> Mesh:
    """The inside of the mouth: a bag that opens forward, with gums."""
    ball = icosphere(4)
    keep = ball.positions[ball.faces].mean(1)[:, 2] < 0.55
    points = ball.positions * (3.0, 1.9, 2.6) + mouth[0] - (0, 0, 2.3)
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
