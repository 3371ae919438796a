"""`dressi doctor`: says what is missing on the machine, and how to get it."""

import json
import platform
from pathlib import Path
from typing import Annotated

import typer

from dressi import __version__
from dressi.cli.interrupt import imports


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


def _gpu(as_json: bool, file: Path) -> int:
    """Check the chosen device. Exit code 1 when anything is wrong."""
    with imports():
        from dressi.cli.doctor import gpu_report as report
        from dressi.cli.doctor.probe import ask
        from dressi.vk.run.device.choose import choose, list_devices

    found = report.judge(ask, choose(list_devices()).index)
    report.write(found, file)
    if as_json:
        print(json.dumps(found, indent=2, allow_nan=False))
    else:
        report.show(found)
        print(report.verdict(found, file))
    return 1 if found["wrong"] else 0
