"""Faces that reach in front of the near plane and behind the viewer, faces that are hardly any, and positions that are no
numbers: in the hard raster and in every form, on the oracle and every driver."""

import brute_force
import numpy as np
import outer_cases as oc
import pytest
import soft_cases as sc

from dressi.ad import functional as F
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.transform.gradient import gradient
from dressi.ad.types import FLOAT, IVEC3, VEC3
from dressi.render.cameras import Camera
from dressi.render.forms.hard_soft_ras import hard_soft_ras
from dressi.render.lists import list_leaf
from dressi.render.surface.projection import to_clip
from dressi.render.surface.screen import DrawnMesh, barycentric, corners, covered, interpolate, rasterize_hard

FORMS = ("face", "outer", "antialias")
SIZE = (64, 48)


def passing(depth: float = 0.6) -> sc.Case:
    """Two walls that pass the viewer, one corner and two corners behind it, before a far triangle, turned away."""
    points = [(-0.9, -0.3, -2.0), (-0.4, 0.35, -1.5), (-0.5, -0.2, 1.2), (0.5, -0.4, -1.8), (0.3, 0.1, 1.4), (0.7, 0.5, 1.1),
              (-0.8, -0.7, -3.0), (0.0, 0.8, -3.0), (0.9, -0.6, -3.0)]  # fmt: skip
    return sc.Case(sc.to_clip(sc.camera(0, 0, depth, 70), np.array(points)), np.arange(9).reshape(3, 3))


def ray_traced(case: sc.Case, size=SIZE, cull: str = "none") -> tuple[np.ndarray, np.ndarray]:
    """(nearest face, weights of its corners) by the rays through pixel centres, in clip space."""
    width, height = size
    face, weights = np.full((height, width), -1), np.zeros((height, width, 3))
    for y, x in np.ndindex(height, width):
        ray, best = np.array([(x + 0.5) / width * 2 - 1, (y + 0.5) / height * 2 - 1, 1.0]), 1.0
        for number, corner in enumerate(case.clip[case.faces]):
            solved = np.linalg.solve(corner[:, (0, 1, 3)].T, ray)
            depth = solved @ corner[:, 2]
            turned = np.linalg.det(corner[:, (0, 1, 3)]) >= 0
            if (solved >= 0).all() and 0 <= depth < best and not (cull == "back" and turned):
                best, face[y, x], weights[y, x] = depth, number, solved / solved.sum()
    return face, weights


def check_hard(run, cull: str) -> None:
    case = passing()
    position, faces = case.variables()
    face = rasterize_hard(position, faces, size=SIZE, face_count=3, cull=cull)
    table = Variable(VEC3, position.size, data=np.random.default_rng(0).uniform(size=(1, 1, 9, 3)))
    at = corners(face, faces)
    found, colour = run([face, interpolate(table, at, barycentric(position, at, SIZE))])
    assert table.data is not None
    truth, weights = ray_traced(case, cull=cull)
    same = found[0] == truth
    assert len(np.unique(truth)) == (4 if cull == "none" else 3) and same.mean() >= 0.99
    expected = (weights[..., None] * table.data[0, 0][case.faces[np.maximum(truth, 0)]]).sum(2)
    np.testing.assert_allclose(colour[0][same], np.where(truth[..., None] < 0, 0, expected)[same], atol=2e-3)


@pytest.mark.parametrize("cull", ["none", "back"])
def test_the_hard_raster_sees_what_rays_see(cull):
    check_hard(evaluate, cull)


@pytest.mark.vk
def test_the_hard_raster_sees_what_rays_see_on_devices(run):
    check_hard(run, "none")
    check_hard(run, "back")


def test_brute_force_pulls_gradients_through_the_cut():
    clip, faces = sc.cases()["near plane"].clip, sc.cases()["near plane"].faces
    cut = brute_force.clipped(clip, faces)
    upstream = np.random.default_rng(1).normal(size=cut.points(clip).shape)
    upstream[:, 2] = 0  # of the cut's own depth, which stays 0
    found, expected = cut.pull(clip, upstream), np.zeros(clip.shape)
    for index in np.ndindex(*clip.shape):
        step = np.zeros(clip.shape)
        step[index] = 1e-6
        expected[index] = (upstream * (cut.points(clip + step) - cut.points(clip - step))).sum() / 2e-6
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


