"""Random graphs of every kind of Function: packed, one Function a pass, and in float64.

`PYTHONPATH=tests python -m random_graphs --minutes 30 --device llvmpipe --json FILE` runs many more, and
`... random_graphs schedules ...` plays calls of one engine in a random order.
"""

from functools import partial

import pytest
from random_graphs.check import check, check_schedule
from random_graphs.operations import LEFT_OUT, OPERATIONS, F, along_every_axis, missing, volume
from random_graphs.programs import EVERY, LOOKUPS, SUMS, random_derivatives, random_program, random_stencils

from dressi.ad import functional
from dressi.ad.transform.simplify import simplify
from dressi.config import shader_text
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.core.limits import PROFILES
from dressi.vk.plan.core.options import BASELINE, DEFAULT


@pytest.mark.parametrize("seed", range(1, 9))
@pytest.mark.second_driver("3", "4", "5", "6")
@pytest.mark.release("2", "4", "5", "6", "7", "8")
def test_devices_follow_float64(device, seed):
    """Small ones; every fourth also in the baseline, which has a pass for each Function."""
    report = check(seed, device, count=2 + seed % 4, baseline=seed % 4 == 0)
    assert report.failures == [] and report.refused == []
    assert report.compared > len(report.unstable)


@pytest.mark.parametrize("seed", [3, 8])
@pytest.mark.second_driver("3")
@pytest.mark.release("8")
def test_sums_over_fragments_follow_float64(device, seed):
    report = check(
        seed, device, count=3, draw=partial(random_program, operations=(*OPERATIONS[::9], *SUMS, *SUMS))
    )
    assert report.failures == [] and report.refused == []


# The gradient in 31094 is a contraction whose terms are constants: it has no inputs.
BORDERS = [
    ("contractions", 4),
    ("contractions", 10),
    ("contractions", 31094),
    ("lookups", 4),
    ("lookups", 10),
]


@pytest.mark.parametrize(("kind", "seed"), BORDERS, ids=[f"{kind}-{seed}" for kind, seed in BORDERS])
@pytest.mark.second_driver("contractions-4", "lookups-10")
def test_borders_follow_float64(device, kind, seed):
    """Along every axis, with functions in the line of a contraction; at clamped, mirrored and rounded indices."""
    operations = {"contractions": [along_every_axis, volume], "lookups": LOOKUPS}[kind]
    draw = partial(random_stencils, operations=operations)
    report = check(seed, device, count=1, baseline=False, draw=draw)
    assert report.failures == [] and report.refused == []
    assert report.compared > len(report.unstable)


@pytest.mark.parametrize("seed", range(10))
def test_what_vulkan_guarantees_is_enough(seed):
    program, _ = random_program(1000 + seed)
    for options in (DEFAULT, BASELINE):
        build_plan(simplify(program), PROFILES["minimum"], shader_text, options)


@pytest.mark.release
@pytest.mark.one_driver
def test_what_took_another_in_is_not_taken_in_itself(device):
    """The planner's choice, not the device's. With few images a SubStage over one texel becomes a host, and could be fused itself."""
    report = check(40015, device, count=40)
    assert report.failures == []


def test_equal_seeds_give_equal_programs():
    plans = [build_plan(simplify(random_program(4)[0]), PROFILES["turing"], shader_text) for _ in range(2)]
    assert plans[0].key == plans[1].key


@pytest.mark.release
def test_every_operator_is_in_some_random_graph():
    F.used.clear()
    seed = 0
    while missing(F.used) and seed < 300:
        random_program(seed, 16, EVERY)
        seed += 1
    assert missing(F.used) == []
    assert set(LEFT_OUT) <= set(functional.__all__)


@pytest.mark.parametrize("seed", [1, 6, 115])
@pytest.mark.release("6", "115")
@pytest.mark.one_driver
def test_no_value_is_stale_whatever_the_order_of_calls(device, seed):
    report = check_schedule(seed, device)
    assert report.failures == [] and report.compared > len(report.unstable)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.second_driver("2", "3")
@pytest.mark.release("3", "4", "5")
def test_stencils_follow_float64(device, seed):
    report = check(seed, device, draw=random_stencils)
    assert report.failures == [] and report.refused == []
    assert report.compared > 0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.second_driver("1")
@pytest.mark.release("2")
def test_derivatives_follow_float64(device, seed):
    report = check(seed, device, count=12, baseline=False, draw=random_derivatives)
    assert report.failures == [] and report.refused == []
    assert report.compared > len(report.unstable)
