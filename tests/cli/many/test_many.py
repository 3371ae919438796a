"""`dressi fit --many` from the list to the table, with a killed worker and Ctrl-C in between."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from command_line import run
from disturbed import differences, kill_worker, start, table

from dressi.render.formats import save_mesh
from dressi.render.mesh.primitives import octasphere, pear

pytestmark = [
    pytest.mark.release,
    pytest.mark.usefixtures("driver"),
    pytest.mark.skipif(sys.platform == "win32", reason="signals"),
]

# A round of the shape, and the texture: programs, not steps, are what takes time.
OPTIONS = ("--views", "3", "--size", "24", "--steps", "2", "--texture-size", "16", "--no-colours")


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
