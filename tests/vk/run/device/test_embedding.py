"""An engine inside another program's Vulkan: a plain Vulkan program draws what the optimisation holds, on its own device."""

import ctypes
import threading
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from dressi import MAT3, Device, DressiAD, ExportedImage, F, Variable, adam
from dressi.errors import DeviceError, DeviceLostError, GraphError, InputError
from dressi.vk.run.device.memory import from_planes

from .viewer import Viewer

RNG = np.random.default_rng(5)


@pytest.fixture
def viewer(device: Device) -> Iterator[Viewer]:
    """On the driver of ``device``; silent validation is part of every test, down to the last object."""
    viewer = Viewer(device.name, validation=device.instance.validation)
    yield viewer
    viewer.close()
    assert viewer.messages == []


def adopt(viewer: Viewer, **options) -> Device:
    return Device.from_handles(*viewer.handles, features=viewer.features, **options)


def fitting(own: Device) -> tuple[DressiAD, Variable]:
    """Three pictures that move towards others, the present difference among the outputs."""
    image = Variable.of(RNG.random((3, 8, 12, 3)).astype(np.float32), name="image")
    target = Variable.of(RNG.random((3, 8, 12, 3)).astype(np.float32), name="target")
    ad = DressiAD(own)
    ad.set_loss(F.mean(F.square(F.length(image - target))))
    ad.set_optimizer(adam(0.05), [image])
    ad.set_output("far", F.length(image - target))
    ad.set_output("signs", F.where(F.length(image - target) > 0.5, 1, -1))
    return ad, image


def values(exported: ExportedImage, planes: list[np.ndarray]) -> np.ndarray:
    """An array like ``recv``'s from what the viewer read: the record says where the tiles are."""
    n = exported.vtype.planes[0]
    (w, h), tiles = exported.size, []
    for x, y in exported.offsets:
        tiles.append(np.concatenate([p[y : y + h, x : x + w, :n] for p in planes], axis=-1))
    return np.stack(tiles)


def same(exported: ExportedImage, planes: list[np.ndarray], received: np.ndarray) -> bool:
    return np.array_equal(values(exported, planes).reshape(received.shape), received)


def test_a_viewer_reads_what_the_optimisation_holds(viewer):
    with adopt(viewer) as own:
        ad, image = fitting(own)
        ad.step(3)
        leaf, far, signs = ad.export(image), ad.export("far"), ad.export("signs")
        before = ad.recv(image)
        assert same(leaf, viewer.copy(leaf), before)
        assert same(leaf, viewer.sample(leaf), before)
        assert same(far, viewer.sample(far), ad.recv("far"))
        assert same(signs, viewer.copy(signs), ad.recv("signs"))
        assert set(np.unique(viewer.copy(signs)[0])) <= {-1, 1}
        # Behind steps that nobody waits for; the output follows with the next export, under the same handles.
        held = ad.recv("far")
        ad.step(70)
        assert same(far, viewer.copy(far), held)
        ad.step(5)
        assert ad.export("far") == far
        assert same(leaf, viewer.copy(leaf), ad.recv(image))
        assert same(far, viewer.copy(far), ad.recv("far"))
        assert not np.array_equal(ad.recv(image), before)
        ad.close()
        assert own.live_objects() == []


def test_validation_sees_a_viewer_that_leaves_the_barrier_out(viewer):
    if not viewer.validated:
        pytest.skip("there is no validation layer")
    with adopt(viewer) as own:
        ad, image = fitting(own)
        exported = ad.export(image)
        ad.send(image, np.zeros(image.shape))
        viewer.copy(replace(exported, stage=1, access=0))  # top of the pipe: waits for nothing
        own.wait()
    assert any("hazard" in text.lower() for text in viewer.messages)
    viewer.messages.clear()


