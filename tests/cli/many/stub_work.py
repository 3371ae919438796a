"""What workers do in place of a fit: the name of a job says how it goes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dressi.cli.fitting.request import Request
from dressi.cli.many.job import Ended, Job
from dressi.render.fit import Progress


def request(**given: Any) -> Request:
    """The options of the command line that were not given, and these."""
    return Request().changed(given)


def job(folder: Path, name: str) -> Job:
    return Job(name, request(target=folder / "mesh.glb", out=folder / name))


def work(job: Job, report: Callable[[Progress], None], stop: Callable[[], bool]) -> Ended:
    """A file for each attempt, with whether it was to go on from a checkpoint."""
    job.request.out.mkdir(exist_ok=True)
    attempt = len(list(job.request.out.glob("attempt*")))
    (job.request.out / f"attempt{attempt}").write_text(str(job.request.resume))
    report(Progress("shape 1", 1, 2, 0.5))
    name = job.name.rstrip("0123456789")
    if name == "mortal" or (name == "killed" and attempt == 0):
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "lost" and attempt == 0:
        return Ended("lost", 0.1, failure="the device is gone")
    if name == "broken":
        return Ended("failed", 0.1, failure="the mesh is empty")
    if name == "endless":
        while not stop():
            time.sleep(0.01)
        return Ended("stopped", 0.1)
    (job.request.out / "report.json").write_text("{}")
    return Ended("done", 0.1, "stub", 0.9, 30.0)
