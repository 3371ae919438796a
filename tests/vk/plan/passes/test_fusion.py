"""What becomes one pass: contractions with what is around them, operands, and what overflows."""

from dataclasses import replace

import numpy as np
import pytest

from dressi import FLOAT, IVEC2, IVEC3, VEC2, VEC3, VEC4, F, Variable, adam, gradient
from dressi.ad.graph.evaluation import NumpyExecutor
from dressi.ad.graph.program import Program
from dressi.ad.least_squares.objective import Objective
from dressi.ad.transform.simplify import simplify
from dressi.config import shader_text
from dressi.render import adjacency, edge_list, hard_soft_ras, l2, large_steps, list_leaf, ring, to_clip
from dressi.render.cameras.pose import matrices_leaf
from dressi.render.drawing.draw import surface_uv
from dressi.render.mesh.primitives import pear
from dressi.render.surface.screen import rasterize_hard
from dressi.render.surface.texturing import texture_colour
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.core.limits import PROFILES, UNBOUNDED, profile
from dressi.vk.plan.core.options import DEFAULT
from dressi.vk.plan.core.substage import Compute, Fragment, SubStage
from dressi.vk.plan.execution.plan import Plan
from dressi.vk.plan.model.records import CPU, DESKTOP, RECORDS, TILER
from dressi.vk.plan.passes import precision as contraction
from dressi.vk.plan.predict.stages import predict
from dressi.vk.run.execution.executor import VulkanExecutor

SIZE = (128, 64)
LIMITS = replace(profile("mali_g76"), max_sampled_images=32)
WHOLE = replace(DEFAULT, without=("split_overflow",))


def crowded() -> Program:
    """Triangles drawn six times, and a formula of all six images and of four others at the same pixel."""
    noise = np.random.default_rng(5).normal(size=(4, SIZE[1], SIZE[0]))
    images = [Variable(FLOAT, SIZE, name=f"image {k}", data=noise[k : k + 1]) for k in range(4)]
    step = Variable(FLOAT, name="step", data=np.ones((1, 1, 1)))
    total = images[0] * step
    for k in range(6):
        left = -0.713 + 0.2 * k  # the triangle covers what is right of it
        corners = Variable.of([[left, -9.0, 0.0, 1.0], [left, 9.0, 0.0, 1.0], [20.0, 0.0, 0.0, 1.0]], VEC4)
        face = F.to_float(F.rasterize(corners + step * 1e-9, size=SIZE))
        total = F.sin(total * (1.0 + 0.1 * k)) + images[k % 4] * face * F.cos(total)
    return Program({"total": total}, ((step, step * 0.9),))


def works(program, model, options=DEFAULT):
    plan = build_plan(program, LIMITS, shader_text, options, model)
    large = [s for s in plan.step.sub_stages if s.domain.size == SIZE]
    return plan, large


def test_a_tiler_splits_into_subpasses_of_one_render_pass():
    program = crowded()
    split, parts = works(program, TILER)
    whole, one = works(program, TILER, WHOLE)
    assert all(s.draws for s in parts) and sum(isinstance(s.work, Fragment) for s in parts) > 1
    assert any(isinstance(s.work, Compute) for s in one)
    stages = [stage for stage in split.step.stages if set(stage.sub_stages) & set(parts)]
    assert len(stages) == 1
    inside = split.images.passing[1]
    assert inside and all(split.images.slots[k].passing for v in inside for k in split.images.of[v])
    after, before = (predict(plan, TILER).totals for plan in (split, whole))
    assert after["bytes"] < before["bytes"] and after["seconds"] < before["seconds"]


def test_others_dispatch():
    _, found = works(crowded(), DESKTOP)
    assert any(isinstance(s.work, Compute) for s in found)


def test_values(device):
    program = crowded()
    exact = NumpyExecutor(program)
    exact.run(2)
    with VulkanExecutor(program, device, limits=LIMITS, cost=TILER) as run:
        run.run(2)
        assert sum(isinstance(s.work, Fragment) for s in run.plan.step.sub_stages) > 1
        for v in program.outputs.values():
            assert np.abs(run.recv(v) - exact.recv(v)).max() < 1e-4


CONTRACTED = replace(DEFAULT, contract_operations=True)
OPERATION_SIZE = (48, 32)


def leaf(vtype, size, name):
    values = np.random.default_rng(len(name)).uniform(-1, 1, (1, size[1], size[0], *vtype.shape))
    return Variable(vtype, size, name=name, data=values.astype(np.float32))


