"""The page of benchmarks: results, the paper beside them, device against device, Stages."""

from __future__ import annotations

from typing import Any

from ..parts.charts import timeline
from ..parts.markup import Markup, details, dictionary, element, figures, number, section, size_text, table
from ..parts.page import Page
from . import tables
from .tables import BenchFolder, Grid, Measured, differs, figure9, short, table2, table3, table4, table5

ALONE = ("image_fitting", "silhouette", "texture", "joint", "shading", "material", "environment")
"""Cases that belong to no table of the paper."""
MOST_TIMELINES = 16
QUIET = 0.1
"""The part of the processor that other programs may use before the page warns of it."""


def bench_page(bench: BenchFolder) -> Page:
    """The whole page."""
    devices = " and ".join(bench.devices) or "no device"
    makers = (
        _summary, figure9, table2, table3, table4, table5, _alone, _devices, _stages, _failures, _machine
    )  # fmt: skip
    made = [part for make in makers if (part := make(bench)) is not None]
    parts = [part.html() if isinstance(part, Grid) else part for part in made]
    lead, others = f"dressi on {devices}.", _others(bench)
    if others and others[len(others) // 2] > QUIET:
        lead += (
            f" Other programs used {100 * others[len(others) // 2]:.0f} % of the processor meanwhile, so milliseconds are too"
            " long; ratios of one run are less disturbed."
        )
    return Page("Benchmarks", lead, parts)


def _others(bench: BenchFolder) -> list[float]:
    """The parts of the processor that other programs used, in order."""
    shares = [one.number("others") for one in bench.measured]
    return sorted(share for share in shares if share is not None)


def _summary(bench: BenchFolder) -> Markup:
    failed = f"{len(bench.failed)} failed" if bench.failed else "none failed"
    cells: list[tuple[str, str | None, str]] = [("Results", f"{len(bench.measured):,}", failed)]
    small = [one for one in bench.of("silhouette", "table4") if max(one.size) == 256]
    for device in bench.devices:
        fast = [one for one in small if one.device == device]
        if fast:
            best = min(fast, key=lambda one: one.step_ms)
            what = f"silhouettes, 256x256, {int(best.settings.get('faces', 0)):,} faces"
            cells.append((f"A step on {short(device)}", f"{number(best.step_ms)} ms", what))
    first = next(iter(bench.devices), "")
    ratios = [r for one in bench.measured if one.device == first for r in _ratios_to_peers(one)]
    if ratios:
        spread = f"×{min(ratios):.2f} to ×{max(ratios):.2f}"
        cells.append((f"{short(first)} over deodr", spread, "time of a step, same run, by mesh and size"))
    middle = _middle_ratio(bench)
    if middle is not None:
        first, second = list(bench.devices)[:2]
        remark = f"{short(second)} over {short(first)}, median"
        cells.append(("Device against device", f"×{middle:.2f}", remark))
    return element("section", figures(cells), _contents(bench))


def _contents(bench: BenchFolder) -> Markup:
    places = [("figure9", "Figure 9"), *((f"table{k}", f"Table {k}") for k in range(2, 6))]
    links = [element("a", said, href=f"#{case}") for case, said in places if bench.of(case)]
    links += [element("a", "Other cases", href="#other")] if bench.of(*ALONE) else []
    links += [element("a", "Devices", href="#devices")] if len(bench.devices) > 1 else []
    links.append(element("a", "Stages", href="#stages"))
    return element("nav", links, aria_label="Parts of the page")


def _ratios_to_peers(one: Measured) -> list[float]:
    ratios = [one.number("peers", name, "ours_over_theirs") for name in dictionary(one.facts.get("peers"))]
    return [ratio for ratio in ratios if ratio is not None]


def _pairs(bench: BenchFolder) -> list[dict[str, Measured]]:
    """Works that more than one device has done, without table 2, whose plans are for the limits of other
    devices, and without the ablations of table 3."""
    cases = [case for case in dict.fromkeys(one.case for one in bench.measured) if case != "table2"]
    groups = [group for group in bench.groups(*cases) if len(group) > 1]
    full = [group for group in groups if _shipped(_first(group))]
    return sorted(full, key=lambda g: (_first(g).case, _first(g).faces, _first(g).label, *_first(g).size))


def _first(group: dict[str, Measured]) -> Measured:
    return next(iter(group.values()))


def _shipped(one: Measured) -> bool:
    """Whether the plan is that of the shipped options, with nothing switched off."""
    return one.facts.get("ablation", "full") == "full"


def _middle_ratio(bench: BenchFolder) -> float | None:
    if len(bench.devices) < 2:
        return None
    first, second = list(bench.devices)[:2]
    ratios = sorted(
        group[second].step_ms / group[first].step_ms
        for group in _pairs(bench)
        if first in group and second in group and group[first].step_ms > 0
    )
    return ratios[len(ratios) // 2] if ratios else None


def _what(one: Measured) -> str:
    """What was measured, in words, without the device."""
    settings, parts = one.settings, [one.label] if one.label else []
    parts.append(f"{one.size[0]}x{one.size[1]}")
    if "faces" in settings:
        parts.append(f"{number(settings['faces'])} faces")
    if "texture_size" in settings:
        parts.append(f"texture {settings['texture_size']}")
    elif "form" in settings:
        parts.append(f"{settings['form']} form")
    if settings.get("views", 1) != 1:
        parts.append(f"{settings['views']} views")
    return ", ".join(parts)


def _alone(bench: BenchFolder) -> Markup | None:
    mine = bench.of(*ALONE)
    if not mine:
        return None
    rows = [
        [
            [one.case, element("small", f" {_what(one)}")],
            short(one.device),
            number(one.step_ms),
            number(one.number("device_ms")),
            number(one.number("first_build_ms"), 2),
            size_text(one.number("bytes")),
            _share(one.number("bandwidth"), one.number("copy_bandwidth")),
            element("span", _reached(one), class_="wrap"),
        ]
        for one in sorted(mine, key=lambda one: ALONE.index(one.case))
    ]
    head = ["Case", "Device", "ms a step", "device ms", "first build, ms", "moved a step"]
    head += ["of a copy's bandwidth", "reached"]
    note = (
        "A step is forward, backward and update, the median of timed batches after 20 steps. Device time is with a barrier after"
        " each Stage."
    )
    return section("Other cases", table(head, rows, text_columns=2), note=note, identity="other")


def _share(part: float | None, whole: float | None) -> str:
    return "–" if part is None or not whole else f"{100 * part / whole:.0f} %"


def _reached(one: Measured) -> str:
    quality = one.facts.get("quality")
    if not isinstance(quality, dict):
        return "–"
    skipped = ("steps", "first_loss", "last_loss")
    said = [f"{name} {number(value)}" for name, value in quality.items() if name not in skipped]
    return ", ".join(said) or f"loss {number(quality.get('last_loss'))}"


def _devices(bench: BenchFolder) -> Markup | None:
    groups = _pairs(bench)
    if not groups:
        return None
    names = list(bench.devices)
    rows = []
    for group in groups:
        first = _first(group)
        reference = group.get(names[0], first)
        row: list[Any] = [[first.case, element("small", f" {_what(first)}")]]
        row += [number(group[name].step_ms) if name in group else "–" for name in names]
        row += [_over(group.get(name), reference) for name in names[1:]]
        agreement = next((one.agreement for one in group.values() if one.agreement), {})
        row += [differs(agreement, part) for part in ("image", "gradient", "last_loss")]
        rows.append(row)
    head = ["Case", *(f"{short(name)}, ms" for name in names)]
    head += [f"{short(name)} over {short(names[0])}" for name in names[1:]]
    head += ["image differs", "gradient differs", "last loss differs"]
    note = (
        "The same graph with the same targets, planned for each device. Differences are the largest of the first image and"
        " gradient, as parts of the largest value, and of the last loss; in brackets how many of the texels differ by more than"
        " a thousandth. Pixels at outlines fall to one side or the other."
    )
    return section("Device against device", table(head, rows), note=note, identity="devices")


def _over(one: Measured | None, reference: Measured) -> str:
    return "–" if one is None or reference.step_ms <= 0 else f"×{one.step_ms / reference.step_ms:.2f}"


def _stages(bench: BenchFolder) -> Markup | None:
    """The timeline of one result of every case and label, on the first device that has one."""
    chosen: dict[tuple[str, str], Measured] = {}
    for one in bench.measured:
        if one.stages and one.case != "table2" and _shipped(one):
            chosen.setdefault((one.case, one.label), one)
    shown = list(chosen.values())[:MOST_TIMELINES]
    if not shown:
        return None
    parts = []
    for one in shown:
        title = f" {_what(one)}, {short(one.device)}: {number(one.step_ms)} ms"
        parts.append(details([element("b", one.case), title], timeline(one.stages)))
    note = "A step is a list of Stages: render passes and dispatches, recorded once. Milliseconds are with a barrier after each."
    return section("Stages", *parts, note=note, identity="stages")


def _failures(bench: BenchFolder) -> Markup | None:
    if not bench.failed:
        return None
    rows = [[one.case, one.what, short(one.device), one.sentence] for one in bench.failed]
    grid = table(["Case", "What", "Device", "Why"], rows, text_columns=4, classes=["failed"] * len(rows))
    return section("What failed", grid, identity="failed")


def _machine(bench: BenchFolder) -> Markup:
    facts = [one.facts for one in bench.measured]
    machines = {str(m.get("system")): m.get("cores") for f in facts if (m := dictionary(f.get("machine")))}
    listed: list[tuple[str, Any]] = [(f"Device: {name}", driver) for name, driver in bench.devices.items()]
    listed += [("Machine", f"{system}, {number(cores)} cores") for system, cores in machines.items()]
    when = sorted(str(f["when"])[:16].replace("T", " ") for f in facts if f.get("when"))
    if when:
        listed.append(("Measured", when[0] if when[0] == when[-1] else f"from {when[0]} to {when[-1]}"))
    others = _others(bench)
    if others:
        middle, most = (f"{100 * share:.0f} %" for share in (others[len(others) // 2], others[-1]))
        listed.append(
            ("Other programs", f"used {middle} of the processor meanwhile (median), at most {most}")
        )
    commits = list(dict.fromkeys(str(f["commit"]) for f in facts if f.get("commit")))
    if commits:
        listed.append(("Commit", ", ".join(commits)))
    if bench.ignored:
        listed.append(("Left out", f"{', '.join(bench.ignored)}: no results of `dressi bench`"))
    listed.append(("The paper", tables.CITATION))
    rows = [[element("dt", name), element("dd", value)] for name, value in listed]
    return section("Machine", element("dl", rows, class_="facts"))
