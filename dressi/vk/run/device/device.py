"""A logical device: the owner of every Vulkan object that dressi makes."""

from __future__ import annotations

import atexit
import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from numbers import Integral
from typing import Any

from ....config import config
from ....errors import DeviceError, DeviceNotFoundError, InputError
from ...plan.limits import UNLIMITED, DeviceLimits
from .dropped import end_all
from .instance import Instance, PhysicalDevice
from .queue import Queue
from .results import DEVICE_LOST, result, sentence

_open: list[Device] = []
_PORTABILITY, _INT64_ATOMICS = "VK_KHR_portability_subset", "VK_KHR_shader_atomic_int64"
_PREFERENCE = {"discrete": 0, "integrated": 1, "virtual": 2, "other": 3, "cpu": 4}


def list_devices() -> list[PhysicalDevice]:
    """All physical devices of all drivers, with index, name, type, driver. Raises NoDriverError when there is none.

    >>> device = list_devices()[0]
    >>> device.index, device.type in ("discrete", "integrated", "virtual", "cpu", "other")
    (0, True)
    """
    return Instance.shared().physical_devices()


def choose(devices: list[PhysicalDevice], wanted: str | int | PhysicalDevice | None = None) -> PhysicalDevice:
    """A device by index, by part of its name or its driver's (any case), or one of ``list_devices``.

    Without any of these DRESSI_DEVICE decides, and without that the fastest kind. Raises DeviceNotFoundError, and
    InputError for anything else than a name or an index.
    """
    origin = ""
    if wanted is None and config.device is not None:
        wanted, origin = config.device, " (DRESSI_DEVICE or config.device)"
    if isinstance(wanted, str):
        wanted = wanted.strip()
    if wanted is None or wanted == "":
        return min(devices, key=lambda d: (_PREFERENCE[d.type], "llvmpipe" not in d.name, d.index))
    if isinstance(wanted, PhysicalDevice):
        wanted = wanted.index
    elif isinstance(wanted, str) and wanted.isdecimal():
        wanted = int(wanted)
    if isinstance(wanted, str):
        found = [d for d in devices if wanted.lower() in f"{d.name} {d.driver}".lower()]
    elif isinstance(wanted, Integral) and not isinstance(wanted, bool):
        found = [d for d in devices if d.index == wanted]
    else:
        raise InputError(
            f"a Device is opened by an index, a part of its name or nothing, not by {wanted!r}"
            f"{origin}; `dressi devices` lists what there is"
        )
    if not found:
        names = "; ".join(f"{d.index}: {d.name}" for d in devices)
        raise DeviceNotFoundError(f"there is no Vulkan device {wanted!r}{origin}; there are {names}")
    return found[0]


