"""Depths by stereo alone, as `dressi fit` starts from them, against the meshes whose pictures stand for photographs.

    python apps/photographs/stereo_accuracy.py --json out/stereo_accuracy.json
    python apps/photographs/stereo_accuracy.py --mesh spot --size 320 240 --views 24 --out out/stereo

Two rings of cameras see each mesh under a sky with a sun, with noise, in 8 bits. Each row is one mesh: the share of the pixels of
the masks that get a depth, and of those with no jump of the depth beside them; the share of the latter within .5 % of the true
depth, the median and the 90th percentile of their errors over the depth, and processor seconds. --out: pictures, true depths, found depths, and errors.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

from dressi import Device, DressiAD
from dressi.config import config
from dressi.render import load_mesh, orbit, render
from dressi.render.cameras import Camera, Cameras
from dressi.render.cameras.pose import unit_cameras
from dressi.render.drawing.draw import draw
from dressi.render.fit import Dataset, Observations
from dressi.render.fit.start.carved import Hull
from dressi.render.fit.start.stereo import depth_maps
from dressi.render.io import save_png, write_json
from dressi.render.mesh import Mesh
from dressi.render.shading.lights import DirectionalLight
from dressi.render.surface.color import linear_to_srgb, srgb_to_linear

MESHES = {
    "Avocado": "Avocado_512.glb",
    "BoomBox": "BoomBox_512.glb",
    "BarramundiFish": "BarramundiFish_512.glb",
    "spot": "spot_bob/spot.obj",
}
NEAR = 0.005
"""Share of the depth."""


def photographs(mesh: Mesh, given: argparse.Namespace, device: Device) -> Dataset:
    center, radius = mesh.bounding_sphere()
    azimuths = 360 / given.views * np.arange(given.views)
    heights = np.where(np.arange(given.views) % 2 == 0, 10.0, 38.0)
    cameras = orbit(center, radius, azimuths, heights, tuple(given.size))
    masks, plain = draw(mesh, cameras, lambda: DressiAD(device), 4)
    sun = DirectionalLight((0.4, 1.0, 0.3), colour=1.6)
    _, lit = draw(mesh, cameras, lambda: DressiAD(device), 4, sun)
    codes = linear_to_srgb(np.clip(0.4 * plain + lit, 0, 1))
    random = np.random.default_rng(given.seed)
    codes = np.rint(255 * np.clip(codes + given.noise * random.normal(size=codes.shape), 0, 1)) / 255
    inside = (masks >= 0.5).astype(np.float32)
    colors = (srgb_to_linear(codes) * inside[..., None]).astype(np.float32)
    return Dataset(
        Observations(cameras, inside, colors), None, center, radius, mesh.bounds(), np.array([0.0, 1, 0])
    )


def measured(name: str, mesh: Mesh, given: argparse.Namespace, device: Device) -> dict[str, float]:
    scene = photographs(mesh, given, device)
    begin = time.process_time()
    cameras = unit_cameras(scene.train.cameras, scene.center, scene.radius)
    hull = Hull.of(
        scene.matrices, scene.train.masks, None, (scene.bounds - scene.center) / scene.radius * 1.05
    )
    carved = time.process_time()
    views, maps = depth_maps(cameras, scene.train, hull, lambda: DressiAD(device))
    spent = time.process_time() - carved
    small = [Camera(views.K[k], views.R[k], views.t[k], views.size) for k in maps]
    true = render(scene.to_unit(mesh), Cameras(small), light=None).depth
    errors, known, masked, rows = [], 0, 0, []
    for (k, one), depth in zip(maps.items(), true, strict=True):
        depth = views.cropped(np.broadcast_to(depth, (len(views), *depth.shape)), k)
        there = one.confident & (depth > 0)
        errors.append(np.abs(one.depth[there] / depth[there] - 1))
        known += int(one.sure.sum())
        masked += int((views.cropped(views.masks, k) >= 0.5).sum())
        low, high = depth[depth > 0].min(), depth.max()
        shown = [
            np.where(where, (high - d) / (high - low) * 0.9 + 0.1, 0)
            for d, where in ((depth, depth > 0), (one.depth, one.sure))
        ]
        wrong = np.where(there, np.abs(one.depth / np.maximum(depth, 1e-9) - 1) / (2 * NEAR), 0)
        rows.append(np.concatenate([views.cropped(views.grey, k), *shown, wrong], axis=1))
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
        save_png(given.out / f"{name}.png", np.clip(np.concatenate(rows[:3]), 0, 1)[..., None].repeat(3, -1))
    found = np.concatenate(errors)
    return {
        "depths_of_masked": known / max(masked, 1),
        "confident_of_masked": len(found) / max(masked, 1),
        "within_half_percent": float((found < NEAR).mean()),
        "median": float(np.median(found)),
        "percentile_90": float(np.percentile(found, 90)),
        "hull_cpu_s": carved - begin,
        "depths_cpu_s": spent,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mesh", nargs="+", choices=list(MESHES), default=list(MESHES))
    parser.add_argument("--views", type=int, default=24)
    parser.add_argument("--size", type=int, nargs=2, default=(320, 240))
    parser.add_argument("--noise", type=float, default=0.005, help="standard deviation, of codes from 0 to 1")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default=None, help="Vulkan device, by name or index")
    parser.add_argument("--data", type=Path, default=config.data or Path("../shared/data"))
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    parser.add_argument("--json", type=Path, help="write the figures into this file")
    parser.add_argument("--out", type=Path, help="folder of pictures")
    given = parser.parse_args()
    table = {}
    with Device.open(given.device) as device:
        for name in given.mesh:
            table[name] = measured(name, load_mesh(given.data / "meshes" / MESHES[name]), given, device)
            print(
                json.dumps({name: {key: round(value, 5) for key, value in table[name].items()}}), flush=True
            )
    if given.json:
        write_json(given.json, table)


if __name__ == "__main__":
    main()
