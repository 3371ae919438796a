"""The checks of DRESSI_CHECK find every fault that is planted, and none in what the compiler makes."""

from dataclasses import replace

import numpy as np
import pytest
from graphs import weighing

from dressi import FLOAT, INT, VEC4, F, PlanError, PlanOptions, Variable
from dressi.ad.graph.program import Program
from dressi.config import config, shader_text
from dressi.errors import InputError
from dressi.vk.plan.analysis.context import Target
from dressi.vk.plan.compiler import build_plan, contexts, schedule
from dressi.vk.plan.core.limits import DeviceLimits
from dressi.vk.plan.core.substage import (
    Binding,
    Compute,
    Fragment,
    ListBlocks,
    Range,
    Read,
    Scatter,
    Sparse,
    Stage,
)
from dressi.vk.plan.execution.plan import Plan
from dressi.vk.plan.model.records import CPU
from dressi.vk.plan.verify import verify, verify_plan

SIZE = (40, 24)
FREE = weighing(CPU, lanes=1, fetch=0.0, store=0.0, stage=0.0)


def program() -> Program:
    """A raster with a mask, work where it hit something, a scatter with an optimizer, and a counter."""
    corners = np.random.default_rng(0).uniform(-1, 1, (1, 1, 30, 4)).astype(np.float32)
    position = Variable(VEC4, (30, 1), name="position", data=corners)
    live = Variable(INT, (10, 1), name="live", data=np.ones((1, 1, 10), int))
    face = F.rasterize(position, size=SIZE, live=live)
    table = Variable(FLOAT, (4, 4), name="table", data=np.zeros((1, 4, 4)))
    count = Variable(INT, name="count", data=np.zeros((1, 1, 1), int))
    wave = F.sin(F.to_float(face) * F.lookup(table, F.clamp(face, 0, 15)))
    image = F.select(F.greater_equal(face, 0), F.exp(wave) * wave, 0.25)
    slope = F.scatter_add(F.select(F.greater_equal(face, 0), wave, 0.0), F.clamp(face, 0, 15), (4, 4))
    shifted = F.shift(image, 1, 0) * image
    new = position * 0.9 + F.sum(shifted) * 0.001
    return Program({"image": image}, ((table, table - 0.1 * slope), (count, count + 1), (position, new)))


@pytest.fixture(scope="module")
def planned():
    """(sub_stages, context) after all passes of the step, and the Plan."""
    work, limits = program(), DeviceLimits()
    _, context = contexts(work, Target(limits, FREE))
    done = schedule(context, frozenset(leaf for leaf, _ in context.updates), "step")
    return (
        done.sub_stages,
        context.following(done.sub_stages),
        build_plan(work, limits, shader_text, cost=FREE),
    )


def test_what_the_compiler_makes_breaks_no_rule(planned):
    sub_stages, context, plan = planned
    verify(sub_stages, context, "all passes")
    verify_plan(plan)
    kinds = {type(s.work).__name__ for s in sub_stages}
    assert {"Raster", "ListFaces", "ListBlocks"} <= kinds and any(
        isinstance(s.work, Scatter) for s in sub_stages
    )


def find(sub_stages, which):
    return next(k for k, s in enumerate(sub_stages) if which(s))


def drop(sub_stages, k):
    return sub_stages[:k] + sub_stages[k + 1 :]


def swap(sub_stages, k, **changes):
    return [*sub_stages[:k], replace(sub_stages[k], **changes), *sub_stages[k + 1 :]]


def without_a_maker(ss, context):
    read = {r.variable for s in ss for r in s.reads}
    return drop(ss, find(ss, lambda s: not read.isdisjoint(s.outputs)))


def without_a_list(ss, context):
    return drop(ss, find(ss, lambda s: isinstance(s.work, ListBlocks)))


def twice(ss, context):
    return [*ss, ss[find(ss, lambda s: bool(s.outputs))]]


def other_output(ss, context):
    k = find(ss, lambda s: isinstance(s.work, (Fragment, Compute)) and s.outputs)
    return swap(ss, k, outputs=(*ss[k].outputs, context.roots[-1], Variable(FLOAT, SIZE, name="other")))


