"""Sums over fragments on devices: by blending and in fixed point, packed and one Function a pass, with their gradients."""

from dataclasses import replace

import numpy as np
import pytest

from dressi.ad import functional as F
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.program import Program
from dressi.ad.transform.gradient import gradient
from dressi.ad.transform.simplify import simplify
from dressi.ad.types import FLOAT, INT, IVEC3, VEC2, VEC3, VEC4
from dressi.config import shader_text
from dressi.errors import PlanError
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.limits import DeviceLimits, profile
from dressi.vk.plan.options import BASELINE, PlanOptions
from dressi.vk.plan.substage import Accumulate, FaceSums, FragmentScatter, ListFaces
from dressi.vk.run.executor import VulkanExecutor

pytestmark = pytest.mark.vk
SIZE, TILES = (24, 16), 3


def leaf(vtype, data, name=None):
    data = np.asarray(data)
    return Variable(vtype, (data.shape[2], data.shape[1]), len(data), data=data, name=name)


class Discs:
    """Squares around points, whose fragments fade to zero inside of their borders: so the positions have derivatives.

    Corners lie a quarter of a pixel beside pixel centres, where drivers agree on what they cover.
    """

    count, half = 12, 3

    def __init__(self, seed=0, **options):
        rng = np.random.default_rng(seed)
        cell = rng.integers((-1, -1), (SIZE[0] + 1, SIZE[1] + 1), (TILES, self.count, 2)) + 0.25
        depth = rng.permutation(TILES * self.count).reshape(TILES, self.count) / (TILES * self.count)
        x, y = np.array([[-1, 1, 1, -1], [-1, -1, 1, 1]])[..., None] * self.half
        places = np.stack([cell[:, None, :, 0] + x, cell[:, None, :, 1] + y], -1)  # (tiles, 4, count, 2)
        clip = np.concatenate([places / SIZE * 2 - 1, np.zeros(places.shape[:3] + (2,))], -1)
        clip[..., 2], clip[..., 3] = depth[:, None], 1.0
        self.position = leaf(VEC4, np.swapaxes(clip, 1, 2).reshape(TILES, 1, -1, 4).astype(np.float32))
        first = 4 * np.arange(self.count)[:, None, None]
        rows = (first + [[0, 1, 2], [0, 2, 3]]).reshape(1, 1, -1, 3)
        self.faces = leaf(IVEC3, rows)
        self.centres = leaf(VEC2, cell[:, None].astype(np.float32), "centres")
        self.colours = leaf(VEC3, rng.uniform(0, 1, (1, 1, self.count, 3)).astype(np.float32), "colours")
        self.gain = Variable(FLOAT, data=1.5, name="gain")
        self.image = leaf(FLOAT, rng.uniform(0, 1, (1, SIZE[1], SIZE[0])).astype(np.float32), "image")
        self.drawn = F.accumulate(
            self.position,
            self.faces,
            size=SIZE,
            triangles_per_face=2,
            value=self.value,
            limit=0.8,
            **options,
        )

    def value(self, face, depth):
        here = F.to_float(F.pixel_coordinates(SIZE)) + 0.5
        far = F.length(here - F.lookup(self.centres, face)) / self.half
        weight = F.square(F.maximum(1.0 - far, 0.0)) * self.gain
        return F.lookup(self.colours, face) * (weight * self.image)

    @property
    def program(self):
        wrt = [self.centres, self.colours, self.gain, self.image]
        loss = F.sum(F.sum_components(F.square(self.drawn - 0.3)))
        slopes = gradient(loss, wrt)
        outputs = {"drawn": self.drawn, "loss": loss, **{f"d {x.name}": g for x, g in zip(wrt, slopes)}}
        updates = [(x, x - 0.02 * g) for x, g in zip(wrt[:2], slopes[:2])]
        return simplify(Program(outputs, updates))


def run(program, device, steps=2, **options):
    with VulkanExecutor(program, device, **options) as executor:
        executor.run(steps)
        executor.wait()
        return {name: executor.recv(v) for name, v in program.outputs.items()}


def works(program, limits, **options):
    plan = build_plan(program, limits, shader_text, PlanOptions(**options))
    return {type(s.work) for s in plan.sub_stages}


