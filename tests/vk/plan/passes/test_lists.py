"""Draws of listed faces: the images of the dense draw, to the bit, ties of depth included."""

from dataclasses import replace

import numpy as np
import pytest

from dressi import Device, F, Variable
from dressi.ad.program import Program
from dressi.ad.types import FLOAT, INT, VEC4, list_image, list_size
from dressi.config import shader_text
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.limits import DeviceLimits, profile
from dressi.vk.plan.lists import SEGMENT
from dressi.vk.plan.model.records import DESKTOP
from dressi.vk.plan.options import BASELINE, PlanOptions
from dressi.vk.plan.substage import ListFaces, Raster, ScatterDraw
from dressi.vk.run.executor import VulkanExecutor

DENSE = PlanOptions(compact_live_faces=False)
SIZE = (24, 16)


def leaf(vtype, rows, name=None):
    """A list with the tiles of ``rows``, (batch, n, ...)."""
    rows = np.asarray(rows)
    data = np.concatenate([list_image(tile) for tile in rows])
    return Variable(vtype, list_size(rows.shape[1]), len(rows), name=name, data=data)


class Scene:
    """Parallelograms in five planes of depth, so that many tie; a mask that another leaf can move.

    kind: how the mask comes about, ``made`` from values of the faces, which somebody else reads too, or a ``leaf``.
    """

    def __init__(self, faces, batch, mask_batch, kind):
        rng = np.random.default_rng(faces + batch)
        centre = rng.uniform(-1, 1, (batch, faces, 1, 2))
        along, across = rng.normal(size=(2, batch, faces, 1, 2)) * (0.3 if faces < 100 else 0.05)
        right, up = np.array([[0, 1, 1, 0, 1, 0], [0, 0, 1, 0, 1, 1]])[..., None]
        corner = centre + right * along + up * across
        depth = rng.integers(0, 5, (batch, faces, 1, 1)) / 8 + np.zeros((batch, faces, 6, 1))
        corners = np.concatenate([corner, depth, np.ones_like(depth)], axis=-1)
        self.position = leaf(VEC4, corners.reshape(batch, -1, 4))
        self.values = leaf(FLOAT, rng.uniform(-1, 1, (mask_batch, faces)), "values")
        self.level = Variable(FLOAT, name="level", data=0.3)
        self.moved = F.square(self.values) - self.level
        self.live = F.greater(self.moved, 0.0)
        if kind == "leaf":
            self.live = leaf(INT, rng.integers(-1, 2, (mask_batch, faces)), "live")
        draw = {"size": SIZE, "triangles": 2 * faces, "triangles_per_face": 2, "live": self.live}
        self.hard = F.rasterize(self.position, **draw)
        self.soft = F.rasterize(
            self.position,
            fragment=lambda face: (F.to_float(F.mod(face, 3)) * 0.25, None),
            disjoint=True,
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
def test_a_list_draws_what_the_mask_leaves(device, monkeypatch, faces, batch, mask_batch, kind):
    monkeypatch.setattr("dressi.vk.plan.passes.draws.PIXELS_PER_VERTEX", 0)  # scatters are drawn
    scene = Scene(faces, batch, mask_batch, kind)
    plan, listed = results(scene, device)
    assert sum(isinstance(s.work, ListFaces) for s in plan.sub_stages) == 1, "both rasters share a list"
    assert all(s.work.faces is not None for s in plan.sub_stages if isinstance(s.work, Raster))
    drawn = [
        s for s in plan.sub_stages if isinstance(s.work, ScatterDraw)
    ]  # by the rasters of its own schedule
    assert len(drawn) == (kind == "made" and device.limits.fragment_atomics) and all(
        s.work.faces for s in drawn
    )
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
    apart = build_plan(program, profile("desktop"), shader_text, PlanOptions(pack_functions=False))
    (made,) = [s for s in apart.sub_stages if isinstance(s.work, ListFaces)]
    assert not made.functions
