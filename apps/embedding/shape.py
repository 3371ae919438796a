"""What the examples of this folder show: a sphere that becomes a pear, seen from a camera that can be moved."""

import argparse

import numpy as np

from dressi import Device, DressiAD, F, Variable
from dressi.render import (
    adjacency,
    large_steps,
    look_at,
    primitives,
    projection_from_fov,
    render,
    rigid,
    ring,
)


def options(doc: str | None) -> argparse.Namespace:
    """--device and --steps."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--device", help="Vulkan device, by name or index")
    parser.add_argument("--steps", type=int, default=10**9, help="end by itself after so many steps")
    return parser.parse_args()


def centred(size: tuple[int, int]) -> tuple[int, int, int, int]:
    """The largest square in a window of this size."""
    side = min(size)
    return (size[0] - side) // 2, (size[1] - side) // 2, side, side


class Shape:
    """The optimisation, and its picture "view": sRGB codes in [0, 1]. ``turn`` moves the camera."""

    def __init__(self, device: Device | str | None = None, size: tuple[int, int] = (256, 256)):
        mesh, cameras = primitives.octasphere(4, 0.6), ring((0, 0, 0), 1.0, 6, (96, 96))
        wanted = render(primitives.pear(), cameras).mask
        start = Variable.of(mesh.positions, name="positions")
        seen = render(mesh, cameras, positions=start)
        self.engine = DressiAD(device)
        self.engine.set_loss(F.mean(F.square(seen.mask - seen.soft_target(wanted))))
        self.engine.set_optimizer(large_steps(adjacency(mesh.faces, len(mesh.positions)), 0.02), [start])

        self.eye, self.angles = Variable.of(np.zeros((1, 1, 3)), name="eye"), np.zeros(2)
        camera = projection_from_fov(40, size, 0.1, 10) @ rigid(*look_at(self.eye, (0.0, 0.0, 0.0)))
        view = render(mesh, camera, positions=start, size=size, form="hard", background=0.05)
        linear = F.clamp(view.colour, 0.0, 1.0)
        self.engine.set_output(
            "view", F.where(linear <= 0.0031308, 12.92 * linear, 1.055 * F.pow(linear, 1 / 2.4) - 0.055)
        )
        self.turn(0.4, 0.3)

    def turn(self, right: float, up: float) -> None:
        """Move the camera around the shape, by angles in radians."""
        self.angles = np.clip(self.angles + (right, up), (-np.inf, -1.4), (np.inf, 1.4))
        a, b = self.angles
        eye = 3 * np.array([np.sin(a) * np.cos(b), np.sin(b), np.cos(a) * np.cos(b)])
        self.engine.send(self.eye, eye.reshape(1, 1, 3))
