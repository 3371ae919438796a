"""A texture that is a network: a hash grid and an MLP, evaluated at every pixel, trained from pictures of a mesh.

    python apps/pipelines/neural_texture.py --json out/neural_texture.json

Beside it an image of texels with as many numbers is trained in the same way. Both are judged by pictures of a painted pear from
twelve directions that neither has seen, as PSNR over the pixels of the mesh.
"""

import numpy as np
from pipeline_tools import options, report

from dressi import MAT4, VEC3, DressiAD, F, Variable, adam, networks, optim
from dressi.render import primitives, psnr, render
from dressi.render.cameras.views import held_out_ring, orbit

LEVELS, ENTRIES, COARSEST, FINEST, BATCH = 6, 2048, 8, 192, 4

given = options(__doc__, steps=400, size=96, seed=0, data=False)
random, size, mesh = np.random.default_rng(given.seed), (given.size, given.size), primitives.pear()
sphere = mesh.bounding_sphere()
views = orbit(*sphere, np.arange(24) * 360 / 24, np.tile([-30.0, 0.0, 30.0, 60.0], 6), size)
held = held_out_ring(*sphere, size)


def pictures(cameras):
    drawn = render(mesh, cameras, shader=lambda at: at.albedo, cull="back", samples=4)
    return np.asarray(drawn.colour) * np.asarray(drawn.mask)[..., None], np.asarray(drawn.mask)


targets, (truth, masks) = pictures(views)[0], pictures(held)
net = networks.parameters(
    {
        "grid": networks.hash_grid_init(random, LEVELS, ENTRIES),
        "mlp": networks.mlp_init(random, (2 * LEVELS, 32, 32, 3)),
    }
)
numbers = sum(v.data.size for v in networks.variables(net) if v.data is not None)
side = round((numbers / 3) ** 0.5)
texture = Variable(VEC3, (side, side), name="texture", data=np.full((1, side, side, 3), 0.5))


def network(at):
    features = networks.hash_grid(net["grid"], at.uv, COARSEST, FINEST)
    return F.from_channels(networks.mlp(net["mlp"], features, F.relu, F.sigmoid))


def trained(shader, parameters):
    """The pictures of the held-out views."""
    cameras = Variable.of(views.matrices[:BATCH], MAT4, batched=True, name="cameras")
    target = Variable(VEC3, size, BATCH, name="target")
    shown = render(mesh, cameras, size=size, shader=shader, cull="back")
    with DressiAD(given.device) as ad:
        ad.set_loss(F.mean(F.square(F.length((shown.colour - target) * shown.mask))))
        ad.set_output("colour", shown.colour * shown.mask)
        ad.set_optimizer(adam(optim.cosine(0.02, 0.0005, given.steps)), parameters)
        for _ in range(given.steps):
            some = random.permutation(len(targets))[:BATCH]
            ad.send_many({cameras: views.matrices[some][:, None, None], target: targets[some]})
            ad.step()
        found = []
        for first in range(0, len(held), BATCH):
            ad.send(cameras, held.matrices[first : first + BATCH][:, None, None])
            found.append(ad.recv("colour"))
    return np.clip(np.concatenate(found), 0, 1)


figures, rows = {"numbers": numbers, "texels_a_side": side}, [truth]
fits = {
    "network": (network, networks.variables(net)),
    "texels": (lambda at: F.sample(texture, at.uv), [texture]),
}
for name, fit in fits.items():
    rows.append(trained(*fit))
    figures[f"{name}_db"] = psnr(rows[-1], truth, masks > 0.999)
report(given, "neural_texture", figures, np.concatenate([np.concatenate(list(r[:4]), axis=1) for r in rows]))
