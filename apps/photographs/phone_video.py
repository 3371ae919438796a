"""A scan drawn as a phone films it, and how far what `dressi fit` makes of that is from the scan.

    python apps/photographs/phone_video.py draw --mesh ../shared/data/meshes/BarramundiFish_512.glb --out out/video
    dressi fit --photos out/video --out out/fit
    python apps/photographs/phone_video.py draw --mesh chair --out out/chair       # or plant, temple: see thin_things.py
    python apps/photographs/phone_video.py draw --mesh portico --cameras ../shared/data/photos/dino --rim 1.5 --out out/portico
    python apps/photographs/phone_video.py measure --video out/video --fit out/fit --json out/phone_video.json

The scan stands on a table with boxes behind it, lit by a studio. A hand goes around it: the path shakes, the shutter rolls,
a picture is the mean over its exposure time, the exposure and white balance of the phone wander, the lens distorts, and the
sensor adds the noise of photons and of its reading; codes have eight bits. ``--shiny`` makes the scan of rough metal.

``--rim`` leaves table and boxes out: all around the scan is black, and its masks are so many pixels too wide.

``--cameras`` takes still pictures by the cameras of a set, in whose box the scan is put: before black, under one lamp that
throws shadows, slightly blurred. Their masks are a threshold, grown by ``--rim``; ``mask_true`` has the right ones.

``draw`` writes frames, masks, ``cameras.json`` with the lens, and ``truth.glb``; and ``video.mp4`` where imageio has ffmpeg.
``measure`` compares surfaces where a frame shows the scan, in percent of the diagonal of its box, after the similarity that
aligns the cameras of the fit, if it has its own; decibels are those of held-out frames. ``true_iou`` is that of the result and the
scan in all frames, by the cameras that were written with them.
"""

import argparse
import importlib
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.ndimage import distance_transform_edt, gaussian_filter, map_coordinates
from thin_things import THINGS, spots

from dressi import DressiAD
from dressi.cli.core.sizes import parse_size
from dressi.render import Camera, Cameras, Mesh, Node, Scene, iou, load_mesh, render, save_mesh
from dressi.render.cameras.pose import align
from dressi.render.drawing.draw import draw
from dressi.render.io import load_photos, save_image, write_json
from dressi.render.io.calibration import encode_cameras, read_calibration
from dressi.render.io.files import read_json
from dressi.render.io.lens import Lens
from dressi.render.mesh import primitives
from dressi.render.mesh.queries import SurfaceDistance, sample_surface
from dressi.render.shading.environment import Environment, studio
from dressi.render.shading.lights import DirectionalLight, Shadow
from dressi.render.surface.color import linear_to_srgb, srgb_to_linear

LENS = Lens(k1=-0.08, k2=0.02)
FOV = 42.0
"""Vertical, in degrees: the main camera of a phone, held upright or not."""
WIDER = 1.15
"""Of the picture that is drawn, so that the lens finds light beyond the border."""
MOMENTS = 9
"""Pictures that are drawn of the time of a frame."""
READOUT, OPEN = 0.02, 0.012
"""Seconds between the first and the last row, and of the exposure of a row."""
RATE = 30.0
"""Frames a second."""
FULL_WELL, READ = 3000.0, 4.0
"""Electrons of white, and of the noise of reading."""
BLUR, LAMP, THRESHOLD, FILLED = 0.7, (0.5, 0.6, 0.8), 0.19, 0.9
"""Of still pictures: standard deviation of the blur in pixels, where the lamp is, the code from which masks begin, and the share
of the box of the set that the scan fills."""
PART, MANY = 0.01, 200_000
"""Size of the parts of the truth that are seen or hidden as a whole, of the diagonal of its box, and the number of them from which
none is split."""


