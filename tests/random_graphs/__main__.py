"""Many random graphs on one device; a line of JSON for each that says something, and a summary at the end."""

import argparse
import json
import sys
import time
import traceback
from collections import Counter
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import conftest

from dressi.vk.run.device.device import Device

from .check import Report, check


def main() -> None:
    parser = argparse.ArgumentParser(prog="random_graphs", description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="of the first graph")
    parser.add_argument("--device", help="part of its name; default: the best")
    parser.add_argument(
        "--out", type=Path, help="a line for each graph; graphs that are there are not run again"
    )
    parser.add_argument("--functions", type=int, help="of a graph, about; default: many")
    parser.add_argument(
        "--no-baseline", action="store_true", help="leave out the plan of one Function a pass"
    )
    parser.add_argument("--no-validation", action="store_true")
    arguments = parser.parse_args()
    done = {}
    if arguments.out is not None and arguments.out.exists():
        done = {(r := json.loads(line))["seed"]: r for line in arguments.out.read_text().splitlines()}
    validation = conftest.VALIDATION and not arguments.no_validation
    with Device.open(arguments.device, validation=validation) as device:
        for seed in range(arguments.seed, arguments.seed + arguments.count):
            if seed in done:
                continue
            started, before = time.perf_counter(), len(conftest._messages())
            try:
                report = check(seed, device, arguments.functions, baseline=not arguments.no_baseline)
            except Exception:
                report = Report(seed, failures=[traceback.format_exc(limit=-4)])
            said = conftest._messages()[before:]
            report.failures += [f"validation: {text}" for text in said[:2]]
            line = {**asdict(report), "seconds": round(time.perf_counter() - started, 2)}
            done[seed] = line
            if arguments.out is not None:
                with arguments.out.open("a") as file:
                    file.write(json.dumps(line) + "\n")
            if report.failures or report.refused:
                print(json.dumps(line), flush=True)
    print(json.dumps(summary(list(done.values()))))


def summary(lines: list[dict]) -> dict:
    """How many graphs ran, how many failed in which way."""
    kinds = Counter()
    for line in lines:
        texts = line["failures"]
        kinds["off the baseline"] += any("off the baseline" in t for t in texts)
        kinds["off float64"] += any("off float64" in t for t in texts)
        kinds["validation"] += any(t.startswith("validation") for t in texts)
        kinds["errors"] += any("off " not in t and not t.startswith("validation") for t in texts)
        kinds[f"planned for {line['model']}"] += 1
        kinds["refused"] += bool(line["refused"])
        kinds["values compared"] += line["compared"]
        kinds["values left out because they jump"] += len(line["unstable"])
        kinds["seconds"] += line["seconds"]
    return {"graphs": len(lines), **kinds}


if __name__ == "__main__":
    main()
