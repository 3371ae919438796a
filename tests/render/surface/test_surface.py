"""Points of surfaces: textures, footprints of pixels, faces that reach in front of the near plane and behind
the viewer, and positions that are no numbers: in the hard raster and in every form, on the oracle and every
driver."""

import brute_force
import numpy as np
import outer_cases as oc
import pytest
import soft_cases as sc
from numpy.testing import assert_allclose, assert_array_equal
from trimesh.triangles import closest_point

from dressi import F, InputError, Variable, gradient
from dressi.ad.check import check_gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.types import FLOAT, INT, IVEC3, VEC2, VEC3, VEC4, list_image, list_size
from dressi.render import Camera, Mesh, hard_soft_ras, list_leaf, primitives, to_clip
from dressi.render.mesh.queries import SurfaceDistance, sample_surface
from dressi.render.shading import lights
from dressi.render.surface import projection, screen
from dressi.render.surface.screen import DrawnMesh, barycentric, corners, covered, interpolate, rasterize_hard
from dressi.render.surface.texturing import barycentric_slopes, texture_colour, texture_uv

SIZE = (48, 32)
SIDES = [6, 24, 96]  # about 4, 1 and 1/4 pixels a texel


def plane() -> tuple[sc.Case, np.ndarray]:
    """A square seen at a slant, of two faces, and its texture coordinates."""
    points = np.array([(-1, -1, 0), (1, -1, 0), (1, 1, 0), (-1, 1, 0)], float)
    uv = np.array([(0, 1), (1, 1), (1, 0), (0, 0)], float)
    return sc.Case(sc.to_clip(sc.camera(50, 20), points), np.array([(0, 1, 2), (0, 2, 3)])), uv


def seen(case: sc.Case) -> tuple[Variable, Variable, Variable, screen.Corners]:
    position, faces = case.variables()
    face = screen.rasterize_hard(position, faces, size=SIZE, face_count=len(case.faces))
    return position, faces, face, screen.corners(face, faces)


def rays_on_plane(case: sc.Case) -> np.ndarray:
    """World x and y of the point of the plane z = 0 at each pixel centre, (H, W, 2)."""
    matrix = sc.camera(50, 20)
    x, y = np.meshgrid(*((np.arange(n) + 0.5) / n * 2 - 1 for n in SIZE))
    # (row 0 - x row 3) . p = 0 and (row 1 - y row 3) . p = 0 for p = (X, Y, 0, 1)
    system = np.stack([matrix[0] - x[..., None] * matrix[3], matrix[1] - y[..., None] * matrix[3]], axis=-2)
    return np.linalg.solve(system[..., :2], -system[..., 3:])[..., 0]


def test_attributes_are_perspective_correct():
    case, uv = plane()
    position, _, face, at = seen(case)
    weights = screen.barycentric(position, at, SIZE)
    table = Variable(VEC2, list_size(4), data=list_image(uv))
    found, drawn, total = evaluate([texture_uv(table, at, weights), face, F.sum_components(weights)])
    place = rays_on_plane(case)
    covered = drawn[0] >= 0
    assert 100 < covered.sum() < covered.size
    expected = np.stack([(place[..., 0] + 1) / 2, (1 - place[..., 1]) / 2], axis=-1)
    assert_allclose(found[0][covered], expected[covered], atol=1e-9)
    assert_allclose(total[0], covered, atol=1e-12)
    assert not found[0][~covered].any()
    assert (covered == (np.abs(place) <= 1).all(-1)).all()


def test_clamped_weights_stay_on_the_face():
    case = sc.cases()["acute"]
    position, drawn = sc.soft(case, layers=1)
    at = screen.corners(drawn.layers[0].face, case.variables()[1])
    clamped = screen.barycentric(position, at, sc.SIZE, clamp=True)
    weights, dist, face = evaluate([clamped, drawn.layers[0].dist, drawn.layers[0].face])
    there = face >= 0
    assert (weights >= 0).all() and (dist[there] < 0).any()
    assert_allclose(weights.sum(-1)[there], 1)


