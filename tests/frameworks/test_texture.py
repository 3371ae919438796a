"""Texture: every filter and boundary against a plain reference, and gradients against its differences, in float64."""

import numpy as np
import pytest
from clip_scenes import bilinear, halved, texel_at

import dressi.numpy as dn
from dressi.errors import InputError

pytestmark = pytest.mark.one_driver  # graphs of Functions that are tested on every driver


def places(random: np.random.Generator, shape=(1, 6, 7)) -> np.ndarray:
    """uv inside and outside of [0, 1], no nearer to a kink of the filters than a tenth of a texel of 8 and of its mips."""
    texel = random.integers(-5, 13, (*shape, 2)) + random.choice([0.15, 0.35, 0.65, 0.85], (*shape, 2))
    return texel / 8


def mipped(texture, uv, level, boundary, between):
    """Mips of (H, W, C) at levels (...)."""
    levels = [texture]
    while min(levels[-1].shape[:2]) > 1:
        levels.append(halved(levels[-1]))
    level = np.clip(level, 0, len(levels) - 1)
    values = np.stack([bilinear(image, uv, boundary) for image in levels])
    at = lambda k: np.take_along_axis(values, k[None, ..., None], 0)[0]  # noqa: E731
    if not between:
        return at(np.floor(level + 0.5).astype(int))
    low = np.minimum(np.floor(level).astype(int), len(levels) - 2)
    share = (level - low)[..., None]
    return at(low) * (1 - share) + at(low + 1) * share


def footprint_level(uv_da, size):
    """log2 of the longest axis of the pixel's footprint in texels, by the singular values of its Jacobian."""
    jacobian = uv_da.reshape(*uv_da.shape[:-1], 2, 2) * size
    return np.log2(np.linalg.svd(jacobian, compute_uv=False)[..., 0])


@pytest.mark.vk
@pytest.mark.parametrize("boundary", ["wrap", "clamp", "zero"])
def test_filters_without_mips(on_device, random, boundary):
    texture, uv = random.normal(size=(1, 8, 8, 5)), places(random)
    value, pull = dn.texture(texture, uv, boundary_mode=boundary)
    assert np.abs(value[0] - bilinear(texture[0], uv[0], boundary)).max() < 1e-5
    seed = random.normal(size=value.shape)
    slopes = pull(seed)
    loss = lambda t, x: (seed[0] * bilinear(t[0], x[0], boundary)).sum()  # noqa: E731
    way = random.normal(size=texture.shape)
    assert abs((slopes["tex"] * way).sum() - loss(way, uv)) < 1e-4 * np.abs(slopes["tex"] * way).sum()
    way, h = random.normal(size=uv.shape), 1e-5
    difference = (loss(texture, uv + h * way) - loss(texture, uv - h * way)) / (2 * h)
    assert abs((slopes["uv"] * way).sum() - difference) < 1e-4 * np.abs(slopes["uv"] * way).sum()
    value, pull = dn.texture(texture, uv, filter_mode="nearest", boundary_mode=boundary)
    i, j = np.moveaxis(np.floor(uv[0] * 8).astype(int), -1, 0)
    assert np.abs(value[0] - texel_at(texture[0], i, j, boundary)).max() < 1e-6
    assert np.abs(pull(seed)["uv"]).max() == 0


