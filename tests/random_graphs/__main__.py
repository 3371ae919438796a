"""Many random graphs, stencils, derivatives, least-squares problems, or schedules of calls, on one device; a line of JSON for each, and a summary at the end.

    PYTHONPATH=tests python -m random_graphs --minutes 30 --seed 1000 --device llvmpipe --json graphs.jsonl
    PYTHONPATH=tests python -m random_graphs stencils --count 1000 --device llvmpipe --json stencils.jsonl
    PYTHONPATH=tests python -m random_graphs lookups --minutes 30 --device llvmpipe --json lookups.jsonl
    PYTHONPATH=tests python -m random_graphs tiles --count 200 --device llvmpipe --json tiles.jsonl
    PYTHONPATH=tests python -m random_graphs derivatives --count 1000 --device llvmpipe --json derivatives.jsonl
    PYTHONPATH=tests python -m random_graphs logic --count 1000 --device llvmpipe --json logic.jsonl
    PYTHONPATH=tests python -m random_graphs residuals --minutes 30 --device llvmpipe --json residuals.jsonl
    PYTHONPATH=tests python -m random_graphs schedules --minutes 30 --device SwiftShader --json schedules.jsonl

A seed that is in the file is not run again. Exits with 1 if anything failed.
"""

import argparse
import json
import sys
import time
import traceback
from collections import Counter
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "ad"))

import conftest

from dressi.vk.run.device.device import Device
from random_graphs.check import Report, check, check_schedule
from random_graphs.operations import CONTRACTIONS, LEFT_OUT, F, missing
from random_graphs.programs import (
    EVERY,
    LOOKUPS,
    changed,
    disagreements,
    random_derivatives,
    random_logic,
    random_program,
    random_stencils,
)
from random_graphs.residuals import check_residuals
from random_graphs.tiles import draw_tiles, forced

DRAWN = {
    "graphs": partial(random_program, operations=EVERY),
    "stencils": random_stencils,
    "contractions": partial(random_stencils, operations=CONTRACTIONS),
    "lookups": partial(random_stencils, operations=LOOKUPS),
    "derivatives": random_derivatives,
    "logic": random_logic,
    "tiles": draw_tiles,
}
CHECKED = {"schedules": check_schedule, "residuals": check_residuals}


def arguments_of() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="random_graphs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=(*DRAWN, *CHECKED), default="graphs")
    parser.add_argument("--minutes", type=float, help="stop after this time")
    parser.add_argument(
        "--count", type=int, help="of seeds at most; default: 100, or as many as the minutes allow"
    )
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--device", help="part of its name; default: the best")
    parser.add_argument(
        "--json", type=Path, help="a line for each seed; seeds that are there are not run again"
    )
    parser.add_argument("--functions", type=int, help="of a graph, about; default: many")
    parser.add_argument(
        "--no-baseline", action="store_true", help="leave out the plan of one Function a pass"
    )
    parser.add_argument("--no-validation", action="store_true")
    return parser.parse_args()


def main() -> int:
    arguments = arguments_of()
    done = {}
    if arguments.json is not None and arguments.json.exists():
        done = {(r := json.loads(line))["seed"]: r for line in arguments.json.read_text().splitlines()}
    validation = conftest.VALIDATION and not arguments.no_validation
    end = time.monotonic() + 60 * arguments.minutes if arguments.minutes else float("inf")
    count = arguments.count or (100 if arguments.minutes is None else sys.maxsize)
    again = f"python -m random_graphs {arguments.what} --count 1 --device {arguments.device!r}"
    again += "".join(
        f" --{name.replace('_', '-')}"
        for name in ("no_baseline", "no_validation")
        if getattr(arguments, name)
    )
    again += f" --functions {arguments.functions}" if arguments.functions else ""
    with Device.open(arguments.device, validation=validation) as device:
        seed = arguments.seed
        while seed < arguments.seed + count and time.monotonic() < end:
            if seed not in done:
                done[seed] = line = run(seed, device, arguments)
                if arguments.json is not None:
                    with arguments.json.open("a") as file:
                        file.write(json.dumps(line) + "\n")
                if line["failures"] or line.get("refused"):
                    print(json.dumps({**line, "used": None}), f"\nagain: {again} --seed {seed}", flush=True)
            seed += 1
    figures = summary(list(done.values()))
    print(json.dumps(figures))
    return int(bool(figures["seeds that fail"]))


def run(seed: int, device: Device, arguments: argparse.Namespace) -> dict:
    """The line of a seed."""
    started, before = time.perf_counter(), len(conftest._messages())
    F.used.clear()
    try:
        if arguments.what in CHECKED:
            report = CHECKED[arguments.what](seed, device)
        else:
            with forced(seed) if arguments.what == "tiles" else nullcontext():
                report = check(
                    seed,
                    device,
                    arguments.functions,
                    baseline=not arguments.no_baseline,
                    draw=DRAWN[arguments.what],
                )
            if arguments.what == "derivatives":
                report.failures += disagreements(seed, arguments.functions)
            if arguments.what == "logic":
                report.failures += changed(seed, arguments.functions)
    except Exception:
        report = Report(seed, failures=[traceback.format_exc(limit=-4)])
    report.failures += [f"validation: {text}" for text in conftest._messages()[before:][:2]]
    return {**asdict(report), "used": dict(F.used), "seconds": round(time.perf_counter() - started, 2)}


def summary(lines: list[dict]) -> dict:
    """How many seeds ran, how many failed in which way, and the operators and options that they used."""
    kinds, used = Counter(), Counter()
    for line in lines:
        texts = line["failures"]
        kinds["off the baseline"] += any("off the baseline" in t for t in texts)
        kinds["off float64"] += any("off float64" in t for t in texts)
        kinds["validation"] += any(t.startswith("validation") for t in texts)
        kinds["errors"] += any("off " not in t and not t.startswith("validation") for t in texts)
        kinds[f"planned for {line['model'] or 'this device'}"] += 1
        kinds["refused"] += bool(line["refused"])
        kinds["values compared"] += line["compared"]
        kinds["values left out because they jump"] += len(line["unstable"])
        kinds["seconds"] += line["seconds"]
        used.update(line["used"])
    failing = [line["seed"] for line in lines if line["failures"]]
    return {
        "seeds": len(lines),
        "seeds that fail": failing,
        "largest error, relative": max((line.get("worst", 0.0) for line in lines), default=0.0),
        **kinds,
        "operators and options": dict(sorted(used.items())),
        "operators that no graph used": missing(used) if used else [],
        "operators that are left out": LEFT_OUT,
    }


if __name__ == "__main__":
    sys.exit(main())
