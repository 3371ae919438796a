"""Recovers the corners and colours of a cube from random low-resolution pictures (after nvdiffrast's cube).

python apps/samples/cube.py
"""

import numpy as np
from sample_tools import options, report

from dressi import DressiAD, F, Variable, adam
from dressi.render import look_at, primitives, projection_from_fov, render, rigid

given = options(__doc__, steps=400, size=16, seed=0)
random, count = np.random.default_rng(given.seed), 8
cube = primitives.cube(0.5)
true = 0.5 + cube.positions
# Every step sees eight new views; the target is drawn in the same graph.
eyes = Variable.of(np.zeros((count, 1, 1, 3)) + (0.0, 0.0, 3.0), name="eyes")
cameras = projection_from_fov(45, given.size, 0.5, 10) @ rigid(*look_at(eyes, (0.0, 0.0, 0.0)))
corners = Variable.of(cube.positions + random.uniform(-0.25, 0.25, cube.positions.shape), name="corners")
colours = Variable.of(random.uniform(0, 1, true.shape), name="colours")
look = {"cameras": cameras, "size": given.size, "light": None, "radius": 0.1}
target = render(cube, colours=true, **look)
picture = render(cube, positions=corners, colours=colours, **look)


def away() -> float:
    return np.linalg.norm(ad.recv(corners) - cube.positions, axis=1).mean()


with DressiAD(given.device) as ad:
    ad.set_loss(F.mean(F.square(F.length(picture.colour - target.colour))))
    ad.set_optimizer(adam(0.01), [corners, colours])
    start = away()
    for _ in range(given.steps):
        directions = random.normal(size=(count, 1, 1, 3))
        ad.send(eyes, 3 * directions / np.linalg.norm(directions, axis=-1, keepdims=True))
        ad.step()
    figures = {
        "start_error": start,
        "geometry_error": away(),
        "colour_error": np.abs(ad.recv(colours) - true).mean(),
    }
    report(given, "cube", figures, ad.evaluate(target.colour), ad.evaluate(picture.colour))
