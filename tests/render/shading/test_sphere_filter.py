"""Convolution on the sphere against its integral, its transpose, and devices against the oracle."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dressi.ad import functional as F
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.program import Program
from dressi.ad.transform.gradient import gradient
from dressi.ad.transform.simplify import simplify
from dressi.ad.types import FLOAT, VEC3
from dressi.config import shader_text
from dressi.render.shading.prefilter import filtered_levels, irradiance, level_places, level_sizes
from dressi.render.shading.sphere_filter import (
    CosineKernel,
    GgxKernel,
    SphereFilter,
    directions,
    solid_angles,
    sphere_filter,
)
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.limits import UNBOUNDED
from dressi.vk.plan.model.records import CPU, DATA_CENTRE
from dressi.vk.run.executor import VulkanExecutor

KERNELS = [GgxKernel(0.3), GgxKernel(0.05, spread=0.1, reach=0.5), CosineKernel()]


def image(size: tuple[int, int], vtype=VEC3, seed: int = 0) -> Variable:
    values = np.random.default_rng(seed).random((1, size[1], size[0], *vtype.shape))
    return Variable(vtype, size, data=values)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: type(k).__name__)
@pytest.mark.parametrize("sizes", [((16, 8), (16, 8)), ((24, 12), (10, 7)), ((6, 3), (20, 9))])
def test_it_is_the_sum_over_all_pairs_of_texels(kernel, sizes):
    x = image(sizes[0])
    cosine = np.einsum("abk,cdk->abcd", directions(sizes[1]), directions(sizes[0]))
    weight = np.where(cosine >= math.cos(kernel.reach), kernel(np.clip((1 - cosine) / 2, 0, 1)), 0)
    wanted = np.einsum("abcd,cdk->abk", weight, x.data[0])
    np.testing.assert_allclose(evaluate([sphere_filter(x, kernel, sizes[1])])[0][0], wanted, rtol=1e-6)


def test_channels_are_filtered_each_for_itself():
    values = np.random.default_rng(2).random((2, 3, 4, 8))
    x = Variable(FLOAT, (8, 4), 2, channels=3, data=values)
    y = sphere_filter(x, KERNELS[0], (6, 3))
    assert y.creator is not None and y.shape == (2, 3, 3, 6)
    short = y.creator.shortened(8)
    assert short.domain == y.domain
    whole, parts = evaluate([y, short])
    alone = [
        evaluate([sphere_filter(Variable(FLOAT, (8, 4), data=v[None]), KERNELS[0], (6, 3))])[0][0]
        for v in values[1]
    ]
    np.testing.assert_allclose(whole[1], alone)
    np.testing.assert_allclose(parts, whole)


@pytest.mark.vk
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: type(k).__name__)
@pytest.mark.parametrize("sizes", [((16, 8), (16, 8)), ((24, 12), (10, 7)), ((5, 4), (12, 6))])
def test_devices_agree_with_the_oracle_in_value_and_gradient(run, kernel, sizes):
    x, weight = image(sizes[0]), image(sizes[1], seed=1)
    y = sphere_filter(x, kernel, sizes[1])
    (gx,) = gradient(F.sum(F.sum_components(y * weight)), [x])
    for found, wanted in zip(run([y, gx]), evaluate([y, gx]), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6 * np.abs(wanted).max())


@pytest.mark.vk
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: type(k).__name__)
def test_wide_devices_add_partial_sums(device, kernel):
    """Of whole rows, with the values of the oracle, in value and gradient."""
    x, weight = image((32, 16)), image((16, 8), seed=1)
    y = sphere_filter(x, kernel, (16, 8))
    (gx,) = gradient(F.sum(F.sum_components(y * weight)), [x])
    p = simplify(Program({"y": y, "gx": gx}))
    with VulkanExecutor(p, device, cost=replace(CPU, longest_walk=48)) as run:
        run.run()
        assert max(s.iterations for s in run.plan.sub_stages) <= 48
        found = [run.recv(v) for v in p.outputs.values()]
    for value, wanted in zip(found, evaluate([y, gx]), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=2e-5, atol=2e-6 * np.abs(wanted).max())


@pytest.mark.one_driver
def test_no_invocation_of_a_wide_device_walks_far():
    levels = filtered_levels(Variable(VEC3, (512, 256), name="map"))
    plan = build_plan(Program({"levels": levels}), UNBOUNDED, shader_text, cost=DATA_CENTRE)
    assert max(s.iterations for s in plan.static.sub_stages) <= DATA_CENTRE.longest_walk


def test_the_gradient_is_a_filter_and_scatters_nothing():
    x = image((16, 8))
    (gx,) = gradient(F.sum(F.sum_components(sphere_filter(x, KERNELS[0], (8, 4)))), [x])
    assert isinstance(gx.creator, SphereFilter) and gx.size == (16, 8)


@pytest.mark.parametrize("spread", [0.0, math.pi / 32])
def test_a_ring_keeps_the_light_of_lobes_narrower_than_a_texel(spread):
    """The share of a lobe within a texel: of alpha 0.1 and a texel of 11 degrees, about 0.5 of the light."""
    size, alpha = (32, 16), 0.1
    texel = np.zeros((1, 16, 32))
    texel[0, 8, 16] = 1
    kernel = GgxKernel(alpha, spread=spread)
    weight = solid_angles(size)
    lit = sphere_filter(Variable(FLOAT, size, data=texel) * weight, kernel, size)
    share = evaluate([lit / sphere_filter(weight, kernel, size)])[0][0, 8, 16, ...].item()
    fine = 321
    grid = (np.arange(fine) + 0.5) / fine - 0.5
    a, b = np.meshgrid(grid * np.pi / 16, grid * np.pi / 16)
    inside = GgxKernel(alpha)(np.sin(np.hypot(a, b) / 2) ** 2).mean() * (np.pi / 16) ** 2
    angle = (np.arange(20000) + 0.5) / 20000 * np.pi / 2
    whole = (GgxKernel(alpha)(np.sin(angle / 2) ** 2) * np.sin(angle)).mean() * np.pi**2
    assert (abs(share / (inside / whole) - 1) < 0.15) == (spread > 0)


def test_levels_stand_in_one_image_without_overlap():
    for size in ((16, 8), (64, 32), (96, 48), (512, 256)):
        taken = np.zeros((2000, size[0]), int)
        for (x, y, w, h), wanted in zip(level_places(size), level_sizes(size), strict=True):
            assert (w, h) == wanted and x + w <= size[0]
            taken[y : y + h, x : x + w] += 1
        assert taken.max() == 1


def test_white_stays_white_and_means_stay_means():
    white = Variable(VEC3, (32, 16), data=np.ones((1, 16, 32, 3)))
    levels, gathered = evaluate([filtered_levels(white), irradiance(white)])
    for x, y, w, h in level_places((32, 16)):
        np.testing.assert_allclose(levels[0, y : y + h, x : x + w], 1.0, rtol=1e-12)
    np.testing.assert_allclose(gathered, 1.0, rtol=1e-12)


def test_irradiance_is_the_integral_over_the_cosine():
    x = image((64, 32))
    (found,) = evaluate([irradiance(x)])
    n = directions((32, 16))
    cosine = np.maximum(np.einsum("abk,cdk->abcd", n, directions((64, 32))), 0)
    area = evaluate([solid_angles((64, 32))])[0][0]
    wanted = np.einsum("abcd,cd,cdk->abk", cosine, area, x.data[0]) / np.pi
    np.testing.assert_allclose(found[0], wanted, rtol=5e-3)