class Device:
    """A device with one queue, opened by its constructor; use it from one thread of the process that opened it.

    wanted: None (DRESSI_DEVICE, else the fastest kind there is), a part of the name of the device or its driver in any case
    ("llvmpipe"), an index as `dressi devices` and ``list_devices`` count, or one of ``list_devices``. validation: turn the
    validation layer on; ``messages`` has what it says.

    Every object is made by ``create`` and remembered until ``destroy``; ``close`` (idempotent) destroys what is
    left. ``live_objects`` lists it. Raises NoDriverError, DeviceNotFoundError, InputError for anything else than a
    name, an index or a PhysicalDevice, and DeviceError in a process that was forked from one that used Vulkan.

    >>> device = Device()
    >>> evaluate(F.square(3.0), device=device).item()  # the device is shared by all that is given it
    9.0
    >>> with DressiAD(device) as ad:
    ...     ad.evaluate(F.square(4.0)).item()
    16.0
    >>> device.wait(); "Pipeline" in device.live_objects(), type(device.messages)
    (True, <class 'list'>)
    >>> device.close()
    """

    def __init__(self, wanted: str | int | PhysicalDevice | None = None, *, validation: bool = False):
        self.handle = None
        end_all()
        instance = Instance.shared(validation)
        physical = choose(instance.physical_devices(), wanted)
        self.name = physical.name
        vk = self.vk = instance.binding(physical.name, self._failed)
        self.instance, self.physical = instance, physical
        self._owner = (os.getpid(), threading.get_ident())
        self._objects: dict[Any, str] = {}
        families = vk.vkGetPhysicalDeviceQueueFamilyProperties(physical.handle)
        both = vk.VK_QUEUE_GRAPHICS_BIT | vk.VK_QUEUE_COMPUTE_BIT
        suited = [k for k, f in enumerate(families) if f.queueFlags & both == both]
        if not suited:
            raise DeviceError(f"{self.name} has no queue for both graphics and compute")
        self.family = suited[0]
        self.timestamp_bits = families[self.family].timestampValidBits
        supported = vk.vkGetPhysicalDeviceFeatures(physical.handle)
        if not supported.shaderStorageImageExtendedFormats:
            raise DeviceError(
                f"{self.name} cannot store two-component images (shaderStorageImageExtendedFormats)"
            )
        atomics = bool(supported.fragmentStoresAndAtomics)
        available = {e.extensionName for e in vk.vkEnumerateDeviceExtensionProperties(physical.handle, None)}
        chain = None
        if supported.shaderInt64 and _INT64_ATOMICS in available:
            chain = vk.VkPhysicalDeviceShaderAtomicInt64Features()
            vk.vkGetPhysicalDeviceFeatures2(physical.handle, vk.VkPhysicalDeviceFeatures2(pNext=chain))
        int64_atomics = bool(chain and chain.shaderBufferInt64Atomics)
        features = vk.VkPhysicalDeviceFeatures(
            shaderStorageImageExtendedFormats=True,
            fragmentStoresAndAtomics=atomics,
            shaderInt64=int64_atomics,
        )
        queue = vk.VkDeviceQueueCreateInfo(queueFamilyIndex=self.family, queueCount=1, pQueuePriorities=[1.0])
        extensions = [name for name in (_PORTABILITY,) if name in available]
        if int64_atomics:
            extensions.append(_INT64_ATOMICS)
        info = vk.VkDeviceCreateInfo(
            pNext=vk.VkPhysicalDeviceShaderAtomicInt64Features(shaderBufferInt64Atomics=True)
            if int64_atomics
            else None,
            queueCreateInfoCount=1,
            pQueueCreateInfos=[queue],
            pEnabledFeatures=features,
            enabledExtensionCount=len(extensions),
            ppEnabledExtensionNames=extensions,
        )
        self.handle = vk.call("vkCreateDevice", "cannot be opened", physical.handle, info, None)
        self.work = Queue(vk, self.handle, self.family, self.name)
        self.queue = self.work.handle
        self.memory_properties = vk.vkGetPhysicalDeviceMemoryProperties(physical.handle)
        properties = vk.vkGetPhysicalDeviceProperties(physical.handle)
        self.timestamp_period = properties.limits.timestampPeriod
        self.pipeline_cache_uuid = bytes(properties.pipelineCacheUUID).hex()
        types = list(self.memory_properties.memoryTypes)[: self.memory_properties.memoryTypeCount]
        lazy = any(t.propertyFlags & vk.VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT for t in types)
        self.limits = replace(
            read_limits(properties.limits),
            fragment_atomics=atomics,
            int64_atomics=int64_atomics,
            lazy_images=lazy,
        )
        self._namer = instance.procedure("vkSetDebugUtilsObjectNameEXT") if instance.names else None
        _open.append(self)

    @classmethod
    def open(cls, wanted: str | int | PhysicalDevice | None = None, *, validation: bool = False) -> Device:
        """The same as the constructor."""
        return cls(wanted, validation=validation)

    def _failed(self, code: int) -> None:
        """A Vulkan call on this device returned an error."""
        if code == DEVICE_LOST and self.handle is not None:
            self.work.lost = str(sentence(self.name, "cannot be used any more", result(code)))

    @property
    def key(self) -> str:
        """Names files of caches: the device and its driver."""
        key = f"{self.name}:{self.physical.driver_version}:{self.pipeline_cache_uuid}"
        return hashlib.sha256(key.encode()).hexdigest()[:24]

    @property
    def compiles_late(self) -> bool:
        """Whether shaders become machine code when they are first used, not when their pipelines are made: CPU drivers."""
        return self.physical.type == "cpu"

    @property
    def messages(self) -> list[str]:
        """What the validation layer has said so far."""
        return self.instance.messages

    @property
    def foreign(self) -> bool:
        """Whether this is a fork's copy of a device: its threads, and whatever ends the work, stayed in the parent."""
        return self._owner[0] != os.getpid()

    @property
    def here(self) -> bool:
        """Whether this thread of this process opened it."""
        return self._owner == (os.getpid(), threading.get_ident())

    def check_thread(self) -> None:
        """Raises DeviceError when closed, lost, or used from another process or thread than the one that opened it."""
        if not self.here:
            raise DeviceError(
                "a Device belongs to the process and thread that opened it; open another one there (start processes "
                "with the 'spawn' method of multiprocessing, not by a fork)"
            )
        self.work.check()
        if self.handle is None:
            raise DeviceError(f"the device {self.name} is closed; open another one")

    def create(self, kind: str, info: Any, name: str | None = None) -> Any:
        """vkCreate<kind>, owned; e.g. ``create("Image", VkImageCreateInfo(...))``; "Memory" allocates."""
        function = "vkAllocateMemory" if kind == "Memory" else f"vkCreate{kind}"
        failed = f"could not make a {kind}{f' for {name}' if name else ''}"
        handle = self.vk.call(function, failed, self.handle, info, None)
        return self.adopt(kind, handle, name)

    def adopt(self, kind: str, handle: Any, name: str | None = None) -> Any:
        """Own an object made elsewhere."""
        self._objects[handle] = kind
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
        """Destroy an owned object; None and objects already gone are ignored."""
        kind = self._objects.pop(handle, None) if handle is not None else None
        if kind == "Memory":
            self.vk.vkFreeMemory(self.handle, handle, None)
        elif kind is not None:
            getattr(self.vk, f"vkDestroy{kind}")(self.handle, handle, None)

    def live_objects(self) -> list[str]:
        """Kinds of the objects that exist now."""
        return sorted(self._objects.values())

    @contextmanager
    def undo_on_error(self) -> Iterator[None]:
        """A block that, when it fails, leaves no object behind."""
        before = set(self._objects)
        try:
            yield
        except BaseException:
            if self.settle():
                for handle in reversed([h for h in self._objects if h not in before]):
                    self.destroy(handle)
            raise

    def memory_type(self, allowed: int, *wanted: int) -> int:
        """The first memory type among the allowed bits with all flags of the first satisfiable wish."""
        types = self.memory_properties.memoryTypes
        for flags in wanted:
            for k in range(self.memory_properties.memoryTypeCount):
                if allowed >> k & 1 and types[k].propertyFlags & flags == flags:
                    return k
        raise DeviceError(f"{self.name} has no suitable memory")

    def wait(self) -> None:
        """Until everything submitted is done; ctrl-C raises KeyboardInterrupt. Raises DeviceErrors."""
        self.check_thread()
        self.work.wait_idle()

    def settle(self) -> bool:
        """Before objects are destroyed: whether they may be; if not, ``close`` takes care of them. Waits for the work, see
        ``Queue.settle``."""
        return self.handle is not None and not self.foreign and self.work.settle()

    def close(self) -> None:
        """Destroy everything and the device. Idempotent; does nothing in a forked process. Never waits for ever: work
        that ctrl-C interrupted and that does not end is left behind, with a warning."""
        if self.handle is None or self.foreign:
            return
        try:
            if self.work.settle(give_up=True):
                for handle in reversed(list(self._objects)):
                    self.destroy(handle)
                self.work.destroy()
                self.vk.vkDestroyDevice(self.handle, None)
        finally:
            if self.work.abandoned:
                self.instance.abandoned = True
                self._objects.clear()
            if self.work.abandoned or not self._objects:
                self.handle = None
                _open.remove(self)

    def __repr__(self) -> str:
        state = "closed" if self.handle is None else f"{len(self._objects)} objects"
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


