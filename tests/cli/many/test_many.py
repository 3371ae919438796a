"""Fits of many objects: lists of them, workers, and disturbances."""

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
from command_line import refuses, run
from disturbed import differences, kill_worker, start, table
from stub_work import job, request, work

from dressi.cli.many.job import Job, least_used, read_list
from dressi.cli.many.pool import Pool, ProcessPool
from dressi.cli.many.run import Table, run_jobs
from dressi.errors import DressiError, InputError
from dressi.render.formats import save_mesh
from dressi.render.mesh.primitives import octasphere, pear

# A round of the shape, and the texture: programs, not steps, are what takes time.
OPTIONS = ("--views", "3", "--size", "24", "--steps", "2", "--texture-size", "16", "--no-colours")


@pytest.mark.release
@pytest.mark.usefixtures("driver")
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_killed_interrupted_and_resumed_it_ends_as_if_nothing_had_been(tmp_path: Path):
    for name, mesh in (("pear", pear(16, 12, 32)), ("sphere", octasphere(2))):
        save_mesh(tmp_path / f"{name}.glb", mesh)
    (tmp_path / "broken.obj").write_text("v 0 0 nan\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    listed = tmp_path / "list.csv"
    listed.write_text("target,seed\npear.glb,\nbroken.obj,\nsphere.glb,3\n")
    single, killed = tmp_path / "single", tmp_path / "killed"
    result = run("fit", "--many", listed, "--out", single, *OPTIONS)
    assert result.returncode == 1 and "broken: mesh " in result.stdout, result
    assert {name: entry["state"] for name, entry in table(single).items()} == {
        "pear": "done", "broken": "failed", "sphere": "done",
    }  # fmt: skip
    assert "heldout: IoU" in (single / "pear" / "log.txt").read_text()

    process = start(listed, killed, "--workers", "2", *OPTIONS)
    hit = kill_worker(process, killed, 0, checkpoint=False)["object"]
    while table(killed)[hit]["attempts"] < 2 and process.poll() is None:
        time.sleep(0.02)  # the workers need the processor
    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 130 and "--resume" in said and "Traceback" not in said, said
    assert {entry["state"] for entry in table(killed).values()} <= {"done", "failed", "stopped", "waiting"}
    assert table(killed)[hit]["attempts"] == 2

    again = run("fit", "--many", listed, "--out", killed, "--workers", "2", "--resume", *OPTIONS)
    assert again.returncode == 1, again
    assert differences(single, killed) == []


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


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
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


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
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


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
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


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.release
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_the_workers_and_completes_the_table(tmp_path, number, code, capfd):
    jobs = [job(tmp_path, name) for name in ("endless", "well")]
    table = Table(tmp_path, jobs)
    threading.Thread(target=lambda: _when(jobs[0], lambda: os.kill(os.getpid(), number)), daemon=True).start()
    assert run_jobs(jobs, table, processes(1)) == code
    written = json.loads((tmp_path / "results.json").read_text())["objects"]
    assert [entry["state"] for entry in written] == ["stopped", "waiting"]
    assert "--resume" in capfd.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
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


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_workers_that_cannot_be_reached_are_one_sentence(tmp_path: Path):
    jobs = [job(tmp_path, name) for name in ("endless", "well")]
    table = Table(tmp_path, jobs)
    with pytest.raises(DressiError, match=r"gone; 0 of 2 objects are done, .*results\.json.*--resume"):
        run_jobs(jobs, table, lambda: Unreachable(["0"], work))
    assert states(table) == {"endless": ("stopped", 1), "well": ("waiting", 0)}


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
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


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.release
def test_the_same_over_a_cluster(cluster: Any, tmp_path: Path):
    from dressi.cli.many.pool import RayPool

    jobs = [job(tmp_path, name) for name in ("well", "killed", "broken", "mortal", "well2")]
    table = Table(tmp_path, jobs)
    assert run_jobs(jobs, table, lambda: RayPool(tmp_path, ["0"], 2, work)) == 1
    assert states(table) == {
        "well": ("done", 1), "killed": ("done", 2), "broken": ("failed", 1), "mortal": ("failed", 3),
        "well2": ("done", 1),
    }  # fmt: skip
    assert "ActorDiedError" in table.entries["mortal"].failure and not list(tmp_path.glob(".ray*"))


def listed(folder: Path, text: str, **defaults: object) -> list:
    for name in ("a.glb", "b.glb", "sub/c.obj"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    (folder / "photos").mkdir(exist_ok=True)
    (folder / "list.csv").write_text(text, encoding="utf-8")
    return read_list(folder / "list.csv", request(out=folder / "out", **defaults))


def test_rows_are_options(tmp_path: Path):
    text = """\ufefftarget, name,seed,texture-size,remesh,spread
a.glb,,3,,,
sub/c.obj,first,,64,no,2.5

./b.glb,"second",0,,YES,
"""
    jobs = listed(tmp_path, text, seed=7, size="48")
    assert [job.name for job in jobs] == ["a", "first", "second"]
    assert [job.request.target for job in jobs] == [
        tmp_path / "a.glb",
        tmp_path / "sub/c.obj",
        tmp_path / "b.glb",
    ]
    assert [job.request.fit.seed for job in jobs] == [3, 7, 0]
    assert [job.request.fit.texture_size for job in jobs] == [None, 64, None]
    assert [job.request.fit.remesh for job in jobs] == [None, False, True]
    assert jobs[1].request.fit.spread == 2.5 and {job.request.size for job in jobs} == {"48"}
    assert jobs[1].request.out == tmp_path / "out" / "first"
    assert len({job.key for job in jobs}) == 3


def test_photographs_and_paths_in_options(tmp_path: Path):
    (tmp_path / "empty.png").touch()
    jobs = listed(tmp_path, "photos,masks\nphotos,background:empty.png\n")
    assert jobs[0].name == "photos" and jobs[0].request.photos == tmp_path / "photos"
    assert jobs[0].request.masks == f"background:{tmp_path / 'empty.png'}"


def test_the_key_says_what_the_result_depends_on(tmp_path: Path):
    (one,) = listed(tmp_path, "target\na.glb\n")
    (moved,) = listed(tmp_path, "target,device,name\na.glb,1,other\n", preview=True)
    (other,) = listed(tmp_path, "target,steps\na.glb,5\n")
    assert one.key == moved.key != other.key


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["lists no object"]),
        ("target\n", ["lists no object"]),
        ("target,colour\na.glb,red\n", ["'colour'", "texture-size"]),
        ("target,out\na.glb,x\n", ["'out'", "command line"]),
        ("target,target\na.glb,a.glb\n", ["two columns"]),
        ("target\na.glb\nnone.glb\n", ["line 3", "none.glb"]),
        ("target\na.glb,b.glb\n", ["line 2", "2 cells"]),
        ("target,photos\na.glb,photos\n", ["line 2", "not both"]),
        ("target,photos\na.glb,\n,nothing\n", ["line 3", "nothing"]),
        ("name\nx\n", ["line 2", "--target"]),
        ("target\na.glb\nsub/../a.glb\n", ["line 3", "'a'", "line 2", "'name'"]),
        ("target,name\na.glb,Same\nb.glb,same\n", ["line 3", "line 2"]),
        ("target,name\na.glb,../up\n", ["line 2", "../up"]),
        ("target,name\na.glb,.hidden\n", ["line 2", ".hidden"]),
        ("target,name\na.glb,fit.lock\n", ["line 2", "fit.lock"]),
        ("target,name\na.glb,nul\n", ["line 2", "nul"]),
        ("target,seed\na.glb,some\n", ["line 2", "seed", "whole number"]),
        ("target,seed\na.glb,-1\n", ["line 2", "seed"]),
        ("target,spread\na.glb,nan\n", ["line 2", "nan"]),
        ("target,remesh\na.glb,maybe\n", ["line 2", "remesh", "yes or no"]),
        ("target,size\na.glb,0\n", ["line 2", "--size 0"]),
        ("target,form\na.glb,round\n", ["line 2", "round"]),
        ("target,optimize\na.glb,shine\n", ["line 2", "shine"]),
        ("target,light\na.glb,sky.hdr\n", ["line 2", "--light"]),
        ("photos,masks\nphotos,magic\n", ["line 2", "magic"]),
        ('target\n"a.glb\n', ["no CSV file"]),
    ],
)
def test_what_is_wrong_with_a_list(tmp_path: Path, text: str, words: list[str]):
    with pytest.raises(InputError) as error:
        listed(tmp_path, text)
    sentence = str(error.value)
    assert "list.csv" in sentence and "\n" not in sentence
    for word in words:
        assert word in sentence, sentence


