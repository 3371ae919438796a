"""Python, packages, extras, the cache and the settings."""

from __future__ import annotations

import difflib
import importlib.metadata as metadata
import json
import os
import platform
import re
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ... import __version__
from ...config import config
from ...errors import InputError
from ...vk.run.host.platforms import Platform, find_gpus, hidden_gpus
from .probe import Ask

EXTRAS = {
    "clouds": "clouds of points in .las and .laz",
    "compression": "glTF files packed by Draco or meshoptimizer",
    "digits": "handwritten digits, for apps/networks/turned_digits.py",
    "images": "Radiance .hdr, OpenEXR .exr and 16-bit colour pictures; videos",
    "jax": "dressi.jax",
    "jupyter": "windows in notebooks",
    "masks": "`dressi fit --masks rembg`",
    "notebook": "running notebooks without a browser",
    "peers": "`dressi bench --peer`",
    "photos": "`dressi fit --cameras auto`, and HEIC pictures",
    "qt": "windows in Qt programs",
    "ray": "`dressi fit --many --ray`",
    "rerun": "`dressi fit --rerun`",
    "torch": "dressi.torch",
    "viewer": "windows",
}
"""What each extra of the package is for."""
COMPILED = {
    "pymcubes": "meshes of volumes (`dressi fit`)",
    "xatlas": "UVs of meshes that have none (`dressi fit`)",
}
"""Packages without wheels for some machines, which pip leaves out there, and what each is for."""
LEAST_SPACE = 100 << 20
"""Bytes that a cache should have."""

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)[^;]*(?:;(.*))?")
_EXTRA = re.compile(r"extra == ['\"]([\w-]+)['\"]")


def python() -> Finding:
    system = f"{platform.system()} {platform.machine()}"
    return ok("python", f"dressi {__version__}, Python {platform.python_version()} on {system}")


def packages() -> list[Finding]:
    """The packages that dressi needs, and its extras."""
    try:
        needed = metadata.requires("dressi") or []
    except metadata.PackageNotFoundError:
        text = "dressi is not installed as a package; install it with `pip install .` in its folder"
        return [note("packages", text)]
    missing: list[str] = []
    compiled: list[str] = []
    extras: dict[str, list[str]] = {name: [] for name in EXTRAS}
    for line in needed:
        requirement = _REQUIREMENT.match(line)
        if requirement is None or requirement[1] == "dressi" or _installed(requirement[1]):
            continue
        name, marker = requirement[1], requirement[2] or ""
        extra = _EXTRA.search(marker)
        if extra is not None:
            extras.setdefault(extra[1], []).append(name)
            continue
        # Packages with a marker are for some systems alone.
        missing += [] if marker else [name]
        compiled += [name] if name in COMPILED else []
    findings = []
    if missing:
        names = " ".join(missing)
        findings.append(problem("packages", f"packages that dressi needs are missing: `pip install {names}`"))
    for name in compiled:
        text = f"{COMPILED[name]}: {name} is not installed; `pip install {name}`, with a C++ compiler if there is no wheel for this machine"
        findings.append(note(f"package {name}", text))
    for name in EXTRAS:
        if lacks := extras[name]:
            text = f"{EXTRAS[name]}: not installed ({', '.join(lacks)}); `pip install 'dressi[{name}]'` if you want it"
            findings.append(note(f"extra {name}", text))
        else:
            findings.append(ok(f"extra {name}", f"{EXTRAS[name]}: installed"))
    return findings


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def cache() -> list[Finding]:
    """Whether the folder of the caches can be used, and by this user alone."""
    from ...vk.run.host import cache as store

    try:
        folder = config.cache
    except InputError as error:
        return [problem("cache", str(error))]
    if folder is None:
        text = "the cache is off, so every process compiles its shaders anew; unset DRESSI_CACHE"
        return [note("cache", text)]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        store.save("doctor", "probe", b"here", durable=False)
        kept = store.load("doctor", "probe") == b"here"
        store.remove("doctor", "probe")
    if not kept:
        why = f"the cache {folder} cannot be used; set DRESSI_CACHE to another folder"
        return [note("cache", str(said[0].message) if said else why)]
    free = shutil.disk_usage(folder).free
    if free < LEAST_SPACE:
        text = f"the cache {folder} has {free >> 20} MB left on its disk; free some, or set DRESSI_CACHE to another folder"
        return [note("cache", text)]
    return [ok("cache", f"shaders are kept in {folder}")]


