"""Meshes in front of a camera, and the checks that every executor has to pass on them.

An executor is a callable: it takes Variables whose leaves have data, and gives their values as arrays.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import brute_force
import numpy as np

from dressi import F, Variable, gradient
from dressi.ad.graph.types import IVEC3, VEC4, list_image, list_size
from dressi.render.forms.hard_soft_ras import SoftLayers, hard_soft_ras

Executor = Callable[[Sequence[Variable]], list[np.ndarray]]

SIZE = (64, 64)
RADIUS = 5 / 64


@dataclass(frozen=True)
class Case:
    """A mesh: clip positions (V, 4) and faces (F, 3)."""

    clip: np.ndarray
    faces: np.ndarray

    def variables(self) -> tuple[Variable, Variable]:
        """Leaves (position, faces) for the graph."""
        position = Variable(VEC4, list_size(len(self.clip)), name="position", data=list_image(self.clip))
        return position, Variable(
            IVEC3, list_size(len(self.faces)), name="faces", data=list_image(self.faces)
        )


def camera(azimuth: float, elevation: float, distance: float = 2.7, fov: float = 45.0) -> np.ndarray:
    """World to clip (4, 4); the camera looks at the origin. y up in the world, down in clip space."""
    azimuth, elevation = np.radians([azimuth, elevation])
    back = np.array(
        [np.sin(azimuth) * np.cos(elevation), np.sin(elevation), np.cos(azimuth) * np.cos(elevation)]
    )
    right = np.cross([0, 1, 0], back)
    right /= np.linalg.norm(right)
    view = np.eye(4)
    view[:3, :3] = right, np.cross(back, right), back
    view[:3, 3] = -view[:3, :3] @ (distance * back)
    near, far, scale = 0.1, 10.0, 1 / np.tan(np.radians(fov) / 2)
    projection = np.array(
        [
            [scale, 0, 0, 0],
            [0, -scale, 0, 0],
            [0, 0, -far / (far - near), -near * far / (far - near)],
            [0, 0, -1, 0],
        ]
    )
    return projection @ view


def to_clip(matrix: np.ndarray, points: np.ndarray) -> np.ndarray:
    return np.concatenate([points, np.ones((len(points), 1))], axis=1) @ matrix.T


def flat(points: Sequence[Sequence[float]], faces: Sequence[Sequence[int]]) -> Case:
    """A case drawn on the screen: points (x, y, depth) in normalised device coordinates."""
    return Case(np.array([(*p, 1.0) for p in points], float), np.array(faces))


def icosphere(subdivisions: int) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (V, 3) on the unit sphere and faces, counter-clockwise from outside: 20, 80, 320 ... faces."""
    golden = (1 + 5**0.5) / 2
    points = [(s, t * golden, 0.0) for s in (-1, 1) for t in (-1, 1)]
    points = np.array([np.roll(p, k) for k in range(3) for p in points])
    edge = min(np.linalg.norm(points[0] - q) for q in points[1:])
    near = np.linalg.norm(points[:, None] - points, axis=-1) < edge * 1.01
    faces = np.array(
        [
            (i, j, k)
            for i in range(12)
            for j in range(i)
            for k in range(j)
            if near[i, j] and near[j, k] and near[i, k]
        ]
    )
    for _ in range(subdivisions):
        edges = np.unique(np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1), axis=0)
        number = {tuple(e): len(points) + k for k, e in enumerate(edges.tolist())}
        points = np.concatenate([points, points[edges].mean(1)])
        split = []
        for a, b, c in faces.tolist():
            d, e, f = (number[min(i, j), max(i, j)] for i, j in ((a, b), (b, c), (c, a)))
            split += [(a, d, f), (d, b, e), (f, e, c), (d, e, f)]
        faces = np.array(split)
    points = points / np.linalg.norm(points, axis=1, keepdims=True)
    a, b, c = (points[faces[:, i]] for i in range(3))
    inward = (np.cross(b - a, c - a) * a).sum(1) < 0
    faces[inward] = faces[inward][:, ::-1]
    return points, faces


