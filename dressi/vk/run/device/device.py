"""A logical device: the owner of every Vulkan object that dressi makes."""

from __future__ import annotations

import atexit
import hashlib
import os
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from ....ad.graph.user_code import user_level
from ....errors import DeviceError, InputError
from ...plan.core.limits import PORTABILITY
from ...plan.model.device import DeviceModel
from ...plan.model.records import record_of
from ..host.platforms import warn_of_hidden_gpus
from .allocator import BUDGET_EXTENSION, Allocator, Budget
from .capabilities import FEATURES, Capabilities, all_features, check, enabling, read_capabilities, usable
from .instance import Instance, PhysicalDevice, choose, left_to_us, load_vulkan
from .queue import Queue
from .results import DEVICE_LOST, Binding, handle_number, result, sentence
from .shared import KEPT, Reference, SharedObjects

_open: list[Device] = []


class Device:
    """A device with one queue; use it from the thread and process that opened it.

    wanted: None (DRESSI_DEVICE decides, else the fastest kind of device), a part of the name of the device or
    its driver in any case ("llvmpipe"), an index as in `dressi devices` and ``list_devices``, or an entry of
    ``list_devices``. validation: turn the validation layer on; ``messages`` collects what it reports.

    The Device owns every object that ``create`` makes until ``destroy``; ``close`` (idempotent) destroys the
    rest. ``live_objects`` lists them, ``memory`` is the allocator, ``shared`` holds pipelines and layouts
    that several programs use. Raises NoDriverError, DeviceNotFoundError, InputError for anything else than a
    name, an index or a PhysicalDevice, and DeviceError for a device that lacks what dressi needs and in a
    process that was forked from one that used Vulkan.

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
        physical, cpu = logical.physical.handle, logical.physical.type == "cpu"
        memory = vk.vkGetPhysicalDeviceMemoryProperties(physical)
        told = BUDGET_EXTENSION in self.capabilities.extensions
        budget = Budget(vk, physical, memory, extension=told, cpu=cpu)
        allocations = self.capabilities.max_memory_allocations
        self.memory = Allocator(vk, logical.handle, self.name, memory, budget, allocations)
        properties = vk.vkGetPhysicalDeviceProperties(physical)
        self.timestamp_period = properties.limits.timestampPeriod
        self.pipeline_cache_uuid = bytes(properties.pipelineCacheUUID).hex()
        self._namer = self.instance.procedure("vkSetDebugUtilsObjectNameEXT") if self.instance.names else None
        self.handle = logical.handle
        self.on_cpu = cpu
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
        """An engine's Device in the Vulkan device of another program, a viewer for example, which made it for
        Vulkan 1.1 or newer.

        instance, physical_device, device, queue: their handles: whole numbers or objects of a binding.
        queue_family: the index of the queue's family, which does graphics and compute.

        features: names of the features that are enabled, as in Vulkan's structures; Vulkan cannot be asked
        for them. dressi needs ``shaderStorageImageExtendedFormats``. It uses ``fragmentStoresAndAtomics``,
        ``multiDrawIndirect``, ``shaderInt64`` and ``shaderBufferInt64Atomics`` (of VK_KHR_shader_atomic_int64
        or Vulkan 1.2) where they are named, and is slower without; other names are ignored.
        ``PlanOptions.half_products`` takes ``cooperativeMatrix``, ``computeFullSubgroups``,
        ``shaderFloat16``, ``vulkanMemoryModel`` and ``vulkanMemoryModelDeviceScope``, all or none.

        lock: held around each vkQueueSubmit of dressi's; absent, a new one. It is ``Device.lock``. A program
        that uses the queue on another thread than the Device's holds it around its own vkQueueSubmit,
        vkQueuePresentKHR and vkQueueWaitIdle. ``close`` waits for the work on the queue, destroys what dressi
        made and leaves the handles alone: call it before vkDestroyDevice. At the end of the process nothing
        is closed that was not closed before.

        Nothing is made when something is refused. Raises InputError for handles that are none, of another
        type or null, and for unknown features; DeviceError for a physical device that is not the instance's,
        a wrong queue family, missing features and formats, and a lost device. Handles that were destroyed,
        and a queue of another device, cannot be told from others: Vulkan does not check them.

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
        """Whether shaders are compiled at their first use, not with their pipeline, as CPU drivers do."""
        return self.physical.type == "cpu"

    @property
    def messages(self) -> list[str]:
        """What the validation layer has reported so far."""
        return self.instance.messages

    @property
    def usable(self) -> bool:
        """Whether it is open, and neither lost nor given up."""
        return self.handle is not None and self.work.lost is None

    @property
    def forked(self) -> bool:
        """Whether this process is a fork of that which opened the device and has the driver's threads."""
        return self._owner[0] != os.getpid()

    @property
    def here(self) -> bool:
        """Whether the calling thread, of this process, opened the device."""
        return self._owner == (os.getpid(), threading.get_ident())

    def check_thread(self) -> None:
        """Raises DeviceError when the device is closed or lost, and in another thread or process than the one
        that opened it."""
        if not self.here:
            raise DeviceError(
                "a Device belongs to the process and thread that opened it; open another one there (start "
                "processes with the 'spawn' method of multiprocessing, not by a fork)"
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
        """Own an object that another function than ``create`` made: ``close`` destroys it, by ``end`` where
        the kind is of an extension."""
        self._objects[handle] = kind
        if end is not None:
            self._ends[handle] = end
        if name and self._namer is not None and kind in _OBJECT_TYPES:
            number = int(self.vk.ffi.cast("uint64_t", handle))
            info = self.vk.VkDebugUtilsObjectNameInfoEXT(
                objectType=_OBJECT_TYPES[kind], objectHandle=number, pObjectName=name
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
        """A reference to the object of this key, which many may use; ``make`` creates it if needed.
        key: all that the object is made from. Without references it is kept for a while, see
        ``SharedObjects``."""
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
        """Kinds of the objects that are in use now, blocks of memory included. Shared objects that nobody
        uses are not; ``trim`` destroys them."""
        idle = self.shared.idle
        used = [kind for handle, kind in self._objects.items() if handle not in idle]
        return sorted([*used, *["Memory"] * self.memory.allocations])

    @contextmanager
    def undo_on_error(self) -> Iterator[None]:
        """If the block raises, every object that it made is destroyed, and the references to shared objects
        that it acquired are released."""
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
        """Wait for all work, see ``Queue.settle``. Returns whether objects may be destroyed; if not,
        ``close`` does it."""
        return self.handle is not None and not self.forked and self.work.settle()

    def close(self) -> None:
        """Destroy everything that dressi made, and the device unless it is another program's. Idempotent;
        does nothing in a forked process. Interrupted work that does not end is abandoned, with a warning."""
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


# VkObjectType of what gets a name for debuggers.
_OBJECT_TYPES = {
    "Image": 10, "Buffer": 9, "Pipeline": 19, "RenderPass": 18, "Framebuffer": 24, "ShaderModule": 15,
}  # fmt: skip


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


# A VkDevice with its queue: created here, or adopted from a program that has one already.

OnError = Callable[[int], None]
SWAPCHAIN = "VK_KHR_swapchain"
"""The extension for pictures in windows. Enabled where there is one; nothing but windows needs it."""


@dataclass(frozen=True)
class LogicalDevice:
    """vk: the binding, whose errors name the device. capabilities: what may be used of it. lock: held while
    something is submitted to the queue. owned: whether dressi created it, and therefore destroys it."""

    vk: Binding
    instance: Instance
    physical: PhysicalDevice
    capabilities: Capabilities
    handle: Any
    family: int
    queue: Any
    owned: bool
    lock: AbstractContextManager[Any]

    @property
    def features(self) -> frozenset[str]:
        """Names of those FEATURES that are enabled."""
        return self.capabilities.features.intersection(f.name for f in FEATURES)


def create(instance: Instance, physical: PhysicalDevice, on_error: OnError) -> LogicalDevice:
    """A device with one queue and all FEATURES that it has. Raises DeviceError."""
    vk = instance.binding(physical.name, on_error)
    capabilities = read_capabilities(vk, instance.handle, physical.handle)
    check(physical.name, capabilities)
    family = capabilities.family
    enabled = enabling(vk, capabilities.features)
    extensions = [PORTABILITY] * (PORTABILITY in capabilities.extensions)
    if SWAPCHAIN in capabilities.extensions and instance.has("vkDestroySurfaceKHR"):
        extensions.append(SWAPCHAIN)
    extensions += enabled.pop("ppEnabledExtensionNames")
    queue = vk.VkDeviceQueueCreateInfo(queueFamilyIndex=family, queueCount=1, pQueuePriorities=[1.0])
    info = vk.VkDeviceCreateInfo(
        queueCreateInfoCount=1,
        pQueueCreateInfos=[queue],
        enabledExtensionCount=len(extensions),
        ppEnabledExtensionNames=extensions,
        **enabled,
    )
    handle = vk.call("vkCreateDevice", "cannot be opened", physical.handle, info, None)
    queue = vk.vkGetDeviceQueue(handle, family, 0)
    return LogicalDevice(vk, instance, physical, capabilities, handle, family, queue, True, threading.RLock())


def _handle(vk: Any, kind: str, value: Any) -> Any:
    found = getattr(value, "value", value)  # of ctypes
    if isinstance(found, vk.ffi.CData):
        given = vk.ffi.typeof(found).cname.removeprefix("struct ").removesuffix(" *").removesuffix("_T")
        if given.startswith("Vk") and given != kind:
            raise InputError(f"a {kind} was expected, not a {given}; pass the handles in their order")
    elif isinstance(found, bool) or not (found is None or hasattr(found, "__index__")):
        raise InputError(
            f"a {kind} is given as a whole number or as the object of a Vulkan binding, not as {value!r}"
        )
    number = handle_number(found, vk)
    if number is None:
        raise InputError(
            f"the {kind} is null or no handle ({value!r}); create it first, and adopt it before it is "
            "destroyed"
        )
    return vk.ffi.cast(kind, number)


def adopt(
    handles: tuple[Any, Any, Any, Any],
    family: Any,
    features: Iterable[str],
    lock: AbstractContextManager[Any] | None,
    on_error: OnError,
) -> LogicalDevice:
    """A device that another program created: its instance, physical device, device and queue. Makes nothing.
    Raises DeviceError and InputError, see ``Device.from_handles``."""
    module = load_vulkan()
    kinds = ("VkInstance", "VkPhysicalDevice", "VkDevice", "VkQueue")
    host, chosen, handle, queue = (_handle(module, k, h) for k, h in zip(kinds, handles, strict=True))
    instance = Instance(host=host)
    physical = next((p for p in instance.physical_devices() if p.handle == chosen), None)
    if physical is None:
        raise DeviceError(
            "the instance does not have this physical device; pass the VkInstance that listed it"
        )
    vk = instance.binding(physical.name, on_error)
    if isinstance(family, bool) or not hasattr(family, "__index__"):
        raise InputError(f"a queue family is a whole number, not {family!r}")
    family = family.__index__()
    told = _told(vk, features)
    supported = read_capabilities(vk, instance.handle, physical.handle)
    families = supported.queue_families
    if not 0 <= family < len(families):
        raise DeviceError(f"{physical.name} has no queue family {family}, but 0 to {len(families) - 1}")
    if not (families[family].graphics and families[family].compute):
        raise DeviceError(
            f"queue family {family} of {physical.name} does not do both graphics and compute; adopt one that "
            "does"
        )
    for f in FEATURES:
        if f.name in told and f.name not in supported.features:
            raise DeviceError(
                f"{physical.name} lacks the feature {f.name}, which can therefore not be enabled"
            )
        if f.required and f.name not in told:
            raise DeviceError(
                f"dressi needs {f}, a feature that is not enabled; enable it in vkCreateDevice and name it "
                "in `features`"
            )
    capabilities = read_capabilities(vk, instance.handle, physical.handle, told)
    check(physical.name, capabilities)
    lock = threading.RLock() if lock is None else lock
    if not (hasattr(lock, "__enter__") and hasattr(lock, "__exit__")):
        raise InputError(f"a lock is a context manager such as threading.Lock(), not {lock!r}")
    with lock:  # submits nothing, and fails when the device is lost
        vk.call("vkQueueSubmit", "cannot be adopted", queue, 0, None, None)
    return LogicalDevice(vk, instance, physical, capabilities, handle, family, queue, False, lock)


def _told(vk: Any, features: Iterable[str]) -> frozenset[str]:
    """The FEATURES that a host has enabled; other features of Vulkan's are ignored."""
    told = [features] if isinstance(features, str) else list(features)
    own = {f.name for f in FEATURES}
    if strange := [name for name in told if name not in own and name not in all_features(vk)]:
        raise InputError(f"Vulkan has no feature {strange[0]!r}; dressi uses {', '.join(sorted(own))}")
    return usable(own.intersection(told))


# Engines that were garbage collected without ``close`` are closed later, on their device's thread.
#
# The garbage collector runs at any time and on any thread, so it only registers what has to be closed. The
# next Device or Workspace that the owning thread makes closes it. A notebook cell that is run again and again
# therefore keeps one engine alive, not one for each run.


_deferred: list[tuple[Device, Callable[[], None]]] = []


def defer_close(owner: Device, close: Callable[[], None]) -> None:
    """Register a close for the thread of ``owner``. The garbage collector calls this."""
    _deferred.append((owner, close))


def close_deferred() -> None:
    """Run every registered close that belongs to this thread of this process."""
    for entry in list(_deferred):
        owner, close = entry
        if owner.here and entry in _deferred:  # a close may collect garbage and get here again
            _deferred.remove(entry)
            close()
