"""Processes that share a device, and how much a submission holds."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from dressi.vk.run.device.queue import BOUND, Pace

START = """
import os, sys
import numpy as np
from dressi import Device, DressiAD, DressiError, F, Variable, adam, list_devices
from dressi.ad.graph import PixelFunction
from dressi.ad.graph.types import FLOAT

def say(*words):
    # at once, so that lines of two processes do not mix: print writes the end of a line by itself
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def doubled(ad):
    x = Variable(data=np.full((1, 1, 1), 21.0))
    ad.set_output("y", x * 2)
    ad.step()
    return float(ad.recv("y")[0, 0, 0])

class Endless(PixelFunction):
    # lavapipe ends loops after some 65,536 rounds: there the many pixels take minutes
    glsl = "float a = $0; while (a < 2.0) { a = sin(a) * 0.5 + 0.25; if (a > 1.5) a = 0.0; } $y = a;"
    def infer(self): return FLOAT, self.broadcast()
    def eval(self, x): return x
    def partials(self, x): return (x,)
"""


def start(text: str, *arguments: str) -> subprocess.Popen[str]:
    source = START + textwrap.dedent(text)
    command = [sys.executable, "-u", "-c", source, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str], seconds: float = 40) -> tuple[str, str]:
    """Output and errors of a process that must end by itself."""
    try:
        return process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        pytest.fail(f"the process hangs; it has said:\n{out}\n{err}")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.one_driver
def test_a_forked_child_is_told_at_once_and_its_parent_goes_on(device):
    out, err = finish(
        start(
            """
            import ctypes
            ad = DressiAD(sys.argv[1])
            doubled(ad)
            # As the handlers of drivers for the end of a process, which do not survive a fork; the parent ends without them.
            getattr(ctypes.CDLL(None), "on_exit", lambda *_: None)(ctypes.CDLL(None).abort, None)
            sys.stdout.flush()
            pid = os.fork()
            if pid == 0:
                tries = {
                    "recv": lambda: ad.recv("y"), "step": ad.step, "open": lambda: Device(sys.argv[1]),
                    "list": list_devices, "wait": ad.device.wait,
                }
                for name, act in tries.items():
                    try:
                        act()
                        print("child", name, "went through")
                    except DressiError as error:
                        print("child", name, "spawn" in str(error))
                ad.close()
                ad.device.close()
                sys.exit(7)  # atexit runs here too
            print("ended", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            print("parent", ad.recv("y")[0, 0, 0])
            ad.close()
            os._exit(0)
            """,
            device.name,
        )
    )
    told = [f"child {name} True" for name in ("recv", "step", "open", "list", "wait")]
    assert out.splitlines() == [*told, "ended 7", "parent 42.0"], err


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.one_driver
def test_a_child_that_was_forked_before_the_first_device_works(device):
    out, err = finish(
        start(
            """
            pid = os.fork()
            with DressiAD(sys.argv[1]) as ad:
                say(doubled(ad))
            if pid:
                say("ended", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            """,
            device.name,
        )
    )
    assert sorted(out.splitlines()) == ["42.0", "42.0", "ended 0"], err


@pytest.mark.one_driver
def test_spawned_children_open_devices_of_their_own(device, tmp_path):
    (tmp_path / "child.py").write_text(
        "import numpy as np\nfrom dressi import DressiAD, Variable\n\n"
        "def work(name):\n"
        "    with DressiAD(name) as ad:\n"
        "        ad.set_output('y', Variable(data=np.full((1, 1, 1), 21.0)) * 2)\n"
        "        ad.step()\n"
        "        return float(ad.recv('y')[0, 0, 0])\n"
    )
    out, err = finish(
        start(
            """
            import multiprocessing
            sys.path.insert(0, sys.argv[2])
            from child import work
            if __name__ == "__main__":
                with DressiAD(sys.argv[1]) as ad:
                    doubled(ad)
                    with multiprocessing.get_context("spawn").Pool(1) as pool:
                        print(pool.map(work, [sys.argv[1]]))
            """,
            device.name,
            str(tmp_path),
        )
    )
    assert out == "[42.0]\n", err


WAITING = """
import threading
from dressi.vk.run.device import queue
queue.PATIENCE = 0.2
real = queue.Queue.wait

def wait(self, fences, patience=None):
    if patience is not None:
        return real(self, fences, patience)
    timer = threading.Timer(0.3, print, ["waiting"])
    timer.start()
    try:
        return real(self, fences)
    finally:
        timer.cancel()

queue.Queue.wait = wait
"""
ENDLESS = """
ad = DressiAD(sys.argv[1])
x = Variable(FLOAT, (1024, 512), data=np.zeros((1, 512, 1024)))
ad.set_output("y", Endless(x).output)
ad.set_loss(F.sum(Endless(x).output * x))
ad.set_optimizer(adam(0.1), [x])
try:
    ad.step()
    ad.recv("loss")
except KeyboardInterrupt:
    print("interrupted")
"""


def interrupted(process: subprocess.Popen[str]) -> tuple[str, str]:
    assert process.stdout is not None
    if process.stdout.readline() != "waiting\n":
        pytest.fail(finish(process)[1])
    process.send_signal(signal.SIGINT)
    return finish(process)


def test_ctrl_c_ends_the_wait_for_an_endless_shader(device):
    process = start(
        WAITING
        + ENDLESS
        + textwrap.dedent(
            """
            device = ad.device
            ad.close()
            ad.close()
            device.close()
            print(device)
            try:
                device.wait()
            except DressiError as error:
                print(type(error).__name__, error)
            """
        ),
        device.name,
    )
    out, err = interrupted(process)
    lines = out.splitlines()
    assert process.returncode == 0, err
    assert lines[0] == "interrupted" and "given up" in lines[1], err
    assert lines[2].startswith("DeviceLostError") and "loop without an end" in lines[2]
    assert "RuntimeWarning" in err and "given up" in err and "Traceback" not in err


def test_a_process_that_never_closed_ends_after_ctrl_c(device):
    process = start(WAITING + ENDLESS, device.name)
    out, err = interrupted(process)
    assert (process.returncode, out) == (0, "interrupted\n"), err
    assert "given up" in err and "Traceback" not in err


@pytest.mark.one_driver
def test_ctrl_c_ends_an_evaluation(device):
    """`evaluate` keeps a device of its own, which is closed with the process."""
    text = (
        "from dressi import evaluate\nx = Variable(FLOAT, (1024, 512), data=np.zeros((1, 512, 1024)))\n"
        "evaluate(x * 2, device=sys.argv[1])\nevaluate(Endless(x).output, device=sys.argv[1])\n"
    )
    process = start(WAITING + text, device.name)
    _, err = interrupted(process)
    assert process.returncode == -signal.SIGINT and "given up" in err and err.count("Traceback") == 1, err


@pytest.mark.one_driver
def test_ctrl_c_outside_of_a_wait_hurries_the_end(device):
    """The interrupt arrives while something is recorded; then the block is left."""
    text = WAITING + ENDLESS.replace('    ad.recv("loss")', "    with ad:\n        raise KeyboardInterrupt")
    process = start(text, device.name)
    out, err = finish(process)
    assert (process.returncode, out) == (0, "interrupted\n") and "given up" in err


def test_an_interrupted_wait_loses_nothing(device):
    """A ctrl-C while long work is under way: whoever waits again gets the values."""
    import numpy as np

    from dressi import Device, DressiAD, Variable

    with Device(device.physical, validation=device.instance.validation) as own, DressiAD(own) as ad:
        x = Variable(data=np.full((1, 1, 1), 21.0))
        ad.set_output("y", x * 2)
        ad.step()
        lib = own.vk.lib

        class Interrupting:
            slices = 0

            def __getattr__(self, name):
                return getattr(lib, name)

            def vkWaitForFences(self, *arguments):
                self.slices += 1
                if self.slices == 2:
                    raise KeyboardInterrupt
                return own.vk.VK_TIMEOUT if self.slices < 5 else lib.vkWaitForFences(*arguments)

        own.vk.lib = Interrupting()
        with pytest.raises(KeyboardInterrupt):
            ad.recv("y")
        assert ad.recv("y")[0, 0, 0] == 42
        assert own.work.lost is None and own.vk.lib.slices >= 5


def submissions(pace: Pace, buffers: list[str], seconds: dict[str, float]) -> list[list[str]]:
    """A device on which each command buffer takes so long, and a host that waits for every submission."""
    found = []
    while buffers:
        now = buffers[: pace.count(buffers, 8192)]
        took = sum(seconds[b] for b in now)
        pace.ended(now, took, took)
        found.append(now)
        buffers = buffers[len(now) :]
    return found


def test_submissions_begin_small_and_double():
    pace = Pace()
    assert [len(s) for s in submissions(pace, ["a"] * 100, {"a": 1e-5})] == [1, 2, 4, 8, 16, 32, 37]
    assert [len(s) for s in submissions(pace, ["a"] * 200, {"a": 1e-5})] == [74, 126]
    pace.forget("a")
    assert pace.count(["a"] * 9, 64) == 1


@pytest.mark.parametrize("seconds", [1e-4, 3e-3, 0.03, 0.15, 0.19])
def test_no_submission_is_longer_than_the_bound(seconds):
    pace = Pace()
    found = submissions(pace, ["a"] * 500, {"a": seconds})
    assert max(map(len, found)) * seconds <= BOUND and pace.longest <= BOUND
    # A mixture, as of a solver: what was never measured runs alone.
    times = {"a": seconds, "b": 0.1, "c": 1e-6}
    for _ in range(3):
        found = submissions(pace, [*"cab", *"c" * 50, *"ab" * 9], times)
        assert all(sum(times[b] for b in s) <= BOUND * 1.01 for s in found)


def test_work_that_becomes_heavy_and_light_again_is_followed():
    pace = Pace()
    submissions(pace, ["a"] * 200, {"a": 1e-4})
    heavy = submissions(pace, ["a"] * 200, {"a": 0.045})
    assert {len(s) for s in heavy[1:-1]} == {2}  # the first one could not know
    light = submissions(pace, ["a"] * 3000, {"a": 1e-4})
    assert max(map(len, light)) > 100


def test_work_behind_a_gate_is_heavy_again_at_once():
    """A solver's iterations: some hundred that work, then thousands behind a closed gate."""
    pace, longest = Pace(), []
    for _ in range(6):
        open_, closed = ({"a": 1e-3}, 600), ({"a": 1e-5}, 3000)
        for seconds, count_ in (open_, closed):
            longest.append(max(len(s) * seconds["a"] for s in submissions(pace, ["a"] * count_, seconds)))
    assert max(longest[2:]) < 1.5 * BOUND


def test_iterations_of_a_solver_are_never_taken_for_light():
    """Steps that need fewer iterations each, thousands that need none between them, and one that needs all again."""
    pace, longest = Pace(), []
    pace.gated.add("a")
    for open_ in (400, *range(60, 0, -1), 400):
        for n, seconds in ((open_, 2e-3), (400 - open_, 1e-5)):
            longest += [len(s) * seconds for s in submissions(pace, ["a"] * n, {"a": seconds})]
    assert max(longest) <= BOUND
    pace.forget("a")
    assert not pace.gated


def test_what_the_host_saw_late_is_no_measurement():
    pace = Pace()
    pace.ended(["a"], 0.0, 60.0)  # the program slept
    assert pace.count(["a"] * 9, 64) == 1 and not pace.exceeded and pace.longest == 0
    pace.ended(["a"], 0.0, 0.01)
    assert pace.count(["a"] * 9, 64) == 2
    pace.ended(["a"], 1.9, 2.0)
    assert pace.excess("a") == 1.9 and pace.exceeded and pace.longest == 1.9


def test_what_was_slow_for_a_moment_is_not_cut():
    """Other programs made it so; three times in a row is its own time."""
    pace = Pace()
    for seconds in (0.01, 0.3, 0.4, 0.01, 0.5, 0.3):
        pace.ended(["a"], seconds, seconds)
        assert not pace.exceeded
    pace.ended(["a"], 0.4, 0.4)
    assert pace.exceeded and pace.excess("a") == 0.3
