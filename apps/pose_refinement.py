"""Recovery of slightly wrong camera poses together with the shape.

    python apps/pose_refinement.py --photos data/photos/dino --out out/pose_refinement
    python apps/pose_refinement.py --mesh BoomBox_512.glb --terms silhouettes --seeds 0 1 2

Every camera is turned by 2 degrees about a random axis through the middle of the object and shifted by 2 % of its distance
in a random direction (--perturb). A fit with refine_poses then uses all pictures: with --terms silhouettes only the
outlines, with colours also the colours inside them (--colours of `dressi fit`). Of photographs it adjusts shape and poses
together by both, near its end. The found cameras are compared with the true ones after the best similarity: rotation errors in degrees and distances of centres in radii of the object, mean and largest,
before and after; and the IoU of the silhouettes seen by the found cameras. Writes pose_refinement.json with one entry for
each seed and each of the terms; existing entries are kept, and interrupted fits resume.
"""

import argparse
import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dressi import Device, DressiAD
from dressi.render.cameras import Cameras
from dressi.render.cameras.pose import pose_errors, turned
from dressi.render.cameras.views import upward
from dressi.render.fit import Dataset, FitJob, FitOptions, Observations, draw, mesh_dataset
from dressi.render.fit.disk.checkpoint import NAME
from dressi.render.formats import load_mesh
from dressi.render.io import load_photos, write_json
from dressi.render.mesh.primitives import pear
from dressi.render.objectives.hull import sphere_of
from dressi.render.objectives.metrics import iou


@dataclass(frozen=True)
class Cell:
    """The key of an entry."""

    target: str
    size: tuple[int, int]
    steps: int
    terms: str
    batch: int
    degrees: float
    share: float
    seed: int

    @property
    def name(self) -> str:
        return f"{self.target}-{self.size[0]}x{self.size[1]}-{self.steps}-{self.terms}-{self.batch}-{self.degrees:g}-{self.share:g}-{self.seed}"


def perturbed(cameras: Cameras, center: np.ndarray, degrees: float, share: float, seed: int) -> Cameras:
    """Each camera turned about an axis through the centre and shifted by a share of its distance, at random."""
    rng, found = np.random.default_rng(seed), []
    for camera in cameras:
        axis, way = (v / np.linalg.norm(v) for v in rng.normal(size=(2, 3)))
        away = float(np.linalg.norm(camera.center - center))
        found.append(turned(camera, np.radians(degrees) * axis, share * away * way, center))
    return Cameras(found)


def all_photos(folder: Path, size: tuple[int, int]) -> Dataset:
    """Photographs without a held-out split."""
    photos = load_photos(folder, size)
    views = Observations(photos.cameras, photos.masks, photos.targets, photos.known)
    return Dataset(views, None, *sphere_of(photos.bounds), photos.bounds, upward(photos.cameras))


def summary(cameras: Cameras, truth: Cameras, radius: float) -> dict[str, float]:
    errors = pose_errors(cameras, truth)
    away = errors.distances / radius
    return {
        "mean_degrees": float(errors.degrees.mean()), "max_degrees": float(errors.degrees.max()),
        "mean_distance": float(away.mean()), "max_distance": float(away.max()),
    }  # fmt: skip


def examine(cell: Cell, scene: Dataset, device: Device, folder: Path) -> dict[str, Any]:
    """The entry of a cell; checkpoints go into the folder."""

    def make_engine() -> DressiAD:
        return DressiAD(device)

    begin = time.perf_counter()
    truth = scene.train.cameras
    given = perturbed(truth, scene.center, cell.degrees, cell.share, cell.seed)
    options = FitOptions(
        size=cell.size, steps=cell.steps, views=len(truth), seed=cell.seed, batch=cell.batch,
        colours=cell.terms == "colours", refine_poses=True,
    )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    wrong = replace(scene, train=replace(scene.train, cameras=given))
    job = FitJob(wrong, options, make_engine, folder=folder)
    result = job.run(resume=(folder / NAME).is_file())
    job.forget()
    folder.rmdir()
    assert result.cameras is not None
    masks, _ = draw(result.mesh, result.cameras, make_engine)
    return {
        **asdict(cell), "views": len(truth), "device": device.name,
        "before": summary(given, truth, scene.radius),
        "after": summary(result.cameras, truth, scene.radius),
        "iou": iou(masks, scene.train.masks, scene.train.known),
        "seconds": result.earlier_s + time.perf_counter() - begin,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--photos", type=Path, help="a folder with photographs and their true cameras")
    parser.add_argument("--mesh", default="pear", help="without photographs: a mesh; pear is made here")
    parser.add_argument("--views", type=int, default=12, help="of a mesh")
    parser.add_argument("--size", type=int, nargs=2, default=(320, 240))
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--terms", nargs="+", choices=("silhouettes", "colours"), default=["silhouettes"])
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--perturb", type=float, nargs=2, default=(2.0, 0.02), metavar=("DEGREES", "SHARE"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--device", default=None)
    parser.add_argument("--headless", action="store_true", help="no window is ever opened")
    parser.add_argument("--out", type=Path, default=Path("out/pose_refinement"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    file, size = args.out / "pose_refinement.json", (args.size[0], args.size[1])
    report: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {}
    with Device.open(args.device) as device:
        if args.photos is not None:
            name, scene = args.photos.name, all_photos(args.photos, size)
        else:
            mesh = pear(32, 24, 64) if args.mesh == "pear" else load_mesh(Path(args.mesh))
            name, scene = Path(args.mesh).stem, mesh_dataset(mesh, args.views, size, lambda: DressiAD(device))
        for seed in args.seeds:
            for terms in args.terms:
                cell = Cell(name, size, args.steps, terms, args.batch, *args.perturb, seed)
                if cell.name not in report:
                    report[cell.name] = examine(cell, scene, device, args.out / cell.name)
                    write_json(file, report)
                entry = report[cell.name]
                print(
                    f"{cell.name}: {entry['before']['mean_degrees']:.3f} -> {entry['after']['mean_degrees']:.3f} degrees"
                    f" (largest {entry['after']['max_degrees']:.3f}), IoU {entry['iou']:.4f}"
                )


if __name__ == "__main__":
    main()