def path(seconds: np.ndarray, centre: np.ndarray, radius: float, turn: float, rng: np.random.Generator):
    """(eyes, targets), each (T, 3): an arm around the object that rises, sinks and shakes; ``turn`` seconds a turn."""
    angle = 2 * np.pi * seconds / turn
    height = np.radians(32 + 18 * np.sin(2.7 * angle + 1))
    away = radius * (2.9 + 0.2 * np.sin(3.3 * angle))
    shakes = np.zeros((len(seconds), 3))
    for frequency, amplitude in ((1.3, 0.02), (3.1, 0.008), (7.3, 0.004)):
        shakes += amplitude * np.sin(2 * np.pi * frequency * seconds[:, None] + rng.uniform(0, 6.3, 3))
    around = np.stack([np.sin(angle) * np.cos(height), np.sin(height), np.cos(angle) * np.cos(height)], 1)
    targets = centre + radius * (
        2 * shakes[:, ::-1] + 0.06 * np.sin(np.stack([angle, 2 * angle, 3 * angle], 1))
    )
    return centre + away[:, None] * around + radius * shakes, targets


def clutter(bounds: np.ndarray, radius: float, rng: np.random.Generator) -> list[Node]:
    """A table below the object, and boxes on it that stand back."""
    centre, ground = bounds.mean(0), bounds[0, 1]

    side = 9 * radius
    corners = np.array([[-1, 0, -1], [-1, 0, 1], [1, 0, 1], [1, 0, -1]]) * (side, 0, side)
    place = np.array([centre[0], ground - 0.002 * radius, centre[2]])
    uvs = np.array([[0.0, 0], [0, 1], [1, 1], [1, 0]])
    faces = np.array([[0, 1, 2], [0, 2, 3]])
    table = Mesh(corners + place, faces, uvs=uvs, uv_faces=faces, texture=spots((0.55, 0.42, 0.3), rng, 1024))
    nodes = [Node(table, {"roughness": 0.8, "metallic": 0.0}, name="table")]
    for number in range(9):
        angle = 2 * np.pi * (number + rng.uniform(-0.3, 0.3)) / 9
        size = radius * rng.uniform(0.35, 0.9, 3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            box = primitives.cube().unwrap(256)
        box = replace(box.moved(box.positions * size), texture=spots(tuple(rng.uniform(0.2, 0.8, 3)), rng))
        to_world, spin = np.eye(4), rng.uniform(0, np.pi)
        to_world[[0, 0, 2, 2], [0, 2, 0, 2]] = np.cos(spin), np.sin(spin), -np.sin(spin), np.cos(spin)
        away = radius * rng.uniform(4.6, 6.5)
        to_world[:3, 3] = centre[0] + away * np.sin(angle), ground + size[1], centre[2] + away * np.cos(angle)
        nodes.append(Node(box, {"roughness": 0.7, "metallic": 0.0}, to_world, f"box {number}"))
    return nodes


def through_lens(camera: Camera, wide: Camera) -> np.ndarray:
    """(2, H, W) rows and columns in the picture of ``wide``, which has no lens, of what a pixel behind the lens sees."""
    y, x = np.mgrid[: camera.size[1], : camera.size[0]] + 0.5
    k = camera.intrinsics
    seen = np.stack([(x - k[0, 2]) / k[0, 0], (y - k[1, 2]) / k[1, 1]], -1)
    straight = seen.copy()
    for _ in range(20):
        straight += seen - LENS.distort(straight)
    k = wide.intrinsics
    return np.stack([straight[..., 1] * k[1, 1] + k[1, 2], straight[..., 0] * k[0, 0] + k[0, 2]]) - 0.5


def rolled(moments: np.ndarray, lines: np.ndarray) -> np.ndarray:
    """(H, W, C): each row is the mean of the (MOMENTS, H, W, C) over its own time, whose rows in the object's order ``lines``
    (H, W) say when a pixel is read."""
    at, step = np.linspace(0, READOUT + OPEN, len(moments), retstep=True)
    away = np.abs(at[:, None, None] - (lines * READOUT + 0.5 * OPEN))
    # A moment comes in and goes by and by, as from row to row the time does.
    open_ = np.clip((0.5 * OPEN - away) / step + 0.5, 0, 1)
    weight = open_ / open_.sum(0)
    return (moments * weight[..., None]).sum(0)


def draw_stills(options: argparse.Namespace, mesh: Mesh) -> None:
    """Pictures by the cameras of a set."""
    rng, set_ = np.random.default_rng(options.seed), read_calibration(options.cameras)
    assert set_.bounds is not None
    scale = FILLED * float((np.ptp(set_.bounds, axis=0) / np.ptp(mesh.bounds(), axis=0)).min())
    to_world = np.diag([scale, scale, scale, 1.0])
    to_world[:3, 3] = set_.bounds.mean(0) - scale * mesh.bounds().mean(0)
    node = Node(mesh, {"metallic": 0.0, "roughness": 0.9}, to_world)
    mesh = mesh.moved(scale * mesh.positions + to_world[:3, 3])
    centre, radius = mesh.bounding_sphere()
    cameras = Cameras([view.camera.around(centre, radius) for view in set_.views])
    lamps = (
        Environment(studio(), intensity=0.4 * options.light),
        DirectionalLight(LAMP, 2.0 * options.light, Shadow(2048)),
    )
    drawn = [draw(Scene([node]), cameras, DressiAD, 4, lamp) for lamp in lamps]
    for folder in ("mask", "mask_true"):
        (options.out / folder).mkdir(parents=True, exist_ok=True)
    for k, view in enumerate(set_.views):
        shown = gaussian_filter(sum(colours[k] for _, colours in drawn), (BLUR, BLUR, 0))
        electrons = rng.poisson(np.clip(shown, 0, 4) * FULL_WELL) + rng.normal(0, READ, shown.shape)
        codes = np.round(255 * linear_to_srgb(np.clip(electrons / FULL_WELL, 0, 1))) / 255
        name = f"{view.image.stem}.png"
        save_image(options.out / name, srgb_to_linear(codes))
        wide = distance_transform_edt(codes.max(-1) < THRESHOLD) <= options.rim
        for folder, mask in (("mask", wide), ("mask_true", drawn[0][0][k] >= 0.5)):
            save_image(options.out / folder / name, np.repeat(mask[..., None], 3, 2).astype(float))
    views = [(f"{view.image.stem}.png", view.camera, Lens()) for view in set_.views]
    (options.out / "cameras.json").write_bytes(encode_cameras(views, mesh.bounds()))
    save_mesh(options.out / "truth.glb", mesh)


def draw_video(options: argparse.Namespace) -> None:
    name = str(options.mesh)
    mesh = THINGS[name](np.random.default_rng(0)) if name in THINGS else load_mesh(options.mesh)
    if options.cameras is not None:
        draw_stills(options, mesh)
        return
    rng = np.random.default_rng(options.seed)
    centre, radius = mesh.bounding_sphere()
    bounds, size = mesh.bounds(), parse_size(options.size)
    material = {"metallic": 1.0, "roughness": 0.3} if options.shiny else {"metallic": 0.0, "roughness": 0.9}
    node = Node(mesh, material, name="scan")
    light = Environment(studio(), intensity=options.light)
    turn = options.seconds
    starts = (np.arange(options.frames) + rng.uniform(-0.2, 0.2, options.frames)) * turn / options.frames
    starts = np.round(starts * RATE) / RATE
    times = (starts[:, None] + np.linspace(0, READOUT + OPEN, MOMENTS)).ravel()
    eyes, targets = path(times, centre, radius, turn, rng)
    tall = 2 * np.degrees(np.arctan(np.tan(np.radians(FOV / 2)) * WIDER))
    grown = int(np.ceil(size[0] * WIDER)), int(np.ceil(size[1] * WIDER))
    near, far = 0.3 * radius, 30 * radius
    wide = [
        Camera.perspective(tall, grown, *pair, near=near, far=far) for pair in zip(eyes, targets, strict=True)
    ]
    whole = Scene([node, *([] if options.rim else clutter(bounds, radius, rng))])
    # The camera of a frame is that of the middle of its middle row.
    middle = starts + 0.5 * (READOUT + OPEN)
    own = [np.array([np.interp(middle, times, axis) for axis in part.T]).T for part in (eyes, targets)]
    cameras = [
        Camera.perspective(FOV, size, eye, target, near=near, far=far, name=f"{k:04}")
        for k, (eye, target) in enumerate(zip(*own, strict=True))
    ]
    still = [Camera.perspective(tall, grown, *pair, near=near, far=far) for pair in zip(*own, strict=True)]
    masks, _ = draw(Scene([node]), Cameras(still), DressiAD, 4, None)
    at = through_lens(cameras[0], still[0])
    lines = np.repeat(np.linspace(0, 1, size[1])[:, None], size[0], 1)
    # The phone looks for an exposure, and finds it late.
    stops = 0.3 * np.sin(2 * np.pi * starts / turn * 2 + 1) + 0.1 * rng.normal(size=len(starts))
    balance = 1 + 0.06 * np.sin(2 * np.pi * starts[:, None] / turn + np.array([0.0, 2.0, 4.0]))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "mask").mkdir(exist_ok=True)
    codes = []
    for k, camera in enumerate(cameras):
        _, moments = draw(whole, Cameras(wide[k * MOMENTS : (k + 1) * MOMENTS]), DressiAD, 4, light)
        seen = np.stack(
            [
                np.stack([map_coordinates(one[..., c], at, order=1, mode="nearest") for c in range(3)], -1)
                for one in moments
            ]
        )
        light_of = rolled(seen, lines) * 2 ** stops[k] * balance[k]
        electrons = rng.poisson(np.clip(light_of, 0, 4) * FULL_WELL) + rng.normal(0, READ, light_of.shape)
        codes.append(np.round(255 * linear_to_srgb(np.clip(electrons / FULL_WELL, 0, 1))).astype(np.uint8))
        mask = map_coordinates(masks[k], at, order=1, mode="nearest") >= 0.5
        if options.rim:
            mask = distance_transform_edt(~mask) <= options.rim
        save_image(options.out / f"{camera.name}.png", srgb_to_linear(codes[-1] / 255))
        save_image(
            options.out / "mask" / f"{camera.name}.png", np.repeat(mask[..., None], 3, 2).astype(float)
        )
    views = [(f"{camera.name}.png", camera, LENS) for camera in cameras]
    (options.out / "cameras.json").write_bytes(encode_cameras(views, bounds))
    save_mesh(options.out / "truth.glb", mesh)
    print(f"{len(codes)} frames of {size[0]}x{size[1]} are in '{options.out}'")
    try:
        imageio = importlib.import_module("imageio.v3")
        imageio.imwrite(options.out / "video.mp4", np.stack(codes), fps=10, quality=9)
    except (ImportError, ValueError, OSError) as error:
        print(f"there is no video.mp4, which takes imageio with ffmpeg: {error}")