def attachment_of_a_dispatch(ss, context):
    k = find(ss, lambda s: isinstance(s.work, Compute) and s.reads)
    return swap(ss, k, reads=tuple(replace(r, binding=Binding.ATTACHMENT) for r in ss[k].reads))


def attachment_read_elsewhere(ss, context):
    k = find(ss, lambda s: isinstance(s.work, Fragment) or (isinstance(s.work, Compute) and s.reads))
    s = ss[k]
    reads = tuple(replace(r, binding=Binding.ATTACHMENT, elsewhere=True) for r in s.reads)
    return swap(ss, k, work=Fragment(), reads=reads)


def vertex_shader_of_a_dispatch(ss, context):
    k = find(ss, lambda s: isinstance(s.work, Compute) and s.reads)
    return swap(ss, k, reads=tuple(replace(r, binding=Binding.VERTEX) for r in ss[k].reads))


def two_bindings(ss, context):
    k = find(ss, lambda s: bool(s.reads))
    return swap(ss, k, reads=(*ss[k].reads, Read(ss[k].reads[0].variable, Binding.TEXTURE)))


def overwritten_elsewhere(ss, context):
    k = find(ss, lambda s: s.replaces and {r.variable for r in s.reads} & set(s.replaces.values()))
    leaves = set(ss[k].replaces.values())
    return swap(
        ss, k, reads=tuple(replace(r, elsewhere=True) if r.variable in leaves else r for r in ss[k].reads)
    )


def overwritten_by_no_update(ss, context):
    k = find(ss, lambda s: not s.replaces and s.outputs)
    v = ss[k].outputs[0]
    return swap(ss, k, replaces={v: Variable(v.vtype, v.size, v.batch, channels=v.channels, name="leaf")})


def overwritten_in_another_type(ss, context):
    k = find(ss, lambda s: bool(s.replaces))
    new = next(iter(ss[k].replaces))
    return swap(ss, k, replaces={new: Variable(VEC4, (3, 3), name="leaf")})


def waits_for_itself(ss, context):
    k = find(ss, lambda s: isinstance(s.work, (Fragment, Compute)) and s.outputs)
    return swap(ss, k, reads=(*ss[k].reads, Read(ss[k].outputs[0], Binding.TEXTURE)))


def blocks_of_another_size(ss, context):
    k = find(ss, lambda s: getattr(s.work, "sparse", None) is not None)
    blocks = ss[k].work.sparse.blocks
    other = replace(blocks, domain=context.updates[0][0].domain)
    return swap(ss, k, work=replace(ss[k].work, sparse=Sparse(other)))


def fills_what_it_does_not_write(ss, context):
    k = find(ss, lambda s: getattr(s.work, "sparse", None) is not None)
    fill = {context.updates[0][0]: np.zeros(1)}
    return swap(ss, k, work=replace(ss[k].work, sparse=Sparse(ss[k].work.sparse.blocks, fill)))


def read_from_an_image(ss, context):
    k = find(ss, lambda s: any(r.variable in s.ranges for r in s.reads))
    return swap(ss, k, ranges={})


def outliving_in_a_buffer(ss, context):
    k = find(ss, lambda s: isinstance(s.work, Compute) and not context.fixed.isdisjoint(s.outputs))
    v = next(v for v in ss[k].outputs if v in context.fixed)
    return swap(ss, k, ranges={v: Range((v,))})


def fetched_unmarked(ss, context):
    k = find(ss, lambda s: isinstance(s.work, Compute) and any(r.elsewhere for r in s.reads))
    return swap(ss, k, reads=tuple(replace(r, elsewhere=False) for r in ss[k].reads))


def raster_computed_again(ss, context):
    """A sum of what follows from a raster reads nothing."""
    k = find(ss, lambda s: isinstance(s.work, Compute) and any(r.elsewhere for r in s.reads))
    return swap(ss, k, reads=())


