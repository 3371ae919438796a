"""The smallest optimisation: the pixels of an image move until it looks like another one.

    python apps/image_fitting.py --steps 200 --out out/image_fitting

Writes fitted.png and target.png and prints the first and last loss. It never opens a window; --headless
is accepted for scripts.
"""

import argparse
from pathlib import Path

import numpy as np

from dressi import DressiAD, F, Variable, adam
from dressi.ad.graph.types import VEC3
from dressi.render.io import read_image, resize, save_png
from dressi.render.io.images import to_linear_rgb


def pattern(size: int) -> np.ndarray:
    """A target without a file: rings of colour, (size, size, 3) linear."""
    y, x = (np.mgrid[:size, :size] + 0.5) / size - 0.5
    distance = np.hypot(x, y)
    return 0.5 + 0.5 * np.cos(40 * distance[..., None] + np.array([0.0, 2.1, 4.2]))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--image", type=Path, help="the target; a pattern without it")
    parser.add_argument("--size", type=int, default=256, help="pixels along each side")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--device", help="Vulkan device, by name or index")
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    parser.add_argument("--out", type=Path, default=Path("out/image_fitting"))
    arguments = parser.parse_args()

    size = (arguments.size, arguments.size)
    goal = pattern(arguments.size)
    if arguments.image is not None:
        goal = resize(to_linear_rgb(read_image(arguments.image)), size)
    image = Variable(VEC3, size, name="image", data=np.full((1, *size[::-1], 3), 0.5))
    target = Variable(VEC3, size, name="target", data=goal[None])
    difference = image - target
    with DressiAD(arguments.device) as ad:
        ad.set_loss(F.mean(F.dot(difference, difference)))
        ad.set_optimizer(adam(0.02), [image])
        ad.step(arguments.steps)
        losses, fitted = ad.losses(), ad.recv(image)[0]
    arguments.out.mkdir(parents=True, exist_ok=True)
    save_png(arguments.out / "fitted.png", fitted)
    save_png(arguments.out / "target.png", goal)
    print(
        f"loss {losses[0]:.6f} -> {losses[-1]:.6f} in {len(losses)} steps; pictures are in '{arguments.out}'"
    )


if __name__ == "__main__":
    main()
