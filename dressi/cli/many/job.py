"""Objects of a list of `dressi fit --many`: the list, what is sent to a worker of each, what it does and answers."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import json
import re
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from ...errors import DeviceLostError, DressiError, InputError, shown
from ...render.fit import Progress
from ...render.fit.disk import NAME as CHECKPOINT
from ...render.fit.disk.checkpoint import set_aside
from ...render.fit.options.option import Row
from ..core.interrupt import Stop
from ..fitting.request import OPTIONS, Request, check_files, check_options
from ..fitting.run import Bar, run_fit

LOG = "log.txt"
"""In the folder of an object: what `dressi fit` would print, and tracebacks."""


@dataclass(frozen=True)
class Job:
    """name: unique, the folder's too.  request: with full paths."""

    name: str
    request: Request

    @property
    def key(self) -> str:
        """A hash of what the result depends on: a result with another key is of other options."""
        given = asdict(self.request).items()
        facts = {k: v for k, v in given if k not in OPTIONS or OPTIONS[k].option.effect}
        return hashlib.sha256(json.dumps(facts, default=str, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Ended:
    """What became of one attempt. state: done, failed, stopped, or lost where another attempt may succeed.

    seconds: how long the attempt took, None where nobody tells.  iou, psnr (in dB): of the held-out views, or
    of the training views where there are no others; None where they are not known.  failure: a sentence.
    """

    state: str
    seconds: float | None = None
    device: str = ""
    iou: float | None = None
    psnr: float | None = None
    failure: str = ""


Work = Callable[[Job, Callable[[Progress], None], Callable[[], bool]], Ended]
"""A worker's function of a job, a callback for its progress, and a poll of whether to stop."""


def run_job(job: Job, report: Callable[[Progress], None], stop: Callable[[], bool]) -> Ended:
    """Fit one object into its folder, from its checkpoint if ``request.resume`` is set and there is one.

    Raises nothing but KeyboardInterrupt and SystemExit.
    """
    begin = time.perf_counter()

    def ended(state: str, failure: str = "", **figures: Any) -> Ended:
        return Ended(state, round(time.perf_counter() - begin, 3), failure=failure, **figures)

    request, folder = job.request, job.request.out
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (
            (folder / LOG).open("a", encoding="utf-8") as log,
            contextlib.redirect_stdout(log),
            contextlib.redirect_stderr(log),
        ):
            try:
                code = _fit(request, report, stop)
            except BaseException:
                traceback.print_exc(file=log)
                raise
        if code:
            return ended("stopped", "stopped; the same command with --resume goes on")
        return ended("done", **_figures(folder))
    except DeviceLostError as error:
        return ended("lost", first_line(error))
    except (DressiError, OSError, MemoryError) as error:
        return ended("failed", first_line(error))
    except Exception as error:
        return ended("failed", f"{type(error).__name__}: {first_line(error)}; see '{folder / LOG}'")


def _fit(request: Request, report: Callable[[Progress], None], stop: Callable[[], bool]) -> int:
    # A killed worker must not go on from a checkpoint of an earlier run with other options.
    if not request.resume and (request.out / CHECKPOINT).is_file():
        set_aside(request.out)
    resumes = request.resume and (request.out / CHECKPOINT).is_file()
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = _log_warning
        return run_fit(replace(request, resume=resumes), Follower(report), Asked(stop))


def _log_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"warning: {' '.join(str(message).split())}")


def first_line(error: BaseException) -> str:
    """What an error says on its first line; the name of its class where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _figures(folder: Path) -> dict[str, Any]:
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    metrics = report["metrics"]
    views = metrics["heldout"] or metrics["train"]
    return {"iou": views["iou"], "psnr": views["psnr"], "device": report["device"]["name"]}


class Follower(Bar):
    """In place of the bar on stderr: tells the parent."""

    def __init__(self, report: Callable[[Progress], None]):
        super().__init__(False)
        self._report = report

    def __call__(self, progress: Progress) -> None:
        self._report(progress)


class Asked(Stop):
    """In place of the signals: the parent asks for a stop."""

    def __init__(self, stop: Callable[[], bool]):
        super().__init__()
        self._stop = stop

    def __call__(self) -> bool:
        return self._stop()

    def __enter__(self) -> Self:
        return self


# Which device of a machine each of its workers uses.


def usable(wanted: Sequence[str]) -> list[str]:
    """Indices, as text, of the devices of this machine that workers share.

    wanted: names or indices; without any the best device, and the others of its kind where that is a GPU: two
    drivers for the same processor only get in each other's way. Raises DressiErrors.
    """
    from ...config import config
    from ...vk.run.device.instance import choose, list_devices

    found = list_devices()
    if wanted:
        return [str(choose(found, name).index) for name in wanted]
    best = choose(found)
    alone = config.device is not None or best.type == "cpu"
    same = [device for device in found if device.type == best.type and not alone]
    return [str(device.index) for device in same or [best]]


def least_used(devices: Sequence[str], used: Iterable[str]) -> str:
    """The device with the fewest workers, the first of equals.

    >>> least_used(["0", "1"], ["0", "0", "1"])
    '1'
    """
    counts = Counter(used)
    return min(devices, key=lambda device: counts[device])


# Reads and checks the list of `dressi fit --many`: a CSV file whose columns are options of `dressi fit`.

NAME = "name"
MOST_BYTES, MOST_ROWS = 16 << 20, 100_000
LONGEST_CELL = 500
"""Characters: more than a path of a sane folder has."""
_FOLDER = re.compile(r"[\w][\w.+-]{0,99}")
_RESERVED = re.compile(
    r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?|.*\.|fit\.lock|results\.(csv|json)", re.IGNORECASE
)


def read_list(path: Path, defaults: Request) -> list[Job]:
    """The jobs of a list, one a row, in its order; every row is checked, and no mesh or picture is read.

    defaults: the command line, whose options hold where a cell is empty. Raises InputError with the row.
    """
    header, rows = _read(path)
    columns = _columns(header, path)
    jobs: list[Job] = []
    lines: dict[str, int] = {}
    for line, cells in rows:
        try:
            job = _job(columns, cells, path.parent, defaults)
            if (before := lines.setdefault(job.name.lower(), line)) != line:
                raise InputError(
                    f"its name {job.name!r} is that of line {before} too; give each its own in a column {NAME!r}"
                )
        except InputError as error:
            raise InputError(f"'{path}', line {line}: {error}") from None
        jobs.append(job)
    return jobs


def _read(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header, and the rows with their line numbers. Raises InputError."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(
                f"--many '{path}' has more than {MOST_BYTES >> 20} MiB; give a list of objects as CSV"
            )
        text = path.read_bytes().decode("utf-8-sig")
        reader = csv.reader(text.splitlines(), strict=True, skipinitialspace=True)
        table = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except OSError as error:
        raise InputError(
            f"--many '{path}' cannot be read ({error.strerror}); give a CSV file with a header such as"
            " target,name,size"
        ) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"--many '{path}' is no CSV file in UTF-8 ({error}); save it as one") from None
    table = [(line, row) for line, row in table if any(row)]
    if len(table) < 2:
        raise InputError(
            f"--many '{path}' lists no object; give a header such as target,name,size and a row for each object"
        )
    if len(table) > MOST_ROWS:
        raise InputError(f"--many '{path}' has more than {MOST_ROWS} rows; split it")
    (_, header), *rows = table
    for line, row in rows:
        if len(row) > len(header):
            raise InputError(
                f"'{path}', line {line}: it has {len(row)} cells under {len(header)} columns; quote cells with commas"
            )
        if (longest := max(map(len, row))) > LONGEST_CELL:
            raise InputError(
                f"'{path}', line {line}: a cell has {longest:,} characters, and options at most {LONGEST_CELL}"
            )
    return header, rows


def _columns(header: list[str], path: Path) -> list[Row | None]:
    """None is the column of names. Raises InputError."""
    own = {row.flag[2:]: row for row in OPTIONS.values()}
    columns: list[Row | None] = []
    seen: set[str] = set()
    for text in header:
        name = text.lstrip("-").replace("_", "-").lower()
        if name in seen:
            raise InputError(f"'{path}' has two columns '{shown(text)}'; remove one")
        seen.add(name)
        if name in own and own[name].option.whole:
            raise InputError(
                f"'{path}' has a column '{shown(text)}', which is of the whole list; give --{name} on the command line"
            )
        if name != NAME and name not in own:
            usable = ", ".join([NAME, *sorted(name for name, row in own.items() if not row.option.whole)])
            raise InputError(f"'{path}' has a column '{shown(text)}', which is no option; there are {usable}")
        columns.append(None if name == NAME else own[name])
    return columns


_YES, _NO = ("yes", "true", "1", "on"), ("no", "false", "0", "off")
_NUMBERS = {int: "a whole number", float: "a number"}


def _value(row: Row, text: str, folder: Path) -> Any:
    """The value of a cell. folder: that of the list, where paths start. Raises InputError."""
    if row.option.read is not None:
        return row.option.read(text, folder)
    if row.kind is bool:
        if text.lower() not in (*_YES, *_NO):
            raise InputError("give yes or no")
        return text.lower() in _YES
    if row.kind in _NUMBERS:
        try:
            return row.kind(text)
        except ValueError:
            raise InputError(f"it is not {_NUMBERS[row.kind]}") from None
    return (folder / Path(text).expanduser()).absolute() if row.kind is Path else text


def _job(columns: list[Row | None], cells: list[str], folder: Path, defaults: Request) -> Job:
    """Raises InputError."""
    values: dict[str, Any] = {}
    name = ""
    for column, cell in zip(columns, cells):
        if cell and column is None:
            name = cell
        elif cell and column is not None:
            try:
                values[column.name] = _value(column, cell, folder)
            except InputError as error:
                raise InputError(f"{column.flag[2:]} is '{shown(cell)}'; {error}") from None
    request = defaults.changed(values)
    check_options(request)
    check_files(request)
    source = request.target or request.photos
    assert source is not None
    name = name or (source.stem if request.target else source.name)
    if not _FOLDER.fullmatch(name) or _RESERVED.fullmatch(name):
        raise InputError(
            f"'{shown(name)}' cannot be the name of a folder of results; give letters, digits, '.', '+', '-' and '_'"
            f" in the column {NAME!r}"
        )
    return Job(name, replace(request, out=defaults.out.absolute() / name))
