"""Do gradients by places of nodes, morph weights and joints agree with differences of the rendered loss?

    python apps/scenes/scene_path_test.py --out out/scene_path_test

A scene of three nodes that hide each other and do not meet: a box that its place moves, a ball that weights of modes move, a tube that joints
bend. Along each direction of these parameters vertices move by at most --pixels. The loss (squared difference of masks or
colours from the same scene elsewhere) changes by L(end) - L(start); the gradient times the direction, integrated along the
path, must give the same. Prints the median of the ratios of each family of parameters, and the share within 5 %.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dressi import DressiAD, F, Variable
from dressi.ad.transform.gradient import gradient
from dressi.ad.types import FLOAT, MAT4, VEC3
from dressi.render import Camera, MorphGeometry, Node, Scene, Skeleton, SkinnedGeometry, primitives, render
from dressi.render.io import write_json
from dressi.render.mesh import Mesh

RANDOM = np.random.default_rng(4)
FAMILIES = ("place", "weights", "joints")


def generators() -> Iterator[tuple[str, np.ndarray]]:
    """(4, 4): the six rigid motions and a scale."""
    for k, axis in enumerate("xyz"):
        move, turn = np.zeros((4, 4)), np.zeros((4, 4))
        move[k, 3] = 1.0
        i, j = (k + 1) % 3, (k + 2) % 3
        turn[i, j], turn[j, i] = -1.0, 1.0
        yield f"move {axis}", move
        yield f"turn {axis}", turn
    yield "scale", np.diag([1.0, 1, 1, 0])


def powers(generator: np.ndarray, place: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """(N, 4, 4): place @ exp(step * generator), by its series."""
    found, term = np.tile(np.eye(4), (len(steps), 1, 1)), np.tile(np.eye(4), (len(steps), 1, 1))
    for k in range(1, 12):
        term = term @ generator * (steps / k)[:, None, None]
        found = found + term
    return place @ found


@dataclass
class Course:
    """The parameters at each step, and their derivative by it."""

    family: str
    name: str
    values: np.ndarray
    slopes: np.ndarray


class Work:
    """One scene on one device: samples of a path are the tiles of one batch."""

    def __init__(self, size: int, samples: int, form: str, radius: float):
        self.samples = samples
        box, ball, tube = primitives.cube(), primitives.icosphere(3), bar()
        ball = ball.moved(ball.positions * 0.75)
        self.modes = np.stack(
            [ball.positions * np.sin(k + 2 * ball.positions[:, [k % 3]]) * 0.3 for k in range(4)]
        )
        turn = powers(
            dict(generators())["turn y"] + dict(generators())["turn x"] * 0.7, np.eye(4), np.array([0.5])
        )[0]
        place = turn @ np.diag([0.4, 0.4, 0.4, 1.0])
        place[:3, 3] = (-0.45, 0.15, 1.7)
        up = np.eye(4)
        up[1, 3] = 0.9
        joints = np.stack([np.eye(4), up, up])
        joints[0, :3, 3] = (1.0, -1.3, -1.0)
        joints[1:] = joints[1:] @ powers(dict(generators())["turn z"], np.eye(4), np.array([0.25]))[0]
        self.start = {"place": place, "weights": np.array([0.3, -0.2, 0.2, 0.1]), "joints": joints}
        self.leaves = {
            "place": Variable(MAT4, (1, 1), samples, name="place"),
            "weights": Variable(FLOAT, (4, 1), samples, name="weights"),
            "joints": Variable(MAT4, (3, 1), samples, name="joints"),
        }
        height = tube.positions[:, 1]
        shares = np.maximum(1 - np.abs(height[:, None] / 0.9 - np.arange(3)), 0)
        shares = np.pad(shares / shares.sum(1, keepdims=True), ((0, 0), (0, 1)))
        bind = np.tile(np.eye(4), (3, 1, 1))
        bind[:, 1, 3] = -0.9 * np.arange(3)
        which = np.tile([0, 1, 2, 0], (len(height), 1))
        self.skin = SkinnedGeometry(tube, which, shares, bind, Skeleton([-1, 0, 1], joints))
        self.ball = MorphGeometry(ball, self.modes, self.start["weights"])
        skeleton = Skeleton([-1, 0, 1], self.leaves["joints"])
        scene = Scene(
            [
                Node(box, {"emission": (0.9, 0.2, 0.1)}, self.leaves["place"], "box"),
                Node(self.ball.weighted(self.leaves["weights"]), {"emission": (0.2, 0.7, 0.3)}, name="ball"),
                Node(self.skin.posed(skeleton), {"emission": (0.2, 0.3, 0.9)}, name="tube"),
            ]
        )
        self.camera = Camera.perspective(40, (size, size), (0.2, 0.3, 5), (0, 0, 0))
        self.target = Variable(VEC3, (size, size), name="target")
        shown = render(
            scene, self.camera, form=form, shader=glow, **({"radius": radius} if form != "antialias" else {})
        )
        # Colours of the outer form jump at contours inside of the outline.
        image = shown.colour if form != "outer" else F.vec3(shown.mask, shown.mask, shown.mask)
        squares = F.sum_components(F.square(image - self.target))
        self.ad = DressiAD()
        self.ad.set_output("image", image)
        self.ad.set_output("squares", F.sum(F.sum(squares, "x"), "y"))
        loss = F.sum(squares)
        for family, slope in zip(FAMILIES, gradient(loss, [self.leaves[f] for f in FAMILIES]), strict=True):
            self.ad.set_output(family, slope)

    def paths(self, pixels: float) -> Iterator[Course]:
        """Each along one direction, so long that vertices move by so many pixels."""
        unit = np.linspace(0, 1, self.samples)
        for name, generator in generators():
            yield self._moved(
                "place", name, lambda s, g=generator: powers(g, self.start["place"], s), pixels, unit
            )
        for k, way in enumerate([*np.eye(4), *RANDOM.normal(size=(4, 4))]):
            yield self._moved(
                "weights",
                f"weights {k}",
                lambda s, w=way: self.start["weights"] + s[:, None] * w,
                pixels,
                unit,
            )
        for joint in range(3):
            for name, generator in generators():
                if not name.startswith("turn"):
                    continue

                def bent(steps: np.ndarray, joint=joint, generator=generator) -> np.ndarray:
                    found = np.tile(self.start["joints"], (len(steps), 1, 1, 1))
                    found[:, joint] = powers(generator, self.start["joints"][joint], steps)
                    return found

                yield self._moved("joints", f"joint {joint} {name}", bent, pixels, unit)

    def _moved(self, family: str, name: str, at, pixels: float, unit: np.ndarray) -> Course:
        """The path at(step), scaled."""
        near = self._screen(family, at(np.array([-1e-5, 1e-5])))
        reach = np.linalg.norm(near[1] - near[0], axis=-1).max() / 2e-5
        steps = unit * pixels / reach
        h = 1e-5 / max(reach, 1e-9) * self.camera.size[0]
        return Course(family, name, at(steps), (at(steps + h) - at(steps - h)) / (2 * h) * (pixels / reach))

    def _screen(self, family: str, values: np.ndarray) -> np.ndarray:
        """(2, V, 2) pixels of the vertices that two values of a parameter place."""
        if family == "place":
            points = np.stack([primitives.cube().positions @ m[:3, :3].T + m[:3, 3] for m in values])
        elif family == "weights":
            points = np.stack([np.asarray(self.ball.weighted(w).moved) for w in values])
        else:
            poses = [self.skin.posed(Skeleton([-1, 0, 1], m)).lists()["positions"] for m in values]
            points = np.stack([np.asarray(pose) for pose in poses])
        return np.stack([self.camera.project(p)[0] for p in points])

    def send(self, family: str = "", values: np.ndarray | None = None) -> None:
        for name, leaf in self.leaves.items():
            start = np.broadcast_to(self.start[name], (self.samples, *self.start[name].shape))
            self.ad.send(
                leaf, np.reshape(values if values is not None and name == family else start, leaf.shape)
            )

    def aim(self) -> None:
        """The target: the scene with everything elsewhere."""
        self.ad.send(self.target, np.zeros(self.target.shape))
        self.send()
        away = powers(
            dict(generators())["move x"] * 0.25 + dict(generators())["turn z"] * 0.2,
            self.start["place"],
            np.ones(1),
        )
        bent = self.start["joints"].copy()
        bent[1] = powers(dict(generators())["turn z"], bent[1], np.array([0.3]))[0]
        for name, value in (("place", away[0]), ("weights", self.start["weights"] + 0.4), ("joints", bent)):
            self.ad.send(
                self.leaves[name],
                np.broadcast_to(value, (self.samples, *value.shape)).reshape(self.leaves[name].shape),
            )
        self.ad.step()
        self.ad.send(self.target, np.array(self.ad.recv("image"))[:1])

    def ratio(self, path: Course) -> tuple[float, float]:
        """The integral of the gradient along a path, and the difference of the loss."""
        self.send(path.family, path.values)
        self.ad.step()
        losses = np.array(self.ad.recv("squares"), float).reshape(-1)
        slope = np.array(self.ad.recv(path.family), float).reshape(path.slopes.shape)
        along = (slope * path.slopes).reshape(self.samples, -1).sum(1)
        return float(np.trapezoid(along, dx=1 / (self.samples - 1))), float(losses[-1] - losses[0])


def glow(point):
    """The emission alone: what the loss compares has one colour a node."""
    return point.map("emission")


def bar() -> Mesh:
    """A tube along y, from 0 to 2.7."""
    ball = primitives.icosphere(3)
    points = ball.positions / np.linalg.norm(ball.positions, axis=1, keepdims=True)
    return replace(ball.moved(points * (0.35, 1.4, 0.35) + (0, 1.0, 0)), name="tube")


def measure(size: int, samples: int, pixels: float, form: str, radius: float) -> dict:
    """Ratios by family, their medians and shares within 5 %; directions that hardly change the loss are left out."""
    work = Work(size, samples, form, radius / size)
    work.aim()
    found = {family: {} for family in FAMILIES}
    for path in work.paths(pixels):
        found[path.family][path.name] = work.ratio(path)
    work.ad.close()
    result = {}
    for family, changes in found.items():
        most = max(abs(d) for _, d in changes.values())
        ratios = {name: i / d for name, (i, d) in changes.items() if abs(d) > 0.02 * most}
        off = np.abs(np.array(list(ratios.values())) - 1)
        result[family] = {
            "median": float(np.median(list(ratios.values()))),
            "within 5 %": float((off < 0.05).mean()),
            "ratios": ratios,
        }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=int, default=96, help="pixels along each side")
    parser.add_argument("--samples", type=int, default=48, help="of the gradient along each direction")
    parser.add_argument("--pixels", type=float, default=2.0, help="that vertices move by, at most")
    parser.add_argument(
        "--form",
        default="outer",
        choices=("outer", "contour", "antialias"),
        help="outer compares masks, the others colours too",
    )
    parser.add_argument("--radius-px", type=float, default=4.0)
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    parser.add_argument(
        "--out", type=Path, default=Path("out/scene_path_test"), help="for scene_path_test.json"
    )
    arguments = parser.parse_args()
    found = measure(arguments.size, arguments.samples, arguments.pixels, arguments.form, arguments.radius_px)
    for family, row in found.items():
        print(
            f"{family}: {len(row['ratios'])} directions, median {row['median']:.4f}, {row['within 5 %']:.0%} within 5 %",
            flush=True,
        )
    arguments.out.mkdir(parents=True, exist_ok=True)
    write_json(arguments.out / "scene_path_test.json", found)


if __name__ == "__main__":
    main()
