"""What some passes make is kept only where it is predicted to be faster."""

import numpy as np
import pytest

from dressi import F, Variable, adam
from dressi.ad.graph.program import Program
from dressi.ad.least_squares.objective import Objective
from dressi.config import shader_text
from dressi.render import PointGeometry, draw_strands, primitives, render, ring
from dressi.vk.plan import compiler
from dressi.vk.plan.core.limits import profile
from dressi.vk.plan.core.options import DEFAULT, PlanOptions
from dressi.vk.plan.core.substage import ComputeSum, FaceSums
from dressi.vk.plan.execution.plan import Plan
from dressi.vk.plan.model.device import DeviceModel
from dressi.vk.plan.model.records import CPU, DATA_CENTRE, DESKTOP, INTEGRATED, TILER
from dressi.vk.plan.predict.stages import Judge, predict


@pytest.fixture(autouse=True, scope="module")
def what_passes_make_is_kept() -> None:
    """Here it is kept only where it pays."""


def silhouette(size: int) -> Program:
    mesh, cameras = primitives.octasphere(3), ring((0, 0, 0), 1.0, 1, (size, size))
    positions = Variable.of(mesh.positions)
    picture = render(mesh, cameras, positions=positions, form="outer", radius=0.02)
    objective = Objective()
    objective.set_loss(F.mean(F.square(picture.mask - np.zeros((1, size, size)))), False)
    objective.set_optimizer(adam(0.01), [positions], False)
    return objective.program()


def plan(program: Program, model: DeviceModel, options: PlanOptions = DEFAULT) -> Plan:
    return compiler.build_plan(program, profile("desktop"), shader_text, options, model)


def kinds(found: Plan) -> set[type]:
    return {type(s.work) for s in found.step.sub_stages}


@pytest.mark.parametrize("model", [CPU, DESKTOP, DATA_CENTRE, INTEGRATED, TILER], ids=lambda m: m.name)
@pytest.mark.parametrize("size", [64, 512])
def test_plans_are_predicted_to_be_no_slower_than_with_every_pass(model: DeviceModel, size: int):
    program, all_kept = silhouette(size), PlanOptions(keep_what_pays=False)
    times = [predict(plan(program, model, o), model).totals["seconds"] for o in (DEFAULT, all_kept)]
    assert times[0] <= 1.02 * times[1]


def discs(count: int, size: int) -> Program:
    """A step that moves points by the picture of them."""
    places = np.random.default_rng(count).uniform(-0.5, 0.5, (count, 3))
    points = Variable.of(places)
    picture = draw_strands(PointGeometry(points, 0.01), ring((0, 0, 0), 1.0, 2, (size, size)))
    objective = Objective()
    objective.set_loss(F.mean(F.square(F.length(picture.over(0.5)) - 0.3)), False)
    objective.set_optimizer(adam(0.01), [points], False)
    return objective.program()


@pytest.mark.parametrize("model", [CPU, DESKTOP, DATA_CENTRE, INTEGRATED, TILER], ids=lambda m: m.name)
@pytest.mark.parametrize("count", [40, 2000])
def test_sums_by_faces_are_kept_where_they_are_faster(model: DeviceModel, count: int):
    """On lavapipe and SwiftShader with 2,000 points they take a third to a half of the time."""
    program = discs(count, 128)
    found = [
        plan(program, model, PlanOptions(without=left_out, keep_what_pays=False))
        for left_out in ((), ("sum_by_faces",))
    ]
    shipped = plan(program, model)
    times = [predict(p, model).totals["seconds"] for p in (shipped, *found)]
    assert times[0] <= 1.05 * min(times[1:])
    if ComputeSum not in kinds(shipped):  # what visits faces by dispatches needs no sums by them
        assert (FaceSums in kinds(shipped)) == (model is CPU or count == 2000 or times[1] < times[2])
    assert {FaceSums in kinds(p) for p in found} == {True, False}


def test_the_first_way_is_kept_where_others_gain_nothing():
    found = plan(silhouette(64), CPU)
    whole = list(found.step.sub_stages)
    judge = Judge(profile("desktop"), CPU)
    assert judge.fastest([(whole, 0.0), (whole, 0.0)]) == 0
    assert judge.fastest([(whole, 0.0), (whole[:-1], 0.0)]) == 1
    assert judge.fastest([(whole, 1.0), (whole, 0.0)]) == 1
