"""Figure 19 of the paper, measured: random faces of a model are found from one view with landmarks, and from four with depths.

    python apps/human/figure19.py --json out/figure19/figure19.json --out out/figure19
    python apps/human/figure19.py --method levenberg_marquardt --settings "one view" --out out/figure19

Each of --people faces has random weights of all 100 identity modes, six random expressions, a random pose, albedo and light.
Its pictures (--size rows) are sampled twice along each axis and have noise; landmarks are off by about a pixel, and those that
are hidden are left out; depths are off by about a millimetre. Everything is unknown but the cameras: identity, expression, pose,
albedo and light. The fit minimises equation 8, by --method; masks say where the picture shows the head.

Errors are distances of vertices in millimetres, for a head of 200 mm from crown to chin: as they are ("in place"), after a rigid motion, and after a
similarity. One picture hardly tells the size of a head from its distance, so that "in place" and "rigid" contain the prior's guess of
the size. The NoW benchmark of faces from one picture (Sanyal et al. 2019) aligns by rotation, translation and scale before it measures:
"similarity" here; "rigid" is stricter. "mean" is the error of the mean face at the true pose. --quick: three faces.

The albedo is that of one scan with procedural variation, no statistics of people. Pictures and fits share model, shading
and albedo modes: what is measured is the optimisation, not how well a model of this kind describes real faces.

Writes each face to the JSON file and to --out as it is found; a run with the same options goes on where another one stopped. Then figure19.png: for some faces one picture, the face found from one view and from four, and the distances (blue 0,
red 6 mm).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from face_data import Photographer, cameras, face_model, random_face, vertex_errors

from dressi import Device, DressiAD, adam
from dressi.ad.least_squares import Energy
from dressi.render import Camera, Mesh, render
from dressi.render.faces import Face, FaceData, FaceFitter, FaceGraph, FaceModel, FaceOptions
from dressi.render.faces.fit import METHODS
from dressi.render.io import save_png, write_json

SETTINGS = {"one view": ([15.0], False), "four views": ([-50.0, -15.0, 20.0, 55.0], True)}
"""Turns of the cameras, and whether depths are measured."""
HOTTEST = 6.0
"""Millimetres that are red."""
SHOWN = 4
USUAL = {"levenberg_marquardt": (256, 12), "adam": (64, 100)}
"""Rows and steps of a stage. Pixels of 64 rows are larger than faces of the mesh, and what is drawn has no means over pixels, unlike
pictures: the energy of the truth is larger there than that of other faces, with 256 rows it is as small as what is found."""
PARTS = ("identity", "expression", "motion", "albedo", "light", "zoom")
"""Of a face that is kept."""
Keep = Callable[[dict[str, Any]], None]
Found = tuple[Face, Face, FaceData | None]
QUICK = 3


def step_ms(model: FaceModel, device: Device, rows: int = 256, steps: int = 10) -> dict[str, float]:
    """Processor and wall milliseconds of a step of Adam with all terms of equation 8, one view, after a warm-up."""
    face = random_face(model, 0)
    views = cameras([15.0], rows)
    photographer = Photographer(model, views, device)
    data = photographer.take(face, 0, depths=True)
    photographer.close()
    graph = FaceGraph(data, replace(face, identity=None, expression=None))
    with DressiAD(device) as ad:
        ad.set_loss(Energy(list(graph.residuals().values())).cost())
        ad.set_optimizer(adam(1e-3), graph.leaves(("identity", "expression", "pose", "albedo", "light")))
        ad.step(steps)
        ad.wait()
        processor, wall = [], []
        for _ in range(5):
            begin, start = time.process_time(), time.perf_counter()
            ad.step(steps)
            ad.wait()
            processor.append(1e3 * (time.process_time() - begin) / steps)
            wall.append(1e3 * (time.perf_counter() - start) / steps)
    return {"processor": float(np.median(processor)), "wall": float(np.median(wall))}


def examine(
    model: FaceModel,
    setting: str,
    people: int,
    size: int,
    options: FaceOptions,
    device: Device,
    keep: Keep,
    out: Path,
    earlier: dict[str, Any],
) -> list[Found]:
    """(truth, found, data) of each face.  keep: gets the rows of the table so far.  out: where faces are kept.  earlier: what an
    earlier run has given to ``keep``; its faces are not looked for again."""
    turns, depths = SETTINGS[setting]
    photographer, rows, faces = Photographer(model, cameras(turns, size), device), [], []
    done = {row["seed"]: row for row in earlier.get("rows", [])}
    with FaceFitter(model, options, lambda: DressiAD(device)) as fitter:
        for seed in range(people):
            truth, file = random_face(model, seed), out / f"{setting} {seed}.npz"
            data = photographer.take(truth, seed, depths=depths) if seed < SHOWN or seed not in done else None
            if seed in done and file.exists():
                rows.append(done[seed])
                faces.append((truth, load_face(file, model), data))
                continue
            data = data or photographer.take(truth, seed, depths=depths)
            begin, start = time.process_time(), time.perf_counter()
            found = fitter.fit(data).face
            row: dict[str, Any] = {
                "seed": seed,
                "processor": time.process_time() - begin,
                "wall": time.perf_counter() - start,
            }
            mean = Face(model, motion=truth.motion)
            for name, face in (("found", found), ("mean", mean)):
                row[name] = {key: float(away.mean()) for key, away in vertex_errors(face, truth).items()}
            row["hidden landmarks"] = int((~data.known).sum())
            rows.append(row)
            faces.append((truth, found, data))
            save_face(file, found)
            keep({"rows": rows, "summary": summary(rows)})
            print(
                setting,
                seed,
                {k: round(v, 2) for k, v in row["found"].items()},
                f"{row['processor']:.1f} s",
                flush=True,
            )
    photographer.close()
    return faces


def save_face(file: Path, face: Face) -> None:
    """The parameters of a face."""
    np.savez(file, **{name: getattr(face, name) for name in PARTS})


def load_face(file: Path, model: FaceModel) -> Face:
    """What ``save_face`` has written."""
    with np.load(file) as parts:
        return Face(
            model, **{name: parts[name] for name in PARTS if name != "zoom"}, zoom=float(parts["zoom"])
        )


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over the faces, and the worst of them."""
    found: dict[str, Any] = {}
    for name in ("found", "mean"):
        for key in rows[0][name]:
            values = [row[name][key] for row in rows]
            found.setdefault(name, {})[key] = {"mean": float(np.mean(values)), "worst": float(np.max(values))}
    return found | {"processor": float(np.mean([row["processor"] for row in rows]))}


