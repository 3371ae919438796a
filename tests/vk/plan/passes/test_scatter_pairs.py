"""Scatters of several pairs that are taken apart: a pair whose batch another pair brought is still added once for each tile."""

import numpy as np
import pytest

from dressi import FLOAT, INT, DressiAD, F, Variable, gradient, jvp
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import ScatterFunction
from dressi.ad.ops.image.lookup import ScatterAdd
from dressi.ad.program import Program
from dressi.ad.transform.merge import halve_scatter
from dressi.ad.transform.rewrite import replaced
from dressi.ad.transform.simplify import simplify
from dressi.vk.plan.context import Target
from dressi.vk.plan.limits import DeviceLimits
from dressi.vk.plan.lowering.inverse_lists import gather_at_lists

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
    np.testing.assert_array_equal(evaluate([found])[0], wanted)
    with DressiAD(device) as ad:
        np.testing.assert_array_equal(ad.evaluate(found), wanted)


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