def losses(form: str, clip: np.ndarray, faces: np.ndarray, run=evaluate) -> tuple[np.ndarray, np.ndarray]:
    """(loss, its gradient) of the picture drawn from each of the clip positions (N, V, 4): views of one batch."""
    case = sc.Case(clip[0], faces)
    position, face_list = case.variables()
    position = Variable(position.vtype, position.size, len(clip), data=clip[:, None])
    options = {} if form == "antialias" else {"radius": 5 / 48}
    drawn = hard_soft_ras(position, face_list, size=SIZE, face_count=len(faces), form=form, **options)
    ramp = np.linspace(0.2, 1, SIZE[0]) * np.linspace(0.5, 1, SIZE[1])[:, None]
    squares = F.square(drawn.silhouette - Variable(size=SIZE, data=ramp[None]))
    image, slope = run([squares, *gradient(F.sum(squares), [position])])
    return image.sum(axis=(1, 2)), slope[:, 0]


def check_path(run) -> None:
    """The gradient of the outer form, integrated, is the change of the loss when corners behind the viewer move."""
    case = passing()
    case = sc.Case(case.clip[:6], case.faces[:2])
    behind = case.clip[:, 3] < 0
    assert behind.tolist() == [False, False, True, False, True, True]
    for axis, size in ((0, 0.15), (1, 0.15), (2, 0.1), (3, 0.1)):
        step = np.zeros_like(case.clip)
        step[behind, axis] = size
        places = np.concatenate([[-1, 1], (np.arange(32) + 0.5) / 16 - 1])
        loss, slope = losses("outer", case.clip + places[:, None, None] * step, case.faces, run)
        change, integral = loss[1] - loss[0], 2 * (slope[2:] * step).sum(axis=(1, 2)).mean()
        # z moves the cut along the edges, out of view.
        moves = abs(change) > 0.5 and abs(integral / change - 1) < 0.03
        assert abs(integral) + abs(change) < 1e-3 if axis == 2 else moves, (axis, integral, change)


def test_gradient_by_corners_behind_the_viewer_integrates_to_the_loss():
    check_path(evaluate)


@pytest.mark.vk
@pytest.mark.one_driver
def test_gradient_by_corners_behind_the_viewer_integrates_to_the_loss_on_devices(run):
    check_path(run)


BAD = {
    "NaN": (np.nan, 0.0, 0.5, 1.0),
    "infinite": (0.1, np.inf, 0.5, 1.0),
    "huge": (1e30, -1e30, 1e30, 1e30),
    "at the eye": (0.0, 0.0, 0.0, 0.0),
    "far to the side": (1e5, 10.0, 0.5, 1.0),
    "behind, far": (3e4, 2e4, -5e4, -5e4),
    "behind the eye, beyond the near plane": (0.3, 0.2, 0.5, -1.0),
    "on the near plane": (0.4, 0.5, 0.0, 0.1),
    "a speck": (-0.2, -0.2 + 1e-6, 0.5, 1.0),
    "beyond the far plane": (0.2, 0.1, 30.0, 10.0),
}


def bad_cases() -> np.ndarray:
    """(N, 8, 4): of two triangles that share an edge, one has a corner that is no good, another has no area; both are
    seen from both sides. A third triangle has nothing of it."""
    plain = np.array(
        [(-0.5, -0.4, 0.5, 1), (0.1, -0.5, 0.4, 1), (-0.2, 0.3, 0.6, 1), (0.5, 0.4, 0.5, 1), (0.5, 0.4, 0.5, 1),
         (0.3, -0.7, 0.3, 1), (0.8, -0.6, 0.3, 1), (0.6, -0.2, 0.3, 1)]
    )  # fmt: skip
    return np.stack([np.concatenate([plain[:3], [bad], plain[4:]]) for bad in BAD.values()])


BAD_FACES = np.array([(0, 1, 2), (2, 1, 3), (0, 4, 4), (1, 2, 3), (5, 6, 7)])


def check_bad(run, form: str) -> None:
    clip = bad_cases()
    position, faces = sc.Case(clip[0], BAD_FACES).variables()
    position = Variable(position.vtype, position.size, len(clip), data=clip[:, None])
    for cull in ("none", "back"):
        options = {} if form == "antialias" else {"radius": 5 / 48}
        drawn = hard_soft_ras(
            position, faces, size=SIZE, face_count=len(BAD_FACES), form=form, cull=cull, **options
        )
        table = Variable(VEC3, position.size, data=np.linspace(0, 1, 24).reshape(1, 1, 8, 3))
        colour = drawn.blend([s.interpolate(table) for s in drawn.surfaces], (0.2, 0.3, 0.4))
        loss = F.sum(F.dot(colour, colour)) + F.sum(F.square(drawn.silhouette))
        image, picture, slope = run([drawn.silhouette, colour, *gradient(loss, [position])])
        for name, *values in zip(BAD, image, picture, slope, strict=True):
            assert all(np.isfinite(x).all() for x in values), (name, cull)
        assert (image >= 0).all() and (image <= 1).all() and slope.any()
        # The rest of the mesh is there, whatever one corner is.
        assert cull == "back" or (image[:, 12, 54] > 0.7).all()
        assert not slope[0, 0, 3].any() and not slope[1, 0, 3].any()


