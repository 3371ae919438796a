"""dressi: differentiable rendering on any Vulkan device.

The names below are imported when they are first used. ``import dressi`` alone is quick, and the command line can
take care of Ctrl-C before NumPy and the Vulkan loader are imported.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .ad import functional as F
    from .ad.graph import Variable
    from .ad.optim import adam, sgd
    from .errors import DressiError
    from .vk.run.device import Device, list_devices
    from .vk.run.engine import DressiAD

__all__ = ["Device", "DressiAD", "DressiError", "F", "Variable", "adam", "list_devices", "sgd"]
__version__ = "0.1.0"

_MODULES = {
    "Device": "vk.run.device",
    "DressiAD": "vk.run.engine",
    "DressiError": "errors",
    "Variable": "ad.graph",
    "adam": "ad.optim",
    "list_devices": "vk.run.device",
    "sgd": "ad.optim",
}


def __getattr__(name: str) -> Any:
    if name == "F":
        found: Any = import_module(".ad.functional", __name__)
    elif name in _MODULES:
        found = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