def reference(program):
    """After two steps."""
    moved = dict(program.updates)
    values = dict(zip(moved, evaluate(list(moved.values())), strict=True))
    return dict(zip(program.outputs, evaluate(list(program.outputs.values()), values), strict=True))


def close(found, expected, tolerance=2e-5):
    for name, value in expected.items():
        error = np.abs(found[name] - value).max()
        assert error <= tolerance * np.abs(value).max(), f"{name}: {error:.2g} of {np.abs(value).max():.2g}"


def test_a_step_by_gradients_of_sums(device):
    program = Discs().program
    assert works(program, device.limits) >= {Accumulate, FragmentScatter}
    packed, baseline = run(program, device), run(program, device, options=BASELINE)
    assert all((packed[name] == baseline[name]).all() for name in packed)
    close(packed, reference(program))


@pytest.mark.parametrize("narrow", [False, True])
def test_fixed_point_rounds_once(device, narrow):
    """Whether it is asked for, or the device does not blend floats: the sum of the same fragments, rounded once."""
    limits = replace(device.limits, float_blending=False, int64_atomics=False) if narrow else device.limits
    discs = Discs(fixed_point=not narrow)
    assert Accumulate not in works(discs.program, limits)
    close(run(discs.program, device, limits=limits), reference(discs.program))
    table = Variable(FLOAT, (3, 1), data=np.float32([1.0, 2.0**-30, -1.0]))
    square = [(-1, -1, 0, 1), (9, -1, 0, 1), (-1, 9, 0, 1)]
    position = Variable.of(3 * square, VEC4)
    value = {"value": lambda face, depth: F.lookup(table, face)}
    total = F.accumulate(position, size=(4, 4), fixed_point=not narrow, **value)
    assert (run(Program({"total": total}), device, limits=limits)["total"] == 2.0**-30).all()


def test_tiles_in_a_grid_and_few_attachments(device):
    limits = replace(profile("minimum"), max_framebuffer_height=40, float_blending=True)
    discs = Discs()
    close(run(discs.program, device, limits=limits), reference(discs.program))


def test_lists_of_live_faces_and_no_fragments_at_all(device):
    discs = Discs()
    rows = np.arange(TILES * discs.count).reshape(TILES, 1, -1) % 3
    live = leaf(INT, rows, "live")
    draw = {"size": SIZE, "triangles_per_face": 2, "live": live, "value": discs.value}
    drawn = F.accumulate(discs.position, discs.faces, **draw)
    slope = gradient(F.sum(F.sum_components(F.square(drawn))), [discs.centres])[0]
    program = Program({"drawn": drawn, "slope": slope})
    kinds = {ListFaces, Accumulate, FragmentScatter}
    assert works(program, device.limits, sum_by_faces=False) >= kinds
    assert FaceSums in works(program, device.limits)
    for by_faces in (False, True):
        close(run(program, device, options=PlanOptions(sum_by_faces=by_faces)), reference(program))
    with VulkanExecutor(program, device) as executor:
        executor.run(1)
        executor.send(live, np.zeros(live.shape, int))
        executor.run(1)
        executor.wait()
        assert not any(executor.recv(v).any() for v in program.outputs.values())


def test_sums_by_faces_know_depths_and_the_eye(device):
    """Triangles in perspective, some of which reach behind the eye or beyond the far plane."""
    rng = np.random.default_rng(7)
    clip = np.concatenate([rng.uniform(-1, 1, (80, 3, 2)), rng.uniform(0.2, 1.1, (80, 3, 2))], -1)
    clip[::9, 0, 3] = -0.3
    position, colours = Variable.of(clip.reshape(-1, 4), VEC4), Variable.of(rng.uniform(size=(80, 3)))
    drawn = F.accumulate(
        position, size=(13, 11), value=lambda face, depth: F.lookup(colours, 79 - face) * depth, limit=0.9
    )
    weight = Variable.of(rng.uniform(size=(11, 13, 3)))
    program = Program({"slope": gradient(F.sum(F.dot(drawn, weight)), [colours])[0]})
    assert FaceSums in works(program, device.limits)
    close(run(program, device, steps=1), reference(program), 2e-3)


def test_a_device_that_adds_fragments_in_no_way_is_named():
    limits = DeviceLimits(float_blending=False, fragment_atomics=False)
    with pytest.raises(PlanError, match="no atomic operations"):
        build_plan(Program({"drawn": Discs().drawn}), limits, shader_text)