def test_files_that_are_no_lists(tmp_path: Path):
    for content in (b"\xff\xfe\x00a", b"target\n\x00\n"):
        (tmp_path / "list.csv").write_bytes(content)
        with pytest.raises(InputError, match=r"list\.csv"):
            read_list(tmp_path / "list.csv", request())
    with pytest.raises(InputError, match="cannot be read"):
        read_list(tmp_path / "none.csv", request())
    with pytest.raises(InputError, match="cannot be read"):
        read_list(tmp_path, request())


def test_options_that_do_not_go_with_many(tmp_path: Path):
    listed(tmp_path, "target\na.glb\n")
    many = ("fit", "--many", tmp_path / "list.csv", "--out", tmp_path / "out")
    refuses(run(*many, "--plan"), "--plan", "--many")
    refuses(run(*many, "--workers", "0"), "--workers", "not 0")
    refuses(run("fit", "--target", tmp_path / "a.glb", "--workers", "2"), "--workers", "--many")
    refuses(run("fit", "--target", tmp_path / "a.glb", "--ray"), "--ray", "--many")
    refuses(run(*many, "--device", "llvmpipe,Voodoo"), "Voodoo")
    assert not (tmp_path / "out").exists()


def test_ray_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import sys

    listed(tmp_path, "target\na.glb\n")
    monkeypatch.setitem(sys.modules, "ray", None)
    refuses(run("fit", "--many", tmp_path / "list.csv", "--out", tmp_path / "out", "--ray"), "dressi[ray]")
    assert not (tmp_path / "out").exists()