def settings(environment: Mapping[str, str] = os.environ) -> list[Finding]:
    """Variables of the environment that dressi reads, and those that it does not know."""
    known = {f"DRESSI_{name.upper()}": name for name in config.names()}
    findings: list[Finding] = []
    for name in sorted(name for name in environment if name.startswith("DRESSI_")):
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            meant = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
            findings.append(note("settings", f"{name} is no setting of dressi; {meant}"))
            continue
        try:
            value = getattr(config, known[name])
        except InputError as error:
            findings.append(problem("settings", str(error)))
            continue
        doubt = _doubt(name, value)
        if doubt:
            findings.append(note("settings", f"{name}={value}: {doubt}"))
        else:
            findings.append(ok("settings", f"{name}={value}"))
    return findings


def _doubt(name: str, value: Any) -> str:
    """What is odd about the value of a setting; empty where nothing is."""
    if name == "DRESSI_DEBUG" and not 0 <= value <= 4:
        return "there are levels 0 to 4; set one of them"
    if name == "DRESSI_DATA" and value is not None and not value.is_dir():
        return "there is no such folder; set it to one, or unset it"
    if name != "DRESSI_DUMP" or value is None:
        return ""
    parent = next((place for place in (value, *value.parents) if place.exists()), value)
    if parent.is_dir() and os.access(parent, os.W_OK):
        return "every plan is written there, which costs time"
    return "it cannot be written; set it to another folder"


# The Vulkan loader, drivers and devices, and the GLSL compiler: each is asked in a process of its own.


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
    """A step on each device. A failure is a problem if dressi would choose that device."""
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
    seconds = f"{answer.facts['seconds']:.1f} s with its start"
    return ok(topic, f"{name}: one step and one picture are right ({seconds})")


def _no_loader(system: Platform) -> str:
    for folder in system.library_folders():
        if (folder / system.loader).is_file():
            return (
                f"the Vulkan loader is in '{folder / system.loader}', where programs do not find it or cannot load it; add"
                f" its folder to {system.search}: `{system.add_path.format(system.search, folder)}`"
            )
    return f"the Vulkan loader ({system.loader}) is missing; {system.driver}"


def _listed(system: Platform) -> list[Finding]:
    """What the user's own list of drivers means."""
    listed = system.driver_files()
    missing = [name for name in listed if not os.path.isfile(name)]
    if missing:
        text = f"VK_DRIVER_FILES names {', '.join(missing)}, which is not there; correct it, or unset it"
        return [note("settings", text)]
    if not listed:
        return []
    return [note("settings", f"VK_DRIVER_FILES: no other drivers are used than {', '.join(listed)}")]


def driver_manifests(system: Platform) -> list[Path]:
    """The files by which drivers make themselves known to the loader; Windows has them in the registry."""
    if listed := system.driver_files():
        return [Path(name) for name in listed if os.path.isfile(name)]
    sdk = [f"{os.environ['VULKAN_SDK']}/share/vulkan/icd.d"] if os.environ.get("VULKAN_SDK") else []
    folders = [Path(folder).expanduser() for folder in (*sdk, *system.manifests)]
    return [file for folder in folders for file in sorted(folder.glob("*.json"))]


def manifests(system: Platform) -> list[Finding]:
    """Drivers that are announced but whose library is gone."""
    findings = []
    for file in driver_manifests(system):
        try:
            library = str(json.loads(file.read_text(encoding="utf-8"))["ICD"]["library_path"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            text = f"'{file}' is no description of a driver ({error}); reinstall that driver"
            findings.append(note("driver", text))
            continue
        path = file.parent / library
        if os.path.dirname(library) and not path.is_file():
            text = f"'{file}' names '{path}', which is not there; reinstall that driver"
            findings.append(note("driver", text))
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


# What `dressi doctor` finds.

OK, NOTE, PROBLEM = "ok", "note", "problem"


@dataclass(frozen=True)
class Finding:
    """level: OK, NOTE (dressi runs, but slower or without something), or PROBLEM (it does not run).  topic:
    what the finding is about; programs read it, so it stays the same from version to version.  text: one
    sentence, with the cure."""

    level: str
    topic: str
    text: str


ok, note, problem = (partial(Finding, level) for level in (OK, NOTE, PROBLEM))
