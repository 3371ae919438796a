"""Several meshes in one picture: order by one depth, parts and instances, gradients to each."""

import numpy as np
import outer_cases as oc
import pytest
import soft_cases as sc

from dressi.ad import functional as F
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.transform.gradient import gradient
from dressi.ad.types import FLOAT, MAT4, VEC3, list_image, list_size, list_values
from dressi.errors import InputError
from dressi.render.forms.hard_soft_ras import hard_soft_ras
from dressi.render.surface.scene import Part, Scene, join

SIZE = (48, 32)


def leaf(name: str, points: np.ndarray) -> Variable:
    return Variable(VEC3, list_size(len(points)), name=name, data=list_image(np.asarray(points, float)))


def placed(*places: tuple[float, float, float], scale: float = 1.0) -> np.ndarray:
    """(K, 4, 4): moved, and scaled."""
    matrices = np.tile(np.diag([scale, scale, scale, 1.0]), (len(places), 1, 1))
    matrices[:, :3, 3] = places
    return matrices


def matrices(values: np.ndarray, name: str = "matrices") -> Variable:
    """A list of one entry a part, or, (N, 1, 4, 4), one texel of a batch."""
    values = values if values.ndim == 4 else values[None]
    return Variable(MAT4, (values.shape[1], 1), len(values), name=name, data=values[:, None])


def three() -> tuple[Scene, Variable, Variable, Variable]:
    """A ball, and a tetrahedron twice, one in front of and one behind it; and their leaves."""
    points, faces = sc.icosphere(1)
    ball = leaf("ball", points)
    tetra = leaf("tetra", np.array([(1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)]))
    sides = np.array([(0, 1, 2), (0, 3, 1), (0, 2, 3), (1, 3, 2)])
    at = matrices(placed((0, 0, 0), (0.7, 0.2, 1.5), (-0.9, 0.1, -1.5), scale=0.7))
    return join([Part(ball, faces), Part(tetra, sides), Part(tetra, sides)], at), ball, tetra, at


def views(count: int = 1) -> np.ndarray:
    return np.stack([sc.camera(25 * k, 10, 5) for k in range(count)])[:, None]


def world(scene: Scene) -> tuple[np.ndarray, np.ndarray]:
    """Positions (V, 3) and faces by NumPy alone."""
    at = placed((0, 0, 0), (0.7, 0.2, 1.5), (-0.9, 0.1, -1.5), scale=0.7)
    points, faces, start = [], [], 0
    for part, matrix in zip(scene.parts, at, strict=True):
        own = list_values(part.position.data, int(part.faces.max()) + 1)[0]
        points.append(own @ matrix[:3, :3].T + matrix[:3, 3])
        faces.append(part.faces + start)
        start += len(own)
    return np.concatenate(points), np.concatenate(faces)


def check_picture(run) -> None:
    """Parts hide each other as one mesh does, whatever draws them; colours come from the part."""
    scene, *_ = three()
    view = matrices(views(2), "views")
    drawn = hard_soft_ras(
        scene.to_clip(view), scene.faces, size=SIZE, radius=4 / 32, face_count=scene.face_count, form="outer"
    )
    table = Variable(VEC3, (3, 1), data=np.eye(3)[None, None])
    face = drawn.mesh.face
    image, part, colour = run([drawn.silhouette, scene.part(face), scene.of_part(table, face)])
    points, faces = world(scene)
    number = np.repeat([0, 1, 2], [80, 4, 4])
    for tile, matrix in enumerate(views(2)[:, 0]):
        truth = oc.render(sc.to_clip(matrix, points), faces, SIZE, radius=4 / 32)
        np.testing.assert_allclose(image[tile], truth.coverage, atol=1e-4)
        expected = np.where(truth.face < 0, -1, number[truth.face])
        assert tile or set(np.unique(expected)) == {-1, 0, 1, 2}
        assert np.mean(part[tile] != expected) <= 0.005
        np.testing.assert_allclose(colour[tile], np.eye(4, 3)[part[tile]])


def test_parts_hide_each_other():
    check_picture(evaluate)


@pytest.mark.vk
def test_parts_hide_each_other_on_devices(run):
    check_picture(run)


def test_positions_are_those_of_the_parts_and_differentiable_in_all():
    scene, ball, tetra, at = three()
    points, faces = world(scene)
    position, found = evaluate([scene.position, scene.faces])
    np.testing.assert_allclose(list_values(position, len(points))[0], points, atol=1e-12)
    assert np.array_equal(list_values(found, len(faces))[0], faces)
    assert scene.vertex_start == (0, 42, 46, 50) and scene.face_start == (0, 80, 84, 88)
    view = matrices(views(2), "views")
    assert check_gradient(scene.to_clip(view), [ball, tetra, at, view]) < 1e-6


