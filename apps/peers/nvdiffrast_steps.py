"""Steps of nvdiffrast beside those of dressi, in turns: the same meshes, cameras, rates and pictures to reach.

    python apps/peers/nvdiffrast_steps.py --out out/nvdiffrast
    python apps/peers/nvdiffrast_steps.py --only dressi --rows small:256:1 texture:128:2 --batches 3

A row is a mesh (small, medium, large: 684, 13,944 and 50,880 faces), the size of its pictures, and how many there are. A step of a
shape rasterizes it, covers the pixels, blends the outlines, compares with masks, and moves the vertices by Adam; one of a texture
(1024x1024, mipmaps, trilinear) compares colours. The ways:

    nvdiffrast     on CUDA; `kernels` are its own kernels alone by torch's profiler, `gpu` all of them with torch's
    dressi.torch   the same program with `import dressi.torch as dr`, on CUDA tensors, else on those of the CPU
    edges          `hard_soft_ras(form="edges")` in an engine, whose outlines have the coverage of polygons
    outer          the outer form in an engine, the default of fits: another picture and loss; both record the loss
    texture        `render(filter="trilinear")` in an engine

Milliseconds a step by the clock are medians over the batches. nvdiffrast and the engines wait for the GPU at the end of a batch.
`loss` is that of the start: ways that make the same picture have the same. What is not installed is left out, with a sentence.
nvdiffrast comes from its repository: pip install git+https://github.com/NVlabs/nvdiffrast; PyTorch with 'dressi[torch]'.
"""

import argparse
import importlib
import re
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dressi import IVEC3, VEC3, Device, DressiAD, Variable, adam
from dressi.cli.bench.rasterizers import Nvdiffrast
from dressi.cli.bench.request import Model, Request, cameras, deformed, load, textured
from dressi.cli.bench.run import in_turns
from dressi.cli.bench.work import Pictures, Trial, drawn_on, silhouette
from dressi.errors import InputError
from dressi.render import render
from dressi.render.core.lists import list_leaf
from dressi.render.forms.edges.edge_list import edge_list
from dressi.render.forms.hard_soft_ras import hard_soft_ras
from dressi.render.io import write_json
from dressi.render.objectives.losses import l2
from dressi.render.surface.projection import to_clip

ROWS = (
    "small:256:1 small:1024:1 small:1024:8 small:2048:1 medium:1024:1 medium:1024:8 large:1024:1 large:512:8 "
    "texture:256:6 texture:512:6 texture:1024:6"
).split()
TEXELS = 1024
SHAPE_RATE, TEXTURE_RATE = 0.01, 0.03
OWN = re.compile("Raster|Interpolate|Texture|Antialias|MipBuild|triangleSetup", re.IGNORECASE)
"""Names of nvdiffrast's kernels."""
PROFILED = 20


@dataclass(frozen=True)
class Scene:
    """A row. masks (N, H, W) and colours (N, H, W, 3) are what is to be found, row 0 on top."""

    row: str
    model: Model
    size: int
    views: int
    masks: np.ndarray
    colours: np.ndarray

    @classmethod
    def of(cls, row: str, device: Device) -> "Scene":
        """The scene of a row, drawn on a device. Raises InputError."""
        name, *numbers = row.split(":")
        if len(numbers) != 2 or not all(n.isdigit() and int(n) for n in numbers):
            raise InputError(f"--rows {row!r} is no row; give MESH:SIZE:VIEWS, for example small:256:1")
        size, views = map(int, numbers)
        model = load("small" if name == "texture" else name)
        if name == "texture":
            model = replace(model, mesh=replace(textured(model.mesh, TEXELS), color=(1.0, 1.0, 1.0)))
        goal = model.mesh if name == "texture" else deformed(model.mesh)
        pictures = drawn_on(device)(model, goal, cameras(views, (size, size)))
        assert pictures is not None
        return cls(row, model, size, views, *pictures)

    @property
    def is_texture(self) -> bool:
        return self.row.startswith("texture")

    @property
    def facts(self) -> dict[str, Any]:
        return {"row": self.row, **self.model.facts, "size": self.size, "views": self.views}


class Steps:
    """A way to take steps. ``run(n)`` returns when they are done."""

    def __init__(self, run: Callable[[int], None], loss: float, more: Callable[[], dict[str, float]] = dict):
        self.run, self.loss, self.more = run, loss, more


# ---- dressi's engines
def engine_steps(scene: Scene, form: str, device: Device, stack: ExitStack) -> Steps:
    """A shape by a form, or a texture."""
    size, mesh = (scene.size, scene.size), scene.model.mesh
    matrices = cameras(scene.views, size).matrices
    if form == "outer":
        options = {"views": scene.views, "steps": None, "batches": None, "form": form}
        request = Request.parse("silhouette", size=str(scene.size), mesh=scene.model.name, **options)
        pictures = Pictures(scene.masks, scene.colours)
        work = silhouette(scene.model, size, request, lambda model, mesh, ring: pictures)
        engine = stack.enter_context(Trial(work, record=True).engine(device))
    else:
        engine = stack.enter_context(DressiAD(device))
        if form == "edges":
            parameter, rate = list_leaf("position", VEC3, mesh.positions), SHAPE_RATE
            drawn = hard_soft_ras(
                to_clip(parameter, matrices), list_leaf("faces", IVEC3, mesh.faces), size=size, face_count=len(mesh.faces), form=form,
                edges=edge_list(mesh.faces),
            )  # fmt: skip
            found, goal = drawn.silhouette, scene.masks
        else:
            start = np.full((1, TEXELS, TEXELS, 3), 0.5)
            parameter, rate = Variable(VEC3, (TEXELS, TEXELS), name="texture", data=start), TEXTURE_RATE
            options = {"size": size, "filter": "trilinear", "form": "hard", "light": None}
            found, goal = render(mesh, matrices, texture=parameter, **options).colour, scene.colours
        engine.set_loss(
            l2(found, Variable(found.vtype, size, scene.views, name="goal", data=goal), reduction="sum")
        )
        engine.set_optimizer(adam(rate), [parameter])
    loss = engine.recv("loss").item()

    def run(count: int) -> None:
        engine.step(count)
        engine.wait()

    return Steps(run, loss)


