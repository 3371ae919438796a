"""Workers as processes of this machine: each runs one job after another, and a dead one is replaced."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, Self, TypeVar

from ...errors import DeviceError, DressiError, InputError
from ...render.fit import Progress
from .job import Ended, Job, Work, first_line, least_used, usable

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
    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None: ...

    def start(self, worker: int, job: Job) -> None:
        """Give a worker without a job one; a dead worker is replaced. Raises DressiError."""
        ...

    def host(self, worker: int) -> str: ...

    def events(self, seconds: float) -> list[Event]:
        """What was said since the last call, after waiting at most so long for the first. Raises DressiError
        when the workers cannot be reached any more."""
        ...

    def stop(self) -> None:
        """Ask the running jobs to save checkpoints and end."""
        ...


class ProcessPool:
    """Processes started with the 'spawn' method. devices: of each worker, None: the job's own. work:
    picklable."""

    def __init__(self, devices: Sequence[str | None], work: Work):
        self.size, self._devices, self._work = len(devices), devices, work
        self._processes: dict[int, tuple[BaseProcess, Connection]] = {}
        self._host = socket.gethostname()

    def __enter__(self) -> Self:
        return self

    def start(self, worker: int, job: Job) -> None:
        if job.request.device is None:
            job = replace(job, request=replace(job.request, device=self._devices[worker]))
        if worker in self._processes:
            try:
                self._processes[worker][1].send(job)
                return
            except OSError:  # it died while it had nothing to do
                self._forget(worker)
        ours, theirs = _SPAWN.Pipe()
        name, arguments = f"worker {worker}", (theirs, self._work)
        process = _SPAWN.Process(target=serve, args=arguments, name=name, daemon=True)
        with _quiet():
            process.start()
        theirs.close()  # so that the end of the process is the end of the pipe
        self._processes[worker] = process, ours
        ours.send(job)

    def host(self, worker: int) -> str:
        return self._host

    def events(self, seconds: float) -> list[Event]:
        workers = {connection: worker for worker, (_, connection) in self._processes.items()}
        events = []
        for ready in wait(list(workers), seconds):
            assert isinstance(ready, Connection)
            worker = workers[ready]
            try:
                events.append(Event(worker, ready.recv()))
            except (EOFError, OSError):
                events.append(Event(worker, Died(self._forget(worker))))
        return events

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

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
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

    multiprocessing starts its resource tracker with the first process, and unblocks SIGINT then: start it
    before.
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


# Workers as actors of a ray cluster (the extra ``ray``): each is a process with an engine of its own.

T = TypeVar("T")
LOOK = 5.0
"""Seconds between two polls of the cluster. After 60 s without it ray ends this process."""
ANSWER = 20.0
"""Seconds after which a cluster that does not answer is gone."""
GRACE = 10.0
"""Seconds that the workers of a cluster that is gone get to save their checkpoints."""
START = 300.0
"""Seconds that an actor gets to start: a cluster may have to start a machine first."""
GONE = "the ray cluster is gone: it does not answer, or none of its machines is alive; start it again (`ray start --head`)"


def check_ray() -> ModuleType:
    """The package. Raises InputError, with the command that installs it, where it is missing."""
    try:
        import ray  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise InputError(
            f"--ray needs the package ray ({error}); install it with `pip install 'dressi[ray]'` on every machine of the"
            " cluster, or leave out --ray"
        ) from None
    return ray


@dataclass(frozen=True)
class Host:
    """What an actor finds on its machine. devices: as of ``usable``, empty where ``failure`` says why."""

    name: str
    devices: list[str]
    failure: str


class Worker:
    """The actor. ``work`` runs in one thread and the other methods in others."""

    def __init__(self, work: Work):
        self._work, self._stopped = work, threading.Event()
        self._progress: Progress | None = None

    def host(self, wanted: Sequence[str], mark: Path) -> Host:
        """mark: a file that every machine of the cluster must see."""
        name = socket.gethostname()
        if not mark.is_file():
            why = (
                f"the folder '{mark.parent}' is not there; give an --out, and files, that all machines share"
            )
            return Host(name, [], why)
        try:
            return Host(name, usable(wanted), "")
        except DressiError as error:
            return Host(name, [], str(error))

    def work(self, job: Job) -> Ended:
        self._stopped.clear()
        self._progress = None
        return self._work(job, self._report, self._stopped.is_set)

    def _report(self, progress: Progress) -> None:
        self._progress = progress

    def progress(self) -> Progress | None:
        return self._progress

    def stop(self) -> None:
        self._stopped.set()


@dataclass
class _Actor:
    handle: Any
    host: Host
    device: str
    running: Any = None
    """The future answer of its job."""
    asked: Any = None
    """That of its progress."""


class RayPool:
    """folder: that all machines share.  wanted: names of devices, as of ``usable``.  size: None for one
    worker on each GPU that ray knows of, or on each machine.

    Without RAY_ADDRESS and without a cluster that was started here, ray starts a local one. Raises
    DressiErrors.
    """

    def __init__(self, folder: Path, wanted: Sequence[str], size: int | None, work: Work):
        self._ray = ray = check_ray()
        self._folder, self._wanted, self._work = folder, wanted, work
        self._mark = folder / f".ray-{secrets.token_hex(8)}"
        self._actors: dict[int, _Actor] = {}
        self._looked, self._gone = time.monotonic(), False
        try:
            quiet = {"include_dashboard": False, "logging_level": "ERROR", "log_to_driver": False}
            ray.init(**quiet, ignore_reinit_error=True)
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            raise InputError(
                f"the ray cluster cannot be reached ({first_line(error)}); check RAY_ADDRESS, or unset it for a cluster of this machine"
            ) from None
        gpus = int(ray.cluster_resources().get("GPU", 0))
        self.size = size or gpus or len([node for node in ray.nodes() if node["Alive"]])

    def __enter__(self) -> Self:
        try:
            self._mark.touch()
            for worker in range(self.size):
                self._actors[worker] = self._make()
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def _make(self) -> _Actor:
        """Raises DressiErrors."""
        ray = self._ray
        # An actor needs a CPU to be placed and none while it runs, so that any number of them starts.
        actor = ray.remote(Worker).options(max_concurrency=4, scheduling_strategy="SPREAD").remote(self._work)
        try:
            host = ray.get(actor.host.remote(list(self._wanted), self._mark), timeout=START)
        except ray.exceptions.GetTimeoutError:
            raise DeviceError(
                f"the ray cluster did not start a worker within {START:.0f} s; give fewer --workers, or free some of it"
            ) from None
        except ray.exceptions.RayError as error:
            first = (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
            raise DeviceError(
                f"a worker of the ray cluster does not start ({first}); install the same dressi on each of its machines"
            ) from None
        if host.failure:
            raise DeviceError(f"on the machine {host.name!r} of the cluster: {host.failure}")
        used = [other.device for other in self._actors.values() if other.host.name == host.name]
        return _Actor(actor, host, least_used(host.devices, used))

    def start(self, worker: int, job: Job) -> None:
        if worker not in self._actors:
            self._look()
            self._actors[worker] = self._make()
        actor = self._actors[worker]
        if job.request.device is None:
            job = replace(job, request=replace(job.request, device=actor.device))
        actor.running = actor.handle.work.remote(job)
        actor.asked = actor.handle.progress.remote()

    def host(self, worker: int) -> str:
        return self._actors[worker].host.name

    def events(self, seconds: float) -> list[Event]:
        if time.monotonic() - self._looked > LOOK:
            self._look()
        running = {a.running: worker for worker, a in self._actors.items() if a.running is not None}
        if not running:
            return []
        done, _ = self._ray.wait(list(running), num_returns=1, timeout=seconds)
        events = []
        for worker, actor in self._actors.items():
            if actor.asked is not None and self._ray.wait([actor.asked], timeout=0)[0]:
                with contextlib.suppress(self._ray.exceptions.RayError):
                    progress = self._ray.get(actor.asked)
                    actor.asked = actor.handle.progress.remote()
                    events += [] if progress is None else [Event(worker, progress)]
        return [*events, *(self._answer(running[future]) for future in done)]

    def _answer(self, worker: int) -> Event:
        actor = self._actors[worker]
        try:
            ended = self._ray.get(actor.running)
        except self._ray.exceptions.RayError as error:
            del self._actors[worker]
            with contextlib.suppress(Exception):
                self._ray.kill(actor.handle)
            return Event(worker, Died(f"on {actor.host.name!r} ended ({type(error).__name__})"))
        actor.running = actor.asked = None
        return Event(worker, ended)

    def _look(self) -> None:
        """Raises DeviceError when the cluster does not answer or has no machine any more."""
        nodes = _within(ANSWER, self._ray.nodes)
        self._looked = time.monotonic()
        if nodes is None or not any(node["Alive"] for node in nodes):
            self._gone = True
            # The workers may live on for a while, without it.
            self.stop()
            running = [actor.running for actor in self._actors.values() if actor.running is not None]
            if running:
                self._ray.wait(running, num_returns=len(running), timeout=GRACE)
            raise DeviceError(GONE)

    def stop(self) -> None:
        for actor in self._actors.values():
            with contextlib.suppress(Exception):
                actor.handle.stop.remote()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with contextlib.suppress(OSError):
            self._mark.unlink()
        self._actors = {}
        if self._gone:
            # To say good-bye to a cluster that is gone takes a minute and ends in a crash of ray's threads.
            atexit.register(_leave)
        else:
            _within(ANSWER, self._ray.shutdown)


def _leave() -> None:
    """End the process, which has nothing more to do, with the exit code of an error."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(2)


def _within(seconds: float, call: Callable[[], T]) -> T | None:
    """What the call returns; None where it takes longer or fails."""
    results: list[T] = []

    def run() -> None:
        with contextlib.suppress(Exception):
            results.append(call())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    return results[0] if results else None
