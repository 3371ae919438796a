"""Scatters by atomics, pairs of them, and lists of what is live."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dressi import FLOAT, INT, VEC2, VEC4, Device, DressiAD, F, PlanOptions, Variable, gradient, jvp
from dressi.ad.graph import ScatterFunction
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.program import Program
from dressi.ad.graph.types import list_image, list_size
from dressi.ad.ops.image.lookup import ScatterAdd
from dressi.ad.transform.merge import halve_scatter
from dressi.ad.transform.rewrite import replaced
from dressi.ad.transform.simplify import simplify
from dressi.config import shader_text
from dressi.vk.plan.analysis.context import Target
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.core import accumulators
from dressi.vk.plan.core.accumulators import accumulators_of
from dressi.vk.plan.core.limits import DeviceLimits, profile
from dressi.vk.plan.core.lists import SEGMENT
from dressi.vk.plan.core.options import BASELINE
from dressi.vk.plan.core.substage import ListFaces, Raster
from dressi.vk.plan.lowering.scatter import gather_at_lists
from dressi.vk.plan.model.records import DESKTOP
from dressi.vk.run.execution.executor import VulkanExecutor

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
    """Values of both signs and many magnitudes, half of them once more, negated; indices."""
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
        assert_allclose(got, expected, rtol=2.0**-22, atol=0)
    assert_allclose(got, expected, rtol=2.0**-22, atol=largest * 2.0**-50)


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
    assert_allclose(got, exact(values, index), rtol=2.0**-22, atol=0)


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
    assert_allclose(got[1].ravel(), np.bincount(places.ravel(), values.ravel(), CELLS), rtol=1e-6)
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
                assert_array_equal(run.recv(table).ravel(), np.float32(wanted))


@pytest.mark.one_driver
def test_large_tables_find_their_bound(device, monkeypatch):
    """Accumulators for every magnitude would be too large: a pass finds the largest value."""
    monkeypatch.setattr(accumulators, "FAR_BYTES", 100)
    values, index = scattered((24, 60))
    values[0, 0, 0], index[0, 0, 0] = 0.0, 3
    table = F.scatter_add(leaf(VEC2, values), leaf(INT, index), (CELLS, 1))
    assert not accumulators_of(table.creator).far
    (got,) = both_lowerings([table], device)
    assert_allclose(got, exact(values, index), rtol=2.0**-22, atol=2.0**40)


VIEWS = 5


def indices(seed: int) -> Variable:
    return Variable(INT, (7, 1), data=np.random.default_rng(seed).integers(0, 12, (1, 1, 7)))


def own_tables() -> Variable:
    """The gradient by a stack of images, each read by indices without a batch."""
    stack = Variable(FLOAT, (4, 3), VIEWS, data=np.ones((VIEWS, 3, 4), np.float32))
    loss = F.sum(F.lookup(stack, indices(0))) + F.sum(F.lookup(stack, indices(1)))
    return gradient(loss, [stack])[0]


def one_table() -> Variable:
    value = F.expand(Variable(FLOAT, data=np.float32(2.0)), batch=VIEWS)
    return F.scatter_add(value, indices(0), (4, 3)) + F.scatter_add(value, indices(1), (4, 3))


def merged(graph: Variable) -> tuple[Program, ScatterFunction]:
    program = simplify(Program({"table": graph}))
    (scatter,) = (f for f in program.functions if isinstance(f, ScatterFunction))
    assert len(scatter.pairs) == 2 and len({v.batch for v, _ in scatter.pairs}) == 2
    return program, scatter


def same_as(graph: Variable, apart: Program, device) -> None:
    (found,), wanted = apart.outputs.values(), evaluate([graph])[0]
    assert_array_equal(evaluate([found])[0], wanted)
    with DressiAD(device) as ad:
        assert_array_equal(ad.evaluate(found), wanted)


@pytest.mark.parametrize("make", [own_tables, one_table])
def test_halves_of_a_scatter_keep_its_source(make, device):
    graph = make()
    program, scatter = merged(graph)
    same_as(graph, halve_scatter(program, scatter), device)


@pytest.mark.parametrize("make", [own_tables, one_table])
@pytest.mark.parametrize("changing", [0, 1])
def test_what_is_no_gather_keeps_the_source(make, changing, device):
    graph = make()
    program, scatter = merged(graph)
    moving = frozenset({scatter.pairs[changing][1]})
    apart = replaced(program, gather_at_lists(program, Target(DeviceLimits(), changing=moving)))
    assert sum(isinstance(f, ScatterFunction) for f in apart.functions) == 1
    same_as(graph, apart, device)


@pytest.mark.parametrize("make", [own_tables, one_table])
def test_tangents_of_a_pair_are_added_for_the_whole_source(make):
    _, scatter = merged(make())
    (bound, *rest), value = scatter.inputs, Variable(FLOAT)
    small = next(k for k, x in enumerate(rest) if k % 2 == 0 and x.batch == 1)
    rest[small] = value
    y = ScatterAdd(scatter.table, bound, *rest).output
    (moved,) = jvp([y], [value], [1.0])
    at = [evaluate([y], {value: np.full((1, 1, 1), t)})[0] for t in (0.0, 1.0)]
    np.testing.assert_allclose(evaluate([moved])[0], at[1] - at[0])


DENSE = PlanOptions(without=("compact_live_faces",))
SIZE = (24, 16)


def list_leaf(vtype, rows, name=None):
    """A list with the tiles of ``rows``, (batch, n, ...)."""
    rows = np.asarray(rows)
    data = np.concatenate([list_image(tile) for tile in rows])
    return Variable(vtype, list_size(rows.shape[1]), len(rows), name=name, data=data)


class Scene:
    """Parallelograms in five planes of depth, so that many tie; a mask that another leaf can move.

    kind: how the mask comes about, ``made`` from values of the faces, which somebody else reads too, or a
    ``leaf``.
    """

    def __init__(self, faces, batch, mask_batch, kind):
        rng = np.random.default_rng(faces + batch)
        centre = rng.uniform(-1, 1, (batch, faces, 1, 2))
        along, across = rng.normal(size=(2, batch, faces, 1, 2)) * (0.3 if faces < 100 else 0.05)
        right, up = np.array([[0, 1, 1, 0, 1, 0], [0, 0, 1, 0, 1, 1]])[..., None]
        corner = centre + right * along + up * across
        depth = rng.integers(0, 5, (batch, faces, 1, 1)) / 8 + np.zeros((batch, faces, 6, 1))
        corners = np.concatenate([corner, depth, np.ones_like(depth)], axis=-1)
        self.position = list_leaf(VEC4, corners.reshape(batch, -1, 4))
        self.values = list_leaf(FLOAT, rng.uniform(-1, 1, (mask_batch, faces)), "values")
        self.level = Variable(FLOAT, name="level", data=0.3)
        self.moved = F.square(self.values) - self.level
        self.live = F.greater(self.moved, 0.0)
        if kind == "leaf":
            self.live = list_leaf(INT, rng.integers(-1, 2, (mask_batch, faces)), "live")
        draw = {"size": SIZE, "triangles": 2 * faces, "triangles_per_face": 2, "live": self.live}
        self.hard = F.rasterize(self.position, **draw)
        self.soft = F.rasterize(
            self.position,
            fragment=lambda face: (F.to_float(F.mod(face, 3)) * 0.25, None),
            **draw,
        )
        weight = F.select(F.greater_equal(self.soft, 0), F.lookup(self.moved, self.soft), 0.0)
        batch = max(batch, mask_batch)
        self.sums = F.scatter_add(weight * self.level, F.clamp(self.soft, 0, 6), (7, 1), batch=batch)

    @property
    def program(self):
        outputs = {"hard": self.hard, "soft": self.soft, "sums": self.sums, "moved": self.moved}
        return Program(outputs, updates=[(self.level, self.level + 0.1)])


def results(scene, device, **options):
    """Values of a few steps, of which only the mask changes, and after leaves were sent."""
    with VulkanExecutor(scene.program, device, **options) as run:
        found = []
        sent = [
            {},
            {scene.values: scene.values.data * -0.6},
            {scene.position: scene.position.data[..., ::-1, :, :]},
        ]
        if scene.live.is_leaf:
            sent.append({scene.live: 1 - scene.live.data})
        for values in sent:
            for variable, data in values.items():
                run.send(variable, data)
            run.run(2)
            found += [run.recv(v) for v in run.program.outputs.values()]
        return run.plan, found


@pytest.mark.parametrize("kind", ["made", "leaf"])
@pytest.mark.parametrize(
    ("faces", "batch", "mask_batch"), [(40, 1, 1), (40, 3, 1), (40, 1, 3), (SEGMENT + 77, 2, 2)]
)
@pytest.mark.one_driver
def test_a_list_draws_what_the_mask_leaves(device, faces, batch, mask_batch, kind):
    scene = Scene(faces, batch, mask_batch, kind)
    plan, listed = results(scene, device)
    assert sum(isinstance(s.work, ListFaces) for s in plan.sub_stages) == 1, "both rasters share a list"
    assert all(s.work.faces is not None for s in plan.sub_stages if isinstance(s.work, Raster))
    assert (listed[0] >= 0).any() and listed[2].any()
    for options in (DENSE, BASELINE):
        _, dense = results(scene, device, options=options)
        assert all((a == b).all() for a, b in zip(listed, dense, strict=True))


@pytest.mark.parametrize(("faces", "batch"), [(40, 3), (SEGMENT + 77, 2)])
def test_wide_devices_list_by_prefix_sums(device, faces, batch):
    """The same lists from workgroups of 256 and, where a device has no larger ones, of 128 invocations."""
    scene = Scene(faces, batch, batch, "made")
    _, serial = results(scene, device)
    for most in (256, 200):
        limits = replace(device.limits, max_workgroup_invocations=most)
        plan, scanned = results(scene, device, limits=limits, cost=DESKTOP)
        (made,) = [s for s in plan.sub_stages if isinstance(s.work, ListFaces)]
        assert isinstance(made.work, ListFaces)
        assert made.work.faces.invocations == {256: 256, 200: 128}[most] and made.iterations <= 256
        assert all((a == b).all() for a, b in zip(serial, scanned, strict=True))


def test_all_segments_of_a_tile_are_one_call_where_the_device_can(device, monkeypatch):
    import vulkan

    real, counts = vulkan.vkCmdDrawIndirect, []

    def draw(buffer, arguments, offset, count, stride):
        counts.append(count)
        real(buffer, arguments, offset, count, stride)

    monkeypatch.setattr(vulkan, "vkCmdDrawIndirect", draw)
    scene, found = Scene(SEGMENT + 77, 2, 2, "leaf"), []
    for most in (device.limits.max_draw_indirect_count, 1):
        with Device(
            device.physical, validation=device.instance.validation
        ) as own:  # which has recorded nothing
            counts.clear()
            limits = replace(own.limits, max_draw_indirect_count=most)
            found.append(results(scene, own, limits=limits)[1])
        assert counts and set(counts) == {2 if most > 1 else 1}
    assert "multiDrawIndirect" in device.features
    assert all((a == b).all() for a, b in zip(*found, strict=True))


def test_tiles_in_a_grid_have_lists_as_well(device):
    scene = Scene(40, 5, 5, "made")
    small = DeviceLimits(max_framebuffer_height=2 * SIZE[1], max_image_dimension=4096)
    _, one = results(scene, device)
    _, other = results(scene, device, limits=small)
    assert all((a == b).all() for a, b in zip(one, other, strict=True))


def test_what_makes_the_mask_makes_the_list():
    program = Scene(40, 2, 2, "made").program
    listed, dense = (
        build_plan(program, profile("desktop"), shader_text, options) for options in (PlanOptions(), DENSE)
    )
    (made,) = [s for s in listed.sub_stages if isinstance(s.work, ListFaces)]
    assert made.functions and listed.counts["stages"] == dense.counts["stages"]
