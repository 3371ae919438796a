"""Figure 15 of the paper: a digital human with skin, eyes, teeth, hair and shadows, turned before three lights.

    python apps/human/figure15.py --json apps/results/figure15.json --out apps/results/figure15
    python apps/human/figure15.py --quick
    python apps/human/figure15.py --backward --json apps/results/figure15_backward.json

The head is the face model (DRESSI_DATA/face) fitted to the scan of DRESSI_DATA/head, with its colours and normals; the model
places eyes and teeth, and the strands of DRESSI_DATA/hair stand on the scalp. Writes figure15.png, details.png, eyes, mouth and hair four times
as large, and turntable.png, the head from all sides by one compiled picture. The JSON has milliseconds of a picture, passes,
memory, the first build and predictions for recorded devices.

--head FILE: a scan of one's own. --hair FILE: a groom that lies on it, .hair or .tfx. README.md in this folder says what is expected;
--save-hair FILE.hair writes the hair of the figure as it lies on the scan, to begin with.

--backward: a step of Adam through everything instead, at --size (512), and its derivatives by all parameters against central
differences of pictures. A run with the same --json, size and strands goes on where another one stopped; delete the file after the
figure has changed.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from backward import backward
from groom import hair
from head import Head, fitted
from human import Human, around

from dressi import Device, DressiAD, Variable
from dressi.ad.graph.program import Program
from dressi.ad.transform.simplify import simplify
from dressi.cli.core.plan_for import record
from dressi.config import shader_text
from dressi.errors import InputError
from dressi.render import Camera, StrandGeometry
from dressi.render.io import write_json
from dressi.render.io.files import write_files
from dressi.render.io.images import encode_png
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.execution.plan import Plan
from dressi.vk.plan.model.records import RECORDS
from dressi.vk.plan.predict.stages import stage_seconds

ANGLE = 0.35
"""Of the first camera around the head, from the front."""


def predictions(drawn: Plan, colour: Variable, moved: Variable) -> dict[str, float]:
    """Milliseconds of a picture from another place on every recorded device: of the stages that depend on the camera. GPUs get plans
    of their own, since one for a processor sums hair by fragments, which a data centre's few drawing units take 30 times as long for
    as its dispatches; processors have the plan that drew the picture."""
    program, found = simplify(Program({"colour": colour})), {}
    for name, model in RECORDS.items():
        plan = (
            build_plan(program, record(name, None).limits, shader_text, cost=model) if model.wide else drawn
        )
        stages = [*plan.static.with_dependencies, *plan.step.with_dependencies]
        again = [sources is None or moved in sources for _, sources in stages]
        seconds = stage_seconds(plan, model)
        found[name] = 1e3 * sum(s for s, run in zip(seconds, again, strict=True) if run)
    return found


def shown(image: np.ndarray) -> np.ndarray:
    """By a soft shoulder."""
    return image / (1 + 0.25 * image)


def smaller(image: np.ndarray, size: int) -> np.ndarray:
    """The means of blocks of pixels: at most ``size`` rows."""
    count = max(len(image) // size, 1)
    rows = len(image) // count
    return image[: rows * count, : rows * count].reshape(rows, count, rows, count, 3).mean((1, 3))


def details(image: np.ndarray, camera: Camera, head: Head, strands: StrandGeometry) -> np.ndarray:
    """Eyes, mouth and a part of the hair, side by side, four times as large."""
    size, half = len(image), len(image) // 12
    found = []
    for point in (*head.eyes, head.mouth[0], strands.bounds()[1] * (0, 0.9, 0.5)):
        x, y, _, w = camera.world_to_clip @ np.append(point, 1.0)
        column, row = (int(np.clip((c / w * 0.5 + 0.5) * size, half, size - half)) for c in (x, y))
        part = image[row - half : row + half, column - half : column + half]
        found.append(part.repeat(4, 0).repeat(4, 1))
    return np.concatenate(found, axis=1)


def turned(
    ad: DressiAD, human: Human, head: Head, size: int, count: int
) -> tuple[np.ndarray, dict[str, Any]]:
    """A contact sheet of the head from all sides, and milliseconds of the pictures, by one compiled picture."""
    times, pictures = [], []
    for k in range(count):
        camera = around(ANGLE + k * 2 * np.pi / count, size, head)
        clock, processor = time.perf_counter(), time.process_time()
        ad.send(human.matrices, camera.world_to_clip[None, None, None])
        seen = ad.recv("colour")[0]
        times.append((1e3 * (time.perf_counter() - clock), 1e3 * (time.process_time() - processor)))
        pictures.append(smaller(shown(seen), 256))
        print(f"view {k}: {times[-1][0]:.0f} ms, {times[-1][1]:.0f} ms of processors", flush=True)
    across = -(-count // 2)
    rows = [np.concatenate(pictures[k : k + across], axis=1) for k in range(0, count, across)]
    wall, processor = np.median(times, axis=0)
    found = {"ms a picture": float(wall), "processor ms a picture": float(processor), "each": times}
    return np.concatenate([row for row in rows if row.shape == rows[0].shape]), found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--out", type=Path, default=Path("out/figure15"))
    parser.add_argument("--quick", action="store_true", help="256x256 pixels, a fourth of the strands")
    parser.add_argument(
        "--backward", action="store_true", help="a step through everything, and its derivatives"
    )
    parser.add_argument("--size", type=int)
    parser.add_argument("--views", type=int, default=8, help="of the turntable")
    parser.add_argument("--strands", type=int, default=16000, help="of the scalp")
    parser.add_argument("--every", type=int, help="take one of so many strands")
    parser.add_argument(
        "--head", type=Path, help="a scan: a mesh with UVs and colours, y up, that looks along z"
    )
    parser.add_argument("--hair", type=Path, help="a groom on the scan: .hair or .tfx")
    parser.add_argument(
        "--hair-width", type=float, help="of its strands, in millimetres, instead of the file's"
    )
    parser.add_argument("--save-hair", type=Path, help="write the hair as it lies on the scan: .hair or .tfx")
    parser.add_argument("--device")
    args = parser.parse_args()
    device = Device.open(args.device)
    size = args.size or (256 if args.quick else 512 if args.backward else 1024)
    # Texels of the skin and of maps of shadows.
    texels = 256 if args.quick else 512 if args.backward else 1024
    clock = time.perf_counter()
    every = args.every or (4 if args.quick else 1)
    try:
        head = fitted(texels, args.head)
        strands, casters, head = hair(
            head, args.strands, every, file=args.hair, width=args.hair_width, save=args.save_hair
        )
    except InputError as error:
        parser.error(str(error))
    result: dict[str, Any] = {
        "size": size,
        "strands": strands.strands,
        "scan to model, mm": head.error,
        "head seconds": time.perf_counter() - clock,
    }
    print(f"head: {head.error:.2f} mm from the scan, {result['head seconds']:.0f} s", flush=True)
    camera = around(ANGLE, size, head)
    human = Human.of(head, strands, casters, camera, texels, texels)
    if args.backward:

        def keep(found: dict[str, Any]) -> None:
            if args.json:
                write_json(args.json, result | found)

        earlier = json.loads(args.json.read_text()) if args.json and args.json.exists() else {}
        same = all(earlier.get(name) == result[name] for name in ("size", "strands"))
        result |= backward(device, human, keep=keep, earlier=earlier if same else None)
    else:
        args.out.mkdir(parents=True, exist_ok=True)
        result |= drawn(device, human, head, strands, camera, args)
    print(result["plan"], flush=True)
    if args.json:
        write_json(args.json, result)


def drawn(
    device: Device,
    human: Human,
    head: Head,
    strands: StrandGeometry,
    camera: Camera,
    args: argparse.Namespace,
) -> dict[str, Any]:
    """The picture and the turntable, as files, and what they took."""
    with DressiAD(device) as ad:
        ad.set_output("colour", human.colour)
        clock = time.perf_counter()
        image = shown(ad.recv("colour")[0])
        result: dict[str, Any] = {"first build seconds": time.perf_counter() - clock}
        sheet, result["turntable"] = turned(ad, human, head, len(image), args.views)
        result["plan"] = str(ad.plan).splitlines()[0]
        result["predicted ms"] = predictions(ad.plan, human.colour, human.matrices)
    pictures = {"figure15": image, "details": details(image, camera, head, strands), "turntable": sheet}
    write_files({args.out / f"{name}.png": encode_png(x) for name, x in pictures.items()})
    return result


if __name__ == "__main__":
    main()
