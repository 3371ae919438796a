"""A sphere takes the shape of a mesh from its silhouettes alone, by HardSoftRas with a radius that shrinks.

    python apps/silhouette_fitting.py --steps 150 --out out/silhouette_fitting

Without --target the mesh is a pear. Writes views.png (target, result, difference) and result.obj.
"""

import argparse
from pathlib import Path

import numpy as np

from dressi import Device, DressiAD
from dressi.ad.graph import Variable
from dressi.ad.graph.types import FLOAT, IVEC3, VEC3, list_values
from dressi.ad.optim import adam, cosine
from dressi.render.cameras.pose import matrices_leaf
from dressi.render.core.lists import list_leaf
from dressi.render.drawing.draw import compare
from dressi.render.fit import draw, mesh_dataset
from dressi.render.fit.data.learned import signed_distances
from dressi.render.formats import load_mesh, save_mesh
from dressi.render.forms.face import peeled_target
from dressi.render.forms.hard_soft_ras import hard_soft_ras
from dressi.render.io import save_png
from dressi.render.mesh.primitives import octasphere, pear
from dressi.render.objectives.losses import l2
from dressi.render.objectives.metrics import iou
from dressi.render.objectives.regularizers import adjacency, laplacian_loss
from dressi.render.surface.projection import to_clip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", type=Path, help="a mesh; a pear without it")
    parser.add_argument("--views", type=int, default=6)
    parser.add_argument("--size", type=int, default=64, help="pixels along each side of a view")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--device", help="Vulkan device, by name or index")
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    parser.add_argument("--out", type=Path, default=Path("out/silhouette_fitting"))
    arguments = parser.parse_args()

    target = pear() if arguments.target is None else load_mesh(arguments.target)
    size, steps = (arguments.size, arguments.size), arguments.steps
    with Device.open(arguments.device) as device:
        scene = mesh_dataset(target, arguments.views, size, lambda: DressiAD(device))
        sphere = octasphere(3, 0.5)

        # The graph: vertices -> clip space of every view -> soft silhouettes -> loss.
        position = list_leaf("position", VEC3, sphere.positions)
        radius = Variable(FLOAT, name="radius")
        outline = Variable(FLOAT, size, arguments.views, data=signed_distances(scene.train.masks, size))
        soft = hard_soft_ras(
            to_clip(position, matrices_leaf(scene.matrices)),
            list_leaf("faces", IVEC3, sphere.faces),
            size=size,
            radius=radius,
            face_count=len(sphere.faces),
        )
        smooth = laplacian_loss(position, adjacency(sphere.faces, len(sphere.positions)), "sum")
        loss = l2(soft.silhouette, peeled_target(outline, radius, 3)) + smooth * 0.005

        with DressiAD(device) as ad:
            ad.set_loss(loss)
            ad.set_optimizer(adam(cosine(0.02, 0.002, steps)), [position])
            for step in range(0, steps, 10):
                ad.send(radius, np.full((1, 1, 1), 0.1 * (2 / arguments.size / 0.1) ** (step / steps)))
                ad.step(min(10, steps - step))
            losses = ad.losses()
            moved = sphere.moved(list_values(ad.recv(position), len(sphere.positions))[0])

        result = scene.to_world(moved)
        masks, _ = draw(result, scene.train.cameras, lambda: DressiAD(device))
    arguments.out.mkdir(parents=True, exist_ok=True)
    save_mesh(arguments.out / "result.obj", result)
    white = np.ones(3)
    sheet = compare(scene.train.masks[..., None] * white, masks[..., None] * white)
    save_png(arguments.out / "views.png", sheet)
    print(
        f"loss {losses[0]:.6f} -> {losses[-1]:.6f}, IoU {iou(masks, scene.train.masks):.4f} in {steps} steps;"
        f" results are in '{arguments.out}'"
    )


if __name__ == "__main__":
    main()
