"""Device models as data, one for each class of device. Calibration measures those of real devices."""

from __future__ import annotations

from dataclasses import replace

from ....errors import InputError
from .device import DeviceModel

CPU = DeviceModel(
    # lavapipe and SwiftShader on two cores with 8 lanes each: measured with `dressi bench model --measure`.
    # Fetches run as scalar code, so a texel costs as much as 40 operations.
    name="cpu",
    bandwidth=1e10,
    fragment_rate=1.6e10,
    compute_rate=1.6e10,
    fetch_rate=4e8,
    image_load_rate=1e9,
    filter_rate=1e8,
    store_rate=8e8,
    image_store_rate=2.5e8,
    buffer_store_rate=4e8,
    buffer_fetch_rate=8e8,
    atomic_rate=1.5e8,
    fill_rate=2.5e8,
    vertex_rate=1e7,
    fetch_latency=3e-8,
    barrier=2e-5,
    render_pass=8e-5,
    dispatch=4e-5,
    lanes=16,
    shared_rate=1e9,
    longest_walk=1 << 20,
    accumulators=144,
    loop_body=1280,
    straight=640,
    straight_if_long=1280,
)
SWIFTSHADER = replace(CPU, name="swiftshader", image_load_rate=4e8, loop_body=512)
"""As measured beside lavapipe; its loads from storage images are no faster than its fetches from textures. It
compiles a loop of 510 Functions in a second, of 640, the gradients of lit strands, in 200."""
LAVAPIPE = replace(CPU, name="lavapipe", buffer_fetch_rate=3e9, straight=1280)
"""A current one: neighbouring invocations load neighbours in a storage buffer together. Mesa 26 with LLVM 22
does, .25 ns a value and core beside .73 from an image; Mesa 22 with LLVM 15 does not, 1.1 ns. It compiles
blocks of 1,280 products in as long as Mesa 22 takes for 640; convolutions and matrix products take .88 to .91
of the time with these."""
INTEGRATED = DeviceModel(
    # A laptop's GPU of the class of Intel Xe or AMD Vega 8, from vendors' data sheets: two channels of DDR4,
    # 1 to 2 TFLOP/s, 30 GTexel/s, 15 GPixel/s. An addition counts as two operations here.
    name="integrated",
    bandwidth=5e10,
    fragment_rate=1e12,
    compute_rate=1e12,
    fetch_rate=3e10,
    image_load_rate=3e10,
    filter_rate=1.5e10,
    store_rate=1.5e10,
    image_store_rate=1.5e10,
    buffer_store_rate=1.5e10,
    buffer_fetch_rate=3e10,
    atomic_rate=1.5e10,
    fill_rate=1.5e10,
    vertex_rate=1e9,
    fetch_latency=4e-7,
    barrier=4e-6,
    render_pass=8e-6,
    dispatch=3e-6,
    lanes=1 << 12,
    shared_rate=2e11,
    longest_walk=256,
    prefers_attachments=False,
)
DESKTOP = DeviceModel(
    # A desktop GPU of the class of GeForce RTX 3070 to 4080 or Radeon RX 6800, from vendors' data sheets: 450
    # to 900 GB/s, 20 to 50 TFLOP/s, of which shaders of this kind reach a third, 300 to 500 GTexel/s, 100 to
    # 200 GPixel/s. Barriers and passes are what profilers show for small work: a drain and refill of the
    # pipeline.
    name="desktop",
    bandwidth=6e11,
    fragment_rate=1.2e13,
    compute_rate=1.2e13,
    fetch_rate=3e11,
    image_load_rate=3e11,
    filter_rate=1.5e11,
    store_rate=1e11,
    image_store_rate=1e11,
    buffer_store_rate=1e11,
    buffer_fetch_rate=3e11,
    atomic_rate=1e11,
    fill_rate=1e11,
    vertex_rate=5e9,
    fetch_latency=4e-7,
    barrier=2e-6,
    render_pass=5e-6,
    dispatch=2e-6,
    lanes=1 << 15,
    shared_rate=2e12,
    matrix_rate=4e13,
    longest_walk=256,
    prefers_attachments=False,
)
DATA_CENTRE = DeviceModel(
    # A data-centre GPU of the class of A100 or H100, from vendors' data sheets: 2 to 4 TB/s, 20 to 60
    # TFLOP/s, more lanes to fill. On an H100 two of 66 clusters draw, so fragments are 30 times slower than
    # dispatches, and 24 raster units write 4e10 pixels a second.
    name="data_centre",
    bandwidth=3e12,
    fragment_rate=7e11,
    compute_rate=2.4e13,
    fetch_rate=6e11,
    image_load_rate=6e11,
    filter_rate=3e11,
    store_rate=4e10,
    image_store_rate=1.5e11,
    buffer_store_rate=1.5e11,
    buffer_fetch_rate=6e11,
    atomic_rate=1.5e11,
    fill_rate=4e10,
    vertex_rate=3e9,
    fetch_latency=5e-7,
    barrier=2e-6,
    render_pass=6e-6,
    dispatch=2e-6,
    lanes=1 << 17,
    shared_rate=6e12,
    matrix_rate=2e14,
    longest_walk=256,
    prefers_dispatches=True,
    prefers_attachments=False,
)
TILER = DeviceModel(
    # A telephone's GPU of the class of Mali-G76 to G78 or Adreno 650, from vendors' data sheets: LPDDR4X, 0.5
    # to 1 TFLOP/s in single precision, 30 GTexel/s. Starting a render pass bins all primitives and is slow;
    # what stays in the pass never reaches memory.
    name="tiler",
    bandwidth=3e10,
    fragment_rate=6e11,
    compute_rate=4e11,
    fetch_rate=2e10,
    image_load_rate=2e10,
    filter_rate=1e10,
    store_rate=1e10,
    image_store_rate=1e10,
    buffer_store_rate=1e10,
    buffer_fetch_rate=2e10,
    atomic_rate=1e10,
    fill_rate=1e10,
    vertex_rate=5e8,
    fetch_latency=6e-7,
    barrier=1e-5,
    render_pass=3e-5,
    dispatch=1e-5,
    lanes=1 << 12,
    shared_rate=2e10,
    longest_walk=256,
    tiler=True,
)
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