def read_limits(limits: Any) -> DeviceLimits:
    """DeviceLimits from VkPhysicalDeviceLimits."""

    def capped(n: int) -> int:
        return min(int(n), UNLIMITED)

    resources = capped(limits.maxPerStageResources)
    return DeviceLimits(
        max_image_dimension=limits.maxImageDimension2D,
        max_framebuffer_width=limits.maxFramebufferWidth,
        max_framebuffer_height=limits.maxFramebufferHeight,
        max_color_attachments=min(limits.maxColorAttachments, limits.maxFragmentOutputAttachments),
        max_input_attachments=min(
            capped(limits.maxPerStageDescriptorInputAttachments),
            capped(limits.maxDescriptorSetInputAttachments),
        ),
        max_sampled_images=min(
            capped(limits.maxPerStageDescriptorSampledImages),
            capped(limits.maxDescriptorSetSampledImages),
            resources,
        ),
        max_storage_images=min(
            capped(limits.maxPerStageDescriptorStorageImages), capped(limits.maxDescriptorSetStorageImages)
        ),
        max_storage_buffers=capped(limits.maxPerStageDescriptorStorageBuffers),
        max_per_stage_resources=resources,
        max_workgroup_invocations=limits.maxComputeWorkGroupInvocations,
        max_workgroup_count=min(limits.maxComputeWorkGroupCount[0], limits.maxComputeWorkGroupCount[1]),
        max_storage_buffer_bytes=limits.maxStorageBufferRange,
    )


@atexit.register
def _close_all() -> None:
    """Devices before their instances; a forked child leaves both to its parent."""
    for device in list(_open):
        device.work.exiting = True
        with suppress(KeyboardInterrupt):
            device.close()
    if not _open:
        for instance in list(Instance._shared.values()):
            instance.close()
