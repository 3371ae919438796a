"""Runs the command line: in this process, or in one of its own where the process is what the test is
about."""

import io
import os
import subprocess
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from dressi.cli import main

CODE = "from dressi.cli import main; main()"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The exit code and everything printed. An exception that the command line does not turn into a sentence
    is raised."""
    out, err = io.StringIO(), io.StringIO()
    words = [str(argument) for argument in arguments]
    # The command line replaces the hook of warnings; a fresh process shows each of them once.
    with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("default")
        with pytest.raises(SystemExit) as stop:
            main(words)
    code = stop.value.code
    assert isinstance(code, int)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def run_process(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The same in a new process, with these environment variables added."""
    return subprocess.run(
        [sys.executable, "-c", CODE, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        timeout=120,
        check=False,
    )


def refuses(result: subprocess.CompletedProcess[str], *words: str) -> None:
    """One sentence, after the warnings, on stderr; exit code 2."""
    assert result.returncode == 2, result
    assert result.stdout == "" and "Traceback" not in result.stderr
    last = result.stderr.splitlines()[-1]
    assert last.startswith("dressi: error: "), result.stderr
    for word in words:
        assert word in last, last
