"""A BRDF of one's own, GGX microfacets: roughness and colour from pictures under four lights.

python apps/samples/custom_brdf.py
"""

import numpy as np
from sample_tools import options, report

from dressi import VEC3, DressiAD, F, Variable, adam
from dressi.render import Camera, primitives, render

given = options(__doc__, steps=300, size=96)
lights = Variable.of(
    np.array([[1, 1, 2], [-1, 0.5, 1], [0, -1, 1.5], [0.2, 2, 0.5]])[:, None, None], name="lights"
)
camera = Camera.perspective(40, given.size, (0, 0, 3.5), (0, 0, 0))


def ggx(colour, roughness):
    """A metal: the distribution of GGX, Smith's shadowing and Schlick's Fresnel (Cook and Torrance)."""

    def shade(point):
        n, v, towards = point.normal, point.to_eye, F.normalize(lights)
        h, a = F.normalize(v + towards), F.square(F.square(roughness))
        nl, nv, nh = (F.maximum(F.dot(n, d), 1e-4) for d in (towards, v, h))
        spread = F.square(F.square(nh) * (a - 1.0) + 1.0) * np.pi
        fresnel = colour + (1.0 - colour) * (1.0 - F.maximum(F.dot(v, h), 0.0)) ** 5
        shadow = 2.0 * nl * nv / (nl * F.sqrt(a + (1.0 - a) * nv * nv) + nv * F.sqrt(a + (1.0 - a) * nl * nl))
        return a * fresnel * shadow / (spread * 4.0 * nv) * 3.0

    return shade


colour, roughness = Variable.of([0.5, 0.5, 0.5], VEC3, name="colour"), Variable.of(0.7, name="roughness")
mesh = primitives.bumpy_ellipsoid(3)
target = render(mesh, camera, shader=ggx(F.constant((0.7, 0.3, 0.1)), F.constant(0.35))).colour
picture = render(mesh, camera, shader=ggx(colour, roughness)).colour

with DressiAD(given.device) as ad:
    ad.set_loss(F.mean(F.square(F.length(picture - target))))
    ad.set_optimizer(adam(0.01), [colour, roughness])
    ad.step(given.steps)
    error = np.abs(ad.recv(colour).reshape(3) - (0.7, 0.3, 0.1)).max()
    figures = {"colour_error": error, "roughness": ad.recv(roughness)}
    report(given, "custom_brdf", figures, ad.evaluate(target), ad.evaluate(picture))
