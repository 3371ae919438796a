"""What `dressi fit --photos` makes of pictures whose surface is known: four models, two matte and two shiny.

    python apps/photographs/drawn_truth.py --out out/truth --json out/drawn_truth.json
    python apps/photographs/drawn_truth.py --out out/truth --models spot --columns 320 640 1600 --predict --json out/sizes.json
    python apps/photographs/drawn_truth.py --out out/truth --quick
    python apps/photographs/drawn_truth.py --out out/truth -- --faces 100000

Sixty pictures of 1600x1200 pixels from three rings of cameras, with given cameras and masks. They are drawn by dressi itself, by
hard faces and four samples a pixel, under a studio whose light the fit does not know; the shiny models are a smooth dielectric.
Then they are blurred, get an exposure and a white balance that wander, and the noise of photons and of reading; codes have eight
bits. Folders in ``--out`` that hold pictures already are taken as they are. Options after ``--`` are those of the fit.

Each row is one model at one width (``--columns``): the distance between the surfaces where a camera sees the true one, in percent of
the diagonal of its box, and the median of the angles between their faces, in degrees (``surface_percent``); the figures of
the held-out pictures, time and peak of the memory (``held_out.py``). ``--predict`` adds what the records of devices let expect of
the steps of a fit at that size from its result: seconds, and megabytes of the images and buffers of a step. Reading pictures and the
first shape, on the processor, come on top.
"""

import argparse
import sys
import warnings
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from held_out import fitted
from phone_video import FULL_WELL, READ, surface_percent
from scipy.ndimage import gaussian_filter

from dressi import DressiAD
from dressi.cli.core.plan_for import record
from dressi.cli.core.sizes import parse_size
from dressi.cli.fitting.photographs import read_photographs
from dressi.cli.fitting.request import Request
from dressi.config import config, shader_text
from dressi.render import Cameras, Node, Scene, load_mesh, orbit, save_mesh
from dressi.render.drawing.draw import draw
from dressi.render.fit import FitJob, photo_dataset
from dressi.render.fit.graphs.round import Found
from dressi.render.io import save_image, write_json
from dressi.render.io.calibration import encode_cameras, read_calibration
from dressi.render.io.lens import Lens
from dressi.render.shading.environment import Environment, studio
from dressi.render.surface.color import linear_to_srgb, srgb_to_linear
from dressi.vk.plan.predict.stages import predict
from dressi.vk.planning import PlanningEngine

MATTE, SHINY = {"metallic": 0.0, "roughness": 0.9}, {"metallic": 0.0, "roughness": 0.25}
MODELS = {
    "BarramundiFish": ("BarramundiFish_512.glb", MATTE),
    "spot": ("spot_bob/spot.obj", MATTE),
    "Avocado": ("Avocado_512.glb", SHINY),
    "BoomBox": ("BoomBox_512.glb", SHINY),
}
HEIGHTS = (-32.0, 4.0, 40.0)
"""Degrees above the horizon of the rings of cameras."""
BLUR = 0.6
"""Standard deviation of the blur by the lens, in pixels."""
STOPS, BALANCE = 0.15, 0.03
"""By how much exposure, in stops, and white balance wander."""
BACKGROUND = (0.16, 0.17, 0.18)
BRIGHT = 0.8
"""Linear light that a hundredth of the pixels of the model exceeds."""
BATCH = 6
"""Pictures that are drawn at once."""
RECORDS = ("data_centre", "desktop", "integrated", "tiler")
"""Devices whose time is predicted."""
QUICK = {"views": 20, "size": "480x360", "columns": [160], "models": ["BarramundiFish"]}


def draw_set(name: str, folder: Path, given: argparse.Namespace) -> None:
    """Pictures, masks, ``cameras.json`` and ``truth.glb``."""
    file, material = MODELS[name]
    mesh, size = load_mesh(given.data / "meshes" / file), parse_size(given.size)
    rng = np.random.default_rng(0)
    centre, radius = mesh.bounding_sphere()
    number = np.arange(given.views)
    ring, rings = number * len(HEIGHTS) // given.views, len(HEIGHTS)
    turns = 360 / given.views * (rings * number + ring)
    cameras = orbit(centre, radius, turns, np.array(HEIGHTS)[ring], size)
    stops = STOPS * np.sin(np.radians(turns) + ring) + 0.2 * STOPS * rng.standard_normal(given.views)
    balance = 1 + BALANCE * np.sin(np.radians(turns)[:, None] + np.array([0.0, 2.0, 4.0]))
    (folder / "mask").mkdir(parents=True, exist_ok=True)
    light, scale = Environment(studio(), intensity=1.0), None
    for first in range(0, given.views, BATCH):
        some = Cameras(cameras.cameras[first : first + BATCH])
        masks, colours = draw(Scene([Node(mesh, material)]), some, DressiAD, 4, light)
        scale = scale or BRIGHT / float(np.percentile(colours[masks > 0.5].max(-1), 99))
        for k, (mask, colour) in enumerate(zip(masks, colours, strict=True), first):
            shown = scale * colour + (1 - mask[..., None]) * BACKGROUND
            shown = gaussian_filter(shown, (BLUR, BLUR, 0)) * 2 ** stops[k] * balance[k]
            electrons = rng.poisson(np.clip(shown, 0, 4) * FULL_WELL) + rng.normal(0, READ, shown.shape)
            codes = np.rint(255 * linear_to_srgb(np.clip(electrons / FULL_WELL, 0, 1))) / 255
            save_image(folder / f"{k:03}.png", srgb_to_linear(codes))
            save_image(folder / "mask" / f"{k:03}.png", np.repeat(mask[..., None] >= 0.5, 3, 2).astype(float))
    save_mesh(folder / "truth.glb", mesh)
    views = [(f"{k:03}.png", camera, Lens()) for k, camera in enumerate(cameras)]
    (folder / "cameras.json").write_bytes(encode_cameras(views, mesh.bounds()))


