"""What depth pictures add to a fit: distances of surfaces with and without them, and with colours.

    python apps/depth_fit.py --out out/depth_fit
    python apps/depth_fit.py --mesh spot.obj --size 160 --steps 360 --noise 0.004 --unknown 0.2 --wrong 0.03

Pictures of a mesh stand for photographs: masks of 0 and 1, unlit colours and depths by cameras above, below and aside. Depths get
noise (a share of the depth), and pixels of which nothing is known or that are wrong by up to 30 %, at random. Each row of
depth_fit.json is one fit: the mean distance between its surface and the true one, in radii of the object (20,000 samples of
each), and the processor time. Rows that are in the file are not computed again.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

from dressi import Device, DressiAD
from dressi.render import Mesh, chamfer, load_mesh, orbit, primitives, render
from dressi.render.fit import Dataset, FitJob, FitOptions, Observations, draw
from dressi.render.io import write_json

VARIANTS = {
    "outlines": (False, False),
    "colours": (False, True),
    "depths": (True, False),
    "depths and colours": (True, True),
}
"""By name: whether depths and colours are compared."""
ELEVATIONS = (55.0, -15.0, 35.0)


def spoiled(depths: np.ndarray, noise: float, unknown: float, wrong: float, seed: int) -> np.ndarray:
    """Depths as a camera would measure them, 0 where unknown."""
    random = np.random.default_rng(seed)
    found = depths * (1 + noise * random.normal(size=depths.shape))
    bad = random.random(depths.shape) < wrong
    found[bad] *= random.uniform(0.7, 1.3, int(bad.sum()))
    return np.where(random.random(depths.shape) < unknown, 0.0, found)


def scene_of(mesh: Mesh, given: argparse.Namespace, device: Device) -> Dataset:
    center, radius = mesh.bounding_sphere()
    heights = [ELEVATIONS[k % 3] for k in range(given.views)]
    size = given.size, given.size
    cameras = orbit(center, radius, 360 / given.views * np.arange(given.views), heights, size)
    masks, colors = draw(mesh, cameras, lambda: DressiAD(device))
    depths = spoiled(
        render(mesh, cameras, light=None).depth, given.noise, given.unknown, given.wrong, given.seed
    )
    train = Observations(cameras, masks, colors, depths=depths)
    return Dataset(train, None, center, radius, mesh.bounds(), np.array([0.0, 1.0, 0.0]))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mesh", default="bowl", help="a file, or bowl")
    parser.add_argument("--views", type=int, default=9)
    parser.add_argument("--size", type=int, default=96, help="pixels along each side")
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--noise", type=float, default=0.0)
    parser.add_argument("--unknown", type=float, default=0.0)
    parser.add_argument("--wrong", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--device", default=None, help="Vulkan device, by name or index")
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    parser.add_argument("--out", type=Path, default=Path("out/depth_fit"))
    given = parser.parse_args()

    given.out.mkdir(parents=True, exist_ok=True)
    file = given.out / "depth_fit.json"
    rows = json.loads(file.read_text()) if file.exists() else []
    mesh = primitives.bowl(4) if given.mesh == "bowl" else load_mesh(Path(given.mesh))
    center, radius = mesh.bounding_sphere()
    mesh = mesh.moved((mesh.positions - center) / radius)
    names = ("views", "size", "steps", "noise", "unknown", "wrong", "seed")
    with Device.open(given.device) as device:
        scene = scene_of(mesh, given, device)
        for variant in given.variants:
            key = {
                "mesh": mesh.name,
                **{name: getattr(given, name) for name in names},
                "device": device.name,
                "variant": variant,
            }
            if any(key.items() <= row.items() for row in rows):
                continue
            depth, colours = VARIANTS[variant]
            options = FitOptions((given.size,) * 2, steps=given.steps, depth=depth, colours=colours)
            begin = time.process_time()
            result = FitJob(scene, options, lambda: DressiAD(device)).run()
            seconds = time.process_time() - begin
            rows.append({**key, "distance": chamfer(result.mesh, mesh), "processor_seconds": seconds})
            write_json(file, rows)
            print(f"{mesh.name}, {variant}: {rows[-1]['distance']:.4f} radii, {seconds:.0f} s", flush=True)
    print(f"two samples of the true surface: {chamfer(mesh, mesh):.4f}; results are in '{file}'")


if __name__ == "__main__":
    main()
