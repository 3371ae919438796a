"""Fetches, gathers, accumulators and arrays on devices.

Every fetch of every shader is guarded: no driver may fold a constant of its index into the instruction. NVIDIA's does, and
then tests the rest of the index against the image; none of the drivers that run here do.
"""

import random
import re
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from examples_gathers import SHAPE, TAKEN, domain, some_map, summed
from graphs import masked_program, weighing
from random_graphs.operations import OPERATIONS
from random_graphs.programs import EVERY, SUMS, random_program

import dressi
from dressi import DressiAD, F, GraphError, PlanError, Variable, gradient, sgd
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.evaluation import evaluate as meaning
from dressi.ad.graph.program import Program
from dressi.ad.graph.types import FLOAT, INT, IVEC2, IVEC3, MAT3, MAT4, VEC2, VEC3, VEC4
from dressi.ad.ops.image.image import Gather
from dressi.ad.ops.image.lookup import Lookup
from dressi.ad.transform.simplify import simplify
from dressi.config import shader_text
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.core.limits import PROFILES, DeviceLimits, profile
from dressi.vk.plan.core.options import BASELINE, DEFAULT, PlanOptions
from dressi.vk.plan.core.substage import Accumulate, FaceSums, FragmentScatter, ListFaces
from dressi.vk.plan.glsl.generate import _SHADERS
from dressi.vk.plan.glsl.writer import stage_of
from dressi.vk.plan.model.records import CPU, DATA_CENTRE, DESKTOP
from dressi.vk.run.execution import gate
from dressi.vk.run.execution.executor import VulkanExecutor
from dressi.vk.run.shaders.pyglslang import compile_many

LEAST = -2147483647
TYPE_IMAGE, CONSTANT, COMPOSITE, LOAD, EXTENDED = 25, 43, 44, 61, 12
FETCH, READ = 95, 98
SMAX, SUBPASS = 42, 6


def unguarded(spirv: bytes) -> list[int]:
    """Places of the fetches whose coordinates are no maximum with the guard; input attachments are read at no index."""
    words = struct.unpack(f"<{len(spirv) // 4}I", spirv)
    made: dict[int, tuple[int, ...]] = {}
    types: dict[int, int] = {}
    found, place = [], 5
    while place < len(words):
        length, code = words[place] >> 16, words[place] & 0xFFFF
        at = words[place + 1 : place + length]
        if code == TYPE_IMAGE:
            made[at[0]] = (code, at[2])
        elif code in (CONSTANT, COMPOSITE, LOAD, EXTENDED):
            made[at[1]], types[at[1]] = (code, *at[2:]), at[0]
        elif code in (FETCH, READ):
            image, coordinate = at[2], at[3]
            dimension = made[types[image]][1] if types.get(image) in made else None
            if not (code == READ and dimension == SUBPASS) and not _guarded(made, coordinate):
                found.append(place)
        place += length
    return found


def _guarded(made: dict[int, tuple[int, ...]], coordinate: int) -> bool:
    code, *at = made.get(coordinate, (0,))
    if code == COMPOSITE:  # a constant, from which there is nothing to be moved
        return True
    if code != EXTENDED or at[1] != SMAX:
        return False
    code, *parts = made.get(at[3], (0,))
    return code == COMPOSITE and all(made[k] == (CONSTANT, LEAST & 0xFFFFFFFF) for k in parts)


def programs():
    """Programs whose shaders read in every way: mirrored, at computed indices, by snippets, by vertices, in draws."""
    x = Variable(VEC3, (5, 4), name="x")
    column = F.linear_index((5, 4))
    flipped = F.flip(x, "x")
    yield Program({"lookup": F.lookup(x, 7 - column / 3), "sum": F.sum(flipped * x)})
    for seed, operations in ((1, EVERY), (2, SUMS), (3, EVERY), (4, SUMS), (12, SUMS)):
        drawn = EVERY if operations is EVERY else (*OPERATIONS[::9], *SUMS, *SUMS)
        yield simplify(random_program(seed, 8, drawn)[0])
    for seed in (0, 1):
        yield masked_program(seed)


