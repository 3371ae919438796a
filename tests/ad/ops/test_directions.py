"""Cube maps and equirectangular maps: against references in NumPy, and continuous over edges, corners and poles."""

import numpy as np
import pytest
from texels import bilinear

from dressi.ad import functional as F
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.types import FLOAT, VEC3
from dressi.errors import GraphError

RNG = np.random.default_rng(11)

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
    return Variable(FLOAT, (width, 6 * width), data=RNG.random((1, 6 * width, width)))


SAMPLES = {
    "bilinear": lambda t, d: F.sample_cube(t, d),
    "trilinear": lambda t, d: F.sample_cube(t, d, "trilinear", level=0.6),
}


@pytest.mark.parametrize("face", range(6))
def test_faces_are_turned_as_in_vulkan(face):
    cube = cube_map(4)
    j, i = np.mgrid[:4, :4]
    centres = point_of(face, (i + 0.5) / 4, (j + 0.5) / 4).reshape(-1, 3) * 3
    inside = point_of(face, RNG.uniform(0.13, 0.87, 50), RNG.uniform(0.13, 0.87, 50))
    values = cube.data[0, 4 * face : 4 * face + 4]
    for filter in ("nearest", "bilinear"):
        found = evaluate([F.sample_cube(cube, directions(centres), filter)])[0]
        np.testing.assert_allclose(found.ravel(), values.ravel(), atol=1e-12)
    found, uv = evaluate([F.sample_cube(cube, directions(inside)), F.cube_uv(directions(inside))])
    expected = [bilinear(values[..., None], p, "clamp").item() for p in uv[0, 0]]
    np.testing.assert_allclose(found.ravel(), expected, atol=1e-12)


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
    around = np.array([1.0, 1.0, 1.0]) + 1e-9 * RNG.normal(size=(12, 3))
    found, faces = evaluate([F.sample_cube(cube, directions(around)), F.cube_face(directions(around))])
    assert set(faces.ravel()) == {0, 2, 4}
    data = cube.data[0].reshape(6, 4, 4)
    np.testing.assert_allclose(found, np.mean([data[0, 0, 0], data[2, 3, 3], data[4, 0, 3]]), atol=1e-7)


def test_a_texel_beyond_an_edge_is_the_next_one_on_the_cube():
    """Reference: the point one texel beyond the edge, folded over it, and the face and texel that it lies in."""
    width = 5
    cube = Variable(FLOAT, (width, 6 * width), data=np.arange(6.0 * width**2).reshape(1, 6 * width, width))
    along = (np.arange(width) + 0.5) / width
    for face in range(6):
        for u, v in ((0.0, None), (1.0, None), (None, 0.0), (None, 1.0)):
            s, t = (along if x is None else np.full(width, x) for x in (u, v))
            on_edge = point_of(face, s, t)
            value = evaluate([F.sample_cube(cube, directions(on_edge * 1.0))])[0].ravel()
            # Half of the texel inside, half of the one beyond: both are nearest at a small step to either side.
            axis = FACES[face][0][0]
            outer = np.isclose(np.abs(on_edge), 1).all(0) & (np.arange(3) != axis)
            inward, beyond = on_edge.copy(), on_edge.copy()
            inward[:, outer] *= 1 - 0.5 / width
            beyond[:, axis] *= 1 - 0.5 / width
            pair = evaluate([F.sample_cube(cube, directions(p), "nearest") for p in (inward, beyond)])
            np.testing.assert_allclose(value, (pair[0] + pair[1]).ravel() / 2, atol=1e-9)


def test_cube_maps_of_other_shapes_are_refused():
    with pytest.raises(GraphError, match="six square faces below each other"):
        F.sample_cube(Variable(FLOAT, (4, 4)), (1.0, 0.0, 0.0))
    with pytest.raises(GraphError, match="filter 'trilinear' needs level="):
        F.sample_cube(cube_map(2), (1.0, 0.0, 0.0), "trilinear")
    with pytest.raises(GraphError, match="filter is one of"):
        F.sample_cube(cube_map(2), (1.0, 0.0, 0.0), "cubic")


# ---- equirectangular maps
def test_directions_of_an_equirectangular_map():
    d = np.array([(0, 0, -1), (1, 0, 0), (-1, 0, 0), (0, 3, 0), (0, -2, 0), (1, 1, -1)], float)
    uv = evaluate([F.sphere_uv(directions(d))])[0][0, 0]
    latitude = np.arccos(1 / np.sqrt(3)) / np.pi
    expected = [(0.5, 0.5), (0.75, 0.5), (0.25, 0.5), (0.5, 0), (0.5, 1), (0.625, latitude)]
    np.testing.assert_allclose(uv, expected, atol=1e-9)


SPHERE = {
    "bilinear": lambda t, d: F.sample_sphere(t, d),
    "trilinear": lambda t, d: F.sample_sphere(t, d, "trilinear", level=1.3),
}


@pytest.mark.parametrize("filter", SPHERE)
@pytest.mark.parametrize("size", [(16, 8), (12, 6), (6, 5), (2, 1)])
def test_equirectangular_maps_are_continuous_over_the_seam_and_the_poles(filter, size):
    sky = Variable(FLOAT, size, data=RNG.random((1, size[1], size[0])))
    height = np.linspace(-2, 2, 31)
    seam = [
        np.stack([np.full(31, x), height, np.ones(31)], -1) for x in (-1e-8, 1e-8)
    ]  # +Z, where u jumps from 0 to 1
    turn = np.linspace(0, np.pi, 41)
    away = 1e-8 * np.stack([np.cos(turn), np.zeros(41), np.sin(turn)], -1)
    paths = [seam, *([pole + away, pole - away] for pole in ((0.0, 1.0, 0.0), (0.0, -1.0, 0.0)))]
    for first, second in paths:
        a, b = evaluate([SPHERE[filter](sky, directions(d)) for d in (first, second)])
        assert np.abs(a - b).max() < 1e-6
    with pytest.raises(GraphError, match="even width"):
        F.sample_sphere(Variable(FLOAT, (5, 3)), (1.0, 0.0, 0.0))


def test_level_of_a_direction_is_the_angle_of_a_pixel():
    for scale in (1.0, 7.0):
        d = RNG.normal(size=3)
        n = d / np.linalg.norm(d)
        t = np.cross(n, (0.3, -0.4, 0.5))
        t /= np.linalg.norm(t)
        # A pixel of 1/16 by 1/64 quarter turns; changes of length do not matter.
        across = (t * np.pi / 32 + 0.3 * n) * scale
        down = (np.cross(n, t) * np.pi / 128 - 0.2 * n) * scale
        level = F.direction_level(*(Variable(VEC3, data=x) for x in (n * scale, across, down)), 64)
        assert evaluate([level])[0].item() == pytest.approx(2.0)