def test_weights_have_the_gradient_of_their_positions():
    case, _ = plane()
    position, faces, face, _ = seen(case)
    fixed = Variable(INT, SIZE, data=evaluate([face])[0])
    weights = screen.barycentric(position, screen.corners(fixed, faces), SIZE)
    assert check_gradient(weights, [position]) < 1e-5
    clamped = screen.barycentric(position, screen.corners(fixed, faces), SIZE, clamp=True)
    assert check_gradient(clamped, [position]) < 1e-5


def test_slivers_are_not_extrapolated_to_centres_beside_them():
    """A face a thousandth of a pixel wide, whose centres drivers may see: the weights stay near it."""
    corners = [(-0.8, -0.8, 0.5), (-0.8 + 1e-3 / 8, -0.8, 0.5), (0.8, 0.9, 0.5)]
    position, faces = sc.flat(corners, [(0, 1, 2)]).variables()
    face = Variable(INT, (16, 16), data=np.zeros((1, 16, 16), int))
    weights = screen.barycentric(position, screen.corners(face, faces), (16, 16))
    total = F.sum(F.dot(weights, F.constant((1.0, 2.0, 3.0))))
    value, slope = evaluate([weights, *gradient(total, [position])])
    assert value.min() >= -screen.OUTSIDE and value.max() <= 1 + 2 * screen.OUTSIDE
    assert_allclose(value.sum(-1), 1, atol=1e-9)
    assert np.isfinite(slope).all()


@pytest.mark.parametrize("name", ["sphere", "overlapping", "near plane"])
def test_hard_raster_is_the_first_hard_layer(name):
    case = sc.cases()[name]
    position, faces = case.variables()
    for cull in ("none", "back"):
        face = screen.rasterize_hard(position, faces, size=sc.SIZE, face_count=len(case.faces), cull=cull)
        picture = brute_force.render(case.clip, case.faces, sc.SIZE, radius=0.05, layers=1, cull=cull)
        truth = np.where(picture.hard != 0, picture.face[0], -1)
        assert np.mean(evaluate([face])[0][0] != truth) <= 0.002


def test_projection_at_the_eye_has_a_finite_gradient():
    clip = np.array([(0, 0, 0, 0), (1, 2, 0.5, 2), (1, 1, -0.1, 1), (1, 1, 1, -1)], float)
    position = Variable(VEC4, (4, 1), data=clip[None, None])
    points = projection.project(position, (200, 100))
    place = F.select(F.less(points.vertex.z, 0.0), 0.0, points.smooth.xy)
    vertex, slope = evaluate([points.vertex, *gradient(F.sum(F.sum_components(place)), [position])])
    assert_allclose(vertex[0, 0], [(0, 0, 0, 0), (1.5, 1, 0.25, 2), (2, 1, -0.1, 1), (0, 0, 0, 0)])
    assert np.isfinite(slope).all() and slope[0, 0, 1].any() and not slope[0, 0, [0, 2, 3]].any()


def bilinear_gradient(uv: np.ndarray, mask: np.ndarray, upstream: np.ndarray, size: int) -> np.ndarray:
    """Gradient of sum(upstream * sample) by a repeating texture, pixel by pixel, (size, size, 3)."""
    result = np.zeros((size, size, 3))
    for y, x in zip(*np.nonzero(mask), strict=True):
        place = uv[y, x] * size - 0.5
        corner = np.floor(place).astype(int)
        fx, fy = place - corner
        for dy, wy in ((0, 1 - fy), (1, fy)):
            for dx, wx in ((0, 1 - fx), (1, fx)):
                texel = (corner + (dx, dy)) % size
                result[texel[1], texel[0]] += wx * wy * upstream[y, x]
    return result