def test_handles_stay_the_same_until_the_end(viewer):
    with adopt(viewer) as own:
        ad, image = fitting(own)
        matrix = Variable(MAT3, batch=2, data=RNG.random((2, 1, 1, 3, 3)), name="matrix")
        ad.set_output("inverse", F.inverse(matrix))
        leaf, inverse, alone = ad.export(image), ad.export("inverse"), ad.export(matrix)
        assert len(inverse.planes) == len(alone.planes) == 3
        ad.set_optimizer(None)
        for k in range(10):  # more programs than are kept, and leaves that nothing reads any more
            ad.evaluate(F.sin(image * float(k)))
            ad.send(matrix, RNG.random((2, 1, 1, 3, 3)))
            ad.step()
        assert (ad.export(image), ad.export("inverse"), ad.export(matrix)) == (leaf, inverse, alone)
        for exported, received in ((alone, ad.recv(matrix)), (inverse, ad.recv("inverse"))):
            planes = viewer.copy(exported)
            read = from_planes(
                Variable(exported.vtype, exported.size, exported.batch), planes, own.limits.tiling(matrix)
            )
            assert np.array_equal(read, received)


def test_only_values_can_be_exported(viewer):
    with adopt(viewer) as own, DressiAD(own) as ad:
        ad.set_output("y", Variable(size=(4, 4), name="nothing") * 2)
        for wrong, words in (
            (3, "can be read, not 3"),
            ("z", "no output 'z'"),
            (Variable(), "nothing was ever sent"),
        ):
            with pytest.raises(GraphError, match=words):
                ad.export(wrong)
        with pytest.raises(GraphError, match="nothing was ever sent"):
            ad.export("y")


def test_a_thread_of_the_viewer_submits_under_the_lock(viewer):
    lock = threading.Lock()
    with adopt(viewer, lock=lock) as own:
        assert own.lock is lock
        ad, image = fitting(own)
        exported = ad.export(image)
        found: list[bool] = []

        def draw() -> None:
            for _ in range(20):
                found.append(bool(np.isfinite(viewer.copy(exported, lock=lock)[0]).all()))

        thread = threading.Thread(target=draw)
        thread.start()
        for _ in range(40):
            ad.step()
        thread.join()
        assert found == [True] * 20


def as_number(handle) -> int:
    import vulkan as vk

    return int(vk.ffi.cast("uintptr_t", handle))


@pytest.mark.parametrize(
    "form", [as_number, lambda h: np.uint64(as_number(h)), lambda h: ctypes.c_void_p(as_number(h))]
)
def test_handles_come_as_numbers_and_objects(viewer, form):
    instance, physical, handle, family, queue = viewer.handles
    given = (form(instance), form(physical), form(handle), np.int64(family), form(queue))
    with Device.from_handles(*given, features=viewer.features) as own, DressiAD(own) as ad:
        assert ad.evaluate(F.square(3.0)).item() == 9.0
        assert own.name in repr(own)


@pytest.mark.parametrize("viewer_first", [True, False])
def test_everything_ends_in_either_order(device, viewer_first):
    viewer = Viewer(device.name, validation=device.instance.validation)
    own = adopt(viewer)
    ad, image = fitting(own)
    ad.step(2)
    exported = ad.export(image)
    viewer.copy(exported)
    if viewer_first:
        viewer.destroy_objects()
        ad.step(2)
        ad.close()
        own.close()
    else:
        own.close()  # an engine that is still open, too
        assert own.live_objects() == []
        ad.close()
        own.close()
    viewer.close()
    assert viewer.messages == []


def test_an_engine_that_ends_leaves_the_device_to_the_viewer(viewer):
    for _ in range(2):
        with adopt(viewer) as own, DressiAD(own) as ad:
            assert ad.evaluate(F.square(3.0)).item() == 9.0
        assert repr(own).endswith("closed)")


def test_optional_features_are_used_only_when_they_are_named(viewer):
    required = ["shaderStorageImageExtendedFormats"]
    with Device.from_handles(*viewer.handles, features=[*required, "geometryShader"]) as own:
        assert not own.limits.fragment_atomics
        assert own.features == {*required}
        with DressiAD(own) as ad:
            x = Variable.of(np.ones((5, 6)))
            assert ad.evaluate(F.sum(x)).item() == 30.0
    with adopt(viewer) as own:
        assert own.limits.fragment_atomics == ("fragmentStoresAndAtomics" in viewer.features)


