"""Plans under a bound of memory, and shaders of SubStages that are alike; no device."""

import numpy as np
import pytest

from dressi.ad import functional as F
from dressi.ad.graph import Variable
from dressi.ad.optim import adam
from dressi.ad.program import Program
from dressi.ad.transform.gradient import gradient
from dressi.ad.transform.simplify import simplify
from dressi.ad.types import FLOAT
from dressi.config import shader_text
from dressi.errors import InputError, PlanError
from dressi.vk.plan import compiler
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.glsl.generate import generate
from dressi.vk.plan.limits import PROFILES
from dressi.vk.plan.model.records import CPU
from dressi.vk.plan.options import PlanOptions
from dressi.vk.planning import PlanningEngine, bytes_in_parts


def planned(layers: int, memory: int = 0):
    """The plan of a step that trains a chain of convolutions."""
    weight = Variable(FLOAT, (3, 3), 2, channels=2, data=np.zeros((2, 2, 3, 3)), name="weight")
    x = Variable(FLOAT, (128, 96), channels=2, data=np.zeros((1, 2, 96, 128)), name="x")
    engine = PlanningEngine(PROFILES["lavapipe"], CPU, shader_text, options=PlanOptions(memory=memory))
    y = F.loop(lambda v: v + F.sigmoid(F.correlate(v, weight, border="clamp")), x, layers)
    engine.set_loss(F.mean(F.square(y)))
    engine.set_optimizer(adam(0.1), [weight])
    return engine.plan


@pytest.mark.release
def test_loops_compute_again_what_does_not_fit():
    stored = planned(7)
    whole = stored.counts["image_bytes"]
    bounded = planned(7, int(0.6 * whole))
    assert bounded.counts["image_bytes"] <= 0.6 * whole
    assert bounded.counts["functions"] > stored.counts["functions"]
    assert planned(7, whole).key == stored.key
    with pytest.raises(PlanError, match=r"allows 0.1 even where loops keep \d states; give more"):
        planned(7, 1 << 17)
    with pytest.raises(InputError, match="memory is -1"):
        PlanOptions(memory=-1)


def test_parts_of_a_loop_share_images_that_differ_by_a_margin():
    """Of 3 x 3 weights: what an iteration pads and its gradient have 1026 x 1026 texels and 1024 x 1024 of the same format. A border
    that the convolution reads itself takes no such image."""
    size, weight = (1024, 1024), Variable(FLOAT, (3, 3), 4, channels=4, data=np.zeros((4, 4, 3, 3)))

    def taken(memory: int, correlated=lambda v: F.correlate(v, weight, border="clamp")) -> int:
        x = Variable(FLOAT, size, channels=4)
        y = F.loop(lambda v: v + F.sigmoid(correlated(v)), x, 5, checkpoints=2)
        program = simplify(Program({}, ((weight, gradient(F.sum(F.square(y)), [weight])[0]),)))
        options = PlanOptions(memory=memory)
        return bytes_in_parts(
            program,
            lambda one, changing: build_plan(
                one, PROFILES["lavapipe"], shader_text, options, CPU, changing, every=True
            ),
        )

    def padded(v: Variable) -> Variable:
        return F.correlate(F.pad(v, 1, 1, 1, 1, "clamp"), weight, border=None)

    image = 4 * 4 * size[0] * size[1]
    assert taken(1 << 40, padded) < min(11.1 * image, taken(0, padded))
    assert taken(1 << 40) < taken(1 << 40, padded)


def test_shaders_of_layers_that_are_alike_are_generated_once(monkeypatch):
    calls = {}
    for layers in (4, 6):
        made = []
        monkeypatch.setattr(
            compiler, "generate", lambda s, *more, made=made: made.append(s) or generate(s, *more)
        )
        plan = planned(layers)
        calls[layers] = len(made), len(plan.sub_stages)
    assert calls[4][0] == calls[6][0] and calls[6][1] >= calls[4][1] + 6
    for s, shaders in plan.shaders.items():
        own = generate(s, plan.limits, shader_text)
        assert (own.resources, own.sources) == (shaders.resources, shaders.sources)
