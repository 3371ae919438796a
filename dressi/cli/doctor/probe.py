"""Looks at the Vulkan loader, drivers and the GLSL compiler in another process: any of them may crash.

    python -m dressi.cli.doctor.probe devices | compiler | step INDEX | facts INDEX | check INDEX PROBE

The process prints one JSON object on its last line of stdout.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...vk.run.device.device import Device

PROBE = (sys.executable, "-m", "dressi.cli.doctor.probe")
LONGEST = 120.0
"""Seconds that a probe gets: a first step compiles shaders."""


@dataclass(frozen=True)
class Answer:
    """facts: of the process.  failure: the end of a sentence about the process, where it did not answer."""

    facts: Mapping[str, Any] = field(default_factory=dict)
    failure: str = ""


Ask = Callable[..., Answer]
"""``ask``, or what a test has in its place."""


def ask(
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    command: Sequence[str] = PROBE,
    limit: float | None = None,
) -> Answer:
    """What a probe answers. environment: added variables. limit: seconds, LONGEST by default."""
    limit = LONGEST if limit is None else limit
    variables = {**os.environ, **(environment or {})}
    try:
        result = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, errors="replace", env=variables, timeout=limit
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Answer(failure=f"does not answer within {limit:.0f} s")
    except OSError as error:
        return Answer(failure=f"cannot be started ({error})")
    if result.returncode < 0:
        return Answer(failure=f"crashes ({_name(-result.returncode)})")
    try:
        return Answer(json.loads(result.stdout.splitlines()[-1]))
    except (ValueError, IndexError):
        last = (result.stderr.strip().splitlines() or [f"exit code {result.returncode}"])[-1]
        return Answer(failure=f"fails ({last[:300]})")


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


# ---------------------------------------------------------------------------- in the process of the probe


def _devices() -> dict[str, Any]:
    from ...errors import DressiError, NoDriverError
    from ...vk.run.device.instance import VALIDATION_LAYER, Instance, choose, list_devices, load_vulkan

    try:
        load_vulkan()
    except NoDriverError as error:
        return {"loader": str(error.__cause__ or error), "devices": []}
    try:
        devices = list_devices()
    except NoDriverError:
        return {"devices": []}
    try:
        chosen = {"chosen": choose(devices).index}
    except DressiError as error:
        chosen = {"chosen": None, "refused": str(error)}
    layers = {layer.layerName for layer in Instance.shared().vk.vkEnumerateInstanceLayerProperties()}
    return {"devices": [one.as_dict() for one in devices], "validation": VALIDATION_LAYER in layers, **chosen}


def _compiler() -> dict[str, Any]:
    from ...errors import ShaderError
    from ...vk.run.shaders.pyglslang import find_compiler

    failures: list[str] = []
    try:
        compiler = find_compiler(failures)
    except ShaderError:
        return {"compiler": None, "failures": failures}
    return {"compiler": str(compiler), "in_process": compiler.in_process, "failures": failures}


def _step(index: str) -> dict[str, Any]:
    """One step of an optimisation and one rasterized cube, with what must come out of them."""
    import numpy as np

    from ... import DressiAD, F, Variable, adam
    from ...config import config
    from ...render import primitives, render, ring

    begin = time.perf_counter()
    with config(device=int(index)), DressiAD() as ad:
        image = Variable.of(np.full((8, 8), 0.5))
        mask = np.asarray(render(primitives.cube(0.5), ring(np.zeros(3), 1.0, 1, (16, 16))).mask)
        ad.set_loss(F.mean(F.square(image - 0.25)))
        ad.set_optimizer(adam(0.1), [image])
        ad.step(1)
        loss, stepped = float(ad.losses()[0]), np.asarray(ad.recv(image))
    right = abs(loss - 0.0625) < 1e-5 and np.allclose(stepped, 0.4, atol=1e-4) and 0 < mask.sum() < mask.size
    return {"right": bool(right), "seconds": time.perf_counter() - begin}


def _facts(index: str) -> dict[str, Any]:
    from ...vk.run.device.device import Device

    with Device.open(int(index)) as device:
        return facts(device)


def _check(index: str, name: str) -> dict[str, Any]:
    from ...vk.run.device.device import Device
    from .gpu_probes import PROBES

    begin = time.perf_counter()
    with Device.open(int(index)) as device:
        checks = [check.as_dict() for check in PROBES[name](device)]
    return {"checks": checks, "seconds": time.perf_counter() - begin}


def main(name: str, *arguments: str) -> None:
    from ...errors import DressiError

    probes = {"devices": _devices, "compiler": _compiler, "step": _step, "facts": _facts, "check": _check}
    try:
        answer = probes[name](*arguments)
    except DressiError as error:
        answer = {"error": str(error).splitlines()[0]}
    print(json.dumps(answer))


# What a driver says of its device, as plain data.

CONTAINER = (
    "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "VK_DRIVER_FILES", "VK_ICD_FILENAMES", "container",
)  # fmt: skip
"""Settings that decide which drivers a process sees."""


def facts(device: Device) -> dict[str, Any]:
    """Identity, conformance, memory, queue families, limits, features, device nodes, container settings."""
    from ...vk.run.host.platforms import find_gpus, hidden_gpus

    vk, physical, capabilities = device.vk, device.physical, device.capabilities
    memory = vk.vkGetPhysicalDeviceMemoryProperties(physical.handle)
    types = memory.memoryTypes[0 : memory.memoryTypeCount]
    heaps = memory.memoryHeaps[0 : memory.memoryHeapCount]
    gpus = find_gpus()
    return {
        "device": physical.as_dict(),
        "conformance": _conformance(device),
        "memory_types": [{"flags": kind.propertyFlags, "heap": kind.heapIndex} for kind in types],
        "memory_heaps": [{"flags": heap.flags, "bytes": heap.size} for heap in heaps],
        "queue_families": [family._asdict() for family in capabilities.queue_families],
        "limits": asdict(device.limits),
        "features": sorted(device.features),
        "extensions": sorted(capabilities.extensions),
        "timestamp_period_ns": device.timestamp_period,
        "device_nodes": asdict(gpus),
        "hidden_gpus": hidden_gpus(gpus) if physical.type == "cpu" else None,
        "container": {name: os.environ[name] for name in CONTAINER if name in os.environ},
    }


def _conformance(device: Device) -> str | None:
    """The version of the conformance tests that the driver passes; None where it does not tell."""
    vk = device.vk
    if device.capabilities.version < (1, 2):
        return None
    details = vk.VkPhysicalDeviceDriverProperties()
    vk.vkGetPhysicalDeviceProperties2(device.physical.handle, vk.VkPhysicalDeviceProperties2(pNext=details))
    passed = details.conformanceVersion
    return f"{passed.major}.{passed.minor}.{passed.subminor}.{passed.patch}"


if __name__ == "__main__":
    main(*sys.argv[1:])
