"""Scenes in which parts hide each other or themselves, and directions in which they move, for ``contour_test.py``."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from dressi.render.mesh.primitives import icosphere, torus


@dataclass
class Scene:
    """Parts in the world; the vertices from ``start`` on are those that move."""

    positions: np.ndarray
    faces: np.ndarray
    moves: np.ndarray
    """(V,) bool."""
    eye: tuple[float, float, float] = (0.3, 0.5, 3.2)
    near: float = 0.1
    uvs: tuple[np.ndarray, np.ndarray] | None = None
    """(U, 2), and (F, 3) numbers of these: the scene has a texture instead of vertex colours."""
    size: int = 96
    colours: np.ndarray = field(init=False)

    def __post_init__(self):
        waves = np.sin(self.positions @ np.array([(2.1, 0.4, 1.0), (0.5, 2.3, -1.0), (-1.0, 0.7, 1.9)]))
        self.colours = 0.5 + 0.3 * waves + 0.15 * np.where(self.moves[:, None], (1, -1, -1), (-1, 0, 1))


def _plate(depth: float, tilt: float = 0.25) -> tuple[np.ndarray, np.ndarray]:
    """A slanted grid of 6 x 6 squares behind everything."""
    y, x = np.mgrid[:7, :7] / 3.0 - 1
    points = np.stack([1.2 * x, 1.2 * y, depth + tilt * x], axis=-1).reshape(-1, 3)
    k = np.arange(42)[np.arange(42) % 7 < 6]
    return points, np.concatenate([np.stack([k, k + 1, k + 8], 1), np.stack([k, k + 8, k + 7], 1)])


def _joined(*parts: tuple[np.ndarray, np.ndarray], front: int = 0, **options) -> Scene:
    """A scene of parts, of which number ``front`` moves."""
    counts = np.cumsum([0] + [len(p) for p, _ in parts])
    moves = np.zeros(counts[-1], bool)
    moves[counts[front] : counts[front + 1]] = True
    faces = np.concatenate([f + n for (_, f), n in zip(parts, counts, strict=False)])
    return Scene(np.concatenate([p for p, _ in parts]), faces, moves, **options)


def _ball(level: int, radius: float, centre: tuple[float, float, float]) -> tuple[np.ndarray, np.ndarray]:
    mesh = icosphere(level)
    return mesh.positions * radius + np.array(centre), mesh.faces


def _turned(points: np.ndarray, x: float, y: float) -> np.ndarray:
    a, b, c, d = np.cos(x), np.sin(x), np.cos(y), np.sin(y)
    turn = np.array([[1, 0, 0], [0, a, -b], [0, b, a]]) @ np.array([[c, 0, d], [0, 1, 0], [-d, 0, c]])
    return points @ turn.T


def _grate() -> tuple[np.ndarray, np.ndarray]:
    """Five slanted bars, 1.5 to 3 pixels wide."""
    box = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    faces = np.array([t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))])
    points, turn = [], np.array([(0.96, 0.28, 0), (-0.28, 0.96, 0), (0, 0, 1)])
    for k in range(5):
        bar = box * (0.021 + 0.005 * k, 0.7, 0.02) + (0.3 * (k - 2) + 0.03, 0.04 * k, 0.1 * (k % 2))
        points.append(bar @ turn.T)
    return np.concatenate(points), np.concatenate([faces + 8 * k for k in range(5)])


def _knobs(level: int) -> tuple[np.ndarray, np.ndarray]:
    """A sphere with twelve knobs, whose contours overlap inside its outline."""
    mesh, knobs = icosphere(level), icosphere(0).positions
    height = (0.45 * np.maximum(mesh.positions @ knobs.T, 0) ** 24).sum(1)
    return mesh.positions * (0.6 + height)[:, None], mesh.faces


def _torus() -> tuple[np.ndarray, np.ndarray]:
    mesh = torus(22, 16)
    points = mesh.positions - mesh.bounding_sphere()[0]
    return _turned(points / mesh.bounding_sphere()[1], 0.95, 0.3), mesh.faces


def _textured_ball() -> Scene:
    """The texture is continuous: it is projected along an axis."""
    points, faces = _ball(3, 0.8, (0.0, 0.0, 0.0))
    plate, squares = _plate(-0.9)
    uvs = np.concatenate([0.5 + 0.5 * _turned(points, 0.5, 0.8)[:, :2], plate[:, :2] / 2.8 + 0.5])
    scene = _joined((points, faces), (plate, squares))
    scene.uvs = uvs, scene.faces
    return scene


def _crossing_near_plane() -> Scene:
    points, faces = _torus()
    return _joined((points * 0.9 + (0.1, 0, 0.9), faces), _plate(-0.6), near=1.9)


def _crossing_plates() -> Scene:
    """Two plates that pass through each other."""
    points, faces = _plate(0.0, 0.0)
    return _joined(
        (_turned(0.6 * points, 0.2, 0.7) + (0, 0, 0.1), faces), (_turned(0.7 * points, -0.3, -0.5), faces)
    )


SCENES: dict[str, Callable[[], Scene]] = {
    "ball before a plate": lambda: _joined(_ball(3, 0.6, (0.1, 0, 0.3)), _plate(-0.6)),
    "two balls": lambda: _joined(_ball(3, 0.55, (0.3, 0.1, 0.5)), _ball(3, 0.75, (-0.25, 0, -0.4))),
    "torus": lambda: _joined(_torus()),
    "thin bars": lambda: _joined(_grate(), _plate(-0.5)),
    "textured ball": _textured_ball,
    "near plane": _crossing_near_plane,
    "20,000 faces": lambda: _joined(_knobs(5)),
    "crossing plates": _crossing_plates,
}


def nine_directions(scene: Scene) -> Iterator[tuple[str, np.ndarray]]:
    """Displacements (V, 3): three shifts, three rotations, scale, two smooth deformations of the part that moves."""
    points = scene.positions - scene.positions[scene.moves].mean(0)
    rng = np.random.default_rng(1)
    found = [(f"shift {n}", np.tile(a, (len(points), 1))) for n, a in zip("xyz", np.eye(3), strict=True)]
    found += [(f"rotation {n}", np.cross(a, points)) for n, a in zip("xyz", np.eye(3), strict=True)]
    found.append(("scale", points))
    for k in range(2):
        wave = np.sin(points @ (rng.normal(size=(3, 3)) * 2) + rng.uniform(0, 6.3, 3))
        found.append((f"smooth {k}", wave @ rng.normal(size=(3, 3))))
    for name, move in found:
        yield name, np.where(scene.moves[:, None], move, 0.0)


def single_vertices(scene: Scene) -> Iterator[tuple[str, np.ndarray]]:
    rng = np.random.default_rng(2)
    for vertex in rng.choice(np.flatnonzero(scene.moves), 10, replace=False):
        move = np.zeros_like(scene.positions)
        move[vertex] = rng.normal(size=3)
        yield f"vertex {vertex}", move


def camera_motions(view: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Changes (4, 4) of the matrix from the world to the camera: rotations about the origin, shifts."""
    for k in range(3):
        turn, move = np.zeros((4, 4)), np.zeros((4, 4))
        turn[:3, :3], move[k, 3] = np.cross(np.eye(3)[k], np.eye(3)).T, 1.0
        yield f"turn {'xyz'[k]}", view @ turn
        yield f"move {'xyz'[k]}", move
