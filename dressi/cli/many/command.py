"""What `dressi fit --many` does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from dressi.cli.fitting.request import Request
from dressi.cli.many.devices import usable
from dressi.cli.many.job import run_job
from dressi.cli.many.listing import read_list
from dressi.cli.many.pool import Pool, ProcessPool
from dressi.cli.many.run import run_jobs
from dressi.cli.many.table import CSV, Table
from dressi.errors import InputError
from dressi.render.fit import check_folder, locked


def run_many(path: Path, defaults: Request) -> int:
    """Fit the objects of the list ``path``; the exit code, as of ``run_jobs``. Raises DressiErrors.

    defaults: as of ``read_list``.
    """
    if defaults.plan or defaults.json:
        raise InputError("--plan and --json are for one object; leave out --many, or them")
    if defaults.view:
        raise InputError("--view shows one fit; leave out --many, or it")
    workers = defaults.workers
    devices = [name.strip() for name in defaults.device.split(",")] if defaults.device else []
    jobs = read_list(path, replace(defaults, device=None))
    make_pool = _ray_pool(defaults.out, devices, workers) if defaults.ray else _process_pool(devices, workers)
    check_folder(defaults.out)
    with locked(defaults.out):
        table = Table(defaults.out, jobs)
        done = table.take_over() if defaults.resume else set()
        table.write()
        code = run_jobs([job for job in jobs if job.name not in done], table, make_pool)
    table.show()
    print(f"the table is in '{defaults.out / CSV}'")
    return code


def _process_pool(wanted: Sequence[str], workers: int | None) -> Callable[[], Pool]:
    devices = usable(wanted)
    count = workers or len(devices)
    return lambda: ProcessPool([devices[k % len(devices)] for k in range(count)], run_job)


def _ray_pool(out: Path, wanted: Sequence[str], workers: int | None) -> Callable[[], Pool]:
    from dressi.cli.many.ray_pool import RayPool, check_ray

    check_ray()
    return lambda: RayPool(out.absolute(), wanted, workers, run_job)
