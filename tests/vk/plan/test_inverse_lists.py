"""Additions by lists of indices: gathers have the values of scatters, and follow what is sent."""

from dataclasses import replace

import numpy as np
import pytest
from graphs import optimising
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from dressi import FLOAT, INT, IVEC2, MAT2, VEC3, DressiAD, F, InputError, Variable, gradient, sgd
from dressi.ad.graph import Domain, ReduceFunction
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.program import Program
from dressi.ad.transform.rewrite import replaced
from dressi.ad.transform.simplify import simplify
from dressi.config import shader_text
from dressi.vk.plan.analysis.context import Target
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.core.limits import UNBOUNDED, DeviceLimits
from dressi.vk.plan.core.options import DEFAULT
from dressi.vk.plan.lowering import scatter
from dressi.vk.plan.lowering.scatter import InverseList, ListGather, gather_at_lists
from dressi.vk.plan.model.records import CPU, RECORDS
from dressi.vk.run.execution.executor import VulkanExecutor

SCATTERED = replace(DEFAULT, gather_at_lists=False)


def gathered(program: Program, model=CPU, options=DEFAULT, changing=frozenset()) -> Program:
    target = Target(DeviceLimits(), model, options, frozenset(changing))
    return replaced(program, gather_at_lists(program, target))


def gathers(program: Program) -> int:
    return sum(isinstance(f, ListGather) for f in program.functions)


