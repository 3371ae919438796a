"""Results for the eye: a table on the terminal, error curves as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from dressi.cli.terminal import table_console
from dressi.errors import InputError

MIB = 2**20
COLUMNS = {
    "plan": "functions substages stages",
    "profile_plan": "before -> after the cache",  # substages and stages of a step, whatever the device could do
    "build": "first build ms",
    "step": "step ms",
    "against": "ms more than the first",  # of the same work, with its interval
    "read": "+ loss read",  # the loss of every step comes to the host
    "device": "device ms",
    "longest": "longest submission ms",
    "bytes": "MiB a step",
    "held": "MiB held, of a baseline's",  # images with depths, and accumulators
    "bandwidth": "GB/s, of a copy's",
    "quality": "quality",
    "peers": "peers",
    "agreement": "differs",
}


def print_table(results: Sequence[dict[str, Any]]) -> None:
    """One row a result, its title what all have in common; failures say why."""
    console = table_console()
    parts = [_parts(result) for result in results]
    common = [part for part in parts[0] if all(part in other for other in parts)]
    table = Table(title=", ".join([f"dressi bench {results[0]['case']}", *common]), title_justify="left")
    # Columns without values are left out.
    columns = dict(COLUMNS)
    for name in ("against", "peers", "agreement", "profile_plan"):
        if not any(result.get(name) for result in results):
            del columns[name]
    table.add_column("what", overflow="fold")
    for name, title in columns.items():
        table.add_column(title, justify="left" if name == "peers" else "right", overflow="fold")
    for result, mine in zip(results, parts, strict=True):
        what = ", ".join(part for part in mine if part not in common) or "-"
        if "error" in result:
            table.add_row(f"{what}: {result['error']}")
            continue
        numbers = _numbers(result)
        table.add_row(what, *(numbers[name] for name in columns))
    console.print(table)
    against = list(dict.fromkeys(r["agreement"]["with"] for r in results if r.get("agreement")))
    if against:
        print(
            "differs: image (how much of it by more than 1e-3), gradient, last loss, as parts of the largest value of "
            f"{'; '.join(against)}"
        )


def _numbers(result: dict[str, Any]) -> dict[str, str]:
    plan, ms, agreement = result["plan"], result["device_ms"], result.get("agreement")
    return {
        "plan": f"{plan['functions']} {plan['substages']} {plan['stages']}",
        "profile_plan": " -> ".join(
            f"{counts['substages']} {counts['stages']}" for counts in result.get("profile_plan", {}).values()
        ),
        "build": f"{result['first_build_ms']:.0f}",
        "step": f"{result['step_ms']:.3f}",
        "against": "" if result["against"] is None else _against(result["against"]),
        "read": f"{result['step_and_read_loss_ms']:.3f}",
        "device": "-" if ms is None else f"{ms:.3f}",
        "longest": f"{result['longest_submission_ms']:.3g}",
        "bytes": f"{result['bytes'] / MIB:.2f}",
        "held": f"{_held(plan):.1f} of {_held(result['baseline']):.1f}",
        "bandwidth": f"{result['bandwidth'] / 1e9:.1f} of {result['copy_bandwidth'] / 1e9:.1f}",
        "quality": _quality(result["quality"]),
        "peers": "\n".join(_peer(name, peer) for name, peer in result["peers"].items()),
        "agreement": "" if agreement is None else _agreement(agreement),
    }


def _held(plan: dict[str, int]) -> float:
    return (plan["image_bytes"] + plan["buffer_bytes"]) / MIB


def _parts(result: dict[str, Any]) -> list[str]:
    """What was measured, in words."""
    settings = result["settings"]
    parts = [result["device"], *(result["label"].split(", ") if result["label"] else [])]
    parts += _planned(result["planned_for"])
    if "mesh" in settings:
        parts.append(f"{settings['mesh']} ({settings['faces']} faces)")
    parts.append("x".join(map(str, settings["size"])))
    if "texture_size" in settings:
        parts += [f"texture {settings['texture_size']}", f"{settings['texture_gradient']} gradient"]
    elif "channels" in settings:
        kind = "depthwise, " if settings["depthwise"] else ""
        parts.append(f"{kind}{settings['channels']} channels, kernel {settings['kernel']}")
    elif "form" in settings:
        parts.append(f"{settings['form']} form, r {settings['radius_px']:g} px")
        parts.append(f"{settings['target']} target")
    return [*parts, f"{settings['views']} views"] if settings.get("views", 1) > 1 else parts


def _planned(planned: dict[str, Any]) -> list[str]:
    """Whose limits and device model the plan is made for, and with which options."""
    options, off = planned["options"], "shipped options"
    if options != "shipped":
        off = f"without {', '.join(options)}" if len(options) < 4 else f"{len(options)} options off"
    return [f"limits of {planned['limits']}", f"device model {planned['device_model']}", off]


def _against(against: dict[str, Any]) -> str:
    same = ", the same plan" if against["same_plan"] else ""
    return f"{_difference(against)}; CPU {_difference(against['cpu'])}{same}"


def _difference(found: dict[str, Any]) -> str:
    interval = found["interval"]
    within = "" if interval is None else f" ({interval[0]:+.3f} to {interval[1]:+.3f})"
    return f"{found['ms']:+.3f}{within}"


def _agreement(agreement: dict[str, Any]) -> str:
    image, gradient, loss = (
        f"{agreement[name]:.0e}" if agreement[name] else "0" for name in ("image", "gradient", "last_loss")
    )
    return f"{image} ({100 * agreement['image_share']:.2g} %) {gradient} {loss}"


def _quality(quality: dict[str, Any]) -> str:
    names = [name for name in quality if name not in ("steps", "first_loss", "last_loss")]
    values = [f"{name} {'-' if quality[name] is None else f'{quality[name]:.4g}'}" for name in names]
    return ", ".join(values)


def _peer(name: str, peer: dict[str, Any]) -> str:
    if peer["step_ms"] is None:
        return f"{name}: not there"
    quality = f", {_quality(peer['quality'])}" if peer["quality"] else ""
    return f"{name} {peer['step_ms']:.3f} ms{quality}"


def draw_curves(path: Path, results: Sequence[dict[str, Any]]) -> None:
    """Distances from the true shape, or losses, of all results over the steps, a panel for each label, a line for each device."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    good = [result for result in results if "losses" in result]
    labels = list(dict.fromkeys(result["label"] for result in good))
    figure = Figure(figsize=(5.5 * len(labels), 4), layout="constrained")
    for k, label in enumerate(labels):
        axes = figure.add_subplot(1, len(labels), k + 1)
        mine = [result for result in good if result["label"] == label]
        for n, result in enumerate(mine):
            # Curves lie on each other: later ones are thinner, so that all can be seen.
            axes.plot(
                result["distances"] or result["losses"],
                label=result["device"],
                linewidth=4.0 / (1 + n),
                alpha=0.8,
            )
        axes.set(
            title=label,
            xlabel="step",
            ylabel="distance of surfaces" if mine[0]["distances"] else "loss",
            yscale="log",
        )
        axes.legend(fontsize="small")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=110)
    except OSError as error:
        raise InputError(f"'{path}' cannot be written ({error.strerror}); choose another place") from None