def test_what_is_no_handle_is_refused(viewer):
    instance, physical, handle, family, queue = viewer.handles
    for wrong in (0, None, -1, 1 << 64, ctypes.c_void_p(None)):
        with pytest.raises(InputError, match=r"VkInstance is null or no handle"):
            Device.from_handles(wrong, physical, handle, family, queue)
        with pytest.raises(InputError, match=r"VkQueue is null or no handle"):
            Device.from_handles(instance, physical, handle, family, wrong)
    for wrong in ("0x55", 1.5, True, b"", object(), [instance]):
        with pytest.raises(
            InputError, match="a VkDevice is given as a whole number or as the object of a Vulkan"
        ):
            Device.from_handles(instance, physical, wrong, family, queue)
    with pytest.raises(InputError, match="a VkPhysicalDevice was expected, not a VkDevice"):
        Device.from_handles(instance, handle, physical, family, queue)
    with pytest.raises(DeviceError, match="the instance does not have this physical device"):
        Device.from_handles(instance, as_number(handle), handle, family, queue)


def test_wrong_families_features_and_locks_are_refused(viewer):
    instance, physical, handle, _, queue = viewer.handles
    for wrong in (-1, 7, 10**30):
        with pytest.raises(DeviceError, match=rf"no queue family {wrong}"):
            Device.from_handles(instance, physical, handle, wrong, queue, features=viewer.features)
    with pytest.raises(InputError, match="a queue family is a whole number, not 'graphics'"):
        Device.from_handles(instance, physical, handle, "graphics", queue, features=viewer.features)
    with pytest.raises(
        DeviceError,
        match=r"shaderStorageImageExtendedFormats\), a feature that is not enabled.*name it in `features`",
    ):
        Device.from_handles(*viewer.handles)
    with pytest.raises(InputError, match="Vulkan has no feature 'geometryShaders'; dressi uses"):
        Device.from_handles(*viewer.handles, features=[*viewer.features, "geometryShaders"])
    with pytest.raises(InputError, match="a lock is a context manager"):
        Device.from_handles(*viewer.handles, features=viewer.features, lock=3)


def test_a_family_without_graphics_and_features_that_are_not_there_are_refused(viewer, monkeypatch):
    import vulkan

    families, features = vulkan.vkGetPhysicalDeviceQueueFamilyProperties, vulkan.vkGetPhysicalDeviceFeatures

    def only_transfers(physical):
        found = families(physical)[0]
        return [
            vulkan.VkQueueFamilyProperties(
                queueFlags=vulkan.VK_QUEUE_TRANSFER_BIT, queueCount=found.queueCount
            )
        ]

    def without_atomics(physical):
        found = features(physical)
        found.fragmentStoresAndAtomics = False
        return found

    with (
        monkeypatch.context() as planted,
        pytest.raises(DeviceError, match="does not do both graphics and compute"),
    ):
        planted.setattr(vulkan, "vkGetPhysicalDeviceQueueFamilyProperties", only_transfers)
        adopt(viewer)
    with (
        monkeypatch.context() as planted,
        pytest.raises(DeviceError, match="lacks the feature fragmentStores"),
    ):
        planted.setattr(vulkan, "vkGetPhysicalDeviceFeatures", without_atomics)
        Device.from_handles(
            *viewer.handles, features=("shaderStorageImageExtendedFormats", "fragmentStoresAndAtomics")
        )


def test_a_lost_device_is_refused(viewer, monkeypatch):
    import vulkan

    def lost(*_):
        raise vulkan.VkErrorDeviceLost

    made = []
    with monkeypatch.context() as planted, pytest.raises(DeviceLostError, match="cannot be adopted"):
        planted.setattr(vulkan, "vkQueueSubmit", lost)
        for name in [n for n in dir(vulkan) if n.startswith(("vkCreate", "vkAllocate"))]:
            planted.setattr(vulkan, name, lambda *_, name=name: made.append(name))
        adopt(viewer)
    assert made == []
