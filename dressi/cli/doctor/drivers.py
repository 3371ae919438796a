"""The Vulkan loader, drivers and devices, and the GLSL compiler: each is asked in a process of its own."""

from __future__ import annotations

import glob
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dressi.cli.doctor.findings import OK, Finding, note, ok, problem
from dressi.cli.doctor.probe import Ask
from dressi.vk.run.host.gpus import find_gpus, hidden_gpus
from dressi.vk.run.host.platforms import Platform


def loader_and_devices(ask: Ask, system: Platform) -> list[Finding]:
    """Everything about Vulkan, the steps on each device included."""
    answer = ask("devices")
    listed = _listed(system)
    if answer.failure:
        return [*listed, *_crashing(ask, system, answer.failure)]
    facts = answer.facts
    if "error" in facts:
        return [*listed, problem("vulkan", str(facts["error"]))]
    if "loader" in facts:
        return [problem("loader", _no_loader(system))]
    findings = [ok("loader", f"the Vulkan loader ({system.loader}) is there"), *listed, *manifests(system)]
    devices, hidden = facts["devices"], hidden_gpus(find_gpus())
    if not devices:
        findings.append(problem("driver", f"no Vulkan driver answers; {system.driver}"))
        return [*findings, *([note("gpu", hidden)] if hidden else [])]
    findings += _steps(ask, facts)
    if all(device["type"] == "cpu" for device in devices):
        text = f"there is no GPU among the devices; if this machine has one, {system.driver}"
        findings.append(note("gpu", hidden or text))
    if "refused" in facts:
        findings.append(problem("settings", str(facts["refused"])))
    if facts["validation"]:
        findings.append(ok("validation", "the Vulkan validation layer is installed"))
    else:
        findings.append(note("validation", f"the Vulkan validation layer is missing; {system.validation}"))
    return findings


def _steps(ask: Ask, facts: Mapping[str, Any]) -> list[Finding]:
    """A step on each device. One that fails is a problem if dressi would choose it."""
    devices = facts["devices"]
    steps = [_step(ask, device) for device in devices]
    good = [device for device, step in zip(devices, steps, strict=True) if step.level == OK]
    for k, (device, step) in enumerate(zip(devices, steps, strict=True)):
        if step.level != OK and (not good or device["index"] == facts["chosen"]):
            cure = f"; until then set DRESSI_DEVICE={good[0]['index']}" if good else ""
            steps[k] = problem(step.topic, step.text + cure)
    return steps


def _step(ask: Ask, device: Mapping[str, Any]) -> Finding:
    name = f"{device['index']}: {device['name']}, driver {device['driver']} {device['driver_version']}"
    topic = f"device {device['index']}"
    answer = ask("step", str(device["index"]))
    cure = "update or reinstall its driver"
    if answer.failure:
        return note(topic, f"{name}: one step {answer.failure}; {cure}")
    if "error" in answer.facts:
        return note(topic, f"{name}: {answer.facts['error']}")
    if not answer.facts["right"]:
        return note(topic, f"{name}: one step gives wrong numbers; {cure}")
    return ok(
        topic, f"{name}: one step and one picture are right ({answer.facts['seconds']:.1f} s with its start)"
    )


def _no_loader(system: Platform) -> str:
    found = next(
        (folder / system.loader for folder in system.library_folders() if (folder / system.loader).is_file()),
        None,
    )
    if found is None:
        return f"the Vulkan loader ({system.loader}) is missing; {system.driver}"
    return (
        f"the Vulkan loader is in '{found}', where programs do not find it or cannot load it; add its folder to"
        f" {system.search}: `{system.add_path.format(system.search, found.parent)}`"
    )


def _listed(system: Platform) -> list[Finding]:
    """What the user's own list of drivers means."""
    listed = system.driver_files()
    missing = [name for name in listed if not os.path.isfile(name)]
    if missing:
        text = f"VK_DRIVER_FILES names {', '.join(missing)}, which is not there; correct it, or unset it"
        return [note("settings", text)]
    return (
        [note("settings", f"VK_DRIVER_FILES: no other drivers are used than {', '.join(listed)}")]
        if listed
        else []
    )


def driver_manifests(system: Platform) -> list[Path]:
    """The files by which drivers make themselves known to the loader; Windows has them in the registry."""
    if listed := system.driver_files():
        return [Path(name) for name in listed if os.path.isfile(name)]
    sdk = [f"{os.environ['VULKAN_SDK']}/share/vulkan/icd.d"] if os.environ.get("VULKAN_SDK") else []
    folders = [*sdk, *system.manifests]
    return [
        Path(file) for folder in folders for file in sorted(glob.glob(os.path.expanduser(f"{folder}/*.json")))
    ]


def manifests(system: Platform) -> list[Finding]:
    """Drivers that are announced but whose library is gone."""
    findings = []
    for file in driver_manifests(system):
        try:
            library = str(json.loads(file.read_text(encoding="utf-8"))["ICD"]["library_path"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            findings.append(
                note("driver", f"'{file}' is no description of a driver ({error}); reinstall that driver")
            )
            continue
        path = file.parent / library
        if os.path.dirname(library) and not path.is_file():
            findings.append(
                note("driver", f"'{file}' names '{path}', which is not there; reinstall that driver")
            )
    return findings


def _crashing(ask: Ask, system: Platform, failure: str) -> list[Finding]:
    """Each driver alone, to know which one it is."""
    files = driver_manifests(system)
    alone = {file: ask("devices", environment={"VK_DRIVER_FILES": str(file)}) for file in files}
    bad = [file for file, answer in alone.items() if answer.failure]
    good = [file for file, answer in alone.items() if answer.facts.get("devices")]
    if not bad:
        return [problem("vulkan", f"the list of devices {failure}; {system.driver}")]
    findings = [
        problem("driver", f"the driver of '{file}' {alone[file].failure}; reinstall it, or remove that file")
        for file in bad
    ]
    if good:
        names = system.separator.join(map(str, good))
        findings.append(note("driver", f"without it other drivers work: set VK_DRIVER_FILES={names}"))
    return findings


def compilers(ask: Ask, system: Platform) -> list[Finding]:
    """What compiles GLSL, and what could."""
    answer = ask("compiler")
    if answer.failure:
        return [problem("glslang", f"the GLSL compiler {answer.failure}; {system.glslang}")]
    facts = answer.facts
    why = f" ({'; '.join(facts['failures'])})" if facts["failures"] else ""
    if facts["compiler"] is None:
        return [problem("glslang", f"there is no GLSL compiler; {system.glslang}{why}")]
    if not facts["in_process"]:
        text = f"GLSL is compiled by the slow {facts['compiler']}; {system.glslang}{why}"
        return [note("glslang", text)]
    findings = [ok("glslang", f"GLSL is compiled by {facts['compiler']}")]
    programs = [name for name in ("glslc", "glslangValidator", "c++") if shutil.which(name)]
    have = f"{', '.join(programs)} are there" if programs else "none is there, and none is needed"
    return [*findings, ok("fallback", f"programs that could stand in for it: {have}")]