def shaders():
    """(shader, its stage) of the programs, planned for devices that fetch from textures, images and buffers, as whole plans and
    with a pass for each Function; the kinds of work are all there."""
    free = weighing(CPU, lanes=1, fetch=0.0, store=0.0, stage=0.0)
    found, kinds = {}, set()
    for k, program in enumerate(programs()):
        for options, cost in (
            (DEFAULT, CPU),
            (DEFAULT, free),
            (BASELINE if k == 0 else DEFAULT, DESKTOP),
            (DEFAULT, DATA_CENTRE),
        ):
            plan = build_plan(program, PROFILES["desktop"], shader_text, options, cost=cost)
            kinds |= {type(s.work) for s in plan.sub_stages}
            for made in plan.shaders.values():
                found |= {source: stage_of(part) for part, source in made.sources.items()}
    assert kinds == set(_SHADERS)
    return [*found.items(), (gate.SOURCE, "compute")]


def test_every_fetch_is_guarded():
    found = shaders()
    text = "\n".join(source for source, _ in found)
    ways = "texelFetch( imageLoad( subpassLoad( dressi_fetch dressi_make dressi_part dressi_range".split()
    assert all(way in text for way in ways)
    reading = [
        (s, stage, f"shader {k}") for k, (s, stage) in enumerate(found) if re.search(r"Fetch\(|Load\(", s)
    ]
    for (source, *_), spirv in zip(reading, compile_many(reading), strict=True):
        assert unguarded(spirv) == [], source


@pytest.mark.parametrize("index", ["4 - pixel.x", "clamp(4 - pixel.x, 0, 4)", "pixel.x - 3 + 4"])
def test_the_test_sees_fetches_without_the_guard(index):
    source = """#version 450
#extension GL_EXT_samplerless_texture_functions : require
layout(local_size_x = 1) in;
layout(set = 0, binding = 0) uniform texture2D image;
layout(set = 0, binding = 1, r32f) uniform image2D stored;
void main() {
  ivec2 pixel = ivec2(gl_GlobalInvocationID.xy);
  imageStore(stored, pixel, texelFetch(image, INDEX, 0) + imageLoad(stored, INDEX));
}
"""
    plain, guarded = f"ivec2({index}, 0)", f"max(ivec2({index}, 0), ivec2({LEAST}))"
    jobs = [(source.replace("INDEX", text), "compute", "probe") for text in (plain, guarded)]
    assert [len(unguarded(spirv)) for spirv in compile_many(jobs)] == [2, 0]


def test_fetches_are_written_in_one_place():
    """Snippets call the functions that the writer makes. A new place has to guard its index, and to be compiled above."""
    package = Path(dressi.__file__).parent
    files = [*package.rglob("*.py"), *(package.parent / "shaders").rglob("*.glsl")]
    found = {
        f.name for f in files if re.search(r"(texelFetch|imageLoad)\w*\(", f.read_text(encoding="utf-8"))
    }
    assert found == {"writer.py", "gate.py"}


def test_random_maps(device):
    values = {}
    x, g = (
        Variable.of(np.random.default_rng(k).normal(size=(*np.array(s)[[0, 2, 3]], 2)), VEC2)
        for k, s in enumerate((TAKEN, SHAPE))
    )
    for seed in range(60):
        index = some_map(random.Random(seed))
        gather = Gather(x, index, domain(SHAPE))
        values[f"{seed}: {index}"] = gather.output
        if gather.output.domain != domain(SHAPE):
            continue  # the axes of the batch are left alone
        values[f"{seed}: gradient of {index}"] = gather.vjp(g, 0)
        back = summed(g, index)
        values[f"{seed}: transpose of {index}"] = back.output
        if (short := back.shortened(2)) is not None:
            values[f"{seed}: partial sums of {index}"] = short
    expected = dict(zip(values, evaluate(list(values.values())), strict=True))
    with VulkanExecutor(Program(values), device) as run:
        run.run()
        found = {name: run.recv(v) for name, v in values.items()}
    wrong = [name for name in values if not np.allclose(found[name], expected[name], atol=1e-5)]
    assert wrong == []
    assert len(values) > 130