def slopes(run) -> list[np.ndarray]:
    """The gradient of a loss of the picture by the ball, the tetrahedron and the matrices."""
    scene, *leaves = three()
    drawn = hard_soft_ras(
        scene.to_clip(matrices(views(), "views")), scene.faces, size=SIZE, radius=4 / 32, face_count=88, form="outer"
    )  # fmt: skip
    ramp = Variable(FLOAT, SIZE, data=np.linspace(0, 1, SIZE[0] * SIZE[1]).reshape(1, SIZE[1], SIZE[0]))
    return run(gradient(F.sum(F.square(drawn.silhouette - ramp)), leaves))


def test_instances_add_their_gradients():
    """As if each instance had vertices of its own, summed."""
    scene, *_ = three()
    found = slopes(evaluate)
    points, faces = world(scene)
    (_, slope), count = apart(points, faces), 42
    at = placed((0, 0, 0), (0.7, 0.2, 1.5), (-0.9, 0.1, -1.5), scale=0.7)
    np.testing.assert_allclose(found[0][0, 0], 0.7 * slope[:count], atol=1e-9)
    np.testing.assert_allclose(found[1][0, 0], 0.7 * (slope[42:46] + slope[46:]), atol=1e-9)
    assert np.abs(slope[42:46]).max() > 0.01 and np.abs(slope[46:]).max() > 0.01
    for k, (first, last) in enumerate(zip(scene.vertex_start, scene.vertex_start[1:], strict=False)):
        own = (points[first:last] - at[k, :3, 3]) / 0.7
        expected = slope[first:last].T @ np.concatenate([own, np.ones((len(own), 1))], axis=1)
        np.testing.assert_allclose(found[2][0, 0, k, :3], expected, atol=1e-9)


def apart(points: np.ndarray, faces: np.ndarray) -> tuple[Variable, np.ndarray]:
    """The gradient of the same loss by the positions in the world."""
    single = leaf("points", points)
    scene = join([Part(single, faces)])
    drawn = hard_soft_ras(
        scene.to_clip(matrices(views(), "views")), scene.faces, size=SIZE, radius=4 / 32, face_count=88, form="outer"
    )  # fmt: skip
    ramp = Variable(FLOAT, SIZE, data=np.linspace(0, 1, SIZE[0] * SIZE[1]).reshape(1, SIZE[1], SIZE[0]))
    (slope,) = evaluate(gradient(F.sum(F.square(drawn.silhouette - ramp)), [single]))
    return single, slope[0, 0]


@pytest.mark.vk
def test_gradients_by_parts_and_matrices_on_devices(run):
    for found, expected in zip(slopes(run), slopes(evaluate), strict=True):
        assert np.linalg.norm(found - expected) <= 2e-3 * np.linalg.norm(expected)


def test_attributes_are_joined_and_positions_that_are_no_numbers_spoil_nothing():
    scene, ball, tetra, at = three()
    joined = scene.attribute([ball, tetra, tetra])
    np.testing.assert_allclose(evaluate([joined])[0][0, 0, 46:], tetra.data[0, 0])
    broken = np.array(ball.data)
    broken[0, 0, 7] = np.nan
    drawn = hard_soft_ras(
        scene.to_clip(matrices(views(), "views")), scene.faces, size=SIZE, radius=4 / 32, face_count=88, form="face"
    )  # fmt: skip
    found = evaluate(
        [drawn.silhouette, *gradient(F.sum(drawn.silhouette), [ball, tetra, at])], {ball: broken}
    )
    assert all(np.isfinite(x).all() and x.any() for x in found)


def test_what_does_not_fit_is_named():
    ball, tetra = leaf("ball", np.zeros((4, 3))), np.array([(0, 1, 2)])
    with pytest.raises(InputError, match="at least one part"):
        join([])
    with pytest.raises(InputError, match="part 1 use vertices 0 to 4 of 4"):
        join([Part(ball, tetra), Part(ball, np.array([(0, 1, 4)]))])
    with pytest.raises(InputError, match="2 parts need a MAT4 list"):
        join([Part(ball, tetra)] * 2, matrices(placed((0, 0, 0))))
    with pytest.raises(InputError, match="part 0 are a VEC3 list"):
        join([Part(Variable(FLOAT, (4, 1)), tetra)])
    with pytest.raises(InputError, match="attribute each"):
        join([Part(ball, tetra)]).attribute([])
