"""Device models as data, one for each class of device. Calibration measures those of real devices."""

from __future__ import annotations

from dataclasses import replace

from ....errors import InputError
from .device import DeviceModel

# CPU: lavapipe and SwiftShader on two cores with 8 lanes each, measured with `dressi bench model --measure`.
# Fetches run as scalar code, so a texel costs as much as 40 operations.
#
# DATA_CENTRE: an H100 SXM (132 processors at 1.98 GHz), fitted to 251 measured Stages of 20 steps from what
# its data sheet and a first look at these Stages say: 67 TFLOP/s (an addition counts as two operations), 3.35
# TB/s, 528 texture units (1.05e12 texels/s), 24 raster units (4.75e10 pixels/s); 2 of its 66 clusters draw,
# so that fragments have a thirtieth of the operations. By the sheet alone are filters, shared memory and
# matrix products; by hand are `wider`, and that buffers are read faster than textures. Steps that are timed
# one by one, with pauses, take 2.7 times as long in everything: most likely clocks that rest. `idle` of other
# GPUs is taken from it.
#
# The other GPUs have the share of their data sheets that the H100 reaches of its own: .54 of the bandwidth,
# .75 of the operations, 1.05 of the texels, .27 of the raster units for what a raster clears and tests, .84
# bytes a pixel of them for clears; stores, atomics and shared memory go with processors, starts with clocks.
# Where all clusters draw, a subpass of triangles and a draw are taken to start in a fraction of what two
# need: nothing was measured.
#
# - INTEGRATED: Intel Iris Xe of 96 units: 1.35 GHz, 2.07 TFLOP/s, 65 GTexel/s, 32 GPixel/s, LPDDR4X of 68
#   GB/s, 128 bytes a clock of local memory in each of 6 slices.
# - DESKTOP: GeForce RTX 4070: 46 processors at 2.48 GHz, 29 TFLOP/s, 455 GTexel/s, 158 GPixel/s, 504 GB/s;
#   all clusters draw. Matrix products with sums in 32 bits: 58 TFLOP/s, of which 40 are counted.
# - TILER: Mali-G78 of 14 cores: 854 MHz, .77 TFLOP/s, 48 GTexel/s, 24 GPixel/s, LPDDR5 of 50 GB/s. It clears
#   and tests on the chip. A render pass bins all primitives first: slow; what stays in it never reaches
#   memory. Its workgroups share memory through the cache.
_FIGURES = {
    # CPU, INTEGRATED, DESKTOP, DATA_CENTRE, TILER
    "bandwidth": (1e10, 3.7e10, 2.7e11, 1.8e12, 2.7e10),
    "fragment_rate": (1.6e10, 1.5e12, 2.2e13, 1.6e12, 5.7e11),
    "compute_rate": (1.6e10, 1.5e12, 2.2e13, 5e13, 5.7e11),
    "fetch_rate": (4e8, 6.5e10, 4.6e11, 1.05e12, 4.8e10),
    "image_load_rate": (1e9, 5.6e10, 3.9e11, 9e11, 4.1e10),
    "wider": (0.0, 0.5, 0.5, 0.5, 0.5),
    "filter_rate": (1e8, 2.3e10, 1.6e11, 3.7e11, 1.7e10),
    "store_rate": (8e8, 3.2e10, 1.6e11, 4.7e10, 2.4e10),
    "image_store_rate": (2.5e8, 1.1e10, 7.4e10, 1.7e11, 7.8e9),
    "buffer_store_rate": (4e8, 1.2e10, 8.7e10, 2e11, 9.2e9),
    "buffer_fetch_rate": (8e8, 8e10, 5.6e11, 1.3e12, 6e10),
    "atomic_rate": (1.5e8, 2e10, 1.4e11, 3.2e11, 1.5e10),
    "fill_rate": (2.5e8, 8.7e9, 4.3e10, 1.3e10, 2.4e10),
    "clear_rate": (1e10, 2.7e10, 1.3e11, 4e10, 2.7e10),
    "vertex_rate": (1e7, 1e9, 1.2e10, 8.4e8, 5e8),
    "fetch_latency": (3e-8, 3e-7, 1.6e-7, 2e-7, 4.7e-7),
    "barrier": (2e-5, 1.3e-6, 7e-7, 9e-7, 1e-5),
    "render_pass": (8e-5, 4.4e-6, 2.4e-6, 3e-6, 3e-5),
    "raster": (0.0, 2.5e-6, 1.5e-6, 1.6e-5, 5e-6),
    "draw": (0.0, 8e-7, 5e-7, 1.8e-6, 2e-6),
    "dispatch": (4e-5, 5.9e-6, 3.2e-6, 4e-6, 9e-6),
    "submission": (0.0, 1.1e-5, 6e-6, 7.4e-6, 1.7e-5),
    "idle": (1.0, 2.7, 2.7, 2.7, 2.7),
    "lanes": (16, 2300, 17_000, 50_000, 1400),
    "longest_walk": (1 << 20, 256, 256, 256, 256),
    "shared_rate": (1e9, 2.6e11, 3.5e12, 8e12, 2e10),
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
