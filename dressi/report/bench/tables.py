"""Tables 2 to 5 and figure 9: the paper's figures beside those of the machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...errors import InputError, shown
from ...render.io.files import read_json, usable
from ..parts.charts import Series, StageRow, line_chart, stage_rows
from ..parts.markup import Markup, dictionary, element, is_number, number, section, table

PHASES = ("geometry", "texture")
SHADED = "roughness"
"""The phase of table 3 that the paper has not."""


def short(device: str) -> str:
    """A device's name without what stands in brackets behind it.

    >>> short("SwiftShader Device (Subzero)")
    'SwiftShader'
    """
    return device.partition(" (")[0].removesuffix(" Device")


@dataclass(frozen=True)
class Grid:
    """A table of the paper beside what was measured. rows: one of a single cell is a heading of those below it.
    marks: classes of rows.  remarks: sentences below."""

    case: str
    title: str
    note: str
    head: list[str]
    rows: list[list[str]]
    marks: list[str | None] | None = None
    remarks: Sequence[str] = ()

    def html(self) -> Markup:
        remarks = [element("p", sentence, class_="note") for sentence in self.remarks]
        grid = table(self.head, self.rows, classes=self.marks)
        return section(self.title, grid, *remarks, note=self.note, identity=self.case)

    def markdown(self) -> str:
        lines = [self.head, ["---"] * len(self.head)]
        lines += [[f"**{row[0]}**", *row[1:]] if len(row) == 1 else row for row in self.rows]
        cells = [[cell.replace("\u00ad", "") for cell in line] for line in lines]
        padded = [[*line, *[""] * (len(self.head) - len(line))] for line in cells]
        grid = "\n".join(f"| {' | '.join(line)} |" for line in padded)
        return "\n\n".join([f"## {self.title}", self.note, grid, *self.remarks]) + "\n"


def _finder(mine: list[Measured], *names: str) -> Callable[..., Measured | None]:
    """A function from values of these facts, and the name of a device, to the first result with them."""
    results: dict[tuple[Any, ...], Measured] = {}
    for one in mine:
        results.setdefault((*(str(one.facts.get(name)) for name in names), one.device), one)
    return lambda *values: results.get(values)


def table2(bench: BenchFolder) -> Grid | None:
    """Packing under the limits of each platform."""
    mine = bench.of("table2")
    if not mine:
        return None
    devices = list(dict.fromkeys(one.device for one in mine))
    find = _finder(mine, "profile", "phase")
    rows: list[list[str]] = [["The paper"]]
    for one in TABLE2:
        attachments = "–" if one.attachments is None else f"{one.attachments:,}"
        counts = [_arrow(one.geometry), _arrow(one.texture)]
        rows.append([one.name, attachments, *counts, *map(number, one.ms), *[""] * 2 * len(devices)])
    marks: list[str | None] = [None, *["paper"] * len(TABLE2)]
    rows.append(
        ["Here: plans for the limits of a profile, and what that plan takes on the devices of this machine"]
    )
    for profile in dict.fromkeys(str(one.facts.get("profile")) for one in mine):
        counts = [_counts(find(profile, phase, devices[0])) for phase in PHASES]
        times = [_ms(find(profile, phase, device)) for device in devices for phase in PHASES]
        rows.append([profile, ATTACHMENTS.get(profile, "4"), *counts, "", "", *times])
    marks += [None] * (len(rows) - len(marks))
    head = ["Platform or profile", "Input attach\u00adments"]
    head += [f"{phase}: Sub\u00adStages / Stages" for phase in PHASES]
    head += [f"{phase} ms, there" for phase in PHASES]
    head += [f"{phase} ms, {short(device)}" for device in devices for phase in PHASES]
    note = (
        "The cross-platform application, optimising geometry and then the texture. Counts are before → after the reactive"
        " cache. The paper's milliseconds are of that platform; ours are of this machine's devices, whatever the profile."
    )
    title = "Packing under the limits of devices: table 2"
    return Grid("table2", title, note, head, rows, marks)


def _arrow(counts: Sequence[Any]) -> str:
    before_sub, before, after_sub, after = map(number, counts)
    return f"{before_sub} / {before} → {after_sub} / {after}"


def _counts(one: Measured | None) -> str:
    plans = one.facts.get("profile_plan") if one is not None else None
    if not isinstance(plans, dict):
        return "–"
    each = [plans.get(when, {}) for when in ("before_cache", "after_cache")]
    return _arrow([counts.get(key) for counts in each for key in ("substages", "stages")])


def _ms(one: Measured | None) -> str:
    return "–" if one is None else number(one.step_ms)


def table3(bench: BenchFolder) -> Grid | None:
    """What each part of the packing saves."""
    mine = bench.of("table3")
    if not mine:
        return None
    phases = [phase for phase in (*PHASES, SHADED) if any(_phase(one) == phase for one in mine)]
    columns = [(p, d) for d in dict.fromkeys(one.device for one in mine) for p in phases]
    find = _finder(mine, "ablation", "phase")
    rows = []
    for name, theirs in TABLE3.items():
        row = [name]
        row += [_times(value, full) for value, full in zip(theirs, TABLE3["full"], strict=True)]
        row += [_slowdown(find(name, *column), find("full", *column)) for column in columns]
        rows.append(row)
    head = ["Without", "geometry, Mali-G76, paper", "texture, Mali-G76, paper"]
    head += [f"{phase}, {short(device)}" for phase, device in columns]
    note = (
        "Milliseconds a step, and how many times as long as with everything. Variants ran in turns, in a random order in each"
        " round. CPU drivers pay little for a pass, and no bandwidth for what leaves the chip: what stage packing saves"
        " on a phone it cannot save here."
    )
    return Grid("table3", "What packing saves: table 3", note, head, rows)


def _times(value: float, full: float) -> str:
    return f"{number(value)} ×{value / full:.2f}"


def _slowdown(one: Measured | None, full: Measured | None) -> str:
    if one is None:
        return "–"
    if full is None or one is full:
        return number(one.step_ms)
    against = one.facts.get("against")
    same = isinstance(against, dict) and against.get("same_plan")
    return _times(one.step_ms, full.step_ms) + (", same plan" if same else "")


def table4(bench: BenchFolder) -> Grid | None:
    """Silhouettes: meshes against sizes of the window, beside peers in the same run."""
    note = (
        "Positions from silhouettes: forward and backward, and here Adam, too. The paper's figures are of an RTX 2080, the"
        " mean of six views of similar meshes; ours are of this machine's devices, one view. Peers ran in turns with dressi"
        " in the same process, deodr on one thread of the processor."
    )
    title = "Silhouettes by mesh and window: table 4"
    return _against_sizes(bench, "table4", title, note, TABLE4, lambda one: max(one.size), "pixels")


def table5(bench: BenchFolder) -> Grid | None:
    """Textures: meshes against sizes of the texture."""
    note = (
        "The albedo of a known shape from pictures of 2048x2048 unless the row says otherwise: forward and backward, and here"
        " Adam, too. The paper's figures are of an RTX 2080."
    )

    def side(one: Measured) -> int:
        return int(one.settings.get("texture_size", 0))

    return _against_sizes(bench, "table5", "Textures by size: table 5", note, TABLE5, side, "texels")


def _against_sizes(
    bench: BenchFolder, case: str, title: str, note: str, theirs: dict[int, dict[int, tuple[float, float, float]]],
    side: Callable[[Measured], int], unit: str,
) -> Grid | None:  # fmt: skip
    mine = bench.of(case)
    if not mine:
        return None
    devices = list(dict.fromkeys(one.device for one in mine))
    beside = [
        (one.device, name, peer) for one in mine for name, peer in dictionary(one.facts.get("peers")).items()
    ]
    peers = list(dict.fromkeys((device, name) for device, name, peer in beside if not _missing(peer)))
    rows: list[list[str]] = []
    for faces in sorted({one.faces for one in mine}):
        near = min(theirs, key=lambda count: abs(count - faces))
        rows.append([f"{faces:,} triangles (the paper: {near:,})"])
        of_mesh = [one for one in mine if one.faces == faces]
        for length in sorted({side(one) for one in of_mesh}):
            here = {one.device: one for one in of_mesh if side(one) == length}
            first = next(iter(here.values()))
            usual = case == "table4" or max(first.size) == 2048
            window = "" if usual else f", window {first.size[0]}x{first.size[1]}"
            row = [f"{length} {unit}{window}"]
            row += [number(value) for value in theirs[near].get(length, (None, None, None))]
            row += [_ms(here.get(device)) for device in devices]
            for device, name in peers:
                one = here.get(device)
                ms = one and one.number("peers", name, "step_ms")
                row += [number(ms), "–" if one is None else _ratio(one, name)]
            rows.append(row)
    head = [f"Side, {unit}", "Dressi, RTX 2080", "nvdiffrast, RTX 2080", "PyTorch3D, RTX 2080"]
    head += [f"here, {short(device)}" for device in devices]
    for device, name in peers:
        head += [f"{name} beside {short(device)}", f"{short(device)} over {name}"]
    missing = dict.fromkeys(f"Left out: {why}." for _, _, peer in beside if (why := _missing(peer)))
    return Grid(case, title, note, head, rows, remarks=list(missing))


def _ratio(one: Measured, peer: str) -> str:
    """Times of a step over the peer's, by the clock and in processor time, which other programs disturb less."""
    ratio = one.number("peers", peer, "ours_over_theirs")
    ours, theirs = one.number("step_cpu_ms"), one.number("peers", peer, "step_cpu_ms")
    text = "–" if ratio is None else f"×{ratio:.2f}"
    return f"{text}, processor ×{ours / theirs:.2f}" if ours and theirs else text


