"""Textures: filters, mipmaps, cube maps, stacks, and scales at which derivatives are right."""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose
from texels import WRAP, bilinear

from dressi import FLOAT, INT, VEC2, VEC3, F, GraphError, Variable, VType, gradient
from dressi.ad.check import check_gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.program import Program
from dressi.ad.ops.image.image import Resize
from dressi.ad.ops.texture.sample import mip_sizes
from dressi.vk.run.execution.executor import VulkanExecutor

RNG = np.random.default_rng(2)


@pytest.mark.parametrize("wrap", WRAP)
@pytest.mark.parametrize("batch", [1, 2])
def test_bilinear_sampling(wrap, batch):
    texture, uv = RNG.random((batch, 4, 6, 3)), RNG.uniform(-1.5, 2.5, (2, 5, 7, 2))
    out = F.sample(Variable(VEC3, (6, 4), batch, data=texture), Variable(VEC2, (7, 5), 2, data=uv), wrap=wrap)
    (found,) = evaluate([out])
    for tile in range(2):
        assert np.allclose(found[tile], bilinear(texture[tile % batch], uv[tile], wrap))


def test_texel_centres_and_corners():
    texture = Variable(FLOAT, (4, 2), data=np.arange(8.0).reshape(1, 2, 4))
    centres = (F.to_float(F.pixel_coordinates((4, 2))) + 0.5) / (4.0, 2.0)
    for filter in ("nearest", "bilinear"):
        assert np.array_equal(evaluate([F.sample(texture, centres, filter)])[0], texture.data)
    corner = Variable(VEC2, data=[0.0, 0.0])
    assert evaluate([F.sample(texture, corner, wrap="clamp")])[0] == 0
    assert evaluate([F.sample(texture, corner)])[0] == np.mean([0, 3, 4, 7])
    assert evaluate([F.sample(texture, (0.999, 0.999), "nearest")])[0] == 7


def test_the_texture_gets_the_sum_over_all_pixels():
    uv = Variable(VEC2, (16, 16), 2, data=RNG.random((2, 16, 16, 2)))
    texture = Variable(FLOAT, (4, 4), data=RNG.random((1, 4, 4)))
    (g,) = gradient(F.sum(F.sample(texture, uv)), [texture])
    assert evaluate([F.sum(g)])[0] == pytest.approx(2 * 16 * 16)


# ---- inverse UV
def jitters(n: int) -> np.ndarray:
    """The centres of n x n cells."""
    centres = (np.arange(n) + 0.5) / n
    return np.stack(np.meshgrid(centres, centres), -1).reshape(-1, 2)


def mean_gradient(texture, uv, mask, weight, points, **options) -> tuple[np.ndarray, np.ndarray]:
    """(exact gradient by the texture, mean over the jitter of the one through the table)."""
    jitter = Variable(VEC2)
    exact = gradient(F.sum(F.sample(texture, uv) * F.select(mask, weight, 0.0)), [texture])
    through = F.sample_inverse_uv(texture, uv, mask, jitter, **options)
    (g,) = gradient(F.sum(through * F.select(mask, weight, 0.0)), [texture])
    mean = np.mean([evaluate([g], {jitter: p})[0] for p in points], axis=0)
    return evaluate(exact)[0], mean


def test_inverse_uv_is_exact_in_the_mean_where_no_two_pixels_share_a_texel():
    # Pixels two texels apart, at offsets that are multiples of 1/8 texel: 8x8 jitters give the exact mean.
    x, y = np.meshgrid(np.arange(4), np.arange(4))
    place = np.stack((2 * x, 2 * y), -1) + RNG.integers(0, 8, (4, 4, 2)) / 8
    uv = Variable(VEC2, (4, 4), data=(place + 0.5)[None] / 8)
    mask = Variable(FLOAT, (4, 4), data=(RNG.random((1, 4, 4)) > 0.3).astype(float))
    weight = Variable(FLOAT, (4, 4), data=RNG.random((1, 4, 4)))
    texture = Variable(FLOAT, (8, 8), data=RNG.random((1, 8, 8)))
    for count in (True, False):
        exact, mean = mean_gradient(texture, uv, mask, weight, jitters(8), count=count)
        assert np.allclose(mean, exact, atol=1e-12) and exact.any()


