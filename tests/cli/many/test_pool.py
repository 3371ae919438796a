"""Which worker does what: failures, killed workers, stops, and the same over a ray cluster."""

import csv
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from stub_work import job, request, work

from dressi.cli.many.devices import least_used
from dressi.cli.many.job import Job
from dressi.cli.many.pool import Pool, ProcessPool
from dressi.cli.many.run import run_jobs
from dressi.cli.many.table import Table
from dressi.errors import DressiError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")


def processes(count: int) -> Callable[[], Pool]:
    return lambda: ProcessPool(["0"] * count, work)


def states(table: Table) -> dict[str, tuple[str, int]]:
    return {name: (entry.state, entry.attempts) for name, entry in table.entries.items()}


def attempts(job: Job) -> list[str]:
    return [file.read_text() for file in sorted(job.request.out.glob("attempt*"))]


FIRST = """
import multiprocessing, os, signal, sys
from pathlib import Path
from stub_work import job, work
from dressi.cli.many.pool import ProcessPool

if __name__ == "__main__":
    with ProcessPool(["0"], work) as pool:
        pool.start(0, job(Path(sys.argv[1]), "well"))
        (process,) = multiprocessing.active_children()
        for _ in range(20):
            os.kill(process.pid, signal.SIGINT)
        while "Ended" not in (said := repr(pool.events(60.0))):
            assert "Died" not in said, said
"""


@pytest.mark.release
def test_the_first_worker_of_a_process_is_not_interrupted_while_it_starts(tmp_path: Path):
    """In a process of its own: multiprocessing unblocks SIGINT when it starts its resource tracker, once."""
    script = tmp_path / "first.py"
    script.write_text(FIRST)
    path = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[3])])
    command = [sys.executable, script, tmp_path]
    env = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, env=env)
    assert done.returncode == 0 and done.stderr == "", done.stderr


@pytest.mark.release
def test_what_ends_how(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    jobs = [job(tmp_path, name) for name in ("well", "killed", "broken", "lost", "mortal", "well2")]
    table = Table(tmp_path, jobs)
    assert run_jobs(jobs, table, processes(2)) == 1
    assert states(table) == {
        "well": ("done", 1), "killed": ("done", 2), "broken": ("failed", 1), "lost": ("done", 2),
        "mortal": ("failed", 3), "well2": ("done", 1),
    }  # fmt: skip
    # Another attempt goes on from the checkpoint, a first one does not.
    assert attempts(jobs[1]) == ["False", "True"] and attempts(jobs[4]) == ["False", "True", "True"]
    failure = table.entries["mortal"].failure
    assert "SIGKILL" in failure and "3 of 3" in failure and "--workers" in failure
    with (tmp_path / "results.csv").open(encoding="utf-8") as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}
    assert list(rows) == [job.name for job in jobs]
    assert rows["killed"]["state"] == "done" and rows["killed"]["attempts"] == "2" and rows["killed"]["host"]
    assert (float(rows["well"]["iou"]), float(rows["well"]["psnr"])) == (0.9, 30.0)
    assert rows["broken"]["failure"] == "the mesh is empty" and rows["broken"]["iou"] == ""
    err = capfd.readouterr().err
    assert "'broken' failed: the mesh is empty" in err and "Traceback" not in err


def test_a_second_run_does_what_is_left(tmp_path: Path):
    jobs = [job(tmp_path, name) for name in ("well", "broken", "well2")]
    assert run_jobs(jobs, Table(tmp_path, jobs), processes(1)) == 1
    again = Table(tmp_path, jobs)
    assert again.take_over() == {"well", "well2"}
    assert states(again)["well"] == ("done", 1) and states(again)["broken"] == ("waiting", 0)
    other = [Job(j.name, request(target=tmp_path / "mesh.glb", out=j.request.out, steps=9)) for j in jobs]
    assert Table(tmp_path, other).take_over() == set()
    (tmp_path / "well" / "report.json").unlink()
    assert Table(tmp_path, jobs).take_over() == {"well2"}
    for damage in ("", "[]", '{"objects": [{"name": 3}]}', '{"objects": [{"name": "well", "state": 1}]}'):
        (tmp_path / "results.json").write_text(damage)
        with pytest.warns(UserWarning, match="damaged"):
            assert Table(tmp_path, jobs).take_over() == set()


@pytest.mark.release
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_the_workers_and_completes_the_table(
    tmp_path: Path, number: int, code: int, capfd: pytest.CaptureFixture[str]
):
    jobs = [job(tmp_path, name) for name in ("endless", "well")]
    table = Table(tmp_path, jobs)
    threading.Thread(target=lambda: _when(jobs[0], lambda: os.kill(os.getpid(), number)), daemon=True).start()
    assert run_jobs(jobs, table, processes(1)) == code
    written = json.loads((tmp_path / "results.json").read_text())["objects"]
    assert [entry["state"] for entry in written] == ["stopped", "waiting"]
    assert "--resume" in capfd.readouterr().err


def test_a_second_signal_ends_them_at_once(tmp_path: Path):
    jobs = [job(tmp_path, "endless")]
    table = Table(tmp_path, jobs)

    def twice() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=lambda: _when(jobs[0], twice), daemon=True).start()
    assert run_jobs(jobs, table, processes(1)) == 130
    assert table.entries["endless"].state == "stopped" and "--resume" in table.entries["endless"].failure


def _when(started: Job, call: Callable[[], object]) -> None:
    until = time.monotonic() + 60
    while not list(started.request.out.glob("attempt*")) and time.monotonic() < until:
        time.sleep(0.02)
    call()


class Unreachable(ProcessPool):
    """Workers that are gone after they were given a job."""

    def events(self, seconds: float) -> Any:
        raise DressiError("the cluster is gone")


def test_workers_that_cannot_be_reached_are_one_sentence(tmp_path: Path):
    jobs = [job(tmp_path, name) for name in ("endless", "well")]
    table = Table(tmp_path, jobs)
    with pytest.raises(DressiError, match=r"gone; 0 of 2 objects are done, .*results\.json.*--resume"):
        run_jobs(jobs, table, lambda: Unreachable(["0"], work))
    assert states(table) == {"endless": ("stopped", 1), "well": ("waiting", 0)}


def test_devices_are_shared_evenly():
    used: list[str] = []
    for _ in range(5):
        used.append(least_used(["0", "2"], used))
    assert used == ["0", "2", "0", "2", "0"]


# ---------------------------------------------------------------------------- ray


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """ray; the cluster that it starts of this machine imports what the tests import."""
    ray = pytest.importorskip("ray", reason="ray is missing: pip install 'dressi[ray]'")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    yield ray
    ray.shutdown()


@pytest.mark.release
def test_the_same_over_a_cluster(cluster: Any, tmp_path: Path):
    from dressi.cli.many.ray_pool import RayPool

    jobs = [job(tmp_path, name) for name in ("well", "killed", "broken", "mortal", "well2")]
    table = Table(tmp_path, jobs)
    assert run_jobs(jobs, table, lambda: RayPool(tmp_path, ["0"], 2, work)) == 1
    assert states(table) == {
        "well": ("done", 1), "killed": ("done", 2), "broken": ("failed", 1), "mortal": ("failed", 3),
        "well2": ("done", 1),
    }  # fmt: skip
    assert "ActorDiedError" in table.entries["mortal"].failure and not list(tmp_path.glob(".ray*"))
