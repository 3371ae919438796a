"""What became of each object of a list: in files that are rewritten at every change, and printed at the end."""

from __future__ import annotations

import csv
import io
import json
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable

from dressi.cli.many.job import Ended, Job
from dressi.errors import InputError
from dressi.render.io import write_files, write_json

CSV, JSON = "results.csv", "results.json"
_MOST_BYTES = 256 << 20


@dataclass
class Entry:
    """An object. state: waiting, running, done, failed or stopped.  seconds: how long its last attempt took.  failure: why it
    failed or stopped, a sentence."""

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
        """Names of the jobs that an earlier run has done with the same options and whose results are there."""
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
        """A full disk is no reason to stop the fits: the first failure warns, and the next change tries again."""
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
