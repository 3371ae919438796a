"""The outer form on every driver, by the checks of the oracle's tests."""

import numpy as np
import outer_cases as oc
import pytest
import test_outer_form as oracle

from dressi.ad.optim import adam, exponential
from dressi.ad.program import Program
from dressi.ad.transform.simplify import simplify
from dressi.vk.plan.model.records import CPU
from dressi.vk.plan.options import PlanOptions
from dressi.vk.plan.substage import ScatterDraw
from dressi.vk.run.engine import DressiAD
from dressi.vk.run.executor import VulkanExecutor

pytestmark = pytest.mark.vk
CASES = oc.cases()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.second_driver("torus", "near plane", "overlapping", "lines")
def test_image_and_gradient_are_those_of_brute_force(run, name):
    oc.check_image_and_gradient(run, CASES[name], 1e-3)


@pytest.mark.parametrize("name", ["torus", "lines", "open", "three faces at an edge"])
@pytest.mark.one_driver
def test_all_edges_give_the_image_of_the_silhouettes(run, name):
    oc.check_all_edges(run, CASES[name])


@pytest.mark.one_driver
@pytest.mark.parametrize("mesh, pixels, side", [("torus", 5, 64), ("ellipsoid", 2, 128)])
def test_gradient_integrates_to_the_loss(run, mesh, pixels, side):
    figures = oc.path(run, *oracle.MESHES[mesh], pixels=pixels, side=side)
    share, median = oc.agreement(figures)
    assert share >= 0.97 and abs(median - 1) <= 0.005, figures


def test_drivers_may_err_by_the_coarsest_grid(run):
    oracle.check_driver_may_err(run)


@pytest.mark.one_driver
def test_a_margin_shows_more_and_moves_nothing(run):
    oracle.check_margin(run, 1e-3)


@pytest.mark.one_driver
def test_a_ball_out_of_reach_comes_home_by_a_schedule(device):
    def steps(loss, move, radius, schedule, count):
        with DressiAD(device) as ad:
            ad.set_loss(loss)
            # A constant rate would tremble by a third of a pixel, and end anywhere within.
            ad.set_optimizer(adam(exponential(0.03, 0.5, 40)), [move])
            for r in schedule:
                ad.send(radius, np.full((1, 1, 1), r))
                ad.step(count)
            return ad.recv(move)

    oracle.check_far_range(steps)


def test_gradient_repeats_bit_for_bit(run):
    position, drawn = oc.outer(CASES["torus"])
    first, second = (run([drawn.silhouette, *oc.slopes(position, drawn)]) for _ in range(2))
    assert first[1].any() and all((a == b).all() for a, b in zip(first, second, strict=True))


@pytest.mark.one_driver
def test_the_gradient_visits_the_band_alone(device, monkeypatch):
    """Where no edge is near nothing is scattered, and the planner can see it; the numbers are those of all pixels.

    Also where the image itself is wanted: it is made apart.
    """
    monkeypatch.setattr(
        "dressi.vk.plan.passes.draw_scatters.PIXELS_PER_VERTEX", 0
    )  # worth it even on small images
    position, drawn = oc.outer(CASES["torus"])
    slope, image = oc.slopes(position, drawn)[0], drawn.silhouette
    found = []
    for draws, outputs in ((True, {}), (True, {"image": image}), (False, {"image": image})):
        program = simplify(Program({"slope": slope, **outputs}))
        options = PlanOptions(draw_scatters=draws)
        with VulkanExecutor(program, device, options=options, cost=CPU) as executor:  # it draws
            bounded = [s for s in executor.plan.sub_stages if isinstance(s.work, ScatterDraw)]
            assert len(bounded) == (device.limits.fragment_atomics and draws)
            executor.run()
            found.append(executor.recv(executor.program.outputs["slope"]))
    assert found[0].any() and all((found[0] == other).all() for other in found[1:])
