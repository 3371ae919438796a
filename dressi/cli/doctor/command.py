"""`dressi doctor`: says what is missing on the machine, and how to get it."""

import json
import platform
from typing import Annotated

import typer

from dressi import __version__
from dressi.cli.interrupt import imports


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """Say what is missing on this machine and how to get it; open each device and run one step on it."""
    with imports():
        from dressi.cli.doctor import drivers, machine
        from dressi.cli.doctor.findings import PROBLEM
        from dressi.cli.doctor.probe import ask
        from dressi.vk.run.host.platforms import current

    system = current()
    findings = [
        machine.python(),
        *drivers.loader_and_devices(ask, system),
        *drivers.compilers(ask, system),
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
            "dressi can run on this machine"
            if runs
            else "dressi cannot run on this machine yet; mend the problems"
        )
    return 0 if runs else 1
