"""What Ctrl-C and SIGTERM do to the command line, at every moment of it. Standard library only.

| moment            | Ctrl-C                                                          |
|-------------------|-----------------------------------------------------------------|
| ``imports()``     | ends the process at once with one sentence: there is nothing to lose |
| everywhere else   | KeyboardInterrupt, which ``main`` turns into the same sentence      |
| ``Stop()``        | asks the fit to stop, which then writes what it has reached     |
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

INTERRUPTED = 130
"""Exit code: 128 + SIGINT, as shells report it."""
SENTENCE = "dressi: interrupted"


@contextmanager
def imports() -> Iterator[None]:
    """Inside the block, which imports modules, Ctrl-C ends the process.

    An exception in the middle of an import may be swallowed or replaced by the module that is being imported,
    and C extensions may be left half initialised; so none is raised. SIGINT that is ignored (``nohup``) stays
    ignored.
    """
    before = _replace(signal.SIGINT, _leave)
    try:
        yield
    finally:
        _restore(signal.SIGINT, before)


def _leave(number: int, frame: FrameType | None) -> None:
    try:
        os.write(2, (SENTENCE + "\n").encode())
    finally:
        os._exit(INTERRUPTED)


class Stop:
    """Inside the block Ctrl-C or SIGTERM asks for a stop instead of raising; a second one raises
    KeyboardInterrupt.

    code: the exit code of a program that was stopped so.
    """

    def __init__(self) -> None:
        self._signal: int | None = None
        self._before: dict[int, Any] = {}

    def __call__(self) -> bool:
        return self._signal is not None

    @property
    def code(self) -> int:
        return INTERRUPTED if self._signal is None else 128 + self._signal

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._signal is not None:
            raise KeyboardInterrupt
        self._signal = number

    def __enter__(self) -> Stop:
        self._before = {
            number: _replace(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            _restore(number, before)


def _replace(number: int, handler: Callable[[int, FrameType | None], None]) -> Any:
    """The handler that was there; None where it stays: it is ignored, or this is another thread."""
    if threading.current_thread() is not threading.main_thread():
        return None
    before = signal.getsignal(number)
    if before is None or before == signal.SIG_IGN:
        return None
    signal.signal(number, handler)
    return before


def _restore(number: int, before: Any) -> None:
    if before is not None:
        signal.signal(number, before)
