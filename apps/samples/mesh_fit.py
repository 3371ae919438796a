"""A sphere becomes another shape from its silhouettes (after PyTorch3D's fit of a mesh).

python apps/samples/mesh_fit.py
"""

import numpy as np
from sample_tools import options, report

from dressi import DressiAD, F, Variable, adam
from dressi.render import adjacency, chamfer, edge_length_loss, iou, laplacian_loss, primitives, render, ring

given = options(__doc__, steps=300, size=96)
# A body with a tail that bends: long, thin at one end.
goal = primitives.octasphere(4, 0.5)
x, y, z = goal.positions.T
goal = goal.moved(np.stack([2.2 * x, y * (0.7 - 0.6 * x) + 0.8 * x * x, z * (0.6 - 0.5 * x)], axis=-1))
sphere = primitives.octasphere(3, 0.5)
cameras = ring(np.zeros(3), 1.2, 12, given.size)

positions = Variable.of(sphere.positions, name="positions")
radius = Variable.of(0.15, name="radius")
picture = render(sphere, cameras, positions=positions, radius=radius)
target = render(goal, cameras)
neighbours = adjacency(sphere.faces, len(sphere.positions))
smooth = 10 * laplacian_loss(positions, neighbours) + 0.05 * edge_length_loss(positions, neighbours)
loss = F.mean(F.square(picture.mask - picture.soft_target(target.mask))) + smooth

with DressiAD(given.device) as ad:
    ad.set_loss(loss)
    ad.set_optimizer(adam(0.01), [positions])
    for share in (0.15, 0.08, 0.04):
        ad.send(radius, share)
        ad.step(given.steps // 3)
    found = render(sphere.moved(ad.recv(positions)), cameras)
    figures = {
        "iou": iou(found.mask, target.mask),
        "chamfer": chamfer(sphere.moved(ad.recv(positions)), goal),
    }
    report(given, "mesh_fit", figures, target.colour, found.colour)
