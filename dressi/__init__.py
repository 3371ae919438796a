"""dressi: differentiable rendering on any Vulkan device."""

from .ad import functional as F
from .ad.graph import Variable
from .ad.optim import adam, sgd
from .errors import DressiError
from .vk.run.device import Device, list_devices
from .vk.run.engine import DressiAD

__all__ = ["Device", "DressiAD", "DressiError", "F", "Variable", "adam", "list_devices", "sgd"]
__version__ = "0.1.0"
