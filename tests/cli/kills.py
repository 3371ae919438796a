"""Kills small fits at random moments and resumes them: nothing may be lost, and the results are equal bit by
bit.

    python tests/cli/kills.py --fits 100 --out out/kills [--signals KILL INT TERM] [--seed 0]

Each fit is started, hit by a signal after a random time, and started again (with --resume where there is a
checkpoint) until it ends by itself. Then its mesh and its losses are compared with those of a fit that nobody
disturbed, and its folder must hold the results and nothing else. Writes kills.json after each fit; fits that
are in it are not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

from dressi.render.fit import FILES
from dressi.render.fit.disk import NAME
from dressi.render.fit.disk.checkpoint import OLD
from dressi.render.fit.report import HELD_OUT, STAGES
from dressi.render.formats import save_mesh
from dressi.render.io import write_json
from dressi.render.mesh.primitives import pear

# Checkpoints every few steps: kills then meet them half written, too.
CODE = """
from dressi.cli.core.interrupt import imports
with imports():
    import dressi.render.fit.phases.remeshed as unfold
    from dressi.render.fit import job as running
running.SAVE_SECONDS = 0.02
unfold.CELLS = 32  # of a grid for thumbnails
from dressi.cli import main
main()
"""
OPTIONS = "--views 3 --size 32 --steps 60 --texture-size 16 --no-colours".split()


@dataclass
class Outcome:
    """Of one fit. kills: the signals, and the seconds after which each came.  wrong: what was lost or said;
    empty is well."""

    seed: int
    kills: list[tuple[str, float]] = field(default_factory=list)
    resumed: int = 0
    wrong: list[str] = field(default_factory=list)


def start(target: Path, folder: Path, resume: bool) -> subprocess.Popen[str]:
    options = ["--target", str(target), "--out", str(folder), *OPTIONS, *(["--resume"] if resume else [])]
    return subprocess.Popen(
        [sys.executable, "-c", CODE, "fit", *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def undisturbed(target: Path, folder: Path) -> dict[str, bytes]:
    with start(target, folder, False) as process:
        _, said = process.communicate()
    if process.returncode:
        raise SystemExit(f"the fit that nobody disturbed failed: {said}")
    return results(folder)


def results(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in ("result.glb", "loss.csv")}


def disturbed(
    target: Path,
    folder: Path,
    expected: dict[str, bytes],
    seed: int,
    signals: list[str],
    most: int,
    longest: float,
) -> Outcome:
    """One fit that is hit up to ``most`` times, each time within ``longest`` seconds."""
    chance, outcome = random.Random(seed), Outcome(seed)
    while True:
        resume = (folder / NAME).is_file()
        outcome.resumed += resume
        process = start(target, folder, resume)
        after = chance.uniform(0.05, longest) if len(outcome.kills) < most else None
        name = chance.choice(signals)
        try:
            _, said = process.communicate(timeout=after)
        except subprocess.TimeoutExpired:
            process.send_signal(getattr(signal, f"SIG{name}"))
            _, said = process.communicate(timeout=300)
            outcome.kills.append((name, round(after or 0, 3)))
        if "Traceback" in said and after is not None and after > 0.3:
            outcome.wrong.append(f"said {said[-300:]!r}")
        if process.returncode == 0:
            break
        if process.returncode == 2 or after is None:
            outcome.wrong.append(f"ended with {process.returncode}: {said[-300:]!r}")
            return outcome
    for name, content in results(folder).items():
        if content != expected[name]:
            outcome.wrong.append(f"{name} differs")
    left = {entry.name for entry in folder.iterdir()} - {*FILES, HELD_OUT, STAGES, OLD}
    if left:
        outcome.wrong.append(f"left behind: {', '.join(sorted(left))}")
    return outcome


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fits", type=int, default=20)
    parser.add_argument("--most", type=int, default=6, help="signals for each fit")
    parser.add_argument("--longest", type=float, default=6.0, help="seconds before a signal")
    parser.add_argument("--signals", nargs="+", default=["KILL", "INT", "TERM"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("out/kills"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "kills.json"
    found = json.loads(path.read_text()) if path.is_file() else []
    done = {entry["seed"] for entry in found}
    with tempfile.TemporaryDirectory() as temporary:
        target = Path(temporary) / "pear.glb"
        save_mesh(target, pear(16, 12, 32))
        expected = undisturbed(target, Path(temporary) / "whole")
        for seed in range(options.seed, options.seed + options.fits):
            if seed in done:
                continue
            folder = Path(temporary) / str(seed)
            outcome = disturbed(
                target, folder, expected, seed, options.signals, options.most, options.longest
            )
            found.append(asdict(outcome))
            write_json(path, found)
            shutil.rmtree(folder, ignore_errors=True)
            print(
                f"seed {seed}: {len(outcome.kills)} signals, {outcome.resumed} resumed, {outcome.wrong or 'well'}",
                flush=True,
            )
    kills = sum(len(entry["kills"]) for entry in found)
    wrong = [entry for entry in found if entry["wrong"]]
    print(
        f"{len(found)} fits, {kills} signals, {sum(e['resumed'] for e in found)} resumed, {len(wrong)} wrong; see {path}"
    )
    sys.exit(bool(wrong))


if __name__ == "__main__":
    os.environ.setdefault("DRESSI_CACHE", tempfile.mkdtemp(prefix="dressi-kills-"))
    main()