def test_a_pixel_reads_as_many_tables_as_there_are(device):
    """More than the images of any kind that a shader may read, beside its own pixel."""
    tables = [Variable.of(np.full((1, 3), np.sin(k)), FLOAT, name=f"table {k}") for k in range(130)]
    at = Variable(INT, (8, 4), name="at", data=np.arange(32).reshape(1, 4, 8) % 3)
    total = F.constant(0.0)
    for table in tables:
        total = total + F.lookup(table, at)
    with VulkanExecutor(Program({"total": total}), device) as run:
        run.run()
        np.testing.assert_allclose(run.recv(total), evaluate([total])[0], atol=1e-4)


SIZE = (6, 5)
AT = F.pixel_coordinates((12, 5))
Z = np.random.default_rng(5).integers(-1, 6, (5, 12))
DIAGONAL = F.pixel_coordinates((6, 1))
READS = {
    "f(x / s, z(x))": F.ivec2(AT.x / 2, Variable.of(Z, INT)),
    "in(x, x)": F.ivec2(DIAGONAL.x, DIAGONAL.x),
    "in(x, x) of every y": F.ivec2(AT.x, AT.x),
    "in(2 x + y - 1, y / 2)": F.ivec2(2 * AT.x + AT.y - 1, AT.y / 2),
    "in(7 - x / 3, 2 y)": F.ivec2(7 - AT.x / 3, 2 * AT.y),
    "in(clamp(x - 4), y)": F.clamp(AT - (4, 0), 0, (5, 4)),
}


@pytest.mark.parametrize("name", READS)
def test_gradients_of_reads_that_are_easily_wrong(device, name):
    """The first two lose terms in compilers that turn such scatters into gathers. The loss is quadratic, so that central
    differences with a step of 1 are exact; the differences of the device are of one batch, a tile for each of its texels."""
    rng = np.random.default_rng(7)
    values = rng.integers(-4, 5, (5, 6)).astype(float)
    weights = Variable.of(rng.integers(-2, 3, (READS[name].size[1], READS[name].size[0])), INT)

    def loss(x):
        return F.sum(F.to_float(weights) * F.square(F.lookup(x, READS[name])), "xy")

    x = Variable.of(values, FLOAT)
    steps = np.eye(30).reshape(30, 5, 6)
    (found,) = gradient(loss(x), [x])
    forward, backward = (loss(Variable.of(values + s * steps, FLOAT)) for s in (1, -1))
    outputs = {"gradient": found, "differences": (forward - backward) * 0.5}
    meaning = dict(zip(outputs, evaluate(list(outputs.values())), strict=True))
    with VulkanExecutor(Program(outputs), device) as run:
        run.run()
        results = {key: run.recv(v) for key, v in outputs.items()}
    for g in (meaning, results):
        assert np.array_equal(g["gradient"].ravel(), meaning["differences"].ravel())
        assert np.array_equal(g["differences"].ravel(), meaning["differences"].ravel())


@pytest.mark.vk
def test_a_pick_of_one_texel_stays_a_lookup():
    """The gradients of the many picks of a kernel share one scatter; as gathers they were one shader each had to compile."""
    assert isinstance(F.lookup(Variable(FLOAT, (5, 5)), 3).creator, Lookup)


