"""The position of a camera from a silhouette (after PyTorch3D's camera position optimisation).

python apps/samples/camera_position.py
"""

import numpy as np
from sample_tools import options, report

from dressi import VEC3, DressiAD, F, Variable, adam
from dressi.render import Camera, look_at, primitives, render, rigid

given = options(__doc__, steps=300, size=96)
mesh, true = primitives.bumpy_ellipsoid(3), np.array([1.5, 2.0, 3.0])
camera = Camera.perspective(45, given.size, true, (0, 0, 0))
target = render(mesh, camera, radius=0.08)
eye = Variable.of([3.0, 3.5, 1.0], VEC3, name="eye")
views = camera.with_view(rigid(*look_at(eye, (0.0, 0.0, 0.0))))
picture = render(mesh, views, radius=0.08)

with DressiAD(given.device) as ad:
    ad.set_loss(F.mean(F.square(picture.mask - target.mask)))
    ad.set_optimizer(adam(0.03), [eye])
    start = ad.evaluate(picture.colour)
    ad.step(given.steps)
    found = ad.recv(eye).reshape(3)
    figures = {
        "distance": np.linalg.norm(found - true),
        "relative": np.linalg.norm(found - true) / np.linalg.norm(true),
    }
    report(given, "camera_position", figures, start, target.colour, ad.evaluate(picture.colour))