def in_truth(found: Mesh, video: Path, own: dict[str, Camera]) -> Mesh:
    """A mesh in the world of cameras that were found, by the names of frames, moved to that of the truth."""
    given = {view.image.name: view.camera for view in read_calibration(video).views}
    names = sorted(given.keys() & own.keys())
    back = align(Cameras([own[n] for n in names]), Cameras([given[n] for n in names]))
    return found.moved(back.points(found.positions))


def cameras_of(fit: Path, video: Path) -> dict[str, Camera] | None:
    """Those that a fit has refined, or found; None where it took the given ones."""
    refined, model = fit / "cameras.json", fit / "cameras" / "sparse" / "0"
    if refined.is_file():
        views = read_json(refined, "cameras")["views"]
        given = {view.image.name: view.camera for view in read_calibration(video).views}
        return {
            v["file"]: replace(given[v["file"]], rotation=np.array(v["R"]), translation=np.array(v["t"]))
            for v in views
        }
    if not model.is_dir():
        return None
    return {view.image.name: view.camera for view in read_calibration(video, model).views}


def parted(mesh: Mesh) -> Mesh:
    """Positions and faces, these in parts of at most ``PART``, so that what is hidden of a face is told from the rest."""
    mesh = Mesh(mesh.positions, mesh.faces)
    most = PART * float(np.linalg.norm(np.ptp(mesh.bounds(), axis=0)))
    while True:
        areas = mesh.face_areas()
        # Of the face at which a point of the surface lies.
        if np.sqrt(2 * np.average(areas, weights=areas)) <= most or len(areas) > MANY:
            return mesh
        mesh = mesh.subdivide()


