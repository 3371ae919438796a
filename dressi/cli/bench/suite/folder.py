"""The folder of `dressi bench all`: a file a unit, and ``bench.json``, which says what was asked for and how it goes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from dressi.cli.bench.suite.units import Unit
from dressi.errors import InputError
from dressi.render.io import write_json
from dressi.render.io.files import read_json, usable
from dressi.report.bench.folder import MANIFEST

TRIES = 2
"""How often a unit that ends the whole program is tried."""


@dataclass
class SuiteFolder:
    """path: of the folder.  state: what its manifest holds: the options, and how often each unit was begun without an end."""

    path: Path
    state: dict[str, Any]

    @classmethod
    def open(cls, path: Path, options: dict[str, Any], fresh: bool) -> SuiteFolder:
        """The folder, made where it is not there. fresh: whether results of before are measured again. Raises InputError:
        results of other options, a damaged manifest, a place that cannot be written."""
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"--out '{path}' cannot be made ({error.strerror}); choose another folder"
            ) from None
        manifest = path / MANIFEST
        state: dict[str, Any] = {"options": options, "begun": {}, "started": now(), "done": []}
        if manifest.exists() and not fresh:
            found = read_json(manifest, "list of what was measured")
            with usable(manifest, "its list of what was measured"):
                if found["options"] != options:
                    raise InputError(
                        f"'{path}' has results of other options; add --fresh to measure again, or choose another --out"
                    )
                begun = {str(name): int(count) for name, count in found["begun"].items()}
                state = {
                    **state,
                    "begun": begun,
                    "started": str(found["started"]),
                    "done": list(map(str, found["done"])),
                }
        folder = cls(path, state)
        folder._write()
        return folder

    def file(self, unit: Unit) -> Path:
        return self.path / f"{unit.name}.json"

    def done(self, unit: Unit) -> bool:
        """Whether the unit has results. Units that failed are tried again."""
        return unit.name in self.state["done"] and self.file(unit).is_file()

    def crashed(self, unit: Unit) -> bool:
        """Whether the program has ended in the middle of this unit each time it was tried."""
        return self.state["begun"].get(unit.name, 0) >= TRIES

    def begin(self, unit: Unit) -> None:
        begun = self.state["begun"]
        begun[unit.name] = begun.get(unit.name, 0) + 1
        self._write()

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
