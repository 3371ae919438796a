"""Trilinear sampling: against a reference in NumPy, and its gradients by texels, uv and level on every driver."""

import numpy as np
import pytest
from texels import WRAP, bilinear

from dressi.ad import functional as F
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.ops.image.resize import Resize
from dressi.ad.ops.texture.mipmap import mip_sizes
from dressi.ad.program import Program
from dressi.ad.transform.gradient import gradient
from dressi.ad.types import FLOAT, VEC2, VEC3
from dressi.errors import GraphError

RNG = np.random.default_rng(5)


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
    texture, uv = RNG.random((1, size[1], size[0], 3)), RNG.uniform(-1.5, 2.5, (1, 5, 7, 2))
    level = RNG.uniform(-1, 5, (1, 5, 7))
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


def scene(pixels_a_texel: float) -> tuple[Variable, list[Variable]]:
    """A weighted sum over a trilinear picture in which a texel is ``pixels_a_texel`` wide, and its texture, uv, level.

    Coordinates keep away from the lines between texel centres, where the derivative by uv jumps.
    """
    side, size = 24, (32, 32)
    k = int(np.floor(max(-np.log2(pixels_a_texel), 0)))
    x, y = np.meshgrid(np.arange(32), np.arange(32))
    texels = side // 2**k
    # Within the cell between two centres of both levels, at a fraction from 0.1 to 0.4.
    cell = np.floor(np.stack([x + 0.3 * y, y - 0.2 * x], -1) / (pixels_a_texel * 2**k))
    uv = ((cell + RNG.uniform(0.55, 0.7, cell.shape)) / texels)[None]
    level = (k + RNG.uniform(0.2, 0.8, (1, 32, 32))) if pixels_a_texel < 1 else np.full((1, 32, 32), -0.5)
    texture = RNG.random((1, side, side, 3))
    leaves = [
        Variable(VEC3, (side, side), name="texture", data=texture),
        Variable(VEC2, size, name="uv", data=uv),
        Variable(FLOAT, size, name="level", data=level),
    ]
    return F.sample(leaves[0], leaves[1], "trilinear", level=leaves[2]), leaves


RATIOS = (1 / 8, 1 / 3, 1.0, 8.0)
"""Pixels a texel."""


@pytest.mark.parametrize("ratio", RATIOS)
def test_gradients_meet_central_differences(ratio):
    y, leaves = scene(ratio)
    assert check_gradient(y, leaves if ratio < 1 else leaves[:2]) < 1e-5


@pytest.mark.one_driver
def test_gradients_on_a_device_meet_the_oracle(device):
    from dressi.vk.run.executor import VulkanExecutor

    wanted: dict[str, Variable] = {}
    for ratio in RATIOS:
        y, leaves = scene(ratio)
        loss = F.sum(F.square(F.length(y - (0.2, 0.4, 0.6))))
        for leaf, g in zip(leaves, gradient(loss, leaves), strict=True):
            wanted[f"{leaf.name} {ratio:.2f}"] = g
    truth = dict(zip(wanted, evaluate(list(wanted.values())), strict=True))
    with VulkanExecutor(Program(wanted), device) as run:
        run.run()
        run.wait()
        for name, v in wanted.items():
            error = np.linalg.norm(run.recv(v) - truth[name])
            bound = 1e-4 if name.startswith("texture") else 1e-3
            assert error <= bound * np.linalg.norm(truth[name]), (name, error, np.linalg.norm(truth[name]))


def test_level_of_a_footprint_is_that_of_its_longest_axis():
    turn = np.array([[0.8, -0.6], [0.6, 0.8]])
    jacobian = turn @ np.diag([8.0, 0.5]) @ turn.T / 64  # columns: uv by a pixel across, and down
    across, down = (Variable(VEC2, data=column) for column in jacobian.T)
    level = F.mip_level(across, down, (64, 64))
    assert evaluate([level])[0].item() == pytest.approx(3.0)
    assert check_gradient(level, [across, down]) < 1e-5
    assert np.isfinite(evaluate([F.mip_level((0.0, 0.0), (0.0, 0.0), (64, 64))])[0])


def test_level_and_filter_belong_together():
    texture = Variable.of(np.ones((4, 4, 3)))
    with pytest.raises(GraphError, match="filter 'trilinear' needs level="):
        F.sample(texture, (0.5, 0.5), "trilinear")
    with pytest.raises(GraphError, match="filter 'bilinear' has no level="):
        F.sample(texture, (0.5, 0.5), level=1.0)


def test_steps_of_a_pyramid_need_no_loop(device):
    """Halving by area, doubling bilinearly, and the transposes of both, in images as small as one texel."""
    from dressi.vk.run.executor import VulkanExecutor

    wanted: dict[str, Variable] = {}
    for width, height in ((6, 4), (1, 1), (2, 1), (1, 3), (5, 8)):
        fine = Variable(VEC3, (2 * width, 2 * height), 2, data=RNG.random((2, 2 * height, 2 * width, 3)))
        coarse = Variable(VEC3, (width, height), 2, data=RNG.random((2, height, width, 3)))
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
