"""Updates in place as draws, whose attachments are what they read: the bits of dispatches, and within the limits."""

from dataclasses import replace

import numpy as np
import pytest

from dressi import FLOAT, INT, IVEC2, MAT3, VEC2, VEC3, F, Variable
from dressi.ad.program import Program
from dressi.vk.plan.limits import profile
from dressi.vk.plan.model.records import CPU
from dressi.vk.run.executor import VulkanExecutor

SIZE, TILES = (9, 7), 3
RANDOM = np.random.default_rng(4)


def leaf(vtype, name, size=SIZE, batch=TILES):
    shape = (batch, size[1], size[0], *vtype.shape)
    values = RANDOM.integers(0, 6, shape) if vtype.is_int else RANDOM.normal(size=shape)
    return Variable(vtype, size, batch, name=name, data=values)


def program():
    """A texture with its moment, moved by a scatter; images that move by themselves, one of them a matrix; a counter."""
    texture, moment = leaf(VEC3, "texture"), leaf(VEC3, "moment")
    index, weight = leaf(IVEC2, "index", (16, 8)), leaf(FLOAT, "weight", (16, 8))
    matrix, image = leaf(MAT3, "matrix", (10, 6)), leaf(VEC2, "image", (10, 6))
    count = Variable(INT, name="count", data=np.ones((1, 1, 1), int))
    error = F.lookup(texture, index) * weight
    bound = F.max(F.max_component(F.abs(error)))
    gradient = F.scatter_add(error, index, SIZE, batch=TILES, bound=bound)
    new = moment * 0.9 + gradient / F.to_float(count)
    turned = F.matmul(matrix, matrix) * 0.1
    updates = (
        (texture, texture - 0.1 * new),
        (moment, new),
        (matrix, turned),
        (image, image * 0.5 + 1.0),
        (count, count + 1),
    )
    return Program({}, updates)


def run(device, program, limits, **cost):
    with VulkanExecutor(program, device, limits=limits, cost=replace(CPU, **cost)) as executor:
        for _ in range(2):
            executor.run(2)
            executor.wait()
        drawn = [bool(s.colors) for s in executor.plan.step.sub_stages if s.replaces]
        return [executor.recv(v) for v in program.leaves], drawn


@pytest.mark.parametrize("grid", [False, True])
def test_draws_give_the_bits_of_dispatches(device, grid):
    limits = replace(device.limits, max_framebuffer_height=2 * SIZE[1]) if grid else device.limits
    work = program()
    expected, none = run(device, work, limits, prefers_attachments=False)
    found, all_of_them = run(device, work, limits)
    assert not any(none) and all(all_of_them) and len(all_of_them) > 1
    assert all((a == b).all() for a, b in zip(expected, found, strict=True))


@pytest.mark.parametrize("limit", [{"max_color_attachments": 1}, {"fragment_atomics": False}])
def test_what_a_draw_may_not_do_stays_a_dispatch(device, limit):
    work = program()
    expected, _ = run(device, work, device.limits)
    found, drawn = run(device, work, replace(device.limits, **limit))
    assert not all(drawn)
    assert all((a == b).all() for a, b in zip(expected, found, strict=True))


def test_lists_are_dispatched(device):
    vertices = leaf(VEC3, "vertices", (40, 1), 1)
    _, drawn = run(device, Program({}, ((vertices, vertices * 0.5),)), profile("desktop"))
    assert drawn == [False]