def surface_percent(truth: Mesh, found: Mesh, cameras: Cameras) -> dict[str, float]:
    """Distances between surfaces where a camera sees the truth, in percent of the diagonal of its box, and there the
    median of the angles between the faces of both, in degrees."""
    truth = parted(truth)
    faces = render(truth, cameras, light=None, outputs=("face",)).face  # type: ignore[union-attr]
    counts = np.bincount(faces[faces >= 0], minlength=len(truth.faces))
    shown = replace(truth, faces=truth.faces[counts > 0])
    points = sample_surface(shown, 20_000, 0)
    diagonal = float(np.linalg.norm(np.ptp(truth.bounds(), axis=0)))
    there = SurfaceDistance(found, 100_000)
    missing = 100 * there.distances(points) / diagonal
    faces = SurfaceDistance(shown, 100_000).nearest(points, np.zeros_like(points))[0]
    normals = shown.face_normals()[faces]
    cosines = (normals * found.face_normals()[there.nearest(points, normals)[0]]).sum(1)
    # What no frame shows is not measured: points of the result near that part are left out.
    other = sample_surface(found, 20_000, 0)
    to_all, to_shown = (SurfaceDistance(mesh, 100_000).distances(other) for mesh in (truth, shown))
    extra = 100 * to_all[to_shown <= to_all + 1e-3 * diagonal] / diagonal
    both = np.concatenate([missing, extra])
    return {
        "mean": 0.5 * float(missing.mean() + extra.mean()), "median": float(np.median(both)),
        "p90": float(np.percentile(both, 90)), "scan_to_fit": float(missing.mean()), "fit_to_scan": float(extra.mean()),
        "within_half": float(np.mean(both < 0.5)), "normal_degrees": float(np.degrees(np.arccos(np.clip(np.median(cosines), -1, 1)))),
    }  # fmt: skip