def added(vtype, values, index, table, rng) -> tuple[Variable, Variable]:
    """A random scatter, a tenth of its indices outside. values, index, table: domains."""
    data = rng.normal(size=(values.batch, values.size[1], values.size[0], *vtype.shape))
    (width, height), _, _ = table
    shape = (index.batch, index.size[1], index.size[0])
    flat = rng.integers(0, width * height, shape)
    flat = np.where(rng.random(shape) < 0.1, -1, flat)
    if rng.random() < 0.5:
        numbers = Variable(INT, *index[:2], data=flat, name="index")
    else:
        numbers = Variable(IVEC2, *index[:2], data=np.stack([flat % width, flat // width], -1), name="index")
    x = Variable(vtype, *values[:2], data=data.astype(np.float32))
    return F.scatter_add(x, numbers, table.size, table.batch), numbers


sizes = st.tuples(st.integers(1, 9), st.integers(1, 4))


@st.composite
def cases(draw):
    size, batch = draw(sizes), draw(st.sampled_from([1, 3]))
    source = Domain(size, batch)
    small = st.sampled_from([source, Domain((1, 1), 1), Domain(size, 1), Domain((size[0], 1), batch)])
    parts = draw(st.sampled_from([(source, source), (source, draw(small)), (draw(small), source)]))
    table = Domain(draw(sizes), draw(st.sampled_from([1, batch])))
    return draw(st.sampled_from([FLOAT, VEC3, MAT2])), *parts, table, draw(st.integers(0, 9))


@settings(max_examples=60)
@given(cases())
def test_a_gather_has_the_meaning_of_the_scatter(case):
    *domains, seed = case
    table, _ = added(*domains, np.random.default_rng(seed))
    program = gathered(Program({"table": table}))
    assert gathers(program) == 1
    expected, found = evaluate([table]), evaluate([program.outputs["table"]])
    assert_allclose(found, expected, atol=1e-12)


def test_devices_gather_what_they_scatter(device):
    rng = np.random.default_rng(5)
    source = Domain((7, 3), 2)
    outputs = {}
    for k, (values, index, table) in enumerate(
        [
            (source, source, Domain((5, 1), 1)),
            (source, source, Domain((3, 4), 2)),
            (source, Domain((7, 3), 1), Domain((5, 2), 2)),
            (source, Domain((1, 1), 1), Domain((2, 2), 1)),
            (Domain((1, 1), 1), source, Domain((5, 1), 1)),
            (Domain((9, 1), 1), Domain((9, 1), 1), Domain((40, 1), 1)),
            (Domain((9, 1), 3), Domain((9, 1), 3), Domain((4, 1), 1)),
        ]
    ):
        for vtype in (FLOAT, MAT2):
            outputs[f"{k} {vtype.name}"] = added(vtype, values, index, table, rng)[0]
    program = Program(outputs)
    expected = dict(zip(outputs, evaluate(list(outputs.values())), strict=True))
    with VulkanExecutor(program, device, cost=CPU) as run:  # which gathers all of them
        assert gathers(run.program) == len(outputs)
        run.run()
        found = {name: run.recv(v) for name, v in outputs.items()}
    for name, value in expected.items():
        assert_allclose(found[name], value, rtol=2e-7, atol=1e-7)


def mesh_problem() -> tuple[Variable, Variable, Variable]:
    """(loss, positions, corners): a loss of edges of which one is a list entry, by lookups of a list of 8."""
    rng = np.random.default_rng(0)
    positions = Variable.of(rng.normal(size=(8, 3)), VEC3, name="positions")
    corners = Variable.of(rng.integers(0, 8, 20), name="corners")
    r = F.lookup(positions, corners) - Variable.of(rng.normal(size=(20, 3)), VEC3)
    return F.sum(F.square(r.x) + F.square(r.y) + F.square(r.z)), positions, corners


def test_lists_follow_the_indices_that_are_sent(device):
    loss, positions, corners = mesh_problem()
    (slope,) = gradient(loss, [positions])
    other = np.random.default_rng(7).integers(-1, 8, 20)
    with DressiAD(device) as ad:
        ad.set_output("slope", slope)
        for sent in (None, other, np.full(20, 3)):
            if sent is not None:
                ad.send(corners, sent)
            (expected,) = evaluate([slope], {} if sent is None else {corners: sent})
            assert_allclose(ad.recv("slope"), expected.reshape(ad.recv("slope").shape), rtol=1e-6, atol=1e-6)
        assert gathers(ad.plan.program) == 1
        # A program that is made later starts with the lists of what was sent.
        ad.set_output("twice", 2.0 * slope)
        (expected,) = evaluate([slope], {corners: np.full(20, 3)})
        found = ad.recv("twice")
        assert_allclose(found, 2 * expected.reshape(found.shape), rtol=1e-6, atol=1e-6)


def test_indices_sent_before_the_lists_are_made(device):
    loss, positions, corners = mesh_problem()
    other = np.random.default_rng(8).integers(0, 8, 20)
    with optimising(device, loss, sgd(0.1), [positions]) as ad:
        ad.send(corners, other)
        ad.step(1)
        moved = ad.recv(positions)
    (slope,) = evaluate(gradient(loss, [positions]), {corners: other})
    expected = (positions.data - 0.1 * slope).reshape(moved.shape)
    assert_allclose(moved, expected, rtol=1e-5, atol=1e-6)


def test_indices_that_are_sent_before_every_step(device):
    """They become changing leaves; so do their lists."""
    loss, positions, corners = mesh_problem()
    (slope,) = gradient(loss, [positions])
    rng = np.random.default_rng(9)
    with VulkanExecutor(Program({"slope": slope}), device) as run:
        for _ in range(12):
            sent = rng.integers(-1, 8, 20)
            run.send(corners, sent)
            run.run()
            (expected,) = evaluate([slope], {corners: sent})
            assert_allclose(run.recv(slope), expected.reshape(run.recv(slope).shape), rtol=1e-6, atol=1e-6)


def test_steps_are_those_of_scatters_and_programs_share_the_lists(device):
    losses = []
    for options in (DEFAULT, SCATTERED):
        loss, positions, _ = mesh_problem()
        with optimising(device, loss, sgd(0.05), [positions], options=options) as ad:
            ad.set_output("slope", gradient(loss, [positions])[0])
            ad.step(20)
            ad.recv("slope")
            losses.append(ad.losses())
            lists = [v for v in ad._workspace._of if isinstance(v, InverseList)]
            assert len(lists) == (2 if options is DEFAULT else 0)
    assert_allclose(*losses, rtol=1e-6, atol=1e-6)


def test_what_the_host_does_not_know_is_scattered():
    x = Variable.of(np.ones(6), name="x")
    unknown = Variable(INT, (6, 1), name="unknown")
    listed = Variable.of(np.arange(6), name="listed")
    assert gathers(gathered(Program({"y": F.scatter_add(x, unknown, (6, 1))}))) == 0
    assert gathers(gathered(Program({"y": F.scatter_add(x, listed + 1, (6, 1))}))) == 0
    known = Program({"y": F.scatter_add(x, listed, (6, 1))})
    assert gathers(gathered(known)) == 1
    assert gathered(known, changing={listed}) is known
    assert gathered(known, options=SCATTERED) is known
    turning = Program({"y": F.scatter_add(x, listed, (6, 1))}, ((listed, 5 - listed),))
    assert gathered(turning) is turning
    bounded = Program({"y": F.scatter_add(x, listed, (6, 1), bound=2.0)})  # reports larger values
    assert gathered(bounded) is bounded
    largest = Program({"y": F.scatter_max(listed, listed, (6, 1))})
    assert gathered(largest) is largest


def test_a_large_table_needs_no_bound():
    index = Variable.of(np.arange(70_000).reshape(175, 400))
    x = Variable(VEC3, index.size, name="x")
    program = Program({"y": F.scatter_add(F.select(index >= 0, x, 0.0), index, index.size)})
    reductions = [f for f in program.functions if isinstance(f, ReduceFunction)]
    found = gathered(program)
    assert reductions and gathers(found) == 1
    assert not [f for f in found.functions if isinstance(f, ReduceFunction)]


def test_pairs_of_one_table_are_gathered_each_for_itself():
    rng = np.random.default_rng(1)
    x, y = Variable.of(rng.normal(size=6)), Variable.of(rng.normal(size=4))
    known, unknown = Variable.of([0, 0, 2, 1, 4, 4]), Variable(INT, (4, 1))
    both = F.scatter_add(x, known, (5, 1)) + F.scatter_add(y, unknown, (5, 1))
    program = gathered(simplify(Program({"y": both})))
    assert gathers(program) == 1
    values = {unknown: np.array([3, 3, 0, -1])}
    assert_allclose(evaluate([program.outputs["y"]], values), evaluate([both], values))


@pytest.mark.parametrize("name", RECORDS)
def test_long_lists_are_gathered_only_where_a_chain_of_reads_is_cheap(name):
    def chosen(length: int) -> bool:
        index = Variable.of(np.repeat(np.arange(50), length))
        return gathers(gathered(Program({"y": F.scatter_add(1.0, index, (50, 1))}), RECORDS[name])) > 0

    model = RECORDS[name]
    assert chosen(2) and not chosen(scatter.LONGEST + 1)
    bound = int(2 * (model.dispatch + model.barrier) / model.fetch_latency)
    assert bound >= scatter.LONGEST or not chosen(bound + 1)


def test_more_views_do_not_change_the_plan():
    def plan(views: int):
        index = Variable(INT, (30, 1), views, data=np.tile(np.arange(30) // 3, (views, 1, 1)))
        values = Variable(VEC3, (30, 1), views, data=np.ones((views, 1, 30, 3)))
        program = Program({"y": F.scatter_add(values, index, (10, 1))})
        return build_plan(program, UNBOUNDED, shader_text)

    few, many = plan(2), plan(64)
    assert gathers(few.program) == gathers(many.program) == 1
    assert len(few.step.stages) == len(many.step.stages)


@pytest.mark.one_driver
def test_a_list_longer_than_loops_may_be_is_refused_and_nothing_is_set(device, monkeypatch):
    monkeypatch.setattr(scatter, "MOST", 10)
    loss, positions, corners = mesh_problem()
    with optimising(device, loss, sgd(0.1), [positions]) as ad:
        ad.step(1)
        before = ad.recv(positions)
        with pytest.raises(
            InputError, match=r"INT corners .* names one texel 20 times.*gather_at_lists=False"
        ):
            ad.send_many({positions: np.zeros((8, 3)), corners: np.full(20, 3)})
        assert (ad.recv(positions) == before).all() and (ad.recv(corners) == corners.data.reshape(-1)).all()
    with DressiAD(device, options=SCATTERED) as ad:
        ad.set_output("slope", gradient(loss, [positions])[0])
        ad.send(corners, np.full(20, 3))
        assert np.isfinite(ad.recv("slope")).all()


def four_lists() -> tuple[Variable, list[Variable]]:
    """A table of 16 texels, to which four lists of 32,768 entries add in one shader; the lists."""
    lists = [Variable.of(np.arange(1 << 15) % (1 << 11), name=f"list{k}") for k in range(4)]
    ones = Variable.of(np.ones(1 << 15), name="ones")
    tables = [F.scatter_add(ones, index, (1 << 11, 1)) for index in lists]
    return tables[0] + tables[1] + tables[2] + tables[3], lists


def test_lists_that_grow_together_are_refused_or_scattered(device):
    """The loops of an invocation end after 65,535 iterations, whichever of the lists grew."""
    total, lists = four_lists()
    longer = {index: np.full(1 << 15, 7) for index in lists}
    with DressiAD(device) as ad:
        ad.set_output("total", total)
        assert (ad.recv("total") == 64).all() and gathers(ad.plan.program) == 4
        with pytest.raises(InputError, match=r"list. .*names one texel 32768 times.*gather_at_lists=False"):
            ad.send_many(longer)
        assert (ad.recv("total") == 64).all()
        ad.send(lists[0], longer[lists[0]])  # one alone fits
        assert ad.recv("total")[0, 0, 7] == 48 + (1 << 15)
        with pytest.raises(InputError):
            ad.send_many({index: longer[index] for index in lists[1:]})
    with DressiAD(device) as ad:  # sent before the program is built
        ad.set_output("total", total)
        ad.send_many(longer)
        found = ad.recv("total")
        assert found[0, 0, 7] == 4 << 15 and found.sum() == 4 << 15


def test_lists_of_a_gradient_that_grow_together(device):
    _, lists = four_lists()
    x = Variable.of(np.ones(1 << 11), name="x")
    loss = sum((F.sum(F.lookup(x, index)) for index in lists), start=F.constant(0.0))
    (slope,) = gradient(loss, [x])
    with DressiAD(device) as ad:
        ad.set_output("slope", slope)
        assert (ad.recv("slope") == 64).all()
        with pytest.raises(InputError, match="would loop"):
            ad.send_many({index: np.full(1 << 15, 7) for index in lists})
        ad.send(lists[0], np.full(1 << 15, 7))
        assert ad.recv("slope")[7] == 48 + (1 << 15)
