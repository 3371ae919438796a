"""Scatters that read more images than a device allows are done in parts."""

import numpy as np
import pytest

from dressi import FLOAT, INT, F, PlanError
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import ScatterFunction, Variable
from dressi.ad.ops.image.lookup import ScatterAdd, ScatterMax
from dressi.ad.program import Program
from dressi.config import shader_text
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.limits import DeviceLimits
from dressi.vk.plan.options import BASELINE, PlanOptions
from dressi.vk.run.executor import VulkanExecutor

SCATTERED = PlanOptions(gather_at_lists=False)
FEW = DeviceLimits(max_sampled_images=5, max_input_attachments=4, max_storage_images=4)


def program(kind, vtype):
    """A table from six pairs of images, which takes twelve, as an output and as what a leaf follows."""
    rng = np.random.default_rng(4)
    pairs = []
    for k in range(6):
        values = rng.integers(0, 90, (2, 5, 7)) * (0.25 if vtype is FLOAT else 1)
        pairs.append(Variable(vtype, (7, 5), 2, name=f"value{k}", data=values))
        pairs.append(Variable(INT, (7, 5), 2, name=f"index{k}", data=rng.integers(-1, 12, (2, 5, 7))))
    table = kind(Variable(vtype, (11, 1)).domain, F.constant(100.0), *pairs).output
    leaf = Variable(vtype, (11, 1), name="leaf", data=np.zeros((1, 1, 11), vtype.dtype))
    return Program({"table": table, "twice": table + table}, ((leaf, leaf + table),)), leaf


@pytest.mark.parametrize(("kind", "vtype"), [(ScatterAdd, FLOAT), (ScatterMax, INT)])
@pytest.mark.parametrize("options", [SCATTERED, BASELINE])
def test_parts_give_the_table(kind, vtype, options, device):
    whole, leaf = program(kind, vtype)
    expected = evaluate(list(whole.outputs.values()))
    with VulkanExecutor(whole, device, options=options, limits=FEW) as run:
        scatters = [f for f in run.program.functions if isinstance(f, ScatterFunction)]
        assert sorted(len(f.pairs) for f in scatters) == [1, 1, 2, 2]
        assert all(run.plan.limits.violation(s) is None for s in run.plan.sub_stages)
        run.run(2)
        for v, values in zip(whole.outputs.values(), expected, strict=True):
            np.testing.assert_array_equal(run.recv(v), values)
        np.testing.assert_array_equal(run.recv(leaf), 2 * expected[0])


def test_what_fits_stays_whole_and_a_single_pair_is_named():
    whole, _ = program(ScatterAdd, FLOAT)
    assert build_plan(whole, DeviceLimits(), shader_text, SCATTERED).program is whole
    with pytest.raises(PlanError, match=r"ScatterAdd.*sampled images"):
        build_plan(whole, DeviceLimits(max_sampled_images=1), shader_text, SCATTERED)
