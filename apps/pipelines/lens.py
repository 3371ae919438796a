"""Lens design: an achromatic triplet by the size of its spots over field and wavelength, traced ray by ray, and then made shorter
without larger spots.

python apps/pipelines/lens.py
"""

import numpy as np
from pipeline_tools import dots, options, report

from dressi import FLOAT, DressiAD, F, LevenbergMarquardt, Variable, adam

given = options(__doc__, steps=1500, size=12, data=False, quick=500)
focal, aperture = 100.0, 12.0  # millimetres: f/4.2
fields, lines = np.radians([0.0, 7.0, 10.0]), np.array([0.4861, 0.5876, 0.6563])  # blue, yellow and red
# Cooke's triplet, roughly: curvatures (1/mm), the ways to the next surface, glasses as (refraction at yellow, Abbe number).
CURVATURES = np.array([0.025, 0.0, -0.02, 0.025, 0.004, -0.022])
WAYS = np.array([5.0, 10.0, 2.0, 10.0, 5.0, 80.0])
GLASSES = [(1.62, 60.3), (1.0, 0), (1.62, 36.4), (1.0, 0), (1.62, 60.3), (1.0, 0)]

# A tile for each field and wavelength; its texels are the rays of the pupil, the unit disk.
v, u = np.mgrid[-1 : 1 : given.size * 1j, -1 : 1 : given.size * 1j]
passes = u**2 + v**2 <= 1.0  # of the rays, those inside the pupil
inside = Variable.of(np.float64(passes), FLOAT)
angle = Variable.of(np.repeat(fields, 3).reshape(-1, 1, 1), FLOAT, batched=True)
curvature = Variable.of(CURVATURES * 100, FLOAT, name="curvature")  # in 1 / 100 mm: all numbers are about 1
way = Variable.of(WAYS[:-1] / 10, FLOAT, name="way")
back = Variable.of(WAYS[-1:] / 10, FLOAT, name="back")  # from the last surface to the image


def index(glass: tuple[float, float]) -> np.ndarray:
    """For each tile: Cauchy's formula through the refraction at yellow and the Abbe number."""
    b = (glass[0] - 1) / glass[1] / (lines[0] ** -2 - lines[2] ** -2) if glass[1] else 0.0
    return np.tile(glass[0] + b * (lines**-2 - lines[1] ** -2), 3)


def spots() -> Variable:
    """VEC2: where rays meet the image plane, from their ideal points."""
    direction = F.vec3(F.sin(angle), 0.0, F.cos(angle))
    x, y = (Variable.of(aperture * w, FLOAT) for w in (u, v))
    # Rays start in the plane of the first vertex, tilted so that the stop lies at the middle glass.
    place, before = F.vec3(x - 16.0 * F.tan(angle), y + 0.0 * angle, 0.0), np.ones(9)
    for k, glass in enumerate(GLASSES):
        c, after = F.lookup(curvature, k) * 0.01, index(glass)
        # The sphere c |p|^2 = 2 p.z: the nearer of its two points, as a quotient that plane surfaces do not break.
        half = direction.z - c * F.dot(place, direction)
        rest = c * F.dot(place, place) - 2.0 * place.z
        place = place + direction * (rest / (half + F.sqrt(F.maximum(half * half - c * rest, 1e-6))))
        normal = F.vec3(-c * place.x, -c * place.y, 1.0 - c * place.z)
        ratio = Variable.of((before / after).reshape(-1, 1, 1), FLOAT, batched=True)
        cosine = F.dot(normal, direction)
        bent = F.sqrt(F.maximum(1.0 - ratio * ratio * (1.0 - cosine * cosine), 1e-6))
        direction = ratio * direction + (bent - ratio * cosine) * normal
        place, before = place - F.vec3(0.0, 0.0, 10.0 * (F.lookup(way, k) if k < 5 else back)), after
    place = place - direction * (place.z / direction.z)
    return place.xy - F.vec2(focal * F.tan(angle), 0.0)


at = spots()
squares = F.sum(F.dot(at, at) * inside, "xy") / F.sum(inside)  # of each field and wavelength
# Shorter, in small steps that Levenberg and Marquardt's method follows: first-order steps leave so narrow a valley. Glasses keep
# 2 mm, and gaps half a millimetre.
length, goal = F.sum(way) + back, Variable.of([0.0], FLOAT, name="goal")  # in 10 mm
thin = F.maximum(Variable.of([0.2, 0.05, 0.2, 0.05, 0.2], FLOAT) - way, 0.0)
shorter = [at * inside, 3.0 * (length - goal), 10.0 * thin]


def sizes(found: np.ndarray) -> np.ndarray:
    """Of each field, in mm: rays of all lines from their middle, root of the mean square."""
    rays = found.reshape(3, 3, -1, 2)[:, :, np.ravel(passes)].reshape(3, -1, 2)
    return np.sqrt(np.square(rays - rays.mean(1, keepdims=True)).sum(-1).mean(1))


with DressiAD(given.device) as ad:
    ad.set_loss(F.mean(squares))
    ad.set_optimizer(adam(0.05), [back])
    ad.step(given.steps // 2)  # the start, moved to where the image plane suits it best
    first = ad.evaluate(at)
    for rate in (0.01, 0.003, 0.001):
        ad.set_optimizer(adam(rate), [curvature, way, back], keep_state=True)
        ad.step(given.steps)
    last, long = ad.evaluate(at), ad.evaluate(length).item()
    before, after = sizes(first), sizes(last)
    ad.set_loss(shorter)
    ad.set_optimizer(LevenbergMarquardt(), [curvature, way, back])
    squeezed, short = long, after
    for part in 1 - 0.02 * np.arange(20):
        ad.send(goal, [part * long])
        ad.step(max(given.steps // 100, 5))
        now = sizes(ad.evaluate(at))
        if now.mean() > after.mean():
            break
        squeezed, short = ad.evaluate(length).item(), now
    figures = {"start_mm": before.mean(), "found_mm": after.mean(), "times": before.mean() / after.mean()}
    figures |= {"length_mm": 10 * long, "shorter_mm": 10 * squeezed, "found_shorter_mm": short.mean()}
    figures |= {f"field_{k}_shorter_times": short[k] / after[k] for k in range(3)}
    figures |= {f"field_{k}_times": before[k] / after[k] for k in range(3)}
    pictures = [dots(p, np.ravel(passes), by) for p, by in ((first, 3.0), (last, 3.0), (last, 0.1))]
    report(given, "lens", figures, *pictures)
