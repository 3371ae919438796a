"""Figure 15 of the paper: a digital human with skin, eyes, teeth, hair and shadows, turned before three lights.

    python apps/human/figure15.py --json apps/results/figure15.json --out apps/results/figure15
    python apps/human/figure15.py --quick

The head is the face model (DRESSI_DATA/face) fitted to the scan of DRESSI_DATA/head, with its colours and normals; the model
places eyes and teeth, and the strands of DRESSI_DATA/hair stand on the scalp. Writes figure15.png and turn0.png, turn1.png, ..., the
head from other sides; the JSON has milliseconds of a picture, passes, memory, the first build and predictions for recorded
devices.
"""

import argparse
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from head import Head, fitted
from placed import eye_ball, eye_places, hair, mouth_bag, teeth, teeth_places

from dressi import MAT4, Device, DressiAD, F, Variable
from dressi.ad.types import FLOAT, IVEC3, VEC2, VEC3
from dressi.render import (
    Camera,
    DirectionalLight,
    HairBsdf,
    Marschner,
    Node,
    Scene,
    Shadow,
    SkinBsdf,
    StrandGeometry,
    burley,
    diffused,
    draw_strands,
    render,
)
from dressi.render.io import write_json
from dressi.render.io.files import write_files
from dressi.render.io.images import encode_png
from dressi.render.lists import as_list
from dressi.render.shading.bsdf.eye import EyeBsdf
from dressi.render.shading.bsdf.teeth import TeethBsdf, between_lips
from dressi.render.shading.lights import Arriving, Fragment
from dressi.render.shading.shadows.shadow_map import Occluders, ShadowMap
from dressi.render.strands.opacity import StrandOpacity
from dressi.render.strands.point import StrandPoint
from dressi.vk.plan.model.records import RECORDS
from dressi.vk.plan.plan import Plan
from dressi.vk.plan.predict.stages import stage_seconds

BACKGROUND = (0.035, 0.04, 0.05)
SPREAD = np.array((0.16, 0.075, 0.045))
"""How far light spreads below the skin, in centimetres, of red, green and blue."""
LAMPS = [((0.9, 0.55, 1.0), (3.1, 2.8, 2.5)), ((-1.0, 0.15, 0.8), (0.75, 0.85, 1.05)), ((-0.8, 0.7, -1.0), (3.0, 3.4, 4.2))]  # fmt: skip
"""Key, fill and rim: towards the light, and its irradiance."""
PARAMETERS = {"melanin": 0.72, "redness": 0.35, "longitudinal": 0.28, "azimuthal": 0.35, "hair ior": 1.55, "tilt": 2.5, "roughness": 0.5, "second_roughness": 0.3, "second": 0.35, "f0": 0.03, "spread": 1.0, "pupil": 0.17, "depth": 0.26, "radius": 0.5, "limbus": 0.13, "eye ior": 1.376, "wetness": 0.07, "enamel": 0.2, "key": 1.0, "rim": 1.0}  # fmt: skip
"""What the picture has derivatives by."""


@dataclass(frozen=True, eq=False)
class ThroughHair(DirectionalLight):
    """Parallel light that strands dim."""

    opacity: StrandOpacity | None = None

    def arriving(self, at: Fragment) -> Arriving:
        found = super().arriving(at)
        if self.opacity is None:
            return found
        passes = F.exp(-self.opacity.crossed(at.point + at.normal * 0.05))
        return found._replace(visible=passes if found.visible is None else found.visible * passes)


