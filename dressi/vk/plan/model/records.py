"""Device models as data, one for each class of device. Calibration measures those of real devices."""

from __future__ import annotations

from dataclasses import replace

from ....errors import InputError
from .device import DeviceModel

# CPU: lavapipe and SwiftShader on two cores with 8 lanes each, measured with `dressi bench model --measure`.
# Fetches run as scalar code, so a texel costs as much as 40 operations.
#
# The others are classes, from vendors' data sheets; an addition counts as two operations:
#
# - INTEGRATED: a laptop's GPU like Intel Xe or AMD Vega 8. Two channels of DDR4, 1 to 2 TFLOP/s, 30 GTexel/s,
#   15 GPixel/s.
# - DESKTOP: GeForce RTX 3070 to 4080, Radeon RX 6800. 450 to 900 GB/s, 20 to 50 TFLOP/s, of which shaders of
#   this kind reach a third, 300 to 500 GTexel/s, 100 to 200 GPixel/s. Barriers and passes as profilers show.
# - DATA_CENTRE: an H100, fitted to the measured Stages of 16 steps (`dressi bench model --against`): 70 of 84
#   of those over 20 us are within a factor of 2. Two of its 66 clusters draw, so that a subpass of triangles
#   takes 80 us whatever it covers, and fragments are 56 times slower than dispatches; a clear of an image of a
#   million pixels takes 80 to 550 us. Filters, shared memory and matrix products are its data sheet's.
# - TILER: a telephone's GPU like Mali-G76 to G78 or Adreno 650. LPDDR4X, 0.5 to 1 TFLOP/s,
#   30 GTexel/s. A render pass bins all primitives first: slow; what stays in it never reaches memory.
_FIGURES = {
    # CPU, INTEGRATED, DESKTOP, DATA_CENTRE, TILER
    "bandwidth": (1e10, 5e10, 6e11, 1.6e12, 3e10),
    "fragment_rate": (1.6e10, 1e12, 1.2e13, 4.8e11, 6e11),
    "compute_rate": (1.6e10, 1e12, 1.2e13, 2.7e13, 4e11),
    "fetch_rate": (4e8, 3e10, 3e11, 5.2e11, 2e10),
    "image_load_rate": (1e9, 3e10, 3e11, 5.1e11, 2e10),
    "filter_rate": (1e8, 1.5e10, 1.5e11, 3.7e11, 1e10),
    "store_rate": (8e8, 1.5e10, 1e11, 5.3e10, 1e10),
    "image_store_rate": (2.5e8, 1.5e10, 1e11, 8.5e10, 1e10),
    "buffer_store_rate": (4e8, 1.5e10, 1e11, 1.3e11, 1e10),
    "buffer_fetch_rate": (8e8, 3e10, 3e11, 7.2e11, 2e10),
    "atomic_rate": (1.5e8, 1.5e10, 1e11, 8.2e10, 1e10),
    "fill_rate": (2.5e8, 1.5e10, 1e11, 4.6e10, 1e10),
    "clear_rate": (1e10, 5e10, 6e11, 4e10, 3e10),
    "vertex_rate": (1e7, 1e9, 5e9, 7.3e8, 5e8),
    "fetch_latency": (3e-8, 4e-7, 4e-7, 5.6e-7, 6e-7),
    "barrier": (2e-5, 4e-6, 2e-6, 2.2e-6, 1e-5),
    "render_pass": (8e-5, 8e-6, 5e-6, 6e-6, 3e-5),
    "raster": (0.0, 0.0, 0.0, 7.5e-5, 0.0),
    "draw": (0.0, 0.0, 0.0, 8.5e-6, 0.0),
    "dispatch": (4e-5, 3e-6, 2e-6, 5.4e-6, 1e-5),
    "lanes": (16, 1 << 12, 1 << 15, 110_000, 1 << 12),
    "longest_walk": (1 << 20, 256, 256, 256, 256),
    "shared_rate": (1e9, 2e11, 2e12, 6e12, 2e10),
    "matrix_rate": (1e9, 1e9, 4e13, 2e14, 1e9),
    "accumulators": (144, 32, 32, 32, 32),
    "loop_body": (1280, 640, 640, 640, 640),
    "straight": (640, 128, 128, 128, 128),
    "straight_if_long": (1280, 0, 0, 0, 0),
    "tiler": (False, False, False, False, True),
    "prefers_dispatches": (False, False, False, True, False),
    "prefers_attachments": (True, False, False, False, True),
}


