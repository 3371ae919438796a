"""Hostile files against every reader, each loaded by a process with little memory and time.

    PYTHONPATH=.:tests python -m hostile_files --minutes 30 --seed 1 --json out.json

Every eighth file is whole and known: what it loads as is compared with what was written into it (areas of polygons, colours
of faces, places of morphs and skins), for which a refusal is wrong, too. Any other file is right when it loads or is refused
by one sentence. A traceback, a process that dies, one that takes longer than
--seconds or prints pages is wrong; it is printed with the command that repeats it, and the exit code is 1.
"""

import argparse
import json
import multiprocessing
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

from hostile_files.bombs import bomb
from hostile_files.files import whole
from hostile_files.known import known
from hostile_files.mutations import Outcome, mutation, serve

WARM = (
    "a.glb",
    "a.obj",
    "m.obj",
    "r.gltf",
    "face.npz",
    "net.safetensors",
    "t.off",
    "i.exr",
    "i.hdr",
    "deep.png",
    "i.webp",
    "set0/cameras.json",
    "fit/report.json",
    "bench/results.json",
    "lists/many.csv",
    "lists/checkpoint.npz",
)
"""Whole files of every reader, whose imports come before the limit."""


class Worker:
    """A process that loads files, and the next one when it is gone. dead: what ended the last."""

    def __init__(self, folder: Path, memory: int, seconds: float):
        self.folder, self.memory, self.seconds = folder, memory, seconds
        self.start()

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        warm = [self.folder / "warm" / name for name in WARM]
        self.process = context.Process(target=serve, args=(other, self.memory << 20, warm), daemon=True)
        self.process.start()
        other.close()

    def load(self, path: Path) -> Outcome:
        self.pipe.send(path)
        try:
            if self.pipe.poll(self.seconds):
                return self.pipe.recv()
            wrong = f"longer than {self.seconds:g} s"
        except (EOFError, OSError):
            self.process.join()
            wrong = f"the process died with code {self.process.exitcode}"
        self.process.kill()
        self.process.join()
        self.start()
        return Outcome(False, "", wrong)

    def close(self) -> None:
        self.pipe.send(None)
        self.process.join()


def main() -> int:
    parser = argparse.ArgumentParser(prog="hostile_files", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--count", type=int, help="files, instead of a time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="the number of one file")
    parser.add_argument("--memory", type=int, default=512, help="MB that reading may add (512)")
    parser.add_argument("--seconds", type=float, default=60.0, help="of one file (60)")
    parser.add_argument("--json", type=Path, help="where to write the summary")
    parser.add_argument("--keep", type=Path, help="folder for the files that went wrong")
    given = parser.parse_args()
    summary = run(given)
    if given.json is not None:
        given.json.write_text(json.dumps(summary, indent=1) + "\n")
    print(json.dumps({key: value for key, value in summary.items() if key != "wrong"}))
    return 1 if summary["wrong"] else 0


def run(given: argparse.Namespace) -> dict:
    """The summary of a run."""
    kinds: Counter[str] = Counter()
    wrong: list[dict] = []
    slowest: tuple[float, str] = (0.0, "")
    longest = 0
    peak, number, end = 0, given.only or 0, time.monotonic() + 60 * given.minutes
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        files = whole(folder)
        whole(folder / "warm")
        worker = Worker(folder, given.memory, given.seconds)
        begun = number
        while _goes_on(given, number - begun, end):
            random = np.random.default_rng((given.seed, number))
            if number % 8 == 1:
                path = known(folder, random)
                before = path.read_bytes()
            else:
                path, data = bomb(folder, random) if number % 4 == 3 else mutation(files, random)
                before = path.read_bytes() if path.exists() else None
                path.write_bytes(data)
            start = time.monotonic()
            outcome = worker.load(path)
            took, name = time.monotonic() - start, f"{path.relative_to(folder)}"
            slowest, peak = max(slowest, (took, f"{number} {name}")), max(peak, outcome.peak)
            if path.parent.name == "known":
                kinds["known"] += 1
                if not outcome.loaded and not outcome.wrong:
                    outcome = replace(outcome, wrong=f"a whole file was refused: {outcome.said}")
            what = "wrong" if outcome.wrong else "loaded" if outcome.loaded else "refused"
            kinds[f"{path.suffix} {what}"] += 1
            kinds[what] += 1
            kinds["warned"] += outcome.warned
            longest = max(longest, outcome.longest)
            kinds["refused for memory"] += "MemoryError" in outcome.said
            if outcome.wrong:
                again = f"python -m hostile_files --seed {given.seed} --only {number}"
                wrong.append({"file": name, "wrong": outcome.wrong, "again": again})
                print(f"WRONG {name}: {outcome.wrong}\n    {again}", flush=True)
                if given.keep is not None:
                    given.keep.mkdir(parents=True, exist_ok=True)
                    shutil.copy(path, given.keep / f"{number}-{path.name}")
            elif given.only is not None:
                print(outcome.said or "loaded")
            if before is None:
                path.unlink()
            else:
                path.write_bytes(before)
            if (folder / "set0" / "depth").is_dir():
                shutil.rmtree(folder / "set0" / "depth")
            number += 1
        worker.close()
    return {
        "files": number - begun, "seed": given.seed, "memory": given.memory, "slowest": slowest, "peak": peak, "longest message": longest, **kinds, "wrong": wrong,
    }  # fmt: skip


def _goes_on(given: argparse.Namespace, done: int, end: float) -> bool:
    if given.only is not None:
        return done < 1
    return done < given.count if given.count is not None else time.monotonic() < end


if __name__ == "__main__":
    sys.exit(main())
