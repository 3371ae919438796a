"""One thread for all calls from frameworks that call back on threads of their own: a Vulkan device belongs to a thread."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

from .engine import close_engines

Result = TypeVar("Result")


class Worker:
    """A thread that runs functions one after the other."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._tasks: SimpleQueue[tuple[Callable[[], Any], SimpleQueue[tuple[Any, BaseException | None]]]] = (
            SimpleQueue()
        )
        threading.Thread(target=self._serve, name="dressi", daemon=True).start()

    def _serve(self) -> None:
        while True:
            task, answer = self._tasks.get()
            try:
                answer.put((task(), None))
            except BaseException as error:
                answer.put((None, error))

    def run(self, task: Callable[[], Result]) -> Result:
        """What the function returns, or raises, there."""
        answer: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._tasks.put((task, answer))
        result, error = answer.get()
        if error is not None:
            raise error
        return result


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