def check_texture_gradient(run: sc.Executor, side: int) -> None:
    """The gradient of the sum of squared differences by the texture, against a loop over the pixels."""
    case, uv = plane()
    position, _, face, at = seen(case)
    rng = np.random.default_rng(side)
    texture = Variable(VEC3, (side, side), data=rng.uniform(size=(1, side, side, 3)))
    target = Variable(VEC3, SIZE, data=rng.uniform(size=(1, SIZE[1], SIZE[0], 3)))
    table = Variable(VEC2, list_size(4), data=list_image(uv))
    place = texture_uv(table, at, screen.barycentric(position, at, SIZE))
    colour = texture_colour(texture, place, face)
    loss = F.sum(F.dot(colour - target, colour - target))
    drawn, where, found, slope = run([face, place, colour, *gradient(loss, [texture])])
    upstream = 2 * (found[0] - target.data[0])
    expected = bilinear_gradient(where[0], drawn[0] >= 0, upstream, side)
    assert_allclose(slope[0], expected, atol=1e-5 * np.abs(expected).max())
    assert not found[0][drawn[0] < 0].any()


@pytest.mark.parametrize("side", SIDES)
def test_exact_texture_gradient(side):
    check_texture_gradient(evaluate, side)


def test_inverse_uv_recovers_the_texture_nearly_as_well():
    """Gradient descent on a texture, of about one texel a pixel, from both gradients."""
    case, uv = plane()
    position, _, face, at = seen(case)
    rng = np.random.default_rng(0)
    side = 16
    truth = rng.uniform(size=(1, side, side, 3))
    texture = Variable(VEC3, (side, side), name="texture")
    step = Variable(INT, name="step", data=0)
    table = Variable(VEC2, list_size(4), data=list_image(uv))
    where, drawn = evaluate([texture_uv(table, at, screen.barycentric(position, at, SIZE)), face])
    where, drawn = Variable(VEC2, SIZE, data=where), Variable(INT, SIZE, data=drawn)
    picture = evaluate([texture_colour(texture, where, drawn)], {texture: truth})[0]
    covered = drawn.data >= 0
    # Noisy as a photograph: every pixel has to reach the texture. The best possible is 40 dB.
    picture += 0.01 * rng.normal(size=picture.shape) * covered[..., None]
    target = Variable(VEC3, SIZE, data=picture)
    psnr = {}
    for kind in ("exact", "inverse_uv"):
        colour = texture_colour(texture, where, drawn, gradient=kind, step=step)
        loss = F.sum(F.dot(colour - target, colour - target))
        slope, value = gradient(loss, [texture])[0], np.full((1, side, side, 3), 0.5)
        mean, square = np.zeros_like(value), np.zeros_like(value)
        for k in range(200):
            g = evaluate([slope], {texture: value, step: np.array(k)})[0]
            mean, square = 0.9 * mean + 0.1 * g, 0.99 * square + 0.01 * g * g
            # Adam, whose rate falls: the jittered gradient is a noisy one.
            rate = 0.05 * 0.98**k / (1 - 0.9 ** (k + 1))
            value = value - rate * mean / (np.sqrt(square / (1 - 0.99 ** (k + 1))) + 1e-8)
        total = evaluate([loss], {texture: value})[0].item()
        psnr[kind] = -10 * np.log10(total / (3 * covered.sum()))
    assert psnr["exact"] > 35 and psnr["inverse_uv"] > psnr["exact"] - 1, psnr


def test_wrong_texture_options_are_named():
    texture, uv, face = Variable(VEC3, (4, 4)), Variable(VEC2, SIZE), Variable(INT, SIZE)
    with pytest.raises(InputError, match="gradient"):
        texture_colour(texture, uv, face, gradient="both")
    with pytest.raises(InputError, match="step"):
        texture_colour(texture, uv, face, gradient="inverse_uv")
    with pytest.raises(InputError, match="repeat"):
        texture_colour(texture, uv, face, gradient="inverse_uv", step=Variable(INT), wrap="clamp")