def measure(options: argparse.Namespace) -> None:
    truth, found = load_mesh(options.video / "truth.glb"), load_mesh(options.fit / "result.glb")
    cameras = Cameras([view.camera for view in read_calibration(options.video).views])
    report = read_json(options.fit / "report.json", "report")
    own = cameras_of(options.fit, options.video)
    if own is not None:
        found = in_truth(found, options.video, own)
    surface = surface_percent(truth, found, cameras)
    frames = load_photos(options.video).cameras
    drawn, true = (render(mesh, frames, light=None, outputs=("mask",)).mask for mesh in (found, truth))  # type: ignore[union-attr]
    result = {
        "video": str(options.video.name), "aligned": own is not None, "frames": len(cameras), "surface_percent": surface,
        "true_iou": iou(drawn, true >= 0.5), "heldout": report["metrics"]["heldout"], "seconds": report["time"]["total_s"],
    }  # fmt: skip
    print(
        f"surface: {surface['mean']:.3f} % of the diagonal in the mean, 90 % within {surface['p90']:.3f} %;"
        f" true IoU {result['true_iou']:.4f}; held out: {report['metrics']['heldout']}"
    )
    if options.json:
        write_json(options.json, result)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(required=True)
    first = commands.add_parser("draw", help="draw a scan as a phone films it")
    first.add_argument(
        "--mesh",
        type=Path,
        required=True,
        help="a file, or a thing of thin_things.py: chair, plant, temple, portico",
    )
    first.add_argument("--out", type=Path, required=True)
    first.add_argument("--frames", type=int, default=40, help="frames that are kept of the video")
    first.add_argument("--size", default="640x480")
    first.add_argument("--seconds", type=float, default=20.0, help="of one turn around the scan")
    first.add_argument("--light", type=float, default=1.0, help="factor of the studio")
    first.add_argument("--shiny", action="store_true", help="the scan is of rough metal")
    first.add_argument(
        "--rim", type=float, default=0.0, help="black surroundings, and masks so many pixels too wide"
    )
    first.add_argument(
        "--cameras", type=Path, help="folder with cameras.json, from whose cameras still pictures are drawn"
    )
    first.add_argument("--seed", type=int, default=0)
    first.set_defaults(call=draw_video)
    second = commands.add_parser("measure", help="compare a fit with the scan")
    second.add_argument("--video", type=Path, required=True)
    second.add_argument("--fit", type=Path, required=True)
    second.add_argument("--json", type=Path)
    second.set_defaults(call=measure)
    options = parser.parse_args()
    options.call(options)


if __name__ == "__main__":
    main()
