"""A VkDevice with its queue: created here, or adopted from a program that has one already."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from ....errors import DeviceError, InputError
from .capabilities import PORTABILITY, Capabilities, check, read_capabilities
from .features import FEATURES, all_features, enabling, usable
from .instance import Instance, PhysicalDevice, load_vulkan
from .results import Binding

OnError = Callable[[int], None]
SWAPCHAIN = "VK_KHR_swapchain"
"""The extension for pictures in windows. Enabled where there is one; nothing but windows needs it."""


@dataclass(frozen=True)
class LogicalDevice:
    """vk: the binding, whose errors name the device. capabilities: what may be used of it. lock: held while something
    is submitted to the queue. owned: whether dressi created it, and therefore destroys it."""

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
    """A device with one queue for graphics and compute, and all FEATURES that there are. Raises DeviceError."""
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
        found = int(vk.ffi.cast("uintptr_t", found))
    if isinstance(found, bool) or not (found is None or hasattr(found, "__index__")):
        raise InputError(
            f"a {kind} is given as a whole number or as the object of a Vulkan binding, not as {value!r}"
        )
    number = 0 if found is None else found.__index__()
    if not 0 < number < 1 << 64:
        raise InputError(
            f"the {kind} is null or no handle ({value!r}); create it first, and adopt it before it is destroyed"
        )
    return vk.ffi.cast(kind, number)


def adopt(
    handles: tuple[Any, Any, Any, Any],
    family: Any,
    features: Iterable[str],
    lock: AbstractContextManager[Any] | None,
    on_error: OnError,
) -> LogicalDevice:
    """A device that another program created: its instance, physical device, device and queue. Makes nothing. Raises
    DeviceError and InputError, see ``Device.from_handles``."""
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
            f"queue family {family} of {physical.name} does not do both graphics and compute; adopt one that does"
        )
    for f in FEATURES:
        if f.name in told and f.name not in supported.features:
            raise DeviceError(
                f"{physical.name} lacks the feature {f.name}, which can therefore not be enabled"
            )
        if f.required and f.name not in told:
            raise DeviceError(
                f"dressi needs {f}, a feature that is not enabled; enable it in vkCreateDevice and name it in `features`"
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
    """The FEATURES among the names of features that a host has enabled; other features of Vulkan's are ignored."""
    told = [features] if isinstance(features, str) else list(features)
    own = {f.name for f in FEATURES}
    if strange := [name for name in told if name not in own and name not in all_features(vk)]:
        raise InputError(f"Vulkan has no feature {strange[0]!r}; dressi uses {', '.join(sorted(own))}")
    return usable(own.intersection(told))
