"""Anisotropic sampling against its formula by a singular value decomposition; stacks against single textures."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dressi import FLOAT, INT, VEC2, VEC3, F, GraphError, Variable, gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.program import Program

RNG = np.random.default_rng(8)
TEXTURE = Variable(VEC3, (13, 8), data=RNG.random((1, 8, 13, 3)))


def value(uv, across, down, taps: int) -> np.ndarray:
    y = F.sample(TEXTURE, uv, "anisotropic", across=across, down=down, taps=taps)
    return evaluate([y])[0].ravel()


@pytest.mark.parametrize("taps", [1, 4, 7, 16])
def test_taps_lie_along_the_longest_axis(taps):
    for _ in range(10):
        jacobian, uv = RNG.normal(size=(2, 2)) * 2, RNG.random(2)
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
    from dressi.vk.run.executor import VulkanExecutor

    leaves = [
        Variable(vtype, size, data=RNG.random((1, size[1], size[0], vtype.components)) * scale)
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


def test_arguments_of_anisotropic_sampling():
    with pytest.raises(GraphError, match="filter 'anisotropic' needs across="):
        F.sample(TEXTURE, (0.5, 0.5), "anisotropic")
    with pytest.raises(GraphError, match="taps are at most 16"):
        F.sample(TEXTURE, (0.5, 0.5), "anisotropic", across=(1.0, 0.0), down=(0.0, 1.0), taps=17)
    with pytest.raises(GraphError, match="filter is one of"):
        F.sample(TEXTURE, (0.5, 0.5), "cubic")
    with pytest.raises(GraphError, match="wrap is one of"):
        F.sample(TEXTURE, (0.5, 0.5), wrap="border")


# ---- stacks
@pytest.mark.parametrize("wrap", ["repeat", "clamp", "mirror", "sphere"])
@pytest.mark.parametrize("size", [(4, 4), (6, 5), (2, 1)])
def test_layers_of_a_stack_are_textures_of_their_own(size, wrap):
    width, height = size
    stack = Variable(VEC2, (width, 3 * height), data=RNG.random((1, 3 * height, width, 2)))
    uv = Variable(VEC2, (6, 4), data=RNG.uniform(-1.5, 2.5, (1, 4, 6, 2)))
    number = RNG.integers(-1, 4, (1, 4, 6))
    layer = Variable(INT, (6, 4), data=number)
    level = Variable(FLOAT, (6, 4), data=RNG.uniform(-0.5, 3, (1, 4, 6)))
    slopes = {"across": Variable(VEC2, (6, 4), data=RNG.normal(size=(1, 4, 6, 2)) * 0.3), "down": (0.1, 0.05)}
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


def test_arguments_of_stacks():
    stack = Variable(FLOAT, (4, 12))
    with pytest.raises(GraphError, match="needs both layers="):
        F.sample(stack, (0.5, 0.5), layers=3)
    with pytest.raises(GraphError, match="a height that 5 divides, not 12"):
        F.sample(stack, (0.5, 0.5), layers=5, layer=0)
    with pytest.raises(GraphError, match="layer is INT, or FLOAT"):
        F.sample(stack, (0.5, 0.5), layers=3, layer=Variable(VEC2))
