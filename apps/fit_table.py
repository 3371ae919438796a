"""The quality of `dressi fit` with default settings, for all test cases.

    python apps/fit_table.py --out apps/results/fit_table
    python apps/fit_table.py --case dino spot spot-12 --device SwiftShader
    python apps/fit_table.py --case seeds --seeds 10 --mesh Avocado

Photographs (dino, dtu24, lego) and meshes that make six (spot, ...) or twelve pictures (spot-12, ...), from the folder
DRESSI_DATA; bob-12 also reports how much of its hole is open. seeds: the same mesh several times, each with the start sphere
rotated (see --start), the pictures in another order, noise of 0.02 in their codes, and every tenth pixel along the outline
randomly in or out of the mask. Each case is fitted as by the command line. Its results are in a folder of its name, and its
row in fit_table.json: seconds with loading and writing, metrics, surface, and the visual hull of the same masks. Existing
rows are kept. A last row has the spread of the seeds' distances to the true surface: (max - min) / mean, and the standard
deviation over the mean.
"""

import argparse
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import binary_dilation, binary_erosion, binary_fill_holes
from scipy.spatial.transform import Rotation

from dressi import Device, DressiAD
from dressi.config import config
from dressi.errors import InputError
from dressi.render.cameras import Cameras
from dressi.render.fit import (
    Dataset,
    FitJob,
    FitOptions,
    Observations,
    draw,
    mesh_dataset,
    photo_dataset,
    write_results,
)
from dressi.render.fit.options import STARTS
from dressi.render.formats import load_mesh
from dressi.render.io import load_photos, write_json
from dressi.render.mesh import Mesh
from dressi.render.surface.color import linear_to_srgb, srgb_to_linear

PHOTOS = {"dino": "dino", "dtu24": "dtu24", "lego": "lego_synthetic"}
MESHES = {
    "Avocado": "Avocado_512.glb",
    "spot": "spot_bob/spot.obj",
    "BoomBox": "BoomBox_512.glb",
    "BarramundiFish": "BarramundiFish_512.glb",
    "bob": "spot_bob/bob_tri.obj",
    "Suzanne": "Suzanne_512.glb",
    "Lucy": "stanford/Lucy100k.ply",
    "bunny": "common/stanford-bunny.obj",
    "teapot": "common/teapot.obj",
}
FOURS = ("Avocado", "spot", "BoomBox", "BarramundiFish")
OTHERS = ("bob", "Suzanne", "Lucy", "bunny", "teapot")
CASES = (*PHOTOS, *FOURS, *(f"{name}-12" for name in (*FOURS, *OTHERS)), "seeds")
WIDEST = 320
"""Of photographs, as the command line takes them."""
NOISE, FRAYED = 0.02, 0.1


@dataclass(frozen=True, eq=False)
class TurnedStart(Dataset):
    """A scene whose start sphere is turned."""

    turn: np.ndarray = field(default_factory=lambda: np.eye(3))

    def start(self, subdivisions: int) -> Mesh:
        ball = super().start(subdivisions)
        middle = ball.positions.mean(0)
        return ball.moved((ball.positions - middle) @ self.turn.T + middle)


def varied(scene: Dataset, seed: int) -> Dataset:
    """The dataset with the random variations of a seed: start rotation, order of the pictures, noise."""
    random = np.random.default_rng(seed)
    order = random.permutation(len(scene.train.masks))
    masks, colors = scene.train.masks[order] >= 0.5, linear_to_srgb(scene.train.colors[order])
    for i, mask in enumerate(masks):
        edge = np.asarray(binary_dilation(mask)) & ~np.asarray(binary_erosion(mask))
        masks[i] ^= edge & (random.random(mask.shape) < FRAYED)
    colors = srgb_to_linear(np.clip(colors + NOISE * random.standard_normal(colors.shape), 0, 1))
    cameras = Cameras([scene.train.cameras.cameras[i] for i in order])
    train = Observations(cameras, masks.astype(np.float32), (colors * masks[..., None]).astype(np.float32))
    turn = Rotation.from_quat(random.standard_normal(4)).as_matrix()
    return TurnedStart(**{**scene.__dict__, "train": train}, turn=turn)


def holes(masks: np.ndarray) -> np.ndarray:
    """(N, H, W) bool: holes of silhouettes."""
    return np.stack([np.asarray(binary_fill_holes(mask)) ^ mask for mask in np.asarray(masks) >= 0.5])


def hole_score(mesh: Mesh, views: Observations, device: Device) -> dict[str, Any]:
    """IoU of the holes, over all pixels of the views that see through the true shape, and how many those are."""
    found, truth = holes(draw(mesh, views.cameras, lambda: DressiAD(device))[0]), holes(views.masks)
    seen = truth.any((1, 2))
    both, either = (found & truth)[seen].sum(), (found | truth)[seen].sum()
    return {"hole_views": int(seen.sum()), "hole_iou": float(both / either) if seen.any() else None}


