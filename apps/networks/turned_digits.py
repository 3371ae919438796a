"""A spatial transformer as a layer that is learned with its network: handwritten digits, turned, scaled and moved (Jaderberg and others,
2015, section 4.1).

    python apps/networks/turned_digits.py --json apps/results/networks/turned_digits.json
    python apps/networks/turned_digits.py --quick

Two networks of the same layers say which digit a picture of 24 x 24 pixels shows. One of them first lets a small network look at the
picture, which answers with a homography (six numbers that start as a little enlargement), and reads the picture through it; only the
loss of the digits trains it. Both see the same batches in the same order, for as many steps. The digits are those of UCI that scikit-learn
has (8 x 8, `pip install 'dressi[digits]'`): two thirds to learn from, the rest held out; NumPy's splines turn them, no warp of dressi's.

Prints the share of held-out digits that each network knows, as mean over the seeds, and writes a picture: digits as they are seen, and
what the layer makes of them.
"""

import argparse
import gzip
import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from scipy import ndimage

from dressi import FLOAT, DressiAD, F, Variable, adam, networks
from dressi.ad.optim import cosine, per_parameter
from dressi.errors import InputError
from dressi.render.io import save_png

N, BATCH, RATE = 24, 32, 2e-3
TURN, SCALES, MOVE = np.radians(60), (0.7, 1.1), 3.0
"""Radians and pixels at most, and factors."""


def digits() -> tuple[np.ndarray, np.ndarray]:
    """(1797, 8, 8) from 0 to 1, and which they are."""
    place = find_spec("sklearn")
    if place is None:
        raise InputError(
            "the digits are those of scikit-learn, which is not installed: pip install 'dressi[digits]'"
        )
    with gzip.open(
        Path(*place.submodule_search_locations or (), "datasets", "data", "digits.csv.gz")
    ) as file:
        table = np.loadtxt(file, delimiter=",")
    return table[:, :-1].reshape(-1, 8, 8) / 16, table[:, -1].astype(int)


def disturbed(random: np.random.Generator, images: np.ndarray) -> np.ndarray:
    """(count, N, N): each turned, scaled and moved by chance, by cubic splines."""
    made = np.zeros((len(images), N, N), np.float32)
    for out, image in zip(made, images, strict=True):
        angle, scale = random.uniform(-TURN, TURN), random.uniform(*SCALES) * 2
        c, s = np.cos(angle) / scale, np.sin(angle) / scale
        turn, middle = np.array([[c, -s], [s, c]]), (N - 1) / 2 + random.uniform(-MOVE, MOVE, 2)
        matrix = np.block([[turn, (3.5 - turn @ middle)[:, None]], [np.zeros(2), np.ones(1)]])
        ndimage.affine_transform(image, matrix, output=out, mode="constant")
    return made.clip(0, 1)


class Classifier:
    """A network, with its transformer or without. logits: (1, 1), ten channels."""

    def __init__(self, transformer: bool, seed: int):
        random = np.random.default_rng(seed)
        trees: dict[str, object] = {
            "first": networks.convolution_init(random, 1, 8),
            "second": networks.convolution_init(random, 8, 16),
            "digits": networks.mlp_init(random, (16 * 9, 48, 10)),
        }
        if transformer:
            trees["look"] = networks.convolution_init(random, 1, 8)
            trees["again"] = networks.convolution_init(random, 8, 16)
            trees["place"] = networks.mlp_init(random, (16 * 9, 32, 6))
            last = trees["place"][-1]  # type: ignore[index]
            last["weight"], last["bias"] = 0 * last["weight"], 0 * last["bias"]
        self.net = networks.parameters(trees)
        self.seen = Variable(FLOAT, (N, N), batch=BATCH, name="seen", data=np.zeros((BATCH, N, N)))
        self.read = self.through(self.seen) if transformer else self.seen
        self.logits = self.features(self.read, "first", "second", "digits")

    def features(self, x: Variable, first: str, second: str, last: str) -> Variable:
        """Two convolutions and pools, 24 -> 12 -> 6 -> 3 pixels, and layers over all that is left."""
        x = F.max_pool(F.relu(networks.convolution(self.net[first], x)), 2)
        x = F.max_pool(F.relu(networks.convolution(self.net[second], x)), 2)
        return networks.mlp(self.net[last], F.space_to_depth(F.max_pool(x, 2), 3), F.relu)

    def through(self, x: Variable) -> Variable:
        """The picture through the homography that the small network gives."""
        # Bounds, since a picture that has left the frame has no gradient that brings it back.
        numbers = F.tanh(self.features(x, "look", "again", "place"))
        a, b, c, d, right, down = (F.channel(numbers, k) for k in range(6))
        half = N / 2
        columns = (F.vec3(0.9 + a, c, 0.0), F.vec3(b, 0.9 + d, 0.0), F.vec3(4 * right, 4 * down, 1.0))
        to, back = (np.array([[1, 0, t], [0, 1, t], [0, 0, 1]]) for t in (half, -half))
        return F.warp_homography(x, F.matmul(F.matmul(to, F.mat3(*columns)), back), border="zero")


