"""A logical device: the owner of every Vulkan object that dressi makes."""

from __future__ import annotations

import atexit
import hashlib
import os
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from ....ad.graph.user_code import user_level
from ....errors import DeviceError
from ...plan.model.device import DeviceModel
from ...plan.model.records import record_of
from ..host.gpus import warn_of_hidden_gpus
from ..shared import KEPT, Reference, SharedObjects
from .allocator import BUDGET_EXTENSION, Allocator, Budget
from .choose import choose, left_to_us
from .deferred import close_deferred
from .instance import Instance, PhysicalDevice
from .logical import LogicalDevice, adopt, create
from .queue import Queue
from .results import DEVICE_LOST, result, sentence

_open: list[Device] = []


class Device:
    """A device with one queue, opened by its constructor; use it from one thread of the process that opened it.

    wanted: None (DRESSI_DEVICE decides, else the fastest kind of device), a part of the name of the device or its
    driver in any case ("llvmpipe"), an index as in `dressi devices` and ``list_devices``, or an entry of
    ``list_devices``. validation: turn the validation layer on; ``messages`` collects what it reports.

    The Device owns every object that ``create`` makes until ``destroy``; ``close`` (idempotent) destroys the rest.
    ``live_objects`` lists them, ``memory`` is the allocator, ``shared`` holds pipelines and layouts that several
    programs use. Raises NoDriverError, DeviceNotFoundError, InputError for anything else than a name, an index or a
    PhysicalDevice, and DeviceError for a device that lacks what dressi needs and in a process that was forked from one
    that used Vulkan.

    >>> device = Device()
    >>> evaluate(F.square(3.0), device=device).item()  # the device is shared by all that is given it
    9.0
    >>> with DressiAD(device) as ad:
    ...     ad.evaluate(F.square(4.0)).item()
    16.0
    >>> device.trim()  # pipelines that no program uses any more
    >>> device.wait(); "Pipeline" in device.live_objects(), type(device.messages)
    (True, <class 'list'>)
    >>> device.record.lanes > 0, device.longest_submission < 60
    (True, True)
    >>> device.close()
    """

    def __init__(self, wanted: str | int | PhysicalDevice | None = None, *, validation: bool = False):
        close_deferred()
        self.handle = None
        instance = Instance.shared(validation)
        physical = choose(instance.physical_devices(), wanted)
        if physical.type == "cpu" and left_to_us(wanted):
            warn_of_hidden_gpus(physical.name, user_level())
        self._start(create(instance, physical, self._failed))

    def _start(self, logical: LogicalDevice) -> None:
        """Use this device from now on."""
        vk = self.vk = logical.vk
        self.logical = logical
        self.instance, self.physical, self.family = logical.instance, logical.physical, logical.family
        self.name, self.features = logical.physical.name, logical.features
        self._owner = (os.getpid(), threading.get_ident())
        self._objects: dict[Any, str] = {}
        self._ends: dict[Any, Callable[[Any], None]] = {}  # of objects of extensions
        self.shared = SharedObjects()
        self.capabilities, self.limits = logical.capabilities, logical.capabilities.limits
        self.timestamp_bits = self.capabilities.queue_families[self.family].timestamp_bits
        memory = vk.vkGetPhysicalDeviceMemoryProperties(logical.physical.handle)
        told = BUDGET_EXTENSION in self.capabilities.extensions
        cpu = logical.physical.type == "cpu"
        budget = Budget(vk, logical.physical.handle, memory, extension=told, cpu=cpu)
        allocations = self.capabilities.max_memory_allocations
        self.memory = Allocator(vk, logical.handle, self.name, memory, budget, allocations)
        properties = vk.vkGetPhysicalDeviceProperties(logical.physical.handle)
        self.timestamp_period = properties.limits.timestampPeriod
        self.pipeline_cache_uuid = bytes(properties.pipelineCacheUUID).hex()
        self._namer = self.instance.procedure("vkSetDebugUtilsObjectNameEXT") if self.instance.names else None
        self.handle = logical.handle
        self.work = Queue(vk, logical.handle, logical.queue, self.name, logical.lock, on_cpu=cpu)
        self.queue = self.work.handle
        _open.append(self)

    @classmethod
    def from_handles(
        cls,
        instance: Any,
        physical_device: Any,
        device: Any,
        queue_family: int,
        queue: Any,
        *,
        features: Iterable[str] = (),
        lock: AbstractContextManager[Any] | None = None,
    ) -> Device:
        """An engine's Device in the Vulkan device of another program, a viewer for example, which made it for Vulkan
        1.1 or newer.

        instance, physical_device, device, queue: their handles, as whole numbers or as objects of a Vulkan binding.
        queue_family: the index of the queue's family, which does graphics and compute.

        features: names of the features that are enabled, as in Vulkan's structures; Vulkan cannot be asked for them.
        dressi needs ``shaderStorageImageExtendedFormats``. It uses ``fragmentStoresAndAtomics``, ``multiDrawIndirect``,
        ``shaderInt64`` and ``shaderBufferInt64Atomics`` (of VK_KHR_shader_atomic_int64 or Vulkan 1.2) where they are
        named, and is slower without; other names are ignored. ``PlanOptions.half_products`` takes ``cooperativeMatrix``,
        ``computeFullSubgroups``, ``shaderFloat16``, ``vulkanMemoryModel`` and ``vulkanMemoryModelDeviceScope``, all or none.

        lock: held around each vkQueueSubmit of dressi's; absent, a new one. It is ``Device.lock``. A program that
        uses the queue on another thread than the Device's holds it around its own vkQueueSubmit, vkQueuePresentKHR
        and vkQueueWaitIdle. ``close`` waits for the work on the queue, destroys what dressi made and leaves the
        handles alone: call it before vkDestroyDevice. At the end of the process nothing is closed that was not closed
        before.

        Nothing is made when something is refused. Raises InputError for handles that are none, of another type or
        null, and for unknown features; DeviceError for a physical device that is not the instance's, a wrong queue
        family, missing features and formats, and a lost device. Handles that were destroyed, and a queue of another
        device, cannot be told from others: Vulkan does not check them.

        >>> host = Device()  # stands for a program that has a device
        >>> handles = host.instance.handle, host.physical.handle, host.handle, host.family, host.queue
        >>> with Device.from_handles(*handles, features=host.features, lock=host.lock) as own:
        ...     evaluate(F.square(3.0), device=own).item()
        9.0
        >>> host.close()
        """
        close_deferred()
        self = cls.__new__(cls)
        self.handle = None
        handles = instance, physical_device, device, queue
        self._start(adopt(handles, queue_family, features, lock, self._failed))
        return self

    @classmethod
    def open(cls, wanted: str | int | PhysicalDevice | None = None, *, validation: bool = False) -> Device:
        """The same as the constructor."""
        return cls(wanted, validation=validation)

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Held while dressi submits to the queue; another thread that submits to it holds it as well, see
        ``from_handles``.

        >>> device = Device()
        >>> with device.lock:
        ...     pass  # vkQueueSubmit
        >>> device.close()
        """
        return self.work.lock

    def _failed(self, code: int) -> None:
        """A Vulkan call on this device returned an error."""
        if code == DEVICE_LOST and self.handle is not None:
            self.work.lost = str(sentence(self.name, "cannot be used any more", result(code)))

    @property
    def key(self) -> str:
        """The name of cache files for this device and driver."""
        key = f"{self.name}:{self.physical.driver_version}:{self.pipeline_cache_uuid}"
        return hashlib.sha256(key.encode()).hexdigest()[:24]

    @property
    def record(self) -> DeviceModel:
        """The model of the device's class, without measuring."""
        return record_of(self.physical.type, self.physical.vendor_id, self.name, self.limits.lazy_images)

    @property
    def longest_submission(self) -> float:
        """Seconds of the longest submission so far, as far as the host saw it end."""
        return self.work.pace.longest

    @property
    def compiles_late(self) -> bool:
        """Whether the driver compiles a shader when it is first used, not with its pipeline. CPU drivers do."""
        return self.physical.type == "cpu"

    @property
    def messages(self) -> list[str]:
        """What the validation layer has reported so far."""
        return self.instance.messages

    @property
    def forked(self) -> bool:
        """Whether this process is a fork of the one that opened the device; only that has the driver's threads."""
        return self._owner[0] != os.getpid()

    @property
    def here(self) -> bool:
        """Whether the calling thread, of this process, opened the device."""
        return self._owner == (os.getpid(), threading.get_ident())

    def check_thread(self) -> None:
        """Raises DeviceError when the device is closed or lost, and in another thread or process than the one that
        opened it."""
        if not self.here:
            raise DeviceError(
                "a Device belongs to the process and thread that opened it; open another one there (start processes "
                "with the 'spawn' method of multiprocessing, not by a fork)"
            )
        self.work.check()
        if self.handle is None:
            raise DeviceError(f"the device {self.name} is closed; open another one")

    def create(self, kind: str, info: Any, name: str | None = None) -> Any:
        """vkCreate<kind>, owned; e.g. ``create("Image", VkImageCreateInfo(...))``."""
        failed = f"could not make a {kind}{f' for {name}' if name else ''}"
        handle = self.vk.call(f"vkCreate{kind}", failed, self.handle, info, None)
        return self.own(kind, handle, name)

    def own(
        self, kind: str, handle: Any, name: str | None = None, end: Callable[[Any], None] | None = None
    ) -> Any:
        """Own an object that another function than ``create`` made: ``close`` destroys it, by ``end`` where the kind
        is of an extension."""
        self._objects[handle] = kind
        if end is not None:
            self._ends[handle] = end
        if name and self._namer is not None and kind in _OBJECT_TYPES:
            vk = self.vk
            info = vk.VkDebugUtilsObjectNameInfoEXT(
                objectType=_OBJECT_TYPES[kind],
                objectHandle=int(vk.ffi.cast("uint64_t", handle)),
                pObjectName=name,
            )
            self._namer(self.handle, info)
        return handle

    def destroy(self, handle: Any) -> None:
        """Destroy an owned object and give back its memory; None and objects already gone are ignored."""
        kind = self._objects.pop(handle, None) if handle is not None else None
        if kind is None:
            return
        if (end := self._ends.pop(handle, None)) is not None:
            end(handle)
        else:
            getattr(self.vk, f"vkDestroy{kind}")(self.handle, handle, None)
            self.memory.free(handle)

    def share(self, key: Hashable, make: Callable[[], Any]) -> Reference:
        """A reference to the object of this key, which many may use at once; ``make`` creates it if there is none.
        key: all that the object is made from. Without references it is kept for a while, see ``SharedObjects``."""
        return self.shared.acquire(key, make)

    def release(self, reference: Reference) -> None:
        """Give up a reference to a shared object. Work that uses the object must have ended."""
        self.shared.release(reference)
        self.trim(KEPT)

    def trim(self, kept: int = 0) -> None:
        """Destroy the shared objects without references, but so many of those released last."""
        for handle in self.shared.forget_idle(kept):
            self.destroy(handle)

    def live_objects(self) -> list[str]:
        """Kinds of the objects that are in use now, blocks of memory included. Shared objects that nobody uses are
        not; ``trim`` destroys them."""
        idle = self.shared.idle
        used = [kind for handle, kind in self._objects.items() if handle not in idle]
        return sorted([*used, *["Memory"] * self.memory.allocations])

    @contextmanager
    def undo_on_error(self) -> Iterator[None]:
        """If the block raises, every object that it made is destroyed, and the references to shared objects that it
        acquired are released."""
        before, references = set(self._objects), set(self.shared.references)
        try:
            yield
        except BaseException:
            if self.settle():
                for reference in [r for r in self.shared.references if r not in references]:
                    self.shared.release(reference)
                before |= self.shared.handles
                for handle in reversed([h for h in self._objects if h not in before]):
                    self.destroy(handle)
            raise

    def wait(self) -> None:
        """Wait until all submitted work is done. Ctrl-C raises KeyboardInterrupt. Raises DeviceErrors."""
        self.check_thread()
        self.work.wait_idle()

    def settle(self) -> bool:
        """Wait for all work, see ``Queue.settle``. Returns whether objects may be destroyed; if not, ``close`` does
        it."""
        return self.handle is not None and not self.forked and self.work.settle()

    def close(self) -> None:
        """Destroy everything that dressi made, and the device unless it is another program's. Idempotent; does nothing in a
        forked process. Work that was interrupted by ctrl-C and does not end is abandoned, with a warning."""
        if self.handle is None or self.forked:
            return
        try:
            if self.work.settle(give_up=True):
                self.shared = SharedObjects()
                for handle in reversed(list(self._objects)):
                    self.destroy(handle)
                self.work.destroy()
                if self.logical.owned:
                    self.vk.vkDestroyDevice(self.handle, None)
        finally:
            if self.work.abandoned:
                self.instance.abandoned = True
                self._objects.clear()
            if self.work.abandoned or not self._objects:
                self.handle = None
                _open.remove(self)

    def __repr__(self) -> str:
        state = "closed" if self.handle is None else f"{len(self.live_objects())} objects"
        if self.work.lost is not None:
            state = "given up" if self.work.abandoned else f"lost, {state}"
        return f"Device({self.name!r}, {self.physical.type}, {state})"

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_OBJECT_TYPES = {
    "Image": 10,
    "Buffer": 9,
    "Pipeline": 19,
    "RenderPass": 18,
    "Framebuffer": 24,
    "ShaderModule": 15,
}


@atexit.register
def _close_all() -> None:
    """Close devices before their instances. A forked child leaves both to its parent."""
    # The device of another program may be gone already.
    own = [device for device in _open if device.logical.owned]
    for device in own:
        device.work.exiting = True
        with suppress(KeyboardInterrupt):
            device.close()
    if not any(device in _open for device in own):
        for instance in list(Instance._shared.values()):
            instance.close()
