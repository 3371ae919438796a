"""Memory and time of `dressi fit --photos` on sixty pictures of 12 megapixels, without cameras and without masks.

    python apps/photographs/large_pictures.py draw --mesh ../shared/data/meshes/Avocado_512.glb --out out/large
    python apps/photographs/large_pictures.py fit --photos out/large --out out/large-fit --json out/large_pictures.json
    python apps/photographs/large_pictures.py fit --photos out/large --out out/large-fit -- --cameras out/large-cameras.json

The last line is with given cameras, and without masks. ``draw`` enlarges pictures of a quarter of the width, of a scan on a table, with grain of their full size: 60 JPEG files of
4000x3000 pixels. ``fit`` runs the command (arguments after ``--`` are its own) and reports the peak of its resident memory, as
the system counts it, its seconds, and what it found. Memory that a device on the processor takes is counted, too.
"""

import argparse
from pathlib import Path

import numpy as np
from held_out import fitted
from phone_video import clutter
from PIL import Image

from dressi import DressiAD
from dressi.render import Node, Scene, load_mesh, orbit
from dressi.render.drawing.draw import draw
from dressi.render.io import write_json
from dressi.render.io.calibration import encode_cameras
from dressi.render.io.lens import Lens
from dressi.render.shading.environment import Environment, studio
from dressi.render.surface.color import linear_to_srgb

SIZE, SMALLER = (4000, 3000), 4
GRAIN = 5.0
"""Standard deviation of codes from 0 to 255."""
HEIGHTS = (20.0, 35.0, 50.0)
"""Degrees above the table of the rings of cameras."""


def draw_pictures(options: argparse.Namespace) -> None:
    rng = np.random.default_rng(0)
    mesh = load_mesh(options.mesh)
    centre, radius = mesh.bounding_sphere()
    scene = Scene([Node(mesh, {"metallic": 0.0, "roughness": 0.9}), *clutter(mesh.bounds(), radius, rng)])
    light = Environment(studio(), intensity=1.0)
    turns = 360 / options.count * len(HEIGHTS) * np.arange(options.count)
    small = SIZE[0] // SMALLER, SIZE[1] // SMALLER
    options.out.mkdir(parents=True, exist_ok=True)
    given = []
    for number, turn in enumerate(turns):
        height = HEIGHTS[number * len(HEIGHTS) // options.count]
        cameras = orbit(centre, radius, np.array([turn]), np.array([height]), small, distance=3.2)
        _, shown = draw(scene, cameras, DressiAD, 2, light)
        name = f"{number:03}.jpg"
        given.append((name, cameras[0].resized(SIZE), Lens()))
        codes = Image.fromarray(np.rint(255 * linear_to_srgb(np.clip(shown[0], 0, 1))).astype(np.uint8))
        large = np.asarray(codes.resize(SIZE, Image.Resampling.BICUBIC), np.float32)
        large = large + GRAIN * rng.standard_normal((*large.shape[:2], 1), np.float32)
        Image.fromarray(np.clip(large, 0, 255).astype(np.uint8)).save(options.out / name, quality=92)
    file = options.out.parent / f"{options.out.name}-cameras.json"
    file.write_bytes(encode_cameras(given, mesh.bounds()))
    print(f"{options.count} pictures of {SIZE[0]}x{SIZE[1]} are in '{options.out}'")


def fit(options: argparse.Namespace) -> None:
    result = {
        "pictures": len(list(options.photos.glob("*.jpg"))), "size": list(SIZE), "arguments": options.arguments,
        **fitted(options.photos, options.out, options.arguments),
    }  # fmt: skip
    print(f"peak {result['peak_gigabytes']:.2f} GB, {result['seconds']:.0f} s")
    if options.json:
        write_json(options.json, result)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(required=True)
    first = commands.add_parser("draw", help="draw the pictures")
    first.add_argument("--mesh", type=Path, required=True)
    first.add_argument("--out", type=Path, required=True)
    first.add_argument("--count", type=int, default=60)
    first.set_defaults(call=draw_pictures)
    second = commands.add_parser("fit", help="fit, and measure")
    second.add_argument("--photos", type=Path, required=True)
    second.add_argument("--out", type=Path, required=True)
    second.add_argument("--json", type=Path)
    second.add_argument("arguments", nargs="*", help="of dressi fit, after --")
    second.set_defaults(call=fit)
    options = parser.parse_args()
    options.call(options)


if __name__ == "__main__":
    main()
