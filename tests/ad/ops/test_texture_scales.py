"""Every filter at 1/8 to 8 pixels a texel: gradients on each driver against the oracle, and that against differences."""

from functools import cache

import numpy as np
import pytest

from dressi.ad import functional as F
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.program import Program
from dressi.ad.transform.gradient import gradient
from dressi.ad.types import FLOAT, INT, VEC2, VEC3, VType

SIZE = (24, 24)
RATIOS = (1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0)
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


def bilinear(ratio: float) -> Scene:
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


SCENES = {scene.__name__: scene for scene in (nearest, bilinear, trilinear, anisotropic, stack, cube, sphere)}


@pytest.mark.parametrize("name", SCENES)
def test_gradients_meet_central_differences(name: str):
    for ratio in (RATIOS[0], RATIOS[2], RATIOS[-1]):
        y, leaves = SCENES[name](ratio)
        assert check_gradient(y, leaves) < 1e-4, ratio


@cache
def truths(name: str) -> tuple[list[Variable], list[Variable], list]:
    """The slopes of a sum of squares, their leaves, and of each ratio the data of the leaves and what the oracle finds."""
    y, leaves = SCENES[name](1.0)
    rest = y - (0.2, 0.4, 0.6)
    slopes, steps = gradient(F.sum(F.dot(rest, rest)), leaves), []
    for ratio in RATIOS:
        data = {x: other.data for x, other in zip(leaves, SCENES[name](ratio)[1], strict=True)}
        steps.append((ratio, data, evaluate(slopes, data)))
    return slopes, leaves, steps


@pytest.mark.release
@pytest.mark.parametrize("name", SCENES)
@pytest.mark.second_driver("nearest", "bilinear", "trilinear", "cube")
def test_gradients_on_a_device_meet_the_oracle(device, name: str):
    """One plan of one graph gets the leaves of each ratio. The loss is a sum of squares."""
    from dressi.vk.run.executor import VulkanExecutor

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