@pytest.mark.vk
@pytest.mark.parametrize("boundary", ["wrap", "clamp", "zero"])
def test_mips_by_footprint_and_bias(on_device, random, boundary):
    texture, uv = random.normal(size=(1, 16, 16, 3)), places(random)
    da = random.uniform(-0.4, 0.4, (*uv.shape[:3], 4))
    bias = random.uniform(-0.7, 0.7, uv.shape[:3])
    level = footprint_level(da[0], 16) + bias[0]
    for mode, between in (("linear-mipmap-linear", True), ("linear-mipmap-nearest", False)):
        value, _ = dn.texture(texture, uv, da, bias, filter_mode=mode, boundary_mode=boundary)
        expected = mipped(texture[0], uv[0], level, boundary, between)
        near = np.abs((level + 0.5) % 1 - 0.0) > 1e-3  # where the nearer level is clear
        assert np.abs(value[0] - expected)[near].max() < 1e-4
    value, pull = dn.texture(texture, uv, da, bias, boundary_mode=boundary)
    seed = random.normal(size=value.shape)
    slopes = pull(seed)

    def loss(t, x, d, b):
        found = mipped(t[0], x[0], footprint_level(d[0], 16) + b[0], boundary, True)
        return (seed[0] * found).sum()

    given = [texture, uv, da, bias]
    for k, name in enumerate(("tex", "uv", "uv_da", "mip_level_bias")):
        way, h = random.normal(size=given[k].shape), 1e-6
        plus, minus = (loss(*given[:k], given[k] + s * h * way, *given[k + 1 :]) for s in (1, -1))
        found = (slopes[name] * way).sum()
        assert abs(found - (plus - minus) / (2 * h)) < 2e-3 * np.abs(slopes[name] * way).sum(), name


@pytest.mark.release
@pytest.mark.vk
def test_given_mips_are_those_that_are_made(on_device, random):
    texture, uv = random.normal(size=(2, 8, 16, 2)), places(random, (2, 5, 5))
    level = random.uniform(0, 5, uv.shape[:3])
    made, pull = dn.texture(texture, uv, mip_level_bias=level)
    mips, pull_mips = dn.texture_mips(texture)
    assert [m.shape for m in mips] == [(2, 4, 8, 2), (2, 2, 4, 2), (2, 1, 2, 2), (2, 1, 1, 2)]
    given, pull_given = dn.texture(texture, uv, mip_level_bias=level, mip=mips)
    assert np.abs(made - given).max() < 1e-6
    slopes = pull_given(made)
    total = slopes["tex"] + pull_mips(*(slopes[f"mip[{k}]"] for k in range(4)))["tex"]
    assert np.abs(total - pull(made)["tex"]).max() < 1e-4
    limited, _ = dn.texture(texture, uv, mip_level_bias=level, max_mip_level=2)
    shorter, _ = dn.texture(texture, uv, mip_level_bias=level, mip=mips[:2])
    capped, _ = dn.texture(texture, uv, mip_level_bias=np.minimum(level, 2))
    assert np.abs(limited - shorter).max() < 1e-6 and np.abs(limited - capped).max() < 1e-6
    flat, _ = dn.texture(texture, uv, mip_level_bias=level, max_mip_level=0)
    assert np.abs(flat - dn.texture(texture, uv)[0]).max() < 1e-6


def corners_of(direction):
    """The face, and s and t on it in [-1, 1], by the table of OpenGL's cube maps."""
    x, y, z = direction
    axis = int(np.abs(direction).argmax())
    face = 2 * axis + (direction[axis] < 0)
    s, t = [(-z, -y), (z, -y), (x, z), (x, -z), (x, -y), (-x, -y)][face]
    return face, s / abs(direction[axis]), t / abs(direction[axis])


@pytest.mark.vk
def test_cube_maps(on_device, random):
    cube = random.normal(size=(1, 6, 4, 4, 3))
    d = random.normal(size=(1, 9, 9, 3))
    d[0, 0, 0] = 0
    nearest, _ = dn.texture(cube, d, filter_mode="nearest", boundary_mode="cube")
    linear, pull = dn.texture(cube, d, boundary_mode="cube")
    assert np.abs(nearest[0, 0, 0]).max() == 0 and np.abs(linear[0, 0, 0]).max() == 0
    for row, column in np.ndindex(9, 9):
        if row or column:
            face, s, t = corners_of(d[0, row, column])
            uv = np.array([s, t]) * 0.5 + 0.5
            i, j = np.minimum((uv * 4).astype(int), 3)
            assert np.abs(nearest[0, row, column] - cube[0, face, j, i]).max() < 1e-6
            if np.abs(np.array([s, t])).max() < 0.7:
                assert np.abs(linear[0, row, column] - bilinear(cube[0, face], uv, "clamp")).max() < 1e-4
    slopes = pull(np.ones_like(linear))
    assert abs(slopes["tex"].sum() - 3 * 80) < 1e-2  # weights of a filter add up to 1, and (0, 0, 0) has none
    assert np.abs(slopes["uv"][0, 0, 0]).max() == 0
    length = (slopes["uv"] * d).sum(-1)  # the length of a direction does not matter
    assert np.abs(length).max() < 1e-3 * np.abs(slopes["uv"]).max()


