"""The reach of a soft silhouette: a small ball on one side of the picture, its target on the other.

    python apps/far_range.py --form outer face --out out/far_range

The radius of the ball is a tenth of the picture, that of HardSoftRas 0.6 of its height. The program measures the derivative
of the silhouette loss by a shift toward the target at distances of 0.1 (the two overlap), 0.35 and 0.6 clip units. It then
optimises the shift from these distances and from 1.2, with a radius that shrinks from 0.6 to 0.04, and again near the
border (from -0.9 to 0.6) with and without a margin around the picture: a soft margin that the border cuts off pushes the
ball outward. Writes far_range.json, and far_range.png with the derivative by distance for some radii.
"""

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np

from dressi import Device, DressiAD, F, Variable, adam
from dressi.ad.graph.types import FLOAT, IVEC3, VEC2, VEC4
from dressi.ad.transform.gradient import gradient
from dressi.render.core.lists import list_leaf
from dressi.render.forms.hard_soft_ras import hard_soft_ras
from dressi.render.forms.soft_target import gap
from dressi.render.io import write_json
from dressi.render.mesh.primitives import icosphere
from dressi.render.surface.screen import with_margin

REACH, LAST = 0.6, 0.04
"""Radii of HardSoftRas, in image heights."""
DISTANCES = (0.1, 0.35, 0.6)
FARTHEST = 1.2


class Range:
    """A ball at ``start`` (x, in clip units) that can be moved, and its target at ``goal``."""

    def __init__(self, form: str, size: int, start: float, goal: float, margin: float = 0.0):
        ball = icosphere(2, 0.2)  # a tenth of the picture is 0.2 clip units
        faces = list_leaf("faces", IVEC3, ball.faces)
        self.radius = Variable(FLOAT, name="radius", data=np.full((1, 1, 1), REACH))
        self.move = Variable(VEC2, name="move", data=np.zeros((1, 1, 1, 2)))
        self.size, self.away = size, goal - start
        pixels = math.ceil(margin * size)

        def drawn(x: float, move: Variable | None) -> Any:
            points = ball.positions * (1, 1, 0.5) + (x, 0, 0.5)
            clip = list_leaf("position", VEC4, np.concatenate([points, np.ones((len(points), 1))], axis=1))
            clip = clip if move is None else clip + F.vec4(move, 0.0, 0.0)
            wide, extent = with_margin(clip, (size, size), pixels)
            radius = self.radius * (size / extent[1])
            return hard_soft_ras(
                wide, faces, size=extent, radius=radius, face_count=len(ball.faces), form=form
            )

        own, target = drawn(start, self.move), drawn(goal, None)
        self.hard = own.hard, target.hard
        squares = F.square(own.silhouette - F.stop_gradient(target.silhouette))
        self.loss = F.sum(squares) * (1 / size**2)

    def slopes(self, device: Device, shifts: list[float], radius: float = REACH) -> list[float]:
        """The derivative of the loss by the shift toward the target, at each shift."""
        with DressiAD(device) as ad:
            ad.set_output("slope", gradient(self.loss, [self.move])[0])
            ad.send(self.radius, np.full((1, 1, 1), radius))
            found = []
            for shift in shifts:
                ad.send(self.move, np.array([[[[shift, 0.0]]]]))
                ad.step()
                found.append(float(ad.recv("slope")[0, 0, 0, 0]))
            return found

    def gap(self, device: Device) -> float:
        """Between ball and target, in image heights."""
        with DressiAD(device) as ad:
            for name, image in zip(("own", "target"), self.hard, strict=True):
                ad.set_output(name, image)
            ad.step()
            return float(gap(ad.recv("own"), ad.recv("target"))[0])

    def recover(self, device: Device, steps: int) -> float:
        """Pixels between the ball and its target after an optimisation of the shift."""
        self.move.data = np.zeros((1, 1, 1, 2))
        parts = np.minimum(
            np.arange(steps + max(steps // 4, 1)) / steps, 1
        )  # a fifth of the steps with the last radius
        with DressiAD(device) as ad:
            ad.set_loss(self.loss)
            ad.set_optimizer(adam(0.03), [self.move])
            for radius in REACH * (LAST / REACH) ** parts:
                ad.send(self.radius, np.full((1, 1, 1), radius))
                ad.step()
            left = ad.recv(self.move).reshape(2) - (self.away, 0.0)
        return float(np.linalg.norm(left) * self.size / 2)


def examine(form: str, settings: argparse.Namespace, device: Device) -> dict[str, Any]:
    row: dict[str, Any] = {
        "form": form,
        "size": settings.size,
        "steps": settings.steps,
        "device": device.name,
    }
    for distance in (*DISTANCES, FARTHEST):
        scene = Range(form, settings.size, -distance / 2, distance / 2)
        (slope,) = scene.slopes(device, [0.0])
        row[f"{distance:g}"] = {
            "gap": scene.gap(device),
            "slope": slope,
            "left, pixels": scene.recover(device, settings.steps),
        }
    for name, margin in (("border", 0.0), ("border with margin", REACH)):
        scene = Range(form, settings.size, -0.9, 0.6, margin)
        (slope,) = scene.slopes(device, [0.0])
        row[name] = {"slope": slope, "left, pixels": scene.recover(device, settings.steps)}
    return row


def picture(file: Path, settings: argparse.Namespace, device: Device) -> None:
    """The derivative toward the target as a function of the remaining distance, for some radii."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.5), dpi=100)
    shifts = np.linspace(0, FARTHEST, 25)
    scene = Range(settings.form[0], settings.size, -FARTHEST / 2, FARTHEST / 2)
    for radius in (REACH, 0.3, 0.1, LAST):
        slopes = scene.slopes(device, shifts.tolist(), radius)
        axes.plot(FARTHEST - shifts, -np.array(slopes), label=f"r = {radius:g}")
    axes.set(xlabel="distance, clip units", ylabel="pull towards the target")
    axes.axhline(0, color="black", linewidth=0.5)
    axes.legend()
    figure.tight_layout()
    figure.savefig(file)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--form", nargs="+", default=["outer"], help="forms that have a radius")
    parser.add_argument("--size", type=int, default=64, help="pixels along each side")
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--device", help="Vulkan device, by name or index")
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    parser.add_argument("--out", type=Path, default=Path("out/far_range"))
    settings = parser.parse_args()
    settings.out.mkdir(parents=True, exist_ok=True)
    with Device.open(settings.device) as device:
        rows = [examine(form, settings, device) for form in settings.form]
        write_json(settings.out / "far_range.json", rows)
        picture(settings.out / "far_range.png", settings, device)
    for row in rows:
        ends = ", ".join(f"{k} {v['left, pixels']:.3f}" for k, v in row.items() if isinstance(v, dict))
        print(f"{row['form']}: pixels left from {ends}")


if __name__ == "__main__":
    main()
