"""One object of a list: what is sent to a worker, what the worker does with it, and what it answers."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from ...errors import DeviceLostError, DressiError
from ...render.fit import Progress
from ...render.fit.disk import NAME as CHECKPOINT
from ...render.fit.disk.checkpoint import set_aside
from ..core.interrupt import Stop
from ..fitting.request import OPTIONS, Request
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
    from ...vk.run.device.choose import choose, list_devices

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
