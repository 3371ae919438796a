"""Memory that two devices share: values of one are read on the other, without the host."""

import numpy as np
import pytest

from dressi import FLOAT, INT, IVEC2, MAT3, VEC3, DressiAD, F, Variable, adam
from dressi.errors import DeviceError, GraphError
from dressi.vk.run.device import external
from dressi.vk.run.device.capabilities import FEATURES
from dressi.vk.run.device.device import Device
from dressi.vk.run.device.external import device_with, shares_semaphores

pytestmark = pytest.mark.every_driver
RNG = np.random.default_rng(3)
VARIABLES = {
    "a list of vectors": lambda: Variable.of(RNG.random((5000, 3)), VEC3),
    "integers": lambda: Variable.of(RNG.integers(-9, 9, (5, 4)), INT),
    "matrices in a batch": lambda: Variable(MAT3, (3, 2), 4, data=RNG.random((4, 2, 3, 3, 3))),
    "channels": lambda: Variable(FLOAT, (6, 5), 2, channels=3, data=RNG.random((2, 3, 5, 6))),
    "one number": lambda: Variable.of(0.25),
}


@pytest.fixture(scope="module")
def second(device):
    if (why := external.why_not(device)) is not None:
        pytest.skip(why)
    with Device(device.physical, validation=bool(device.instance.validation)) as found:
        yield found
        assert found.live_objects() == []


@pytest.mark.parametrize("kind", VARIABLES)
def test_values_go_both_ways(device, second, kind):
    here = VARIABLES[kind]()
    there = Variable(
        here.vtype, here.size, here.batch, channels=here.channels, count=here.count, name="there"
    )
    with DressiAD(device) as ad, DressiAD(second) as other:
        ad.set_output("twice", 2 * here)
        other.set_output("more", there + 1)
        given = ad.share("twice")
        taken = other.share(there, given.handle())
        assert (given.blocks, given.offsets, given.bytes) == (taken.blocks, taken.offsets, taken.bytes)
        given.give()
        given.wait()
        taken.take()
        assert np.array_equal(other.recv("more"), ad.recv("twice") + 1)
        with pytest.raises(GraphError, match="only leaves can be set"):
            given.take()
        with pytest.raises(DeviceError, match="memory of another device"):
            taken.handle()
        back = ad.share(here)
        source = other.share("more", back.handle())
        source.give()
        source.wait()
        back.take()  # what is computed of it follows, and so does the next ``give``
        assert np.array_equal(ad.recv("twice"), 2 * other.recv("more"))
        given.give()
        given.wait()
        taken.take()
        assert np.array_equal(other.recv(there), ad.recv("twice"))


def test_steps_go_on_from_what_was_taken(device, second):
    image, other_image = (Variable.of(np.full((3, 5), x), name="image") for x in (1.0, 5.0))
    with DressiAD(device) as ad, DressiAD(second) as other:
        ad.set_loss(F.mean(F.square(image)))
        ad.set_optimizer(adam(0.5), [image])
        ad.step(2)
        taken = ad.share(image)
        source = other.share(other_image, taken.handle())
        source.give()
        source.wait()
        taken.take()
        ad.step()
        assert np.allclose(ad.recv(image), 4.5, atol=0.2)


def test_what_cannot_be_shared_says_so(device, monkeypatch):
    with DressiAD(device) as ad:
        empty, spans = Variable(FLOAT, (4, 4), name="empty"), Variable.of(np.zeros((4, 2), np.int32), IVEC2)
        with pytest.raises(GraphError, match=r"nothing was ever sent to .*empty"):
            ad.share(empty).give()
        with pytest.raises(GraphError, match="host makes lists of"):
            ad.share(spans).take()
        monkeypatch.setattr(device, "features", frozenset())
        with pytest.raises(DeviceError, match=r"memory cannot be shared: .* lacks VK_KHR_external_memory_fd"):
            ad.share(spans)
        assert not shares_semaphores(device)


def test_windows_has_the_same_by_other_names(device):
    vk = device.vk
    for kind in (external.FILES, external.WIN32):
        names = {f"VK_KHR_external_{what}_{kind.ending}" for what in ("memory", "semaphore")}
        assert names <= {f.name for f in FEATURES if not f.structure}
        for name in ("ImportMemory{}InfoKHR", "MemoryGet{}InfoKHR", "SemaphoreGet{}InfoKHR"):
            assert hasattr(vk.module, "Vk" + name.format(kind.name))
        assert kind.bit == vk.VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT << (kind is external.WIN32)


def test_a_device_is_found_by_its_uuid(device):
    uuid = external.device_uuid(device.vk, device.physical.handle)
    assert device_with(uuid) == device.physical.index
    assert device_with(bytes(16)) is None
