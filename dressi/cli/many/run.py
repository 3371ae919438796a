"""Gives the workers of a pool their jobs until all have ended, and keeps the table of results."""

from __future__ import annotations

import csv
import io
import json
import sys
import warnings
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable
from tqdm import tqdm

from ...errors import DressiError, InputError
from ...render.fit import Progress, check_folder, locked
from ...render.io import write_files, write_json
from ..core.interrupt import Stop
from ..core.terminal import say
from ..fitting.request import Request
from ..fitting.run import GOES_ON
from .job import Ended, Job, read_list, run_job, usable
from .pool import Died, Event, Pool, ProcessPool, RayPool, check_ray

ATTEMPTS = 3
POLL = 0.25
"""Seconds between two polls of Ctrl-C."""
FAILED = 1


def run_jobs(jobs: Sequence[Job], table: Table, make_pool: Callable[[], Pool]) -> int:
    """Run the jobs and keep the table; the exit code: 0 all done, 1 some failed, 130 or 143 stopped.

    A job whose worker died, or lost its device, goes on from its checkpoint in another attempt. Raises a
    DressiError, after the table is written, when the workers cannot be reached any more.
    """
    with Stop() as stop:
        # In the block, so that a pool that is stopped while it starts leaves nothing behind.
        with make_pool() as pool, Shown(jobs, table) as shown:
            scheduler = Scheduler(jobs, table, pool, shown)
            try:
                scheduler.run(stop)
            except DressiError as error:
                scheduler.stopped("the workers could not be reached any more")
                reached = f"{table.counts['done']} of {len(table.entries)} objects are done"
                where = f"'{table.folder / JSON}' says which"
                raise type(error)(f"{error}; {reached}, {where}, and {GOES_ON}") from error
            except KeyboardInterrupt:
                scheduler.stopped(f"stopped at once; {GOES_ON}")
        if stop():
            say(f"dressi: interrupted; {GOES_ON}")
            return stop.code
    return FAILED if table.counts["failed"] else 0


class Scheduler:
    """Which worker has which job."""

    def __init__(self, jobs: Sequence[Job], table: Table, pool: Pool, shown: Shown):
        self._waiting, self._table, self._pool, self._shown = deque(jobs), table, pool, shown
        self._running: dict[int, Job] = {}
        self._attempts: dict[str, int] = {}

    def run(self, stop: Callable[[], bool]) -> None:
        """Until nothing runs any more. Raises DressiErrors of the pool."""
        told = False
        while self._running or (self._waiting and not stop()):
            if stop() and not told:
                told, fits = True, len(self._running)
                say(f"dressi: {fits} fits save their checkpoints; Ctrl-C again ends them at once")
                self._pool.stop()
            if not told:
                self._start()
            for event in self._pool.events(POLL):
                self._take(event)
            self._shown.refresh()

    def _start(self) -> None:
        for worker in range(self._pool.size):
            if worker not in self._running and self._waiting:
                job = self._waiting.popleft()
                self._pool.start(worker, job)
                self._running[worker] = job
                self._attempts[job.name] = self._attempts.get(job.name, 0) + 1
                self._table.running(job.name, self._pool.host(worker))

    def _take(self, event: Event) -> None:
        job = self._running.get(event.worker)
        if job is None:
            return
        match event.said:
            case Progress() as progress:
                self._shown.progress(job.name, progress)
            case Ended(state="lost") as ended:
                self._again(event.worker, ended, ended.failure)
            case Ended() as ended:
                del self._running[event.worker]
                self._end(job, ended)
            case Died(why):
                self._again(event.worker, Ended("lost"), f"its worker {why}")

    def _again(self, worker: int, ended: Ended, why: str) -> None:
        job = self._running.pop(worker)
        if self._attempts[job.name] >= ATTEMPTS:
            cure = "see its log.txt; if the machine ran out of memory, give fewer --workers or a smaller size"
            failure = f"{why}, in attempt {ATTEMPTS} of {ATTEMPTS}; {cure}"
            self._end(job, replace(ended, state="failed", failure=failure))
            return
        self._table.again(job.name, why)
        self._waiting.appendleft(replace(job, request=replace(job.request, resume=True)))

    def _end(self, job: Job, ended: Ended) -> None:
        self._table.ended(job.name, ended)
        self._shown.ended(job.name, ended)

    def stopped(self, why: str) -> None:
        """Note that what runs was ended without an answer."""
        for job in self._running.values():
            self._table.ended(job.name, Ended("stopped", failure=why))
        self._running = {}


class Shown:
    """A bar on stderr: the number of objects and the workers' progress; a line for each failure."""

    def __init__(self, jobs: Sequence[Job], table: Table):
        total = len(table.entries)
        text = "{desc}{n_fmt}/{total_fmt} objects{postfix}"
        self._bar = tqdm(total=total, initial=total - len(jobs), unit="object", bar_format=text)
        self._at: dict[str, str] = {}
        self._text = ""

    def __enter__(self) -> Shown:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def progress(self, name: str, progress: Progress) -> None:
        self._at[name] = f"{name} {progress.done / max(progress.total, 1):.0%}"

    def ended(self, name: str, ended: Ended) -> None:
        self._at.pop(name, None)
        if ended.state in ("done", "failed"):
            self._bar.update()
        if ended.state == "failed":
            with self._bar.external_write_mode(file=sys.stderr):
                say(f"dressi: '{name}' failed: {ended.failure}")

    def refresh(self) -> None:
        text = ", ".join(self._at.values())
        if text != self._text:
            self._bar.set_postfix_str(text)
        self._text = text


# What `dressi fit --many` does.


