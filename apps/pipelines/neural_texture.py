"""A texture that is a network: a hash grid and an MLP, evaluated at every pixel, trained from pictures of a mesh.

    python apps/pipelines/neural_texture.py --json out/neural_texture.json --out out/neural_texture

Beside it an image of texels with as many numbers is trained in the same way. Both are judged by pictures from twelve directions
that neither has seen, as PSNR over the pixels of the mesh.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from dressi import MAT4, VEC3, DressiAD, F, Variable, adam, networks, optim
from dressi.render import load_mesh, primitives, psnr, render
from dressi.render.cameras.views import held_out_ring, orbit
from dressi.render.io import save_png

LEVELS, ENTRIES, COARSEST, FINEST = 6, 2048, 8, 192


def network_shader(net):
    def shade(at):
        features = networks.hash_grid(net["grid"], at.uv, COARSEST, FINEST)
        return F.from_channels(networks.mlp(net["mlp"], features, F.relu, F.sigmoid))

    return shade


def train(shader, parameters, mesh, views, targets, steps, batch, device):
    """The pictures of the held-out views, after ``steps`` steps of ``batch`` views in turns."""
    size = views.size
    cameras = Variable.of(views.matrices[:batch], MAT4, batched=True, name="cameras")
    target = Variable(VEC3, size, batch, name="target")
    shown = render(mesh, cameras, size=size, shader=shader, cull="back")

    loss = F.mean(F.square(F.length((shown.colour - target) * shown.mask)))
    order = np.random.default_rng(0).permuted(np.tile(np.arange(len(targets)), (steps, 1)), axis=1)[:, :batch]
    with DressiAD(device) as ad:
        ad.set_loss(loss)
        ad.set_output("colour", shown.colour * shown.mask)
        ad.set_optimizer(adam(optim.cosine(0.02, 0.0005, steps)), parameters)
        for chosen in order:
            ad.send_many({cameras: views.matrices[chosen][:, None, None], target: targets[chosen]})
            ad.step()
        held, found = held_out_ring(*mesh.bounding_sphere(), size), []
        for first in range(0, len(held), batch):
            ad.send(cameras, held.matrices[first : first + batch][:, None, None])
            found.append(ad.recv("colour"))
    return np.concatenate(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mesh", type=Path, help="with a texture; a painted pear without it")
    parser.add_argument("--size", type=int, default=96, help="pixels along each side")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--device")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    mesh = primitives.pear() if arguments.mesh is None else load_mesh(arguments.mesh)
    size, sphere = (arguments.size, arguments.size), mesh.bounding_sphere()
    views = orbit(*sphere, np.arange(24) * 360 / 24, np.tile([-30.0, 0.0, 30.0, 60.0], 6), size)

    def pictures(cameras):
        drawn = render(mesh, cameras, shader=lambda at: at.albedo, cull="back", samples=4)
        return np.asarray(drawn.colour) * np.asarray(drawn.mask)[..., None], np.asarray(drawn.mask)

    targets, (truth, masks) = pictures(views)[0], pictures(held_out_ring(*sphere, size))
    rng = np.random.default_rng(0)
    tree = {
        "grid": networks.hash_grid_init(rng, LEVELS, ENTRIES),
        "mlp": networks.mlp_init(rng, (2 * LEVELS, 32, 32, 3)),
    }
    net = networks.parameters(tree)
    numbers = sum(array.size for array in networks.flat(tree).values())
    side = round((numbers / 3) ** 0.5)
    texture = Variable(VEC3, (side, side), name="texture", data=np.full((1, side, side, 3), 0.5))
    fits = {
        "network": (network_shader(net), networks.variables(net)),
        "texels": (lambda at: F.sample(texture, at.uv), [texture]),
    }
    report = {"numbers": numbers, "texels along each side": side, "steps": arguments.steps, "PSNR": {}}
    rows = [truth]
    for name, (shader, parameters) in fits.items():
        found = train(shader, parameters, mesh, views, targets, arguments.steps, 4, arguments.device)
        report["PSNR"][name] = round(psnr(np.clip(found, 0, 1), truth, masks > 0.999), 2)
        rows.append(np.clip(found, 0, 1))
        print(name, report["PSNR"][name], "dB", flush=True)
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
        save_png(
            arguments.out / "neural_texture.png",
            np.concatenate([np.concatenate(list(r[:4]), axis=1) for r in rows]),
        )
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
