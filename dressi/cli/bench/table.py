"""Results for the eye: a table on the terminal, error curves as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from dressi.errors import InputError

MIB = 2**20


def print_table(results: Sequence[dict[str, Any]]) -> None:
    """One row a result; failures say why."""
    table = Table(title=f"dressi bench {results[0]['case']}")
    for name in ("device", "what"):
        table.add_column(name, overflow="fold")
    for name in (
        "functions, substages, stages", "build ms", "step ms", "with loss", "on device", "MiB a step", "GB/s (copy)",
        "quality", "peers",
    ):  # fmt: skip
        table.add_column(name, justify="right")
    for result in results:
        if "error" in result:
            table.add_row(result["device"], f"{_what(result)}: {result['error']}")
            continue
        plan, ms = result["plan"], result["device_ms"]
        table.add_row(
            result["device"],
            _what(result),
            f"{plan['functions']}, {plan['substages']}, {plan['stages']}",
            f"{result['first_build_ms']:.0f}",
            f"{result['step_ms']:.3f}",
            f"{result['step_and_read_loss_ms']:.3f}",
            "-" if ms is None else f"{ms:.3f}",
            f"{result['bytes'] / MIB:.2f}",
            f"{result['bandwidth'] / 1e9:.1f} ({result['copy_bandwidth'] / 1e9:.1f})",
            _quality(result["quality"]),
            "\n".join(_peer(name, peer) for name, peer in result["peers"].items()),
        )
    Console(width=None if Console().is_terminal else 180).print(table)
    for result in results:
        if "agreement" in result:
            print(f"{result['device']}, {_what(result)}: {_agreement(result['agreement'])}")


def _what(result: dict[str, Any]) -> str:
    settings = result["settings"]
    parts = ["x".join(map(str, settings["size"]))]
    if "mesh" in settings:
        parts = [f"{settings['mesh']} ({settings['faces']} faces)", *parts]
    if "texture_size" in settings:
        parts.append(f"texture {settings['texture_size']}")
    elif "form" in settings:
        parts.append(f"{settings['form']} form, r {settings['radius_px']:g}")
    if settings.get("views", 1) > 1:
        parts.append(f"{settings['views']} views")
    return ", ".join([*([result["label"]] if result["label"] else []), *parts])


def _quality(quality: dict[str, Any]) -> str:
    names = [name for name in quality if name not in ("steps", "first_loss", "last_loss")]
    values = [f"{name} {'-' if quality[name] is None else f'{quality[name]:.4g}'}" for name in names]
    return ", ".join(values)


def _peer(name: str, peer: dict[str, Any]) -> str:
    if peer["step_ms"] is None:
        return f"{name}: not there"
    quality = f", {_quality(peer['quality'])}" if peer["quality"] else ""
    return f"{name} {peer['step_ms']:.3f} ms{quality}"


def _agreement(agreement: dict[str, Any]) -> str:
    return (
        f"images differ by at most {agreement['largest']:.2g} of the largest value from {agreement['with']} "
        f"({100 * agreement['share']:.3f} % of the texels by more than 1e-3), last losses by {agreement['loss']:.2g}"
    )


def draw_curves(path: Path, results: Sequence[dict[str, Any]]) -> None:
    """Losses of all results over the steps, a panel for each label, a line for each device."""
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
            axes.plot(result["losses"], label=result["device"], linewidth=4.0 / (1 + n), alpha=0.8)
        axes.set(title=label, xlabel="step", ylabel="loss", yscale="log")
        axes.legend(fontsize="small")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=110)
    except OSError as error:
        raise InputError(f"'{path}' cannot be written ({error.strerror}); choose another place") from None
