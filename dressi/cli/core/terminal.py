"""What is printed: messages to the user on stderr, tables on stdout. Only tables need more than the standard
library."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

WIDEST = 1 << 14
"""Characters of a line of a table in a pipe, at most. A narrower bound would fold cells."""


def say(text: str) -> None:
    """Print a line on stderr. A closed stderr or a full disk is ignored: the work goes on."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            print(text, file=sys.stderr, flush=True)


def table_console() -> Console:
    """Where tables are printed: a terminal at its width, a pipe or a file at that of the table."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=WIDEST)