SUM_SIZE, TILES = (24, 16), 3


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
        cell = rng.integers((-1, -1), (SUM_SIZE[0] + 1, SUM_SIZE[1] + 1), (TILES, self.count, 2)) + 0.25
        depth = rng.permutation(TILES * self.count).reshape(TILES, self.count) / (TILES * self.count)
        x, y = np.array([[-1, 1, 1, -1], [-1, -1, 1, 1]])[..., None] * self.half
        places = np.stack([cell[:, None, :, 0] + x, cell[:, None, :, 1] + y], -1)  # (tiles, 4, count, 2)
        clip = np.concatenate([places / SUM_SIZE * 2 - 1, np.zeros(places.shape[:3] + (2,))], -1)
        clip[..., 2], clip[..., 3] = depth[:, None], 1.0
        self.position = leaf(VEC4, np.swapaxes(clip, 1, 2).reshape(TILES, 1, -1, 4).astype(np.float32))
        first = 4 * np.arange(self.count)[:, None, None]
        rows = (first + [[0, 1, 2], [0, 2, 3]]).reshape(1, 1, -1, 3)
        self.faces = leaf(IVEC3, rows)
        self.centres = leaf(VEC2, cell[:, None].astype(np.float32), "centres")
        self.colours = leaf(VEC3, rng.uniform(0, 1, (1, 1, self.count, 3)).astype(np.float32), "colours")
        self.gain = Variable(FLOAT, data=1.5, name="gain")
        self.image = leaf(FLOAT, rng.uniform(0, 1, (1, SUM_SIZE[1], SUM_SIZE[0])).astype(np.float32), "image")
        self.drawn = F.accumulate(
            self.position,
            self.faces,
            size=SUM_SIZE,
            triangles_per_face=2,
            value=self.value,
            limit=0.8,
            **options,
        )

    def value(self, face, depth):
        here = F.to_float(F.pixel_coordinates(SUM_SIZE)) + 0.5
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
    draw = {"size": SUM_SIZE, "triangles_per_face": 2, "live": live, "value": discs.value}
    drawn = F.accumulate(discs.position, discs.faces, **draw)
    slope = gradient(F.sum(F.sum_components(F.square(drawn))), [discs.centres])[0]
    program = Program({"drawn": drawn, "slope": slope})
    kinds = {ListFaces, Accumulate, FragmentScatter}
    assert works(program, device.limits, without=("sum_by_faces",)) >= kinds
    assert FaceSums in works(program, device.limits)
    for left_out in ((), ("sum_by_faces",)):
        close(run(program, device, options=PlanOptions(without=left_out)), reference(program))
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


@pytest.mark.vk
def test_a_device_that_adds_fragments_in_no_way_is_named():
    limits = DeviceLimits(float_blending=False, fragment_atomics=False)
    with pytest.raises(PlanError, match="no atomic operations"):
        build_plan(Program({"drawn": Discs().drawn}), limits, shader_text)


def test_arrays_say_what_they_are():
    def kind(array, *a, **k):
        v = Variable.of(array, *a, **k)
        return v.vtype, v.size, v.batch, v.count

    many = np.zeros((5000, 3))
    assert kind(1.0) == (FLOAT, (1, 1), 1, None) and kind([1, 2]) == (dressi.IVEC2, (1, 1), 1, None)
    assert kind(np.zeros((7, 3))) == (VEC3, (7, 1), 1, 7) and kind(many) == (VEC3, (4096, 2), 1, 5000)
    assert kind(np.zeros(9)) == (FLOAT, (9, 1), 1, 9) and kind(np.zeros((9, 1))) == (FLOAT, (9, 1), 1, 9)
    assert kind(np.zeros((48, 64, 3))) == (VEC3, (64, 48), 1, None)
    assert kind(np.zeros((48, 64))) == (FLOAT, (64, 48), 1, None)
    assert kind(np.zeros((48, 64), bool)) == (FLOAT, (64, 48), 1, None)
    assert kind(np.zeros((5, 48, 64, 2))) == (VEC2, (64, 48), 5, None)
    assert kind(np.zeros((6, 4, 4)), MAT4, batched=True) == (MAT4, (1, 1), 6, None)
    assert kind(np.zeros((3, 3)), MAT3) == (MAT3, (1, 1), 1, None)
    assert kind(np.zeros((3, 3)), VEC3) == (VEC3, (3, 1), 1, 3)
    assert kind(np.zeros((2, 7, 3)), batched=True) == (VEC3, (7, 1), 2, 7)
    for array, words in [
        (np.zeros((3, 3)), "one MAT3, a list of 3 VEC3 or an image of 3x3 FLOAT"),
        (np.zeros((6, 4, 4)), "a list of 6 MAT4, an image of 4x6 VEC4 or 6 images of 4x4 FLOAT"),
        (np.zeros((2, 3, 4, 5, 6)), "too many axes"),
        (np.zeros((0, 3)), "is empty"),
        (["a"], "holds numbers"),
        (np.zeros(3) * 1j, "holds numbers"),
    ]:
        with pytest.raises(GraphError, match=words):
            Variable.of(array)
    with pytest.raises(GraphError, match="does not end in"):
        Variable.of(np.zeros((5, 2)), VEC3)


