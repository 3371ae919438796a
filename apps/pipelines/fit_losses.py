"""`dressi fit --loss`: what its losses find from the same pictures, on views that were held out.

    python apps/pipelines/fit_losses.py --json apps/results/pipelines/fit_losses.json

Runs the command for each mesh and each loss, and draws what it wrote from the held-out views. Reports PSNR, structural
similarity and the perceptual distance there. Of the first three of these views the picture has a row of the truth, and one for
each loss.
"""

import os
import subprocess
import sys

import numpy as np
from pipeline_tools import options, report

from dressi import VEC3, DressiAD, Variable
from dressi.render import linear_to_srgb, perceptual
from dressi.render.drawing.draw import draw
from dressi.render.fit import mesh_dataset
from dressi.render.formats import load_mesh
from dressi.render.objectives.metrics import psnr, ssim

MESHES, LOSSES, VIEWS = ("spot_bob/spot.obj", "Avocado_512.glb"), ("l2", "ssim", "perceptual"), 6

given = options(__doc__, steps=300, size=64, seed=0)
figures, pictures = {}, []


def engine() -> DressiAD:
    return DressiAD(given.device)


for path in MESHES:
    target, name = given.data / "meshes" / path, path.split("/")[-1].split(".")[0]
    truth = mesh_dataset(load_mesh(target), VIEWS, (given.size, given.size), engine).held_out
    assert truth is not None
    codes, rows = linear_to_srgb(truth.colors), []
    for loss in LOSSES:
        folder = given.out / f"{name}-{loss}"
        command = [
            sys.executable, "-m", "dressi", "fit", "--target", target, "--views", VIEWS, "--size", given.size, "--steps",
            given.steps, "--seed", given.seed, "--loss", loss, "--out", folder,
            *(("--device", given.device) if given.device else ()),
        ]  # fmt: skip
        subprocess.run([str(x) for x in command], check=True, env=os.environ)
        colours = draw(load_mesh(folder / "result.glb"), truth.cameras, engine, truth.samples)[1]
        found = linear_to_srgb(np.clip(colours, 0, 1))
        with engine() as ad:
            distance = perceptual(Variable.of(found, VEC3), Variable.of(codes, VEC3))
            figures[f"{name}_{loss}_distance"] = ad.evaluate(distance).item()
        figures[f"{name}_{loss}_db"] = psnr(colours, truth.colors, truth.masks)
        figures[f"{name}_{loss}_ssim"] = ssim(colours, truth.colors, truth.masks)
        rows.append(np.concatenate(found[:3], axis=1))
    pictures.append(np.concatenate([np.concatenate(codes[:3], axis=1), *rows]))
report(given, "fit_losses", figures, *pictures)
