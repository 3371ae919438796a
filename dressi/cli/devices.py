"""`dressi devices`: the Vulkan devices, their limits, and what is missing on the machine."""

import json
from typing import Annotated, Any

import typer

from dressi.cli.interrupt import imports
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
        from dressi.vk.run.device.choose import choose, list_devices

    found = list_devices()
    # A DRESSI_DEVICE that is not there is an error for every command but this one, which lists what is.
    notes = missing()
    try:
        chosen = choose(found, config.device).index
    except DressiError as error:
        chosen, notes = None, [*notes, f"DRESSI_DEVICE: {error}"]
    compiler = _compiler()
    entries = [
        {
            **device.as_dict(),
            "chosen": device.index == chosen,
            "limits": _limits(device),
            **({"model": _model(device.index)} if calibrate else {}),
        }
        for device in found
    ]
    if as_json:
        print(json.dumps({"devices": entries, "glsl_compiler": compiler, "missing": notes}, indent=2))
        return
    for entry in entries:
        _print_device(entry)
    print(f"GLSL compiler: {compiler or 'none'}")
    for note in notes:
        print(f"missing: {note}")


def missing() -> list[str]:
    """One sentence with its cure for everything that the program or its tests would like to have."""
    from dressi.vk.run.device.instance import VALIDATION_LAYER, Instance
    from dressi.vk.run.host.platforms import current

    notes = []
    compiler = _compiler()
    if compiler is None:
        notes.append(f"a GLSL compiler: {current().glslang}")
    elif "glslc" in compiler or "glslangValidator" in compiler:
        notes.append(f"glslang as a library (shaders compile slowly without): {current().glslang}")
    vk = Instance.shared().vk
    if VALIDATION_LAYER not in {layer.layerName for layer in vk.vkEnumerateInstanceLayerProperties()}:
        notes.append(f"the Vulkan validation layer: {current().validation}")
    return notes


def _compiler() -> str | None:
    from dressi.vk.run.shaders.pyglslang import find_compiler

    try:
        return str(find_compiler())
    except ShaderError:
        return None


def _limits(device: Any) -> dict[str, Any]:
    from dressi.vk.run.device.capabilities import read_capabilities
    from dressi.vk.run.device.instance import Instance

    instance = Instance.shared()
    return read_capabilities(instance.vk, instance.handle, device.handle).limits.as_dict()


def _model(index: int) -> dict[str, Any]:
    from dressi import Device
    from dressi.vk.run.measure.calibration import calibrate

    with Device.open(index) as device:
        return calibrate(device).as_dict()


def _print_device(entry: dict[str, Any]) -> None:
    mark = "  (used unless --device or DRESSI_DEVICE says otherwise)" if entry["chosen"] else ""
    print(f"{entry['index']}: {entry['name']}{mark}")
    print(
        f"   type {entry['type']}, driver {entry['driver']} {entry['driver_version']}, Vulkan {entry['api_version']}"
    )
    limits = {name.removeprefix("max_").replace("_", " "): value for name, value in entry["limits"].items()}
    width = max(map(len, limits))
    for name, value in limits.items():
        print(f"   {name:<{width}}  {_number(value)}")
    for name, value in entry.get("model", {}).items():
        print(f"   device model: {name} {value}")
    print()


def _number(value: int) -> str:
    """UNLIMITED as a word: drivers report numbers of descriptors that no shader reaches."""
    from dressi.vk.plan.limits import UNLIMITED

    return "no limit that matters" if value == UNLIMITED else str(value)