def bumpy_ellipsoid() -> tuple[np.ndarray, np.ndarray]:
    """A closed surface of 720 faces with hollows, so that its own contours overlap."""
    rings, segments = 19, 20
    polar = np.linspace(0, np.pi, rings + 1)[1:-1]
    around = np.arange(segments) * 2 * np.pi / segments
    ring = np.stack(
        [np.outer(np.sin(polar), np.cos(around)), np.outer(np.sin(polar), np.sin(around)),
         np.outer(np.cos(polar), np.ones(segments))], axis=-1,
    )  # fmt: skip
    points = np.concatenate([ring.reshape(-1, 3), [(0, 0, 1), (0, 0, -1)]])
    north, south = len(points) - 2, len(points) - 1
    faces = []
    for j in range(segments):
        k = (j + 1) % segments
        faces += [(north, j, k), (south, (rings - 2) * segments + k, (rings - 2) * segments + j)]
        for i in range(rings - 2):
            a, b = i * segments, (i + 1) * segments
            faces += [(a + j, b + j, b + k), (a + j, b + k, a + k)]
    x, y, z = points.T
    bumps = 1 + 0.08 * np.sin(5 * x + 1) * np.cos(4 * y) + 0.06 * np.sin(6 * z + 3 * x)
    return points * bumps[:, None] * (1, 0.7, 0.85), np.array(faces)


def cases() -> dict[str, Case]:
    sphere, sphere_faces = icosphere(1)
    view = camera(20, 25, 3.5)
    turned = to_clip(camera(30, 15, 3.5), sphere * (1, 0.8, 1.2))
    return {
        "acute": flat([(-0.5, -0.3, 0.4), (0.45, -0.4, 0.5), (0.1, 0.5, 0.6)], [(0, 1, 2)]),
        "obtuse": flat([(-0.7, 0.1, 0.4), (0.6, -0.21, 0.5), (-0.15, 0.11, 0.6)], [(0, 1, 2)]),
        "overlapping": flat(
            [(-0.6, -0.5, 0.3), (0.5, -0.4, 0.4), (-0.1, 0.55, 0.5), (-0.4, 0.6, 0.7), (0.6, 0.4, 0.2), (0.05, -0.6, 0.6)],
            [(0, 2, 1), (3, 4, 5)],
        ),
        "sphere": Case(to_clip(view, sphere), sphere_faces),
        "open": Case(turned, sphere_faces[(sphere[sphere_faces].mean(1)[:, 1] < 0.4)]),
        # A long body passes the camera on its right: some corners are behind it, some before the near plane.
        "near plane": Case(to_clip(camera(0, 0, 1.2, 60), sphere * (0.35, 0.3, 1.6) + (0.5, 0.1, 0)), sphere_faces),
    }  # fmt: skip


def soft(case: Case, *, size=SIZE, radius=RADIUS, layers=3, cull="none") -> tuple[Variable, SoftLayers]:
    position, faces = case.variables()
    soft_layers = hard_soft_ras(
        position, faces, size=size, radius=radius, face_count=len(case.faces), layers=layers, cull=cull
    )
    return position, soft_layers


def check_images(run: Executor, case: Case, layers: int, cull: str = "none") -> None:
    """Silhouette, S, E and every D are those of the brute-force rasterizer, except on 0.5 % of the pixels."""
    picture = brute_force.render(case.clip, case.faces, SIZE, radius=RADIUS, layers=layers, cull=cull)
    _, drawn = soft(case, layers=layers, cull=cull)
    names = ["silhouette", "hard", "edge", *(f"D of layer {k}" for k in range(layers))]
    expected = [picture.silhouette, picture.hard, picture.edge, *picture.d]
    found = run([drawn.silhouette, drawn.hard, drawn.edge, *(x.probability for x in drawn.layers)])
    for name, image, truth in zip(names, found, expected, strict=True):
        assert np.isfinite(image).all(), name
        assert np.mean(np.abs(image[0] - truth) > 1e-4) <= 0.005, name


def silhouette_gradient(case: Case) -> list[Variable]:
    """The gradient of the sum of squares of the silhouette by the positions."""
    position, drawn = soft(case)
    return gradient(F.sum(F.square(drawn.silhouette)), [position])


@brute_force.remembered
def frozen_gradient(clip: np.ndarray, faces: np.ndarray, layers: int) -> tuple[np.ndarray, np.ndarray]:
    """A target, and the gradient (V, 4) of the sum of squares of silhouette minus target, of the frozen picture."""
    picture = brute_force.render(clip, faces, SIZE, radius=RADIUS, layers=layers, cull="none")
    target = np.kron(np.random.default_rng(3).uniform(size=(8, 8)), np.ones((8, 8)))
    upstream = 2 * (picture.silhouette - target)
    return target, brute_force.frozen_gradient(picture, clip, upstream, RADIUS / 7)


