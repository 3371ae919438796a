"""Poses of known objects found from pictures, from any start.

    python apps/pose_search.py --out out/pose_search
    python apps/pose_search.py --mesh arrow spot.obj --rotations 30 --views 4 --size 128 --outlines

Each object is turned about its middle by random rotations (uniform over all of them). Pictures by a ring of cameras go into
``find_pose``: masks and unlit colours, or masks alone with --outlines. An arrow is made here: flat, extruded, each vertex with a
colour of its own. Writes pose_search.json: for each object the error of every rotation in degrees, and how many were found
within half a degree. Rotations that are in the file are not searched again.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from dressi import Device, DressiAD
from dressi.render import Mesh, load_mesh, render, ring
from dressi.render.fit import find_pose
from dressi.render.io import write_json

FOUND = 0.5
"""Degrees."""


def arrow() -> tuple[Mesh, np.ndarray]:
    """A flat extruded arrow of 14 vertices, and linear colours of its vertices."""
    outline = np.array([[-1, -0.2], [0.3, -0.2], [0.3, -0.5], [1, 0], [0.3, 0.5], [0.3, 0.2], [-1, 0.2]])
    flat = np.array([[0, 1, 6], [1, 5, 6], [1, 2, 3], [1, 3, 5], [3, 4, 5]])
    count = len(outline)
    here = np.arange(count)
    after = np.roll(here, -1)
    walls = np.stack([here, after, after + count], 1), np.stack([here, after + count, here + count], 1)
    positions = np.concatenate([np.insert(outline, 2, z, axis=1) for z in (-0.15, 0.15)])
    faces = np.concatenate([flat[:, ::-1], flat + count, *walls])
    return Mesh(positions, faces), 0.2 + 0.6 * np.random.default_rng(0).random((2 * count, 3))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mesh", nargs="+", default=["arrow"], help="files, or arrow")
    parser.add_argument("--rotations", type=int, default=30)
    parser.add_argument("--views", type=int, default=4)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--outlines", action="store_true", help="compare masks alone")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default=None)
    parser.add_argument("--headless", action="store_true", help="no window is ever opened")
    parser.add_argument("--out", type=Path, default=Path("out/pose_search"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    file = args.out / "pose_search.json"
    report = json.loads(file.read_text()) if file.is_file() else {}
    turns = Rotation.random(args.rotations, np.random.default_rng(args.seed)).as_matrix()
    with Device.open(args.device) as device:
        for name in args.mesh:
            mesh, colours = arrow() if name == "arrow" else (load_mesh(Path(name)), None)
            center, radius = mesh.bounding_sphere()
            cameras = ring(center, radius, args.views, (args.size, args.size))
            terms = "outlines" if args.outlines else "colours"
            key = f"{Path(name).stem}-{args.views}x{args.size}-{terms}-{args.seed}"
            errors = report.setdefault(key, {}).setdefault("degrees", [])
            for turn in turns[len(errors) :]:
                motion = np.eye(4)
                motion[:3, :3], motion[:3, 3] = turn, center - turn @ center
                seen = render(mesh, cameras, to_world=motion, colours=colours, light=None)
                found = find_pose(
                    mesh, cameras, seen.mask, None if args.outlines else seen.colour,
                    vertex_colours=colours, make_engine=lambda: DressiAD(device),
                )  # fmt: skip
                away = Rotation.from_matrix(found.to_world[:3, :3] @ turn.T).magnitude()
                errors.append(float(np.degrees(away)))
                report[key] |= {
                    "found": sum(error <= FOUND for error in errors), "of": len(errors),
                    "median": float(np.median(errors)), "device": device.name,
                }  # fmt: skip
                write_json(file, report)
                print(f"{key} {len(errors)}: {errors[-1]:.3f} degrees, IoU {found.iou:.4f}", flush=True)
            print(f"{key}: {report[key]['found']} of {len(errors)} within {FOUND} degrees")


if __name__ == "__main__":
    main()