@dataclass
class Human:
    """The picture as a graph."""

    colour: Variable
    matrices: Variable
    leaves: dict[str, Variable]

    @classmethod
    def of(cls, head: Head, strands: StrandGeometry, camera: Camera, texels: int, shadow: int) -> "Human":
        leaves = {name: Variable.of([[x]], FLOAT, name=name) for name, x in PARAMETERS.items()}
        at = dict(leaves)
        size = camera.size
        matrix = Variable(MAT4, (1, 1), name="matrices", data=camera.world_to_clip[None, None, None])
        opacities = [StrandOpacity.of(strands, d, shadow) for d, _ in LAMPS]
        strength = [at["key"], F.constant(1.0), at["rim"]]
        lights = [
            ThroughHair(d, F.constant(c) * s, Shadow(shadow), o)
            for (d, c), s, o in zip(LAMPS, strength, opacities, strict=True)
        ]
        bumps = Variable(VEC3, head.normal_map.shape[1::-1], name="normals", data=head.normal_map[None])
        profile = replace(burley(SPREAD.tolist()), scale=at["spread"])
        below = diffused(head.mesh, lights, profile, size=texels, normal_map=bumps)
        skin = SkinBsdf(
            roughness=at["roughness"], second_roughness=at["second_roughness"], second=at["second"], f0=at["f0"],
            diffused=below, detail=bumps,
        )  # fmt: skip
        eye = EyeBsdf(
            place=Variable(VEC2, (64, 64), name="place", data=eye_places()[None]), gaze=F.constant((0.0, 0.0, 1.0)),
            pupil=at["pupil"], depth=at["depth"], radius=at["radius"], limbus=at["limbus"], ior=at["eye ior"],
            wetness=at["wetness"],
        )  # fmt: skip
        place = teeth_places(head.mouth)
        mouth = [F.constant(tuple(x.tolist())) for x in head.mouth]
        open_part = between_lips(Variable(VEC3, place.shape[1::-1], name="teeth", data=place[None]), *mouth)
        # Light between lips and gums is red.
        lips = F.store(F.pow(F.vec3(F.clamp(open_part * 2.2, 0.02, 1.0)), F.constant((0.8, 1.0, 1.05))))
        enamel = TeethBsdf(roughness=at["enamel"], lips=lips)
        nodes = [Node(head.mesh, skin, name="head")]
        nodes += [Node(eye_ball(c), eye, name=f"eye {k}") for k, c in enumerate(head.eyes)]
        nodes += [
            Node(teeth(head.mouth, up), enamel, name=f"teeth {k}") for k, up in enumerate((True, False))
        ]
        nodes += [Node(mouth_bag(head.mouth), SkinBsdf(roughness=0.3), name="mouth")]
        drawn = render(Scene(nodes), matrix, size=size, light=lights, background=BACKGROUND, form="hard")
        # Depths of pixels from distances along the axis: z = a w + b.
        rows = camera.world_to_clip
        a = float(rows[2, :3] @ rows[3, :3] / (rows[3, :3] @ rows[3, :3]))
        b = float(rows[2, 3] - a * rows[3, 3])
        there = F.greater(drawn.depth, 0.0)
        limit = F.store(F.select(there, a + b / F.select(there, drawn.depth, 1.0), 1.0))
        solid = Occluders(
            as_list("p", VEC3, head.mesh.positions),
            as_list("f", IVEC3, head.mesh.faces),
            len(head.mesh.faces),
        )
        maps = [ShadowMap.of(Shadow(shadow), solid, F.normalize(F.constant(d))) for d, _ in LAMPS]

        def hidden(point: StrandPoint) -> list[Variable]:
            return [
                m.lit(point.point, F.normalize(F.constant(d))) for m, (d, _) in zip(maps, LAMPS, strict=True)
            ]

        pigment = HairBsdf(
            None,
            at["melanin"],
            at["redness"],
            at["longitudinal"],
            at["azimuthal"],
            at["hair ior"],
            at["tilt"],
        )
        look = Marschner(pigment, lights, strands, ambient=0.05, hidden=hidden)
        top = draw_strands(strands, matrix, size=size, shader=look, limit=limit)
        return cls(top.over(F.store(drawn.colour)), matrix, leaves)


def around(angle: float, size: int, head: Head, distance: float = 78.0) -> Camera:
    target = np.array([0.0, -1.0, 1.0])
    eye = target + distance * np.array([np.sin(angle), 0.06, np.cos(angle)])
    return Camera.perspective(25, (size, size), eye, target)


def predictions(plan: Plan, moved: Variable) -> dict[str, float]:
    """Milliseconds of a picture from another place, for every recorded device: of the stages that depend on the camera."""
    stages = [*plan.static.with_dependencies, *plan.step.with_dependencies]
    again = [sources is None or moved in sources for _, sources in stages]
    found = {}
    for name, model in RECORDS.items():
        seconds = stage_seconds(plan, model)
        found[name] = 1e3 * sum(s for s, run in zip(seconds, again, strict=True) if run)
    return found


def saved(image: np.ndarray, path: Path) -> None:
    """By a soft shoulder, as sRGB."""
    write_files({path: encode_png(image / (1 + 0.25 * image))})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--out", type=Path, default=Path("out/figure15"))
    parser.add_argument(
        "--quick", action="store_true", help="256x256 pixels, a fourth of the strands, no turntable"
    )
    parser.add_argument("--size", type=int)
    parser.add_argument("--every", type=int, help="take one of so many strands")
    parser.add_argument("--copies", type=int, default=5, help="of the strands, side by side on the scalp")
    parser.add_argument("--device")
    args = parser.parse_args()
    device = Device.open(args.device)
    size, texels, shadow = (256, 256, 256) if args.quick else (1024, 1024, 1024)
    size = args.size or size
    clock = time.perf_counter()
    head = fitted(texels)
    strands = hair(head.mesh, args.every or (4 if args.quick else 1), args.copies)
    result: dict[str, Any] = {
        "size": size,
        "scan to model, mm": head.error,
        "head seconds": time.perf_counter() - clock,
    }
    print(f"head: {head.error:.2f} mm from the scan, {result['head seconds']:.0f} s", flush=True)
    human = Human.of(head, strands, around(0.35, size, head), texels, shadow)
    args.out.mkdir(parents=True, exist_ok=True)
    with DressiAD(device) as ad:
        ad.set_output("colour", human.colour)
        clock = time.perf_counter()
        ad.step()
        image = ad.recv("colour")[0].copy()
        result["first build seconds"] = time.perf_counter() - clock
        saved(image, args.out / "figure15.png")
        times = []
        for k in range(3 if args.quick else 8):
            camera = around(0.35 + k * 2 * np.pi / 8, size, head)
            ad.send(human.matrices, camera.world_to_clip[None, None, None])
            clock = time.perf_counter()
            ad.step()
            seen = ad.recv("colour")[0].copy()
            times.append(1e3 * (time.perf_counter() - clock))
            result.setdefault("turntable", []).append(f"turn{k}.png")
            saved(seen[:: max(size // 256, 1), :: max(size // 256, 1)], args.out / f"turn{k}.png")
        result["ms a picture"] = float(np.median(times))
        result["plan"] = str(ad.plan).splitlines()[0]
        result["predicted ms"] = predictions(ad.plan, human.matrices)
    print(
        f"{result['plan']}; first {result['first build seconds']:.1f} s, then {result['ms a picture']:.0f} ms",
        flush=True,
    )
    if args.json:
        write_json(args.json, result)


if __name__ == "__main__":
    main()
