"""The picture of figure 15 as a graph: skin, eyes, tears, teeth, gums and hair under three lights with shadows."""

from dataclasses import dataclass, replace

import numpy as np
from head import Head
from placed import cut, eye_ball, eye_places, gums, mouth_bag, tears, teeth, teeth_places

from dressi import MAT4, F, Variable
from dressi.ad.graph.types import FLOAT, IVEC3, VEC2, VEC3
from dressi.render import (
    AtPoints,
    Camera,
    DirectionalLight,
    GltfBsdf,
    HairBsdf,
    HarmonicsLight,
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
from dressi.render.core.lists import as_list
from dressi.render.shading.bsdf.human import EyeBsdf, TeethBsdf, between_lips, inside_mouth
from dressi.render.shading.harmonics import even_light
from dressi.render.shading.lights import Arriving, Fragment, Occluders, ShadowMap
from dressi.render.strands.marschner import StrandOpacity
from dressi.render.strands.ribbons import StrandPoint

BACKGROUND = (0.035, 0.04, 0.05)
SPREAD = np.array((0.16, 0.075, 0.045))
"""How far light spreads below the skin, in centimetres, of red, green and blue."""
LAMPS = [((0.9, 0.55, 1.0), (3.1, 2.8, 2.5)), ((-1.0, 0.15, 0.8), (0.75, 0.85, 1.05)), ((-0.5, 0.5, -1.2), (1.0, 1.1, 1.35))]  # fmt: skip
"""Key, fill and rim: towards the light, and its irradiance."""
ROOM = 0.1
"""Radiance from all around."""
MOUTH, OPENING = (0.5, 0.36, 0.3), 0.2
"""Mean albedo of lips, gums and teeth, and the share that the opening of the mouth has of what is around the teeth."""
PARAMETERS = {"melanin": 0.72, "redness": 0.35, "longitudinal": 0.28, "azimuthal": 0.35, "hair ior": 1.55, "tilt": 2.5, "roughness": 0.62, "second_roughness": 0.42, "second": 0.25, "f0": 0.028, "spread": 1.0, "pupil": 0.17, "depth": 0.26, "radius": 0.5, "limbus": 0.13, "eye ior": 1.376, "wetness": 0.07, "enamel": 0.2, "key": 1.0, "rim": 1.0}  # fmt: skip
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
    def of(
        cls,
        head: Head,
        strands: StrandGeometry,
        casters: StrandGeometry,
        camera: Camera,
        texels: int,
        shadow: int,
    ) -> "Human":
        """strands, casters: of ``hair``.  texels: of the skin.  shadow: of maps of shadows."""
        leaves = {name: Variable.of([[x]], FLOAT, name=name) for name, x in PARAMETERS.items()}
        at = dict(leaves)
        size = camera.size
        matrix = Variable(MAT4, (1, 1), name="matrices", data=camera.world_to_clip[None, None, None])
        strength = [at["key"], F.constant(1.0), at["rim"]]
        lamps = [
            DirectionalLight(d, F.constant(c) * s, Shadow(shadow))
            for (d, c), s in zip(LAMPS, strength, strict=True)
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

        look = Marschner(pigment, lamps, casters, ambient=ROOM, hidden=hidden)
        lights = [
            *(
                ThroughHair(x.direction, x.colour, x.shadow, o)
                for x, o in zip(lamps, look.opacities, strict=True)
            ),
            HarmonicsLight(even_light(ROOM)),
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
        lips = F.store(F.vec3(F.clamp(open_part * 2.2, 0.02, 1.0)))
        glow = inside_mouth(opening_light(lamps, head.mouth[-1]), MOUTH, OPENING)
        enamel = TeethBsdf(roughness=at["enamel"], lips=lips, glow=glow)
        nodes = [Node(head.mesh, skin, name="head")]
        nodes += [Node(eye_ball(c), eye, name=f"eye {k}") for k, c in enumerate(head.eyes)]
        fluid = SkinBsdf(roughness=at["wetness"], second_roughness=at["wetness"], f0=0.025)
        nodes += [Node(tears(head, k), fluid, name=f"tears {k}") for k in range(len(head.eyes))]
        wet = TeethBsdf(roughness=at["enamel"] * 1.5, scatter=(0.5, 0.2, 0.15), lips=lips, glow=glow)
        for k, up in enumerate((True, False)):
            nodes += [Node(teeth(head.mouth, up), enamel, name=f"teeth {k}")]
            nodes += [Node(gums(head.mouth, up), wet, name=f"gums {k}")]
        nodes += [Node(mouth_bag(head.mouth), SkinBsdf(roughness=0.3), name="mouth")]
        nodes += [Node(cut(head.mesh), GltfBsdf(roughness=0.8), name="cut")]
        drawn = render(
            Scene(nodes),
            matrix,
            size=size,
            light=lights,
            background=BACKGROUND,
            form="edges",
        )
        # Depths of pixels from distances along the axis: z = a w + b.
        rows = camera.world_to_clip
        a = float(rows[2, :3] @ rows[3, :3] / (rows[3, :3] @ rows[3, :3]))
        b = float(rows[2, 3] - a * rows[3, 3])
        # Of the nearest surface alone: the depth of the picture is blended at edges.
        depth = drawn.seen.depth
        there = F.greater(depth, 0.0)
        limit = F.store(F.select(there, a + b / F.select(there, depth, 1.0), 1.0))
        # Segments of hair are millimetres long: colours change little along one.
        top = draw_strands(strands, matrix, size=size, shader=AtPoints(look), limit=limit)
        return cls(top.over(F.store(drawn.colour)), matrix, leaves)


def opening_light(lamps: list[DirectionalLight], ahead: np.ndarray) -> Variable:
    """VEC3: the irradiance of a surface that faces ``ahead`` by all lamps and the room."""
    total = F.constant((np.pi * ROOM,) * 3)
    for lamp, (d, _) in zip(lamps, LAMPS, strict=True):
        total = total + F.mul(lamp.colour, max(float(np.dot(ahead, d) / np.linalg.norm(d)), 0.0))
    return total


def around(angle: float, size: int, head: Head, distance: float = 82.0) -> Camera:
    target = np.array([0.0, 0.6, 1.0])
    eye = target + distance * np.array([np.sin(angle), 0.06, np.cos(angle)])
    # Eyelids, tears and eye balls are tenths of a millimetre apart: depths between near planes tell them from each other.
    return Camera.perspective(25, (size, size), eye, target, near=distance - 30, far=distance + 30)
