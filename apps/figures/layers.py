"""Glass objects in layers: a picture, what layers cost, how near moments come, and whether gradients follow the picture.

    python apps/figures/layers.py --out out/layers
    python apps/figures/layers.py --size 256 512 --layers 1 2 4 8 --device llvmpipe SwiftShader

Two glass balls and a torus pass through each other before an opaque wall, or, of the path test, five flat panes as well. Writes layers.png and layers.json: for each device and
size the milliseconds of a picture in K layers, hard and with edges, and by moments, as ratios to the opaque picture of the
same objects (measured in turns); the mean error of moments relative to sorted layers; and the path test: the objects, or the
panes, move by --pixels to either side along seven directions, and the gradient of a loss, integrated, is compared with its change.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from dressi import MAT4, Device, DressiAD, F, Variable
from dressi.ad.transform.gradient import gradient
from dressi.render import Camera, DirectionalLight, Mesh, Node, Scene, primitives, render
from dressi.render.io import write_json
from dressi.render.mesh import Material

BACKGROUND = (0.35, 0.55, 0.9)
SUN = DirectionalLight((0.4, 1.0, 0.7), 2.5)


def glass(mesh: Mesh, name: str, colour: tuple[float, float, float], alpha: float) -> Mesh:
    """The mesh of one colour that lets 1 - alpha of the light pass."""
    uvs = np.zeros((1, 2))
    material = Material(alpha=np.full((1, 1), alpha), alpha_mode="blend", roughness=0.25)
    return Mesh(
        mesh.positions,
        mesh.faces,
        uvs=uvs,
        uv_faces=np.zeros_like(mesh.faces),
        color=colour,
        name=name,
        material=material,
    )


OBJECTS = [
    (glass(primitives.icosphere(3, 0.75), "red ball", (0.9, 0.25, 0.2), 0.45), (-0.55, 0.05, 0.25)),
    (glass(primitives.icosphere(3, 0.7), "green ball", (0.2, 0.8, 0.35), 0.55), (0.35, -0.1, -0.15)),
    (glass(primitives.torus(48, 24), "ring", (0.95, 0.8, 0.3), 0.5), (0.15, 0.1, 0.5)),
]
"""Meshes, and where they are."""


def panes() -> list[tuple[Mesh, tuple[float, float, float]]]:
    """Five flat squares at angles, of which some pass through each other."""
    rng, found = np.random.default_rng(7), []
    for k in range(5):
        axes = np.linalg.qr(rng.normal(size=(3, 3)) * 0.5 + np.eye(3))[0]
        square = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)]) * 0.75 @ axes[:2]
        mesh = Mesh(square, np.array([(0, 1, 2), (0, 2, 3)]))
        at = (*rng.uniform(-0.3, 0.3, size=2), k * 0.45 - 0.8)
        found.append(
            (glass(mesh, f"pane {k}", tuple(rng.uniform(0.1, 1, size=3)), rng.uniform(0.3, 0.6)), at)
        )
    return found


def wall() -> Mesh:
    corners = np.array(
        [(-2, -1.2, -1.6), (2, -1.2, -1.6), (2, 1.6, -1.6), (-2, 1.6, -1.6), (-2, -1.2, 2), (2, -1.2, 2)]
    )
    return Mesh(
        corners, np.array([(0, 1, 2), (0, 2, 3), (4, 5, 1), (4, 1, 0)]), color=(0.75, 0.75, 0.72), name="wall"
    )


def scene(see_through: bool = True, place: Variable | None = None, objects: list = OBJECTS) -> Scene:
    """The objects before the wall, all moved by ``place``."""
    nodes = [Node(wall())]
    for mesh, at in objects:
        turned = np.eye(4)
        turned[:3, 3] = at
        if mesh.name == "ring":
            turned[:3, :3] = 0.62 * np.array([(1, 0, 0), (0, 0.8, -0.6), (0, 0.6, 0.8)])
        own = mesh if see_through else Mesh(mesh.positions, mesh.faces, color=mesh.color, name=mesh.name)
        matrix = turned if place is None else F.matmul(place, F.constant(turned))
        nodes.append(Node(own, to_world=matrix))
    return Scene(nodes)


def camera(size: int) -> Camera:
    return Camera.perspective(38, (size, size), (0.8, 0.7, 4.6), (0, 0, 0))


def picture(size: int, place: Variable, see_through: bool = True, objects: list = OBJECTS, **options):
    shown = scene(see_through, place, objects)
    return render(shown, camera(size), light=SUN, background=BACKGROUND, **options)


def places(count: int = 1) -> Variable:
    return Variable(MAT4, batch=count, name="place", data=np.tile(np.eye(4), (count, 1, 1, 1, 1)))


def costs(device: Device, size: int, layers: list[int], rounds: int) -> dict[str, float]:
    """Ratios to the opaque picture, and its milliseconds."""
    ways = {
        "opaque": {"see_through": False, "form": "hard"},
        "moments": {"transparency": "moments", "form": "hard"},
    }
    for form in ("hard", "edges"):
        ways |= {f"{form} {k}": {"transparency": k, "form": form} for k in layers}
    ways["opaque edges"] = {"see_through": False, "form": "edges"}
    engines, moved = {}, {}
    for name, options in ways.items():
        engines[name], moved[name] = DressiAD(device), places()
        engines[name].set_output("colour", picture(size, moved[name], **options).colour)
        engines[name].step()
    times: dict[str, list[float]] = {name: [] for name in ways}
    for k in range(rounds):
        for name, engine in engines.items():
            # What did not change would not be drawn again.
            engine.send(moved[name], (np.eye(4) + (k + 1) * 1e-5)[None, None, None])
            start = time.perf_counter()
            engine.step()
            engine.recv("colour")
            times[name].append(time.perf_counter() - start)
    for engine in engines.values():
        engine.close()
    medians = {name: float(np.median(t)) for name, t in times.items()}
    return {"opaque ms": 1e3 * medians["opaque"]} | {n: m / medians["opaque"] for n, m in medians.items()}


def moments_error(device: Device, size: int) -> float:
    """The mean error where something transparent is, relative to the mean of the sorted picture."""
    with DressiAD(device) as ad:
        for name, way in (("sorted", 8), ("moments", "moments")):
            ad.set_output(name, picture(size, places(), form="hard", transparency=way).colour)
        ad.step()
        exact, found = ad.recv("sorted"), ad.recv("moments")
    return float(np.abs(found - exact).sum() / exact.sum())


def motions() -> dict[str, np.ndarray]:
    """Generators (4, 4) of seven directions."""
    found = {}
    for k, axis in enumerate("xyz"):
        move, turn = np.zeros((4, 4)), np.zeros((4, 4))
        move[k, 3] = 1
        a, b = (k + 1) % 3, (k + 2) % 3
        turn[b, a], turn[a, b] = 1, -1
        found |= {f"move {axis}": move, f"turn {axis}": turn}
    return found | {"scale": np.diag([1.0, 1, 1, 0])}


def path_test(device: Device, objects: list, arguments: argparse.Namespace) -> dict[str, float]:
    """The integral of the gradient over the change of the loss, by direction; NaN where the loss hardly changes."""
    size, samples = arguments.path_size, arguments.samples
    place = places(samples + 2)
    options = {"form": "edges", "transparency": 6, "samples": arguments.per_pixel}
    colour = picture(size, place, objects=objects, **options).colour
    target = Variable(colour.vtype, colour.size, name="target", data=np.zeros((1, *colour.shape[1:])))
    error = colour - target
    squares = F.dot(error, error)
    points = np.concatenate([mesh.positions + at for mesh, at in objects])
    points = np.concatenate([points, np.ones((len(points), 1))], axis=1)
    with DressiAD(device) as ad:
        for name, value in (
            ("colour", colour),
            ("squares", F.sum(F.sum(squares, "x"), "y")),
            ("slope", gradient(F.sum(squares), [place])[0]),
        ):
            ad.set_output(name, value)
        # Moved and turned, so that the loss changes along every direction.
        moved = np.eye(4)
        for k, motion in enumerate(motions().values()):
            moved = moved @ (np.eye(4) + motion * (0.06, 0.1, 0.05, 0.08, 0.1, 0.12, 0.06)[k])
        ad.send(place, np.tile(moved, (samples + 2, 1, 1, 1, 1)))
        ad.step()
        ad.send(target, np.array(ad.recv("colour")[:1]))
        changes = {}
        for name, motion in motions().items():

            def screen(h: float, motion: np.ndarray = motion) -> np.ndarray:
                clip = points @ (camera(size).world_to_clip @ (np.eye(4) + h * motion)).T
                return clip[:, :2] / clip[:, 3:] * 0.5 * size

            reach = np.linalg.norm(screen(1e-5) - screen(-1e-5), axis=1).max() / 2e-5
            step = motion * (arguments.pixels / reach)
            at = np.concatenate([[-1.0, 1.0], (np.arange(samples) + 0.5) / samples * 2 - 1])
            ad.send(place, np.stack([np.eye(4) + h * step for h in at])[:, None, None])
            ad.step()
            losses = np.array(ad.recv("squares"), float).reshape(-1)
            slope = (np.array(ad.recv("slope"), float).reshape(-1, 4, 4) * step).sum((1, 2))
            changes[name] = (2 * slope[2:].mean(), losses[1] - losses[0])
    largest = max(abs(d) for _, d in changes.values())
    return {n: float(i / d) if abs(d) > 0.02 * largest else float("nan") for n, (i, d) in changes.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=int, nargs="+", default=[256, 512], help="pixels along each side")
    parser.add_argument("--layers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--rounds", type=int, default=9, help="of timing")
    parser.add_argument(
        "--samples", type=int, default=24, help="of the gradient along each direction; 0: no path test"
    )
    parser.add_argument("--path-size", type=int, default=128)
    parser.add_argument(
        "--pixels", type=float, default=1.0, help="that objects move by to either side, at most"
    )
    parser.add_argument(
        "--per-pixel", type=int, default=1, help="samples along each axis of a pixel of the path test"
    )
    parser.add_argument("--device", nargs="+", default=[None], help="Vulkan devices, by name or index")
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    parser.add_argument("--out", type=Path, default=Path("out/layers"))
    arguments = parser.parse_args()

    arguments.out.mkdir(parents=True, exist_ok=True)
    render(
        scene(),
        camera(max(arguments.size)),
        light=SUN,
        background=BACKGROUND,
        form="edges",
        transparency=max(arguments.layers),
    ).save(arguments.out / "layers.png")
    rows = []
    for wanted in arguments.device:
        with Device.open(wanted) as device:
            row = {"device": device.name, "moments error": moments_error(device, min(arguments.size))}
            row["costs"] = {
                str(n): costs(device, n, arguments.layers, arguments.rounds) for n in arguments.size
            }
            if arguments.samples:
                for name, objects in (("path of balls", OBJECTS), ("path of panes", panes())):
                    row[name] = path_test(device, objects, arguments)
            rows.append(row)
            print(row, flush=True)
            write_json(arguments.out / "layers.json", rows)


if __name__ == "__main__":
    main()
