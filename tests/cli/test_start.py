"""How the command line starts, and how it ends when it is killed."""

import importlib.util
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import dressi
from dressi.cli.core.interrupt import Stop, imports
from dressi.render.formats import save_mesh
from dressi.render.mesh.primitives import pear

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
    command, env = [sys.executable, *arguments], os.environ | environment
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=60, check=False)


@pytest.mark.parametrize(
    ("module", "command"),
    [
        *(
            (module, "fit")
            for module in ("typer", "dressi.cli.commands", "numpy", "scipy", "dressi.cli.fitting")
        ),
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


@pytest.mark.release
@pytest.mark.usefixtures("driver")
def test_a_fit_that_is_killed_again_and_again_ends_as_if_it_had_not_been(tmp_path: Path):
    spec = importlib.util.spec_from_file_location("kills", Path(__file__).parent / "kills.py")
    assert spec is not None and spec.loader is not None
    kills = importlib.util.module_from_spec(spec)
    sys.modules["kills"] = kills
    spec.loader.exec_module(kills)
    kills.OPTIONS = "--views 2 --size 16 --steps 24 --texture-size 8 --no-colours".split()
    target = tmp_path / "pear.glb"
    save_mesh(target, pear(16, 12, 32))
    expected = kills.undisturbed(target, tmp_path / "whole")
    # This seed kills it after 3.3 seconds, and interrupts what goes on after 3.7.
    outcome = kills.disturbed(target, tmp_path / "killed", expected, 111, ["KILL", "INT"], 2, 4.0)
    assert outcome.wrong == []
