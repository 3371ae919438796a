"""Every surface of the digital human against integrals in double precision: what it sends on, what it exchanges, its lobes.

    python apps/human/bsdfs.py --json apps/results/bsdfs.json --out apps/results/bsdfs
    python apps/human/bsdfs.py --quick

For the skin, the sclera and the film of tears of eyes, the iris, teeth, a fibre of hair, and hair from afar, each without colour or pigment:

- furnace: the part of light of 1 from all around that is sent to the eye, over angles of the eye and roughnesses. At most 1 means
  that no light is added; of white hair all is sent on.
- exchange: the largest relative difference of values for two directions that change places. 0 is reciprocal; where the model is
  not, the table says why.
- lobes: integrals of distributions that are 1 by definition.
- profile: the energy that has left the skin within every radius, against the analytic form of Burley.

The values are the NumPy meaning of the same functions that devices run. Writes the table as bsdfs.md.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dressi import F, Variable
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.types import FLOAT, VEC2, VEC3
from dressi.render import HairBsdf, SkinBsdf, burley
from dressi.render.io import write_json
from dressi.render.io.files import write_files
from dressi.render.shading.bsdf import Bsdf, Frame
from dressi.render.shading.bsdf.hair import Directions, FarHair, trimmed_logistic
from dressi.render.shading.bsdf.human import EyeBsdf, TeethBsdf
from dressi.render.shading.bsdf.microfacet import ggx
from dressi.render.shading.skin import burley_within

UP, ALONG = (0.0, 0.0, 1.0), (1.0, 0.0, 0.0, 1.0)
WHITE = (1.0, 1.0, 1.0)
COSINES = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
ROUGHNESSES = (0.15, 0.3, 0.5, 0.8)
PLACES = {"sclera": (0.8, 0.0), "iris": (0.2, 0.1)}
WHY = {
    "skin": "by construction",
    "sclera": "by construction",
    "iris": "the cornea gathers light on its way in; the view is one ray",
    "teeth": "light reaches beyond the terminator of the light, not of the eye",
    "hair": "scales tilt the lobes, and attenuation follows from the eye alone (Chiang et al. 2016)",
    "far hair": "as of a fibre",
}
Reflected = Callable[[Frame, Variable], Variable]


def sphere(pole: np.ndarray, rows: int, turns: int, power: int) -> tuple[np.ndarray, np.ndarray]:
    """(N, 3) directions and (N,) solid angles around a pole, near which powers above 1 put more rows."""
    node, weight = np.polynomial.legendre.leggauss(rows)
    part = (node + 1) / 2
    cosine, density = 1 - 2 * part**power, power * part ** (power - 1) * weight
    turn = (np.arange(turns) + 0.5) * 2 * np.pi / turns
    sine = np.sqrt(np.maximum(1 - cosine**2, 0))
    across = (np.outer(sine, np.cos(turn)), np.outer(sine, np.sin(turn)))
    d = np.stack([*across, np.repeat(cosine[:, None], turns, 1)], axis=-1)
    first = np.cross(pole, (0.31, 0.9, 0.2))
    first /= np.linalg.norm(first)
    frame = np.stack([first, np.cross(pole, first), pole])
    return (d @ frame).reshape(-1, 3), np.repeat(density * 2 * np.pi / turns, turns)


def values(reflected: Reflected, eye: np.ndarray, lights: np.ndarray) -> np.ndarray:
    """(N, 3): the radiance to an eye by lights from directions; either may be one of them."""
    given = [Variable.of(np.atleast_2d(x)[None], VEC3) for x in (eye, lights)]
    frame = Frame(F.constant(UP), given[0], F.constant(ALONG))
    return evaluate([F.vec3(reflected(frame, given[1]))])[0].reshape(-1, 3)


def furnace(reflected: Reflected, eye: np.ndarray, rows: int, fibre: bool) -> float:
    """What is sent to the eye of light of 1 from all around, in the colour of which most is."""
    # Surfaces have a lobe around the mirrored direction, fibres a cone around their axis.
    pole = np.array(ALONG[:3]) if fibre else eye * (-1, -1, 1)
    directions, weights = sphere(pole, rows, *((8 * rows, 1) if fibre else (2 * rows, 4)))
    return float((values(reflected, eye, directions) * weights[:, None]).sum(0).max())


def exchange(reflected: Reflected, across: Callable[[np.ndarray], np.ndarray], around: bool) -> float:
    """The largest difference of values over the cosine when two directions change places, relative to both. across: the cosine."""
    rng = np.random.default_rng(0)
    pairs = rng.normal(size=(2, 500, 3))
    pairs /= np.linalg.norm(pairs, axis=-1, keepdims=True)
    if not around:
        pairs[..., 2] = np.abs(pairs[..., 2])
    pairs = pairs[:, (across(pairs) > 0.1).all(0)]
    one, two = (values(reflected, pairs[k], pairs[1 - k]) / across(pairs[1 - k])[:, None] for k in (0, 1))
    return float((np.abs(one - two) / np.maximum(np.abs(one + two) / 2, 1e-6)).max())


def surface(name: str, rough: float) -> Bsdf:
    """A surface that absorbs as little as it can."""
    if name == "skin":
        return SkinBsdf.of(WHITE, roughness=rough, second_roughness=0.6 * rough)
    if name == "teeth":
        return TeethBsdf.of(WHITE, roughness=rough)
    if name == "hair":
        return HairBsdf.of(melanin=0.0, longitudinal=rough, azimuthal=rough, tilt=2.0)
    # Irises have a dark ring and fibres: their light is at most that of a white one.
    return EyeBsdf.of(WHITE, PLACES[name], (0.0, 0.0, 1.0), WHITE, WHITE, pupil=0.0, wetness=rough)


def far(rough: float, rows: int) -> Reflected:
    hair = FarHair(
        HairBsdf.of(melanin=0.0, longitudinal=rough, azimuthal=rough, tilt=2.0), 2 * rows, rows, rows
    )

    def reflected(frame: Frame, to_light: Variable) -> Variable:
        return hair.scattered(Directions.of(F.constant(ALONG[:3]), to_light, frame.to_eye))

    return reflected


def reflecting(name: str, rough: float, rows: int) -> Reflected:
    return far(rough, rows) if name == "far hair" else surface(name, rough).reflected


def row(name: str, rows: int) -> dict[str, Any]:
    """The furnace and the exchange of one surface."""
    fibre = name in ("hair", "far hair")
    energies = {}
    for rough in ROUGHNESSES:
        reflected = reflecting(name, rough, rows)
        for c in COSINES:
            eye = np.array([0.0, np.sqrt(1 - c * c), c])
            # Around fibres the angle that counts is the one along them.
            eye = eye[[1, 0, 2]] if fibre else eye
            energies[f"roughness {rough}, cosine {c}"] = furnace(reflected, eye, rows, fibre)

    def across(d: np.ndarray) -> np.ndarray:
        return np.hypot(d[..., 1], d[..., 2]) if fibre else d[..., 2]

    found = exchange(reflecting(name, 0.4, rows), across, fibre)
    most = max(energies, key=lambda key: energies[key])
    return {
        "furnace": energies, "least": min(energies.values()), "most": energies[most], "most at": most,
        "exchange": found, "why": WHY[name],
    }  # fmt: skip


def lobes(rows: int) -> dict[str, float]:
    """The largest error of integrals that are 1, over roughnesses."""
    node, weight = np.polynomial.legendre.leggauss(20 * rows)
    found: dict[str, float] = {}

    def keep(name: str, integral: float) -> None:
        found[name] = max(found.get(name, 0.0), abs(integral - 1.0))

    angle = (np.arange(64 * rows) + 0.5) / (64 * rows) * 2 * np.pi
    for rough in ROUGHNESSES:
        part = (node + 1) / 2
        cosine = Variable.of((1 - part**4)[None], FLOAT)
        (d,) = evaluate([ggx(cosine, F.constant(rough * rough)) * cosine])
        keep("GGX over projected normals", float((d.ravel() * 4 * part**3 * weight / 2).sum() * 2 * np.pi))
        hair = HairBsdf.of(longitudinal=rough, azimuthal=rough, tilt=0.0)
        for along in evaluate(list(hair.along(Variable.of(node[None], FLOAT), F.constant(0.4)))):
            keep("hair along the fibre", float((along.ravel() * weight).sum()))
        (n,) = evaluate([trimmed_logistic(Variable.of(angle[None], FLOAT), hair.scale)])
        keep("hair around the fibre", float(n.mean() * 2 * np.pi))
    cosine = Variable.of(node[None], FLOAT)
    (spread,) = evaluate([TeethBsdf.of(WHITE).wrapped(cosine)])
    for k in range(3):
        keep("teeth over the sphere, over pi", float((spread[0, 0, :, k] * weight).sum() * 2))
    offset = Variable.of(np.linspace(-0.99, 0.99, 101)[None], FLOAT)
    white = HairBsdf.of(melanin=0.0)
    for sine in (0.0, 0.5, 0.9):
        ways, _ = white.attenuation(F.constant(sine), offset)
        (total,) = evaluate([F.vec3(ways.r) + ways.tt + ways.trt + ways.rest])
        keep("ways of light through white hair", float(total.max()))
    return found


def gathered() -> float:
    """What all of the iris gets of the light from ahead that meets the cornea."""
    axis = np.linspace(-0.62, 0.62, 125)
    q = np.stack(np.meshgrid(axis, axis), -1)
    (light,) = evaluate([EyeBsdf.of(WHITE).gathered(Variable.of(q, VEC2), F.constant(UP))])
    return float(light.sum() / (np.hypot(*np.moveaxis(q, -1, 0)) < 0.55).sum())


def profile() -> float:
    """The largest error of the energy within a radius, over distances of skin and of other materials."""
    radii, worst = np.geomspace(1e-3, 50, 400), 0.0
    for distances in ((0.16, 0.075, 0.045), (1.2, 0.5, 0.3), (3.67, 1.37, 0.68)):
        own = burley(distances)
        within = np.array([own.within(r) for r in radii])
        worst = max(worst, float(np.abs(within - burley_within(radii[:, None], np.array(distances))).max()))
    return worst


def table(result: dict[str, Any]) -> str:
    lines = ["| surface | furnace, least | most | exchange | why |", "|---|---|---|---|---|"]
    for name, own in result["surfaces"].items():
        lines.append(
            f"| {name} | {own['least']:.4f} | {own['most']:.4f} | {own['exchange']:.2g} | {own['why']} |"
        )
    lines += ["", "| integral | largest error |", "|---|---|"]
    lines += [f"| {name} | {error:.2g} |" for name, error in result["lobes"].items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--out", type=Path, default=Path("out/bsdfs"))
    parser.add_argument("--quick", action="store_true", help="a fourth of the directions")
    args = parser.parse_args()
    rows = 48 if args.quick else 96
    clock = time.perf_counter()
    result: dict[str, Any] = {"rows": rows, "surfaces": {name: row(name, rows) for name in WHY}}
    result["lobes"] = lobes(rows) | {"profile of the skin": profile()}
    result["light that meets the cornea and reaches the iris"] = gathered()
    result["seconds"] = time.perf_counter() - clock
    text = table(result)
    print(text)
    args.out.mkdir(parents=True, exist_ok=True)
    write_files({args.out / "bsdfs.md": text.encode()})
    if args.json:
        write_json(args.json, result)


if __name__ == "__main__":
    main()