def test_inverse_uv_of_a_magnified_texture_has_the_right_scale_when_claims_are_counted():
    uv = (F.to_float(F.pixel_coordinates((32, 32))) + 0.5) / 32.0
    texture = Variable(FLOAT, (8, 8), data=RNG.random((1, 8, 8)))
    smooth = 1.0 + 0.2 * uv.x
    exact, mean = mean_gradient(texture, uv, F.constant(1.0), smooth, jitters(4))
    assert np.allclose(mean, exact, rtol=0.05)
    _, paper = mean_gradient(texture, uv, F.constant(1.0), smooth, jitters(4), count=False)
    assert paper.sum() < 0.1 * exact.sum()  # one pixel of sixteen


def test_inverse_uv_table():
    uv = Variable(VEC2, (2, 1), 2, data=[[[[0.1, 0.1], [0.6, 0.6]]], [[[0.6, 0.6], [-0.1, 0.2]]]])
    mask = Variable(FLOAT, (2, 1), 2, data=[[[1.0, 0.0]], [[1.0, 1.0]]])
    (table,) = evaluate([F.inverse_uv(uv, mask, (2, 2))])
    assert table[0].tolist() == [[0, 3], [-1, 2]]
    (own,) = evaluate([F.inverse_uv(uv, mask, (2, 2), batch=2)])
    assert own.tolist() == [[[0, -1], [-1, -1]], [[-1, 3], [-1, 2]]]


def test_value_and_gradient_by_uv_are_those_of_sample():
    texture = Variable(VEC3, (6, 4), data=RNG.random((1, 4, 6, 3)))
    uv = Variable(VEC2, (5, 3), 2, data=RNG.random((2, 3, 5, 2)))
    plain, through = F.sample(texture, uv), F.sample_inverse_uv(texture, uv, 1.0, (0.3, 0.6))
    a, b = evaluate([plain, through])
    assert np.array_equal(a, b)
    a, b = (evaluate(gradient(F.sum(v.x * v.y), [uv]))[0] for v in (plain, through))
    assert np.allclose(a, b, atol=1e-12)


MIP_RNG = np.random.default_rng(5)


def shrunk(x: np.ndarray, axis: int, count: int) -> np.ndarray:
    """Along one axis, the means of what ``count`` texels cover."""
    fine = np.repeat(x, count, axis)  # each texel in as many pieces as there will be texels
    return np.stack([part.mean(axis) for part in np.split(fine, count, axis)], axis)


def level_of(texture: np.ndarray, k: int, even: bool) -> np.ndarray:
    size = (texture.shape[1], texture.shape[0])
    for width, height in mip_sizes(size, even)[1 : k + 1]:
        texture = shrunk(shrunk(texture, 0, height), 1, width)
    return texture


@pytest.mark.parametrize("wrap", WRAP)
@pytest.mark.parametrize("size", [(8, 8), (7, 5), (1, 6), (9, 1), (1, 1)])
def test_trilinear_sampling_mixes_two_levels(size, wrap):
    texture, uv = MIP_RNG.random((1, size[1], size[0], 3)), MIP_RNG.uniform(-1.5, 2.5, (1, 5, 7, 2))
    level = MIP_RNG.uniform(-1, 5, (1, 5, 7))
    out = F.sample(Variable.of(texture, VEC3), Variable.of(uv, VEC2), "trilinear", wrap, level=level)
    (found,) = evaluate([out])
    even = wrap == "sphere"
    last = len(mip_sizes(size, even)) - 1
    for place, k in np.ndenumerate(np.clip(level, 0, last)):
        lower = int(k)
        fine, coarse = (
            bilinear(level_of(texture[0], min(n, last), even), uv[place], wrap) for n in (lower, lower + 1)
        )
        assert np.allclose(found[place], fine + (coarse - fine) * (k - lower)), (place, k)


