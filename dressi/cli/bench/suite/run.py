"""Runs every unit that has no results yet, whatever becomes of the others, and makes the page."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from dressi.cli.bench.run import measured
from dressi.cli.bench.suite.folder import Processor, SuiteFolder, now
from dressi.cli.bench.suite.units import Unit, units
from dressi.cli.interrupt import INTERRUPTED
from dressi.cli.terminal import say
from dressi.errors import DressiError, NoDriverError
from dressi.report import write_report


def run_suite(out: Path, given: dict[str, Any], *, fresh: bool = False) -> int:
    """Measures, writes and shows. given: the options of the command line, None where the cases decide.

    Ctrl-C keeps what was measured, makes the page of that, and returns 130; the same command goes on. Raises InputError and
    NoDriverError before anything is measured.
    """
    wanted = units(given)
    for unit in wanted:
        unit.request()
    folder = SuiteFolder.open(out, given, fresh)
    left = [unit for unit in wanted if not folder.done(unit)]
    if len(left) < len(wanted):
        say(
            f"dressi: {len(wanted) - len(left)} of {len(wanted)} parts are measured already; --fresh repeats them"
        )
    failed, code = 0, 0
    for k, unit in enumerate(left):
        say(f"dressi: part {len(wanted) - len(left) + k + 1} of {len(wanted)}: {unit.name}")
        try:
            results = _crash(unit) if folder.crashed(unit) else _results(unit, folder)
        except KeyboardInterrupt:
            folder.interrupted(unit)
            kept = sum(map(folder.done, wanted))
            say(f"dressi: interrupted; {kept} of {len(wanted)} parts are kept, and the same command goes on")
            code = INTERRUPTED
            break
        folder.keep(unit, results)
        failed += any("error" in result for result in results)
        for sentence in dict.fromkeys(result["error"] for result in results if "error" in result):
            say(f"dressi: {unit.name}: {sentence}")
    if failed:
        say(f"dressi: {failed} parts failed, which the page lists; the same command tries them again")
    if any(folder.file(unit).is_file() for unit in wanted):
        page = write_report(out)
        print(f"the page is '{page}' ({page.stat().st_size / 1e6:.1f} MB)")
    return code


def _results(unit: Unit, folder: SuiteFolder) -> list[dict[str, Any]]:
    """What the unit measures, or one result with an ``error`` where nothing can be measured. Raises NoDriverError."""
    folder.begin(unit)
    when, start, before = now(), time.perf_counter(), Processor.read()
    try:
        results, errors = measured(unit.request())
    except NoDriverError:
        folder.interrupted(unit)
        raise
    except (DressiError, MemoryError) as error:
        return [_failure(unit, str(error) or "there is not enough memory")]
    others = Processor.read().others_since(before, time.perf_counter() - start)
    for result in results:
        result.pop("exception", None)
        result["when"], result["others"] = when, others
    return [*results, *(_failure(unit, str(error)) for error in errors)]


def _crash(unit: Unit) -> list[dict[str, Any]]:
    return [_failure(unit, f"the program ended while it measured this; `{unit.command}` alone may show why")]


def _failure(unit: Unit, sentence: str) -> dict[str, Any]:
    line = sentence.strip().splitlines()[0] if sentence.strip() else "failed without a word"
    return {"case": unit.case, "label": unit.name, "error": line, "when": now()}
