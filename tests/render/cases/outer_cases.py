"""Meshes for the outer form, its meaning by brute force in float64, and the checks every executor has to pass.

The definitions: a pixel is covered when its centre lies in a face that is drawn. An edge is a silhouette when all faces
drawn at it, one or more, lie on one side of it or are seen edge-on. d is the distance of an uncovered centre to the
nearest silhouette. Coverage is 1 where covered, else (1 - near(d) / r)^2 within r, else 0, with near(d) = d from a tenth
of a pixel on, 0 up to half of this, and a line between.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import brute_force
import numpy as np
import soft_cases as sc
from numpy.testing import assert_allclose
from soft_cases import Case, Executor

from dressi import F, gradient
from dressi.ad.graph import Variable, as_variable
from dressi.ad.graph.types import INT, VEC3, VEC4, list_size
from dressi.render import edge_list, hard_soft_ras
from dressi.render.forms.outer import EdgeSilhouette, around_edges
from dressi.render.mesh.primitives import torus
from dressi.render.surface.screen import DrawnMesh

SIZE, RADIUS = sc.SIZE, sc.RADIUS


def small_torus() -> tuple[np.ndarray, np.ndarray]:
    mesh = torus(18, 12)
    return mesh.positions, mesh.faces


def cases() -> dict[str, Case]:
    """Closed, concave, self-occluding, open, non-manifold, degenerate, badly oriented, cut by the near plane."""
    points, faces = small_torus()
    ellipsoid, ellipsoid_faces = sc.bumpy_ellipsoid()
    sphere, sphere_faces = sc.icosphere(1)
    turned = sc.to_clip(sc.camera(30, 15, 3.5), sphere * (1, 0.8, 1.2))
    mixed = np.where((np.arange(80) % 3 == 0)[:, None], sphere_faces[:, ::-1], sphere_faces)
    fan = [(-0.1, -0.6, 0.5), (0.1, 0.6, 0.5), (-0.7, 0.1, 0.4), (0.6, -0.2, 0.6), (0.52, 0.47, 0.3)]
    return {
        **sc.cases(),
        "torus": Case(sc.to_clip(sc.camera(20, 35, 4), points), faces),
        "torus from the side": Case(sc.to_clip(sc.camera(20, 8, 4), points), faces),
        "ellipsoid": Case(sc.to_clip(sc.camera(20, 25), ellipsoid), ellipsoid_faces),
        "three faces at an edge": sc.flat(fan, [(0, 1, 2), (1, 0, 3), (0, 1, 4)]),
        "doubled": sc.flat(fan, [(0, 1, 2), (0, 1, 2), (1, 0, 3), (0, 1, 3)]),
        # The line 3-3-4 hangs on the triangle and sticks out of it; 0-1-2 once more without area.
        "lines": sc.flat(fan, [(0, 1, 3), (3, 3, 4), (0, 0, 1)]),
        "mixed orientation": Case(turned, mixed[sphere[sphere_faces].mean(1)[:, 1] < 0.4]),
    }  # fmt: skip


@dataclass
class Picture:
    """Images of one view; ``gradient(upstream)`` is that of sum(upstream * coverage) by clip positions."""

    clip: np.ndarray
    faces: np.ndarray
    hard: np.ndarray
    face: np.ndarray
    """The nearest face of each pixel, -1 for none."""
    distance: np.ndarray
    near: np.ndarray
    """The distance as it counts."""
    coverage: np.ndarray
    ends: np.ndarray
    """(pixels, 2) vertices of the nearest silhouette of each pixel, old and new ones."""
    weight: np.ndarray
    radius: float

    def gradient(self, upstream: np.ndarray) -> np.ndarray:
        height, width = self.hard.shape
        cut = brute_force.clipped(self.clip, self.faces)
        points = cut.points(self.clip)
        xy, _, good = brute_force.to_screen(points, width, height)
        soft = ((self.hard == 0) & (self.distance < self.radius)).ravel()
        p, d = _centres(width, height)[soft], self.distance.ravel()[soft]
        ends, t = self.ends[soft], self.weight[soft][:, None]
        away = (p - (1 - t) * xy[ends[:, 0]] - t * xy[ends[:, 1]]) / np.maximum(d, 1e-30)[:, None]
        near = self.near.ravel()[soft]
        slope = upstream.ravel()[soft] * 2 * (1 - near / self.radius) / self.radius
        slope = slope * np.where(near == d, 1.0, np.where(near > 0, 2.0, 0.0))
        by_screen = np.zeros_like(xy)
        np.add.at(by_screen, ends[:, 0], slope[:, None] * away * (1 - t))
        np.add.at(by_screen, ends[:, 1], slope[:, None] * away * t)
        by_ndc = by_screen * (0.5 * width / height, 0.5)
        w = np.where(good, points[:, 3], 1.0)[:, None]
        by_w = -(by_ndc * points[:, :2]).sum(1, keepdims=True) / w**2
        by_points = np.concatenate([by_ndc / w, np.zeros_like(w), by_w], axis=1)
        return cut.pull(self.clip, np.where(good[:, None], by_points, 0.0))

    def colours(self, table: np.ndarray) -> np.ndarray:
        """(H, W, C): attributes (V, C) of the covering face, or of the nearest point of the silhouettes."""
        height, width = self.hard.shape
        cut, p = brute_force.clipped(self.clip, self.faces), _centres(width, height)
        at = self.faces[np.maximum(self.face.ravel(), 0)]
        # The point of the face before the pixel: weights of the corners whose sum has no place but the ray.
        rows = self.clip[at][..., (0, 1, 3)] * (width / height, 1, 1)
        rows[..., :2] = (rows[..., :2] + rows[..., 2:] * (width / height, 1)) / 2
        rows[..., :2] -= rows[..., 2:] * p[:, None]
        a, b, c = np.moveaxis(rows[..., :2], 1, 0)
        areas = [u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0] for u, v in ((b, c), (c, a), (a, b))]
        inside = np.stack(areas, axis=1)
        points = cut.points(self.clip)
        beside = (
            np.stack([1 - self.weight, self.weight], axis=1)
            / np.where(points[:, 3] > 0, points[:, 3], 1)[self.ends]
        )
        inside, beside = (x / np.where(x.sum(1) == 0, 1, x.sum(1))[:, None] for x in (inside, beside))
        start, end = table[cut.pairs[:, 0]], table[cut.pairs[:, 1]]
        t = (self.clip[cut.pairs[:, 0], 2] / (self.clip[cut.pairs[:, 0], 2] - self.clip[cut.pairs[:, 1], 2]))[
            :, None
        ]
        longer = np.concatenate([table, start + t * (end - start)])
        covered = (self.face.ravel() >= 0)[:, None]
        found = (self.distance.ravel() < self.radius)[:, None]
        mixed = [
            (weights[..., None] * longer[k]).sum(1) for weights, k in ((inside, at), (beside, self.ends))
        ]
        return np.where(covered, mixed[0], np.where(found, mixed[1], 0)).reshape(height, width, -1)


def _centres(width: int, height: int) -> np.ndarray:
    y, x = np.mgrid[:height, :width]
    return (np.stack([x.ravel(), y.ravel()], axis=1) + 0.5) / height


def silhouettes(
    clip: np.ndarray, faces: np.ndarray, size: tuple[int, int], cull: str
) -> list[tuple[int, int]]:
    """The edges that are silhouettes, (low, high), of the mesh cut at the near plane; the cut is no edge."""
    cut = brute_force.clipped(clip, faces)
    xy, _, good = brute_force.to_screen(cut.points(clip), *size)
    sides: dict[tuple[int, int], set[int]] = {}
    area = brute_force.double_area(xy, cut.faces)
    for t, face in enumerate(cut.faces.tolist()):
        if not good[face].all() or (cull == "back" and area[t] <= brute_force.AREA_MINIMUM):
            continue
        for k in np.flatnonzero(cut.real[t]):
            a, b = sorted((face[k], face[(k + 1) % 3]))
            u, v = xy[b] - xy[a], xy[face[(k + 2) % 3]] - xy[a]
            if a != b:
                sides.setdefault((a, b), set()).add(int(np.sign(u[1] * v[0] - u[0] * v[1])))
    return [edge for edge, found in sides.items() if not {1, -1} <= found]


@brute_force.remembered
def render(clip: np.ndarray, faces: np.ndarray, size=SIZE, *, radius: float, cull: str = "none") -> Picture:
    """Every uncovered pixel against every silhouette."""
    width, height = size
    plain = brute_force.render(clip, faces, size, radius=1e-6, layers=1, cull=cull)
    hard = plain.hard
    xy, _, _ = brute_force.to_screen(plain.cut.points(clip), width, height)
    edges = np.array(silhouettes(clip, faces, size, cull)).reshape(-1, 2)
    p = _centres(width, height)
    best, ends = np.full(len(p), np.inf), np.zeros((len(p), 2), int)
    weight = np.zeros(len(p))
    for a, b in edges:
        u, q = xy[b] - xy[a], p - xy[a]
        t = np.clip(q @ u / max(u @ u, 1e-30), 0, 1)
        d = np.linalg.norm(q - t[:, None] * u, axis=1)
        closer = d < best
        best, weight = np.where(closer, d, best), np.where(closer, t, weight)
        ends[closer] = a, b
    distance = best.reshape(height, width)
    near = np.minimum(distance, np.maximum(2 * distance - 0.1 / height, 0))
    coverage = np.where(hard > 0, 1.0, np.maximum(1 - np.minimum(near, 2) / radius, 0) ** 2)
    return Picture(
        clip,
        faces,
        hard,
        np.where(hard > 0, plain.face[0], -1),
        distance,
        near,
        coverage,
        ends,
        weight,
        radius,
    )


def outer(case: Case, *, size=SIZE, radius=RADIUS, cull="none") -> tuple[Variable, EdgeSilhouette]:
    position, faces = case.variables()
    drawn = hard_soft_ras(
        position, faces, size=size, radius=radius, face_count=len(case.faces), cull=cull, form="outer"
    )
    return position, drawn


def slopes(position: Variable, drawn: EdgeSilhouette) -> list[Variable]:
    """The gradient of the sum of squares of the coverage."""
    return gradient(F.sum(F.square(drawn.silhouette)), [position])


def check_image(run: Executor, case: Case, cull: str = "none") -> None:
    """Coverage is that of brute force, also where drivers disagree about covered centres, and never leaves [0, 1]."""
    _, drawn = outer(case, cull=cull)
    compare_image(case, *run([drawn.silhouette, drawn.hard]), cull=cull)


def compare_image(case: Case, coverage: np.ndarray, hard: np.ndarray, cull: str = "none") -> None:
    expected = render(case.clip, case.faces, radius=RADIUS, cull=cull)
    assert coverage.min() >= 0 and coverage.max() <= 1
    assert np.mean(hard[0] != expected.hard) <= 0.002
    assert_allclose(coverage[0], expected.coverage, atol=1e-4)


def check_image_and_gradient(run: Executor, case: Case, tolerance: float) -> None:
    """The gradient is that of the sum of squares of coverage minus a checkerboard; its error is relative to its length."""
    target = np.kron(np.random.default_rng(3).uniform(size=(8, 8)), np.ones((8, 8)))
    position, drawn = outer(case)
    loss = F.sum(F.square(drawn.silhouette - Variable(size=SIZE, data=target)))
    coverage, hard, found = run([drawn.silhouette, drawn.hard, *gradient(loss, [position])])
    compare_image(case, coverage, hard)
    found = found.reshape(-1, 4)[: len(case.clip)]
    expected = render(case.clip, case.faces, radius=RADIUS).gradient(2 * (coverage[0] - target))
    assert np.linalg.norm(expected) > 0
    assert np.linalg.norm(found - expected) <= tolerance * np.linalg.norm(expected)


def check_all_edges(run: Executor, case: Case) -> None:
    """Every edge drawn, on both sides, gives the image and the gradient of the silhouettes."""
    position, faces = case.variables()
    edges = edge_list(case.faces)
    nowhere = Variable(INT, edges.list.size, data=np.zeros(edges.list.shape[:3], int))
    mesh = DrawnMesh(position, faces, SIZE, len(case.faces))
    every = around_edges(mesh, mesh.face, edges, nowhere, as_variable(RADIUS))
    own, chosen = outer(case)
    a, b, c, d = run(
        [
            chosen.silhouette,
            every.silhouette,
            gradient(F.sum(chosen.silhouette), [own])[0],
            gradient(F.sum(every.silhouette), [position])[0],
        ]
    )
    assert_allclose(a, b, atol=1e-6)
    assert np.linalg.norm(c - d) <= 1e-5 * np.linalg.norm(c)


@dataclass(frozen=True)
class Along:
    """One direction: what the gradient integrates to between -1 and +1 pixel, and how the loss changes."""

    name: str
    integral: float
    difference: float


def path(
    run: Executor,
    mesh: tuple[np.ndarray, np.ndarray],
    matrix: np.ndarray,
    *,
    pixels: float,
    side: int,
    samples=24,
    colour: bool = False,
) -> list[Along]:
    """The path test: blind to kinks of the loss, it sees jumps. All samples of a direction are tiles of one batch.

    The loss is that of the silhouette, or of the mesh in smooth colours on a grey background.
    """
    points, faces = mesh
    size, radius = (side, side), pixels / side
    goal = brute_force.render(
        sc.to_clip(matrix, points * 1.15 + (0.06, 0.04, 0.03)),
        faces,
        size,
        radius=1e-6,
        layers=1,
        cull="none",
    )
    target = Variable(size=size, data=goal.hard)
    places = np.concatenate([[-1.0, 1.0], (np.arange(samples) + 0.5) / samples * 2 - 1])
    position = Variable(VEC4, list_size(len(points)), len(places), name="position")
    _, face_list = Case(sc.to_clip(matrix, points), faces).variables()
    drawn = hard_soft_ras(position, face_list, size=size, radius=radius, face_count=len(faces), form="outer")
    squares = F.square(drawn.silhouette - target)
    if colour:
        table = Variable(VEC3, list_size(len(points)), data=smooth_colours(points)[None, None])
        picture = drawn.blend([drawn.surfaces[0].interpolate(table)], (0.4, 0.4, 0.4))
        error = picture - F.vec3(target) * 0.7
        squares = F.dot(error, error)
    slopes = gradient(F.sum(squares), [position])
    result = []
    for name, direction in nine_directions(points):
        step = pixel_step(points, direction, matrix, size)
        position.data = np.stack([sc.to_clip(matrix, points + h * step) for h in places])[:, None]
        image, slope = run([squares, *slopes])
        along = (slope.reshape(len(places), -1, 4)[:, : len(points)] * (step @ matrix[:, :3].T)).sum(
            axis=(1, 2)
        )
        losses = image.sum(axis=(1, 2))
        result.append(Along(name, 2 * along[2:].mean(), losses[1] - losses[0]))
    return result


def smooth_colours(points: np.ndarray) -> np.ndarray:
    return 0.5 + 0.4 * np.sin(2 * points + (0.0, 1.0, 2.0))


def check_colours(run: Executor, case: Case, cull: str = "none") -> None:
    """The picture in vertex colours over a background is that of brute force, but where drivers disagree about which
    of two sheets covers a centre."""
    rng = np.random.default_rng(8)
    table, background = rng.uniform(size=(len(case.clip), 3)), np.array((0.1, 0.9, 0.4))
    expected = render(case.clip, case.faces, radius=RADIUS, cull=cull)
    position, drawn = outer(case, cull=cull)
    colours = Variable(VEC3, position.size, data=table[None, None])
    (surface,) = drawn.surfaces
    picture, face, weights = run(
        [drawn.blend([surface.interpolate(colours)], tuple(background)), surface.face, surface.weights]
    )
    opacity = expected.coverage[..., None]
    truth = opacity * expected.colours(table) + (1 - opacity) * background
    assert np.mean(np.abs(picture[0] - truth).max(-1) > 0.01) <= 0.004
    # Wherever there is opacity there is a face, and weights of its corners.
    there = expected.coverage > 1e-4
    assert (face[0][there] >= 0).all() and (face[0][expected.distance > RADIUS * 1.01] < 0)[
        expected.hard[expected.distance > RADIUS * 1.01] == 0
    ].all()
    assert_allclose(weights[0][there].sum(-1), 1, atol=1e-4)


def pixel_step(
    points: np.ndarray, direction: np.ndarray, matrix: np.ndarray, size: tuple[int, int]
) -> np.ndarray:
    """The direction, as long as moves the fastest vertex by one pixel."""
    screen = [
        brute_force.to_screen(sc.to_clip(matrix, points + h * direction), *size)[0] for h in (1e-5, -1e-5)
    ]
    return direction * 2e-5 / (np.linalg.norm(screen[0] - screen[1], axis=1).max() * size[1])


def nine_directions(points: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Three translations, three rotations, scale, two smooth deformations."""
    return sc.directions(points, 2)


def agreement(figures: Sequence[Along]) -> tuple[float, float]:
    """(share of the non-tiny directions within 2 %, median of integral over difference)."""
    largest = max(abs(f.difference) for f in figures)
    ratios = np.array([f.integral / f.difference for f in figures if abs(f.difference) > 0.05 * largest])
    return float(np.mean(np.abs(ratios - 1) <= 0.02)), float(np.median(ratios))
