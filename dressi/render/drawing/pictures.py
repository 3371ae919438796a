"""Pictures for people: targets beside results, and losses as curves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..surface.color import linear_to_srgb, srgb_to_linear

COLUMNS = 6
"""Most views on one sheet."""
GAP = 2
"""Pixels between the pictures of a sheet."""


def compare(targets: np.ndarray, results: np.ndarray, gap: int = GAP) -> np.ndarray:
    """One linear image (H', W', 3): rows target, result, difference; a column for each of N views.

    targets, results: (N, H, W, 3) linear. The difference is that of the sRGB codes, absolute, as it is seen.
    """
    difference = np.abs(linear_to_srgb(targets) - linear_to_srgb(results))
    rows = [np.asarray(targets), np.asarray(results), srgb_to_linear(difference)]
    count, height, width = targets.shape[:3]
    sheet = np.full((3 * (height + gap) - gap, count * (width + gap) - gap, 3), 0.18)
    for row, images in enumerate(rows):
        for column, image in enumerate(images):
            y, x = row * (height + gap), column * (width + gap)
            sheet[y : y + height, x : x + width] = image
    return sheet


def save_losses(
    path: Path,
    losses: Sequence[tuple[str, float]],
    quality: Sequence[tuple[int, float, float | None]] = (),
) -> None:
    """PNG of the losses of each phase by step, on a logarithmic scale; below them IoU and PSNR (step, IoU, PSNR), if any."""
    from matplotlib.figure import Figure  # not pyplot, which takes longer to import
    from matplotlib.ticker import LogFormatterSciNotation

    count = 2 if quality else 1
    figure = Figure(figsize=(7, 4 * count), dpi=100)
    rows = figure.subplots(count, sharex=True, squeeze=False)
    axes = rows[0, 0]
    for phase in dict.fromkeys(phase for phase, _ in losses):
        steps = [step for step, (name, _) in enumerate(losses) if name == phase]
        axes.plot(steps, [max(losses[step][1], 1e-12) for step in steps], label=phase)
    axes.set(xlabel="step", ylabel="loss", yscale="log")
    if losses:
        axes.legend()
    axes.grid(alpha=0.3)
    # Less than a decade has labels such as 2 x 10^-2 between the powers of ten, as wide as the margin: written short.
    axes.yaxis.set_minor_formatter(LogFormatterSciNotation(labelOnlyBase=False, minor_thresholds=(1, 0.3)))
    axes.tick_params(axis="y", which="minor", labelsize=7)
    if quality:
        _draw_quality(rows[1, 0], quality)
    # A tight layout would measure every label, which takes longer than to draw them.
    figure.subplots_adjust(0.14, 0.5 / (4 * count), 0.89, 1 - 0.15 / (4 * count), hspace=0.15)
    figure.savefig(path, format="png")


def _draw_quality(axes, quality: Sequence[tuple[int, float, float | None]]) -> None:
    """IoU on the left scale, PSNR on the right one."""
    axes.plot([step for step, _, _ in quality], [iou for _, iou, _ in quality], label="IoU")
    axes.set(xlabel="step", ylabel="IoU of the training views", ylim=(None, 1))
    axes.grid(alpha=0.3)
    coloured = [(step, psnr) for step, _, psnr in quality if psnr is not None]
    if coloured:
        right = axes.twinx()
        right.plot(*zip(*coloured, strict=True), color="tab:orange")
        right.set(ylabel="PSNR in dB (orange)")