def row(name: str, columns: int, given: argparse.Namespace, options: list[str]) -> dict[str, Any]:
    """Of a model at a width."""
    folder, out = given.out / name, given.out / f"{name}-{columns}"
    if not (folder / "cameras.json").is_file():
        draw_set(name, folder, given)
    width, height = parse_size(given.size)
    sized = ["--size", f"{columns}x{round(columns * height / width)}"]
    found = fitted(folder, out, [*sized, *options])
    cameras = Cameras([view.camera for view in read_calibration(folder).views]).resized((400, 300))
    surface = surface_percent(load_mesh(folder / "truth.glb"), load_mesh(out / "result.glb"), cameras)
    expected = {"predicted": predicted(folder, out, sized[1])} if given.predict else {}
    return {
        "model": name,
        "columns": columns,
        "options": options,
        **found,
        "surface_percent": surface,
        **expected,
    }


def predicted(folder: Path, out: Path, size: str) -> dict[str, dict[str, float]]:
    """By the record of a device, of a fit of default steps from the result in ``out``: the ``seconds`` of all steps and the
    ``megabytes`` of the images and buffers of the step that takes most."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        request = Request(photos=folder, size=parse_size(size))
        photos, _ = read_photographs(request, request.size)
    options, scene = request.options(photos.cameras.size), photo_dataset(photos)
    mesh, found = load_mesh(out / "result.glb"), {}
    for name in RECORDS:
        target = record(name, None)
        engine = partial(PlanningEngine, target.limits, target.model, shader_text)
        job, seconds, largest = FitJob(scene, options, engine, init=mesh), 0.0, 0
        begin = Found(job.topology(0), job.cameras)
        for number, steps in enumerate(job.steps):
            step = 0
            while step < steps:
                work = job.round(number, begin, step)
                with closing(job.engine(work)) as planned:
                    plan = planned.plan
                seconds += (work.until - step) * predict(plan, target.model).totals["seconds"]
                largest = max(largest, plan.counts["image_bytes"] + plan.counts["buffer_bytes"])
                step = work.until
        found[name] = {"seconds": seconds, "megabytes": largest / 1e6}
    return found


def main() -> None:
    own, options = sys.argv[1:], []
    if "--" in own:
        at = own.index("--")
        own, options = own[:at], own[at + 1 :]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument(
        "--columns", nargs="+", type=int, default=[320], help="width at which they are fitted"
    )
    parser.add_argument("--views", type=int, default=60)
    parser.add_argument("--size", default="1600x1200", help="of the pictures")
    parser.add_argument("--data", type=Path, default=config.data or Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("out/drawn_truth"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--predict", action="store_true", help="what records of devices let expect, too")
    parser.add_argument(
        "--quick", action="store_true", help="one model, 20 pictures of 480x360 pixels, 160 columns"
    )
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    if "--quick" in own:
        parser.set_defaults(**QUICK)
    given = parser.parse_args(own)
    options = ["--quick", *options] if given.quick else options
    rows = []
    for name in given.models:
        for columns in given.columns:
            rows.append(row(name, columns, given, options))
            surface, one = rows[-1]["surface_percent"], rows[-1]
            print(
                f"{name} {columns}: {surface['mean']:.3f} % of the diagonal, {surface['normal_degrees']:.1f} degrees, "
                f"IoU {one['iou']:.4f}, {one['psnr']:.2f} dB, {one['seconds']:.0f} s, {one['cpu_s']:.0f} CPU s, "
                f"{one['peak_gigabytes']:.2f} GB",
                flush=True,
            )  # fmt: skip
            if given.json is not None:
                write_json(given.json, rows)


if __name__ == "__main__":
    main()
