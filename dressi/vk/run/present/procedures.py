"""Functions of Vulkan's extensions for surfaces and swapchains, called directly: each returns its VkResult.

The binding's own wrappers raise an exception for every result but VK_SUCCESS, which loses the number of an acquired
image when the swapchain is suboptimal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..device.device import Device

SUBOPTIMAL, TIMEOUT, NOT_READY = 1000001003, 2, 1
OUT_OF_DATE, SURFACE_LOST = -1000001004, -1000000000


class Procedures:
    """Functions of extensions on one device, by name. Structures are passed by address, as in C; a function that the
    device or the instance does not have is None."""

    def __init__(self, device: Device):
        self._device = device
        self._found: dict[str, Callable[..., int] | None] = {}

    def find(self, name: str, kind: str | None = None) -> Callable[..., int] | None:
        """A function, of the type of the function ``kind`` where the binding does not know its own."""
        if name not in self._found:
            vk, device = self._device.vk, self._device
            text = vk.ffi.new("char[]", name.encode())
            address = vk.lib.vkGetInstanceProcAddr(device.instance.handle, text)
            if any(word in name for word in ("Swapchain", "AcquireNext", "QueuePresent")):
                address = vk.lib.vkGetDeviceProcAddr(device.handle, text)
            known = address != vk.ffi.NULL
            self._found[name] = vk.ffi.cast(f"PFN_{kind or name}", address) if known else None
        return self._found[name]

    def has(self, name: str) -> bool:
        """Whether the extension of a function is enabled."""
        return self.find(name) is not None

    def __call__(self, name: str, *arguments: Any) -> int:
        """Call a function that is there."""
        function = self.find(name)
        assert function is not None
        return function(*arguments)

    def must(self, failed: str, name: str, *arguments: Any) -> None:
        """Call a function. Raises the DressiError of any result below 0; ``failed`` says what did not work."""
        code = self(name, *arguments)
        if code is not None and code < 0:
            self._device.vk.fail(code, failed)

    def several(self, failed: str, name: str, element: str, *arguments: Any) -> list[Any]:
        """A list that Vulkan gives in two calls, first its length."""
        ffi = self._device.vk.ffi
        count = ffi.new("uint32_t*")
        self.must(failed, name, *arguments, count, ffi.NULL)
        array = ffi.new(f"{element}[]", count[0])
        self.must(failed, name, *arguments, count, array)
        return [array[k] for k in range(count[0])]