def check_gradient(run: Executor, case: Case, layers: int) -> None:
    """The gradient by the vertices has the direction and length of the frozen picture's central differences."""
    target, expected = frozen_gradient(case.clip, case.faces, layers)
    position, drawn = soft(case, layers=layers)
    loss = F.sum(F.square(drawn.silhouette - Variable(size=SIZE, data=target)))
    (found,) = run(gradient(loss, [position]))
    found = found.reshape(-1, 4)[: len(case.clip)]
    assert np.isfinite(found).all()
    length = np.linalg.norm(found) * np.linalg.norm(expected)
    assert length > 0
    assert (found * expected).sum() / length >= 0.999
    assert 0.99 <= np.linalg.norm(found) / np.linalg.norm(expected) <= 1.01


def directions(points: np.ndarray, count: int = 3) -> Iterator[tuple[str, np.ndarray]]:
    """Names and vertex displacements (V, 3): translations, scale, rotations, smooth deformations."""
    axes = np.eye(3)
    for name, axis in zip("xyz", axes, strict=True):
        yield f"translation {name}", np.tile(axis, (len(points), 1))
        yield f"rotation {name}", np.cross(axis, points)
    yield "scale", points
    rng = np.random.default_rng(1)
    for k in range(count):
        frequency, phase, amplitude = (
            rng.normal(size=(3, 3)) * 2,
            rng.uniform(0, 6.3, 3),
            rng.normal(size=(3, 3)),
        )
        yield f"smooth {k}", np.sin(points @ frequency + phase) @ amplitude


@dataclass(frozen=True)
class Along:
    """A derivative of the loss along one direction that moves vertices by at most one pixel."""

    name: str
    analytic: float
    difference: float


@brute_force.remembered
def rerendered_differences(
    points: np.ndarray, faces: np.ndarray, matrix: np.ndarray, *, pixels: float, layers: int, side: int
) -> tuple[np.ndarray, list[tuple[str, np.ndarray, float]]]:
    """The target (side, side); and of each direction its name, displacement (V, 3) and the difference of the loss."""
    size, radius = (side, side), pixels / side

    def picture(moved: np.ndarray) -> brute_force.Picture:
        return brute_force.render(
            to_clip(matrix, moved), faces, size, radius=radius, layers=layers, cull="none"
        )

    def screen(moved: np.ndarray) -> np.ndarray:
        return brute_force.to_screen(to_clip(matrix, moved), *size)[0]

    target, result = picture(points * 1.15 + (0.06, 0.04, 0.03)).hard, []
    for name, direction in directions(points):
        speed = (
            np.linalg.norm(screen(points + 1e-5 * direction) - screen(points - 1e-5 * direction), axis=1)
            / 2e-5
        )
        direction = direction / (speed.max() * side)
        losses = [((picture(points + h * direction).silhouette - target) ** 2).sum() for h in (0.3, -0.3)]
        result.append((name, direction, (losses[0] - losses[1]) / 0.6))
    return target, result


def rerendered(
    run: Executor,
    points: np.ndarray,
    faces: np.ndarray,
    matrix: np.ndarray,
    *,
    pixels: float,
    layers: int,
    side: int,
) -> list[Along]:
    """g.d of the graph against central differences (0.3 pixel) of the whole loss, drawn again each time.

    The loss is the sum of squares of silhouette minus target, the hard silhouette of the mesh 15 % larger and
    shifted.
    """
    size = (side, side)
    target, differences = rerendered_differences(
        points, faces, matrix, pixels=pixels, layers=layers, side=side
    )
    position, drawn = soft(
        Case(to_clip(matrix, points), faces), size=size, radius=pixels / side, layers=layers
    )
    loss = F.sum(F.square(drawn.silhouette - Variable(size=size, data=target)))
    (found,) = run(gradient(loss, [position]))
    by_clip = found.reshape(-1, 4)[: len(points)]
    return [
        Along(name, (by_clip * (direction @ matrix[:, :3].T)).sum(), difference)
        for name, direction, difference in differences
    ]


def worst(figures: list[Along]) -> float:
    """The largest error relative to max(|difference|, a tenth of the largest one)."""
    largest = max(abs(f.difference) for f in figures)
    return max(abs(f.analytic - f.difference) / max(abs(f.difference), 0.1 * largest) for f in figures)


def avocado(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """The Avocado of the data folder, welded, centred, of unit radius."""
    import trimesh

    mesh = trimesh.load(folder / "meshes" / "Avocado_512.glb", force="mesh")
    points, number = np.unique(np.round(mesh.vertices, 7), axis=0, return_inverse=True)
    points = points - (points.max(0) + points.min(0)) / 2
    return points / np.linalg.norm(points, axis=1).max(), number.reshape(-1)[np.asarray(mesh.faces)]