def _missing(peer: Any) -> str:
    """Why a peer has no time; empty where it has one."""
    return str(dictionary(peer).get("error") or "")


def tables_text(bench: BenchFolder) -> tuple[str, dict[str, Any]]:
    """Tables 2 to 5 as markdown, and as dictionaries by name: those that the folder has results of."""
    grids = [grid for make in (table2, table3, table4, table5) if (grid := make(bench)) is not None]
    text = "\n".join(
        [f"# Tables of the paper beside this machine's\n\n{CITATION}.\n", *(g.markdown() for g in grids)]
    )
    return text, {grid.case: asdict(grid) for grid in grids}


def figure9(bench: BenchFolder) -> Markup | None:
    """Distances from the true shape, or losses, over the steps: a chart a phase, a curve a device."""
    mine = [one for one in bench.of("figure9") if isinstance(one.facts.get("losses"), list)]
    if not mine:
        return None
    charts = []
    for phase in dict.fromkeys(map(_phase, mine)):
        these = [one for one in mine if _phase(one) == phase]
        far = all(isinstance(one.facts.get("distances"), list) and one.facts["distances"] for one in these)
        series = []
        for one in these:
            values = one.facts["distances" if far else "losses"]
            curve = [float(v) if is_number(v) else None for v in values]
            series.append(Series(short(one.device), range(len(curve)), curve))
        label = "distance of surfaces" if far else "loss"
        title = f"{phase.capitalize()}, {label}"
        charts.append(line_chart(title, series, x_label="step", y_label=label, log=True))
    rows = []
    for one in sorted(mine, key=_phase):
        parts = [differs(one.agreement, part) for part in ("last_loss", "image", "gradient")]
        loss = number(one.number("quality", "last_loss"))
        rows.append([_phase(one), short(one.device), loss, *(parts if one.agreement else ["reference"] * 3)])
    head = ["Phase", "Device", "last loss", "loss differs by", "first image by", "first gradient by"]
    note = f"{FIGURE9} Here the same, on every device of this machine, from the same start with the same targets."
    parts = [element("div", charts, class_="charts"), element("p"), table(head, rows, text_columns=2)]
    title = "The same curve on every device: figure 9"
    return section(title, *parts, note=note, identity="figure9")


