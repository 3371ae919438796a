"""Material, light and exposure of a mesh of known shape, from pictures with known cameras."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....ad import functional as F
from ....ad import optim
from ....ad.graph import Variable
from ....ad.types import FLOAT, VEC3, list_values
from ....errors import InputError
from ...cameras.units import matrices_leaf, unit_matrices
from ...drawing.draw import surface_uv
from ...drawing.images.inputs import shape_given
from ...drawing.images.material import material_given, recipe_of, tangents_given
from ...drawing.look import Look, View
from ...drawing.make import leaves
from ...drawing.point import SurfacePoint
from ...engine import Engine, MakeEngine
from ...forms.antialias import ANTIALIAS
from ...forms.hard import HARD
from ...forms.hard_soft_ras import draw_form
from ...mesh import Mesh
from ...objectives.losses import l2
from ...objectives.regularizers import adjacency, laplacian_loss
from ...shading.lights import LightSource, PointLight
from ...surface.color import linear_to_srgb
from ...surface.projection import to_clip
from ...surface.screen import DrawnMesh, covered
from ...surface.texturing import texture_colour
from ...surface.transfer import encoded
from ..data.dataset import Observations
from ..data.result import Progress
from ..graphs.batches import ViewBatches
from ..graphs.comparison import Comparison
from ..graphs.controls import UNCHANGED, Factors
from ..graphs.round import CHUNK, Found, Round, start
from ..graphs.subject import Subject
from ..graphs.term import BETAS, Term
from ..phases.shape import smoothed
from ..phases.texture import BEND, PACE
from ..phases.texture import roughness as squared_steps
from ..phases.unfold import unfolded_from
from .light import LearnedLight, with_light
from .maps import Maps, learned, with_maps
from .options import MaterialOptions

LIKENESS = 1e-4
"""Weight of the mean squared exposure, which fixes the scale between light and exposures."""
EXPOSURES = "exposures"
"""Their name among the values that a recovery finds."""
EXPOSURE = 0.02
"""Learning rate of exposures, in stops, at the first step."""


@dataclass(frozen=True, eq=False)
class MaterialResult:
    """What a material fit has found."""

    mesh: Mesh
    """With its material, in the world."""
    light: LightSource
    """With arrays; the given one unless light was optimised."""
    exposures: np.ndarray
    """(N,) factors of the linear light of the views, 2 to the power of their stops; ones unless optimised."""
    losses: list[float]
    """Of the steps of this run."""
    finished: bool
    plan: Any = field(repr=False, default=None)


class MaterialFit(Round):
    """Fits material, light and exposure of a mesh to pictures; shape and cameras are known. ``run`` once.

    mesh: in the world, with texture coordinates.  views: its pictures; colours are compared as sRGB codes, at the centres of
    pixels that mask and mesh cover.  light: what shines, or what the light starts from if it is optimised.

    Maps are pyramids (``Pyramid``), so texels that few pixels show follow their neighbours. All parameters are found
    together by Adam with a rate that falls to a thirtieth.

    moves: whether vertices move as well, for exact masks: whole pictures are compared then, masks too, blended at contours
    (the antialias form), and normals are those of the present shape. Folds are healed at the end.  exposures: (N,) what
    those of the views start from.  factors: what a person may change meanwhile. Raises InputError.
    """

    name = "material"
    factors = ("rate", "smoothness")

    def __init__(
        self,
        mesh: Mesh,
        views: Observations,
        options: MaterialOptions,
        light: LightSource,
        make_engine: MakeEngine,
        moves: bool = False,
        exposures: np.ndarray | None = None,
        factors: Factors = UNCHANGED,
    ):
        if mesh.uvs is None:
            raise InputError(f"mesh '{mesh.name}': maps need texture coordinates; use mesh.unwrap()")
        if isinstance(light, PointLight):
            raise InputError(
                "the light of a material fit is far away; take a DirectionalLight or an Environment"
            )
        self.options, self.make_engine = options, make_engine
        count, (height, width) = len(views.masks), views.masks.shape[1:]
        center, radius = mesh.bounding_sphere()
        counter = optim.clock()
        batch = min(options.batch or count, count)
        pick = ViewBatches(count, batch, counter, options.seed) if batch < count else lambda x: x
        self.maps = Maps(mesh, options.optimize, (options.texture_size, options.texture_size))
        self.given = light
        self.light = LearnedLight(light, "light" in options.optimize)
        unit = mesh.moved((mesh.positions - center) / radius)
        if not moves:
            unit.normals, unit.normal_faces = mesh.normals, mesh.normal_faces
        shape = shape_given(unit)
        texture = {name: x for name, x in self.maps.given.items() if name == "texture"}
        others = {name: x for name, x in self.maps.given.items() if name not in texture}
        given = shape.given | texture | material_given(mesh, others)
        parts = leaves(given | tangents_given(mesh, given, moves))
        self.position = parts["position"] if moves else None
        if texture:
            parts["colour"] = F.constant((1.0, 1.0, 1.0))
        matrices = pick(matrices_leaf(unit_matrices(views.cameras, center, radius)))
        clip = to_clip(parts["position"], matrices)
        drawn = draw_form(
            ANTIALIAS if moves else HARD, clip, parts["faces"], (width, height), len(mesh.faces)
        )
        look = Look(
            View(parts["position"], parts["faces"], len(mesh.faces), clip=clip, matrices=matrices),
            parts,
            True,
            (self.light.light,),
            "trilinear",
            recipe_of(mesh, None),
            # A vertex moves for what its texels show, not to blur them.
            level_moves=False,
        )
        lit = SurfacePoint(look, drawn.surfaces[0]).lit()
        start = np.zeros(count) if exposures is None else np.log2(exposures)
        stops = Variable(FLOAT, (1, 1), count, name="exposure", data=start.reshape(count, 1, 1))

        def falling(rate: float) -> Any:
            return optim.cosine(rate * factors.rate, rate / 30 * factors.rate, options.steps)

        paces: dict[Variable, Any] = {}
        penalty = self.light.penalty
        if "exposure" in options.optimize:
            lit = lit * F.exp2(pick(stops))
            paces[stops] = optim.adam(falling(EXPOSURE), BETAS)
            penalty = penalty + F.mean(F.square(stops)) * LIKENESS
        self.stops = stops
        codes = Variable(VEC3, (width, height), count, name="target", data=linear_to_srgb(views.colors))
        mask = Variable(FLOAT, (width, height), count, name="mask", data=(views.masks > 0.99).astype(float))
        # Codes of pictures end at 1, and so does what is compared with them.
        light_of_pixel = drawn.blend([F.minimum(F.maximum(lit, 0.0), 1.0)]) if moves else F.maximum(lit, 0.0)
        shown = F.minimum(encoded(light_of_pixel), 1.0)
        scale = views.masks.size / max(float((views.masks > 0.99).sum()), 1.0)
        if moves:
            outline = Variable(FLOAT, (width, height), count, name="coverage", data=views.masks.astype(float))
            neighbours = adjacency(mesh.faces, len(mesh.positions))
            terms = [
                Term(l2(shown, pick(codes)) * scale),
                Term(l2(drawn.silhouette, pick(outline)) * scale),
                Term(penalty),
            ]
            bend = laplacian_loss(parts["position"], neighbours) * (BEND * len(mesh.positions) ** 2)
            pace = optim.adam(
                optim.cosine(PACE[0] * factors.rate, PACE[1] * factors.rate, options.steps), BETAS
            )
            paces[parts["position"]] = optim.chain(smoothed(neighbours), pace)
            terms.append(Term(bend))
        else:
            # 0 where there is no surface, so that the planner leaves these pixels out.
            difference = F.select(covered(drawn.surfaces[0].face), shown - pick(codes), 0.0)
            terms = [Term(l2(difference, 0.0, pick(mask) * drawn.hard) * scale), Term(penalty)]
        for part, value in self.maps.values.items():
            paces |= {
                leaf: optim.adam(falling(learned(part).rate), BETAS)
                for leaf in self.maps.pyramids[part].levels
            }
            weight = learned(part).smoothness * options.smoothness * factors.smoothness
            terms.append(Term(squared_steps(value) * weight))
        paces |= {leaf: optim.adam(falling(rate), BETAS) for leaf, rate in self.light.rates.items()}
        if not paces:
            raise InputError("nothing is optimised; name some of albedo, normal, roughness, metallic, light")
        super().__init__(mesh, options.steps, terms, paces, counter, self.maps.values | self.light.values)
        self._shown = drawn.hard, pick(mask), shown, pick(codes)
        self._base = parts.get("texture")
        self.doing = f"{' and '.join(options.optimize)}, {width}x{height}"
        self.subject = Subject(parts["position"], parts["faces"], len(mesh.faces), self._codes)

    def look(self, engine: Engine) -> Comparison:
        """The training views of the next step as they are now, lit."""
        covered, mask, shown, codes = (engine.recv(image) for image in self._shown)
        inside = (mask >= 0.5)[..., None]
        return Comparison(covered, mask, shown * inside, codes * inside)

    def _codes(self, drawn: DrawnMesh) -> Variable:
        """VEC3: the codes of the base colour at each pixel of the mesh as it is drawn, unlit."""
        face, size = drawn.face, drawn.size
        if self._base is None:
            return encoded(F.select(covered(face), F.constant(self.mesh.color), 0.0))
        uv = surface_uv(self.mesh, drawn.position, drawn.faces, face, size)
        return encoded(texture_colour(self._base, uv, face))

    def run(
        self,
        *,
        progress: Callable[[Progress], None] | None = None,
        stop: Callable[[], bool] = lambda: False,
        measure: Callable[[str, Engine], None] | None = None,
    ) -> MaterialResult:
        """Optimise until done or until ``stop()``, polled every ``CHUNK`` steps, is true. measure: called with "material" and
        the engine when all is done and read."""
        engine, steps = self.make_engine(), self.options.steps
        try:
            start(engine, self)
            done = 0
            while done < steps and not stop():
                count = min(CHUNK, steps - done)
                engine.step(count)
                done += count
                if progress is not None:
                    progress(Progress(self.name, done, steps, engine.losses()[-1]))
            found, losses = self.found(engine), engine.losses()
            if measure is not None and done >= steps:
                measure(self.name, engine)
            mesh = with_maps(self.mesh, found.values, self.maps.size).moved(found.mesh.positions)
            light = with_light(self.given, {name: found.values[name] for name in self.light.values})
            return MaterialResult(mesh, light, found.values[EXPOSURES], losses, done >= steps, engine.plan)
        finally:
            engine.close()

    def found(self, engine: Engine) -> Found:
        """The mesh, and maps by part, fields of the light by ``LIGHT`` and their name, and exposures, as they are read."""
        values = {name: engine.recv(name) for name in self.outputs}
        exposed = "exposure" in self.options.optimize
        stops = engine.recv(self.stops).reshape(-1) if exposed else np.zeros(self.stops.batch)
        mesh = self.mesh if self.position is None else self._moved(self.mesh, engine.recv(self.position))
        return Found(mesh, values={**values, EXPOSURES: np.exp2(stops)})

    def _moved(self, mesh: Mesh, positions: np.ndarray) -> Mesh:
        """The mesh with these positions (the image of the list, in units of the fit) and no folds."""
        center, radius = self.mesh.bounding_sphere()
        found = mesh.moved(list_values(positions, len(mesh.positions))[0] * radius + center)
        return mesh.moved(unfolded_from(found, mesh).positions)