def fit(name: str, case: dict[str, Any], data: Path, folder: Path, device: Device) -> dict[str, Any]:
    """The row of one case; its results are in the folder."""
    begin = time.perf_counter()
    wide = case["size"]
    given = {} if case["steps"] is None else {"steps": case["steps"]}
    if name in PHOTOS:
        photos = load_photos(data / "photos" / PHOTOS[name], widest=wide or WIDEST, cut=True)
        options = FitOptions(size=photos.cameras.size, start=case["start"], **given)
        scene = photo_dataset(photos)
    else:
        side = wide or FitOptions().size[0]
        options = FitOptions(
            size=(side, side),
            views=case.get("views", 6),
            seed=case.get("seed", 0),
            start=case["start"],
            **given,
        )
        target = load_mesh(data / "meshes" / MESHES[name])
        scene = mesh_dataset(target, options.views, options.size, lambda: DressiAD(device))
    if "seed" in case:
        scene = varied(scene, case["seed"])
    result = FitJob(scene, options, lambda: DressiAD(device)).run()
    facts = {
        "name": device.name, "driver": device.physical.driver, "version": device.physical.driver_version,
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    report = write_results(
        folder, scene, result, lambda: DressiAD(device), device=facts,
        total_s=lambda: time.perf_counter() - begin, baseline=True,
    )  # fmt: skip
    row = {
        "seconds": report["time"]["total_s"], **report["metrics"], "surface": report["surface"],
        "hull": report.get("hull", {}).get("heldout"),
    }  # fmt: skip
    if name == "bob" and scene.held_out is not None:
        row.update(hole_score(result.mesh, scene.held_out, device))
    return row


def spread(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The spread of the seeds' distances to the true surface."""
    found = np.array([row["surface"]["relative_chamfer"] for row in rows])
    worst = min(row["heldout"]["iou"] for row in rows)
    return {
        "seeds": len(rows), "mean": float(found.mean()), "range": float(np.ptp(found) / found.mean()),
        "deviation": float(found.std(ddof=1) / found.mean()) if len(found) > 1 else 0.0, "least_heldout_iou": worst,
    }  # fmt: skip


def said(label: str, row: dict[str, Any]) -> str:
    """A row as one line."""
    held, surface, hull = row["heldout"], row["surface"], row["hull"]
    quality = {name: "equal" if part["psnr"] is None else f"{part['psnr']:.2f}" for name, part in
               (("train", row["train"]), ("held", held))}  # fmt: skip
    line = (
        f"{label}: IoU {row['train']['iou']:.4f} / {held['iou']:.4f}, hull {hull['iou']:.4f},"
        f" PSNR {quality['train']} / {quality['held']} dB, SSIM {held['ssim']:.3f},"
        f" {surface['inside_out']} inside out, {surface['self_intersecting']:.2%} cut, {row['seconds']:.0f} s"
    )
    if "relative_chamfer" in surface:
        line += f", chamfer {surface['relative_chamfer']:.3%}"
    if row.get("hole_iou") is not None:
        line += f", holes {row['hole_iou']:.3f} in {row['hole_views']} views"
    return line


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", nargs="+", default=list(CASES), choices=CASES, metavar="CASE")
    parser.add_argument("--seeds", type=int, default=10, help="how many of the case seeds")
    parser.add_argument("--mesh", default="spot", choices=MESHES, help="of the case seeds")
    parser.add_argument("--size", type=int, help="width of pictures, if not that of the command line")
    parser.add_argument("--steps", type=int, help="if not those of the command line")
    parser.add_argument("--start", default="auto", choices=STARTS, help="as of the command line")
    parser.add_argument("--device", help="Vulkan device, by name or index")
    parser.add_argument("--headless", action="store_true", help="no window is ever opened")
    parser.add_argument("--out", type=Path, default=Path("out/fit_table"))
    settings = parser.parse_args()
    data = Path(config.data or "")
    if not (data / "photos").is_dir():
        raise InputError("set DRESSI_DATA to the folder that holds 'meshes' and 'photos'")
    settings.out.mkdir(parents=True, exist_ok=True)
    file = settings.out / "fit_table.json"
    rows: list[dict[str, Any]] = json.loads(file.read_text()) if file.exists() else []
    with Device.open(settings.device) as device:
        common = {
            "size": settings.size,
            "steps": settings.steps,
            "start": settings.start,
            "device": device.name,
        }
        todo: list[tuple[str, dict[str, Any]]] = []
        for label in settings.case:
            name, _, views = label.partition("-")
            if label == "seeds":
                todo += [(settings.mesh, {"seed": seed}) for seed in range(settings.seeds)]
            else:
                todo.append((name, {} if name in PHOTOS else {"views": int(views or 6)}))
        for name, case in todo:
            key = {"case": name, **case, **common}
            label = "-".join([name, *(f"{k}{v}" for k, v in case.items())])
            found = next((row for row in rows if key.items() <= row.items()), None)
            if found is None:
                found = {**key, **fit(name, {**case, **common}, data, settings.out / label, device)}
                rows.append(found)
                write_json(file, rows)
            print(said(label, found), flush=True)
        seeds = [
            row
            for row in rows
            if "seed" in row and row["case"] == settings.mesh and common.items() <= row.items()
        ]
        if seeds and "seeds" in settings.case:
            key = {"case": f"spread of {settings.mesh}", **common}
            rows = [row for row in rows if not key.items() <= row.items()] + [{**key, **spread(seeds)}]
            write_json(file, rows)
            print(rows[-1])
    print(f"results are in '{file}'")


if __name__ == "__main__":
    main()
