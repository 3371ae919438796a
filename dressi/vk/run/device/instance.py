"""The Vulkan instance (a process has one with validation, one without), its devices, and which of them a user means."""

from __future__ import annotations

import atexit
import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from numbers import Integral
from types import ModuleType
from typing import Any

from ....config import config
from ....errors import DeviceError, DeviceNotFoundError, InputError, NoDriverError
from ....lazy import uncollected
from ..host.platforms import current
from .capabilities import driver_properties
from .results import Binding, quicken

VALIDATION_LAYER = "VK_LAYER_KHRONOS_validation"
_NO_DRIVER = {-9, -3}  # VK_ERROR_INCOMPATIBLE_DRIVER and VK_ERROR_INITIALIZATION_FAILED
_ENABLE_SYNCHRONIZATION_VALIDATION = 4  # VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT


def load_vulkan() -> ModuleType:
    """The Vulkan binding; raises NoDriverError where there is no loader."""
    try:
        with uncollected():
            import vulkan
    except OSError as error:
        system = current()
        raise NoDriverError(f"the Vulkan loader ({system.loader}) is missing; {system.driver}") from error
    return quicken(vulkan)


_used_in: int | None = None  # the process that loaded the drivers


def _check_fork() -> None:
    """Raises DeviceError in a fork: it does not copy the drivers' threads, so a device opened there would
    wait for ever."""
    global _used_in
    if _used_in is None:
        _used_in = os.getpid()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_end_at_once)
    elif _used_in != os.getpid():
        raise DeviceError(
            "this process was forked from one that has used Vulkan, and drivers do not survive a fork; "
            "start processes "
            "with the 'spawn' method (multiprocessing.get_context(\"spawn\")), or fork before the first Device is opened"
        )


def _end_at_once() -> None:
    """In a fork: its end does not run what drivers registered for the end of the process. That waits for
    threads that a fork does not have, or crashes, and the child ends by a signal instead of its own exit
    code. Python's part of the end runs, and what the child registers; only glibc can be told so."""
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.on_exit(libc._exit, None)  # handlers run from the latest to the first, and get the exit code
        atexit.register(libc.fflush, None)


@dataclass(frozen=True)
class PhysicalDevice:
    """An entry of ``list_devices``: a physical device of a driver."""

    index: int
    name: str
    type: str  # "discrete", "integrated", "virtual", "cpu", "other"
    driver: str
    driver_version: str
    api_version: str
    vendor_id: int
    device_id: int
    driver_id: int  # VkDriverId; 0 where a driver does not tell
    handle: Any

    def as_dict(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "handle"}


SURFACES = (
    "VK_KHR_surface", "VK_KHR_xcb_surface", "VK_KHR_xlib_surface", "VK_KHR_wayland_surface", "VK_KHR_win32_surface",
    "VK_EXT_metal_surface", "VK_EXT_headless_surface",
)  # fmt: skip
"""Extensions for windows: those that the loader has are enabled, and none is required."""


