"""Where the squared error of a fit of photographs lies, in its held-out pictures.

    dressi fit --photos PICTURES --out out/fit
    python apps/photographs/error_map.py --photos PICTURES --fit out/fit --json out/error_map.json --png out/error_map.png

The pixels of the masks, whose PSNR is reported, are told apart: those that the result does not cover; the rim, within RIM pixels
of either outline; and the interior, of which highlights (a code above BRIGHT), edges (codes that differ by EDGE from pixel to
pixel) and the smooth rest. Each has its share of the pixels and of the squared error, without exposures of the held-out pictures.
Of the interior it also says how many decibels are gained by a factor for each picture and channel, by factors that vary slowly
over each picture (light and gloss), and by the best shift of small windows (shape and poses).
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter, shift, uniform_filter

from dressi import DressiAD
from dressi.render import load_mesh
from dressi.render.drawing.draw import draw
from dressi.render.fit.data.dataset import photo_dataset
from dressi.render.fit.report import whole_pixels
from dressi.render.io import load_photos, save_png, write_json
from dressi.render.io.files import read_json
from dressi.render.io.images import read_image
from dressi.render.objectives.metrics import code_gains, interior
from dressi.render.surface.color import linear_to_srgb

RIM, BRIGHT, EDGE = 3.0, 0.9, 0.1
SLOW = 12.0
"""Pixels of the standard deviation of what counts as slow."""
WINDOW, SHIFTS = 9, (-1.0, -0.5, 0.0, 0.5, 1.0)
"""Pixels along the side of windows that are shifted, and by how many."""


def decibels(error: np.ndarray) -> float:
    return -10 * float(np.log10(error.mean()))


def split(codes: np.ndarray, wanted: np.ndarray, covered: np.ndarray, masks: np.ndarray) -> dict[str, Any]:
    """codes, wanted: (N, H, W, 3), on black.  covered, masks: (N, H, W) bool."""
    error = ((codes - wanted) ** 2).mean(-1)
    deep = interior(covered, masks, RIM)
    grey = wanted.mean(-1)
    slope = np.hypot(*np.gradient(grey, axis=(1, 2)))
    bright, edge = wanted.max(-1) > BRIGHT, slope > EDGE / 2
    regions = {
        "uncovered": masks & ~covered, "rim": masks & covered & ~deep, "highlights": deep & bright,
        "edges": deep & ~bright & edge, "smooth": deep & ~bright & ~edge,
    }  # fmt: skip
    total, count = error[masks].sum(), masks.sum()
    rows: dict[str, Any] = {
        name: {
            "pixels": float(part.sum() / count),
            "error": float(error[part].sum() / total),
            "psnr": decibels(error[part]) if part.any() else None,
            "brighter": float((codes - wanted)[part].mean()) if part.any() else None,
        }
        for name, part in regions.items()
    }
    rows["psnr"], rows["inside"] = decibels(error[masks]), decibels(error[deep])
    gains = np.stack([code_gains(*parts) for parts in zip(codes, wanted, deep, strict=True)])
    exposed = np.clip(codes * gains[:, None, None], 0, 1)
    rows["inside, exposed"] = decibels(((exposed - wanted)[deep] ** 2).mean(-1))
    weight = np.maximum(gaussian_filter(deep.astype(float), (0, SLOW, SLOW)), 1e-6)[..., None]
    power = [
        gaussian_filter(a * deep[..., None], (0, SLOW, SLOW, 0)) / weight for a in (codes * wanted, codes**2)
    ]
    slow = np.clip(codes * power[0] / np.maximum(power[1], 1e-6), 0, 1)
    rows["inside, slow factors"] = decibels(((slow - wanted)[deep] ** 2).mean(-1))
    best = np.full(error.shape, np.inf)
    for y in SHIFTS:
        for x in SHIFTS:
            moved = ((shift(slow, (0, y, x, 0), order=1) - wanted) ** 2).mean(-1)
            best = np.minimum(best, uniform_filter(moved * deep, (0, WINDOW, WINDOW)))
    here = uniform_filter(((slow - wanted) ** 2).mean(-1) * deep, (0, WINDOW, WINDOW))
    rows["gain of shifts, dB"] = 10 * float(np.log10(here[deep].mean() / best[deep].mean()))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--fit", type=Path, required=True, help="folder of a finished fit of these pictures")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--png", type=Path, help="error of each held-out picture beside the two")
    options = parser.parse_args()
    report = read_json(options.fit / "report.json", "report")
    made, cameras = options.fit / "masks", options.fit / "cameras"
    found = (path for path in (cameras / "cameras.json", cameras / "sparse" / "0") if path.exists())
    photos = load_photos(
        options.photos,
        tuple(report["views"]["size"]),
        cut=True,
        cameras=next(found, None),
        masks=(lambda view, codes: read_image(made / f"{view.image.name}.png")[..., 0] > 0.5)
        if made.is_dir()
        else None,
    )
    views = photo_dataset(photos).held_out
    assert views is not None
    drawn = draw(load_mesh(options.fit / "result.glb"), views.cameras, DressiAD, views.samples)
    (masks, colors), (inside, target) = whole_pixels(*drawn), whole_pixels(views.masks, views.colors)
    codes, wanted = linear_to_srgb(colors), linear_to_srgb(target)
    rows = split(codes, wanted, masks > 0, inside > 0)
    for name, row in rows.items():
        print(
            name, {k: v and round(v, 3) for k, v in row.items()} if isinstance(row, dict) else round(row, 2)
        )
    if options.json:
        write_json(options.json, rows)
    if options.png:
        error = np.abs(codes - wanted) * inside[..., None]
        sheet = np.concatenate([np.concatenate(list(part), 1) for part in (wanted, codes, 2 * error)])
        save_png(options.png, np.clip(sheet, 0, 1).astype(np.float32))


if __name__ == "__main__":
    main()
