"""Workers as processes of this machine: each runs one job after another, and a dead one is replaced."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Protocol, Self

from dressi.cli.many.job import Ended, Job, Work
from dressi.render.fit import Progress

_SPAWN = multiprocessing.get_context("spawn")
_PATIENCE = 5.0
"""Seconds that an idle worker gets to end."""


@dataclass(frozen=True)
class Died:
    """A worker ended without an answer. why: the end of a sentence."""

    why: str


@dataclass(frozen=True)
class Event:
    """What a worker has said."""

    worker: int
    said: Progress | Ended | Died


class Pool(Protocol):
    """Workers, numbered from 0; each has at most one job at a time. Leaving the block ends them all."""

    size: int

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def start(self, worker: int, job: Job) -> None:
        """Give a worker without a job one; a dead worker is replaced. Raises DressiError where that is impossible."""
        ...

    def host(self, worker: int) -> str: ...

    def events(self, seconds: float) -> list[Event]:
        """What was said since the last call, after waiting at most so long for the first. Raises DressiError when the
        workers cannot be reached any more."""
        ...

    def stop(self) -> None:
        """Ask the running jobs to save checkpoints and end."""
        ...


class ProcessPool:
    """Processes started with the 'spawn' method. devices: of each worker, None for what the job says.  work: picklable."""

    def __init__(self, devices: Sequence[str | None], work: Work):
        self.size, self._devices, self._work = len(devices), devices, work
        self._processes: dict[int, tuple[BaseProcess, Connection]] = {}
        self._host = socket.gethostname()

    def __enter__(self) -> Self:
        return self

    def start(self, worker: int, job: Job) -> None:
        if job.request.device is None:
            job = replace(job, request=replace(job.request, device=self._devices[worker]))
        if worker not in self._processes:
            self._processes[worker] = self._spawn(worker)
        try:
            self._processes[worker][1].send(job)
        except OSError:  # it died while it had nothing to do
            self._forget(worker)
            self._processes[worker] = self._spawn(worker)
            self._processes[worker][1].send(job)

    def _spawn(self, worker: int) -> tuple[BaseProcess, Connection]:
        ours, theirs = _SPAWN.Pipe()
        process = _SPAWN.Process(
            target=serve, args=(theirs, self._work), name=f"worker {worker}", daemon=True
        )
        with _quiet():
            process.start()
        theirs.close()  # so that the end of the process is the end of the pipe
        return process, ours

    def host(self, worker: int) -> str:
        return self._host

    def events(self, seconds: float) -> list[Event]:
        workers = {connection: worker for worker, (_, connection) in self._processes.items()}
        found = []
        for ready in wait(list(workers), seconds):
            assert isinstance(ready, Connection)
            worker = workers[ready]
            try:
                found.append(Event(worker, ready.recv()))
            except (EOFError, OSError):
                found.append(Event(worker, Died(self._forget(worker))))
        return found

    def _forget(self, worker: int) -> str:
        """Why a dead worker died."""
        process, connection = self._processes.pop(worker)
        connection.close()
        process.join()
        code = process.exitcode or 0
        if code >= 0:
            return f"ended with exit code {code}"
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
        return f"was killed by signal {-code}"

    def stop(self) -> None:
        for _, connection in self._processes.values():
            with contextlib.suppress(OSError):
                connection.send(None)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Idle workers end by themselves; the others, of a pool that is left by an exception, are killed."""
        for _, connection in self._processes.values():
            connection.close()
        for process, _ in self._processes.values():
            process.join(_PATIENCE if error is None else 0.5)
            if process.is_alive():
                process.kill()
                process.join()
        self._processes = {}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Processes started in the block do not get the terminal's Ctrl-C: the parent passes it on.

    multiprocessing starts its resource tracker with the first process, and unblocks SIGINT then: it must run before.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def serve(connection: Connection, work: Work) -> None:
    """The life of a worker: jobs until the parent hangs up. None asks it to stop the job that it has."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stopped = False

    def stop() -> bool:
        nonlocal stopped
        if not stopped and connection.poll():
            try:
                stopped = connection.recv() is None
            except (EOFError, OSError):
                stopped = True
        return stopped

    def report(progress: Progress) -> None:
        with contextlib.suppress(OSError):
            connection.send(progress)

    with contextlib.suppress(EOFError, OSError):
        while (job := connection.recv()) is not None:
            stopped = False
            connection.send(work(job, report, stop))