@pytest.mark.parametrize(
    ("plant", "sentence"),
    [
        (fetched_unmarked, "of which the reads say nothing"),
        (raster_computed_again, "neither stored nor computed again"),
        (read_from_an_image, "is read from an image"),
        (outliving_in_a_buffer, "outlives its schedule"),
        (without_a_maker, "nothing makes"),
        (without_a_list, "nothing makes the list"),
        (twice, "made by two SubStages"),
        (other_output, "no Function of its own makes"),
        (attachment_of_a_dispatch, "input attachment of a dispatch"),
        (attachment_read_elsewhere, "is read at other pixels"),
        (vertex_shader_of_a_dispatch, "read by a vertex shader"),
        (two_bindings, "through two bindings"),
        (overwritten_elsewhere, "overwritten while other pixels"),
        (overwritten_by_no_update, "which is no update"),
        (overwritten_in_another_type, "does not fit the image"),
        (waits_for_itself, "waits for itself"),
        (blocks_of_another_size, "cannot run on blocks"),
        (fills_what_it_does_not_write, "filled and not written"),
    ],
    ids=lambda x: x.__name__ if callable(x) else "",
)
def test_a_planted_fault_is_found(planned, plant, sentence):
    sub_stages, context, _ = planned
    wrong = plant(sub_stages, context)
    with pytest.raises(PlanError, match="broke a rule of plans") as error:
        verify(wrong, context.following(wrong), "the pass")
    assert sentence in str(error.value)


def test_what_a_fused_sum_fetches_is_stored():
    """An update and a sum share a dispatch that reads the table elsewhere: no scatter does its work."""
    leaf = Variable(FLOAT, (30, 1), name="leaf", data=np.zeros((1, 1, 30)))
    values = Variable(FLOAT, (64, 8), name="values", data=np.ones((1, 8, 64)))
    table = F.scatter_add(values * values, F.to_int(values * 9.0), (30, 1))
    work = Program({"sum": F.sum(table * table)}, ((leaf, leaf - 0.1 * table),))
    with config(check=True):
        plan = build_plan(work, DeviceLimits(), shader_text, changing=frozenset([values]))
    assert plan.counts["substages"] == 2


def test_a_limit_that_is_exceeded_is_found(planned):
    sub_stages, context, plan = planned
    with pytest.raises(PlanError, match="sampled images"):
        verify(sub_stages, replace(context, limits=DeviceLimits(max_sampled_images=0)), "the pass")
    with pytest.raises(PlanError, match="storage buffers"):
        verify_plan(replace(plan, limits=DeviceLimits(max_storage_buffers=0)))


def stages_backwards(plan: Plan) -> Plan:
    return replace(plan, step=replace(plan.step, stages=plan.step.stages[::-1]))


def a_dispatch_in_a_render_pass(plan: Plan) -> Plan:
    return replace(plan, step=replace(plan.step, stages=(Stage(tuple(plan.step.sub_stages)),)))


def images_shared_too_early(plan: Plan) -> Plan:
    """All images and ranges of buffers of one length become one."""
    kinds = [s.bytes for s in plan.images.slots]
    first = {n: kinds.index(kind) for n, kind in enumerate(kinds)}
    shared = tuple(
        {v: tuple(first[n] for n in numbers) for v, numbers in of.items()} for of in plan.images.by_schedule
    )
    return replace(plan, images=replace(plan.images, by_schedule=shared))


@pytest.mark.parametrize("plant", [stages_backwards, a_dispatch_in_a_render_pass, images_shared_too_early])
def test_a_fault_of_a_plan_is_found(planned, plant):
    with pytest.raises(PlanError, match="the finished plan broke a rule"):
        verify_plan(plant(planned[2]))


def test_passes_are_shown_and_left_out_by_name(capsys):
    with config(debug=2, check=True):
        build_plan(program(), DeviceLimits(), shader_text, cost=FREE)
    shown = capsys.readouterr().err
    assert all(
        f"step: {name}:" in shown for name in ("pack_functions", "compact_live_faces", "choose_lowering")
    )
    with config(debug=2):
        options = PlanOptions(without=("compact_live_faces",))
        build_plan(program(), DeviceLimits(), shader_text, options, FREE)
    assert "compact_live_faces" not in capsys.readouterr().err
    with pytest.raises(InputError, match=r"no pass is called 'compact'; there are .*compact_live_faces"):
        build_plan(program(), DeviceLimits(), shader_text, PlanOptions(without=("compact",)))