class Instance:
    """A Vulkan instance and its physical devices. ``messages`` collects what the validation layer says.

    host: the VkInstance of another program, which is used and never destroyed.
    """

    _shared: dict[bool, Instance] = {}

    def __init__(self, validation: bool = False, *, host: Any = None):
        _check_fork()
        self.vk = Binding(load_vulkan(), "Vulkan", self._failed)
        self._code = 0  # of the last call that failed
        self.validation = validation
        self.abandoned = False  # one of its devices was abandoned while it worked: nothing may be destroyed
        self.messages: list[str] = []
        self._owned = host is None
        self._messenger = None
        if self._owned:
            self._create()
        else:
            self.handle = host
            self.names = self.has("vkSetDebugUtilsObjectNameEXT")

    def _create(self) -> None:
        vk, validation = self.vk, self.validation
        available = {e.extensionName for e in vk.vkEnumerateInstanceExtensionProperties(None)}
        # With Wayland's, Mesa looks for a display, and complains where its socket is not known.
        useless = set() if os.environ.get("XDG_RUNTIME_DIR") else {"VK_KHR_wayland_surface"}
        extensions = [name for name in SURFACES if name in available - useless]
        layers, flags, chain = [], 0, None
        if "VK_KHR_portability_enumeration" in available:
            extensions.append("VK_KHR_portability_enumeration")
            flags = 1
        self.names = "VK_EXT_debug_utils" in available
        if validation:
            if VALIDATION_LAYER not in {layer.layerName for layer in vk.vkEnumerateInstanceLayerProperties()}:
                raise DeviceError(
                    "the Vulkan validation layer is not installed; set VK_LAYER_PATH to its manifest"
                )
            os.environ.setdefault("VK_LAYER_SYNCVAL_SHADER_ACCESSES_HEURISTIC", "1")
            layers.append(VALIDATION_LAYER)
            extensions.append("VK_EXT_validation_features")
            chain = vk.VkValidationFeaturesEXT(
                enabledValidationFeatureCount=1,
                pEnabledValidationFeatures=[_ENABLE_SYNCHRONIZATION_VALIDATION],
            )
        if self.names:
            extensions.append("VK_EXT_debug_utils")
        application = vk.VkApplicationInfo(pApplicationName="dressi", apiVersion=vk.VK_MAKE_VERSION(1, 1, 0))
        info = vk.VkInstanceCreateInfo(
            pNext=chain,
            flags=flags,
            pApplicationInfo=application,
            enabledLayerCount=len(layers),
            ppEnabledLayerNames=layers,
            enabledExtensionCount=len(extensions),
            ppEnabledExtensionNames=extensions,
        )
        self.handle = self._ask_drivers(lambda: vk.vkCreateInstance(info, None))
        if validation and self.names:
            self._messenger = self._listen()

    def _failed(self, code: int) -> None:
        self._code = code

    def _ask_drivers(self, call: Callable[[], Any]) -> Any:
        """The result of a call that the loader passes on to all drivers. Raises NoDriverError where it says
        that none answers; a missing layer, an extension or memory has an error of its own."""
        try:
            return call()
        except DeviceError as error:
            if self._code in _NO_DRIVER:
                raise _no_driver() from error
            raise

    @classmethod
    def shared(cls, validation: bool = False) -> Instance:
        """The process's instance, made on first use. Raises DeviceError in a fork after that."""
        _check_fork()
        if validation not in cls._shared:
            cls._shared[validation] = cls(validation)
        return cls._shared[validation]

    def binding(self, subject: str, on_error: Callable[[int], None]) -> Binding:
        """The binding for a device of this instance; see ``Binding``."""
        return Binding(self.vk.module, subject, on_error)

    def procedure(self, name: str) -> Any:
        """The address of a function of an extension."""
        return self.vk.vkGetInstanceProcAddr(self.handle, name)

    def has(self, name: str) -> bool:
        """Whether an extension's function is there: whether the extension was enabled."""
        vk = self.vk
        return vk.lib.vkGetInstanceProcAddr(self.handle, vk.ffi.new("char[]", name.encode())) != vk.ffi.NULL

    def _listen(self) -> Any:
        vk = self.vk

        def callback(severity: int, kind: int, data: Any, user: Any) -> int:
            text = vk.ffi.string(data.pMessage).decode(errors="replace")
            self.messages.append(text)
            return 0

        info = vk.VkDebugUtilsMessengerCreateInfoEXT(
            messageSeverity=vk.VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT
            | vk.VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
            messageType=vk.VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
        )
        # Given to the constructor, a callback would replace that of every messenger in the process.
        self._callback = vk.ffi.callback("PFN_vkDebugUtilsMessengerCallbackEXT", callback)
        info.pfnUserCallback = self._callback
        return self.procedure("vkCreateDebugUtilsMessengerEXT")(self.handle, info, None)

    def physical_devices(self) -> list[PhysicalDevice]:
        """All devices of all drivers, in the loader's order. Raises NoDriverError when there is none."""
        vk = self.vk
        handles = self._ask_drivers(lambda: list(vk.vkEnumeratePhysicalDevices(self.handle)))
        if not handles:
            raise _no_driver()
        return [self._describe(k, handle) for k, handle in enumerate(handles)]

    def _describe(self, index: int, handle: Any) -> PhysicalDevice:
        vk = self.vk
        p = vk.vkGetPhysicalDeviceProperties(handle)
        kinds = {1: "integrated", 2: "discrete", 3: "virtual", 4: "cpu"}
        driver, info, driver_id = "", "", 0
        details = driver_properties(vk, handle, p.apiVersion)
        if details is not None:
            driver = vk.ffi.string(details.driverName).decode()
            info = vk.ffi.string(details.driverInfo).decode()
            driver_id = details.driverID
        version = _version(p.driverVersion)
        return PhysicalDevice(
            index,
            p.deviceName,
            kinds.get(p.deviceType, "other"),
            driver or p.deviceName,
            info or version,
            _version(p.apiVersion),
            p.vendorID,
            p.deviceID,
            driver_id,
            handle,
        )

    def close(self) -> None:
        """Idempotent. Does nothing in a fork of the process that made it, after a device was given up, or to
        an instance of another program."""
        if self.handle is None or self.abandoned or not self._owned or _used_in != os.getpid():
            return
        if self._messenger is not None:
            self.procedure("vkDestroyDebugUtilsMessengerEXT")(self.handle, self._messenger, None)
        self.vk.vkDestroyInstance(self.handle, None)
        self.handle = None
        Instance._shared = {k: v for k, v in Instance._shared.items() if v is not self}


