"""Masks that `dressi fit --masks auto` made of photographs that have masks, beside those.

    dressi fit --photos DRESSI_DATA/photos/dtu24 --masks auto --out out/dtu24
    python apps/photographs/made_masks.py DRESSI_DATA/photos/dtu24 out/dtu24/masks --json out/made_masks.json

Of all photographs: the mean and the least IoU; ``over`` and ``under``, the pixels that a mask has in excess and lacks, in shares
of the given one; and the photographs of which it lacks or has in excess more than 2 %, the worst first.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from dressi.render.io import write_json
from dressi.render.io.calibration import read_calibration
from dressi.render.io.images import read_image

WRONG = 0.02


def compared(folder: Path, made: Path) -> dict[str, Any]:
    """The row of a folder of photographs and a folder of made masks."""
    rows = {}
    for view in read_calibration(folder).views:
        truth = (read_image(view.mask)[..., 0] if view.mask else read_image(view.image)[..., 3]) > 0.5
        mask = read_image(made / f"{view.image.name}.png")[..., 0] > 0.5
        area = float(truth.sum())
        rows[view.image.name] = [
            (mask & truth).sum() / (mask | truth).sum(), (mask & ~truth).sum() / area, (truth & ~mask).sum() / area
        ]  # fmt: skip
    iou, over, under = np.array(list(rows.values())).T
    wrong = [name for name, row in sorted(rows.items(), key=lambda one: one[1][0]) if max(row[1:]) > WRONG]
    return {
        "photographs": len(rows),
        "iou": float(iou.mean()),
        "least_iou": float(iou.min()),
        "over": float(over.mean()),
        "under": float(under.mean()),
        "wrong": wrong,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="with photographs, cameras and masks")
    parser.add_argument("masks", type=Path, help="folder `masks` of the results of a fit")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    row = compared(given.folder, given.masks)
    print(", ".join(f"{name} {value}" for name, value in row.items()))
    if given.json is not None:
        write_json(given.json, {given.folder.name: row})


if __name__ == "__main__":
    main()
