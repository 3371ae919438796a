"""Pauses of Python's collector of cycles while large graphs are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """No search for cycles inside: a pass over 100,000 Functions makes millions of objects that all stay, and looking
    through them again and again takes as long as the pass. What becomes garbage meanwhile is found afterwards."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
