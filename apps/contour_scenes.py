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


def _together(*parts: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """One part made of several."""
    starts = np.cumsum([0] + [len(p) for p, _ in parts[:-1]])
    faces = [f + n for (_, f), n in zip(parts, starts, strict=True)]
    return np.concatenate([p for p, _ in parts]), np.concatenate(faces)


def _joined(*parts: tuple[np.ndarray, np.ndarray], front: int = 0, **options) -> Scene:
    """A scene of parts, of which number ``front`` moves."""
    moves = np.repeat(np.arange(len(parts)) == front, [len(p) for p, _ in parts])
    return Scene(*_together(*parts), moves, **options)


def _ball(level: int, radius: float, centre: tuple[float, float, float]) -> tuple[np.ndarray, np.ndarray]:
    mesh = icosphere(level)
    return mesh.positions * radius + np.array(centre), mesh.faces


def _turned(points: np.ndarray, x: float, y: float) -> np.ndarray:
    a, b, c, d = np.cos(x), np.sin(x), np.cos(y), np.sin(y)
    turn = np.array([[1, 0, 0], [0, a, -b], [0, b, a]]) @ np.array([[c, 0, d], [0, 1, 0], [-d, 0, c]])
    return points @ turn.T


def _box(half: tuple[float, float, float]) -> tuple[np.ndarray, np.ndarray]:
    box = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    return box * half, np.array([t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))])


def _grate() -> tuple[np.ndarray, np.ndarray]:
    """Five slanted bars, 1.5 to 3 pixels wide."""
    bars, turn = [], np.array([(0.96, 0.28, 0), (-0.28, 0.96, 0), (0, 0, 1)])
    for k in range(5):
        box, faces = _box((0.021 + 0.005 * k, 0.7, 0.02))
        bars.append(((box + (0.3 * (k - 2) + 0.03, 0.04 * k, 0.1 * (k % 2))) @ turn.T, faces))
    return _together(*bars)


def _prism(outline: np.ndarray, half: float) -> tuple[np.ndarray, np.ndarray]:
    """An outline (N, 2) that is seen whole from the origin, from z = -half to half."""
    n, k = len(outline), np.arange(len(outline))
    points = np.concatenate([np.c_[np.r_[outline, [(0, 0)]], np.full(n + 1, z)] for z in (-half, half)])
    a, b, far = k, (k + 1) % n, n + 1
    sides = [(b, a, a * 0 + n), (a + far, b + far, a * 0 + n + far), (a, b, b + far), (a, b + far, a + far)]
    return points, np.concatenate([np.stack(s, axis=1) for s in sides])


def _around(count: int) -> np.ndarray:
    """(count, 2) on the unit circle."""
    angle = 2 * np.pi * np.arange(count) / count + 0.1
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def _house() -> tuple[np.ndarray, np.ndarray]:
    """Two wings with gables that cross each other, and a chimney."""
    gable = np.array([(-0.4, -0.4), (0.4, -0.4), (0.4, 0.15), (0.0, 0.5), (-0.4, 0.15)])
    (wing, faces), (other, _) = _prism(gable, 0.7), _prism(0.8 * gable - (0, 0.07), 0.75)
    chimney, box = _box((0.09, 0.3, 0.09))
    points, faces = _together((wing, faces), (other[:, [2, 1, 0]], faces), (chimney + (0.2, 0.3, 0.4), box))
    return _turned(points, 0.45, 0.55), faces


def _star() -> tuple[np.ndarray, np.ndarray]:
    """A plate with seven points."""
    points, faces = _prism(_around(14) * np.where(np.arange(14) % 2, 0.35, 0.85)[:, None], 0.06)
    return _turned(points, 0.3, 0.4) + (0.12, 0.05, 0.0), faces


def _finned_tube() -> tuple[np.ndarray, np.ndarray]:
    """A tube with a fin through it, 1.5 pixels thick where 64 are high."""
    fin, box = _box((0.75, 0.03, 0.6))
    points, faces = _together(_prism(0.4 * _around(24), 0.8), (fin, box))
    return _turned(points, 0.9, 0.5), faces


def _soup() -> tuple[np.ndarray, np.ndarray]:
    """Thirty large triangles that share no vertices and pass through each other."""
    rng = np.random.default_rng(4)
    points = rng.uniform(-0.5, 0.5, (30, 1, 3)) + rng.normal(size=(30, 3, 3)) * 0.3
    return points.reshape(-1, 3), np.arange(90).reshape(-1, 3)


def _sheet() -> tuple[np.ndarray, np.ndarray]:
    """A folded sheet, open all around, that shows both of its sides."""
    points, faces = _plate(0.0, 0.0)
    x, y = points[:, 0] / 1.2, points[:, 1] / 1.2
    return _turned(np.stack([0.8 * x, 0.8 * y, 0.45 * np.sin(2.6 * x + y)], axis=1), 0.5, 0.6), faces


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


def _ball_through_a_box() -> Scene:
    box, faces = _box((0.55, 0.45, 0.4))
    return _joined(_ball(3, 0.45, (0.35, 0.15, 0.4)), (_turned(box, 0.4, 0.5), faces))


SCENES: dict[str, Callable[[], Scene]] = {
    "ball before a plate": lambda: _joined(_ball(3, 0.6, (0.1, 0, 0.3)), _plate(-0.6)),
    "two balls": lambda: _joined(_ball(3, 0.55, (0.3, 0.1, 0.5)), _ball(3, 0.75, (-0.25, 0, -0.4))),
    "torus": lambda: _joined(_torus()),
    "thin bars": lambda: _joined(_grate(), _plate(-0.5)),
    "textured ball": _textured_ball,
    "near plane": _crossing_near_plane,
    "20,000 faces": lambda: _joined(_knobs(5)),
    "crossing plates": _crossing_plates,
    "ball through a box": _ball_through_a_box,
    "soup": lambda: _joined(_soup()),
    "open sheet": lambda: _joined(_sheet(), _plate(-0.9)),
    "house": lambda: _joined(_house()),
    "star": lambda: _joined(_star(), _plate(-0.6)),
    "tube with a fin": lambda: _joined(_finned_tube()),
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


def inflation(scene: Scene) -> np.ndarray:
    """The displacement (V, 3) of the part that moves along its normals."""
    a, b, c = scene.positions[scene.faces.T]
    normals = np.zeros_like(scene.positions)
    for corner in scene.faces.T:
        np.add.at(normals, corner, np.cross(b - a, c - a))
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    return np.where(scene.moves[:, None], normals / np.maximum(length, 1e-12), 0.0)


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
