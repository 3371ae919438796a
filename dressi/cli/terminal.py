"""Messages to the user, on stderr. Standard library only."""

from __future__ import annotations

import contextlib
import sys


def say(text: str) -> None:
    """Print a line on stderr. A closed stderr or a full disk is ignored: the work goes on."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            print(text, file=sys.stderr, flush=True)