def test_lists_come_back_as_lists(device):
    rng = np.random.default_rng(0)
    for shape, batched in [
        ((5000, 3), False),
        ((7, 3), False),
        ((2, 5000, 3), True),
        ((1, 7, 3), True),
        ((6,), False),
    ]:
        points = rng.random(shape)
        v = Variable.of(points, batched=batched, name="points")
        expected = points[0] if shape == (1, 7, 3) else points
        loss = F.sum(F.square(v)) if v.vtype is FLOAT else F.sum(F.dot(v, v))
        with DressiAD(device) as ad:
            ad.set_loss(loss)
            ad.set_optimizer(sgd(0.25), [v])
            found = ad.evaluate([v, v * 2.0 + points, *gradient(loss, [v])])
            assert all(a.shape == expected.shape for a in found)
            for a, factor in zip(found, (1, 3, 2), strict=True):
                assert np.abs(a - factor * expected).max() < 1e-5
            ad.step()
            assert np.abs(ad.recv(v) - 0.5 * expected).max() < 1e-6
            ad.send(v, np.ones(expected.shape))
            assert (ad.recv(v) == 1).all()
            with pytest.raises(GraphError, match="takes an array of shape"):
                ad.send(v, np.ones(3000))


def test_arrays_stand_beside_variables():
    rng = np.random.default_rng(0)
    image, plain = rng.random((4, 5, 3)), rng.random((4, 5))
    x, s = Variable.of(image), Variable.of(plain)
    points, weights = rng.random((7, 3)), rng.random(7)
    p = Variable.of(points)
    ints = Variable.of(np.arange(12).reshape(3, 4), INT)
    for variable, expected in [
        (x + image, 2 * image),
        (image - x, 0 * image),
        (x * plain, image * plain[..., None]),
        (s * plain.tolist(), plain**2),
        (2.0**s, 2.0**plain),
        (s**2.0, plain**2),
        (abs(s - 0.5), abs(plain - 0.5)),
        (5.0 % (s + 1.0), 5.0 % (plain + 1)),
        (+s, plain),
        (p * weights, points * weights[:, None]),
        (p + [1.0, 2.0, 3.0], points + [1, 2, 3]),
        (np.eye(3) @ p, points),
        (F.where(F.less(s, 0.5), plain, 1.0), np.where(plain < 0.5, plain, 1)),
        (ints + np.arange(12).reshape(3, 4), 2 * np.arange(12).reshape(3, 4)),
    ]:
        found = variable.as_given(meaning([variable])[0])
        assert np.allclose(found.reshape(np.shape(expected)), expected)
    with pytest.raises(GraphError, match=r"array of shape \(9, 9\) does not fit"):
        x + rng.random((9, 9))


@pytest.mark.release
def test_deep_graphs_are_built_and_freed():
    x = Variable(FLOAT, (2, 2), data=np.zeros((1, 2, 2)))
    y = x
    for _ in range(30_000):
        y = y + 1.0
    assert meaning([y])[0].max() == 30_000
    (slope,) = gradient(F.sum(y), [x])
    assert meaning([slope])[0].max() == 1
    del y, slope


def test_pairs_in_images_of_four_components(device):
    """As on devices whose shaders cannot read and write one image of two: in place, in 16 bits, and copied."""
    rng = np.random.default_rng(0)
    x = Variable(VEC2, (9, 7), 2, name="x", data=rng.normal(size=(2, 7, 9, 2)))
    n = Variable(IVEC2, (9, 7), name="n", data=rng.integers(-9, 9, (1, 7, 9, 2)))
    program = Program({"y": F.shift(x * 2.0, 1, 0)}, ((x, x * 0.5 + F.to_float(n)), (n, n + 1)))
    model = replace(DATA_CENTRE, prefers_attachments=False)
    found = []
    for pairs in (True, False):
        limits = replace(device.limits, pair_images=pairs)
        with VulkanExecutor(program, device, cost=model, limits=limits) as run:
            run.run(3)
            found.append([run.recv(v) for v in (x, n, program.outputs["y"])])
            text = "".join(t for s in run.plan.shaders.values() for t in s.sources.values())
        assert ("rg32" in text) == pairs and ("rgba32" in text) != pairs
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)
