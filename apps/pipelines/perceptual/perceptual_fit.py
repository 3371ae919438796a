"""The place of an object in pictures of another exposure: by squared differences of pixels, by structure, and by features.

    python apps/pipelines/perceptual/perceptual_fit.py --json out/perceptual_fit.json

A painted pear starts a few pixels beside its true place, and moves by the gradient of its picture until this looks like the
target, whose exposure and haze are not those of the picture. Reports how many pixels off it ends, for each loss of
`dressi fit --loss` and for the perceptual distance and the structural similarity alone.
"""

import argparse
import json
import math
from pathlib import Path

import numpy as np

from dressi import VEC3, DressiAD, Variable, adam, optim
from dressi.render import Camera, list_leaf, perceptual, primitives, render, structural_similarity
from dressi.render.fit.data.textures import LOSSES
from dressi.render.surface.color import encoded

STARTS = ((0.14, 0.09), (-0.12, 0.12), (0.05, -0.16))
LIGHTS = {"the same": (1.0, 0.0), "half": (0.5, 0.0), "double": (2.0, 0.0), "hazy": (0.7, 0.15)}
"""Factor of the exposure, and what haze adds to linear colours of the object."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--losses", nargs="+", default=["l2", "similarity", "features"])
    parser.add_argument("--device")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    size, mesh = (arguments.size, arguments.size), primitives.pear(32, 24, 128)
    camera = Camera.perspective(35, size, (0.5, 1.0, 4.0), (0, 0, 0))
    pixels = size[1] / (2 * math.tan(math.radians(17.5)) * math.hypot(0.5, 1.0, 4.0))
    truth = render(mesh, camera, shader=lambda at: at.albedo, samples=4)
    mask, colour = np.asarray(truth.mask)[..., None], np.asarray(truth.colour)
    offset = Variable(VEC3, name="offset", data=np.zeros(3))
    target = Variable(VEC3, size, name="target")
    positions = list_leaf("shape", VEC3, mesh.positions) + offset
    drawn = render(mesh, camera, positions=positions, shader=lambda at: at.albedo, form="edges")
    codes = encoded(drawn.colour)
    losses = {name: lambda a, b, of=of: of(a, b, None) for name, of in LOSSES.items()}
    losses |= {"features": perceptual, "similarity": lambda a, b: 1.0 - structural_similarity(a, b)}
    report: dict[str, dict[str, float]] = {}
    for name in arguments.losses:
        report[name] = {}
        with DressiAD(arguments.device) as ad:
            ad.set_loss(losses[name](codes, target))
            for light, (gain, haze) in LIGHTS.items():
                seen = np.clip((colour * gain + haze) * mask, 0, 1)
                seen = np.where(seen <= 0.0031308, 12.92 * seen, 1.055 * seen ** (1 / 2.4) - 0.055)
                off = []
                for x, y in STARTS:
                    ad.set_optimizer(adam(optim.cosine(0.012, 0.0005, arguments.steps)), [offset])
                    ad.send_many({target: seen.reshape(1, *size[::-1], 3), offset: np.array([x, y, 0.0])})
                    ad.step(arguments.steps)
                    off.append(pixels * float(np.linalg.norm(ad.recv(offset).ravel()[:2])))
                report[name][light] = round(float(np.mean(off)), 3)
        print(name, report[name], flush=True)
    report["start"] = {"pixels": round(float(np.mean([pixels * math.hypot(*s) for s in STARTS])), 3)}
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