def _version(number: int) -> str:
    return f"{number >> 22}.{number >> 12 & 1023}.{number & 4095}"


def _no_driver() -> NoDriverError:
    system = current()
    hint = ""
    if listed := system.driver_files():
        missing = [name for name in listed if not os.path.isfile(name)]
        hint = f" (VK_DRIVER_FILES names {', '.join(missing or listed)}{', not a file' if missing else ''})"
    return NoDriverError(f"no Vulkan driver answers on this machine{hint}; {system.driver}")


# The list of devices, and which of them a user means.

_PREFERENCE = ("discrete", "integrated", "virtual", "other", "cpu")
_DOZEN = 23
"""VK_DRIVER_ID_MESA_DOZEN translates Vulkan to Direct3D 12 and does not conform: it comes last, behind the
CPU, whose results are right, and is used where the user names it."""


def list_devices() -> list[PhysicalDevice]:
    """All physical devices of all drivers. Raises NoDriverError when there is none.

    >>> device = list_devices()[0]
    >>> device.index, device.type in ("discrete", "integrated", "virtual", "cpu", "other")
    (0, True)
    """
    return Instance.shared().physical_devices()


def choose(devices: list[PhysicalDevice], wanted: str | int | PhysicalDevice | None = None) -> PhysicalDevice:
    """The device with this index, or with this text in its name or its driver's name (any case), or one of
    ``list_devices``.

    Without any of these DRESSI_DEVICE decides, and without that the kind that is usually fastest. Raises
    DeviceNotFoundError, and InputError for anything else than a name or an index.
    """
    origin = ""
    if wanted is None and config.device is not None:
        wanted, origin = config.device, " (DRESSI_DEVICE or config.device)"
    if isinstance(wanted, str):
        wanted = wanted.strip()
    if left_to_us(wanted):
        return min(
            devices,
            key=lambda d: (
                d.driver_id == _DOZEN,
                _PREFERENCE.index(d.type),
                "llvmpipe" not in d.name,
                d.index,
            ),
        )
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


def left_to_us(wanted: object) -> bool:
    """Whether ``choose`` decides for this argument: nobody named a device."""
    wanted = config.device if wanted is None else wanted
    return wanted is None or (isinstance(wanted, str) and not wanted.strip())
