"""The command line `dressi`. Each command is a module beside this one; heavy imports stay in its functions.

Every error that a user can cause ends in one sentence on stderr and exit code 2; `DRESSI_DEBUG=1` shows the
traceback. This module imports nothing but the standard library, so that Ctrl-C is handled first.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from dressi.cli.core.interrupt import INTERRUPTED, SENTENCE, imports
from dressi.cli.core.terminal import say

BROKEN_PIPE = 1
"""Exit code when nobody reads the output any more, the parser's own."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 2 bad input, 130 interrupted (143 by SIGTERM)."""
    try:
        with imports():
            from dressi.cli.commands import run
        code = run(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        say(SENTENCE)
        code = INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has seen enough, such as `| head`.
        _drop_output()
        code = BROKEN_PIPE
    sys.exit(code)


def _drop_output() -> None:
    """Point stdout at nothing, so that the interpreter's own flush at the end does not fail too."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