def mixed() -> Program:
    """A position, a mask, a texel and the branch of a selection, and a smooth loss with its gradient."""
    image, uv = leaf(VEC3, OPERATION_SIZE, "image"), leaf(VEC2, OPERATION_SIZE, "places")
    corners = Variable.of([[-0.713, -9.0, 0.1, 1.0], [-0.713, 9.0, 0.1, 1.0], [20.0, 0.0, 0.1, 1.0]], VEC4)
    step = Variable.of(1.0, name="step")
    moved = corners * (step * 0.5 + 0.5) + 0.0
    covered = F.greater_equal(F.rasterize(moved, size=OPERATION_SIZE), 0)
    texel = F.floor(uv * 5.0 + 0.37) * 0.1
    inside = F.less(image.x * image.y + 0.125, image.z)
    smooth = F.dot(image, F.sin(image * 2.0 + 0.3)) * step + image.x * image.y
    shown = F.select(inside, smooth, texel.x) * F.to_float(covered)
    (slope,) = gradient(F.sum(F.square(smooth - 0.3)), [image])
    updates = ((image, image - slope * 0.01), (step, step * 0.9))
    return simplify(Program({"shown": shown, "slope": slope}, updates))


def test_what_tests_depend_on_stays_precise():
    program = mixed()
    tested = contraction.tested_values(program.functions)
    names = {type(f).__name__ for f in program.functions if f.output in tested}
    assert {"Mul", "Add"} <= names
    plan = build_plan(program, UNBOUNDED, shader_text, CONTRACTED, CPU)
    contracted = {f for s in plan.sub_stages for f in s.contracted}
    assert contracted and not any(f.output in tested or f.zero_derivative for f in contracted)
    free = {type(f).__name__ for f in contracted}
    assert {"Sin", "Mul", "Dot"} <= free and free.isdisjoint({"Floor", "Less", "Rasterize"})
    default = build_plan(program, UNBOUNDED, shader_text, DEFAULT, CPU)
    assert not any(s.contracted for s in default.sub_stages)

    def said(plan):
        return sum(text.count("precise ") for made in plan.shaders.values() for text in made.sources.values())

    assert 0 < said(plan) < said(default)


def test_values_of_contract_operations(device):
    """Of every record: rounding once instead of twice is off by a few units in the last place."""
    program = mixed()
    exact = NumpyExecutor(program)
    exact.run(2)
    for model in RECORDS.values():
        with VulkanExecutor(program, device, cost=model, options=CONTRACTED) as run:
            run.run(2)
            assert any(s.contracted for s in run.plan.sub_stages)
            for name, v in program.outputs.items():
                value = exact.recv(v)
                assert np.abs(run.recv(v) - value).max() < 1e-5 * np.abs(value).max(), f"{model.name}: {name}"


OPERAND_SIZE = (64, 48)


def planned(program: Program) -> Plan:
    return build_plan(simplify(program), profile("desktop"), shader_text)


def between(sub_stages: list[SubStage]) -> list[Variable]:
    """Images of full size that one of them leaves to another."""
    made = {v for s in sub_stages for v in s.outputs}
    read = {r.variable for s in sub_stages for r in s.reads}
    return sorted((v for v in made & read if v.size == OPERAND_SIZE), key=lambda v: v.id)


def sampled(wrap: str = "repeat", texels: int = 64) -> Program:
    texture = Variable(VEC3, (texels, texels), name="texture")
    uv, target = Variable(VEC2, OPERAND_SIZE, name="uv"), Variable(VEC3, OPERAND_SIZE, name="target")
    seen = F.sample(texture, F.sin(F.sin(uv)) * 3.0, wrap=wrap)
    (slope,) = gradient(F.sum(F.dot(seen - target, seen - target)), [texture])
    return Program({}, ((texture, texture - 0.1 * slope),))


def test_of_texture_coordinates_that_stay_texels_and_weights_are_made_again():
    """Four texels and four weights follow from two floats."""
    plan = planned(sampled())
    assert [v.vtype for v in plan.kept if v.size == OPERAND_SIZE] == [VEC2]


def test_the_gradient_of_a_blend_is_stored_once():
    """By both of its ends, each a product with a weight, scattered once they are bounded."""
    assert [v.vtype for v in between(planned(sampled(texels=1024)).step.sub_stages)] == [VEC3]


