"""What runs on the drivers of `.ci/drivers`, each case in a process of its own with a time limit, and a table of it.

    python .ci/check_drivers.py [--part K/N] [DRIVER ...]   all drivers where none is named; every N-th case, from the K-th on
    python .ci/check_drivers.py build CASE                  what the process of a case does

lavapipe, which executes, passes TESTS. On NVK, RADV, Turnip and Honeykrisp, which execute nothing, the trials of `dressi bench`
and the rounds of a fit are planned, their pipelines built by the driver's compiler, and a step of each recorded and
submitted; no value is read. The newest validation layer watches all of it and must be silent.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dressi import Device, DressiAD
    from dressi.cli.bench.request import Model, Request
    from dressi.cli.bench.work import Pictures
    from dressi.render.cameras import Cameras
    from dressi.render.fit import Dataset, FitOptions
    from dressi.render.mesh import Mesh

HERE = Path(__file__).resolve().parent
EXECUTES, GPUS = "lavapipe", ("nvk", "radv", "turnip", "honeykrisp")
# What drivers implement in different ways: functions, sums and scatters, rasters, barriers, long loops, least squares.
TESTS = (
    "tests/vk/test_functions.py",
    "tests/vk/test_optimizers.py",
    "tests/vk/plan/test_long_loops.py",
    "tests/vk/plan/test_synchronization.py",
    "tests/vk/plan/passes/test_reductions.py",
    "tests/vk/plan/passes/test_scatter.py",
    "tests/vk/plan/passes/tiles/test_products.py",
    "tests/vk/run/test_barriers.py",
    "tests/vk/run/test_least_squares.py",
    "tests/vk/run/test_reactive.py",
    "tests/vk/run/test_readback.py",
    "tests/ad/ops/test_raster.py",
)
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--release")
REPEATED = ("table4", "table5", "figure9")
"""Cases that make the trials of others in other sizes."""
FIT = "fit"
LIMIT, LONGEST = 120.0, 600.0
"""Seconds that a case gets, and that a file of tests gets."""
IDENTIFIER = re.compile(r"VUID-[\w-]+|SYNC-HAZARD-[\w-]+")


class Row(NamedTuple):
    """Of the table. messages: how often the layer spoke."""

    driver: str
    case: str
    right: bool
    said: str
    seconds: float
    messages: int


def build(case: str) -> tuple[str, list[str]]:
    """Builds each trial of a case, submits a step of it and waits. Returns how many there were and on what, and what the
    validation layer said."""
    from dressi import Device
    from dressi.cli.bench.request import Request

    request = Request.parse(case, views=1, size="32", texture_size="32", mesh="small")
    count = 0
    with Device.open(None, validation=True) as device:
        for engine in _rounds(request, device) if case == FIT else _trials(request, device):
            engine.step()
            engine.wait()
            count += 1
        return f"{count} built, {device.name}", list(device.messages)


def _trials(request: Request, device: Device) -> Iterator[DressiAD]:
    from dressi.cli.bench.run import trials_of

    for trial in trials_of(request, _discs):
        with closing(trial.engine(device)) as engine:
            yield engine


def _rounds(request: Request, device: Device) -> Iterator[DressiAD]:
    from dressi import DressiAD
    from dressi.cli.bench.model import fit_rounds
    from dressi.render.fit import planned_dataset

    def scene(mesh: Mesh, options: FitOptions) -> Dataset:
        return planned_dataset(mesh, options.views, options.size)

    for _, _, work, engine in fit_rounds(request, scene, partial(DressiAD, device)):
        work.before(engine, 0)
        yield engine


def _discs(model: Model, mesh: Mesh, ring: Cameras) -> Pictures:
    """Targets that no device has to draw."""
    from dressi.cli.bench.work import Pictures
    from dressi.render.fit import planned_dataset

    seen = planned_dataset(mesh, len(ring), ring[0].size).train
    return Pictures(seen.masks, seen.colors)


def ask(driver: str, case: str, command: Sequence[str], limit: float) -> Row:
    """Runs Python on a driver, with synchronization checks; the last line of what it prints is the outcome."""
    begin = time.perf_counter()
    environment = {**os.environ, "VK_LAYER_VALIDATE_SYNC": "1", "PYTHONPATH": str(HERE.parent)}
    try:
        result = subprocess.run(
            [str(HERE / "drivers"), "with", driver, sys.executable, *command],
            capture_output=True, text=True, errors="replace", timeout=limit, env=environment, cwd=HERE.parent, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Row(driver, case, False, f"does not end within {limit:.0f} s", time.perf_counter() - begin, 0)
    printed = result.stdout + result.stderr
    messages = len(IDENTIFIER.findall(printed))
    right = result.returncode == 0 and not messages
    if not right:
        print(f"---- {case} on {driver}: exit code {result.returncode}\n{printed[-6000:]}", file=sys.stderr)
    lines = (result.stdout if result.returncode == 0 else printed).strip().splitlines()
    said = lines[-1] if lines else f"exit code {result.returncode}"
    return Row(driver, case, right, said, time.perf_counter() - begin, messages)


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["build"]:
        built, messages = build(arguments[1])
        print("\n".join(messages), file=sys.stderr)
        print(built)
        return 1 if messages else 0

    from rich.console import Console
    from rich.table import Table

    from dressi.cli.bench.cases import CASES

    first, stride = 0, 1
    if arguments[:1] == ["--part"]:
        part = "".join(arguments[1:2])
        if not (given := re.fullmatch(r"(\d+)/(\d+)", part)) or not int(given[2]):
            sys.exit(f"drivers: --part {part!r} is not K/N, as 3/10")
        first, stride = int(given[1]) % int(given[2]), int(given[2])
        arguments = arguments[2:]
    unknown = set(arguments) - {EXECUTES, *GPUS}
    if unknown:
        sys.exit(
            f"drivers: there is no driver {', '.join(unknown)}; there are {', '.join((EXECUTES, *GPUS))}"
        )
    wanted = [driver for driver in (EXECUTES, *GPUS) if driver in arguments or not arguments]
    cases = [case for case in (*CASES, FIT) if case not in REPEATED]
    begin = time.perf_counter()
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        jobs = []
        for driver in wanted:
            if driver == EXECUTES:
                jobs += [(driver, Path(t).stem, (*PYTEST, t), LONGEST) for t in TESTS]
            else:
                jobs += [(driver, c, (__file__, "build", c), LIMIT) for c in cases]
        rows = list(pool.map(lambda job: ask(*job), jobs[first::stride]))
    table = Table("driver", "case", "", "outcome", "seconds", "validation messages")
    for row in rows:
        mark = "right" if row.right else "wrong"
        table.add_row(row.driver, row.case, mark, row.said[:80], f"{row.seconds:.1f}", str(row.messages))
    Console(width=150).print(table)
    wrong = sum(not row.right for row in rows)
    print(f"drivers: {len(rows)} cases, {wrong} wrong, {time.perf_counter() - begin:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