@pytest.mark.parametrize("form", FORMS)
def test_bad_corners_leave_everything_finite(form):
    check_bad(evaluate, form)


@pytest.mark.vk
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.second_driver("outer", "face")
@pytest.mark.release("antialias", "face")
def test_bad_corners_leave_everything_finite_on_devices(run, form):
    check_bad(run, form)


@pytest.mark.release
@pytest.mark.vk
@pytest.mark.parametrize("form", ["face", "outer"])
@pytest.mark.one_driver
def test_a_mesh_cut_by_the_near_plane_is_drawn_as_one_function_a_pass(device, form):
    from dressi.ad.program import Program
    from dressi.ad.transform.simplify import simplify
    from dressi.vk.plan.options import BASELINE
    from dressi.vk.run.executor import VulkanExecutor

    def run(outputs):
        program = simplify(Program({f"output {k}": v for k, v in enumerate(outputs)}))
        with VulkanExecutor(program, device, options=BASELINE) as executor:
            executor.run()
            return [executor.recv(v) for v in program.outputs.values()]

    case = passing()
    packed, plain = (losses(form, case.clip[None], case.faces, each) for each in (evaluate, run))
    assert abs(packed[0] / plain[0] - 1) < 5e-3
    assert np.linalg.norm(packed[1] - plain[1]) <= 2e-2 * np.linalg.norm(packed[1])


def test_faces_all_in_front_are_not_there():
    case = passing()
    front = case.clip.copy()
    front[:, 2] = -np.abs(front[:, 2]) - 0.1
    position, faces = sc.Case(front, case.faces).variables()
    (face,) = evaluate([DrawnMesh(position, faces, SIZE, 3).face])
    assert (face == -1).all()
    for form in FORMS:
        loss, slope = losses(form, front[None], case.faces)
        assert np.isfinite(loss).all() and not slope.any()


def test_colours_of_a_cut_mesh_are_those_of_brute_force():
    oc.check_colours(evaluate, sc.Case(passing().clip, passing().faces))


def check_far(run, form: str) -> None:
    """A plate and a tetrahedron that the far plane cuts, before one that lies beyond it: what is covered is that of the hard raster,
    margins end where edges do, and nothing else is drawn; derivatives pass through the cut."""
    points = [(-1.5, -0.9, 1.0), (1.5, -0.9, 1.0), (1.5, -0.9, -9.0), (-1.5, -0.9, -9.0), (0, 0.9, -1.0), (-0.6, 0, -1.2), (0.7, 0, -1.3),
              (0.1, 0.4, -6.0), (-0.2, 0.1, -8.0), (0.2, 0.1, -8.0), (0, 0.5, -8.0)]  # fmt: skip
    faces = [(0, 1, 2), (0, 2, 3), (4, 5, 6), (4, 6, 7), (4, 7, 5), (5, 7, 6), (8, 9, 10)]
    camera = Camera.perspective(60, (24, 18), (0, 0, 2), (0, 0, 0), near=0.1, far=5.0)
    shift = Variable(FLOAT, (1, 1), name="shift", data=np.zeros((1, 1, 1)))
    moved = list_leaf("points", VEC3, np.array(points)) + F.vec3(shift, 0.3 * shift, shift)
    clip, options = to_clip(moved, camera.world_to_clip), {} if form == "antialias" else {"radius": 3 / 18}
    table = list_leaf("faces", IVEC3, np.array(faces))
    drawn = hard_soft_ras(clip, table, size=(24, 18), face_count=len(faces), form=form, **options)
    point = drawn.blend([s.interpolate(F.component(clip, 3)) for s in drawn.surfaces], 0.0)
    hard = covered(rasterize_hard(clip, table, size=(24, 18), face_count=len(faces)))
    loss = F.sum(F.square(drawn.silhouette - 0.3))
    mask, truth, depth, slope = run([drawn.hard, hard, point, *gradient(loss, [shift])])
    np.testing.assert_array_equal(mask, truth)
    assert 0.2 < truth.mean() < 0.6 and depth.max() <= 5.0 + 1e-3 and np.isfinite(slope).all()
    if run is evaluate and form in ("outer", "contour"):
        ends = [evaluate([loss], {shift: np.full((1, 1, 1), h)})[0].item() for h in (1e-6, -1e-6)]
        assert slope.item() == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-4)


@pytest.mark.parametrize("form", (*FORMS, "contour"))
def test_nothing_is_drawn_beyond_the_far_plane(form):
    check_far(evaluate, form)


@pytest.mark.vk
@pytest.mark.parametrize("form", ["face", "outer"])
@pytest.mark.second_driver()
def test_nothing_is_drawn_beyond_the_far_plane_on_devices(run, form):
    check_far(run, form)