def _phase(one: Measured) -> str:
    return str(one.facts.get("phase") or one.label)


def differs(agreement: dict[str, Any], part: str) -> str:
    """How far a part is from that of the reference, and in how many of its texels."""
    value, share = agreement.get(part), agreement.get(f"{part}_share")
    if not is_number(value):
        return "–"
    said = "0" if value == 0 else f"{value:.1e}"
    return f"{said} ({100 * share:.2g} %)" if isinstance(share, float) and share > 0 else said


# What `dressi bench` leaves in a folder, read with care: any of it may be damaged, or of another program.

MANIFEST, GRIDS = "bench.json", "tables.json"
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
        """How many its mesh has; 0 without a mesh."""
        return int(self.settings.get("faces", 0))

    @property
    def size(self) -> tuple[int, int]:
        width, height = self.settings["size"]
        return int(width), int(height)

    @property
    def agreement(self) -> dict[str, Any]:
        """How far it is from the result of another device; empty for that one."""
        return dictionary(self.facts.get("agreement"))

    def number(self, *names: str) -> float | None:
        """A number deep in the facts; None where there is none."""
        value: Any = self.facts
        for name in names:
            value = dictionary(value).get(name)
        return float(value) if is_number(value) else None


@dataclass(frozen=True)
class Failed:
    """What could not be measured, and why."""

    case: str
    what: str
    device: str
    sentence: str


