"""Tilted panes of glass that pass through each other, before an opaque one: drawn, and sorted in float64 by NumPy."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import outer_cases as oc
import soft_cases as sc

from dressi import F, Variable, evaluate, gradient
from dressi.ad.graph.types import FLOAT, IVEC3, VEC3, VEC4, list_image, list_size, list_values
from dressi.render.forms.form import HARD, Form
from dressi.render.forms.pairs import EDGES
from dressi.render.layers.edged import draw_layers
from dressi.render.layers.stacks import Layered
from dressi.render.surface.screen import DrawnMesh

SIZE = (48, 40)
BACKGROUND = np.array((0.2, 0.5, 0.9))
PANES = 5


def turned(x: float, y: float, z: float) -> np.ndarray:
    (a, b), (c, d), (e, f) = ((np.cos(t), np.sin(t)) for t in (x, y, z))
    tilt = np.array([(c, 0, d), (0, 1, 0), (-d, 0, c)]) @ np.array([(1, 0, 0), (0, a, -b), (0, b, a)])
    return tilt @ np.array([(e, -f, 0), (f, e, 0), (0, 0, 1)])


@dataclass
class Glass:
    """Quads in the world. The first one is opaque, the others are panes: corners (N, 4, 3), around each."""

    corners: np.ndarray
    colours: np.ndarray
    """(N, 3)."""
    alphas: np.ndarray
    """(N,): of the first one 1."""
    matrix: np.ndarray = field(default_factory=lambda: sc.camera(15, 20, 4.5))

    @property
    def faces(self) -> np.ndarray:
        first = 4 * np.arange(len(self.corners))[:, None]
        return np.stack([first + (0, 1, 2), first + (0, 2, 3)], axis=1).reshape(-1, 3)

    def points(self) -> np.ndarray:
        return self.corners.reshape(-1, 3)


def glass() -> Glass:
    """Five panes; two of them pass through each other, and one through the opaque quad."""
    rng = np.random.default_rng(7)
    square = np.array([(-1, -1, 0), (1, -1, 0), (1, 1, 0), (-1, 1, 0)]) * 0.75
    tilts = [
        (0.2, -0.3, 0.1),
        (0.5, 0.3, 0.45),
        (-0.4, 0.6, 0.75),
        (0.3, -0.5, 1.1),
        (-0.7, 0.4, 0.25),
        (0.2, 0.7, 0.9),
    ]
    places = [
        (0, 0.1, -1.0),
        (0.2, 0.1, -0.45),
        (-0.25, -0.1, 0.0),
        (0.1, 0.25, 0.25),
        (-0.05, -0.2, 0.8),
        (0.3, 0.0, 1.1),
    ]
    corners = np.stack([square @ turned(*t).T + p for t, p in zip(tilts, places, strict=True)])
    alphas = np.array([1.0, 0.7, 0.4, 0.55, 0.3, 0.6])
    return Glass(corners, rng.uniform(0.1, 1, size=(6, 3)), alphas)


def sorted_picture(
    scene: Glass,
    size: tuple[int, int] = SIZE,
    offset: tuple[float, float] = (0.0, 0.0),
    background: Any = BACKGROUND,
) -> tuple[np.ndarray, np.ndarray]:
    """(H, W, 3) linear, over the background; and (H, W), how many panes a pixel shows. In float64, at the pixel centres, or so
    many pixels from them."""
    width, height = size
    x, y = ((np.arange(n) + 0.5 + o) / n * 2 - 1 for n, o in zip(size, offset, strict=True))
    screen = np.stack(np.meshgrid(x, y), axis=-1)
    depths, inside = [], []
    for quad in scene.corners:
        a, u, v = (
            np.append(w, one) @ scene.matrix.T
            for w, one in ((quad[0], 1), (quad[1] - quad[0], 0), (quad[3] - quad[0], 0))
        )
        # (a + s u + t v) . (x, y) = screen times its w: two equations for s and t.
        rows = [w[:2] - screen * w[3] for w in (u, v, a)]
        det = rows[0][..., 0] * rows[1][..., 1] - rows[0][..., 1] * rows[1][..., 0]
        s = -(rows[2][..., 0] * rows[1][..., 1] - rows[2][..., 1] * rows[1][..., 0]) / det
        t = -(rows[0][..., 0] * rows[2][..., 1] - rows[0][..., 1] * rows[2][..., 0]) / det
        z, w = (a[k] + s * u[k] + t * v[k] for k in (2, 3))
        depths.append(z / w)
        inside.append((s >= 0) & (s <= 1) & (t >= 0) & (t <= 1))
    depth, there = np.stack(depths), np.stack(inside)
    picture, count = np.empty((height, width, 3)), np.zeros((height, width), int)
    for i in range(height):
        for j in range(width):
            colour, clear = np.zeros(3), 1.0
            for k in np.argsort(depth[:, i, j]):
                if there[k, i, j] and clear > 0:
                    colour, clear = (
                        colour + clear * scene.alphas[k] * scene.colours[k],
                        clear * (1 - scene.alphas[k]),
                    )
                    count[i, j] += k > 0
            picture[i, j] = colour + clear * np.array(background)
    return picture, count


def clear(scene: Glass) -> np.ndarray:
    """(H, W): no edge is so near the centre of the pixel that drivers may disagree about what covers it."""
    around = [sorted_picture(scene, offset=(a, b))[0] for a in (-0.13, 0.13) for b in (-0.13, 0.13)]
    return np.ptp(np.stack(around), axis=0).max(-1) < 0.01


@dataclass
class Drawn:
    """Leaves, and what is drawn of them."""

    position: Variable
    """VEC4 list in clip space."""
    colours: Variable
    """VEC3 list, one a face."""
    alphas: Variable
    """FLOAT list, one a face."""
    layers: Layered
    picture: Variable


def leaf(name: str, vtype, values: np.ndarray) -> Variable:
    return Variable(vtype, list_size(len(values)), name=name, data=list_image(np.asarray(values, float)))


def drawn(
    scene: Glass, form: Form, layers: int = PANES, size: tuple[int, int] = SIZE, batch: int = 1, **options
) -> Drawn:
    clip = sc.to_clip(scene.matrix, scene.points())
    position = Variable(
        VEC4, list_size(len(clip)), batch, name="position", data=np.repeat(list_image(clip), batch, 0)
    )
    faces = Variable(IVEC3, list_size(len(scene.faces)), name="faces", data=list_image(scene.faces))
    colours, alphas = (
        leaf("colours", VEC3, np.repeat(scene.colours, 2, 0)),
        leaf("alphas", FLOAT, np.repeat(scene.alphas, 2)),
    )
    mesh = DrawnMesh(position, faces, size, len(scene.faces))
    result = draw_layers(form, mesh, 2, layers, **options)
    alpha = [F.lookup(alphas, s.face) for s in result.surfaces]
    shaded = [F.lookup(colours, s.face) * a for s, a in zip(result.surfaces, alpha, strict=True)]
    picture = result.blend(shaded, tuple(BACKGROUND), [1.0 - a for a in alpha])
    return Drawn(position, colours, alphas, result, picture)


class Balls:
    """Two glass balls that pass through each other, before an opaque wall: losses of the edges form, and of pictures with many
    samples a pixel, along ways in which their points move."""

    SIZE, SAMPLES, PATH = 48, 12, 12

    def __init__(self, run: sc.Executor):
        ball, faces = sc.icosphere(2)
        wall = np.array([(-6, -6, -2), (6, -6, -2), (6, 6, -2), (-6, 6, -2)], float)
        self.run = run
        self.points = np.concatenate([wall, ball * 0.8 + (-0.35, 0.1, 0.3), ball * 0.75 + (0.4, -0.1, -0.1)])
        first = np.array([(0, 1, 2), (0, 2, 3)])
        self.faces = np.concatenate([first, faces + 4, faces + 4 + len(ball)])
        self.matrix = sc.camera(15, 10, 4)
        self.ends, fine = self._picture(HARD, 3, self.SIZE * self.SAMPLES)
        self.fine = F.resize(fine, (self.SIZE, self.SIZE), "area")
        self.path, picture = self._picture(EDGES, self.PATH, self.SIZE)
        self.target = Variable(VEC3, picture.size, name="target", data=np.zeros((1, *picture.shape[1:])))
        (self.slope,) = gradient(self.loss(picture - self.target), [self.path])

    def _picture(self, form: Form, batch: int, size: int) -> tuple[Variable, Variable]:
        """The positions in clip space, and the picture."""
        position = Variable(VEC4, list_size(len(self.points)), batch, name="position")
        faces = Variable(IVEC3, list_size(len(self.faces)), name="faces", data=list_image(self.faces))
        drawn = draw_layers(form, DrawnMesh(position, faces, (size, size), len(self.faces)), 2, 4)
        colours = leaf("colours", VEC3, 0.5 + 0.5 * np.sin(3 * self.points + 1))
        alphas = leaf("alphas", FLOAT, np.repeat((1.0, 0.5, 0.6), (2, 320, 320)))
        alpha = [F.lookup(alphas, s.face) for s in drawn.surfaces]
        shaded = [s.interpolate(colours) * a for s, a in zip(drawn.surfaces, alpha, strict=True)]
        return position, drawn.blend(shaded, None, [1.0 - a for a in alpha])

    @staticmethod
    def loss(error: Variable) -> Variable:
        error = F.gaussian_blur(error, 1.0, None)
        return F.sum(F.dot(error, error))

    def put(self, leaf: Variable, points: Sequence[np.ndarray]) -> None:
        leaf.data = np.concatenate([list_image(sc.to_clip(self.matrix, p)) for p in points])

    def directions(self) -> Iterator[tuple[str, np.ndarray]]:
        """Nine of both balls, and of one alone."""
        balls = self.points[4:]
        yield from oc.nine_directions(balls)
        yield "one ball", np.where(np.arange(len(balls))[:, None] < len(balls) // 2, (0.3, 0.6, -0.9), 0.0)

    def along(self, *names: str) -> list[oc.Along]:
        """Integrals of the gradient over two pixels along the directions of those names, and how the loss of pictures with
        many samples a pixel changes."""
        still = np.arange(len(self.points))[:, None] < 4
        away = np.where(still, self.points, self.points * 1.1 + (0.05, 0.03, 0))
        places, found = (np.arange(self.PATH) + 0.5) / self.PATH * 2 - 1, []
        for name, direction in self.directions():
            if name not in names:
                continue
            step = np.zeros_like(self.points)
            step[4:] = oc.pixel_step(self.points[4:], direction, self.matrix, (self.SIZE, self.SIZE))
            self.put(self.ends, [away, self.points - step, self.points + step])
            photo, *ends = self.run([self.fine])[0]
            self.target.data = photo[None]
            losses = [
                evaluate(self.loss(Variable(VEC3, self.target.size, data=(e - photo)[None]))) for e in ends
            ]
            self.put(self.path, [self.points + h * step for h in places])
            slope = list_values(self.run([self.slope])[0], len(step))
            moved = (slope * (step @ self.matrix[:, :3].T)).sum((1, 2), dtype=float)
            found.append(oc.Along(name, 2 * moved.mean(), float(losses[1].item() - losses[0].item())))
        return found
