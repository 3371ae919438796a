"""Do gradients by places of nodes, morph weights, joints and transparency agree with differences of the rendered loss?

    python apps/scenes/scene_path_test.py --json out/masks.json
    python apps/scenes/scene_path_test.py --form edges --glass --per-pixel 2 --truth 8 --json out/glass.json

A scene of three nodes that hide each other and do not meet: a box that its place moves, a ball that weights of modes move, a tube that joints
bend; with --glass the ball and the tube are seen through, and their alphas are a fourth family. Along each direction of these parameters vertices move by at most --pixels. The loss (squared difference of masks or
colours from the same scene elsewhere) changes by L(end) - L(start); the gradient times the direction, integrated along the
path, must give the same. With --truth N the target is a picture of N x N samples a pixel, and the integral is also compared with the
change of the loss of pictures of so many samples, whose derivative that of the edges form is. Prints the median of the ratios of each family of parameters, and the share within 5 %.
Directions that change the loss by less than 2 % of the largest change are left out.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dressi import DressiAD, F, Variable
from dressi.ad.graph.types import FLOAT, MAT4, VEC3
from dressi.ad.transform.gradient import gradient
from dressi.render import Camera, MorphGeometry, Node, Scene, Skeleton, SkinnedGeometry, primitives, render
from dressi.render.io import write_json
from dressi.render.mesh import Mesh

RANDOM = np.random.default_rng(4)
ALPHAS = np.array([0.45, 0.6])
"""Of the ball and the tube, if they are of glass."""


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

    def __init__(self, arguments: argparse.Namespace):
        size, self.samples = arguments.size, arguments.samples
        ball, tube = primitives.icosphere(3), bar()
        ball = ball.moved(ball.positions * 0.75)
        modes = [ball.positions * np.sin(k + 2 * ball.positions[:, [k % 3]]) * 0.3 for k in range(4)]
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
        if arguments.glass:
            self.start["alphas"] = ALPHAS
        height = tube.positions[:, 1]
        shares = np.maximum(1 - np.abs(height[:, None] / 0.9 - np.arange(3)), 0)
        shares = np.pad(shares / shares.sum(1, keepdims=True), ((0, 0), (0, 1)))
        bind = np.tile(np.eye(4), (3, 1, 1))
        bind[:, 1, 3] = -0.9 * np.arange(3)
        which = np.tile([0, 1, 2, 0], (len(height), 1))
        self.skin = SkinnedGeometry(tube, which, shares, bind, Skeleton([-1, 0, 1], joints))
        self.ball = MorphGeometry(ball, np.stack(modes), self.start["weights"])
        self.camera = Camera.perspective(40, (size, size), (0.2, 0.3, 5), (0, 0, 0))
        self.target = Variable(VEC3, (size, size), name="target")
        self.leaves = self._leaves(self.samples)
        image = self._image(self.leaves, arguments.form, arguments.per_pixel, arguments.radius_px / size)
        squares = F.sum_components(F.square(image - self.target))
        self.ad = DressiAD()
        self.ad.set_output("image", image)
        self.ad.set_output("squares", F.sum(F.sum(squares, "x"), "y"))
        for family, slope in zip(
            self.start, gradient(F.sum(squares), list(self.leaves.values())), strict=True
        ):
            self.ad.set_output(family, slope)
        self.fine: DressiAD | None = None
        if arguments.truth:
            self.ends = self._leaves(2)
            self.fine = DressiAD()
            self.fine.set_output("image", self._image(self.ends, "hard", arguments.truth, 0.0))

    def _leaves(self, tiles: int) -> dict[str, Variable]:
        kinds = {"place": (MAT4, 1), "weights": (FLOAT, 4), "joints": (MAT4, 3), "alphas": (FLOAT, 2)}
        return {name: Variable(kinds[name][0], (kinds[name][1], 1), tiles, name=name) for name in self.start}

    def _image(self, leaves: dict[str, Variable], form: str, per_pixel: int, radius: float) -> Variable:
        """The scene of these parameters: its colours, or its mask by the outer form."""
        looks = [{"emission": c} for c in ((0.9, 0.2, 0.1), (0.2, 0.7, 0.3), (0.2, 0.3, 0.9))]
        if "alphas" in leaves:
            for k, look in enumerate(looks[1:]):
                look["alpha"] = F.lookup(leaves["alphas"], F.constant(k))
        geometries = (
            self.ball.weighted(leaves["weights"]),
            self.skin.posed(Skeleton([-1, 0, 1], leaves["joints"])),
        )
        nodes = [Node(primitives.cube(), looks[0], leaves["place"], "box")]
        nodes += [
            Node(g, look, name=n) for g, look, n in zip(geometries, looks[1:], ("ball", "tube"), strict=True)
        ]
        options = {"radius": radius} if form == "outer" else {}
        shown = render(Scene(nodes), self.camera, form=form, shader=glow, samples=per_pixel, **options)
        # Colours of the outer form jump at contours inside of the outline.
        return F.vec3(shown.mask, shown.mask, shown.mask) if form == "outer" else shown.colour

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

        if "alphas" in self.start:
            for k, way in enumerate([*np.eye(2), *RANDOM.normal(size=(2, 2))]):
                # Nothing moves; an alpha changes by at most 0.2.
                values = ALPHAS + unit[:, None] * way * (0.2 / np.abs(way).max())
                slopes = np.broadcast_to(way * (0.2 / np.abs(way).max()), values.shape)
                yield Course("alphas", f"alphas {k}", values, slopes)

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

    def send(self, ad: DressiAD, leaves: dict[str, Variable], values: dict[str, np.ndarray]) -> None:
        """The values, one or a tile each, and the start of the others."""
        for name, leaf in leaves.items():
            value = values.get(name, self.start[name])
            ad.send(leaf, np.broadcast_to(value, (leaf.batch, *self.start[name].shape)).reshape(leaf.shape))

    def aim(self) -> None:
        """The target: the scene with everything elsewhere."""
        away = powers(
            dict(generators())["move x"] * 0.25 + dict(generators())["turn z"] * 0.2,
            self.start["place"],
            np.ones(1),
        )
        bent = self.start["joints"].copy()
        bent[1] = powers(dict(generators())["turn z"], bent[1], np.array([0.3]))[0]
        values = {
            "place": away[0],
            "weights": self.start["weights"] + 0.4,
            "joints": bent,
            "alphas": ALPHAS - 0.15,
        }
        self.ad.send(self.target, np.zeros(self.target.shape))
        ad, leaves = (self.ad, self.leaves) if self.fine is None else (self.fine, self.ends)
        self.send(ad, leaves, values)
        ad.step()
        self.goal = np.array(ad.recv("image"))[:1]
        self.ad.send(self.target, self.goal)

    def changes(self, path: Course) -> tuple[float, float, float | None]:
        """The integral of the gradient along a path, the difference of the loss, and that of the loss of fine pictures."""
        self.send(self.ad, self.leaves, {path.family: path.values})
        self.ad.step()
        losses = np.array(self.ad.recv("squares"), float).reshape(-1)
        slope = np.array(self.ad.recv(path.family), float).reshape(path.slopes.shape)
        along = (slope * path.slopes).reshape(self.samples, -1).sum(1)
        integral = float(np.trapezoid(along, dx=1 / (self.samples - 1)))
        if self.fine is None:
            return integral, float(losses[-1] - losses[0]), None
        self.send(self.fine, self.ends, {path.family: path.values[[0, -1]]})
        self.fine.step()
        true = np.square(np.array(self.fine.recv("image"), float) - self.goal).sum((1, 2, 3))
        return integral, float(losses[-1] - losses[0]), float(true[1] - true[0])


def glow(point):
    """The emission alone: what the loss compares has one colour a node."""
    return point.map("emission") * point.map("alpha") if point.has("alpha") else point.map("emission")


def bar() -> Mesh:
    """A tube along y, from 0 to 2.7."""
    ball = primitives.icosphere(3)
    points = ball.positions / np.linalg.norm(ball.positions, axis=1, keepdims=True)
    return replace(ball.moved(points * (0.35, 1.4, 0.35) + (0, 1.0, 0)), name="tube")


def figures(ratios: dict[str, float]) -> dict:
    off = np.abs(np.array(list(ratios.values())) - 1)
    median = float(np.median(list(ratios.values())))
    return {"median": median, "within 5 %": float((off < 0.05).mean()), "ratios": ratios}


def measure(arguments: argparse.Namespace) -> dict:
    """Ratios by family, their medians and shares within 5 %: of the integrals to the changes, and to those of the truth."""
    work = Work(arguments)
    work.aim()
    found: dict[str, dict] = {family: {} for family in work.start}
    for path in work.paths(arguments.pixels):
        found[path.family][path.name] = work.changes(path)
    result = {}
    for family, changes in found.items():
        most = max(abs(d) for _, d, _ in changes.values())
        kept = {name: c for name, c in changes.items() if abs(c[1]) > 0.02 * most}
        result[family] = figures({name: i / d for name, (i, d, _) in kept.items()})
        if work.fine is not None:
            result[family]["truth"] = figures(
                {name: i / t for name, (i, _, t) in kept.items() if t is not None}
            )
        print(f"{family}: {len(kept)} directions, {row(result[family])}", flush=True)
    for ad in (work.ad, work.fine):
        if ad is not None:
            ad.close()
    return result


def row(found: dict) -> str:
    text = f"median {found['median']:.4f}, {found['within 5 %']:.0%} within 5 %"
    return f"{text}; of the truth: {row(found['truth'])}" if "truth" in found else text


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=int, default=96, help="pixels along each side")
    parser.add_argument("--samples", type=int, default=48, help="of the gradient along each direction")
    parser.add_argument("--pixels", type=float, default=2.0, help="that vertices move by, at most")
    parser.add_argument(
        "--form",
        default="outer",
        choices=("outer", "edges"),
        help="outer compares masks, edges colours too",
    )
    parser.add_argument("--glass", action="store_true", help="the ball and the tube are seen through")
    parser.add_argument("--per-pixel", type=int, default=1, help="samples along each axis of a pixel")
    parser.add_argument("--truth", type=int, default=0, help="samples of the truth, likewise; 0: no truth")
    parser.add_argument("--radius-px", type=float, default=4.0)
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    parser.add_argument(
        "--out", type=Path, default=Path("out/scene_path_test"), help="for scene_path_test.json"
    )
    parser.add_argument("--json", type=Path, help="another file of results")
    arguments = parser.parse_args()
    found = measure(arguments)
    given = {n: value for n, value in vars(arguments).items() if n not in ("headless", "out", "json")}
    file = arguments.json or arguments.out / "scene_path_test.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, {"options": given, **found})


if __name__ == "__main__":
    main()
