"""What `dressi bench` leaves in a folder, read with care: any of it may be damaged, or of another program."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...render.io.files import read_json, shown, usable
from ..parts.timeline import StageRow, stage_rows

MANIFEST = "bench.json"
MOST_FILES = 1000


@dataclass(frozen=True)
class Measured:
    """One result. key: what was measured, apart from the device.  facts: as they stand in the file."""

    case: str
    label: str
    device: str
    driver: str
    settings: dict[str, Any]
    step_ms: float
    facts: dict[str, Any]
    stages: list[StageRow] = field(default_factory=list)

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.case, self.label, *sorted((name, str(value)) for name, value in self.settings.items()))

    @property
    def faces(self) -> int:
        """Of its mesh; 0 without one."""
        return int(self.settings.get("faces", 0))

    @property
    def size(self) -> tuple[int, int]:
        width, height = self.settings["size"]
        return int(width), int(height)

    @property
    def agreement(self) -> dict[str, Any]:
        """How far it is from the result of another device; empty for that one."""
        found = self.facts.get("agreement")
        return found if isinstance(found, dict) else {}

    def number(self, *names: str) -> float | None:
        """A number deep in the facts; None where there is none."""
        found: Any = self.facts
        for name in names:
            found = found.get(name) if isinstance(found, dict) else None
        return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


@dataclass(frozen=True)
class Failed:
    """What could not be measured, and why."""

    case: str
    what: str
    device: str
    sentence: str


@dataclass(frozen=True)
class BenchFolder:
    """devices: by name, in the order in which they come, with their drivers.  ignored: files that hold no results."""

    path: Path
    measured: list[Measured]
    failed: list[Failed]
    devices: dict[str, str]
    ignored: list[str]

    @classmethod
    def read(cls, path: Path) -> BenchFolder | None:
        """None where no file holds results. Raises InputError, which names the file and the cure."""
        measured: list[Measured] = []
        failed: list[Failed] = []
        ignored: list[str] = []
        files = sorted(file for file in path.iterdir() if file.suffix == ".json" and file.name != MANIFEST)
        if len(files) > MOST_FILES:
            raise InputError(
                f"'{path}' has {len(files)} JSON files, and at most {MOST_FILES} are read; split it"
            )
        for file in files:
            results = read_json(file, "list of results")
            if not _is_list_of_results(results):
                ignored.append(file.name)
                continue
            with usable(file, "one of its results"):
                for result in results:
                    (failed if "error" in result else measured).append(_one(result))  # type: ignore[arg-type]
        if not measured and not failed:
            return None
        measured.sort(key=_speed(measured))
        return cls(path, measured, failed, {m.device: m.driver for m in measured}, ignored)

    def of(self, *cases: str) -> list[Measured]:
        return [one for one in self.measured if one.case in cases]

    def groups(self, *cases: str) -> Iterator[dict[str, Measured]]:
        """Results of the same work, by device."""
        found: dict[tuple[Any, ...], dict[str, Measured]] = {}
        for one in self.of(*cases):
            found.setdefault(one.key, {})[one.device] = one
        yield from found.values()


def _speed(measured: list[Measured]) -> Callable[[Measured], float]:
    """A key that puts results of the device first that is the fastest by the mean logarithm of its steps, in works that all
    devices have done, or in all."""
    works: dict[tuple[Any, ...], set[str]] = {}
    for one in measured:
        works.setdefault(one.key, set()).add(one.device)
    count = len({one.device for one in measured})
    common = [one for one in measured if len(works[one.key]) == count] or measured
    times: dict[str, list[float]] = {}
    for one in common:
        times.setdefault(one.device, []).append(math.log(max(one.step_ms, 1e-9)))
    return lambda one: sum(times[one.device]) / len(times[one.device]) if one.device in times else math.inf


def _is_list_of_results(results: Any) -> bool:
    return (
        isinstance(results, list)
        and bool(results)
        and all(isinstance(one, dict) and isinstance(one.get("case"), str) for one in results)
        and all("error" in one or "step_ms" in one for one in results)
    )


def _one(result: dict[str, Any]) -> Measured | Failed:
    if "error" in result:
        what = ", ".join(str(part) for part in (result.get("label"), _size(result)) if part)
        return Failed(result["case"], what, str(result.get("device", "")), shown(result["error"]))
    settings = result["settings"]
    if not isinstance(settings, dict) or len(settings["size"]) != 2:
        raise ValueError("settings without a size")
    return Measured(
        result["case"],
        str(result["label"]),
        str(result["device"]),
        str(result["driver"]),
        settings,
        float(result["step_ms"]),
        result,
        stage_rows(result.get("stages") or []),
    )


def _size(result: dict[str, Any]) -> str:
    settings = result.get("settings")
    return "x".join(map(str, settings["size"])) if isinstance(settings, dict) and "size" in settings else ""
