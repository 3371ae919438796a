"""How a depth camera moved between two frames, by depth images alone.

    python apps/rgbd_pose.py --data data/rgbd --out out/rgbd_pose
    python apps/rgbd_pose.py --data data/rgbd --from 4 --to 0 --size 320

The pixels of the first frame make a mesh, open where depths jump. It is drawn by a camera whose pose is a parameter, and
the depths along the optical axis are compared with those of the second frame (charbonnier, 2 cm). The pose starts at that
of the first frame. Writes rgbd_pose.json: the error of the motion before and after, against odometry.log, in degrees and
millimetres, and the median of the differences of depths.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from dressi import Device, DressiAD, F, Variable, adam
from dressi.ad import optim
from dressi.ad.graph.types import FLOAT
from dressi.render import Camera, Cameras, Mesh, charbonnier, covered, poses, render
from dressi.render.cameras.pose import turns
from dressi.render.fit.graphs.terms import depth_at
from dressi.render.io import write_json
from dressi.render.io.files import read_json
from dressi.render.io.photos import Depths

SCALE = 0.02
"""Metres: larger differences are taken for outliers, such as parts that only one of the frames shows."""
JUMP = 0.05
"""Neighbouring depths that differ by this share do not lie on one surface."""


def camera_of(folder: Path, width: int) -> Camera:
    """The camera of all frames, at the origin, for pictures of that width."""
    found = read_json(folder / "camera_primesense.json", "camera")
    k, full = np.reshape(found["intrinsic_matrix"], (3, 3)).T, (found["width"], found["height"])
    camera = Camera.pinhole(k, np.eye(3), np.zeros(3), full, near=0.1, far=10.0)
    return camera.resized((width, round(width * full[1] / full[0])))


def depths_of(folder: Path, number: int, size: tuple[int, int]) -> np.ndarray:
    """(H, W) metres, 0 where unknown."""
    found = read_json(folder / "camera_primesense.json", "camera")
    depths = Depths(folder).read(Path(f"{number:05}.jpg"), (found["width"], found["height"]))
    return depth_at(depths, np.ones_like(depths), size)


def moves_of(folder: Path) -> dict[int, np.ndarray]:
    """(4, 4) from camera to world by the number of the frame."""
    lines = (folder / "odometry.log").read_text().splitlines()
    rows = [line for line in lines if line.strip()]
    return {
        int(rows[k].split()[0]): np.array([row.split() for row in rows[k + 1 : k + 5]], float)
        for k in range(0, len(rows), 5)
    }


def surface(depths: np.ndarray, camera: Camera) -> Mesh:
    """The pixels of a depth image as vertices, in the world of the camera, joined where they lie on one surface."""
    height, width = depths.shape
    y, x = np.mgrid[:height, :width] + 0.5
    rays = np.stack([x, y, np.ones_like(x)], axis=-1) @ np.linalg.inv(camera.intrinsics).T
    number = np.arange(height * width).reshape(height, width)
    quads = np.stack([number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:]], axis=-1).reshape(
        -1, 4
    )
    corners = depths.reshape(-1)[quads]
    quads = quads[corners.max(1) < (1 + JUMP) * corners.min(1)]
    faces = np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])
    return Mesh((rays * depths[..., None]).reshape(-1, 3), faces).clean()


def errors(found: Camera, true: Camera) -> dict[str, float]:
    angle = turns(Cameras([found]), Cameras([true]))[0]
    return {"degrees": float(angle), "millimetres": 1e3 * float(np.linalg.norm(found.center - true.center))}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--data", type=Path, default=Path("data/rgbd"), help="depth/, the camera, odometry.log"
    )
    parser.add_argument("--from", type=int, default=0, dest="first", help="the frame that gives the mesh")
    parser.add_argument("--to", type=int, default=4, dest="second", help="the frame whose pose is found")
    parser.add_argument("--size", type=int, default=160, help="columns of the pictures")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--device", default=None, help="Vulkan device, by name or index")
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    parser.add_argument("--out", type=Path, default=Path("out/rgbd_pose"))
    given = parser.parse_args()

    camera = camera_of(given.data, given.size)
    before, after = (depths_of(given.data, k, camera.size) for k in (given.first, given.second))
    mesh, moves = surface(before, camera), moves_of(given.data)
    view = np.linalg.inv(moves[given.second]) @ moves[given.first]
    true = replace(camera, rotation=view[:3, :3], translation=view[:3, 3])

    learned = poses(Cameras([camera]), mesh.positions.mean(0))
    picture = render(mesh, learned, light=None, form="hard")
    measured = Variable(FLOAT, camera.size, name="measured", data=after[None])
    both = F.greater(measured, 0.0) * covered(picture.face)
    away = charbonnier(picture.depth, measured, both, "sum", scale=SCALE) / F.maximum(F.sum(both), 1.0)
    with Device.open(given.device) as device, DressiAD(device) as ad:
        ad.set_loss(away)
        rate = optim.cosine(0.01, 0.0003, given.steps)
        ad.set_optimizer(adam(rate, (0.9, 0.99)), [learned.rotation, learned.translation])
        ad.step(given.steps)
        found = learned.found(ad.recv)[0]
        drawn, shared = (np.reshape(ad.evaluate(image), after.shape) for image in (picture.depth, both))
    residual = np.median(np.abs(drawn - after)[shared > 0])
    figures = {
        "frames": [given.first, given.second],
        "size": camera.size,
        "start": errors(camera, true),
        "found": errors(found, true),
        "median_difference_millimetres": 1e3 * float(residual),
    }
    given.out.mkdir(parents=True, exist_ok=True)
    write_json(given.out / "rgbd_pose.json", figures)
    print(
        f"frame {given.second} from {given.first}: {figures['start']['degrees']:.2f} degrees and"
        f" {figures['start']['millimetres']:.0f} mm before, {figures['found']['degrees']:.3f} degrees and"
        f" {figures['found']['millimetres']:.1f} mm after; depths differ by {1e3 * residual:.1f} mm"
    )


if __name__ == "__main__":
    main()
