"""One thread for all calls that frameworks make on threads of their own: a Vulkan device belongs to one.

JAX calls back from its runtime, and PyTorch runs the backward pass of tensors of CUDA on threads of theirs.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from .engine import close_engines

Result = TypeVar("Result")


class Worker:
    """A thread that runs functions one after the other."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._tasks: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        threading.Thread(target=self._serve, name="dressi", daemon=True).start()

    def _serve(self) -> None:
        while True:
            task, future = self._tasks.get()
            try:
                future.set_result(task())
            except BaseException as error:
                future.set_exception(error)
            del task, future  # a GPU's memory should not wait for the next task

    def run(self, task: Callable[[], Result]) -> Result:
        """What the function returns, or raises, there."""
        future: Future[Result] = Future()
        self._tasks.put((task, future))
        return future.result()


_worker: Worker | None = None
_lock = threading.Lock()


def on_worker(task: Callable[[], Result]) -> Result:
    """The result of a function that runs on this process's thread for devices."""
    global _worker
    with _lock:
        if _worker is None or _worker.process != os.getpid():
            _worker = Worker()
    return _worker.run(task)


@atexit.register
def _close() -> None:
    if _worker is not None and _worker.process == os.getpid():
        _worker.run(close_engines)
