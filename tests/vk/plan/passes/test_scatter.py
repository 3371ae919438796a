"""Sums in fixed point on devices: exact, the same bits by atomics of 64 and of 32 bits, nothing left for the next step."""

from dataclasses import replace

import numpy as np
import pytest

from dressi import FLOAT, INT, MAT2, VEC2, VEC4, F, PlanOptions
from dressi.ad.graph import ScatterFunction, Variable
from dressi.ad.program import Program
from dressi.config import shader_text
from dressi.vk.plan import accumulators
from dressi.vk.plan.accumulators import accumulators_of
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.limits import DeviceLimits
from dressi.vk.plan.model.records import CPU
from dressi.vk.plan.substage import ScatterDraw
from dressi.vk.run.executor import VulkanExecutor

CELLS = 7
SCATTERED = PlanOptions(gather_at_lists=False)


def leaf(vtype, array):
    return Variable(vtype, (array.shape[2], array.shape[1]), array.shape[0], data=array)


def both_lowerings(outputs, device, steps=2):
    """The values by 64-bit atomics, where the device has them, and by 32-bit ones."""
    found = []
    for limits in (device.limits, replace(device.limits, int64_atomics=False)):
        program = Program({str(k): v for k, v in enumerate(outputs)})
        with VulkanExecutor(program, device, limits=limits, options=SCATTERED) as run:
            run.run(1)
            first = [run.recv(v) for v in outputs]
            run.run(steps)
            run.wait()
            again = [run.recv(v) for v in outputs]
            assert all((a == b).all() for a, b in zip(first, again, strict=True))
            found.append(first)
    assert all((a == b).all() for a, b in zip(*found, strict=True))
    return found[0]


def scattered(exponents):
    """Values of both signs over a range of magnitudes, half of them once more with the other sign; indices."""
    rng = np.random.default_rng(3)
    values = rng.uniform(1, 2, (2, 24, 40, 2)) * 2.0 ** rng.integers(
        exponents[0], exponents[1], (2, 24, 40, 1)
    )
    values *= rng.choice([-1, 1], values.shape)
    index = rng.integers(-1, CELLS + 1, (2, 24, 40))
    values[:, 12:, 20:], index[:, 12:, 20:] = -values[:, :12, 20:], index[:, :12, 20:]
    return values.astype(np.float32), index


def slots(table):
    assert isinstance(table.creator, ScatterFunction)
    return accumulators_of(table.creator).slots


def exact(values, index):
    table = [values[index == k].astype(float) for k in range(CELLS)]  # float64 holds these sums
    return np.array([cell.sum(0) for cell in table])[None, None]


@pytest.mark.parametrize(
    "exponents", [(-36, -20), (-37, 6), (-10, 8), (10, 23), (-36, 23), (24, 100), (-36, 90)]
)
def test_sums_of_every_magnitude_are_exact(device, exponents):
    values, index = scattered(exponents)
    table = F.scatter_add(leaf(VEC2, values), leaf(INT, index), (CELLS, 1))
    assert slots(table) > 1
    (got,) = both_lowerings([table], device)
    largest = 2.0 ** exponents[1] * values[..., 0].size
    expected = exact(values, index)
    if largest < 2.0 ** (exponents[0] - 23 + 53):  # else float64 rounds as well
        np.testing.assert_allclose(got, expected, rtol=2.0**-22, atol=0)
    np.testing.assert_allclose(got, expected, rtol=2.0**-22, atol=largest * 2.0**-50)


@pytest.mark.parametrize("measured", [False, True])
@pytest.mark.parametrize("magnitude", [-100, 0, 100])
def test_sums_under_a_bound_are_exact(device, magnitude, measured):
    values, index = scattered((-15, 0))
    values = (values.astype(float) * 2.0**magnitude).astype(np.float32)
    x = leaf(VEC2, values)
    bound = F.max(F.max_component(F.abs(x))) if measured else 1.5 * 2.0**magnitude
    table = F.scatter_add(x, leaf(INT, index), (CELLS, 1), bound=bound)
    assert slots(table) == 1
    (got,) = both_lowerings([table], device)
    np.testing.assert_allclose(got, exact(values, index), rtol=2.0**-22, atol=0)


def test_adding_and_maximising_in_turns(device):
    """Scatters share accumulators: each finds them empty, in every step."""
    rng = np.random.default_rng(5)
    places, numbers = rng.integers(0, CELLS, (1, 6, 5)), rng.integers(-3, 100, (1, 6, 5))
    values = rng.normal(size=(1, 6, 5)).astype(np.float32)
    index = leaf(INT, places)
    outputs = [
        F.scatter_max(leaf(INT, numbers), index, (CELLS + 3, 1)),
        F.scatter_add(leaf(FLOAT, values), index, (CELLS, 1)),
        F.scatter_max(leaf(INT, -7 - abs(numbers)), index, (CELLS, 1)),
        F.scatter_add(leaf(FLOAT, -values), index, (CELLS, 1), bound=8.0),
    ]
    got = both_lowerings(outputs, device)
    expected = np.full(CELLS + 3, -1)
    np.maximum.at(expected, places.ravel(), numbers.ravel())
    assert (got[0].ravel() == expected).all() and (got[2] == -1).all()
    np.testing.assert_allclose(got[1].ravel(), np.bincount(places.ravel(), values.ravel(), CELLS), rtol=1e-6)
    assert (got[3] == -got[1]).all()


