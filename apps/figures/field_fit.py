"""A ball becomes a torus, or a mug with a handle, from twelve pictures: its field changes, and holes open by gradients.

    python apps/figures/field_fit.py --out out/field
    python apps/figures/field_fit.py --shape mug --points 40 --steps 200 --out out/field

Masks act on the field along the rays of their pixels, and on the outline of its mesh; colours, of which vertices have one for each place
of the grid, act on the mesh. Writes SHAPE.png: in each row four views, of the pictures, after a few steps, in the middle, and at the end;
SHAPE.ply, the mesh; and field_fit.json: chamfer distance in grid steps, IoU of the masks, and the Euler characteristic, 0 for one hole.
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter

from dressi import FLOAT, VEC3, Device, DressiAD, F, Variable, adam, optim, per_parameter
from dressi.render import Camera, Mesh, chamfer, covered, hard_soft_ras, iou, render, save_mesh, to_clip
from dressi.render.cameras import Cameras
from dressi.render.fields import Isosurface, Rays, eikonal_loss, ray_loss, roughness_loss, sample_field
from dressi.render.forms.soft_target import falloff, outside_distance
from dressi.render.io import save_image, write_json
from dressi.render.mesh.remesh.volume import Grid, level_set

VIEWS, EVERY = 12, 5
"""Pictures, and steps between two searches for the faces of the field."""


def shape(name: str) -> Mesh:
    """The target, within [-1, 1]."""
    grid = Grid(np.full(3, -1.0), 2 / 127, (128, 128, 128))
    x, y, z = np.moveaxis(grid.points(), -1, 0)
    if name == "torus":
        field = 0.25 - np.hypot(np.hypot(x, y) - 0.55, z)
    else:
        around = np.hypot(x, z)
        handle = 0.09 - np.hypot(np.hypot(x - 0.45, y) - 0.3, z)
        outside = np.maximum(np.minimum(0.42 - around, 0.6 - abs(y)), handle)
        field = np.minimum(outside, -np.minimum(0.32 - around, y + 0.45))
    return level_set(gaussian_filter(field, 0.7), grid, least=0)


def cameras(size: int) -> Cameras:
    """All around, on a spiral."""
    k = np.arange(VIEWS)
    height, turn = 1 - (2 * k + 1) / VIEWS, 2.4 * k
    flat = np.sqrt(1 - height**2)
    eyes = 3.2 * np.stack([flat * np.cos(turn), height, flat * np.sin(turn)], axis=1)
    return Cameras([Camera.perspective(40, (size, size), tuple(eye), (0, 0, 0)) for eye in eyes])


def fit(target: Mesh, views: Cameras, points: int, steps: int, device: Device) -> list[Mesh]:
    """The meshes after every ``EVERY`` steps."""
    look = 0.5 + 0.5 * target.positions / abs(target.positions).max()
    seen = render(target, views, colours=look, light=None)
    masks, colours = np.asarray(seen.mask), np.asarray(seen.colour)
    size = views[0].size
    grid = Grid(np.full(3, -1.0), 2 / (points - 1), (points, points, points))
    ball = 0.6 - np.linalg.norm(grid.points(), axis=-1)
    surface, counter = Isosurface(grid, ball, faces=16 * points**2), optim.clock()
    values = surface.leaf(ball)
    shades = Variable.of(np.full((points**3, 3), 0.5), name="colours")
    position = surface.position(values)
    # Rays of every other pixel, moved along by a random part of a step of the grid.
    coarse = masks.reshape(VIEWS, size[1] // 2, 2, size[0] // 2, 2).mean((2, 4))
    rays = Rays.of([camera.resized((size[0] // 2, size[1] // 2)).rays() for camera in views])
    deepest = rays.deepest(values, grid, shift=F.random(0, counter, (1, 1)))
    loss = ray_loss(deepest, Variable.of(coarse, FLOAT, batched=True), width=0.5 * grid.step)
    loss = loss + eikonal_loss(values, grid) * 0.1 + roughness_loss(values, grid) * 0.3
    radius = Variable.of(0.08, name="radius")
    drawn = hard_soft_ras(
        to_clip(position, views.matrices), surface.faces, size=size, face_count=surface.face_count,
        form="outer", radius=radius, edges=surface.edges,
    )  # fmt: skip
    away = np.stack([np.asarray(outside_distance(mask)) for mask in masks])
    outline = drawn.silhouette - falloff(Variable.of(away, FLOAT, batched=True), radius)
    shown = drawn.seen.interpolate(sample_field(shades, grid, position))
    error = F.select(covered(drawn.mesh.face), shown - Variable.of(colours, VEC3, batched=True), 0.0)
    inside = Variable.of(masks, FLOAT, batched=True)
    loss = loss + F.mean(F.square(outline)) * 3.0 + F.mean(F.dot(error, error) * inside) * 8.0
    rates = {values: adam(optim.cosine(0.015, 0.004, steps)), shades: adam(0.02)}
    meshes = []
    with DressiAD(device) as ad:
        ad.set_loss(loss)
        ad.set_optimizer(optim.Clocked(per_parameter(rates), counter), list(rates))
        for done in range(0, steps, EVERY):
            ad.send(radius, max(0.08 * (1 - done / steps), 0.03))
            ad.step(EVERY)
            now = ad.recv(values)
            for leaf, data in surface.data(now, loss).items():
                ad.send(leaf, data)
            meshes.append(surface.mesh(now))
    return meshes


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", choices=["torus", "mug"], default="torus")
    parser.add_argument("--points", type=int, default=32, help="of the grid along each side")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--size", type=int, default=96, help="pixels along each side")
    parser.add_argument("--device", default=None)
    parser.add_argument("--headless", action="store_true", help="no window is ever opened")
    parser.add_argument("--out", type=Path, default=Path("out/field"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    target, views = shape(args.shape), cameras(args.size)
    with Device.open(args.device) as device:
        meshes = fit(target, views, args.points, args.steps, device)
    last, step = meshes[-1], 2 / (args.points - 1)
    rows = [target, meshes[min(2, len(meshes) - 1)], meshes[len(meshes) // 4], last]
    few = Cameras(list(views)[:4])
    pictures = [np.concatenate(list(np.asarray(render(mesh, few).colour)), axis=1) for mesh in rows]
    save_image(args.out / f"{args.shape}.png", np.concatenate(pictures))
    save_mesh(args.out / f"{args.shape}.ply", last)
    result = {
        "chamfer, grid steps": float(chamfer(last, target)) / step,
        "IoU": float(iou(np.asarray(render(last, views).mask), np.asarray(render(target, views).mask))),
        "Euler characteristic": last.euler_characteristic(),
    }
    write_json(args.out / "field_fit.json", {"shape": args.shape, "steps": args.steps, **result})
    print(", ".join(f"{name} {value:.4g}" for name, value in result.items()))


if __name__ == "__main__":
    main()
