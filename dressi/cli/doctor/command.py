"""`dressi doctor`: says what is missing on the machine, and how to get it."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Annotated, Any

import typer

from ... import __version__
from ...errors import InputError
from ..core.interrupt import imports
from ..core.terminal import table_console
from .probe import Ask


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    gpu: Annotated[
        bool,
        typer.Option(
            "--gpu",
            help="Check what the chosen device computes, and write one JSON file to attach to a report.",
        ),
    ] = False,
    file: Annotated[
        Path, typer.Option("--file", metavar="<path>", help="With --gpu: where the report is written.")
    ] = Path("dressi-gpu.json"),
) -> int:
    """Say what is missing on this machine and how to get it; open each device and run one step on it."""
    if gpu:
        return _gpu(as_json, file)
    with imports():
        from ...vk.run.host.platforms import current
        from . import machine
        from .machine import PROBLEM
        from .probe import ask

    system = current()
    findings = [
        machine.python(),
        *machine.loader_and_devices(ask, system),
        *machine.compilers(ask, system),
        *machine.cache(),
        *machine.settings(),
        *machine.packages(),
    ]
    runs = all(finding.level != PROBLEM for finding in findings)
    if as_json:
        about = {"version": __version__, "python": platform.python_version(), "system": platform.platform()}
        listed = [finding.__dict__ for finding in findings]
        print(json.dumps({"can_run": runs, **about, "findings": listed}, indent=2))
    else:
        for finding in findings:
            print(f"{finding.level:<8} {finding.text}")
        print(
            f"dressi {'can' if runs else 'cannot'} run on this machine{'' if runs else ' yet; mend the problems'}"
        )
    return 0 if runs else 1


def _gpu(as_json: bool, file: Path) -> int:
    """Check the chosen device. Exit code 1 when anything is wrong."""
    with imports():
        from ...vk.run.device.instance import choose, list_devices
        from .probe import ask

    judged = judge(ask, choose(list_devices()).index)
    text = json.dumps(judged, indent=2, allow_nan=False)
    try:
        file.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"the report '{file}' cannot be written: {error.strerror}") from None
    if as_json:
        print(text)
    else:
        show(judged)
        print(verdict(judged, file))
    return 1 if judged["wrong"] else 0


# Runs the probes on a device, judges, prints a table, and writes one JSON file.

LIMIT = 60.0
"""Seconds that a probe gets."""


def judge(ask: Ask, device: int) -> dict[str, Any]:
    """The facts of a device and the results of all probes, each from a process with a time limit."""
    from .gpu_probes import PROBES

    told = ask("facts", str(device), limit=LIMIT)
    facts = dict(told.facts) or {"error": told.failure}
    probes = {}
    for name in PROBES:
        answer = ask("check", str(device), name, limit=LIMIT)
        checks = answer.facts.get("checks", [])
        silent = "" if "checks" in answer.facts else "says no checks"
        failure = answer.failure or str(answer.facts.get("error", "")) or silent
        probes[name] = {
            "right": not failure and all(check["right"] for check in checks),
            "failure": failure,
            "checks": checks,
            "seconds": answer.facts.get("seconds"),
        }
    wrong = ["facts"] if "error" in facts else []
    wrong += [name for name, probe in probes.items() if not probe["right"]]
    about = {"dressi": __version__, "python": platform.python_version(), "system": platform.platform()}
    return {**about, "facts": facts, "probes": probes, "wrong": wrong}


def show(judged: dict[str, Any]) -> None:
    """The table, and what it means."""
    from rich.table import Table

    device = judged["facts"].get("device", {})
    name = f"{device.get('name', 'the device')}, driver {device.get('driver')} {device.get('driver_version')}"
    table = Table("probe", "check", "found", "allowed", "", title=name, title_justify="left")
    for probe, result in judged["probes"].items():
        if result["failure"]:
            table.add_row(probe, "", result["failure"], "", "wrong")
        for check in result["checks"]:
            error = "NaN or infinite" if check["error"] is None else f"{check['error']:.3g}"
            detail = f" ({check['detail']})" if check["detail"] else ""
            allowed = "" if check["allowed"] is None else f"{check['allowed']:.3g} {check['unit']}"
            right = "right" if check["right"] else "wrong"
            table.add_row(probe, check["name"], error + detail, allowed, right)
    table_console().print(table)


def verdict(judged: dict[str, Any], file: Path) -> str:
    """One sentence: whether the device can be trusted, and what to do."""
    if not judged["wrong"]:
        return f"this device computes what Vulkan says; the report is in '{file}'"
    device = judged["facts"].get("device", {})
    driver = f"{device.get('driver', 'of this device')} {device.get('driver_version', '')}".strip()
    return (
        f"the driver {driver} is wrong about {', '.join(judged['wrong'])}: do not trust results on this device. Update the"
        f" driver; if that does not help, send '{file}' to the makers of the driver and attach it to a report on dressi"
    )
