"""A triangle with a colour at each corner finds the corners of another one (after nvdiffrast's triangle).

python apps/samples/triangle.py
"""

import numpy as np
from sample_tools import options, report

from dressi import VEC3, DressiAD, F, Variable, adam
from dressi.render import render

given = options(__doc__, steps=200, size=64)
faces, colours = np.array([[0, 1, 2]]), np.eye(3)
goal = np.array([[-0.7, 0.6, 0.5], [0.8, 0.5, 0.5], [0.1, -0.8, 0.5]])
# Positions are in clip space: x to the right, y down, both in [-1, 1].
look = {"cameras": np.eye(4), "size": given.size, "light": None, "radius": 0.1}
target = render((goal, faces), colours=colours, **look)
corners = Variable.of([[-0.3, 0.3, 0.5], [0.3, 0.3, 0.5], [0.0, -0.3, 0.5]], VEC3, name="corners")
picture = render((corners, faces), colours=colours, **look)

with DressiAD(given.device) as ad:
    ad.set_loss(F.mean(F.square(F.length(picture.colour - target.colour))))
    ad.set_optimizer(adam(0.02), [corners])
    ad.step(given.steps)
    found = ad.recv(corners)
    away = np.linalg.norm((found - goal)[:, :2], axis=1) * given.size[0] / 2
    report(given, "triangle", {"corner_error_pixels": away.max()}, target.colour, ad.evaluate(picture.colour))
