"""Tables 2 to 5 and figure 9: the paper's figures beside those of the machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..parts.charts import Series, line_chart
from ..parts.markup import Markup, element, number, section, table
from . import paper
from .folder import BenchFolder, Measured

PHASES = ("geometry", "texture")
SHADED = "roughness"
"""The phase of table 3 that the paper has not."""


def short(device: str) -> str:
    """A device's name without what stands in brackets behind it.

    >>> short("SwiftShader Device (Subzero)")
    'SwiftShader'
    """
    return device.partition(" (")[0].removesuffix(" Device")


def table2(bench: BenchFolder) -> Markup | None:
    """Packing under the limits of each platform."""
    mine = bench.of("table2")
    if not mine:
        return None
    devices = list(dict.fromkeys(one.device for one in mine))
    profiles = list(dict.fromkeys(str(one.facts.get("profile")) for one in mine))

    def find(profile: str, phase: str, device: str) -> Measured | None:
        same = (
            m
            for m in mine
            if (m.facts.get("profile"), m.facts.get("phase"), m.device) == (profile, phase, device)
        )
        return next(same, None)

    rows: list[list[Any]] = [["The paper"]]
    marks: list[str | None] = [None]
    for one in paper.TABLE2:
        attachments = "–" if one.attachments is None else f"{one.attachments:,}"
        counts = [_arrow(one.geometry), _arrow(one.texture)]
        rows.append([one.name, attachments, *counts, *map(number, one.ms), *[""] * 2 * len(devices)])
        marks.append("paper")
    rows.append(
        ["Here: plans for the limits of a profile, and what that plan takes on the devices of this machine"]
    )
    marks.append(None)
    for profile in profiles:
        counts = [_counts(find(profile, phase, devices[0])) for phase in PHASES]
        times = [_ms(find(profile, phase, device)) for device in devices for phase in PHASES]
        rows.append([profile, _attachments(profile), *counts, "", "", *times])
        marks.append(None)
    head = [
        "Platform or profile",
        "Input attach\u00adments",
        *(f"{phase}: Sub\u00adStages / Stages" for phase in PHASES),
    ]
    head += [f"{phase} ms, there" for phase in PHASES]
    head += [f"{phase} ms, {short(device)}" for device in devices for phase in PHASES]
    note = (
        "The cross-platform application, optimising geometry and then the texture. Counts are before → after the reactive"
        " cache. The paper's milliseconds are of that platform; ours are of this machine's devices, whatever the profile."
    )
    return section(
        "Packing under the limits of devices: table 2",
        table(head, rows, classes=marks),
        note=note,
        identity="table2",
    )


def _arrow(counts: Sequence[Any]) -> str:
    before_sub, before, after_sub, after = map(number, counts)
    return f"{before_sub} / {before} → {after_sub} / {after}"


def _counts(one: Measured | None) -> str:
    plans = one.facts.get("profile_plan") if one is not None else None
    if not isinstance(plans, dict):
        return "–"
    parts = [
        plans.get(when, {}).get(key)
        for when in ("before_cache", "after_cache")
        for key in ("substages", "stages")
    ]
    return _arrow(parts)


def _attachments(profile: str) -> str:
    return {
        "desktop": "1,048,576",
        "turing": "1,048,576",
        "uhd620": "8",
        "lavapipe": "8",
        "swiftshader": "8",
    }.get(profile, "4")


def _ms(one: Measured | None) -> str:
    return "–" if one is None else number(one.step_ms)


def table3(bench: BenchFolder) -> Markup | None:
    """What each part of the packing saves."""
    mine = bench.of("table3")
    if not mine:
        return None
    devices = list(dict.fromkeys(one.device for one in mine))

    def find(name: str, phase: str, device: str) -> Measured | None:
        same = (
            m
            for m in mine
            if (m.facts.get("ablation"), m.facts.get("phase"), m.device) == (name, phase, device)
        )
        return next(same, None)

    rows = []
    for name, theirs in paper.TABLE3.items():
        row: list[Any] = [name]
        for value, full in zip(theirs, paper.TABLE3["full"], strict=True):
            row.append(_times(value, full))
        for device in devices:
            for phase in (*PHASES, SHADED):
                one, full_one = find(name, phase, device), find("full", phase, device)
                row.append(_slowdown(one, full_one))
        rows.append(row)
    head = ["Without", "geometry, Mali-G76, paper", "texture, Mali-G76, paper"]
    head += [f"{phase}, {short(device)}" for device in devices for phase in (*PHASES, SHADED)]
    note = (
        "Milliseconds a step, and how many times as long as with everything. Variants ran in turns, in a random order in each"
        " round. CPU drivers pay little for a pass, and no bandwidth for what leaves the chip: what stage packing saves"
        " on a phone it cannot save here."
    )
    return section("What packing saves: table 3", table(head, rows), note=note, identity="table3")


def _times(value: float, full: float) -> list[Any]:
    return [number(value), element("small", f" ×{value / full:.2f}")]


def _slowdown(one: Measured | None, full: Measured | None) -> Any:
    if one is None:
        return "–"
    if full is None or one is full:
        return number(one.step_ms)
    against = one.facts.get("against")
    same = isinstance(against, dict) and against.get("same_plan")
    return [
        *_times(one.step_ms, full.step_ms),
        element("small", "same plan", class_="below") if same else None,
    ]


def table4(bench: BenchFolder) -> Markup | None:
    """Silhouettes: meshes against sizes of the window, beside peers in the same run."""
    note = (
        "Positions from silhouettes: forward and backward, and here Adam, too. The paper's figures are of an RTX 2080, the"
        " mean of six views of similar meshes; ours are of this machine's devices, one view. Compare with deodr, one thread"
        " of the same processor, which ran in turns with dressi in the same process."
    )
    return _against_sizes(
        bench,
        "table4",
        "Silhouettes by mesh and window: table 4",
        note,
        paper.TABLE4,
        lambda one: max(one.size),
        "pixels",
    )


def table5(bench: BenchFolder) -> Markup | None:
    """Textures: meshes against sizes of the texture."""
    note = (
        "The albedo of a known shape from pictures of 2048x2048 unless the row says otherwise: forward and backward, and here"
        " Adam, too. The paper's figures are of an RTX 2080."
    )
    return _against_sizes(
        bench,
        "table5",
        "Textures by size: table 5",
        note,
        paper.TABLE5,
        lambda one: int(one.settings.get("texture_size", 0)),
        "texels",
    )


def _against_sizes(
    bench: BenchFolder,
    case: str,
    title: str,
    note: str,
    theirs: dict[int, dict[int, tuple[float, float, float]]],
    side: Callable[[Measured], int],
    unit: str,
) -> Markup | None:
    mine = bench.of(case)
    if not mine:
        return None
    devices = list(dict.fromkeys(one.device for one in mine))
    peers = list(dict.fromkeys(name for one in mine for name in (one.facts.get("peers") or {})))
    rows: list[list[Any]] = []
    for faces in sorted({one.faces for one in mine}):
        near = min(theirs, key=lambda count: abs(count - faces))
        rows.append([f"{faces:,} triangles (the paper: {near:,})"])
        of_mesh = [one for one in mine if one.faces == faces]
        for length in sorted({side(one) for one in of_mesh}):
            here = {one.device: one for one in of_mesh if side(one) == length}
            first = next(iter(here.values()))
            windows = (
                ""
                if case == "table4" or max(first.size) == 2048
                else f", window {first.size[0]}x{first.size[1]}"
            )
            row: list[Any] = [f"{length} {unit}{windows}"]
            row += [number(value) for value in theirs[near].get(length, (None, None, None))]
            row += [_ms(here.get(device)) for device in devices]
            for name in peers:
                row += _peer(here, devices[0], name)
            rows.append(row)
    head = [f"Side, {unit}", "Dressi, RTX 2080", "nvdiffrast, RTX 2080", "PyTorch3D, RTX 2080"]
    head += [f"here, {short(device)}" for device in devices]
    head += [said for name in peers for said in (f"{name}, here", f"{short(devices[0])} over {name}")]
    missing = sorted({_missing(one, name) for one in mine for name in peers} - {""})
    remark = [element("p", f"Left out: {sentence}.", class_="note") for sentence in missing]
    return section(title, table(head, rows), *remark, note=note, identity=case)


def _peer(here: dict[str, Measured], device: str, name: str) -> list[str]:
    one = here.get(device) or next(iter(here.values()))
    ms, ratio = one.number("peers", name, "step_ms"), one.number("peers", name, "ours_over_theirs")
    return [number(ms), "–" if ratio is None else f"×{ratio:.2f}"]


def _missing(one: Measured, name: str) -> str:
    peer = (one.facts.get("peers") or {}).get(name)
    return str(peer["error"]) if isinstance(peer, dict) and peer.get("error") else ""


def figure9(bench: BenchFolder) -> Markup | None:
    """Distances from the true shape, or losses, over the steps: a chart a phase, a curve a device."""
    mine = [one for one in bench.of("figure9") if isinstance(one.facts.get("losses"), list)]
    if not mine:
        return None
    charts = []
    for phase in dict.fromkeys(map(_phase, mine)):
        these = [one for one in mine if _phase(one) == phase]
        far = all(isinstance(one.facts.get("distances"), list) and one.facts["distances"] for one in these)
        curves = [_values(one.facts["distances" if far else "losses"]) for one in these]
        series = [
            Series(short(one.device), list(range(len(curve))), curve)
            for one, curve in zip(these, curves, strict=True)
        ]
        label = "distance of surfaces" if far else "loss"
        title = f"{phase.capitalize()}, {label}"
        charts.append(line_chart(title, series, x_label="step", y_label=label, log=True))
    rows = [
        [
            _phase(one),
            short(one.device),
            number(one.number("quality", "last_loss")),
            *(
                differs(one.agreement, part) if one.agreement else "reference"
                for part in ("last_loss", "image", "gradient")
            ),
        ]
        for one in sorted(mine, key=_phase)
    ]
    head = ["Phase", "Device", "last loss", "loss differs by", "first image by", "first gradient by"]
    note = f"{paper.FIGURE9} Here the same, on every device of this machine, from the same start with the same targets."
    return section(
        "The same curve on every device: figure 9",
        element("div", charts, class_="charts"),
        element("p"),
        table(head, rows, text_columns=2),
        note=note,
        identity="figure9",
    )


def _values(losses: Sequence[Any]) -> list[float | None]:
    return [float(v) if isinstance(v, int | float) and not isinstance(v, bool) else None for v in losses]


def _phase(one: Measured) -> str:
    return str(one.facts.get("phase") or one.label)


def differs(agreement: dict[str, Any], part: str) -> str:
    """How far a part is from that of the reference, and in how many of its texels."""
    value, share = agreement.get(part), agreement.get(f"{part}_share")
    if not isinstance(value, int | float) or isinstance(value, bool):
        return "–"
    said = "0" if value == 0 else f"{value:.1e}"
    return f"{said} ({100 * share:.2g} %)" if isinstance(share, float) and share > 0 else said