@pytest.mark.vk
def test_levels_of_cube_maps_are_those_of_the_place_on_the_face(on_device, random):
    cube = np.broadcast_to(np.arange(6.0)[None, :, None, None, None], (1, 6, 16, 16, 1)).copy()
    ramp = [cube[:, :, :: 2**k, :: 2**k] * 0 + 10.0 * (k + 1) for k in range(4)]
    d = np.zeros((1, 1, 8, 3))
    d[..., 0], d[..., 1], d[..., 2] = random.uniform(-0.5, 0.5, 8), random.uniform(-0.5, 0.5, 8), -2.0
    da = random.uniform(-0.4, 0.4, (1, 1, 8, 6))
    value, pull = dn.texture(
        cube * 0, d, da, mip=[m * 1.0 for m in ramp[1:]] + [ramp[3][:, :, :1, :1] + 10], boundary_mode="cube"
    )
    expected = []
    for (x, y, z), (xx, xy, yx, yy, zx, zy) in zip(d[0, 0], da[0, 0]):
        by = np.array([[1 / z, 0, -x / z**2], [0, 1 / z, -y / z**2]]) @ np.array(
            [[xx, xy], [yx, yy], [zx, zy]]
        )
        level = np.log2(np.linalg.svd(by * 8, compute_uv=False)[0])
        expected.append(np.interp(np.clip(level, 0, 4), range(5), [0, 20, 30, 40, 50]))
    assert np.abs(value[0, 0, :, 0] - expected).max() < 1e-3
    assert np.abs(pull(np.ones_like(value))["uv_da"]).max() > 0


T, UV = np.zeros((1, 4, 4, 3)), np.zeros((1, 2, 2, 2))
BAD = {
    "tex has the shape": lambda: dn.texture(T[0], UV),
    "uv has the shape": lambda: dn.texture(T, UV[..., :1]),
    "tex has 3 images, and uv has 1": lambda: dn.texture(np.zeros((3, 4, 4, 3)), UV),
    "filter_mode is one of": lambda: dn.texture(T, UV, filter_mode="cubic"),
    "boundary_mode is one of": lambda: dn.texture(T, UV, boundary_mode="mirror"),
    "needs uv_da or mip_level_bias": lambda: dn.texture(T, UV, filter_mode="linear-mipmap-linear"),
    "uv_da has the shape": lambda: dn.texture(T, UV, UV),
    "faces of a cube map are square": lambda: dn.texture(np.zeros((1, 6, 4, 2, 3)), np.zeros((1, 2, 2, 3)), boundary_mode="cube"),
    "max_mip_level must be at least 0": lambda: dn.texture(T, UV, mip_level_bias=UV[..., 0], max_mip_level=-1),
    "mip.0. has the shape": lambda: dn.texture(T, UV, mip_level_bias=UV[..., 0], mip=[T]),
    "mip has 3 levels": lambda: dn.texture(
        T, UV, mip_level_bias=UV[..., 0], mip=[T[:, :2, :2], T[:, :1, :1], T[:, :1, :1]]
    ),
}  # fmt: skip


@pytest.mark.parametrize("sentence", BAD)
def test_bad_input_ends_in_one_sentence(sentence):
    with pytest.raises(InputError, match=sentence):
        BAD[sentence]()
