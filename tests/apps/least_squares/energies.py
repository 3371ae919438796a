"""Small cases of the image energies: their graphs, and the same residuals in NumPy, written from the formulas."""

from collections.abc import Callable
from dataclasses import dataclass

import image_warping
import numpy as np
import optical_flow
import poisson_editing
import shape_from_shading
from images import Shaded

from dressi import Variable
from dressi.ad.graph import Variable as Leaf

STEPS = ((1, 0), (-1, 0), (0, 1), (0, -1))
WIDTH, HEIGHT = 7, 6


@dataclass(frozen=True)
class Case:
    """residuals: the graph. unknowns: its leaves, which hold the point. numpy: all residuals, in any order, of arrays
    of the form of the unknowns."""

    residuals: list[Leaf]
    unknowns: list[Leaf]
    numpy: Callable[..., np.ndarray]


def pairs(height: int, width: int):
    """((y, x), (y + dy, x + dx), (dx, dy)) of all ordered pairs of neighbours."""
    for y in range(height):
        for x in range(width):
            for dx, dy in STEPS:
                if 0 <= y + dy < height and 0 <= x + dx < width:
                    yield (y, x), (y + dy, x + dx), (dx, dy)


def poisson() -> Case:
    random = np.random.default_rng(1)
    start, base, inserted = random.uniform(0, 255, (3, HEIGHT, WIDTH, 3))
    active = random.random((HEIGHT, WIDTH)) < 0.6  # some of them at the border

    def residuals(colours: np.ndarray) -> np.ndarray:
        x = np.where(active[..., None], colours, base)
        return np.array(
            [(x[p] - x[n]) - (inserted[p] - inserted[n]) for p, n, _ in pairs(HEIGHT, WIDTH) if active[p]]
        ).ravel()

    unknown = Variable.of(start, name="colours")
    graph = poisson_editing.energy(unknown, *(Variable.of(a) for a in (inserted, base, active.astype(float))))
    return Case(graph, [unknown], residuals)


def warping() -> Case:
    random = np.random.default_rng(2)
    moved, goal = random.normal(size=(2, HEIGHT, WIDTH, 2))
    angle = random.normal(size=(HEIGHT, WIDTH))
    active, handle = random.random((2, HEIGHT, WIDTH)) < [[[0.8]], [[0.2]]]
    handle &= active

    def residuals(moved: np.ndarray, angle: np.ndarray) -> np.ndarray:
        place = np.stack(np.meshgrid(np.arange(WIDTH), np.arange(HEIGHT)), -1)
        new, found = place + moved, []
        for p, n, _ in pairs(HEIGHT, WIDTH):
            if active[p] and active[n]:
                c, s, (ex, ey) = np.cos(angle[p]), np.sin(angle[p]), place[p] - place[n]
                turned = np.array([c * ex - s * ey, s * ex + c * ey])
                found.extend(0.1 * (new[p] - new[n] - turned))
        return np.concatenate([found, 10 * (new - place - goal)[handle].ravel()])

    unknowns = [Variable.of(moved, name="moved"), Variable.of(angle, name="angle")]
    given = (Variable.of(np.asarray(a, float)) for a in (active, goal, handle))
    return Case(image_warping.energy(*unknowns, *given), unknowns, residuals)


def shading() -> Case:
    random = np.random.default_rng(3)
    depth = random.uniform(0.5, 0.505, (HEIGHT, WIDTH))
    depth[1, 5] = depth[4, 2] = 0.0
    depth[3, 4] += 0.1  # a jump
    edges = (random.random((2, HEIGHT, WIDTH)) < 0.8).astype(float)
    given = Shaded(
        depth, random.random((HEIGHT, WIDTH)), (edges[0], edges[1]), (50.0, 60.0), (3.0, 2.5),
        random.normal(size=9), (100.0, 50.0, 2.0),
    )  # fmt: skip
    valid, (fx, fy), (ux, uy), light = depth > 0, given.focal, given.centre, given.light

    def residuals(correction: np.ndarray) -> np.ndarray:
        x = depth + correction

        def point(j: int, i: int) -> np.ndarray:
            return x[j, i] * np.array([(i - ux) / fx, (j - uy) / fy, 1])

        def off(j: int, i: int) -> complex:
            inner = 0 < i < WIDTH - 1 and 0 < j < HEIGHT - 1
            if not (inner and valid[j, i] and valid[j, i - 1] and valid[j - 1, i]):
                return 0.0
            nx = x[j - 1, i] * (x[j, i] - x[j, i - 1]) / fy
            ny = x[j, i - 1] * (x[j, i] - x[j - 1, i]) / fx
            nz = nx * (ux - i) / fx + ny * (uy - j) / fy - x[j, i - 1] * x[j - 1, i] / (fx * fy)
            a, b, c = np.array([nx, ny, nz]) / np.sqrt(nx**2 + ny**2 + nz**2)
            base = np.array([1, b, c, a, a * b, b * c, 2 * c * c - a * a - b * b, c * a, a * a - b * b])
            grey = given.grey
            return base @ light - (0.5 * grey[j, i] + 0.25 * (grey[j, i - 1] + grey[j - 1, i]))

        found = [10.0 * correction[valid]]
        for j in range(1, HEIGHT - 1):
            for i in range(1, WIDTH - 1):
                if not valid[j, i]:
                    continue
                around = [(j + dy, i + dx) for dx, dy in STEPS]
                if all(valid[q] and abs(depth[q] - depth[j, i]) < 0.01 for q in around):
                    found.append(50.0**0.5 * (4 * point(j, i) - sum(point(*q) for q in around)))
                compared = (
                    edges[0][j, i] * (off(j, i) - off(j, i + 1)),
                    edges[1][j, i] * (off(j, i) - off(j + 1, i)),
                )
                found.append(2.0**0.5 * np.array(compared))
        return np.concatenate([np.ravel(part) for part in found])

    unknown = Variable.of(random.normal(size=depth.shape) * 1e-3, name="correction")
    return Case(shape_from_shading.energy(unknown, shape_from_shading.Scene.of(given)), [unknown], residuals)


def flow() -> Case:
    random = np.random.default_rng(4)
    start = random.normal(size=(HEIGHT, WIDTH, 2))  # some pixels leave the image
    first, second = random.random((2, HEIGHT, WIDTH))

    def read(x: complex, y: complex) -> complex:
        i, j = int(np.floor(np.real(x))), int(np.floor(np.real(y)))
        u, v = x - i, y - j

        def at(i: int, j: int) -> float:
            return second[np.clip(j, 0, HEIGHT - 1), np.clip(i, 0, WIDTH - 1)]

        above = (1 - u) * at(i, j) + u * at(i + 1, j)
        return (1 - v) * above + v * ((1 - u) * at(i, j + 1) + u * at(i + 1, j + 1))

    def residuals(flow: np.ndarray) -> np.ndarray:
        data = [
            20.0**0.5 * (first[j, i] - read(i + flow[j, i, 0], j + flow[j, i, 1]))
            for j in range(HEIGHT)
            for i in range(WIDTH)
        ]
        smooth = [0.1**0.5 * (flow[p] - flow[n]) for p, n, _ in pairs(HEIGHT, WIDTH)]
        return np.concatenate([data, np.ravel(smooth)])

    unknown = Variable.of(start, name="flow")
    graph = optical_flow.energy(unknown, Variable.of(first), Variable.of(second), Variable.of(20.0))
    return Case(graph, [unknown], residuals)


CASES = {"poisson": poisson, "warping": warping, "shading": shading, "flow": flow}
