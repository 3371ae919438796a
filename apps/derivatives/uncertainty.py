"""How well a picture tells camera, material and light: their covariance, and where in the picture it comes from.

    python apps/derivatives/uncertainty.py --out out/uncertainty --json out/uncertainty.json

A shaded pear under a sky and a lamp has parameters: pose (rotation and translation of the shape before the camera), colour,
roughness, metalness, brightness of the lamp. The Jacobian J of the picture by each is an image (``jvp``). With noise of deviation
s the covariance of what is recovered is s^2 (J^T J)^-1; its correlations show what cannot be told apart. A pixel's share is
the uncertainty of its colour, J C J^T. The deviations are checked by recovering from noisy pictures with Gauss-Newton steps.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from dressi import FLOAT, VEC3, DressiAD, F, Variable, jvp
from dressi.render import Camera, Environment, PointLight, primitives, render, studio
from dressi.render.io import write_json

NAMES = (
    "turn x",
    "turn y",
    "turn z",
    "shift x",
    "shift y",
    "shift z",
    "red",
    "green",
    "blue",
    "roughness",
    "metallic",
    "lamp",
)
TRUTH = np.array([0.0] * 6 + [0.7, 0.35, 0.2, 0.35, 0.1, 1.0])
NOISE, TRIALS, STEPS = 0.01, 24, 2


class Model:
    """The picture, its derivatives by all parameters, and what it is for other parameters."""

    def __init__(self, size: int):
        mesh = primitives.pear(48, 32, 8)
        leaves = [Variable(VEC3, name="turn"), Variable(VEC3, name="shift"), Variable(VEC3, name="colour"),
                  *(Variable(FLOAT, name=name) for name in ("roughness", "metallic", "lamp"))]  # fmt: skip
        turn, shift, colour, roughness, metallic, lamp = leaves
        placed = Variable.of(mesh.positions)
        placed = placed + F.cross(turn, placed) + shift
        light = [Environment(studio(16)), PointLight((1.5, 2.0, 2.0), intensity=6.0 * F.vec3(lamp))]
        look = {"colour": colour, "roughness": roughness, "metallic": metallic}
        camera = Camera.perspective(35, (size, size), (0.6, 1.2, 4.2), (0.0, 0.0, 0.0))
        picture = render(
            mesh, camera, positions=placed, material=look, light=light, form="edges"
        ).colour  # fmt: skip
        self.leaves, self.ad = leaves, DressiAD()
        self.ad.set_output("picture", picture)
        k = 0
        for leaf in leaves:
            for c in range(leaf.vtype.components):
                along = np.eye(leaf.vtype.components)[c].reshape(leaf.vtype.shape)
                self.ad.set_output(NAMES[k], jvp([picture], [leaf], [F.constant(along, leaf.vtype)])[0])
                k += 1
        for leaf, values in zip(leaves, self._parts(TRUTH), strict=True):
            leaf.data = leaf.conform(values)

    def _parts(self, values: np.ndarray) -> list[np.ndarray]:
        return [
            np.asarray(x).reshape(v.vtype.shape)
            for x, v in zip(np.split(values, (3, 6, 9, 10, 11)), self.leaves, strict=True)
        ]

    def picture(self, values: np.ndarray) -> np.ndarray:
        """(H, W, 3) linear."""
        for leaf, x in zip(self.leaves, self._parts(values), strict=True):
            self.ad.send(leaf, x)
        return np.asarray(self.ad.recv("picture")[0], float)

    def jacobian(self) -> np.ndarray:
        """(H, W, 3, parameters) at what was drawn last."""
        return np.stack([self.ad.recv(name)[0] for name in NAMES], axis=-1).astype(float)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out/uncertainty"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--quick", action="store_true", help="48 pixels, eight noisy pictures")
    arguments = parser.parse_args()
    if arguments.quick:  # other defaults, so that what is given still counts
        parser.set_defaults(size=48)
        arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    size, trials = arguments.size, 8 if arguments.quick else TRIALS
    model = Model(size)
    clean = model.picture(TRUTH)
    images = model.jacobian()
    j = images.reshape(-1, len(NAMES))
    covariance = NOISE**2 * np.linalg.inv(j.T @ j)
    deviation = np.sqrt(np.diag(covariance))
    solve = np.linalg.pinv(j)
    random = np.random.default_rng(0)
    found = []
    for _ in range(trials):
        noisy = clean + random.normal(0.0, NOISE, clean.shape)
        values = TRUTH.copy()
        for _ in range(STEPS):
            values = values + solve @ (noisy - model.picture(values)).ravel()
        found.append(values)
    measured = np.sqrt(np.mean((np.array(found) - TRUTH) ** 2, axis=0))
    ratio = measured / deviation
    shares = np.sqrt(np.einsum("hwci,ij,hwcj->hw", images, covariance, images))
    result = {"size": size, "noise": NOISE, "trials": trials,
              "predicted": dict(zip(NAMES, deviation.tolist(), strict=True)),
              "measured": dict(zip(NAMES, measured.tolist(), strict=True)), "median_ratio": float(np.median(ratio))}  # fmt: skip
    print(result)
    figure(arguments.out / "uncertainty.png", clean, images, shares, covariance)
    if arguments.json:
        write_json(arguments.json, result)


def figure(
    path: Path, clean: np.ndarray, images: np.ndarray, shares: np.ndarray, covariance: np.ndarray
) -> None:
    """The picture, three of its derivatives, the uncertainty of its pixels, and the correlations."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    fig, axes = plt.subplots(2, 3, figsize=(11, 7.5))
    panels = [("picture", np.clip(clean, 0, 1) ** (1 / 2.2), None)]
    for name in ("turn y", "roughness", "metallic"):
        panels.append((f"by {name}", images[..., NAMES.index(name)].mean(axis=-1), "coolwarm"))
    panels.append(("uncertainty of a pixel", shares, "magma"))
    for ax, (title, image, colours) in zip(axes.ravel(), panels, strict=False):
        limit = np.percentile(np.abs(image), 99.5)
        ax.imshow(image, cmap=colours, vmin=-limit if colours == "coolwarm" else 0.0, vmax=limit)
        ax.set_title(title)
        ax.axis("off")
    deviation = np.sqrt(np.diag(covariance))
    last = axes[1, 2]
    last.imshow(covariance / np.outer(deviation, deviation), cmap="coolwarm", vmin=-1, vmax=1)
    last.set_xticks(range(len(NAMES)), NAMES, rotation=90)
    last.set_yticks(range(len(NAMES)), NAMES)
    last.set_title("correlations")
    fig.tight_layout()
    fig.savefig(path, dpi=90)


if __name__ == "__main__":
    main()