def test_normals_and_lambert_shading():
    points, faces = sc.icosphere(2)
    position = Variable(VEC3, list_size(len(points)), data=list_image(points))
    table = Variable(IVEC3, list_size(len(faces)), data=list_image(faces))
    normals = screen.vertex_normals(position, table)
    (found,) = evaluate([normals])
    assert_allclose((found[0, 0] * points).sum(-1), 1, atol=2e-3)
    assert check_gradient(normals, [position]) < 1e-5
    face = Variable(INT, (3, 1), data=np.array([[[0, 5, -1]]]))
    normal = screen.flat_normal(position, screen.corners(face, table))
    lit = lights.lambert(F.constant((0.5, 1.0, 0.25)), normal, (0.0, 0.0, 2.0), 3.0, (0.1, 0.0, 0.0))
    plain = lights.unlit(F.constant((0.5, 1.0, 0.25)), face)
    flat, image, colour = evaluate([normal, lit, plain])
    a, b, c = (points[faces[:, i]] for i in range(3))
    cross = np.cross(b - a, c - a)
    cross /= np.linalg.norm(cross, axis=1, keepdims=True)
    assert_allclose(flat[0, 0], [cross[0], cross[5], (0, 0, 0)], atol=1e-12)
    cosine = np.maximum(flat[0, 0, :, 2:], 0)
    assert_allclose(image[0, 0], (3 * cosine + (0.1, 0, 0)) * (0.5, 1, 0.25), atol=1e-12)
    assert_allclose(colour[0, 0], [(0.5, 1, 0.25), (0.5, 1, 0.25), (0, 0, 0)])
    assert plain.vtype is VEC3 and FLOAT is not VEC3


FORMS = ("face", "outer", "edges")
NEAR_SIZE = (64, 48)


def passing(depth: float = 0.6) -> sc.Case:
    """Two walls that pass the viewer, one and two corners behind it, before a far triangle, turned away."""
    points = [(-0.9, -0.3, -2.0), (-0.4, 0.35, -1.5), (-0.5, -0.2, 1.2), (0.5, -0.4, -1.8), (0.3, 0.1, 1.4), (0.7, 0.5, 1.1),
              (-0.8, -0.7, -3.0), (0.0, 0.8, -3.0), (0.9, -0.6, -3.0)]  # fmt: skip
    return sc.Case(sc.to_clip(sc.camera(0, 0, depth, 70), np.array(points)), np.arange(9).reshape(3, 3))


def ray_traced(case: sc.Case, size=NEAR_SIZE, cull: str = "none") -> tuple[np.ndarray, np.ndarray]:
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
    face = rasterize_hard(position, faces, size=NEAR_SIZE, face_count=3, cull=cull)
    table = Variable(VEC3, position.size, data=np.random.default_rng(0).uniform(size=(1, 1, 9, 3)))
    at = corners(face, faces)
    found, colour = run([face, interpolate(table, at, barycentric(position, at, NEAR_SIZE))])
    assert table.data is not None
    truth, weights = ray_traced(case, cull=cull)
    same = found[0] == truth
    assert len(np.unique(truth)) == (4 if cull == "none" else 3) and same.mean() >= 0.99
    expected = (weights[..., None] * table.data[0, 0][case.faces[np.maximum(truth, 0)]]).sum(2)
    assert_allclose(colour[0][same], np.where(truth[..., None] < 0, 0, expected)[same], atol=2e-3)


@pytest.mark.parametrize("cull", ["none", "back"])
def test_the_hard_raster_sees_what_rays_see(cull):
    check_hard(evaluate, cull)


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
    assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


def losses(form: str, clip: np.ndarray, faces: np.ndarray, run=evaluate) -> tuple[np.ndarray, np.ndarray]:
    """(loss, its gradient) of the picture from each of the clip positions (N, V, 4), in one batch."""
    case = sc.Case(clip[0], faces)
    position, face_list = case.variables()
    position = Variable(position.vtype, position.size, len(clip), data=clip[:, None])
    options = {} if form == "edges" else {"radius": 5 / 48}
    drawn = hard_soft_ras(position, face_list, size=NEAR_SIZE, face_count=len(faces), form=form, **options)
    ramp = np.linspace(0.2, 1, NEAR_SIZE[0]) * np.linspace(0.5, 1, NEAR_SIZE[1])[:, None]
    squares = F.square(drawn.silhouette - Variable(size=NEAR_SIZE, data=ramp[None]))
    image, slope = run([squares, *gradient(F.sum(squares), [position])])
    return image.sum(axis=(1, 2)), slope[:, 0]


