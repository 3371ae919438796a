"""Surfaces: barycentric coordinates, hard raster, texture gradients, normals and shading."""

import brute_force
import numpy as np
import pytest
import soft_cases as sc

from dressi.ad import functional as F
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.transform.gradient import gradient
from dressi.ad.types import FLOAT, INT, IVEC3, VEC2, VEC3, VEC4, list_image, list_size
from dressi.errors import InputError
from dressi.render.shading import lambert
from dressi.render.surface import normals as surface_normals
from dressi.render.surface import projection, screen
from dressi.render.surface.texturing import texture_colour, texture_uv

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
    x, y = np.meshgrid(
        (np.arange(SIZE[0]) + 0.5) / SIZE[0] * 2 - 1, (np.arange(SIZE[1]) + 0.5) / SIZE[1] * 2 - 1
    )
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
    np.testing.assert_allclose(found[0][covered], expected[covered], atol=1e-9)
    np.testing.assert_allclose(total[0], covered, atol=1e-12)
    assert not found[0][~covered].any()
    assert (covered == (np.abs(place) <= 1).all(-1)).all()


def test_clamped_weights_stay_on_the_face():
    case = sc.cases()["acute"]
    position, drawn = sc.soft(case, layers=1)
    at = screen.corners(drawn.layers[0].face, case.variables()[1])
    weights, dist, face = evaluate(
        [screen.barycentric(position, at, sc.SIZE, clamp=True), drawn.layers[0].dist, drawn.layers[0].face]
    )
    there = face >= 0
    assert (weights >= 0).all() and (dist[there] < 0).any()
    np.testing.assert_allclose(weights.sum(-1)[there], 1)


def test_weights_have_the_gradient_of_their_positions():
    case, _ = plane()
    position, faces, face, _ = seen(case)
    fixed = Variable(INT, SIZE, data=evaluate([face])[0])
    weights = screen.barycentric(position, screen.corners(fixed, faces), SIZE)
    assert check_gradient(weights, [position]) < 1e-5
    clamped = screen.barycentric(position, screen.corners(fixed, faces), SIZE, clamp=True)
    assert check_gradient(clamped, [position]) < 1e-5


@pytest.mark.one_driver
def test_slivers_are_not_extrapolated_to_centres_beside_them():
    """A face a thousandth of a pixel wide, beside whose centres drivers may see it: the weights stay near the face."""
    corners = [(-0.8, -0.8, 0.5), (-0.8 + 1e-3 / 8, -0.8, 0.5), (0.8, 0.9, 0.5)]
    position, faces = sc.flat(corners, [(0, 1, 2)]).variables()
    face = Variable(INT, (16, 16), data=np.zeros((1, 16, 16), int))
    weights = screen.barycentric(position, screen.corners(face, faces), (16, 16))
    value, slope = evaluate(
        [weights, *gradient(F.sum(F.dot(weights, F.constant((1.0, 2.0, 3.0)))), [position])]
    )
    assert value.min() >= -screen.OUTSIDE and value.max() <= 1 + 2 * screen.OUTSIDE
    np.testing.assert_allclose(value.sum(-1), 1, atol=1e-9)
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
    np.testing.assert_allclose(vertex[0, 0], [(0, 0, 0, 0), (1.5, 1, 0.25, 2), (2, 1, -0.1, 1), (0, 0, 0, 0)])
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
    np.testing.assert_allclose(slope[0], expected, atol=1e-5 * np.abs(expected).max())
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
    normals = surface_normals.vertex_normals(position, table)
    (found,) = evaluate([normals])
    np.testing.assert_allclose((found[0, 0] * points).sum(-1), 1, atol=2e-3)
    assert check_gradient(normals, [position]) < 1e-5
    face = Variable(INT, (3, 1), data=np.array([[[0, 5, -1]]]))
    normal = surface_normals.flat_normal(position, screen.corners(face, table))
    lit = lambert.lambert(F.constant((0.5, 1.0, 0.25)), normal, (0.0, 0.0, 2.0), 3.0, (0.1, 0.0, 0.0))
    plain = lambert.unlit(F.constant((0.5, 1.0, 0.25)), face)
    flat, image, colour = evaluate([normal, lit, plain])
    a, b, c = (points[faces[:, i]] for i in range(3))
    cross = np.cross(b - a, c - a)
    cross /= np.linalg.norm(cross, axis=1, keepdims=True)
    np.testing.assert_allclose(flat[0, 0], [cross[0], cross[5], (0, 0, 0)], atol=1e-12)
    cosine = np.maximum(flat[0, 0, :, 2:], 0)
    np.testing.assert_allclose(image[0, 0], (3 * cosine + (0.1, 0, 0)) * (0.5, 1, 0.25), atol=1e-12)
    np.testing.assert_allclose(colour[0, 0], [(0.5, 1, 0.25), (0.5, 1, 0.25), (0, 0, 0)])
    assert plain.vtype is VEC3 and FLOAT is not VEC3
