"""The edges form: its derivative is that of pictures with many samples a pixel, for whatever is drawn.

``apps/contour_test.py --form edges`` does this for more scenes, directions and losses.
"""

from collections.abc import Callable

import numpy as np
import pytest

from dressi import F, InputError, Variable, evaluate, gradient
from dressi.ad.graph.program import Program
from dressi.ad.graph.types import FLOAT, IVEC3, VEC3, VEC4, list_values
from dressi.ad.transform.gradient import hvp
from dressi.ad.transform.simplify import simplify
from dressi.config import shader_text
from dressi.render import Camera, edge_list, list_data, list_leaf, primitives
from dressi.render.forms.form import HARD, Form
from dressi.render.forms.hard_soft_ras import draw_form, hard_soft_ras
from dressi.render.forms.pairs import EDGES, KINDS, PASS, edges_between
from dressi.render.surface.projection import to_clip
from dressi.render.surface.screen import DrawnMesh
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.core.limits import DeviceLimits
from dressi.vk.plan.core.substage import Raster

SIZE, SAMPLES, PATH, REACH = 40, 10, 16, 1.5
Run = Callable[[list[Variable]], list[np.ndarray]]


def joined(*parts: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    starts = np.cumsum([0] + [len(p) for p, _ in parts[:-1]])
    return np.concatenate([p for p, _ in parts]), np.concatenate([f + n for (_, f), n in zip(parts, starts)])


def ball(radius: float, *centre: float) -> tuple[np.ndarray, np.ndarray]:
    mesh = primitives.icosphere(2)
    return radius * mesh.positions + np.array(centre), mesh.faces


def plate(size: float, depth: float, x: float, y: float) -> tuple[np.ndarray, np.ndarray]:
    """Slanted, bent along its middle, open all around."""
    corners = np.array([(-0.9, -0.8), (0.1, -1.0), (0.8, -0.9), (0.9, 0.8), (0.0, 0.9), (-0.8, 0.9)]) * size
    bend = 0.2 * abs(corners[:, :1])
    return np.c_[corners, depth + corners @ np.array([(x,), (y,)]) + bend], np.array(
        [(0, 1, 4), (0, 4, 5), (1, 2, 3), (1, 3, 4)]
    )


def soup() -> tuple[np.ndarray, np.ndarray]:
    """Five triangles that share no vertices and pass through each other."""
    rng = np.random.default_rng(5)
    points = rng.uniform(-0.3, 0.3, (5, 1, 3)) + rng.normal(size=(5, 3, 3)) * 0.45
    return points.reshape(-1, 3), np.arange(15).reshape(-1, 3)


SCENES = {
    "balls": (joined(ball(0.55, 0.3, 0.1, 0.5), ball(0.75, -0.25, 0.0, -0.4)), 0.1),
    "crossing plates": (joined(plate(0.5, 0.1, 0.7, 0.1), plate(0.8, 0.1, -0.6, 0.2)), 0.1),
    "soup": (soup(), 0.1),
    "open sheet": (joined(plate(0.55, 0.4, 0.3, 0.5), plate(1.0, -0.4, -0.3, 0.1)), 0.1),
    "near plane": (ball(0.7, 0.1, 0.1, 0.9), 1.9),
}
"""Parts, of which the first moves, and the near plane."""


class Lab:
    """One scene: pictures with many samples a pixel, and derivatives of losses of those of the edges form."""

    def __init__(self, run: Run, name: str, curved: bool = False):
        self.run, ((self.points, self.faces), self.near) = run, SCENES[name]
        size = list_leaf("points", VEC3, self.points).size
        self.truth, self.path = (
            Variable(VEC3, size, n, data=np.zeros((n, *size[::-1], 3))) for n in (3, PATH)
        )
        self.many = self._pictures(HARD, self.truth, SAMPLES)
        pictures = self._pictures(EDGES, self.path, 1)
        self.targets = [Variable(p.vtype, p.size, data=np.zeros(p.shape[1:])[None]) for p in pictures]
        losses = [self.loss(p - t) for p, t in zip(pictures, self.targets, strict=True)]
        self.slopes = [gradient(loss, [self.path])[0] for loss in losses]
        self.along = Variable(VEC3, size, data=np.zeros((1, *size[::-1], 3)))
        self.curves = [hvp(loss, [self.path], [self.along])[0] for loss in losses] if curved else []

    def _pictures(self, form: Form, position: Variable, samples: int) -> list[Variable]:
        """The colours and the depths."""
        size = (SIZE * samples, SIZE * samples)
        camera = Camera.perspective(42, size, (0.3, 0.5, 3.2), (0, 0, 0), near=self.near)
        clip = F.matmul(F.constant(camera.world_to_clip), F.vec4(position, 1.0))
        drawn = draw_form(form, clip, list_leaf("faces", IVEC3, self.faces), size, len(self.faces))
        waves = 0.5 + 0.4 * np.sin(self.points @ np.array([(2.1, 0.4, 1), (0.5, 2.3, -1), (-1, 0.7, 1.9)]))
        colours, depth = list_leaf("colours", VEC3, waves), F.component(clip, 3)
        images = [
            drawn.blend([s.interpolate(colours) for s in drawn.surfaces], (0.1, 0.2, 0.3)),
            drawn.blend([s.interpolate(depth) for s in drawn.surfaces], 4.0),
        ]
        return images if samples == 1 else [F.resize(x, (SIZE, SIZE), "area") for x in images]

    @staticmethod
    def loss(error: Variable) -> Variable:
        error = F.gaussian_blur(error, REACH, None)
        return F.sum(F.square(error) if error.vtype.shape == () else F.dot(error, error))

    @staticmethod
    def send(leaf: Variable, positions: np.ndarray) -> None:
        data = np.zeros(leaf.shape)
        data.reshape(len(data), -1, 3)[:, : positions.shape[1]] = positions
        leaf.data = data

    def photograph(self, photo: np.ndarray, move: np.ndarray) -> list[float]:
        """Aims at the scene with the positions ``photo``. By image: L(positions + move) - L(positions - move)."""
        self.send(self.truth, np.stack([photo, self.points - move, self.points + move]))
        images, differences = self.run(self.many), []
        for image, target in zip(images, self.targets, strict=True):
            target.data = image[:1]
            ends = [
                evaluate(self.loss(Variable(target.vtype, target.size, data=x - image[:1])))
                for x in (image[1:2], image[2:])
            ]
            differences.append(float(ends[1].item() - ends[0].item()))
        return differences

    def derivatives(self, places: np.ndarray, move: np.ndarray) -> list[np.ndarray]:
        """Of the losses of both images along the move, (PATH,) each; then, of curved ones, the second derivatives."""
        self.send(self.path, self.points + places[:, None, None] * move)
        self.send(self.along, move[None])
        found = self.run([*self.slopes, *self.curves])
        return [(list_values(x, len(move)) * move).sum((1, 2), dtype=float) for x in found]


def of_length(move: np.ndarray, pixels: float = 1.0) -> np.ndarray:
    """The move with its largest displacement about so many pixels long."""
    return move * pixels * 0.06 / np.linalg.norm(move, axis=1).max()


def first_part(name: str) -> np.ndarray:
    """(V, 1): 1 for the part that moves."""
    count = len(SCENES[name][0][0])
    moves = {"balls": count // 2, "soup": count, "near plane": count}.get(name, count - 6)
    return np.where(np.arange(count)[:, None] < moves, 1.0, 0.0)


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.one_driver
def test_derivatives_are_those_of_many_samples(run: Run, name: str):
    """Of a shift, a rotation and a single vertex, in colours and depths."""
    lab, part = Lab(run, name), first_part(name)
    points, vertex = lab.points, np.argmax(lab.points @ (1, 0.3, 0) + 9 * part[:, 0])
    photo = points + part * ((0.1, 0.08, 0.04) + 0.1 * np.cross((0.3, 0.5, 1), points))
    moves = {
        "shift": part * np.array((0.8, 0.5, 0.3)),
        "rotation": part * np.cross((0.4, 0.8, -1), points),
        "vertex": (np.arange(len(points)) == vertex)[:, None] * np.array((0.8, 0.3, 0.2)),
    }
    places = (np.arange(PATH) + 0.5) / PATH * 2 - 1
    found = {}
    for kind, move in moves.items():
        differences = lab.photograph(photo, of_length(move))
        integrals = [2 * slopes.mean() for slopes in lab.derivatives(places, of_length(move))]
        found[kind] = np.array([integrals, differences])
    largest = np.max([abs(f[1]) for f in found.values()], axis=0)
    assert (largest > 1).all()
    for kind, (integrals, differences) in found.items():
        bound = (0.05 if kind == "vertex" else 0.03) * abs(differences) + 0.005 * largest
        assert (abs(integrals - differences) < bound).all(), (kind, integrals, differences)


@pytest.mark.one_driver
def test_ridges_that_look_over_others_are_seen_between_pixels(run: Run):
    """Of a crumpled ball, whose outline is that of one ridge behind another, the coverage is that of many samples."""
    mesh, size = primitives.icosphere(3), 64
    points = mesh.positions * (1 + 0.03 * np.random.default_rng(0).normal(size=(len(mesh.positions), 1)))
    clip = to_clip(points, Camera.perspective(42, (size, size), (0.3, 0.5, 3.2), (0, 0, 0)).world_to_clip)
    faces = list_leaf("faces", IVEC3, mesh.faces)
    own, many = (
        draw_form(form, clip, faces, (size * k, size * k), len(mesh.faces)).silhouette
        for form, k in ((EDGES, 1), (HARD, SAMPLES))
    )
    found, true = run([own, F.resize(many, (size, size), "area")])
    error = found.astype(float) - true
    # With what the two pixels of a pair show alone: 1.8 pixels too little, 1.07.
    assert abs(error.sum()) < 0.6 and np.sqrt((error**2).sum()) < 0.8


@pytest.mark.one_driver
def test_minima_lie_at_photographs_and_curvature_is_the_change_of_the_gradient(run: Run):
    """Along a shift and an inflation of one ball, in colours and depths, half a pixel to either side of the photograph."""
    lab, part = Lab(run, "balls", curved=True), first_part("balls")
    places = np.linspace(-0.5, 0.5, PATH)
    for move in (part * (1.0, 0.3, 0.0), part * (lab.points - (0.3, 0.1, 0.5))):
        lab.photograph(lab.points, of_length(move))
        found = lab.derivatives(places, of_length(move))
        for slopes, curves in zip(found[:2], found[2:], strict=True):
            near = abs(places) < 0.3
            rise, start = np.polyfit(places[near], slopes[near], 1)
            assert rise > 1 and abs(start / rise) < 0.02
            change = slopes[-1] - slopes[0]
            assert change > 1 and abs(np.trapezoid(curves, places) - change) < 0.05 * change


@pytest.mark.every_driver
def test_outlines_that_pass_centres_of_pixels_are_seen(run: Run):
    """Drivers with four bits of a pixel cover such centres or not. Sheets of 7x10 pixels, moved by up to 1/33 of a pixel."""
    size, away = 16, np.linspace(-0.03, 0.03, 7)
    corners = np.array([(4.5, 3.2), (11.5, 3.2), (11.5, 13.2), (4.5, 13.2)]) / size * 2 - 1
    points = np.concatenate([corners, np.full((4, 1), 0.5), np.ones((4, 1))], axis=1)
    shift = Variable(FLOAT, (1, 1), len(away), data=away.reshape(-1, 1, 1))
    position = Variable(VEC4, (4, 1), data=points[None, None]) + F.vec4(shift * (2 / size), 0.0, 0.0, 0.0)
    faces = list_leaf("faces", IVEC3, np.array([(0, 1, 2), (0, 2, 3)]))
    mask = draw_form(EDGES, position, faces, (size, size), 2).silhouette
    sides = Variable.of(np.where(np.arange(size) < 8, -1.0, 1.0)[None] * np.ones((size, 1)), FLOAT)
    found, slope = run([mask, *gradient(F.sum(mask * sides), [shift])])
    whole = found[:, 4:13]
    assert np.abs(whole[:, :, 4] - 0.5 + away[:, None]).max() < 0.04
    assert np.abs(whole[:, :, 11] - 0.5 - away[:, None]).max() < 0.04
    # Both sides of ten rows.
    assert np.abs(np.ravel(slope) - 20).max() < 0.4


def test_crossings_can_be_left_out():
    """Then the edges that are left are the ends of surfaces."""
    (points, faces), _ = SCENES["crossing plates"]
    clip = to_clip(points, Camera.perspective(42, (24, 24), (0.3, 0.5, 3.2), (0, 0, 0)).world_to_clip)
    mesh = DrawnMesh(clip, list_leaf("faces", IVEC3, faces), (24, 24), len(faces))
    both, ends = evaluate([edges_between(mesh, edge_list(faces), crossings=c) for c in (True, False)])
    kinds = np.where(both < 0, -1, both % KINDS)[..., 1::2]
    passing = kinds == PASS
    assert passing.sum() > 3 and ((kinds >= 0) & ~passing).sum() > 20
    left = np.where(np.repeat(passing, 2, axis=-1), -1, both)
    np.testing.assert_array_equal(ends, left)


def test_colours_and_the_background_have_exact_gradients():
    """The loss is quadratic in them: the gradient in the middle is the difference."""
    (points, faces), _ = SCENES["crossing plates"]
    camera = Camera.perspective(42, (24, 24), (0.3, 0.5, 3.2), (0, 0, 0))
    rng = np.random.default_rng(1)
    colours, background = (
        Variable(VEC3, (n, 1), data=rng.uniform(size=(1, 1, n, 3))) for n in (len(points), 1)
    )
    clip = to_clip(points, camera.world_to_clip)
    drawn = hard_soft_ras(
        clip, list_leaf("faces", IVEC3, faces), size=(24, 24), face_count=len(faces), form="edges"
    )
    picture = drawn.blend([s.interpolate(colours) for s in drawn.surfaces], background)
    error = picture - Variable(VEC3, (24, 24), data=rng.uniform(size=(1, 24, 24, 3)))
    loss = F.sum(F.dot(error, error))
    slopes = evaluate(gradient(loss, [colours, background]))
    for leaf, slope in zip((colours, background), slopes, strict=True):
        middle, change = leaf.data, rng.normal(size=leaf.shape)
        assert middle is not None
        ends = [evaluate(loss, {leaf: middle + s * change}).item() for s in (0.5, -0.5)]
        assert abs((slope * change).sum()) > 1
        np.testing.assert_allclose((slope * change).sum(), ends[0] - ends[1], rtol=1e-4)


@pytest.mark.parametrize("wrong", [{"radius": 0.1}, {"layers": 3}, {"mode": "aa"}])
def test_options_of_other_forms_are_refused(wrong: dict):
    with pytest.raises(InputError, match=f"{next(iter(wrong))} has no meaning in the edges form"):
        hard_soft_ras(
            Variable(VEC4, (3, 1)),
            list_leaf("faces", IVEC3, np.array([(0, 1, 2)])),
            size=(8, 8),
            face_count=1,
            form="edges",
            **wrong,
        )


def test_faces_know_their_neighbours():
    def neighbours(faces) -> list:
        return list_data(edge_list(np.array(faces)).neighbours)[: len(faces)].tolist()

    chain = [(0, 1, 2), (1, 0, 3), (2, 1, 4), (4, 1, 5)]
    assert neighbours(chain) == [[2, -1, 1], [-1, -1, 0], [3, -1, 0], [-1, -1, 2]]
    assert neighbours([(0, 1, 2), (1, 0, 3), (0, 1, 4)]) == [[-1] * 3] * 3  # three faces at an edge


@pytest.mark.vk
def test_work_is_done_beside_edges_alone():
    """Everywhere it only looks whether neighbours show different faces."""
    size = (512, 512)
    position = Variable(VEC4, (4, 1), name="position")
    faces = Variable(IVEC3, (2, 1), data=np.array([[[(0, 1, 2), (0, 2, 3)]]]))
    drawn = hard_soft_ras(position, faces, size=size, face_count=2, form="edges")
    error = drawn.silhouette - Variable(FLOAT, size, name="target")
    (slope,) = gradient(F.sum(F.square(error)), [position])
    program = simplify(Program({}, ((position, position - slope),)))
    work = [s for s in build_plan(program, DeviceLimits(), shader_text).sub_stages if s.domain.size == size]
    dense = [s for s in work if not isinstance(s.work, Raster) and not s.work.uses and s.functions]
    names = {type(f).__name__ for s in dense for f in s.functions}
    assert "Parted" in names and not names & {"PairEdges", "Extents", "Taken", "Given"}