def test_what_is_read_by_name_keeps_its_image():
    """Also in the middle of what is made again."""
    program = sampled()
    texels = [f.output for f in program.functions if f.output.vtype is IVEC2]
    named = {f"texel {k}": v for k, v in enumerate(texels)}
    plan = planned(Program(named, program.updates))
    written = {v for s in plan.sub_stages for v in s.outputs}
    assert {v for v in plan.program.outputs.values() if v.creator.inputs} <= written


def test_one_plane_is_not_stored_for_another():
    uv = Variable(VEC2, OPERAND_SIZE, name="uv")
    table = Variable(FLOAT, (40, 1), name="table", data=np.zeros((1, 1, 40)))
    kept = F.floor(F.sin(uv.x * uv.y) * 40.0)  # the same bytes as the sine, and done already
    plan = planned(Program({}, ((table, table + F.sum(kept * F.lookup(table, F.to_int(kept)))),)))
    assert [v for v in plan.kept if v.size == OPERAND_SIZE] == [kept]


@pytest.mark.one_driver
def test_the_numbers_are_the_same(device):
    """Against plans that store what is read, bit for bit."""
    random = np.random.default_rng(3)
    for program in (sampled(), sampled("clamp")):
        data = {v: random.random(v.shape) for v in program.leaves}
        results = []
        for again in (True, False):
            with VulkanExecutor(program, device, options=replace(DEFAULT, rematerialize=again)) as run:
                for v, values in data.items():
                    run.send(v, values)
                run.run(3)
                results.append([run.recv(leaf).tobytes() for leaf, _ in program.updates])
        assert results[0] == results[1]


MESH = pear(24, 40, 16)


def geometry(views, size):
    """Position and faces as leaves, and the clip positions in a ring of views."""
    position, faces = list_leaf("position", VEC3, MESH.positions), list_leaf("faces", IVEC3, MESH.faces)
    return position, faces, to_clip(position, matrices_leaf(ring(np.zeros(3), 1.0, views, size).matrices))


def silhouette(form):
    def make(views, size):
        position, faces, clip = geometry(views, size)
        edges = None if form == "face" else edge_list(MESH.faces)
        soft = hard_soft_ras(
            clip, faces, size=size, radius=Variable(FLOAT, name="radius"), face_count=len(MESH.faces),
            layers=3 if form == "face" else None, form=form, edges=edges,
        )  # fmt: skip
        return l2(soft.silhouette, Variable(FLOAT, size, views)), position, adam(0.01)

    return make


def texture(views, size):
    _, faces, clip = geometry(views, size)
    table = Variable(VEC3, (size[0] // 2, size[1] // 2), name="texture")
    face = rasterize_hard(clip, faces, size=size, face_count=len(MESH.faces))
    colour = texture_colour(table, surface_uv(MESH, clip, faces, face, size), face)
    return l2(colour, Variable(VEC3, size, views)), table, adam(0.01)


def image_fitting(views, size):
    image = Variable(VEC3, size, name="image")
    return l2(image, Variable(VEC3, size)), image, adam(0.02)


def large_steps_of_a_list(views, size):
    position = list_leaf("position", VEC3, MESH.positions)
    target = F.mean(F.square(position - 0.5))
    return F.sum_components(target), position, large_steps(adjacency(MESH.faces, len(MESH.positions)), 0.01)


MAKERS = {
    **{form: silhouette(form) for form in ("outer", "face")},
    "texture": texture,
    "image fitting": image_fitting,
    "large steps": large_steps_of_a_list,
}


@pytest.mark.parametrize("name", MAKERS)
def test_no_invocation_walks_farther_than_its_record_allows(name):
    counts = {}
    for views, side in ((1, 256), (8, 256), (8, 2048)):
        loss, parameter, optimizer = MAKERS[name](views, (side, side))
        objective = Objective()
        objective.set_loss(loss, True)
        objective.set_optimizer(optimizer, [parameter], False)
        program = objective.program()
        for record in ("desktop", "data_centre", "tiler"):
            model = RECORDS[record]
            plan = build_plan(program, PROFILES["turing"], shader_text, cost=model)
            assert model.longest_walk == 256
            walks = {s.iterations: str(s) for s in plan.sub_stages}
            assert max(walks) <= 256, walks[max(walks)]
            counts[record, views, side] = len(plan.step.sub_stages)
    for (record, views, side), count in counts.items():
        # Views are a batch. With more of them lists of pixels may pay, which take a few SubStages.
        assert count <= counts.get((record, 1, side), count) + 4, f"{views} views on {record}"