def sheet(model: FaceModel, faces: dict[str, list[Found]], size: int) -> np.ndarray:
    """Linear light. Rows: faces. Columns: the picture; for each setting the face found and its distances."""
    camera = cameras([15.0], size)[0]
    rows = []
    for k in range(min(SHOWN, *map(len, faces.values()))):
        first = next(iter(faces.values()))[k]
        assert first[2] is not None
        row = [first[2].pictures[0]]
        for own in faces.values():
            truth, found, _ = own[k]
            row.append(_shown(found, camera))
            away = vertex_errors(found, truth)["similarity"]
            part = np.clip(away / HOTTEST, 0, 1)[:, None]
            colours = (1 - part) * (0.1, 0.2, 0.9) + part * (0.95, 0.1, 0.05)
            row.append(_lit(Mesh(truth.world(), model.mesh.faces, colors=colours), camera))
        rows.append(np.concatenate(row, axis=1))
    return np.concatenate(rows)


def _shown(face: Face, camera: Camera) -> np.ndarray:
    graph = FaceGraph(FaceData(camera, pictures=np.zeros((*camera.size[::-1], 3))), replace(face, zoom=1.0))
    with DressiAD() as ad:
        ad.set_output("colour", graph.picture.colour)
        return np.clip(np.asarray(ad.recv("colour"))[0], 0, 1)


def _lit(mesh: Mesh, camera: Camera) -> np.ndarray:
    return np.clip(render(mesh, camera, samples=2).colour, 0, 1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--people", type=int, default=20)
    parser.add_argument("--size", type=int, default=256, help="rows and columns of the pictures")
    parser.add_argument(
        "--rows", type=int, help="of the pictures that the last stage compares: 256, of Adam 64"
    )
    parser.add_argument("--steps", type=int, help="of a stage: 12, of Adam 100")
    parser.add_argument("--method", choices=METHODS, default="adam")
    parser.add_argument("--settings", nargs="*", choices=[*SETTINGS], default=[*SETTINGS])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} faces")
    parser.add_argument("--device", default=None)
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    parser.add_argument("--json", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=Path("out/figure19"))
    args = parser.parse_args()
    if args.quick:  # other defaults, so that what is given still counts
        parser.set_defaults(people=QUICK)
        args = parser.parse_args()
    people = args.people
    rows, steps = (
        given or usual for given, usual in zip((args.rows, args.steps), USUAL[args.method], strict=True)
    )
    args.out.mkdir(parents=True, exist_ok=True)
    model = face_model(args.out / "model.npz")
    options = FaceOptions(method=args.method, rows=rows, steps=steps)
    entry: dict[str, Any] = {"size": args.size, "rows": rows, "method": args.method, "steps": steps}
    file, faces = args.json or args.out / "figure19.json", {}
    with Device.open(args.device) as device:
        entry["device"] = device.name
        earlier = json.loads(file.read_text()) if file.exists() else {}
        if any(earlier.get(name) != value for name, value in entry.items()):
            earlier = {}
        entry["step_ms"] = earlier.get("step_ms") or step_ms(model, device)
        print(entry["step_ms"], flush=True)
        entry |= {setting: earlier[setting] for setting in SETTINGS if setting in earlier}
        for setting in args.settings:

            def keep(result: dict[str, Any], setting: str = setting) -> None:
                entry[setting] = result
                write_json(file, entry)

            before = earlier.get(setting, {})
            faces[setting] = examine(
                model, setting, people, args.size, options, device, keep, args.out, before
            )
    save_png(args.out / "figure19.png", sheet(model, faces, args.size))
    for setting in faces:
        print(setting, entry[setting]["summary"])


if __name__ == "__main__":
    main()
