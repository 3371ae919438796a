"""Losses of images: the robust one against its formula."""

import numpy as np
import pytest

from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.errors import InputError
from dressi.render.objectives.losses import charbonnier


@pytest.mark.parametrize("shape", [(2, 4, 5, 1), (2, 4, 5, 3)])
def test_charbonnier_is_its_formula(shape):
    rng = np.random.default_rng(0)
    x, target = rng.normal(size=shape), rng.normal(size=shape)
    weight = rng.random((*shape[:3], 1))
    squares = ((x - target) ** 2).sum(-1, keepdims=True)
    for scale in (0.01, 1.0, 100.0):
        each = scale**2 * (np.sqrt(1 + squares / scale**2) - 1)
        image, other = Variable.of(x), Variable.of(target)
        mean, total = (
            charbonnier(image, other, scale=scale),
            charbonnier(image, other, Variable.of(weight), "sum", scale=scale),
        )
        found = [float(value.item()) for value in evaluate([mean, total])]
        assert found == pytest.approx([each.mean(), (each * weight).sum()], rel=1e-6)
        assert check_gradient(mean, [image]) < 1e-6


def test_charbonnier_of_equal_images_is_zero_and_flat():
    image = Variable.of(np.ones((4, 4, 3)))
    assert float(evaluate([charbonnier(image, 1.0, scale=0.1)])[0].item()) == 0
    assert check_gradient(charbonnier(image, 1.0, scale=0.1), [image]) < 1e-6
    with pytest.raises(InputError, match="positive"):
        charbonnier(image, 1.0, scale=0.0)
