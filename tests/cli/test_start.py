"""How the command line starts and ends: Ctrl-C while modules are imported, `--version`, `python -m dressi`, pipes."""

import os
import signal
import subprocess
import sys
import threading

import pytest

import dressi
from dressi.cli.interrupt import Stop, imports

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")

INTERRUPT_IMPORT = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
from dressi.cli import main
main()
"""


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("typer", "fit"),
        ("dressi.cli.commands", "fit"),
        ("numpy", "fit"),
        ("scipy", "fit"),
        ("dressi.cli.fitting", "fit"),
        ("vulkan", "devices"),
    ],
)
def test_ctrl_c_during_imports_is_one_sentence(module: str, command: str):
    result = run("-c", INTERRUPT_IMPORT.format(module=module), command)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "dressi: interrupted\n")


def test_the_command_line_imports_nothing_slow_before_it_handles_ctrl_c():
    result = run("-c", "import sys, dressi.cli; print(*sys.modules)")
    assert not {"numpy", "typer", "vulkan", "scipy"} & set(result.stdout.split())


def test_the_version():
    for start in (["-m", "dressi"], ["-m", "dressi.cli"]):
        result = run(*start, "--version")
        assert (result.returncode, result.stdout, result.stderr) == (0, f"dressi {dressi.__version__}\n", "")


def test_a_reader_that_goes_away_is_no_error():
    code = "import os; r, w = os.pipe(); os.close(r); os.dup2(w, 1); from dressi.cli import main; main()"
    for option in ("--help", "--version"):
        result = run("-c", code, option)
        assert (result.returncode, result.stderr) == (1, "")


def test_names_of_the_package_are_imported_when_they_are_used():
    for name in dressi.__all__:
        assert getattr(dressi, name) is not None and name in dir(dressi)
    with pytest.raises(AttributeError, match="nothing"):
        _ = dressi.nothing  # pyright: ignore[reportAttributeAccessIssue]


def test_sigterm_stops_like_ctrl_c():
    with Stop() as stop:
        assert not stop()
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop() and stop.code == 143
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_signal_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with imports(), Stop() as stop:
            os.kill(os.getpid(), signal.SIGINT)
            assert not stop()
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_leave_the_handlers_alone():
    before, found = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        with imports(), Stop():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [before]
