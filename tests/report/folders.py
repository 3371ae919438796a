"""Folders as `dressi fit` writes them, made without a device."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from dressi.render import Mesh, save_mesh
from dressi.render.drawing.draw import GAP, compare
from dressi.render.io import save_gif, save_png
from dressi.render.mesh.primitives import pear

SIZE = (24, 16)


def view(number: int, **more: Any) -> dict[str, Any]:
    pose = {"eye": [0.0, 0.5, 3.0], "forward": [0.0, -0.1, -0.99], "up": [0.0, 1.0, 0.0], "fov": 45.0}
    return {"view": number, "iou": 0.9 + 0.01 * number, "psnr": 20.0 + number, **pose, **more}


def write_fit(folder: Path, mesh: Mesh | None = None, size: tuple[int, int] = SIZE, **changes: Any) -> Path:
    """A fit with two training views and one held-out view. changes: of the report."""
    folder.mkdir(parents=True, exist_ok=True)
    rng, (width, height) = np.random.default_rng(0), size
    pictures = rng.random((2, height, width, 3))
    save_png(folder / "views.png", compare(pictures, 0.9 * pictures))
    save_png(folder / "heldout.png", compare(pictures[:1], 0.5 * pictures[:1]))
    save_mesh(folder / "result.glb", pear(9, 9, 32) if mesh is None else mesh)
    save_png(folder / "confidence.png", pictures[0])
    save_gif(folder / "turntable.gif", pictures)
    (folder / "loss.csv").write_text(
        "step,phase,loss\n0,shape,0.5\n1,shape,0.25\n2,texture,nan\n3,texture,0.125\n"
    )
    (folder / "quality.csv").write_text("step,phase,iou,psnr\n1,shape,0.5,\n4,texture,0.9,21.5\n")
    stages = [
        {"name": "raster 24x16", "functions": "Rasterize", "ms": 1.5, "predicted_ms": 1.25, "bytes": 4096},
        {"name": "compute 24x16", "functions": "Mul, Add", "ms": None, "predicted_ms": 0.5, "bytes": 2048},
    ]
    (folder / "stages.json").write_text(json.dumps([{"round": "shape 1", "stages": stages}]))
    counts = {"substages": 9, "stages": 8, "functions": 99}
    train = [view(0, name="a.png", inside=21.0, gains=[1.0, 0.9, 1.1]), view(1, name="b.png", inside=19.0)]
    when = "2026-01-02T03:04:05+00:00"
    report = {
        "task": {"kind": "mesh", "source": "pear.glb", "optimize": None, "finished": when},
        "stages": ["shape 1"],
        "device": {"name": "Test <GPU>", "driver": "driver & co", "version": "1.2"},
        "plan": {**counts, "shape": counts},
        "time": {"first_build_ms": 12.5, "step_ms": 3.25, "total_s": 61.0},
        "metrics": {
            "train": {"iou": 0.95, "psnr": 25.5, "ssim": 0.9},
            "heldout": {"iou": 0.875, "psnr": 22.125, "ssim": 0.8, "exposed_inside": 24.5},
        },
        "views": {
            "size": list(size),
            "gap": GAP,
            "up": [0, 1, 0],
            "train": [view(0), view(1)],
            "heldout": [view(3)],
        },
        "surface": {"faces": 100, "inside_out": 0, "self_intersecting": 0.0, "relative_chamfer": 0.0123},
        "pictures": {"train": train, "heldout": [view(3, name="c<d>.png", inside=None)]},
        "parts": {"components": 1, "views": 2, "apart": 0, "result": 1},
        "hull": {"heldout": {"iou": 0.8}},
        "advice": [{"what": "size", "decibels": 3.5, "text": "outlines & rims: larger <pictures>"}],
        "confidence": {"mean": 0.625, "low": 0.125, "unseen": 0.0625, "residual": 0.02},
    }
    (folder / "report.json").write_text(json.dumps({**report, **changes}))
    return folder
