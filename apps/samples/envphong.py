"""Recovers an environment map and Phong terms from pictures of a mirror with a highlight (after nvdiffrast's envphong).

python apps/samples/envphong.py
"""

import numpy as np
from sample_tools import options, report

from dressi import DressiAD, F, Variable, adam
from dressi.render import primitives, render, ring

given = options(__doc__, steps=300, size=96, seed=0)
u, v = np.meshgrid((np.arange(32) + 0.5) / 32, (np.arange(16) + 0.5) / 16)
waves = [0.5 + 0.4 * np.sin(6 * np.pi * u), 0.6 * v, 0.5 + 0.4 * np.cos(4 * np.pi * u + 5 * v)]
sky = np.stack(waves, axis=-1)  # equirectangular
# A different light in every view separates the highlight from the environment.
lights = Variable.of(np.random.default_rng(given.seed).normal(size=(8, 1, 1, 3)), name="lights")
sphere, cameras = primitives.octasphere(4), ring(np.zeros(3), 1.0, 8, given.size)


def mirror(environment, strength, power):
    def shade(point):
        away = F.reflect(-point.to_eye, point.normal)
        height = F.acos(F.clamp(away.y, -0.999, 0.999)) / np.pi
        cosine = F.maximum(F.dot(away, F.normalize(lights)), 1e-4)
        seen = F.sample(environment, F.vec2(F.atan2(away.x, away.z) / (2 * np.pi) + 0.5, height))
        return seen + strength * F.exp(F.log(cosine) * F.exp(power))

    return shade


environment = Variable.of(np.full(sky.shape, 0.5), name="environment")
strength, power = Variable.of(0.2, name="strength"), Variable.of(1.5, name="power")
target = render(sphere, cameras, shader=mirror(Variable.of(sky), 0.6, np.log(20.0))).colour
picture = render(sphere, cameras, shader=mirror(environment, strength, power)).colour

with DressiAD(given.device) as ad:
    ad.set_loss(F.mean(F.square(F.length(picture - target))))
    ad.set_optimizer(adam(0.03), [environment, strength, power])
    ad.step(given.steps)
    found, exponent = ad.recv(environment)[0], np.exp(ad.recv(power))
    psnr = -10 * np.log10(np.mean((found - sky) ** 2))
    figures = {"environment_psnr": psnr, "strength": ad.recv(strength), "exponent": exponent}
    report(given, "envphong", figures, ad.evaluate(target), ad.evaluate(picture), sky, found)
