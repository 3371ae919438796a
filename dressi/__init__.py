"""dressi: differentiable rendering on any Vulkan device.

    import dressi
    from dressi import F, Variable, adam

    image = Variable.of([[0.0, 0.5], [1.0, 0.0], [0.2, 0.8]])
    with dressi.DressiAD() as ad:
        ad.set_loss(F.mean(F.square(F.length(image - 0.25))))
        ad.set_optimizer(adam(0.02), [image])
        ad.step(200)
        print(ad.recv(image))

computations
    F (every operation), Variable (an image value), gradient, jvp, vjp, hvp (first and second derivatives)
    types of a texel: FLOAT, VEC2, VEC3, VEC4, MAT2, MAT3, MAT4, INT, IVEC2, IVEC3, IVEC4: members of VType
    operations of your own: PixelFunction, ReduceFunction, Access; see F.apply

running them
    DressiAD (loss, optimizer, steps, values), evaluate (values, now), Device, list_devices, PlanOptions
    schedules (loops of contractions by hand: register tiles, shared memory)
    in a program with Vulkan of its own: Device.from_handles, DressiAD.export, ExportedImage

optimizers
    adam, adamw, amsgrad, adam_uniform, sgd, per_parameter; more, and schedules, in optim
    of a list of residuals: GaussNewton, LevenbergMarquardt; robust kernels and products with the Jacobian in
    least_squares

layers of networks, weights in and out of files
    networks

meshes, cameras, pictures, losses, files
    render

errors
    DressiError and its kinds: DeviceError, DeviceLostError, DeviceNotFoundError, GraphError, InputError,
    NoDriverError, OutOfMemoryError, PlanError, ShaderError

Every name has a docstring with an example; examples run after ``import numpy as np`` and
``from dressi import *``: ``help(dressi.F.sample)``, ``help(dressi.DressiAD)``. ``help(dressi.F)``,
``help(dressi.optim)``, ``help(dressi.least_squares)``, ``help(dressi.networks)`` and
``help(dressi.render)`` list what is in them by family. Names are imported when they are first used:
``import dressi`` alone is quick, and the command line can take care of Ctrl-C before NumPy and the Vulkan
loader are imported.
"""

# ruff: noqa: F403, F405
from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

from .engines import provide_engine as _provide_engine
from .figures import provide_figures as _provide_figures
from .lazy import resolve as _resolve

if TYPE_CHECKING:
    import dressi.render as render

    from .ad import functional as F
    from .ad import least_squares, networks, optim
    from .ad.graph import PixelFunction, ReduceFunction, Variable
    from .ad.graph.types import *
    from .ad.least_squares import GaussNewton, LevenbergMarquardt
    from .ad.optim import adam, adam_uniform, adamw, amsgrad, per_parameter, sgd
    from .ad.transform.gradient import gradient, hvp, jvp, vjp
    from .errors import *
    from .vk.plan.core.options import PlanOptions
    from .vk.plan.model import schedules
    from .vk.run.device.device import Device
    from .vk.run.device.export import ExportedImage
    from .vk.run.device.instance import list_devices
    from .vk.run.engine import DressiAD
    from .vk.run.evaluations import evaluate

__version__ = "0.3.0"

_WHOLE = {
    "F": "ad.functional",
    "least_squares": "ad.least_squares",
    "networks": "ad.networks",
    "optim": "ad.optim",
    "render": "render",
    "schedules": "vk.plan.model.schedules",
}
_MODULES = (
    "errors", "ad.graph.types", "ad.graph", "ad.transform.gradient", "ad.optim", "ad.least_squares",
    "vk.plan.core.options", "vk.run.device.device", "vk.run.device.instance", "vk.run.evaluations", "vk.run.device.export",
    "vk.run.engine",
)  # fmt: skip
"""The modules of all other names, the quick ones first: imported in this order until one has the name."""

__all__ = [
    "FLOAT", "INT", "IVEC2", "IVEC3", "IVEC4", "MAT2", "MAT3", "MAT4", "VEC2", "VEC3", "VEC4", "Access",
    "Device", "DeviceError", "DeviceLostError", "DeviceNotFoundError", "DressiAD", "DressiError",
    "ExportedImage", "F", "GaussNewton", "GraphError", "InputError", "LevenbergMarquardt", "NoDriverError",
    "OutOfMemoryError", "PixelFunction", "PlanError", "PlanOptions", "ReduceFunction", "ShaderError", "VType",
    "Variable", "adam", "adam_uniform", "adamw", "amsgrad", "evaluate", "gradient", "hvp", "jvp",
    "least_squares", "list_devices", "networks", "optim", "per_parameter", "render", "schedules", "sgd",
    "vjp",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _WHOLE:
        globals()[name] = found = _import_module(f".{_WHOLE[name]}", __name__)
        return found
    return _resolve(__name__, name, _MODULES)


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])


def _default_engine() -> Any:
    """An engine on the device that is shared. Every picture sends its arrays, so the first plan is kept."""
    from .vk.plan.core.options import PlanOptions
    from .vk.run.engine import DressiAD

    return DressiAD(options=PlanOptions(adapt=False))


def _figures() -> Any:
    from .notebook import draw

    return draw


_provide_engine(_default_engine)
_provide_figures(_figures)
