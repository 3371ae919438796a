"""Pausing Python's garbage collector while large graphs are built."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """No garbage collection inside the block.

    A pass over 100,000 Functions allocates millions of objects that all stay alive. Scanning them for reference cycles
    again and again takes as long as the pass itself. The next collection after the block frees what has become garbage.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
