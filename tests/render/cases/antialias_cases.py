"""The antialias form by brute force in float64, and the checks every executor has to pass.

The definitions: between the centres p and q of two neighbouring pixels in a row (or column) an edge counts that may be a
silhouette, is at least as steep as 45 degrees and passes there, where p and q show different faces, the pixel on the side
of its mesh is the nearer one and it lies in front of the other; the one next to the farther pixel, of several. With x its place from p (0) to q (1), p takes 1/2 - x of q,
or q x - 1/2 of p. All a pixel takes is scaled down to 1 at most.
"""

import brute_force
import numpy as np
import outer_cases as oc
import soft_cases as sc
from outer_cases import Along
from soft_cases import Case, Executor

from dressi import F, Variable, gradient
from dressi.ad.graph.types import VEC3, VEC4, list_size
from dressi.render.forms.antialias import Antialiased
from dressi.render.forms.hard_soft_ras import hard_soft_ras

SIZE, GRID, FAR = sc.SIZE, 1 / 16, 2.0


def cases() -> dict[str, Case]:
    """Concave, with contours inside; faces one behind the other; open; edges of three faces; unlike orientation."""
    names = ("torus", "ellipsoid", "overlapping", "open", "three faces at an edge", "mixed orientation")
    return {name: oc.cases()[name] for name in names}


def antialiased(case: Case, cull: str = "none", size=SIZE) -> tuple[Variable, Antialiased]:
    position, faces = case.variables()
    return position, hard_soft_ras(
        position, faces, size=size, face_count=len(case.faces), cull=cull, form="antialias"
    )


def render(case: Case, table: np.ndarray, background: np.ndarray, cull: str = "none", size=SIZE):
    """(H, W) silhouette and (H, W, C) picture: vertex attributes (V, C) before a background (C,)."""
    width, height = size
    plain = brute_force.render(case.clip, case.faces, size, radius=1e-6, layers=1, cull=cull)
    hard = plain.hard > 0
    face, depth = np.where(hard, plain.face[0], -1), np.full(width * height, FAR)
    depth[plain.layers[0].pixel] = 2 * plain.layers[0].depth
    depth = np.where(hard, depth.reshape(height, width), FAR)
    xy, z, good = brute_force.to_screen(case.clip, width, height)
    pairs = np.array(oc.silhouettes(case.clip, case.faces, size, cull))
    # An edge of faces on different sides is drawn for each that has it alone.
    drawn = case.faces[good[case.faces].all(1)]
    area = brute_force.double_area(xy, drawn)
    drawn = drawn[(area > 1e-10) if cull == "back" else (np.abs(area) > 1e-10)]
    hold = {
        (a, b): [xy[f[~np.isin(f, (a, b))][0]] for f in drawn if a in f and b in f] for a, b in pairs.tolist()
    }
    takes = []
    for axis in (0, 1):
        share, nearest = (
            np.zeros((height, width)),
            np.full((height, width), FAR),
        )  # pixels from the farther one
        for (a, b), thirds in hold.items():
            u = (xy[b] - xy[a]) * height
            if abs(u[1 - axis]) < abs(u[axis]) or (axis == 1 and abs(u[0]) == abs(u[1])):
                continue
            for y in range(height - (axis == 1)):
                for x in range(width - (axis == 0)):
                    p, q = (y, x), (y + (axis == 1), x + (axis == 0))
                    start = xy[a] * height - (x + 0.5, y + 0.5)
                    if face[p] == face[q] or start[1 - axis] * (start + u)[1 - axis] > 0:
                        continue
                    along = -start[1 - axis] / u[1 - axis]
                    place, at = start[axis] + along * u[axis], (1 - along) * z[a] + along * z[b]
                    if not -GRID <= place <= 1 + GRID:
                        continue
                    # The third corner lies on the side of p or of q.
                    reach = (thirds[0] - xy[a]) * height
                    first = reach[axis] < u[axis] / u[1 - axis] * reach[1 - axis]
                    near, far = (p, q) if first else (q, p)
                    rest = 1 - place if first else place
                    if depth[near] < depth[far] and at <= depth[far] and rest < nearest[p]:
                        nearest[p], share[p] = rest, 0.5 - place
        takes.append(share)
    picture = np.where(hard[..., None], _colours(case, face, table, xy, size), background)
    return tuple(_blend(image, *takes) for image in (hard[..., None].astype(float), picture))


def _colours(case: Case, face: np.ndarray, table: np.ndarray, xy: np.ndarray, size) -> np.ndarray:
    width, height = size
    y, x = np.mgrid[:height, :width]
    p, at = (np.stack([x, y], -1) + 0.5) / height, case.faces[np.maximum(face, 0)]
    a, b, c = (xy[at[..., i]] for i in range(3))
    areas = [
        u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]
        for u, v in ((b - p, c - p), (c - p, a - p), (a - p, b - p))
    ]
    weights = np.stack(areas, -1) / case.clip[at, 3]
    total = weights.sum(-1, keepdims=True)
    return ((weights / np.where(total == 0, 1, total))[..., None] * table[at]).sum(-2)


