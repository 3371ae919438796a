"""Fits of photographs with given cameras and masks, judged by their held-out pictures.

    python apps/photographs/held_out.py DRESSI_DATA/photos/dino DRESSI_DATA/photos/dtu24 --json out/held_out.json
    python apps/photographs/held_out.py FOLDER --out out/held_out -- --quick

Runs `dressi fit --photos FOLDER` with the options after ``--`` on each folder. Each row is one folder: of its held-out pictures the
IoU; the PSNR with the exposures that are expected of them, without any (``plain``), and with those that are solved for
(``exposed``); both over the interior; seconds of the clock and of the processor, with the load of the machine; and the peak of
the resident memory, of which a device on the processor takes a part.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dressi.render.io import write_json


def fitted(folder: Path, out: Path, options: list[str]) -> dict[str, float]:
    """The row of a folder."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "dressi", "fit", "--photos", str(folder), "--out", str(out), *options]
    process = subprocess.Popen(command)
    # Of this process alone: the peak of all children is that of the largest fit so far.
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    report = json.loads((out / "report.json").read_text())
    return {
        **report["metrics"]["heldout"],
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
    parser.add_argument("--json", type=Path)
    own, options = sys.argv[1:], []
    if "--" in own:
        at = own.index("--")
        own, options = own[:at], own[at + 1 :]
    given = parser.parse_args(own)
    rows = {}
    with tempfile.TemporaryDirectory() as temporary:
        for folder in given.folders:
            rows[folder.name] = fitted(folder, (given.out or Path(temporary)) / folder.name, options)
    if given.json is not None:
        write_json(given.json, rows)


if __name__ == "__main__":
    main()
