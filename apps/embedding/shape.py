"""What the examples of this folder optimise: a sphere becomes a pear, from silhouettes."""

import argparse

from dressi import Device, DressiAD, F, Variable
from dressi.render import adjacency, large_steps, primitives, render, ring
from dressi.viewer import EngineSession


def options(doc: str | None, *, device: bool = True) -> argparse.Namespace:
    """--steps, and --device unless the script opens its own."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    if device:
        parser.add_argument("--device", help="Vulkan device, by name or index")
    parser.add_argument("--steps", type=int, default=400, help="of the optimisation")
    return parser.parse_args()


def fitting(device: Device | str | None = None, steps: int = 400) -> tuple[DressiAD, EngineSession]:
    """The optimisation, and what the viewer shows of it."""
    mesh, cameras = primitives.octasphere(3, 0.6), ring((0, 0, 0), 1.0, 6, (96, 96))
    wanted = render(primitives.pear(), cameras).mask
    positions = Variable.of(mesh.positions, name="positions")
    seen = render(mesh, cameras, positions=positions)
    engine = DressiAD(device)
    engine.set_loss(F.mean(F.square(seen.mask - seen.soft_target(wanted))))
    engine.set_optimizer(large_steps(adjacency(mesh.faces, len(mesh.positions)), 0.02), [positions])
    return engine, EngineSession(engine, positions=positions, faces=mesh.faces, steps=steps, title="a pear")