def test_level_of_a_footprint_is_that_of_its_longest_axis():
    turn = np.array([[0.8, -0.6], [0.6, 0.8]])
    jacobian = turn @ np.diag([8.0, 0.5]) @ turn.T / 64  # columns: uv by a pixel across, and down
    across, down = (Variable(VEC2, data=column) for column in jacobian.T)
    level = F.mip_level(across, down, (64, 64))
    assert evaluate([level])[0].item() == pytest.approx(3.0)
    assert check_gradient(level, [across, down]) < 1e-5
    assert np.isfinite(evaluate([F.mip_level((0.0, 0.0), (0.0, 0.0), (64, 64))])[0])


def test_steps_of_a_pyramid_need_no_loop(device):
    """Halving by area, doubling bilinearly, and the transposes of both, in images as small as one texel."""
    wanted: dict[str, Variable] = {}
    for width, height in ((6, 4), (1, 1), (2, 1), (1, 3), (5, 8)):
        fine = Variable(VEC3, (2 * width, 2 * height), 2, data=MIP_RNG.random((2, 2 * height, 2 * width, 3)))
        coarse = Variable(VEC3, (width, height), 2, data=MIP_RNG.random((2, height, width, 3)))
        halved, doubled = F.resize(fine, coarse.size, "area"), F.resize(coarse, fine.size)
        wanted |= {f"halved to {width}x{height}": halved, f"doubled from {width}x{height}": doubled}
        (wanted[f"gradient of halving to {width}x{height}"],) = gradient(F.sum(F.dot(halved, coarse)), [fine])
        (wanted[f"gradient of doubling {width}x{height}"],) = gradient(F.sum(F.dot(doubled, fine)), [coarse])
    assert not any(v.creator.iterations for v in wanted.values() if isinstance(v.creator, Resize))
    truth = dict(zip(wanted, evaluate(list(wanted.values())), strict=True))
    with VulkanExecutor(Program(wanted), device) as run:
        run.run()
        run.wait()
        for name, v in wanted.items():
            np.testing.assert_allclose(run.recv(v), truth[name], atol=1e-5, err_msg=name)


DIRECTION_RNG = np.random.default_rng(11)

# Vulkan's table: (major axis and its sign) -> axes and signs of s_c and t_c.
FACES = [
    ((0, 1), (2, -1), (1, -1)),
    ((0, -1), (2, 1), (1, -1)),
    ((1, 1), (0, 1), (2, 1)),
    ((1, -1), (0, 1), (2, -1)),
    ((2, 1), (0, 1), (1, -1)),
    ((2, -1), (0, -1), (1, -1)),
]


