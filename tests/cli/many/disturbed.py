"""Fits a list of objects twice, one after another and with two workers of which one is killed, and compares
the results.

    python tests/cli/many/disturbed.py list.csv --out out/many [--ray] [options of `dressi fit`]

Writes many.json: both tables, which worker was killed, and what differs, which should be nothing.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from dressi.cli.many.run import JSON
from dressi.render.fit.disk import NAME as CHECKPOINT
from dressi.render.fit.disk.folder import LOCK
from dressi.render.io import write_json

FILES = ("result.glb", "loss.csv", "quality.csv", "views.png")
CODE = "from dressi.cli import main; main()"


def start(listed: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    """In a session of its own, as in a terminal: Ctrl-C goes to all its processes."""
    return subprocess.Popen(
        [sys.executable, "-c", CODE, "fit", "--many", str(listed), "--out", str(out), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def table(out: Path) -> dict[str, dict[str, Any]]:
    """Empty before there is one."""
    path = out / JSON
    return (
        {entry["name"]: entry for entry in json.loads(path.read_text())["objects"]} if path.is_file() else {}
    )


def kill_worker(run: subprocess.Popen[str], out: Path, done: int, checkpoint: bool) -> dict[str, Any]:
    """Kill the worker of a running object once ``done`` others are. checkpoint: not before it has one."""
    while run.poll() is None:
        finished = sum(entry["state"] == "done" for entry in table(out).values())
        for lock in out.glob(f"*/{LOCK}") if finished >= done else ():
            if checkpoint and not (lock.parent / CHECKPOINT).is_file():
                continue
            try:
                process = int(json.loads(lock.read_text())["pid"])
                os.kill(process, signal.SIGKILL)
            except (OSError, ValueError, KeyError):
                continue
            return {"object": lock.parent.name, "done_before": finished, "had_checkpoint": checkpoint}
        time.sleep(0.05)
    raise SystemExit(f"the run ended before a worker could be killed: {run.communicate()[0][-500:]}")


def differences(one: Path, other: Path) -> list[str]:
    """What two runs of a list disagree about: figures of the table, metrics, files."""
    first, second = table(one), table(other)
    wrong = [] if list(first) == list(second) else ["the objects"]
    for name in first.keys() & second.keys():
        for key in ("state", "iou", "psnr"):
            if first[name][key] != second[name][key]:
                wrong.append(f"{name}: {key}")
        if (first[name]["state"], second[name]["state"]) == ("failed", "failed"):
            continue
        metrics = [json.loads((out / name / "report.json").read_text())["metrics"] for out in (one, other)]
        if metrics[0] != metrics[1]:
            wrong.append(f"{name}: metrics")
        wrong += [
            f"{name}: {file}"
            for file in FILES
            if (one / name / file).read_bytes() != (other / name / file).read_bytes()
        ]
    return wrong


def main(arguments: list[str]) -> int:
    listed, out = Path(arguments[0]), Path(arguments[arguments.index("--out") + 1])
    ray = ["--ray"] if "--ray" in arguments else []
    options = [
        word
        for k, word in enumerate(arguments[1:], 1)
        if word not in ("--out", "--ray") and arguments[k - 1] != "--out"
    ]
    single = start(listed, out / "single", "--workers", "1", *options)
    print(single.communicate()[0].rpartition("\r")[2])
    run = start(listed, out / "disturbed", "--workers", "2", *ray, *options)
    killed = kill_worker(run, out / "disturbed", len(table(out / "single")) // 3, checkpoint=True)
    print(run.communicate()[0].rpartition("\r")[2])
    wrong = differences(out / "single", out / "disturbed")
    runs = {name: list(table(out / name).values()) for name in ("single", "disturbed")}
    write_json(
        out / "many.json",
        {"options": options, "ray": bool(ray), "killed": killed, "different": wrong, **runs},
    )
    print(f"killed the worker of {killed['object']}; {len(wrong)} differences; see {out / 'many.json'}")
    return bool(wrong or single.returncode or run.returncode)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