@dataclass(frozen=True)
class BenchFolder:
    """devices: drivers by name, in the order of the results. ignored: files without results."""

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
        files = sorted(
            file for file in path.iterdir() if file.suffix == ".json" and file.name not in (MANIFEST, GRIDS)
        )
        if len(files) > MOST_FILES:
            raise InputError(
                f"'{path}' has {len(files)} JSON files, and at most {MOST_FILES} are read; split it"
            )
        for file in files:
            results = read_json(file, "list of results")
            if not is_list_of_results(results):
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
        works: dict[tuple[Any, ...], dict[str, Measured]] = {}
        for one in self.of(*cases):
            works.setdefault(one.key, {})[one.device] = one
        yield from works.values()


def _speed(measured: list[Measured]) -> Callable[[Measured], float]:
    """A key that sorts results by the speed of their devices: the mean logarithm of the steps, in the works
    that all devices have done, or in all works where there are none."""
    works: dict[tuple[Any, ...], set[str]] = {}
    for one in measured:
        works.setdefault(one.key, set()).add(one.device)
    count = len({one.device for one in measured})
    common = [one for one in measured if len(works[one.key]) == count] or measured
    times: dict[str, list[float]] = {}
    for one in common:
        times.setdefault(one.device, []).append(math.log(max(one.step_ms, 1e-9)))
    return lambda one: sum(times[one.device]) / len(times[one.device]) if one.device in times else math.inf


def is_list_of_results(results: Any) -> bool:
    return isinstance(results, list) and bool(results) and all(map(_is_result, results))


def _is_result(one: Any) -> bool:
    facts = dictionary(one)
    return isinstance(facts.get("case"), str) and ("error" in facts or "step_ms" in facts)


def _one(result: dict[str, Any]) -> Measured | Failed:
    if "error" in result:
        what = ", ".join(str(part) for part in (result.get("label"), _size(result)) if part)
        return Failed(result["case"], what, str(result.get("device", "")), shown(result["error"]))
    settings = result["settings"]
    if not isinstance(settings, dict) or len(settings["size"]) != 2:
        raise ValueError("settings without a size")
    label, device, driver = (str(result[name]) for name in ("label", "device", "driver"))
    step_ms, stages = float(result["step_ms"]), stage_rows(result.get("stages") or [])
    return Measured(result["case"], label, device, driver, settings, step_ms, result, stages)