def point_of(face: int, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """(..., 3): where (u, v) of a face lies on the cube from -1 to 1."""
    (major, sign), (s, s_sign), (t, t_sign) = FACES[face]
    point = np.zeros((*np.shape(u), 3))
    point[..., major] = sign
    point[..., s], point[..., t] = s_sign * (2 * u - 1), t_sign * (2 * v - 1)
    return point


def directions(points: np.ndarray) -> Variable:
    return Variable(VEC3, (len(points), 1), data=points.reshape(1, 1, -1, 3))


def cube_map(width: int) -> Variable:
    return Variable(FLOAT, (width, 6 * width), data=DIRECTION_RNG.random((1, 6 * width, width)))


SAMPLES = {
    "bilinear": lambda t, d: F.sample_cube(t, d),
    "trilinear": lambda t, d: F.sample_cube(t, d, "trilinear", level=0.6),
}


@pytest.mark.parametrize("face", range(6))
def test_faces_are_turned_as_in_vulkan(face):
    cube = cube_map(4)
    j, i = np.mgrid[:4, :4]
    centres = point_of(face, (i + 0.5) / 4, (j + 0.5) / 4).reshape(-1, 3) * 3
    inside = point_of(face, DIRECTION_RNG.uniform(0.13, 0.87, 50), DIRECTION_RNG.uniform(0.13, 0.87, 50))
    values = cube.data[0, 4 * face : 4 * face + 4]
    for filter in ("nearest", "bilinear"):
        found = evaluate([F.sample_cube(cube, directions(centres), filter)])[0]
        assert_allclose(found.ravel(), values.ravel(), atol=1e-12)
    found, uv = evaluate([F.sample_cube(cube, directions(inside)), F.cube_uv(directions(inside))])
    expected = [bilinear(values[..., None], p, "clamp").item() for p in uv[0, 0]]
    assert_allclose(found.ravel(), expected, atol=1e-12)


def edges() -> list[tuple[np.ndarray, np.ndarray]]:
    """For each of the twelve edges points on it, and the direction along the cube's surface across it."""
    found = []
    for axis in range(3):
        for a in (-1.0, 1.0):
            for b in (-1.0, 1.0):
                p, across = np.zeros((41, 3)), np.zeros(3)
                p[:, axis] = np.linspace(-1, 1, 41)
                p[:, (axis + 1) % 3], p[:, (axis + 2) % 3] = a, b
                across[(axis + 1) % 3], across[(axis + 2) % 3] = a, -b
                found.append((p, across))
    return found


@pytest.mark.parametrize("filter", SAMPLES)
@pytest.mark.parametrize("width", [1, 2, 5, 8])
def test_cube_maps_are_continuous_over_every_edge_and_corner(filter, width):
    cube = cube_map(width)
    for points, across in edges():
        sides = [directions(points + sign * 1e-7 * across) for sign in (-1, 1)]
        first, second = evaluate([F.cube_face(d) for d in sides])
        assert (first != second)[..., 1:-1].all()
        a, b = evaluate([SAMPLES[filter](cube, d) for d in sides])
        assert np.abs(a - b).max() < 1e-5


def test_three_texels_share_a_corner():
    cube = cube_map(4)
    around = np.array([1.0, 1.0, 1.0]) + 1e-9 * DIRECTION_RNG.normal(size=(12, 3))
    found, faces = evaluate([F.sample_cube(cube, directions(around)), F.cube_face(directions(around))])
    assert set(faces.ravel()) == {0, 2, 4}
    data = cube.data[0].reshape(6, 4, 4)
    assert_allclose(found, np.mean([data[0, 0, 0], data[2, 3, 3], data[4, 0, 3]]), atol=1e-7)


def test_a_texel_beyond_an_edge_is_the_next_one_on_the_cube():
    """Reference: the point one texel beyond the edge, folded over it, and the face and texel that it lies
    in."""
    width = 5
    cube = Variable(FLOAT, (width, 6 * width), data=np.arange(6.0 * width**2).reshape(1, 6 * width, width))
    along = (np.arange(width) + 0.5) / width
    for face in range(6):
        for u, v in ((0.0, None), (1.0, None), (None, 0.0), (None, 1.0)):
            s, t = (along if x is None else np.full(width, x) for x in (u, v))
            on_edge = point_of(face, s, t)
            value = evaluate([F.sample_cube(cube, directions(on_edge * 1.0))])[0].ravel()
            # Half of the texel inside, half of the one beyond: both are nearest at a small step to either
            # side.
            axis = FACES[face][0][0]
            outer = np.isclose(np.abs(on_edge), 1).all(0) & (np.arange(3) != axis)
            inward, beyond = on_edge.copy(), on_edge.copy()
            inward[:, outer] *= 1 - 0.5 / width
            beyond[:, axis] *= 1 - 0.5 / width
            pair = evaluate([F.sample_cube(cube, directions(p), "nearest") for p in (inward, beyond)])
            assert_allclose(value, (pair[0] + pair[1]).ravel() / 2, atol=1e-9)


# ---- equirectangular maps
def test_directions_of_an_equirectangular_map():
    d = np.array([(0, 0, -1), (1, 0, 0), (-1, 0, 0), (0, 3, 0), (0, -2, 0), (1, 1, -1)], float)
    uv = evaluate([F.sphere_uv(directions(d))])[0][0, 0]
    latitude = np.arccos(1 / np.sqrt(3)) / np.pi
    expected = [(0.5, 0.5), (0.75, 0.5), (0.25, 0.5), (0.5, 0), (0.5, 1), (0.625, latitude)]
    assert_allclose(uv, expected, atol=1e-9)


SPHERE = {
    "bilinear": lambda t, d: F.sample_sphere(t, d),
    "trilinear": lambda t, d: F.sample_sphere(t, d, "trilinear", level=1.3),
}


@pytest.mark.parametrize("filter", SPHERE)
@pytest.mark.parametrize("size", [(16, 8), (12, 6), (6, 5), (2, 1)])
def test_equirectangular_maps_are_continuous_over_the_seam_and_the_poles(filter, size):
    sky = Variable(FLOAT, size, data=DIRECTION_RNG.random((1, size[1], size[0])))
    height = np.linspace(-2, 2, 31)
    # +Z, where u jumps from 0 to 1
    seam = [np.stack([np.full(31, x), height, np.ones(31)], -1) for x in (-1e-8, 1e-8)]
    turn = np.linspace(0, np.pi, 41)
    away = 1e-8 * np.stack([np.cos(turn), np.zeros(41), np.sin(turn)], -1)
    paths = [seam, *([pole + away, pole - away] for pole in ((0.0, 1.0, 0.0), (0.0, -1.0, 0.0)))]
    for first, second in paths:
        a, b = evaluate([SPHERE[filter](sky, directions(d)) for d in (first, second)])
        assert np.abs(a - b).max() < 1e-6


def test_level_of_a_direction_is_the_angle_of_a_pixel():
    for scale in (1.0, 7.0):
        d = DIRECTION_RNG.normal(size=3)
        n = d / np.linalg.norm(d)
        t = np.cross(n, (0.3, -0.4, 0.5))
        t /= np.linalg.norm(t)
        # A pixel of 1/16 by 1/64 quarter turns; changes of length do not matter.
        across = (t * np.pi / 32 + 0.3 * n) * scale
        down = (np.cross(n, t) * np.pi / 128 - 0.2 * n) * scale
        level = F.direction_level(*(Variable(VEC3, data=x) for x in (n * scale, across, down)), 64)
        assert evaluate([level])[0].item() == pytest.approx(2.0)


SIZE = (24, 24)
SCALE_RATIOS = (1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0)
"""Pixels a texel."""
PIXELS = np.moveaxis(np.mgrid[: SIZE[1], : SIZE[0]][::-1], 0, -1).astype(float)

Scene = tuple[Variable, list[Variable]]
"""A filtered picture, and the leaves that it can be differentiated by."""


def leaf(name: str, vtype: VType, values: np.ndarray) -> Variable:
    size = (values.shape[1], values.shape[0])
    return Variable(vtype, size, name=name, data=values[None].astype(np.float32))


class Leaves:
    """Leaves for one ratio; a rotated grid of pixels, moved at random so that no two pixels are alike."""

    def __init__(self, ratio: float, texels: tuple[int, int], quarter: int = 0):
        self.ratio, self.texels, self.quarter = ratio, texels, quarter
        self.rng = np.random.default_rng(int(ratio * 64))
        turned = PIXELS @ np.array([[0.96, 0.28], [-0.28, 0.96]])
        self.pixel = turned + self.rng.uniform(-0.2, 0.2, turned.shape)

    def texture(self) -> Variable:
        return leaf("texture", VEC3, self.rng.random((self.texels[1], self.texels[0], 3)))

    def uv(self, layers: int = 1) -> Variable:
        extent = (self.texels[0], self.texels[1] / layers)
        return leaf("uv", VEC2, 0.31 + self.pixel / (self.ratio * np.array(extent)))

    def direction(self) -> Variable:
        """Along great circles; a texel is a quarter turn by ``quarter``."""
        a, b = np.moveaxis(0.4 + self.pixel * (0.5 * np.pi / (self.quarter * self.ratio)), -1, 0)
        length = self.rng.uniform(0.8, 1.2, a.shape)
        point = np.stack([np.cos(b) * np.sin(a), np.sin(b), -np.cos(b) * np.cos(a)], -1) * length[..., None]
        turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
        return leaf("direction", VEC3, point @ turn)

    def level(self) -> Variable:
        return leaf("level", FLOAT, -np.log2(self.ratio) + self.rng.uniform(0.1, 0.9, SIZE[::-1]))

    def slopes(self) -> tuple[Variable, Variable]:
        """A pixel three times as long as wide, at an angle."""
        wide = np.array([[0.8, 0.6], [-0.2, 0.27]]) / self.ratio
        wide = wide * self.rng.uniform(0.9, 1.1, (*SIZE[::-1], 1, 1)) / self.texels
        return leaf("across", VEC2, wide[..., 0, :]), leaf("down", VEC2, wide[..., 1, :])


def nearest(ratio: float) -> Scene:
    x = Leaves(ratio, (22, 18))
    texture = x.texture()
    return F.sample(texture, x.uv(), "nearest", tolerance=0), [texture]


def scale_bilinear(ratio: float) -> Scene:
    x = Leaves(ratio, (22, 18))
    texture, uv = x.texture(), x.uv()
    return F.sample(texture, uv, wrap="mirror"), [texture, uv]


def trilinear(ratio: float) -> Scene:
    x = Leaves(ratio, (22, 18))
    texture, uv, level = x.texture(), x.uv(), x.level()
    return F.sample(texture, uv, "trilinear", level=level), [texture, uv, level]


def anisotropic(ratio: float) -> Scene:
    x = Leaves(ratio, (22, 18))
    texture, uv, (across, down) = x.texture(), x.uv(), x.slopes()
    y = F.sample(texture, uv, "anisotropic", across=across, down=down, taps=4)
    return y, [texture, uv, across, down]


def stack(ratio: float) -> Scene:
    x = Leaves(ratio, (16, 36))
    texture, uv, level = x.texture(), x.uv(3), x.level()
    layer = Variable(INT, SIZE, data=x.rng.integers(0, 3, (1, *SIZE[::-1])))
    return F.sample(texture, uv, "trilinear", level=level, layers=3, layer=layer), [texture, uv, level]


def cube(ratio: float) -> Scene:
    x = Leaves(ratio, (12, 72), quarter=12)
    texture, direction, level = x.texture(), x.direction(), x.level()
    return F.sample_cube(texture, direction, "trilinear", level=level), [texture, direction, level]


def sphere(ratio: float) -> Scene:
    x = Leaves(ratio, (40, 20), quarter=10)
    texture, direction, level = x.texture(), x.direction(), x.level()
    return F.sample_sphere(texture, direction, "trilinear", level=level), [texture, direction, level]


SCENES = {scene.__name__: scene for scene in (nearest, trilinear, anisotropic, stack, cube, sphere)}
SCENES["bilinear"] = scale_bilinear


@pytest.mark.parametrize("name", SCENES)
def test_gradients_meet_central_differences_at_scales(name: str):
    for ratio in (SCALE_RATIOS[0], SCALE_RATIOS[2], SCALE_RATIOS[-1]):
        y, leaves = SCENES[name](ratio)
        assert check_gradient(y, leaves) < 1e-5, ratio


@cache
def truths(name: str) -> tuple[list[Variable], list[Variable], list]:
    """The slopes of a sum of squares, their leaves, and of each ratio the data of the leaves and what the
    oracle finds."""
    y, leaves = SCENES[name](1.0)
    rest = y - (0.2, 0.4, 0.6)
    slopes, steps = gradient(F.sum(F.dot(rest, rest)), leaves), []
    for ratio in SCALE_RATIOS:
        data = {x: other.data for x, other in zip(leaves, SCENES[name](ratio)[1], strict=True)}
        steps.append((ratio, data, evaluate(slopes, data)))
    return slopes, leaves, steps


@pytest.mark.release("nearest", "bilinear", "anisotropic", "stack", "cube", "sphere")
@pytest.mark.parametrize("name", SCENES)
@pytest.mark.second_driver("nearest", "bilinear", "trilinear", "cube")
def test_gradients_on_a_device_meet_the_oracle_at_scales(device, name: str):
    """One plan of one graph gets the leaves of each ratio. The loss is a sum of squares."""
    slopes, leaves, steps = truths(name)
    wanted = {x.name: g for x, g in zip(leaves, slopes, strict=True)}
    with VulkanExecutor(Program(wanted), device) as run:
        for ratio, data, expected in steps:
            for x, values in data.items():
                run.send(x, values)
            run.run()
            run.wait()
            for (what, g), truth in zip(wanted.items(), expected, strict=True):
                length, error = np.linalg.norm(truth), np.linalg.norm(run.recv(g) - truth)
                bound = 1e-4 if what == "texture" else 1e-3
                assert error <= bound * length, (what, ratio, error / length)


# ---- anisotropic sampling
STACK_RNG = np.random.default_rng(8)
TEXTURE = Variable(VEC3, (13, 8), data=STACK_RNG.random((1, 8, 13, 3)))


def value(uv, across, down, taps: int) -> np.ndarray:
    y = F.sample(TEXTURE, uv, "anisotropic", across=across, down=down, taps=taps)
    return evaluate([y])[0].ravel()


@pytest.mark.parametrize("taps", [1, 4, 7, 16])
def test_taps_lie_along_the_longest_axis(taps):
    for _ in range(10):
        jacobian, uv = STACK_RNG.normal(size=(2, 2)) * 2, STACK_RNG.random(2)
        axes, (s1, s2), _ = np.linalg.svd(jacobian)
        d = axes[:, 0] * np.sqrt(s1**2 - s2**2) / (13, 8)
        level = np.log2(np.sqrt(s2**2 + (s1**2 - s2**2) / taps**2))
        expected = np.mean(
            [
                evaluate([F.sample(TEXTURE, tuple(uv + t * d), "trilinear", level=level)])[0].ravel()
                for t in (np.arange(taps) + 0.5) / taps - 0.5
            ],
            axis=0,
        )
        across, down = (tuple(column / (13, 8)) for column in jacobian.T)
        assert_allclose(value(tuple(uv), across, down, taps), expected, atol=1e-12)


def test_a_round_footprint_is_trilinear_and_a_point_is_bilinear():
    round_, still = ((3.0 / 13, 0.0), (0.0, 3.0 / 8)), ((0.0, 0.0), (0.0, 0.0))
    trilinear = F.sample(TEXTURE, (0.3, 0.6), "trilinear", level=np.log2(3.0))
    assert_allclose(value((0.3, 0.6), *round_, 8), evaluate([trilinear])[0].ravel(), atol=1e-9)
    bilinear = F.sample(TEXTURE, (0.3, 0.6))
    assert_allclose(value((0.3, 0.6), *still, 8), evaluate([bilinear])[0].ravel(), atol=1e-9)
    leaves = [Variable(VEC2, data=x) for x in ((0.3, 0.6), *still)]
    y = F.sample(TEXTURE, leaves[0], "anisotropic", across=leaves[1], down=leaves[2])
    assert all(np.isfinite(g).all() for g in evaluate(gradient(F.sum(y.x), leaves)))


@pytest.mark.release
@pytest.mark.one_driver
def test_sixteen_taps_of_one_texture_are_one_scatter(device):
    leaves = [
        Variable(vtype, size, data=STACK_RNG.random((1, size[1], size[0], vtype.components)) * scale)
        for vtype, size, scale in ((VEC3, (24, 24), 1), (VEC2, (24, 24), 1), (VEC2, (24, 24), 0.3))
    ]
    texture, uv, across = leaves
    y = F.sample(texture, uv, "anisotropic", across=across, down=(0.01, 0.02), taps=16)
    wanted = dict(zip("ABC", gradient(F.sum(F.dot(y, y)), leaves), strict=True))
    with VulkanExecutor(Program(wanted), device) as run:
        run.run()
        run.wait()
        for g, truth in zip(wanted.values(), evaluate(list(wanted.values())), strict=True):
            assert np.linalg.norm(run.recv(g) - truth) < 1e-4 * np.linalg.norm(truth)


# ---- stacks
@pytest.mark.parametrize("wrap", ["repeat", "clamp", "mirror", "sphere"])
@pytest.mark.parametrize("size", [(4, 4), (6, 5), (2, 1)])
def test_layers_of_a_stack_are_textures_of_their_own(size, wrap):
    width, height = size
    stack = Variable(VEC2, (width, 3 * height), data=STACK_RNG.random((1, 3 * height, width, 2)))
    uv = Variable(VEC2, (6, 4), data=STACK_RNG.uniform(-1.5, 2.5, (1, 4, 6, 2)))
    number = STACK_RNG.integers(-1, 4, (1, 4, 6))
    layer = Variable(INT, (6, 4), data=number)
    level = Variable(FLOAT, (6, 4), data=STACK_RNG.uniform(-0.5, 3, (1, 4, 6)))
    slopes = {
        "across": Variable(VEC2, (6, 4), data=STACK_RNG.normal(size=(1, 4, 6, 2)) * 0.3),
        "down": (0.1, 0.05),
    }
    options = {"nearest": {}, "bilinear": {}, "trilinear": {"level": level}, "anisotropic": slopes}
    for filter, option in options.items():
        y = F.sample(stack, uv, filter, wrap, layers=3, layer=layer, **option)
        (g,) = gradient(F.sum(y.x + y.y), [stack])
        found, slope = evaluate([y, g])
        assert slope.sum() == pytest.approx(2 * number.size)
        for k in range(3):
            single = Variable(VEC2, size, data=stack.data[:, k * height : (k + 1) * height])
            expected = evaluate([F.sample(single, uv, filter, wrap, **option)])[0]
            here = np.clip(number, 0, 2) == k
            assert_allclose(found[here], expected[here], atol=1e-12)
            assert slope[:, k * height : (k + 1) * height].sum() == pytest.approx(2 * here.sum())


X_DIRECTION = (1.0, 0.0, 0.0)
STACK = Variable(FLOAT, (4, 12))
UV = (0.5, 0.5)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: F.sample(TEXTURE, UV, "trilinear"), "filter 'trilinear' needs level="),
        (lambda: F.sample(TEXTURE, UV, level=1.0), "filter 'bilinear' has no level="),
        (lambda: F.sample(TEXTURE, UV, "anisotropic"), "filter 'anisotropic' needs across="),
        (lambda: F.sample(TEXTURE, UV, "anisotropic", across=UV, down=UV, taps=17), "taps are at most 16"),
        (lambda: F.sample(TEXTURE, UV, "cubic"), "filter is one of"),
        (lambda: F.sample(TEXTURE, UV, wrap="border"), "wrap is one of"),
        (lambda: F.sample(STACK, UV, layers=3), "needs both layers="),
        (lambda: F.sample(STACK, UV, layers=5, layer=0), "a height that 5 divides, not 12"),
        (lambda: F.sample(STACK, UV, layers=3, layer=Variable(VEC2)), "layer is INT, or FLOAT"),
        (lambda: F.sample_cube(Variable(FLOAT, (4, 4)), X_DIRECTION), "six square faces below each other"),
        (lambda: F.sample_cube(cube_map(2), X_DIRECTION, "trilinear"), "filter 'trilinear' needs level="),
        (lambda: F.sample_cube(cube_map(2), X_DIRECTION, "cubic"), "filter is one of"),
        (lambda: F.sample_sphere(Variable(FLOAT, (5, 3)), X_DIRECTION), "even width"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(GraphError, match=message):
        call()
