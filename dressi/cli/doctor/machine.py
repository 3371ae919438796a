"""Python, packages, extras, the cache and the settings."""

from __future__ import annotations

import difflib
import importlib.metadata as metadata
import os
import platform
import re
import shutil
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

from dressi import __version__
from dressi.cli.doctor.findings import Finding, note, ok, problem
from dressi.config import config
from dressi.errors import InputError

EXTRAS = {
    "images": "Radiance .hdr, OpenEXR .exr and 16-bit colour pictures; videos",
    "jax": "dressi.jax",
    "jupyter": "windows in notebooks",
    "masks": "`dressi fit --masks rembg`",
    "notebook": "running notebooks without a browser",
    "peers": "`dressi bench --peer`",
    "photos": "`dressi fit --cameras auto`, and HEIC pictures",
    "qt": "windows in Qt programs",
    "ray": "`dressi fit --many --ray`",
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
        return [
            note(
                "packages",
                "dressi is not installed as a package; install it with `pip install .` in its folder",
            )
        ]
    missing: list[str] = []
    compiled: list[str] = []
    extras: dict[str, list[str]] = {name: [] for name in EXTRAS}
    for line in needed:
        found = _REQUIREMENT.match(line)
        if found is None or found[1] == "dressi" or _installed(found[1]):
            continue
        marker = found[2] or ""
        extra = _EXTRA.search(marker)
        if extra is None:
            # Packages with a marker are for some systems alone.
            missing += [] if marker else [found[1]]
            compiled += [found[1]] if found[1] in COMPILED else []
        elif extra[1] in extras:
            extras[extra[1]].append(found[1])
    findings = []
    if missing:
        names = " ".join(missing)
        findings.append(problem("packages", f"packages that dressi needs are missing: `pip install {names}`"))
    for name in compiled:
        text = f"{COMPILED[name]}: {name} is not installed; `pip install {name}`, with a C++ compiler if there is no wheel for this machine"
        findings.append(note(f"package {name}", text))
    for name, lacks in extras.items():
        if lacks:
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
    from dressi.vk.run.host import cache as store

    try:
        folder = config.cache
    except InputError as error:
        return [problem("cache", str(error))]
    if folder is None:
        return [
            note("cache", "the cache is off, so every process compiles its shaders anew; unset DRESSI_CACHE")
        ]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        store.save("doctor", "probe", b"here", durable=False)
        kept = store.load("doctor", "probe") == b"here"
        store.remove("doctor", "probe")
    if not kept:
        why = (
            str(said[0].message)
            if said
            else f"the cache {folder} cannot be used; set DRESSI_CACHE to another folder"
        )
        return [note("cache", why)]
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
        said = _DOUBTS.get(name, _nothing)(value)
        findings.append(
            note("settings", f"{name}={value}: {said}") if said else ok("settings", f"{name}={value}")
        )
    return findings


def _nothing(value: object) -> str:
    return ""


def _level(value: int) -> str:
    return "" if 0 <= value <= 4 else "there are levels 0 to 4; set one of them"


def _data(folder: Path | None) -> str:
    return "" if folder is None or folder.is_dir() else "there is no such folder; set it to one, or unset it"


def _dump(folder: Path | None) -> str:
    if folder is None:
        return ""
    parent = next((place for place in (folder, *folder.parents) if place.exists()), folder)
    able = parent.is_dir() and os.access(parent, os.W_OK)
    return (
        "every plan is written there, which costs time"
        if able
        else "it cannot be written; set it to another folder"
    )


_DOUBTS: dict[str, Callable] = {"DRESSI_DEBUG": _level, "DRESSI_DATA": _data, "DRESSI_DUMP": _dump}
