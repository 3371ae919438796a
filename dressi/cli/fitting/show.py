"""What `dressi fit` shows: a progress bar on stderr, the figures of the report on stdout."""

import contextlib
from pathlib import Path
from typing import Any

from tqdm import tqdm

from dressi.render.fit import Progress


class Bar:
    """Progress on stderr: what is done now, IoU and PSNR of the training views, steps per second. The loss is not shown: it rises
    when the radius shrinks."""

    def __init__(self, resume: bool):
        self._resume, self._bar, self._unseen = resume, None, False

    def __call__(self, progress: Progress) -> None:
        if self._unseen:
            return
        try:
            self._show(progress)
        except (OSError, ValueError):
            # A closed pipe or a full disk behind stderr is no reason to end a fit.
            self._unseen = True

    def _show(self, progress: Progress) -> None:
        if self._bar is None:
            self._bar = tqdm(total=progress.total, unit="step", initial=progress.done if self._resume else 0)
        self._bar.set_description(progress.doing or progress.phase, refresh=False)
        shown = {} if progress.iou is None else {"IoU": f"{progress.iou:.4f}"}
        if progress.psnr is not None:
            shown["PSNR"] = f"{progress.psnr:.1f} dB"
        self._bar.set_postfix(shown, refresh=False)
        self._bar.update(progress.done - self._bar.n)

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            with contextlib.suppress(OSError, ValueError):
                self._bar.close()


def _inside(values: dict[str, Any]) -> str:
    if values["inside"] is None or values["exposed_inside"] is None:
        return ""
    plain = "" if values["plain"] == values["psnr"] else f"; {values['plain']:.2f} dB without exposures"
    solved = f"with exposures solved for {values['exposed_inside']:.2f} dB"
    return f"{plain}; inside of both masks {values['inside']:.2f} dB, {solved}"


ALIKE, OUTLINED = 21.0, 0.95
"""Photographs contradict each other where training pictures reach fewer decibels than ALIKE inside of both masks, with exposures
solved for, although their IoU is at least OUTLINED."""


def disagreement(report: dict[str, Any]) -> str | None:
    """Why photographs may contradict each other, in a sentence; None where they do not, and for pictures of a mesh."""
    train = report["metrics"]["train"]
    # Reports of pictures of a mesh have no "confidence".
    if "confidence" not in report or "material" in report or train["exposed_inside"] is None:
        return None
    if train["exposed_inside"] >= ALIKE or train["iou"] < OUTLINED:
        return None
    return (
        f"the photographs that were learned from contradict each other inside of the outlines ({train['exposed_inside']:.1f} dB):"
        " the surface may shine, as highlights move with the view (--optimize albedo,roughness,metallic,light finds a"
        " material), the light may move with the camera, or poses may be off (--refine-poses)"
    )


def print_report(report: dict[str, Any], folder: Path) -> None:
    """The figures of a report, a line for each set of views."""
    for name, values in report["metrics"].items():
        if values is not None:
            quality = "equal" if values["psnr"] is None else f"{values['psnr']:.2f} dB"
            quality = f"IoU {values['iou']:.4f}, PSNR {quality}, SSIM {values['ssim']:.3f}"
            print(f"{name}: {quality}{_inside(values)}")
    reason = disagreement(report)
    if reason is not None:
        print(f"note: {reason}")
    if "hull" in report:
        print(f"visual hull of the same masks, heldout: IoU {report['hull']['heldout']['iou']:.4f}")
    surface = report["surface"]
    flaws = f"{surface['self_intersecting']:.2%} of the faces cut each other"
    if surface["inside_out"] is not None:
        flaws = f"{surface['inside_out']} of {surface['faces']} faces inside out, {flaws}"
    print(f"surface: {flaws}")
    if "relative_chamfer" in surface:
        print(f"distance to the true surface: {surface['relative_chamfer']:.3%} of its diagonal")
    if "poses" in report:
        degrees = report["poses"]["mean_degrees"]
        print(f"cameras turned by {degrees:.3f} degrees in the mean, see cameras.json")
    seconds = report["time"]
    if seconds["step_ms"] is not None:
        print(
            f"first build {seconds['first_build_ms']:.0f} ms, {seconds['step_ms']:.1f} ms a step,"
            f" {seconds['total_s']:.1f} s in all"
        )
    print(f"results are in '{folder}'")