def test_undefined_values_are_reported_and_left_out_under_a_bound(device):
    values = leaf(FLOAT, np.array([[[1.0, np.nan, 2.0, np.inf]]]))
    table = F.scatter_add(values, leaf(INT, np.zeros((1, 1, 4), int)), (1, 1), bound=4.0)
    for limits in (device.limits, replace(device.limits, int64_atomics=False)):
        with VulkanExecutor(Program({"table": table}), device, limits=limits, options=SCATTERED) as run:
            run.run()
            with pytest.warns(RuntimeWarning, match="above its bound"):
                assert run.recv(table).reshape(()) == 7.0


def test_sums_are_those_of_floats_where_values_are_undefined(device):
    """And the slots are empty in the next step."""
    values = leaf(FLOAT, np.array([[[1.0, np.nan, 2.0, np.inf, 1e9, -np.inf, np.inf, -np.inf, 3e38, 3e38]]]))
    cells = leaf(INT, np.array([[[0, 0, 1, 1, 2, 3, 4, 4, 5, 5]]]))
    table = F.scatter_add(values, cells, (7, 1))
    wanted = [np.nan, np.inf, 1e9, -np.inf, np.nan, np.inf, 0.0]
    for limits in (device.limits, replace(device.limits, int64_atomics=False)):
        with VulkanExecutor(Program({"table": table}), device, limits=limits, options=SCATTERED) as run:
            for _ in range(2):
                run.run()
                np.testing.assert_array_equal(run.recv(table).ravel(), np.float32(wanted))


@pytest.mark.one_driver
def test_large_tables_find_their_bound(device, monkeypatch):
    """Accumulators for values of every magnitude would take too much memory: a pass finds the largest value."""
    monkeypatch.setattr(accumulators, "FAR_BYTES", 100)
    values, index = scattered((24, 60))
    values[0, 0, 0], index[0, 0, 0] = 0.0, 3
    table = F.scatter_add(leaf(VEC2, values), leaf(INT, index), (CELLS, 1))
    assert not accumulators_of(table.creator).far
    (got,) = both_lowerings([table], device)
    np.testing.assert_allclose(got, exact(values, index), rtol=2.0**-22, atol=2.0**40)


def band(size):
    """A scatter that matters only under the triangles of a raster, one that matters everywhere, and a leaf that the
    raster does not depend on."""
    rng = np.random.default_rng(4)
    corners = rng.uniform(-0.9, 0.9, (2, 1, 9, 4))
    corners[..., 2:] = (0.5, 1.0)
    face = F.rasterize(leaf(VEC4, corners), size=size, fragment=lambda face: (F.to_float(face) * 0.25, None))
    scale = leaf(FLOAT, rng.uniform(0.01, 0.02, (2, 1, 1)))
    share = F.lookup(leaf(VEC2, rng.uniform(1, 2, (2, 1, 3, 2))), face) * scale
    turned = F.lookup(leaf(MAT2, rng.uniform(1, 2, (1, 1, 3, 2, 2))), face)
    here = turned @ (F.to_float(F.linear_index(size, 2)) * share)
    weight = F.select(F.greater_equal(face, 0), here, 0.0)
    target = F.clamp(face, 0, 2)
    sparse = F.scatter_add(weight, target, (3, 1), batch=2)
    dense = F.scatter_add(weight + 1.0, target, (3, 1), batch=2)
    return sparse, dense, scale


def test_scatters_that_are_drawn_load_in_both_shaders(device):
    """The vertex shader of the primitives, and the fragments that add."""
    sparse, _, _ = band((40, 32))
    found = []
    for loads in (True, False):
        options = PlanOptions(load_images=loads)
        with VulkanExecutor(Program({"sparse": sparse}), device, options=options, cost=CPU) as run:
            (drawn,) = (s for s in run.plan.sub_stages if isinstance(s.work, ScatterDraw))
            sources = run.plan.shaders[drawn].sources
            assert ("imageLoad" in sources["vertex"] and "imageLoad" in sources["fragment"]) == loads
            run.run(1)
            found.append(run.recv(sparse))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("size", [(16, 16), (40, 32)])  # in the large one vertices fetch what fragments share
def test_scatters_are_drawn_where_a_raster_bounds_them(device, size):
    sparse, dense, scale = band(size)
    program = Program({"sparse": sparse})
    plan = build_plan(program, device.limits, shader_text)
    (drawn,) = [s for s in plan.sub_stages if isinstance(s.work, ScatterDraw)]
    assert ("passed1" in plan.shaders[drawn].sources["fragment"]) == (size == (40, 32))
    assert not any(
        isinstance(s.work, ScatterDraw)
        for s in build_plan(Program({"d": dense}), device.limits, shader_text).sub_stages
    )
    found = []
    in_bands = DeviceLimits(max_storage_buffer_bytes=200)
    for options in ({}, {"options": PlanOptions(draw_scatters=False)}, {"limits": in_bands}):
        with VulkanExecutor(program, device, **options) as run:
            run.run(2)
            found.append([run.recv(sparse)])
            for k in range(4):  # the raster stays, the scatter runs again
                run.send(scale, np.full(scale.shape, 0.5 + k))
                run.run()
                found[-1].append(run.recv(sparse))
    assert all((a == b).all() and (a == c).all() and a.any() for a, b, c in zip(*found, strict=True))
