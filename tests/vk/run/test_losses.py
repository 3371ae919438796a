"""The losses that the device recorded, and a device that counts wrong."""

import numpy as np
import pytest

from dressi import DressiAD, F, Variable, adam
from dressi.errors import DeviceError

pytestmark = pytest.mark.vk


@pytest.mark.parametrize("wrong", [20_000_000, 4, -1])
def test_a_wrong_counter_is_an_error(device, wrong):
    x = Variable.of(np.ones((8, 8)), name="x")
    with DressiAD(device) as ad:
        ad.set_loss(F.sum(F.square(x)))
        ad.set_optimizer(adam(0.1), [x])
        ad.step(3)
        counter = ad._objective.counter
        ad._workspace.send_many({counter: np.full(counter.shape, wrong)})
        with pytest.raises(DeviceError, match="at most 3 were submitted"):
            ad.losses()
        ad._workspace.send_many({counter: np.full(counter.shape, 3)})
        assert len(ad.losses()) == 3
