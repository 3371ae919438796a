"""Runs the probes on a device, judges, prints a table, and writes one JSON file."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

from rich.table import Table

from dressi import __version__
from dressi.cli.doctor.gpu_probes import PROBES
from dressi.cli.doctor.probe import Ask
from dressi.cli.terminal import table_console
from dressi.errors import InputError

LIMIT = 60.0
"""Seconds that a probe gets."""


def judge(ask: Ask, device: int) -> dict[str, Any]:
    """The facts of a device and what each probe found, each asked in a process of its own with a time limit."""
    told = ask("facts", str(device), limit=LIMIT)
    facts = dict(told.facts) or {"error": told.failure}
    probes = {}
    for name in PROBES:
        answer = ask("check", str(device), name, limit=LIMIT)
        failure = answer.failure or str(answer.facts.get("error", ""))
        checks = answer.facts.get("checks", [])
        if not failure and "checks" not in answer.facts:
            failure = "says no checks"
        probes[name] = {
            "right": not failure and all(check["right"] for check in checks),
            "failure": failure,
            "checks": checks,
            "seconds": answer.facts.get("seconds"),
        }
    wrong = [name for name, found in probes.items() if not found["right"]]
    wrong = [*(["facts"] if "error" in facts else []), *wrong]
    return {
        "dressi": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "facts": facts,
        "probes": probes,
        "wrong": wrong,
    }


def show(found: dict[str, Any]) -> None:
    """The table, and what it means."""
    console = table_console()
    device = found["facts"].get("device", {})
    name = f"{device.get('name', 'the device')}, driver {device.get('driver')} {device.get('driver_version')}"
    table = Table("probe", "check", "found", "allowed", "", title=name, title_justify="left")
    for probe, result in found["probes"].items():
        if result["failure"]:
            table.add_row(probe, "", result["failure"], "", "wrong")
        for check in result["checks"]:
            error = "NaN or infinite" if check["error"] is None else f"{check['error']:.3g}"
            detail = f" ({check['detail']})" if check["detail"] else ""
            allowed = "" if check["allowed"] is None else f"{check['allowed']:.3g} {check['unit']}"
            table.add_row(
                probe,
                check["name"],
                error + detail,
                allowed,
                "right" if check["right"] else "wrong",
            )
    console.print(table)


def write(found: dict[str, Any], file: Path) -> None:
    """Writes the report. Raises InputError where it cannot be written."""
    try:
        file.write_text(json.dumps(found, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"the report '{file}' cannot be written: {error.strerror}") from None


def verdict(found: dict[str, Any], file: Path) -> str:
    """One sentence: whether the device can be trusted, and what to do."""
    if not found["wrong"]:
        return f"this device computes what Vulkan says; the report is in '{file}'"
    device = found["facts"].get("device", {})
    driver = f"{device.get('driver', 'of this device')} {device.get('driver_version', '')}".strip()
    return (
        f"the driver {driver} is wrong about {', '.join(found['wrong'])}: do not trust results on this device. Update the"
        f" driver; if that does not help, send '{file}' to the makers of the driver and attach it to a report on dressi"
    )
