"""The texture of a globe from random pictures of it (after nvdiffrast's earth).

python apps/samples/earth.py
"""

import numpy as np
from sample_tools import options, report

from dressi import DressiAD, F, Variable, adam
from dressi.render import look_at, primitives, projection_from_fov, render, rigid

given = options(__doc__, steps=200, size=128, seed=0)
random, count, texels = np.random.default_rng(given.seed), 6, 64
x, y = np.meshgrid(np.arange(texels) / texels, np.arange(texels) / texels)
land = np.sin(9 * x + 5 * np.sin(7 * y)) + np.cos(11 * y - 4 * np.cos(8 * x))
true = (
    np.where(land[..., None] > 0.2, (0.2, 0.5, 0.1), (0.02, 0.1, 0.5))
    * (0.6 + 0.4 * np.sin(30 * x * y))[..., None]
)

globe = primitives.octasphere(4)
eyes = Variable.of(np.zeros((count, 1, 1, 3)) + (0.0, 0.0, 3.0), name="eyes")
cameras = projection_from_fov(45, given.size, 0.5, 10) @ rigid(*look_at(eyes, (0.0, 0.0, 0.0)))
texture = Variable.of(np.full(true.shape, 0.3), name="texture")
look = {"cameras": cameras, "size": given.size, "light": None, "form": "hard"}
target, picture = render(globe, texture=true, **look), render(globe, texture=texture, **look)

with DressiAD(given.device) as ad:
    ad.set_loss(F.mean(F.square(F.length(picture.colour - target.colour))))
    ad.set_optimizer(adam(0.03), [texture])
    for _ in range(given.steps):
        directions = random.normal(size=(count, 1, 1, 3))
        ad.send(eyes, 3 * directions / np.linalg.norm(directions, axis=-1, keepdims=True))
        ad.step()
    found = ad.recv(texture)[0]
    error = np.mean((found - true) ** 2)
    figures = {"texture_psnr": -10 * np.log10(error)}
    report(given, "earth", figures, ad.evaluate(target.colour), ad.evaluate(picture.colour), true, found)
