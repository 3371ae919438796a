"""Textures from pictures that do not fit together: what losses that see do, and squared differences of pixels do not.

    python apps/pipelines/perceptual_fit.py --json out/perceptual_fit.json --out out/perceptual_fit

The pictures of a painted pear are each shifted by up to ``--shift`` pixels and have another exposure, as those of a calibration
that is a little wrong. The texture round of `dressi fit` runs with each loss. Judged by views that it has not seen, drawn
from the truth: PSNR, structural similarity, and the contrast of details (their energy over that of the truth: 1 is as sharp).
"""

import argparse
import json
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter, shift

from dressi import DressiAD, Variable, evaluate
from dressi.render import (
    linear_to_srgb,
    load_mesh,
    perceptual,
    primitives,
    psnr,
    render,
    srgb_to_linear,
    ssim,
)
from dressi.render.cameras.views import held_out_ring, orbit
from dressi.render.fit.phases.texture import TextureRound
from dressi.render.fit.textures.losses import LOSSES
from dressi.render.io import save_png


def albedo(mesh, cameras, samples=4):
    """(pictures (N, H, W, 3), linear on black, masks (N, H, W))."""
    drawn = render(mesh, cameras, shader=lambda at: at.albedo, cull="back", samples=samples)
    mask = np.asarray(drawn.mask)
    return np.asarray(drawn.colour) * mask[..., None], mask


def detail(pictures, masks) -> float:
    """Energy of what a blur by a pixel and a half takes away, inside of the masks."""
    codes = linear_to_srgb(np.clip(pictures, 0, 1)).mean(-1)
    high = codes - gaussian_filter(codes, (0, 1.5, 1.5))
    inside = gaussian_filter(masks, (0, 3, 3)) > 0.999
    return float(np.square(high[inside]).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mesh", type=Path, help="with a texture; a painted pear without it")
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--views", type=int, default=8)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--shift", type=float, default=1.5, help="pixels")
    parser.add_argument("--losses", nargs="+", choices=tuple(LOSSES), default=["l2", "ssim", "perceptual"])
    parser.add_argument("--device")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    mesh = primitives.pear() if arguments.mesh is None else load_mesh(arguments.mesh)
    size, sphere, rng = (arguments.size, arguments.size), mesh.bounding_sphere(), np.random.default_rng(0)
    count = arguments.views
    cameras = orbit(*sphere, np.arange(count) * 360 / count, np.tile([-20.0, 30.0], count)[:count], size)
    colors, masks = albedo(mesh, cameras)
    moves, gains = rng.uniform(-arguments.shift, arguments.shift, (count, 2)), rng.uniform(0.8, 1.25, count)
    moved = [shift(c, (*m, 0), order=1) * g for c, m, g in zip(colors, moves, gains, strict=True)]
    moved_masks = [np.clip(shift(a, m, order=1), 0, 1) for a, m in zip(masks, moves, strict=True)]
    held = held_out_ring(*sphere, size)[::3]
    truth, inside = albedo(mesh, held)
    report, rows = {"sharp": detail(truth, inside)}, [truth]
    for loss in arguments.losses:
        work = TextureRound(
            mesh, cameras.matrices, np.stack(moved_masks), np.stack(moved),
            steps=arguments.steps, texture_size=128, gradient="exact", seed=0, loss=loss,
        )  # fmt: skip
        with DressiAD(arguments.device) as engine:
            engine.set_loss(work.loss)
            engine.set_optimizer(work.optimizer, work.parameters)
            engine.step(work.steps)
            found = srgb_to_linear(np.clip(engine.evaluate(work.pyramid.texture)[0], 0, 1))
        mesh_found = type(mesh)(**{**mesh.__dict__, "texture": found})
        seen, _ = albedo(mesh_found, held)
        pair = [Variable.of(linear_to_srgb(np.clip(p, 0, 1)).astype(np.float32)) for p in (seen, truth)]
        report[loss] = {
            "PSNR": round(psnr(seen, truth, inside > 0.999), 2),
            "SSIM": round(ssim(seen, truth, inside > 0.999), 4),
            "perceptual": round(float(evaluate(perceptual(*pair)).item()), 4),
            "detail": round(detail(seen, inside) / report["sharp"], 3),
        }
        rows.append(seen)
        print(loss, report[loss], flush=True)
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
        sheet = np.concatenate([np.concatenate(list(np.clip(r, 0, 1)), axis=1) for r in rows])
        save_png(arguments.out / "perceptual_fit.png", sheet)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
