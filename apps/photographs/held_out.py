"""Fits of photographs with given cameras and masks, judged by their held-out pictures.

    python apps/photographs/held_out.py DRESSI_DATA/photos/dino DRESSI_DATA/photos/dtu24 --json out/held_out.json
    python apps/photographs/held_out.py FOLDER --out out/held_out -- --quick
    python apps/photographs/held_out.py FOLDER --given-masks --json out/held_out.json -- --masks auto

Runs `dressi fit --photos FOLDER` with the options after ``--`` on each folder. Each row is one folder: of its held-out pictures the
IoU; the PSNR with the exposures that are expected of them, without any (``plain``), and with those that are solved for
(``exposed``); both over the interior; seconds of the clock and of the processor, with the load of the machine; and the peak of
the resident memory, of which a device on the processor takes a part. With ``--given-masks``, results of fits whose masks were made
are judged by the masks of the folder, in pictures that are cut to these; the figures by their own masks are under ``made``.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from dressi import DressiAD
from dressi.cli.core.sizes import parse_size
from dressi.cli.fitting.request import QUICK, USUAL
from dressi.render.drawing.draw import draw
from dressi.render.fit.data.dataset import photo_dataset
from dressi.render.fit.data.directional import DirectionalColour
from dressi.render.fit.report import expected_gains, score
from dressi.render.formats import load_scene
from dressi.render.io import load_photos, write_json
from dressi.render.io.calibration import read_calibration


def by_given_masks(folder: Path, out: Path, options: list[str]) -> dict[str, float | None]:
    """Figures of the held-out pictures of a result by the masks of their folder, with the cameras that the fit had."""
    own = (out / "cameras.json", out / "cameras" / "cameras.json", out / "cameras" / "sparse" / "0")
    calibration = read_calibration(folder, next((path for path in own if path.exists()), None))
    report = json.loads((out / "report.json").read_text())
    used = {picture["name"] for pictures in report["pictures"].values() for picture in pictures}
    calibration.views[:] = [view for view in calibration.views if view.image.name in used]
    size = parse_size(options[options.index("--size") + 1]) if "--size" in options else None
    widest = (QUICK if "--quick" in options else USUAL).width
    data = photo_dataset(load_photos(folder, size, cameras=calibration, widest=widest, cut=True))
    views = data.held_out
    assert views is not None and [c.name for c in views.cameras] == [
        p["name"] for p in report["pictures"]["heldout"]
    ]
    gains = report.get("exposures")
    if gains is not None:
        gains = expected_gains(np.array(gains), data.train.cameras, views.cameras)
    scene = load_scene(out / "result.glb")
    mesh, colour = scene.nodes[0].geometry.mesh, DirectionalColour.beside(out / "result.glb", scene)
    shader = None if colour is None else colour.shader(mesh)
    masks, colors = draw(mesh, views.cameras, DressiAD, views.samples, shader=shader)
    return score(views, masks, colors, gains=gains).as_dict()


def fitted(folder: Path, out: Path, options: list[str], given_masks: bool = False) -> dict[str, Any]:
    """The row of a folder. given_masks: whether its own masks judge, not those of the fit."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "dressi", "fit", "--photos", str(folder), "--out", str(out), *options]
    process = subprocess.Popen(command)
    # Of this process alone: the peak of all children is that of the largest fit so far.
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    report = json.loads((out / "report.json").read_text())
    figures = report["metrics"]["heldout"]
    if given_masks:
        figures = {**by_given_masks(folder, out, options), "made": figures}
    return {
        **figures,
        "train_iou": report["metrics"]["train"]["iou"],
        "seconds": time.perf_counter() - began,
        "cpu_s": used.ru_utime + used.ru_stime,
        "peak_gigabytes": used.ru_maxrss * 1024 / 1e9,
        "faces": report["surface"]["faces"],
        "load": os.getloadavg()[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+", help="folders with photographs and cameras.json")
    parser.add_argument("--out", type=Path, help="for the results of the fits, in a folder each")
    parser.add_argument(
        "--given-masks", action="store_true", help="judge results by the masks of the folders"
    )
    parser.add_argument("--json", type=Path)
    own, options = sys.argv[1:], []
    if "--" in own:
        at = own.index("--")
        own, options = own[:at], own[at + 1 :]
    given = parser.parse_args(own)
    rows = {}
    with tempfile.TemporaryDirectory() as temporary:
        for folder in given.folders:
            rows[folder.name] = fitted(
                folder, (given.out or Path(temporary)) / folder.name, options, given.given_masks
            )
    if given.json is not None:
        write_json(given.json, rows)


if __name__ == "__main__":
    main()