# ---- nvdiffrast, and dressi.torch with the same program
def torch_steps(dr: Any, scene: Scene, profiled: bool) -> Steps:
    """The steps of a module with nvdiffrast's names."""
    torch = importlib.import_module("torch")
    matrices, rate = cameras(scene.views, (scene.size, scene.size)).matrices, SHAPE_RATE
    goals, texels = scene.masks, None
    if scene.is_texture:
        goals, texels, rate = scene.colours, TEXELS, TEXTURE_RATE
    peer = Nvdiffrast(scene.model.mesh, matrices, goals, (rate, rate), 1, texels=texels, module=dr)

    def kernels() -> dict[str, float]:
        profiler = torch.profiler
        with profiler.profile(
            activities=[profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.CUDA]
        ) as seen:
            peer.run(PROFILED)
        took = [(e.name, e.time_range.elapsed_us()) for e in seen.events() if "CUDA" in str(e.device_type)]
        own = sum(us for name, us in took if OWN.search(name))
        return {"kernels": 1e-3 * own / PROFILED, "gpu": 1e-3 * sum(us for _, us in took) / PROFILED}

    return Steps(peer.run, peer.loss().item(), kernels if profiled else dict)


def peers(only: str | None) -> tuple[dict[str, Any], str]:
    """The modules with nvdiffrast's names that can be used here, and where their tensors lie."""
    found: dict[str, Any] = {}
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        missing(only, f"PyTorch is not installed ({error}): pip install 'dressi[torch]'")
        return found, "cpu"
    place = "cuda:0" if torch.cuda.is_available() else "cpu"
    if only != "dressi":
        try:
            if place == "cpu":
                raise ImportError("PyTorch finds no device of CUDA here")
            found["nvdiffrast"] = importlib.import_module("nvdiffrast.torch")
        except ImportError as error:
            missing(only, f"nvdiffrast cannot be used: {error}")
    if only != "nvdiffrast":
        found["dressi.torch"] = importlib.import_module("dressi.torch")
    return found, place


def missing(only: str | None, sentence: str) -> None:
    """Say what is left out; raises InputError where nothing else was asked for."""
    if only == "nvdiffrast":
        raise InputError(sentence)
    print(f"left out: {sentence}", file=sys.stderr)


# ---- the table
def measured(scene: Scene, given: argparse.Namespace, device: Device, modules: Any) -> dict[str, Any]:
    """Milliseconds a step, losses and kernels of each way, by its name."""
    with ExitStack() as stack:
        ways = {
            name: torch_steps(module, scene, profiled=name == "nvdiffrast")
            for name, module in modules.items()
        }
        if given.only != "nvdiffrast":
            for form in ("texture",) if scene.is_texture else ("edges", "outer"):
                ways[form] = engine_steps(scene, form, device, stack)
        times, cpu = in_turns([[way.run] for way in ways.values()], given.batches)
        return {
            name: {
                "ms": float(np.median(ms)),
                "cpu_ms": float(np.median(own)),
                "loss": way.loss,
                **way.more(),
            }
            for (name, way), ms, own in zip(ways.items(), times, cpu, strict=True)
        }


COLUMNS = ("nvdiffrast", "kernels", "gpu", "dressi.torch", "edges", "outer", "texture")


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    ways = row["ways"]
    by_peer = ways.get("nvdiffrast", {})
    values = [by_peer.get(c) if c in ("kernels", "gpu") else ways.get(c, {}).get("ms") for c in COLUMNS]
    cells = ["" if v is None else f"{v:.3g}" for v in values]
    return f"| {row['faces']}, {row['size']}, {row['views']} | " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", nargs="+", default=ROWS, help="MESH:SIZE:VIEWS, or texture:SIZE:VIEWS")
    parser.add_argument("--only", choices=("dressi", "nvdiffrast"))
    parser.add_argument("--batches", type=int, default=11, help="timed ones of each way")
    parser.add_argument("--device", help="Vulkan device of dressi's engines, by name or index")
    parser.add_argument("--out", type=Path, default=Path("out/nvdiffrast"))
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    given = parser.parse_args()
    try:
        modules, place = peers(given.only)
        with Device.open(given.device) as device:
            print(f"dressi on {device.name}, tensors on {place}; milliseconds a step")
            print(
                f"| faces, size, views | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 1)}", flush=True
            )
            rows = []
            for name in given.rows:
                scene = Scene.of(name, device)
                rows.append({**scene.facts, "ways": measured(scene, given, device, modules)})
                print(line(rows[-1]), flush=True)
            given.out.mkdir(parents=True, exist_ok=True)
            write_json(given.out / "steps.json", {"device": device.name, "tensors": place, "rows": rows})
    except InputError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
