"""The pictures of figures 10 and 11, from the JSON files that figure10.py has written."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

LAYERS, RADII = (1, 2, 3, 5), (1, 2, 3, 5, 7)
"""Of the cells of the face form: layers K, and radii in pixels."""
MARKS = (500, 2500)
"""Steps at which distances are recorded."""


def pictures(folder: Path) -> None:
    """Heat maps of the face form, and the curves of the contrasting cells."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]
    marks = [m for m in MARKS if any(row[f"distance at {m}"] is not None for row in rows)]
    marks = marks or [max(row["steps"] for row in rows)]
    figure, axes = pyplot.subplots(1, len(marks), figsize=(4.5 * len(marks), 4), dpi=100, squeeze=False)
    for mark, panel in zip(marks, axes[0], strict=True):
        table = np.full((len(RADII), len(LAYERS)), np.nan)
        for row in rows:
            distance = dict(map(tuple, row["curve"])).get(mark)
            if row["layers"] and distance is not None:
                table[RADII.index(row["radius_px"]), LAYERS.index(row["layers"])] = distance
        drawn = panel.imshow(table, cmap="viridis_r", aspect="auto")
        for (y, x), value in np.ndenumerate(table):
            ink = "white" if drawn.norm(value) > 0.5 else "black"
            text = "" if np.isnan(value) else f"{value:.4f}"
            panel.text(x, y, text, ha="center", va="center", fontsize=8, color=ink)
        panel.set(title=f"step {mark}", xlabel="K", ylabel="r, pixels")
        panel.set_xticks(range(len(LAYERS)), [str(k) for k in LAYERS])
        panel.set_yticks(range(len(RADII)), [str(r) for r in RADII])
    figure.tight_layout()
    figure.savefig(folder / "figure10.png")
    figure, panel = pyplot.subplots(figsize=(7, 4.5), dpi=100)
    for label, row in contrasts(rows).items():
        steps, distances = zip(*row["curve"], strict=True)
        panel.plot(steps, distances, label=f"{label}: {row['cell']}", linewidth=1)
    panel.set(xlabel="step", ylabel="distance to the surface, radii", yscale="log")
    panel.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(folder / "figure11.png")
    pyplot.close("all")


def contrasts(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Rows of figure 11: the cells of the face form and of the outer form with the smallest final distance, the largest and
    the smallest radius with as many layers as the best, and edges."""

    def end(row: dict[str, Any]) -> float:
        return row["curve"][-1][1]

    forms: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        forms.setdefault(row["form"], []).append(row)
    found = {}
    if peeled := forms.get("face"):
        found["best"] = min(peeled, key=end)
        alike = [row for row in peeled if row["layers"] == found["best"]["layers"]]
        found["very far"] = max(alike, key=lambda row: row["radius_px"])
        found["very near"] = min(alike, key=lambda row: row["radius_px"])
    for label, form in (("outer form", "outer"), ("edges", "edges")):
        if form in forms:
            found[label] = min(forms[form], key=end)
    return found