def run_many(path: Path, defaults: Request) -> int:
    """Fit the objects of the list ``path``; the exit code, as of ``run_jobs``. Raises DressiErrors.

    defaults: as of ``read_list``.
    """
    if defaults.plan or defaults.json:
        raise InputError("--plan and --json are for one object; leave out --many, or them")
    if defaults.view or defaults.rerun is not None:
        raise InputError("--view and --rerun show one fit; leave out --many, or them")
    workers = defaults.workers
    devices = [name.strip() for name in defaults.device.split(",")] if defaults.device else []
    jobs = read_list(path, replace(defaults, device=None))
    if defaults.ray:
        check_ray()
        make_pool: Callable[[], Pool] = partial(RayPool, defaults.out.absolute(), devices, workers, run_job)
    else:
        shared = usable(devices)
        of_worker = [shared[k % len(shared)] for k in range(workers or len(shared))]
        make_pool = partial(ProcessPool, of_worker, run_job)
    check_folder(defaults.out)
    with locked(defaults.out):
        table = Table(defaults.out, jobs)
        done = table.take_over() if defaults.resume else set()
        table.write()
        code = run_jobs([job for job in jobs if job.name not in done], table, make_pool)
    table.show()
    print(f"the table is in '{defaults.out / CSV}'")
    return code


# What became of each object of a list: in files that are rewritten at every change, and printed at the end.

CSV, JSON = "results.csv", "results.json"
_MOST_BYTES = 256 << 20


@dataclass
class Entry:
    """An object. state: waiting, running, done, failed or stopped.  seconds: how long its last attempt took.
    failure: why it failed or stopped, a sentence."""

    name: str
    state: str = "waiting"
    seconds: float | None = None
    iou: float | None = None
    psnr: float | None = None
    device: str = ""
    host: str = ""
    attempts: int = 0
    failure: str = ""
    key: str = ""


class Table:
    """The entries of all jobs, in the order of the list, and their files in ``folder``."""

    def __init__(self, folder: Path, jobs: Sequence[Job]):
        self.folder = folder
        self.entries = {job.name: Entry(job.name, key=job.key) for job in jobs}
        self._warned = False

    def take_over(self) -> set[str]:
        """Names of the jobs with results of an earlier run with the same options."""
        done = set()
        for name, entry in _earlier(self.folder / JSON).items():
            same = name in self.entries and (entry.state, entry.key) == ("done", self.entries[name].key)
            if same and (self.folder / name / "report.json").is_file():
                self.entries[name] = entry
                done.add(name)
        return done

    def running(self, name: str, host: str) -> None:
        entry = self.entries[name]
        entry.state, entry.host, entry.failure = "running", host, ""
        entry.attempts += 1
        self.write()

    def ended(self, name: str, ended: Ended) -> None:
        entry = self.entries[name]
        entry.state, entry.seconds, entry.failure = ended.state, ended.seconds, ended.failure
        entry.iou, entry.psnr, entry.device = ended.iou, ended.psnr, ended.device
        self.write()

    def again(self, name: str, why: str) -> None:
        """The job waits for another attempt."""
        self.entries[name].state, self.entries[name].failure = "waiting", why
        self.write()

    def write(self) -> None:
        """A full disk does not stop the fits: the first failure warns, and the next change tries again."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        shown = [field.name for field in fields(Entry) if field.name != "key"]
        writer.writerow(shown)
        for entry in self.entries.values():
            values = [getattr(entry, name) for name in shown]
            writer.writerow(["" if value is None else value for value in values])
        objects = [asdict(entry) for entry in self.entries.values()]
        try:
            write_files({self.folder / CSV: text.getvalue().encode()})
            write_json(self.folder / JSON, {"objects": objects})
            self._warned = False
        except InputError as error:
            if not self._warned:
                warnings.warn(f"the table of results could not be written: {error}", stacklevel=2)
            self._warned = True

    @property
    def counts(self) -> Counter[str]:
        return Counter(entry.state for entry in self.entries.values())

    def show(self) -> None:
        """Print the table on stdout, and below it why objects failed or stopped."""
        table = RichTable(box=None, pad_edge=False, header_style="bold")
        for name in ("name", "state", "seconds", "IoU", "PSNR", "device", "host", "attempts"):
            numeric = name in ("seconds", "IoU", "PSNR", "attempts")
            table.add_column(name, justify="right" if numeric else "left", no_wrap=True)
        for entry in self.entries.values():
            figures = ((entry.seconds, ".1f"), (entry.iou, ".4f"), (entry.psnr, ".2f"))
            numbers = ["" if value is None else format(value, form) for value, form in figures]
            device = entry.device.split(" (")[0]
            table.add_row(entry.name, entry.state, *numbers, device, entry.host, str(entry.attempts))
        console = Console(highlight=False, markup=False, soft_wrap=True)
        console.print(table)
        for entry in self.entries.values():
            if entry.failure:
                console.print(f"{entry.name}: {entry.failure}")


def _earlier(path: Path) -> dict[str, Entry]:
    """The entries of an earlier run by name; none where the file is missing or damaged, which is said."""
    if not path.is_file():
        return {}
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES >> 20} MiB")
        entries = [Entry(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))["objects"]]
        if not all(_plain(entry) for entry in entries):
            raise ValueError("it has values of wrong types")
    except (OSError, ValueError, TypeError, KeyError) as error:
        warnings.warn(f"'{path}' is damaged ({error}); all objects are fitted anew", stacklevel=3)
        return {}
    return {entry.name: entry for entry in entries}


def _plain(entry: Entry) -> bool:
    numbers = (entry.seconds, entry.iou, entry.psnr)
    texts = (entry.name, entry.state, entry.device, entry.host, entry.failure, entry.key)
    return (
        all(isinstance(text, str) for text in texts)
        and all(number is None or isinstance(number, int | float) for number in numbers)
        and isinstance(entry.attempts, int)
    )
