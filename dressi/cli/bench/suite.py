"""`dressi bench all` and `tables`: many cases in one command, one file a unit, and the page of all of them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Any

from ...errors import DressiError, InputError, NoDriverError
from ...render.io import write_json
from ...render.io.files import read_json, usable, write_files
from ...report import write_report
from ...report.bench.tables import GRIDS, MANIFEST, BenchFolder, is_list_of_results, tables_text
from ..core.interrupt import INTERRUPTED
from ..core.terminal import say
from .names import CASES, RIVALS, TABLES
from .request import DEFAULTS, QUICK, Request
from .run import measured

# The folder of `dressi bench all`: a file a unit, and ``bench.json``, the request and its state.

TRIES = 2
"""How often a unit that ends the whole program is tried."""


@dataclass
class SuiteFolder:
    """state: what the manifest holds: the options, the units that are done, and how often each was begun."""

    path: Path
    state: dict[str, Any]

    @classmethod
    def open(cls, path: Path, options: dict[str, Any], fresh: bool) -> SuiteFolder:
        """The folder, made where it is not there. fresh: whether results of before are measured again. Raises
        InputError: results of other options, a damaged manifest, a place that cannot be written."""
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"--out '{path}' cannot be made ({error.strerror}); choose another folder"
            ) from None
        manifest = path / MANIFEST
        state: dict[str, Any] = {"options": options, "begun": {}, "started": now(), "done": []}
        if manifest.exists() and not fresh:
            before = read_json(manifest, "list of what was measured")
            with usable(manifest, "its list of what was measured"):
                if before["options"] != options:
                    raise InputError(
                        f"'{path}' has results of other options; add --fresh to measure again, or choose another --out"
                    )
                state["begun"] = {str(name): int(count) for name, count in before["begun"].items()}
                state["started"], state["done"] = str(before["started"]), list(map(str, before["done"]))
        folder = cls(path, state)
        folder._write()
        return folder

    def file(self, unit: Unit) -> Path:
        return self.path / f"{unit.name}.json"

    def done(self, unit: Unit) -> bool:
        """Whether the unit has results. Units that failed are tried again."""
        return unit.name in self.state["done"] and self.file(unit).is_file()

    def begin(self, unit: Unit) -> bool:
        """False where the program has ended in the middle of this unit each time it was tried."""
        begun = self.state["begun"]
        if begun.get(unit.name, 0) >= TRIES:
            return False
        begun[unit.name] = begun.get(unit.name, 0) + 1
        self._write()
        return True

    def interrupted(self, unit: Unit) -> None:
        """The user ended it, not the unit itself."""
        self.state["begun"].pop(unit.name, None)
        self._write()

    def keep(self, unit: Unit, results: list[dict[str, Any]]) -> None:
        """Write the results of a unit; one with a failure is tried again next time."""
        write_json(self.file(unit), results)
        self.state["begun"].pop(unit.name, None)
        done = [name for name in self.state["done"] if name != unit.name]
        self.state["done"] = done if any("error" in result for result in results) else [*done, unit.name]
        self._write()

    def _write(self) -> None:
        write_json(self.path / MANIFEST, self.state)


def now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")


@dataclass(frozen=True)
class Processor:
    """Seconds of processor time so far: of all programs (None where that cannot be read), and of this one."""

    all: float | None
    own: float

    @classmethod
    def read(cls) -> Processor:
        times = os.times()
        own = times.user + times.system + times.children_user + times.children_system
        try:
            fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
            user, nice, system, _idle, _wait, interrupts, soft = map(int, fields[:7])
            busy = (user + nice + system + interrupts + soft) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, AttributeError):
            busy = None
        return cls(busy, own)

    def others_since(self, before: Processor, seconds: float) -> float | None:
        """The part of the processor, in [0, 1], that other programs used meanwhile."""
        if self.all is None or before.all is None or seconds <= 0:
            return None
        others = (self.all - before.all) - (self.own - before.own)
        return min(max(others / (seconds * (os.cpu_count() or 1)), 0.0), 1.0)


# Runs every unit that has no results yet, whatever becomes of the others, and makes the page.


def run_suite(
    out: Path, given: dict[str, Any], *, tables: bool = False, quick: bool = False, against: Path | None = None,
    fresh: bool = False,
) -> int:  # fmt: skip
    """Measures, writes and shows. given: the options of the command line, None where the cases decide.

    tables: those of the paper alone, which are printed, and written as tables.md and tables.json.  quick: less
    of each, in two minutes.  against: results of another machine, a file or a folder, which join the tables.

    Ctrl-C keeps what was measured, makes the page of that, and returns 130; the same command goes on. Raises
    InputError and NoDriverError before anything is measured.
    """
    wanted = [unit for case in (TABLES if tables else CASES) for unit in units_of(case, given, quick)]
    for unit in wanted:
        unit.request()
    records = {} if against is None else _records(against)
    folder = SuiteFolder.open(out, {**given, "quick": quick}, fresh)
    for name, results in records.items():
        write_json(out / name, results)
    left = [unit for unit in wanted if not folder.done(unit)]
    if len(left) < len(wanted):
        say(
            f"dressi: {len(wanted) - len(left)} of {len(wanted)} parts are measured already; --fresh repeats them"
        )
    failed, code = 0, 0
    for k, unit in enumerate(left):
        say(f"dressi: part {len(wanted) - len(left) + k + 1} of {len(wanted)}: {unit.name}")
        try:
            results = _results(unit, folder)
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
        page, found = write_report(out), BenchFolder.read(out)
        if tables and found is not None:
            text, grids = tables_text(found)
            write_json(out / GRIDS, grids)
            write_files({out / "tables.md": text.encode()})
            print(text)
        print(f"the page is '{page}' ({page.stat().st_size / 1e6:.1f} MB)")
    return code


def _results(unit: Unit, folder: SuiteFolder) -> list[dict[str, Any]]:
    """What the unit measures, or one result with an ``error``. Raises NoDriverError."""
    if not folder.begin(unit):
        why = f"the program ended while it measured this; `{unit.command}` alone may show why"
        return [_failure(unit, why)]
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


def _failure(unit: Unit, sentence: str) -> dict[str, Any]:
    line = sentence.strip().splitlines()[0] if sentence.strip() else "failed without a word"
    return {"case": unit.case, "label": unit.name, "error": line, "when": now()}


# What `dressi bench all` is made of: units that are measured, written and resumed one by one.

BATCHES = 31
"""Most timed batches of a case, where the user asks for no other number."""


@dataclass(frozen=True)
class Unit:
    """A part of a case: one mesh, size and texture.  options: those of `dressi bench`, as texts or numbers,
    None for what the case decides."""

    case: str
    options: dict[str, Any]

    @property
    def name(self) -> str:
        """The name of its file without the ending."""
        parts = [self.options.get(key) for key in ("mesh", "size", "texture_size", "profile")]
        return "-".join([self.case, *(str(part).replace("/", "_") for part in parts if part is not None)])

    def request(self) -> Request:
        """Raises InputError."""
        return Request.parse(self.case, **self.options)

    @property
    def command(self) -> str:
        """The command that measures it alone."""
        given = {k: v for k, v in self.options.items() if v is not None and k not in ("peels", "quick")}
        words = [f"--{key.replace('_', '-')} {value}" for key, value in given.items()]
        return " ".join(["dressi", "bench", self.case, *words])


def units_of(case: str, given: dict[str, Any], quick: bool = False) -> Iterator[Unit]:
    """The units of a case in their order. given: the options of the command line, None where the case decides."""
    usual = DEFAULTS[case]
    if quick:
        given = given | {name: value for name, value in QUICK[case].items() if given[name] is None}
    options = {
        **given,
        "device": given["device"] or (None if quick else "all"),
        "batches": given["batches"] or min(usual.batches, BATCHES),
        # Rivals that are not installed are a remark in the results.
        "peer": ",".join(RIVALS.get(case, ())) or None,
        "quick": quick,
    }
    usual_values = {"mesh": usual.meshes, "size": usual.sizes, "texture_size": usual.textures, "profile": ()}
    axes = {name: _each(given[name], values) for name, values in usual_values.items()}
    for chosen in product(*axes.values()):
        yield Unit(case, options | dict(zip(axes, chosen, strict=True)))


def _records(path: Path) -> dict[str, Any]:
    """Results of another machine by the names of their files here. Raises InputError."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    found = {
        f"against-{file.name}": read_json(file, "list of results")
        for file in files
        if file.name not in (MANIFEST, GRIDS)
    }
    found = {name: results for name, results in found.items() if is_list_of_results(results)}
    if not found:
        raise InputError(
            f"'{path}' holds no results; give what `dressi bench CASE --json` or `bench tables --out` wrote there"
        )
    return found


def _each(text: str | None, usual: tuple[Any, ...]) -> Sequence[str | None]:
    """The values of an option one by one; the option as it was given where it has one value."""
    values = list(map(str, usual)) if text is None else [part.strip() for part in text.split(",")]
    return values if len(values) > 1 else [text]
