"""The picture of a fit: views that it never saw, lit, the model above and the result in the middle; below, four times the difference.

dressi fit --target pear.glb --views 6 --out out/demo
python apps/figures/fit_picture.py pear.glb out/demo/result.glb apps/results/fit.png
"""

import argparse
from pathlib import Path

import numpy as np

from dressi.render import Camera, Cameras, Environment, render, studio
from dressi.render.drawing.draw import compare
from dressi.render.formats import load_mesh
from dressi.render.io import save_png
from dressi.render.surface.color import linear_to_srgb, srgb_to_linear

SCALE = 4.0
"""Of the difference of the sRGB codes."""


def _camera(centre: np.ndarray, radius: float, turn: float, size: int) -> Camera:
    """From above the ring of the training views, at angles that are not theirs."""
    angle, height = 2 * np.pi * turn + 0.3, np.radians(40)
    way = np.array([np.cos(height) * np.sin(angle), np.sin(height), np.cos(height) * np.cos(angle)])
    eye = centre + 1.05 * radius / np.sin(np.radians(15)) * way
    return Camera.perspective(30, (size, size), tuple(eye), tuple(centre))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("result", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--views", type=int, default=5)
    parser.add_argument("--size", type=int, default=150)
    given = parser.parse_args()
    model, result = load_mesh(given.model), load_mesh(given.result)
    centre, radius = model.bounding_sphere()
    cameras = Cameras(
        [_camera(centre, radius, turn, given.size) for turn in np.arange(given.views) / given.views]
    )
    light = Environment(studio())
    target, found = (render(mesh, cameras, light=light, samples=2).colour for mesh in (model, result))
    sheet = compare(np.clip(target, 0, 1), np.clip(found, 0, 1), gap=0)
    last = sheet[-given.size :]
    sheet[-given.size :] = srgb_to_linear(np.clip(SCALE * linear_to_srgb(last), 0, 1))
    save_png(given.out, sheet)


if __name__ == "__main__":
    main()