def check_path(run) -> None:
    """The gradient of the outer form adds up to the loss's change when corners behind the viewer move."""
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
    """(N, 8, 4): of two triangles that share an edge, one has a corner that is no good, another has no area;
    both are seen from both sides. A third triangle has nothing of it."""
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
        options = {} if form == "edges" else {"radius": 5 / 48}
        drawn = hard_soft_ras(
            position, faces, size=NEAR_SIZE, face_count=len(BAD_FACES), form=form, cull=cull, **options
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


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.second_driver("outer", "face")
@pytest.mark.release("edges", "face")
def test_bad_corners_leave_everything_finite_on_devices(run, form):
    check_bad(run, form)


@pytest.mark.release
@pytest.mark.parametrize("form", ["face", "outer"])
@pytest.mark.one_driver
def test_a_mesh_cut_by_the_near_plane_is_drawn_as_one_function_a_pass(device, form):
    from dressi.ad.graph.program import Program
    from dressi.ad.transform.simplify import simplify
    from dressi.vk.plan.core.options import BASELINE
    from dressi.vk.run.execution.executor import VulkanExecutor

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
    (face,) = evaluate([DrawnMesh(position, faces, NEAR_SIZE, 3).face])
    assert (face == -1).all()
    for form in FORMS:
        loss, slope = losses(form, front[None], case.faces)
        assert np.isfinite(loss).all() and not slope.any()


def test_colours_of_a_cut_mesh_are_those_of_brute_force():
    oc.check_colours(evaluate, sc.Case(passing().clip, passing().faces))


def check_far(run, form: str) -> None:
    """A plate and a tetrahedron that the far plane cuts, before one that lies beyond it: what is covered is
    that of the hard raster, margins end where edges do, and nothing else is drawn; derivatives pass through
    the cut."""
    points = [(-1.5, -0.9, 1.0), (1.5, -0.9, 1.0), (1.5, -0.9, -9.0), (-1.5, -0.9, -9.0), (0, 0.9, -1.0), (-0.6, 0, -1.2), (0.7, 0, -1.3),
              (0.1, 0.4, -6.0), (-0.2, 0.1, -8.0), (0.2, 0.1, -8.0), (0, 0.5, -8.0)]  # fmt: skip
    faces = [(0, 1, 2), (0, 2, 3), (4, 5, 6), (4, 6, 7), (4, 7, 5), (5, 7, 6), (8, 9, 10)]
    camera = Camera.perspective(60, (24, 18), (0, 0, 2), (0, 0, 0), near=0.1, far=5.0)
    shift = Variable(FLOAT, (1, 1), name="shift", data=np.zeros((1, 1, 1)))
    moved = list_leaf("points", VEC3, np.array(points)) + F.vec3(shift, 0.3 * shift, shift)
    clip, options = to_clip(moved, camera.world_to_clip), {} if form == "edges" else {"radius": 3 / 18}
    table = list_leaf("faces", IVEC3, np.array(faces))
    drawn = hard_soft_ras(clip, table, size=(24, 18), face_count=len(faces), form=form, **options)
    point = drawn.blend([s.interpolate(F.component(clip, 3)) for s in drawn.surfaces], 0.0)
    hard = covered(rasterize_hard(clip, table, size=(24, 18), face_count=len(faces)))
    loss = F.sum(F.square(drawn.silhouette - 0.3))
    mask, truth, depth, slope = run([drawn.hard, hard, point, *gradient(loss, [shift])])
    assert_array_equal(mask, truth)
    assert 0.2 < truth.mean() < 0.6 and depth.max() <= 5.0 + 1e-3 and np.isfinite(slope).all()
    if run is evaluate and form == "outer":
        ends = [evaluate([loss], {shift: np.full((1, 1, 1), h)})[0].item() for h in (1e-6, -1e-6)]
        assert slope.item() == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_drawn_beyond_the_far_plane(form):
    check_far(evaluate, form)


@pytest.mark.parametrize("form", ["face", "outer"])
@pytest.mark.second_driver()
def test_nothing_is_drawn_beyond_the_far_plane_on_devices(run, form):
    check_far(run, form)


def every_face(mesh: Mesh, points: np.ndarray) -> np.ndarray:
    corners = mesh.positions[mesh.faces]
    near = [closest_point(corners, np.tile(p, (len(corners), 1))) - p for p in points]
    return np.linalg.norm(near, axis=2).min(1)


def test_distances_are_those_of_the_nearest_face():
    mesh = primitives.torus(24, 12)
    points = np.random.default_rng(0).uniform(-1.5, 1.5, (200, 3))
    truth = every_face(mesh, points)
    found = SurfaceDistance(mesh).distances(points)
    assert (found >= truth - 1e-12).all()
    assert_allclose(found, truth, rtol=1e-3, atol=1e-4)


def test_far_points_are_cut_off_and_points_keep_their_shape():
    points = np.random.default_rng(1).uniform(-3, 3, (4, 5, 3))
    surface = SurfaceDistance(primitives.icosphere(2))
    free, most = surface.distances(points), surface.distances(points, most=0.5)
    assert most.shape == (4, 5) and most.max() == 0.5
    assert_array_equal(most, np.minimum(free, 0.5))


def test_every_face_has_a_point():
    # A large face beside a small one, which few samples would miss.
    positions = np.array([[0, 0, 0], [10, 0, 0], [0, 10, 0], [0.01, 0, 5], [0, 0.01, 5], [0, 0, 5.01]])
    mesh = Mesh(positions, np.array([[0, 1, 2], [3, 4, 5]]))
    assert SurfaceDistance(mesh, 10).distances(positions[3:].mean(0)) < 1e-12


def test_points_on_the_surface_are_on_it():
    mesh = primitives.bumpy_ellipsoid(3)
    points = sample_surface(mesh, 3000, seed=2)
    found = SurfaceDistance(mesh, 200_000).distances(points)
    spacing = np.sqrt(mesh.face_areas().sum() / 200_000)
    assert points.shape == (3000, 3)
    assert found.max() < spacing and (found > 1e-9).mean() < 0.01


FOOTPRINT_SIZE = (24, 16)
POINTS = np.array([(-1, -1, 0), (1, -1, 0.4), (1, 1, 0), (-1, 1, -0.8)], float)
FACES = np.array([(0, 1, 2), (0, 2, 3)])


def test_slopes_are_how_attributes_change_on_the_screen():
    case = sc.Case(sc.to_clip(sc.camera(50, 20), POINTS), FACES)
    position, faces = case.variables()
    face = evaluate([screen.rasterize_hard(position, faces, size=FOOTPRINT_SIZE, face_count=2)])[0]
    assert set(face.ravel()) == {-1, 0, 1}
    at = screen.corners(Variable(INT, FOOTPRINT_SIZE, data=face), faces)
    values = np.random.default_rng(3).normal(size=(4, 3))
    table = Variable(VEC3, list_size(4), data=list_image(values))
    weights = screen.barycentric(position, at, FOOTPRINT_SIZE)
    slopes = barycentric_slopes(position, at, FOOTPRINT_SIZE)
    found = [screen.interpolate(table, at, w) for w in (weights, *slopes)]
    value, across, down = evaluate(found)
    centre, step = screen.pixel_centres(FOOTPRINT_SIZE), 1e-4
    for slope, axis in ((across, (1.0, 0.0)), (down, (0.0, 1.0))):
        away = tuple(step / FOOTPRINT_SIZE[1] * a for a in axis)
        places = centre + away, centre - away
        sides = (screen.barycentric(position, at, FOOTPRINT_SIZE, place=place) for place in places)
        high, low = evaluate([screen.interpolate(table, at, w) for w in sides])
        assert_allclose(slope, (high - low) / (2 * step), atol=1e-6)
        assert not slope[face < 0].any()
    assert not value[face < 0].any()
    for image in found:
        assert check_gradient(F.sum_components(image), [table, position]) < 1e-5