def known(model: Classifier, ad: DressiAD, images: np.ndarray, labels: np.ndarray) -> float:
    """The share of pictures whose digit the network says."""
    right = 0
    for k in range(0, len(images), BATCH):
        part = images[k : k + BATCH]
        padded = np.concatenate([part, np.zeros((BATCH - len(part), N, N), np.float32)])
        ad.send(model.seen, padded)
        said = ad.evaluate(model.logits).reshape(BATCH, 10).argmax(1)
        right += int((said[: len(part)] == labels[k : k + BATCH]).sum())
    return right / len(images)


def learned(
    model: Classifier,
    ad: DressiAD,
    given: argparse.Namespace,
    images: np.ndarray,
    labels: np.ndarray,
    seed: int,
) -> None:
    random, chosen = np.random.default_rng(seed), Variable(FLOAT, batch=BATCH, channels=10, name="chosen")
    said = F.sum(F.log_softmax(model.logits, "c") * chosen, "c")
    ad.set_loss(-F.mean(said, "n"), record=False)
    # A place that jumps leaves the classifier behind: its layers move slower, as in the paper.
    slow = [
        v
        for name in ("look", "again", "place")
        if name in model.net
        for v in networks.variables(model.net[name])
    ]
    paces = {v: adam(cosine(RATE / 5, RATE / 150, given.steps)) for v in slow}
    fast = [v for v in networks.variables(model.net) if v not in paces]
    paces |= {v: adam(cosine(RATE, RATE / 30, given.steps)) for v in fast}
    ad.set_optimizer(per_parameter(paces), list(paces))
    for _ in range(given.steps):
        batch = random.integers(len(images), size=BATCH)
        ad.send_many({
            model.seen: disturbed(random, images[batch]),
            chosen: np.eye(10, dtype=np.float32)[labels[batch]].reshape(BATCH, 10, 1, 1),
        })  # fmt: skip
        ad.step()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=2, help="repetitions, from other weights and batches")
    parser.add_argument("--quick", action="store_true", help="400 steps, one seed")
    parser.add_argument("--device", help="Vulkan device, by name or index")
    parser.add_argument("--json", type=Path, help="write the figures into this file")
    parser.add_argument("--out", type=Path, default=Path("out/networks"), help="folder of the picture")
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    given = parser.parse_args()
    if given.quick:
        parser.set_defaults(steps=400, seeds=1)
        given = parser.parse_args()
    images, labels = digits()
    held = len(images) * 2 // 3
    test, truth = disturbed(np.random.default_rng(99), images[held:]), labels[held:]
    shares: dict[str, list[float]] = {"without": [], "with": []}
    for seed in range(given.seeds):
        for way in shares:
            with DressiAD(given.device) as ad:
                model = Classifier(way == "with", seed)
                learned(model, ad, given, images[:held], labels[:held], seed)
                shares[way].append(known(model, ad, test, truth))
                print(f"seed {seed}, {way}: {shares[way][-1]:.4f}", flush=True)
                seen = test[:BATCH]
                ad.send(model.seen, seen)
                read = ad.evaluate(model.read).reshape(BATCH, N, N)
        given.out.mkdir(parents=True, exist_ok=True)
        rows = [np.concatenate(list(x[:20]), axis=1) for x in (seen, read)]
        save_png(
            given.out / "turned_digits.png", np.repeat(np.clip(np.concatenate(rows), 0, 1)[..., None], 3, -1)
        )
    figures = {f"{way}_held_out_share": float(np.mean(of)) for way, of in shares.items()}
    wrong = {way: 1 - figures[f"{way}_held_out_share"] for way in shares}
    times = wrong["with"] / wrong["without"] if wrong["without"] else None
    found = {**figures, "errors_times": times, "steps": given.steps, "seeds": given.seeds, **shares}
    text = json.dumps({"turned_digits": found}, indent=1)
    print(text)
    if given.json:
        given.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
