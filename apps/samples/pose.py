"""The pose of a cube from one picture, by quaternions: the best of sixteen starts (after nvdiffrast's pose).

python apps/samples/pose.py
"""

import numpy as np
from sample_tools import options, report

from dressi import DressiAD, F, Variable, adam
from dressi.render import Camera, primitives, quaternion_to_matrix, render, rigid

given = options(__doc__, steps=200, size=64, seed=0)
random, starts = np.random.default_rng(given.seed), 16
cube, colours = primitives.cube(), np.eye(8)[:, :3] + np.eye(8)[:, 3:6] * 0.5
true = random.normal(size=4)
true /= np.linalg.norm(true)
camera = Camera.perspective(45, given.size, (0, 0, 5), (0, 0, 0))
turn = Variable.of(random.normal(size=(starts, 1, 1, 4)), name="quaternion")
look = {"cameras": camera, "colours": colours, "light": None, "radius": 0.05}
target = render(cube, to_world=rigid(quaternion_to_matrix(true), [0, 0, 0]), **look)
# One tile a start: they are drawn together, and each has a loss of its own.
picture = render(cube, to_world=rigid(quaternion_to_matrix(turn), (0.0, 0.0, 0.0)), **look)
losses = F.mean(F.square(F.length(picture.colour - Variable.of(target.colour))), "xy")

with DressiAD(given.device) as ad:
    ad.set_loss(F.sum(losses))
    ad.set_optimizer(adam(0.03), [turn])
    ad.step(given.steps)
    best = int(np.argmin(ad.evaluate(losses)))
    found = ad.recv(turn)[best, 0, 0]
    cosine = abs(found @ true) / np.linalg.norm(found)
    figures = {"angle_degrees": np.degrees(2 * np.arccos(min(cosine, 1)))}
    report(given, "pose", figures, target.colour, ad.evaluate(picture.colour)[best])
