"""An implicit surface with its principal curvatures at every pixel, from the Hessian there.

    python apps/derivatives/curvature.py --out out/curvature --json out/curvature.json

A ray a pixel is marched and then refined by Newton's method; the gradient and the Hessian of the implicit function at the hit
give the shape operator, whose eigenvalues are the principal curvatures. They are compared with the closed form of a torus,
and drawn for a surface of two tori that are blended. Everything is one graph of Functions of one texel.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

from dressi import VEC3, DressiAD, F, Variable
from dressi.ad.expressions.count import fewest
from dressi.render.io import save_image, write_json

Implicit = Callable[[Variable], Variable]
EYE, FAR, STEPS, REFINED = (0.6, 1.5, 2.5), 4.5, 64, 4
MAJOR, MINOR, SOFT = 0.8, 0.35, 0.09


def torus(p: Variable, major: float = MAJOR, minor: float = MINOR) -> Variable:
    """The distance of a torus about the y axis."""
    ring = F.sqrt(F.square(p.x) + F.square(p.z)) - major
    return F.sqrt(F.square(ring) + F.square(p.y)) - minor


def blended(p: Variable) -> Variable:
    """Two linked tori with a soft union."""
    first = torus(p + F.constant((0.35, 0.0, 0.0)), 0.62, 0.2)
    second = torus(F.vec3(p.x - 0.35, p.z, p.y), 0.62, 0.2)
    return -SOFT * F.log(F.exp(first * (-1.0 / SOFT)) + F.exp(second * (-1.0 / SOFT)))


def rays(size: int) -> tuple[np.ndarray, np.ndarray]:
    """The eye, and the direction of each pixel, (size, size, 3)."""
    eye = np.array(EYE)
    forward = -eye / np.linalg.norm(eye)
    right = np.cross(forward, (0.0, 1.0, 0.0))
    right /= np.linalg.norm(right)
    up = np.cross(right, forward)
    x = (np.arange(size) + 0.5) / size * 2.0 - 1.0
    directions = forward + 0.5 * (x[None, :, None] * right - x[:, None, None] * up)
    return eye, directions / np.linalg.norm(directions, axis=-1, keepdims=True)


def hit(surface: Implicit, eye: np.ndarray, direction: Variable) -> tuple[Variable, Variable]:
    """Where each ray meets the surface, and a mask of the rays that do."""

    def at(t: Variable) -> Variable:
        return F.constant(tuple(eye)) + direction * t

    t = F.constant(0.8) + 0.0 * direction.x
    for _ in range(STEPS):
        t = F.minimum(t + 0.8 * F.maximum(surface(at(t)), 0.0), FAR)
    for _ in range(REFINED):
        p = at(t)
        ((slope,),) = F.jacobian(surface(p), p)
        along = F.dot(slope, direction)
        t = t - F.select(F.abs(along) > 0.05, surface(p) / along, 0.0)
    p = at(t)
    return p, (F.abs(surface(p)) < 1e-3) * (t < FAR - 0.1)


def curvatures(surface: Implicit, p: Variable) -> tuple[Variable, Variable, Variable]:
    """(unit normal, larger and smaller principal curvature) of the level set through each point.

    The mean curvature is (|g|^2 tr H - g^T H g) / 2|g|^3 and the Gaussian one g^T adj(H) g / |g|^4, with gradient g and
    Hessian H.
    """
    f = surface(p)
    ((g,),) = F.jacobian(f, p)
    rows = [row[0] for row in F.hessian(f, p)]
    norm = F.length(g)
    trace = rows[0].x + rows[1].y + rows[2].z
    hg = F.vec3(*(F.dot(row, g) for row in rows))
    mean = (F.square(norm) * trace - F.dot(g, hg)) / (2.0 * norm * norm * norm)
    adjoint = [F.cross(rows[1], rows[2]), F.cross(rows[2], rows[0]), F.cross(rows[0], rows[1])]
    gauss = F.dot(g, F.vec3(*(F.dot(a, g) for a in adjoint))) / F.square(F.square(norm))
    root = F.sqrt(F.maximum(F.square(mean) - gauss, 0.0))
    return g / norm, mean + root, mean - root


def picture(surface: Implicit, size: int) -> dict[str, np.ndarray]:
    """Values of the pixels by name."""
    eye, directions = rays(size)
    direction = Variable.of(directions, VEC3)
    p, seen = hit(surface, eye, direction)
    # The curvatures are those at the point; how it depends on the ray is no part of them.
    at = F.stop_gradient(p)
    normal, larger, smaller = curvatures(surface, at)
    outputs = {"p": p, "seen": seen, "normal": normal, "larger": larger, "smaller": smaller}
    with DressiAD() as ad:
        for name, v in outputs.items():
            ad.set_output(name, v)
        return {name: ad.recv(name)[0] for name in outputs}


def operations(surface: Implicit) -> dict[str, int]:
    """Of a texel: the function, and everything up to the curvatures."""
    p = Variable(VEC3, name="p")
    return {"function": fewest([surface(p)]).total, "curvatures": fewest(list(curvatures(surface, p))).total}


def coloured(value: np.ndarray, seen: np.ndarray, shade: np.ndarray, limit: float) -> np.ndarray:
    """Blue for negative, white for zero, red for positive curvature, shaded."""
    t = np.clip(value / limit, -1.0, 1.0)[..., None]
    red, blue = np.array((0.75, 0.1, 0.1)), np.array((0.1, 0.2, 0.75))
    colour = np.where(t > 0, 1.0 + t * (red - 1.0), 1.0 - t * (blue - 1.0))
    return np.where(seen[..., None] > 0.5, colour * shade[..., None], 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out/curvature"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--size", type=int, default=384)
    parser.add_argument("--quick", action="store_true", help="96 pixels")
    arguments = parser.parse_args()
    if arguments.quick:  # other defaults, so that what is given still counts
        parser.set_defaults(size=96)
        arguments = parser.parse_args()
    size = arguments.size
    arguments.out.mkdir(parents=True, exist_ok=True)

    found = picture(torus, size)
    seen = found["seen"] > 0.5
    cosine = (np.hypot(found["p"][..., 0], found["p"][..., 2]) - MAJOR) / MINOR
    expected = cosine / (MAJOR + MINOR * cosine)  # of the parallel; the meridian has 1 / MINOR
    errors = np.abs(found["smaller"] - expected)[seen], np.abs(found["larger"] - 1.0 / MINOR)[seen]
    torus_errors = [float(np.median(e)) for e in errors]

    found = picture(blended, size)
    light = np.array((0.4, 0.8, 0.45)) / np.linalg.norm((0.4, 0.8, 0.45))
    shade = 0.35 + 0.65 * np.clip(found["normal"] @ light, 0.0, 1.0)
    mean = 0.5 * (found["larger"] + found["smaller"])
    panels = [coloured(found["larger"], found["seen"], shade, 7.0), coloured(found["smaller"], found["seen"], shade, 3.0),
              coloured(mean, found["seen"], shade, 4.0)]  # fmt: skip
    save_image(arguments.out / "curvature.png", np.concatenate(panels, axis=1))
    result = {
        "size": size,
        "torus_median_error": torus_errors,
        "pixels": int(seen.sum()),
        "operations": operations(blended),
    }
    print(result)
    if arguments.json:
        write_json(arguments.json, result)


if __name__ == "__main__":
    main()
