"""`dressi devices`: the Vulkan devices, their limits, and what is missing on the machine."""

import json
from typing import Annotated, Any

import typer

from dressi.cli.core.interrupt import imports
from dressi.errors import DressiError, ShaderError


def devices(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="Measure the device model of each, which the planner uses; run nothing else meanwhile.",
        ),
    ] = False,
) -> None:
    """List the Vulkan devices, their limits, and what is missing."""
    with imports():
        from dressi.config import config
        from dressi.vk.run.device.capabilities import read_capabilities
        from dressi.vk.run.device.choose import choose, list_devices
        from dressi.vk.run.device.instance import Instance
        from dressi.vk.run.shaders.pyglslang import find_compiler

    listed = list_devices()
    try:
        compiler = str(find_compiler())
    except ShaderError:
        compiler = None
    notes = _missing(compiler)
    # A DRESSI_DEVICE that is not there is an error for every command but this one, which lists what is.
    try:
        chosen = choose(listed, config.device).index
    except DressiError as error:
        chosen, notes = None, [*notes, f"DRESSI_DEVICE: {error}"]
    instance = Instance.shared()
    entries = [
        {
            **device.as_dict(),
            "chosen": device.index == chosen,
            "limits": read_capabilities(instance.vk, instance.handle, device.handle).limits.as_dict(),
            **({"model": _model(device.index)} if calibrate else {}),
        }
        for device in listed
    ]
    if as_json:
        print(json.dumps({"devices": entries, "glsl_compiler": compiler, "missing": notes}, indent=2))
        return
    for entry in entries:
        _print_device(entry)
    print(f"GLSL compiler: {compiler or 'none'}")
    for note in notes:
        print(f"missing: {note}")


def _missing(compiler: str | None) -> list[str]:
    """One sentence with its cure for everything that the program or its tests would like to have."""
    from dressi.vk.run.device.instance import VALIDATION_LAYER, Instance
    from dressi.vk.run.host.platforms import current

    notes = []
    if compiler is None:
        notes.append(f"a GLSL compiler: {current().glslang}")
    elif "glslc" in compiler or "glslangValidator" in compiler:
        notes.append(f"glslang as a library (shaders compile slowly without): {current().glslang}")
    layers = Instance.shared().vk.vkEnumerateInstanceLayerProperties()
    if VALIDATION_LAYER not in {layer.layerName for layer in layers}:
        notes.append(f"the Vulkan validation layer: {current().validation}")
    return notes


def _model(index: int) -> dict[str, Any]:
    from dressi import Device
    from dressi.vk.run.measure.calibration import calibrate

    with Device.open(index) as device:
        return calibrate(device).as_dict()


def _print_device(entry: dict[str, Any]) -> None:
    from dressi.vk.plan.core.limits import UNLIMITED

    mark = "  (used unless --device or DRESSI_DEVICE says otherwise)" if entry["chosen"] else ""
    driver = f"{entry['driver']} {entry['driver_version']}, Vulkan {entry['api_version']}"
    print(f"{entry['index']}: {entry['name']}{mark}\n   type {entry['type']}, driver {driver}")
    limits = {name.removeprefix("max_").replace("_", " "): value for name, value in entry["limits"].items()}
    width = max(map(len, limits))
    for name, value in limits.items():
        # Drivers report numbers of descriptors that no shader reaches.
        print(f"   {name:<{width}}  {'no limit that matters' if value == UNLIMITED else value}")
    for name, value in entry.get("model", {}).items():
        print(f"   device model: {name} {value}")
    print()
