"""Trains the features of ``dressi.render.objectives.perceptual`` on patches of pictures.

    python apps/pipelines/perceptual/train_perceptual.py --steps 420 --write dressi/render/objectives/perceptual.safetensors

People hardly see that a picture is shifted by a pixel, or a little brighter, and see at once that it is blurred, noisy or
made of blocks; squared differences of pixels say the opposite. So patches come in threes: the original, one that is changed in
the first way, and one in the second. Or both are changed in the same way, one more than the other. The distance of the network
is trained to put them in that order. Prints how often it does on pictures that it has not seen, beside squared differences and
structural similarity.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter, shift, zoom

from dressi import VEC3, DressiAD, F, Variable, adamw, networks, optim
from dressi.config import config
from dressi.render import linear_to_srgb, srgb_to_linear, ssim
from dressi.render.io import load_environment, read_image, resize
from dressi.render.io.images import to_linear_rgb
from dressi.render.objectives.perceptual import Features, perceptual_by_image

PICTURES = ("astronaut.png", "brick.png", "camera.png", "rocket.jpg")
SKIES = ("adams_place_bridge", "empty_warehouse_01", "forest_slope", "potsdamer_platz")
HELD_OUT, HELD_OUT_SKY = "coffee.png", "venice_sunset"
WIDTHS, SIZE, ROOM = (16, 16, 24, 24, 32, 32), 32, 6
GENTLE = ("shifted", "brighter", "tinted", "contrast")
HARSH = ("blurred", "noisy", "blocky", "speckled", "quantised")


def codes(linear: np.ndarray) -> np.ndarray:
    return linear_to_srgb(np.clip(linear, 0, 1)).astype(np.float32)


def load(data: Path, pictures, skies) -> list[np.ndarray]:
    """sRGB codes (H, W, 3) of photographs and of environments, each at full and at half size."""
    found = [to_linear_rgb(read_image(data / "images" / name)) for name in pictures]
    for name in skies:
        sky = load_environment(data / "hdri" / f"{name}_1k.hdr")
        found.append(0.4 * sky / np.median(sky.mean(-1)))
    return [
        codes(p) for q in found for p in (q, resize(q.astype(np.float32), (q.shape[1] // 2, q.shape[0] // 2)))
    ]


def changed(patch: np.ndarray, kind: str, strength: float, rng: np.random.Generator) -> np.ndarray:
    """A patch (S, S, 3) of codes, changed; strength in (0, 1]."""
    match kind:
        case "shifted":
            angle = rng.uniform(0, 2 * np.pi)
            return shift(
                patch,
                (*(3 * strength * np.array([np.sin(angle), np.cos(angle)])), 0),
                order=1,
                mode="nearest",
            )
        case "brighter":
            return patch * (1 + rng.choice([-1, 1]) * 0.25 * strength)
        case "tinted":
            return patch * (1 + 0.15 * strength * rng.choice([-1, 1], size=3))
        case "contrast":
            return patch.mean() + (patch - patch.mean()) * (1 + rng.choice([-1, 1]) * 0.3 * strength)
        case "blurred":
            return np.asarray(gaussian_filter(patch, (0.4 + 2 * strength,) * 2 + (0,)))
        case "noisy":
            return patch + 0.15 * strength * rng.normal(size=patch.shape)
        case "speckled":
            return patch + 0.3 * strength * np.repeat(rng.normal(size=(*patch.shape[:2], 1)), 3, -1) * (
                rng.random((*patch.shape[:2], 1)) < 0.3
            )
        case "blocky":
            small = zoom(patch, (0.5 - 0.25 * strength,) * 2 + (1,), order=1)
            factors = [a / b for a, b in zip(patch.shape, small.shape, strict=True)]
            return np.asarray(zoom(small, factors, order=0, grid_mode=True, mode="nearest"))
    levels = 3 + 9 * (1 - strength)
    return np.round(patch * levels) / levels


def triples(pictures, count: int, rng: np.random.Generator, same: float = 0.3) -> list[np.ndarray]:
    """Originals, patches nearer to them, and patches farther away: three arrays (count, S, S, 3)."""
    wide, parts = SIZE + 2 * ROOM, []
    while len(parts) < count:
        picture = pictures[rng.integers(len(pictures))]
        y, x = (rng.integers(n - wide) for n in picture.shape[:2])
        patch = picture[y : y + wide, x : x + wide]
        if patch[ROOM:-ROOM, ROOM:-ROOM].std() < 0.04:
            continue  # nothing to be seen
        if rng.random() < same:
            kind, low = rng.choice((*GENTLE, *HARSH)), rng.uniform(0.05, 0.5)
            near, far = (changed(patch, kind, s, rng) for s in (low, 2 * low))
        else:
            near = changed(patch, rng.choice(GENTLE), rng.uniform(0.1, 0.7), rng)
            far = changed(patch, rng.choice(HARSH), rng.uniform(0.25, 1), rng)
        parts.append([np.clip(p, 0, 1)[ROOM:-ROOM, ROOM:-ROOM] for p in (patch, near, far)])
    return [np.stack(p) for p in zip(*parts, strict=True)]


def first_weights(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Of six layers of 3x3 with a pool after each second one, and of the linear layers."""
    found, before = {}, 3
    for number, width in zip((0, 2, 5, 7, 10, 12), WIDTHS, strict=True):
        found[f"features.{number}"] = networks.convolution_init(rng, before, width)
        before = width
    lins = {f"lin{k}": {"weight": np.full(WIDTHS[2 * k + 1], 0.1)} for k in range(3)}
    return networks.flat({**found, **lins})


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=420)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", type=Path, default=config.data)
    parser.add_argument("--device")
    parser.add_argument("--write", type=Path, help="a .safetensors file for the weights, as float16")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    training = load(arguments.data, PICTURES, SKIES)
    unseen = load(arguments.data, (HELD_OUT,), (HELD_OUT_SKY,))
    features = Features(first_weights(rng))
    images = [
        Variable(VEC3, (SIZE, SIZE), arguments.batch, name=name) for name in ("original", "near", "far")
    ]
    distances = [perceptual_by_image(features, x, images[0]) for x in images[1:]]
    logs = [F.log(d + 1e-4) for d in distances]
    loss = F.mean(F.softplus((logs[0] - logs[1]) * 4.0))

    with DressiAD(arguments.device) as ad:
        ad.set_loss(loss)
        rate = optim.cosine(3e-3, 1e-5, arguments.steps)
        ad.set_optimizer(adamw(rate, decay=1e-3), list(features.parameters.values()))
        for step in range(arguments.steps):
            ad.send_many(dict(zip(images, triples(training, arguments.batch, rng), strict=True)))
            ad.step()
            if step % 50 == 49:
                print(f"step {step + 1}: loss {np.mean(ad.losses()[-50:]):.4f}", flush=True)
        right = {"network": [], "squared differences": [], "structural similarity": []}
        far, fresh = [], np.random.default_rng(1)
        for _ in range(400 // arguments.batch):
            given = triples(unseen, arguments.batch, fresh, same=0.0)
            ad.send_many(dict(zip(images, given, strict=True)))
            a, b = (d.ravel() for d in ad.evaluate(distances))
            right["network"] += list(a < b)
            far += list(b)
            errors = [((x - given[0]) ** 2).mean((1, 2, 3)) for x in given[1:]]
            right["squared differences"] += list(errors[0] < errors[1])
            for original, near, other in zip(*given, strict=True):
                values = [ssim_of(original, x) for x in (near, other)]
                right["structural similarity"].append(values[0] > values[1])
        weights = networks.arrays(features.parameters, ad)
        print(f"{np.mean(ad.losses()[-100:]):.4f} the mean loss of the last steps", flush=True)
    report = {name: round(float(np.mean(values)), 4) for name, values in right.items()}
    print("right order on pictures that were not seen:", report)
    for name in weights:  # the mean distance of what is plainly seen becomes 1/2
        if name.startswith("lin"):
            weights[name] = np.maximum(weights[name], 0) * (0.5 / np.mean(far))
    if arguments.write is not None:
        small = {name: array.astype(np.float16) for name, array in weights.items()}
        networks.save_safetensors(
            arguments.write, small, {"licence": "trained on pictures under CC0 and in the public domain"}
        )
    if arguments.json is not None:
        size = sum(array.size for array in weights.values())
        arguments.json.write_text(
            json.dumps({"right order": report, "weights": size, "steps": arguments.steps}, indent=1) + "\n"
        )


def ssim_of(a: np.ndarray, b: np.ndarray) -> float:
    """Structural similarity of codes (S, S, 3)."""
    return ssim(srgb_to_linear(a)[None], srgb_to_linear(b)[None], np.ones((1, *a.shape[:2])))


if __name__ == "__main__":
    main()