def _size(result: dict[str, Any]) -> str:
    settings = result.get("settings")
    return "x".join(map(str, settings["size"])) if isinstance(settings, dict) and "size" in settings else ""


# Figures of the paper (Takimoto et al., "Dressi", Computer Graphics Forum 41(2), 2022), for comparison.

CITATION = (
    "Takimoto et al., Dressi: A Hardware-Agnostic Differentiable Renderer with Reactive Shader Packing and Soft"
    " Rasterization, 2022"
)
DESKTOP = "GeForce RTX 2080"


@dataclass(frozen=True)
class Platform:
    """A row of table 2. attachments: input attachments, None where the paper has no number.  geometry,
    texture: SubStages and Stages before and after the cache.  ms: of a step of geometry and of texture."""

    name: str
    attachments: int | None
    geometry: tuple[int, int, int, int]
    texture: tuple[int, int, int, int]
    ms: tuple[float, float]


TABLE2 = (
    Platform("NVIDIA RTX 2080", 1048576, (218, 129, 206, 122), (187, 160, 86, 69), (3.0, 2.0)),
    Platform("NVIDIA Tesla T4", 1048576, (220, 131, 207, 124), (186, 160, 88, 70), (6.1, 4.1)),
    Platform("AMD Radeon R9 M360", None, (219, 129, 206, 122), (187, 160, 86, 69), (51.4, 28.8)),
    Platform("Intel UHD Graphics 620", 8, (348, 134, 336, 128), (212, 181, 111, 84), (38.3, 23.5)),
    Platform("Arm Mali-G76", 4, (687, 142, 670, 132), (278, 187, 192, 86), (420.0, 189.5)),
)

ATTACHMENTS = {"desktop": "1,048,576", "turing": "1,048,576"} | dict.fromkeys(
    ("uhd620", "lavapipe", "swiftshader"), "8"
)
"""Input attachments of profiles; those of the others are 4."""
TABLE3 = {
    "full": (58.441, 30.874),
    "no stage packing": (110.686, 47.462),
    "no reactive cache": (317.814, 306.594),
    "neither": (364.524, 315.741),
    "one function a pass": (1780.90, 1652.14),
}
"""Milliseconds of a step of geometry and of texture on an Arm Mali-G76, by what is switched off."""

TABLE4 = {
    682: {256: (0.304, 1.060, 8.054), 512: (0.442, 1.305, 12.570), 1024: (1.034, 2.371, 32.136), 2048: (3.301, 5.403, 105.823)},
    14208: {256: (0.308, 0.480, 10.272), 512: (0.480, 0.929, 15.354), 1024: (1.106, 2.523, 39.034), 2048: (3.545, 8.010, 134.795)},
    51414: {256: (0.364, 0.646, 9.393), 512: (0.502, 0.853, 14.919), 1024: (1.104, 2.086, 36.382), 2048: (3.469, 5.518, 121.624)},
}  # fmt: skip
"""Milliseconds of both passes by triangles and pixels a side: Dressi, nvdiffrast, PyTorch3D on an RTX
2080."""

TABLE5 = {
    55704: {1024: (2.929, 6.584, 137.681), 2048: (3.965, 8.922, 143.237), 4096: (8.148, 18.676, 141.667)},
    14217: {1024: (2.893, 6.254, 118.184), 2048: (3.953, 8.653, 119.267), 4096: (8.045, 18.635, 120.017)},
}
"""The same by triangles and texels a side, pictures of 2048x2048."""

FIGURE9 = (
    "Figure 9 of the paper shows the distance from the true shape, which settles after about 150 steps, and the colour loss,"
    " which settles after about 50, on five platforms: all end at almost the same values."
)
