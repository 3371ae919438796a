"""The Vulkan binding with DressiErrors for result codes: each says what failed, why, and the cure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, NoReturn
from weakref import WeakKeyDictionary

from ....errors import DeviceError, DeviceLostError, OutOfMemoryError

SMALLER = "use smaller images, smaller batches or fewer views at a time, or close other Devices and programs"
"""The cure of every message about memory."""
_DRIVER = "install or update the driver of this device (`dressi devices` lists what there is)"
_LIMITS = "make the graph smaller, or compute its parts one after the other"
_REPORT = "update the driver; if that does not help, report it with the output of DRESSI_DEBUG=3"
_LAYER = "unset VK_INSTANCE_LAYERS, or install it"
_VIEWER, _SWAPCHAIN = "close the other viewer first", "make its swapchain again"
_RIGHTS = "run with the rights to use the device"
_AGAIN = (
    "open another Device and build again; values that were not read back are gone. Work that takes seconds "
    "in one shader is a common cause: make it smaller. If every process loses the device, with little work "
    "too, the driver hangs, as after programs that were killed while they worked: end what still uses the "
    "device (`nvidia-smi`, `fuser -v /dev/dri/*`), or restart the machine"
)


class Result(NamedTuple):
    """A Vulkan result code in words."""

    name: str
    what: str
    cure: str
    kind: type[DeviceError] = DeviceError


DEVICE_LOST = -4
# The surface and display codes cannot come from what dressi calls; layers and viewers may return them.
_OUT = OutOfMemoryError
RESULTS = {
    1: Result("VK_NOT_READY", "the result is not there yet", "wait for the work first"),
    2: Result("VK_TIMEOUT", "the work did not end in time", "wait longer, or make the work smaller"),
    5: Result("VK_INCOMPLETE", "the list of results changed while it was read", "try again"),
    -1: Result("VK_ERROR_OUT_OF_HOST_MEMORY", "the host is out of memory", SMALLER, _OUT),
    -2: Result("VK_ERROR_OUT_OF_DEVICE_MEMORY", "the device is out of memory", SMALLER, _OUT),
    -3: Result("VK_ERROR_INITIALIZATION_FAILED", "the driver did not start", _DRIVER),
    DEVICE_LOST: Result("VK_ERROR_DEVICE_LOST", "the driver lost the device", _AGAIN, DeviceLostError),
    -5: Result("VK_ERROR_MEMORY_MAP_FAILED", "memory cannot be mapped", SMALLER, _OUT),
    -6: Result("VK_ERROR_LAYER_NOT_PRESENT", "a Vulkan layer is missing", _LAYER),
    -7: Result("VK_ERROR_EXTENSION_NOT_PRESENT", "the driver lacks an extension", _DRIVER),
    -8: Result("VK_ERROR_FEATURE_NOT_PRESENT", "the driver lacks a feature", _DRIVER),
    -9: Result("VK_ERROR_INCOMPATIBLE_DRIVER", "no driver speaks this version of Vulkan", _DRIVER),
    -10: Result("VK_ERROR_TOO_MANY_OBJECTS", "too many objects exist", _LIMITS, _OUT),
    -11: Result("VK_ERROR_FORMAT_NOT_SUPPORTED", "the driver lacks an image format", _DRIVER),
    -12: Result("VK_ERROR_FRAGMENTED_POOL", "a pool of descriptors is fragmented", _LIMITS, _OUT),
    -13: Result("VK_ERROR_UNKNOWN", "the driver failed for a reason it does not name", _REPORT),
    -1000000000: Result(
        "VK_ERROR_SURFACE_LOST_KHR", "the surface of a window is gone", "make the window again"
    ),
    -1000000001: Result("VK_ERROR_NATIVE_WINDOW_IN_USE_KHR", "the window has another surface", _VIEWER),
    -1000001004: Result("VK_ERROR_OUT_OF_DATE_KHR", "the surface of a window has changed", _SWAPCHAIN),
    -1000012000: Result("VK_ERROR_INVALID_SHADER_NV", "the driver refuses a shader", _REPORT),
    -1000069000: Result("VK_ERROR_OUT_OF_POOL_MEMORY", "a pool of descriptors is full", _LIMITS, _OUT),
    -1000161000: Result("VK_ERROR_FRAGMENTATION", "a pool of descriptors is fragmented", _LIMITS, _OUT),
    -1000174001: Result("VK_ERROR_NOT_PERMITTED", "the system does not permit this", _RIGHTS),
}


def result(code: int) -> Result:
    """A code in words, unknown codes included."""
    return RESULTS.get(code) or Result(f"VkResult {code}", "the driver failed", _REPORT)


def sentence(subject: str, failed: str, found: Result) -> DeviceError:
    """The error for a user: what failed, why, and the cure."""
    return found.kind(f"{subject} {failed}: {found.what} ({found.name}); {found.cure}")


class Binding:
    """The module ``vulkan`` with calls that raise DressiErrors. Constants, structures, ``ffi`` and ``lib``
    are its own.

    subject: the device's name, with which messages begin. on_error: called first, with the code.
    """

    def __init__(self, module: Any, subject: str, on_error: Callable[[int], None] = lambda code: None):
        self.module, self._subject, self._on_error = module, subject, on_error
        # The binding has some codes with the wrong sign; for codes that it lacks it raises KeyErrors.
        self._codes = {error: code for code, error in module.exception_codes.items() if code is not None}
        self._errors = (module.VkError, module.VkException, KeyError)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.module, name)
        if name.startswith("vk") and not name.startswith("vkCmd") and isinstance(found, FunctionType):
            found = partial(self.call, name, f"failed in {name}")
        self.__dict__[name] = found
        return found

    def call(self, name: str, failed: str, *arguments: Any) -> Any:
        """Call a Vulkan function by name. ``failed``: what a message says between the device's name and the
        reason."""
        try:
            return getattr(self.module, name)(*arguments)
        except self._errors as error:
            code = self._code(error)
            if code is None:
                raise
            self.fail(code, failed, error)

    def _code(self, error: BaseException) -> int | None:
        if isinstance(error, KeyError):
            key = error.args[0] if error.args else None
            return key if isinstance(key, int) else None
        code = self._codes.get(type(error), -13)
        return -abs(code) if isinstance(error, self.module.VkError) else code

    def fail(self, code: int, failed: str, error: BaseException | None = None) -> NoReturn:
        """Raises the DressiError for a result code."""
        self._on_error(code)
        raise sentence(self._subject, failed, result(code)) from error


def handle_number(value: Any, vk: Any = None) -> int | None:
    """A handle or an address as a number: a whole number, one of ctypes, or with ``vk`` an object of a Vulkan
    binding. None where it is none of these, or 0."""
    number = getattr(value, "value", value)  # of ctypes
    if vk is not None and isinstance(number, vk.ffi.CData):
        number = int(vk.ffi.cast("uintptr_t", number))
    if isinstance(number, bool) or not hasattr(number, "__index__") or not 0 < number.__index__() < 1 << 64:
        return None
    return number.__index__()


# Arguments and structures of Vulkan calls as C values.
#
# The helpers of the package ``vulkan`` look every field up in the C declarations again, in each call; a third
# of the time of building a plan. ``quicken`` exchanges them for these, which remember them.


def quicken(vulkan: ModuleType) -> ModuleType:
    """The module with quicker helpers, or as it is if its version has others. Idempotent."""
    module: Any = vulkan._vulkan
    if (
        not all(hasattr(module, name) for name in ("ffi", "_new", "_callApi"))
        or module._new.__module__ == __name__
    ):
        return vulkan
    ffi, new, lives_with = module.ffi, module._new, WeakKeyDictionary()
    data, null, address, kind_of = ffi.CData, ffi.NULL, ffi.addressof, ffi.typeof

    @cache
    def fields(name: str) -> tuple[Any, dict[str, Any]]:
        """The type of a pointer to a structure; the types of its pointer fields, None for others."""
        found = {k: f.type for k, f in kind_of(name).fields}
        return kind_of(f"{name}*"), {k: t if t.kind == "pointer" else None for k, t in found.items()}

    @cache
    def arguments(function: Any) -> tuple[Any, ...]:
        """The types of a function's arguments that are pointers, None for others."""
        return tuple(t if t.kind == "pointer" else None for t in function.args)

    @cache
    def items(kind: Any) -> tuple[Any, Any]:
        """What a pointer points to, if that is a pointer, too, else None; the type of arrays of it."""
        item = kind.item
        return (item if item.kind == "pointer" else None), kind_of(f"{item.cname}[]")

    def pointer(x: Any, kind: Any, kept: list[Any]) -> Any:
        """A value as a pointer; what it points to is added to ``kept``."""
        if isinstance(x, data):
            found = kind_of(x)
            if found is not kind and found.kind in ("struct", "union"):
                kept.append(x)
                return address(x)
        elif isinstance(x, str | Iterable):
            inner, array = items(kind)
            if isinstance(x, str):
                x = x.encode()
            elif inner is not None:
                x = [pointer(each, inner, kept) for each in x]
            x = ffi.new(array, x)
        else:
            x = ffi.cast(kind, x)
        kept.append(x)
        return x

    def structure(ctype: str, **values: Any) -> Any:
        whole, kinds = fields(ctype)
        init, kept = {}, []
        for k, x in values.items():
            if not x:
                continue
            if k.startswith("pfn"):
                return new(ctype, **values)
            if k == "pCode":
                code = ffi.from_buffer(x)
                kept.append(code)
                x = ffi.cast("uint32_t*", code)
            elif (kind := kinds[k]) is not None:
                x = pointer(x, kind, kept)
            init[k] = x
        made = ffi.new(whole, init)[0]
        if kept:
            lives_with[made] = kept
        return made

    def call(function: Any, *given: Any) -> Any:
        kept: list[Any] = []
        return function(
            *[
                null if x is None else x if kind is None else pointer(x, kind, kept)
                for x, kind in zip(given, arguments(kind_of(function)), strict=False)
            ]
        )

    module._new, module._callApi = structure, call
    return vulkan
