"""Tensors of CUDA, with a driver's library that maps the memory of the Vulkan device: where values lie, who waits
for whom, and what goes through the host."""

import ctypes

import numpy as np
import pytest
from clip_scenes import octahedron, perspective
from fake_cuda import Library

from dressi import MAT3, VEC3, F
from dressi.errors import DeviceError
from dressi.frameworks import crossing as cuda
from dressi.frameworks import engine
from dressi.frameworks.crossing import CudaArray, CudaCrossing
from dressi.frameworks.operation import wrapped
from dressi.frameworks.raster import Antialias, Interpolate, Rasterize
from dressi.vk.run.device import external, transfer

pytestmark = pytest.mark.every_driver


DRIVER = cuda.driver


@pytest.fixture
def library(device, monkeypatch):
    found = Library(device)
    monkeypatch.setattr(cuda, "driver", lambda: found)
    return found


@pytest.fixture
def crossed(device, library):
    """An engine for arrays of NumPy that stand for tensors of CUDA."""
    crossing = CudaCrossing(device, cuda.Cuda(0), library.texels)
    crossing.use(0)
    found = engine.Engine(device, crossing)
    yield found
    found.close()
    assert not library.mapped and not library.semaphores


@pytest.fixture
def through_host(monkeypatch):
    """Bytes in staging buffers of the host that are made."""
    made, plain = [], transfer.DeviceBuffer

    def counted(device, size, name, *, host):
        made.append(size)
        return plain(device, size, name, host=host)

    monkeypatch.setattr(transfer, "DeviceBuffer", counted)
    return made


def test_structures_are_those_of_cuda_h():
    at = {name: getattr(cuda.MemoryHandle, name).offset for name in ("type", "handle", "size", "flags")}
    assert at == {"type": 0, "handle": 8, "size": 24, "flags": 32}
    sizes = (
        (cuda.MemoryHandle, 104),
        (cuda.MemoryRange, 88),
        (cuda.SemaphoreHandle, 96),
        (cuda.SemaphoreParameters, 144),
    )
    assert all(ctypes.sizeof(structure) == size for structure, size in sizes)
    assert (cuda.SemaphoreHandle.flags.offset, cuda.MemoryRange.flags.offset) == (24, 16)


@pytest.mark.vk
def test_a_picture_and_its_gradients_are_those_of_the_host(crossed, library, on_device, random):
    """Lists with room, images of a batch, five channels, a layer that is held from the forward call."""
    points, tri = octahedron()
    pos = np.stack([perspective(points - [0.1 * k, 0.05, 3.0]) for k in range(2)]).astype(np.float32)
    attr = random.random((2, 6, 5), np.float32)
    steps = (
        (Rasterize((12, 20)), lambda found: [pos, tri]),
        (Interpolate(), lambda found: [attr, found[0], tri]),
        (Antialias(), lambda found: [found[2], found[0], pos, tri]),
    )
    values, expected, tickets = [], [], []
    for operation, inputs in steps:
        own, ticket = crossed.forward(operation, inputs(values))
        host, other = on_device.forward(operation, inputs(expected))
        assert all(np.array_equal(a, b) for a, b in zip(own, host, strict=True))
        seeds = [random.random(x.shape, np.float32) for x in own]
        wanted = [x.dtype == np.float32 for x in inputs(values)]
        found = crossed.backward(operation, inputs(values), seeds, wanted, ticket)
        other = on_device.backward(operation, inputs(expected), seeds, wanted, other)
        assert all(np.array_equal(a, b) for a, b in zip(found, other, strict=True))
        values, expected, tickets = values + own, expected + host, [*tickets, ticket]


@pytest.fixture(params=["tensors", "addresses"])
def both(request, crossed, device, library):
    """Gives an engine's values for arrays: tensors that their library writes, or what the driver copies."""
    if request.param == "tensors":
        yield lambda operation, arrays: crossed.forward(operation, arrays)[0]
        return
    crossing = CudaCrossing(device, cuda.Cuda(0), CudaArray.at)
    found = engine.Engine(device, crossing)

    def forward(operation, arrays):
        given = [CudaArray(crossing.cuda, array, array) for array in arrays]
        return [value.numpy() for value in found.forward(operation, given)[0]]

    yield forward
    found.close()
    assert not library.allocated