def _blend(image: np.ndarray, right: np.ndarray, down: np.ndarray) -> np.ndarray:
    total, sums = np.zeros(image.shape[:2]), np.zeros(image.shape)
    for share, axis in ((right, 1), (down, 0)):
        other = np.roll(image, -1, axis)
        taken = np.roll(np.maximum(-share, 0), 1, axis)
        for weight, colour in ((np.maximum(share, 0), other), (taken, np.roll(image, 1, axis))):
            total += weight
            sums += weight[..., None] * colour
    scale = 1 / np.maximum(total, 1)
    return image * (1 - total * scale)[..., None] + sums * scale[..., None]


def check_image(run: Executor, case: Case, cull: str = "none") -> None:
    """Silhouette and picture are those of brute force, but where drivers disagree about what covers a centre, and stay
    between those of the hard picture."""
    table, background = np.random.default_rng(8).uniform(size=(len(case.clip), 3)), np.array((0.1, 0.9, 0.4))
    position, drawn = antialiased(case, cull)
    colours = Variable(VEC3, position.size, data=table[None, None])
    picture = drawn.blend([drawn.surfaces[0].interpolate(colours)], tuple(background))
    found, coverage, *seams = run([picture, drawn.silhouette, *(one.seam for one in drawn.passing)])
    # Here pixels take colours of whole pixels, and pairs have no seam; ``test_seams.py`` has the rest.
    right, down = (x[0] > 0 for x in seams)
    clear = ~(right | np.roll(right, 1, 1) | down | np.roll(down, 1, 0))
    assert clear.mean() > 0.97
    expected, truth = render(case, table, background, cull)
    assert coverage.min() >= 0 and coverage.max() <= 1
    assert found.min() >= 0 and found.max() <= 1
    assert np.mean((np.abs(coverage[0] - expected[..., 0]) > 1e-3)[clear]) <= 0.004
    assert np.mean((np.abs(found[0] - truth).max(-1) > 0.01)[clear]) <= 0.006


def loss_of(case: Case) -> tuple[Variable, Variable]:
    """(position, sum of squares of a picture in colours minus a checkerboard)."""
    target = np.kron(np.random.default_rng(3).uniform(size=(8, 8)), np.ones((8, 8)))
    position, drawn = antialiased(case)
    table = np.random.default_rng(8).uniform(size=(len(case.clip), 3))
    colours = Variable(VEC3, position.size, data=table[None, None])
    error = drawn.blend([s.interpolate(colours) for s in drawn.surfaces], (0.1, 0.9, 0.4)) - F.vec3(
        Variable(size=SIZE, data=target)
    )
    return position, F.sum(F.dot(error, error) + F.square(drawn.silhouette))


def check_gradient(run: Executor, truth: Executor, case: Case, tolerance: float) -> None:
    """The gradient of a loss of colours and silhouettes is that of another executor."""
    position, loss = loss_of(case)
    (found,), (expected,) = (each(gradient(loss, [position])) for each in (run, truth))
    assert np.linalg.norm(expected) > 0
    assert np.linalg.norm(found - expected) <= tolerance * np.linalg.norm(expected)


def path(run: Executor, mesh, matrix: np.ndarray, *, side: int, samples=24) -> list[Along]:
    """What the gradient integrates to between -1 and +1 pixel along nine directions, and the change of the loss."""
    points, faces = mesh
    size = (side, side)
    goal = oc.render(sc.to_clip(matrix, points * 1.15 + (0.06, 0.04, 0.03)), faces, size, radius=1e-6)
    places = np.concatenate([[-1.0, 1.0], (np.arange(samples) + 0.5) / samples * 2 - 1])
    position = Variable(VEC4, list_size(len(points)), len(places), name="position")
    _, face_list = Case(sc.to_clip(matrix, points), faces).variables()
    drawn = hard_soft_ras(position, face_list, size=size, face_count=len(faces), form="antialias")
    squares = F.square(drawn.silhouette - Variable(size=size, data=goal.hard))
    slopes = gradient(F.sum(squares), [position])
    result = []
    for name, direction in oc.nine_directions(points):
        step = oc.pixel_step(points, direction, matrix, size)
        position.data = np.stack([sc.to_clip(matrix, points + h * step) for h in places])[:, None]
        image, slope = run([squares, *slopes])
        moved = slope.reshape(len(places), -1, 4)[:, : len(points)] * (step @ matrix[:, :3].T)
        losses = image.sum(axis=(1, 2))
        result.append(Along(name, 2 * moved.sum(axis=(1, 2))[2:].mean(), losses[1] - losses[0]))
    return result