def _record(name: str, column: int) -> DeviceModel:
    return DeviceModel(name, **{field: values[column] for field, values in _FIGURES.items()})


CPU = _record("cpu", 0)
INTEGRATED = _record("integrated", 1)
DESKTOP = _record("desktop", 2)
DATA_CENTRE = _record("data_centre", 3)
TILER = _record("tiler", 4)
SWIFTSHADER = replace(CPU, name="swiftshader", image_load_rate=4e8, loop_body=512)
"""As measured beside lavapipe; its loads from storage images are no faster than its fetches from textures. It
compiles a loop of 510 Functions in a second, of 640, the gradients of lit strands, in 200."""
LAVAPIPE = replace(CPU, name="lavapipe", buffer_fetch_rate=3e9, straight=1280)
"""A current one: neighbouring invocations load neighbours in a storage buffer together. Mesa 26 with LLVM 22
does, .25 ns a value and core beside .73 from an image; Mesa 22 with LLVM 15 does not, 1.1 ns. It compiles
blocks of 1,280 products in as long as Mesa 22 takes for 640; convolutions and matrix products take .88 to .91
of the time with these."""
PROFILES = {
    "desktop": DESKTOP,
    "uhd620": INTEGRATED,
    "mali_g76": TILER,
    "minimum": INTEGRATED,
    "turing": DESKTOP,
    "raspberry_pi4": TILER,
    "lavapipe": CPU,
    "swiftshader": SWIFTSHADER,
}
"""The model for each named profile of limits; the first profile of a model is the model's own."""
RECORDS: dict[str, DeviceModel] = {
    m.name: m for m in (CPU, SWIFTSHADER, INTEGRATED, DESKTOP, DATA_CENTRE, TILER, LAVAPIPE)
}


_CLASSES = {"cpu": CPU, "integrated": INTEGRATED, "discrete": DESKTOP, "virtual": DESKTOP, "other": DESKTOP}
_NVIDIA, _AMD = 0x10DE, 0x1002
_NAMED = {
    _NVIDIA: "A30 A100 A800 H20 H100 H200 H800 GH200 B100 B200 B300 GB200 GB300",
    _AMD: "MI210 MI250 MI250X MI300A MI300X MI308X MI325X MI350X MI355X",
}
"""By PCI vendor: data-centre products. Drivers of all kinds have the product as a word of the device's name:
"NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB", "AMD Instinct MI300X (RADV GFX942)"."""
_LLVMPIPE = "llvmpipe (LLVM "
_CURRENT_LLVM = 20
"""With this LLVM lavapipe counts as a current one; versions between 15 and 22 were not measured."""


def record_of(kind: str, vendor: int = 0, name: str = "", tiler: bool = False) -> DeviceModel:
    """The record for a physical device.

    kind: "cpu", "integrated", "discrete", "virtual" or "other".  vendor: its PCI vendor.  name: as its driver
    tells it.  tiler: whether it has memory for attachments that never leave their render pass.
    """
    if kind == "cpu":
        version = name.removeprefix(_LLVMPIPE).partition(".")[0] if name.startswith(_LLVMPIPE) else ""
        current = version.isdecimal() and int(version) >= _CURRENT_LLVM
        return SWIFTSHADER if name.startswith("SwiftShader") else LAVAPIPE if current else CPU
    if not set(name.replace("-", " ").split()).isdisjoint(_NAMED.get(vendor, "").split()):
        return DATA_CENTRE
    return TILER if tiler else _CLASSES[kind]


def device_model(name: str) -> DeviceModel:
    """A record by its name, one of RECORDS. Raises InputError."""
    if name not in RECORDS:
        raise InputError(f"no device model named {name!r}; there are {', '.join(RECORDS)}")
    return RECORDS[name]


def model_of_profile(name: str) -> DeviceModel:
    """The model of the device that a named profile of limits describes. Raises InputError."""
    if name not in PROFILES:
        raise InputError(f"no limits profile named {name!r}; there are {', '.join(PROFILES)}")
    return PROFILES[name]


def profile_of(model: DeviceModel) -> str:
    """The named profile of limits to plan with where only the model is given."""
    return next((name for name, m in PROFILES.items() if m == model), "turing" if model.wide else "lavapipe")