@pytest.mark.vk
def test_all_types_and_layouts(both, random):
    """Matrices in planes, vectors with padding, integers, lists longer than a row, batches, views."""

    def function(matrices, vectors, numbers, long):
        return F.matmul(matrices, vectors), F.transpose(matrices), numbers + 1, 2.0 * long

    matrices = random.random((2, 3, 4, 3, 3), np.float32)
    vectors = random.random((4, 2, 3, 3), np.float32).transpose(1, 2, 0, 3)
    numbers = random.integers(-9, 9, (5, 3)).astype(np.int32)
    long = random.random((5000, 2), np.float32)
    operation = wrapped(function, {"matrices": MAT3, "vectors": VEC3}, ["matrices", "vectors"])
    values = both(operation, [matrices, vectors, numbers, long])
    expected = (matrices @ vectors[..., None])[..., 0], matrices.swapaxes(-1, -2), numbers[None] + 1, 2 * long
    for value, wanted in zip(values, expected, strict=True):
        assert np.allclose(value.reshape(wanted.shape), wanted, rtol=1e-6)
        assert value.dtype == wanted.dtype


@pytest.mark.vk
def test_the_host_sees_no_numbers_and_waits_only_where_it_must(
    crossed, library, device, through_host, random, monkeypatch
):
    operation, image = (
        wrapped(lambda image: F.mean(F.square(image)), None, ()),
        random.random((4, 6), np.float32),
    )
    crossed.crossing.use(5)
    _, ticket = crossed.forward(operation, [image])
    crossed.backward(operation, [image], [np.ones((1, 1, 1), np.float32)], [True], ticket)
    library.log.clear()
    waits, wait = [], transfer.Exchange.wait
    monkeypatch.setattr(transfer.Exchange, "wait", lambda self: waits.append(self) or wait(self))
    value, ticket = crossed.forward(operation, [image])
    slope = crossed.backward(operation, [image], [np.ones_like(value[0])], [True], ticket)
    assert np.allclose(value[0], (image**2).mean()) and np.allclose(slope[0], 2 * image / 24)
    assert sum(through_host) == 0
    semaphores = external.shares_semaphores(device)
    assert len(waits) == (0 if semaphores else 2)
    once = ["stream 5 signals", "stream 5 waits"] if semaphores else ["wait for stream 5"]
    assert library.log == 2 * once
    crossed.crossing.use(6)
    assert library.log == [*2 * once, "wait for stream 5"]


@pytest.mark.vk
@pytest.mark.parametrize(
    "refused", ["cuInit", "cuImportExternalMemory", "another GPU", "no library", "no views"]
)
def test_a_copy_through_the_host_and_one_warning(refused, device, library, monkeypatch):
    library.refuses.add(refused)
    if refused == "another GPU":
        library.uuid = bytes(16)
    if refused == "no library":
        monkeypatch.setattr(cuda, "driver", DRIVER.__wrapped__)
        monkeypatch.setattr(cuda, "LIBRARY", "libnothing.so.1")
    if refused == "no views":
        monkeypatch.setattr(library, "texels", lambda cuda, view: view.nothing)
    sentence = {
        "another GPU": "another GPU than",
        "no library": "does not load",
        "no views": "does not take memory",
    }.get(refused, "invalid argument")
    monkeypatch.setattr(engine, "shared_device", lambda wanted: device)
    monkeypatch.setattr(engine, "_engines", {})
    monkeypatch.setattr(engine._chosen, "engine", None, raising=False)
    with pytest.warns(RuntimeWarning, match=f"cuda:0 go through the memory of the host.*{sentence}") as told:
        found = engine.engine(0, library.texels)
    assert len(told) == 1 and not isinstance(found.crossing, CudaCrossing)
    assert engine.engine(0, library.texels) is found
    found.close()
    assert not library.mapped


@pytest.mark.vk
def test_devices_of_other_numbers_and_hosts_without_the_extension(device, library, monkeypatch):
    with pytest.raises(DeviceError, match=r"CUDA refuses cuDeviceGet: invalid device ordinal \(101\)"):
        cuda.Cuda(3)
    monkeypatch.setattr(device, "features", frozenset())
    with pytest.raises(DeviceError, match="lacks VK_KHR_external_memory_fd"):
        CudaCrossing(device, cuda.Cuda(0), library.texels)
