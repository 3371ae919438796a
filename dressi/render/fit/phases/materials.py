"""Material, light and exposure of a known shape, from its pictures.

``MaterialFit`` finds them for a mesh and its views:

    views = Observations(cameras, masks, colours)
    found = MaterialFit(mesh, views, MaterialOptions("albedo,roughness"), Environment(sky), DressiAD).run()
    save_mesh("result.glb", found.mesh)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ....ad import functional as F
from ....ad import optim
from ....ad.graph import Variable
from ....ad.graph.types import FLOAT, VEC3, list_values
from ....errors import InputError, did_you_mean
from ...cameras.pose import matrices_leaf, unit_matrices
from ...core.engine import Engine, MakeEngine
from ...core.materials import GLTF, Learned, Parameter
from ...drawing.draw import surface_uv
from ...drawing.entry import leaves
from ...drawing.point import Look, SurfacePoint, View
from ...drawing.scenes.images import (
    Values,
    light_given,
    material_given,
    recipe_of,
    shape_given,
    tangents_given,
)
from ...forms.form import HARD, Silhouette
from ...forms.hard_soft_ras import draw_form
from ...forms.pairs import FOLDING
from ...io.images import resize
from ...mesh import Mesh
from ...mesh.material import Material
from ...objectives.losses import l2
from ...objectives.regularizers import adjacency
from ...shading.lights import LightSource, PointLight
from ...surface.color import decoded, encoded, linear_to_srgb, srgb_to_linear
from ...surface.projection import to_clip
from ...surface.screen import DrawnMesh, covered
from ...surface.texturing import texture_colour
from ..data.dataset import Observations, Progress
from ..data.learned import ViewBatches
from ..data.textures import Pyramid, charted, dilated
from ..graphs.round import CHUNK, Comparison, Found, Round, Subject, start
from ..graphs.term import BETAS, UNCHANGED, Factors, Term
from .remeshed import unfolded_from
from .texture import bending
from .texture import roughness as squared_steps

# Light that a material fit uses, and finds if it is asked to.

RATE = 0.02
"""Learning rate of Adam for the parameters of a light at the first step."""
LIGHT = "light "
"""What names of values of a light begin with."""
LEAST = 1e-3
"""What radiance of 0 starts from: a logarithm has no value at 0."""
EVENNESS = 1e-6
"""Weight of the sum of squared differences of the logarithms of neighbouring texels of a learned map."""


class LearnedLight:
    """A light as Variables. learned: whether its ``learned`` fields are parameters; those that are
    ``positive`` are exponentials of theirs.

    ``light`` is for the graph, ``rates`` are the parameters with their learning rates, ``values`` what is
    read at the end, ``penalty`` a FLOAT 1x1 term of the loss.
    """

    def __init__(self, light: LightSource, learned: bool):
        light = light.prepared()
        parts, (recipe,) = light_given(light)
        names = set(light.learned) if learned else set()
        images: dict[str, Variable] = {}
        self.rates: dict[Variable, float] = {}
        self.values: dict[str, Variable] = {}
        self.penalty: Variable = F.constant(0.0)
        for row in recipe.parameters:
            name = recipe.name(row)
            values = parts[name]
            leaf = values if isinstance(values, Variable) else values.leaf(name)
            if row in names and isinstance(values, Values):
                positive = row in light.positive
                start = np.log(np.maximum(values.array, LEAST)) if positive else values.array
                leaf = Values(values.vtype, start).leaf(name)
                self.rates[leaf] = RATE
                if row in light.images:
                    self.penalty = self.penalty + squared_steps(leaf) * EVENNESS
                leaf = F.exp(leaf) if positive else leaf
                self.values[LIGHT + row] = leaf
            images[name] = leaf
        self.light = recipe.light(images)


def with_light(light: LightSource, values: Mapping[str, np.ndarray]) -> LightSource:
    """The light with what was found. values: those of ``LearnedLight.values``."""
    light = light.prepared()
    fields = dict(vars(light))
    for name, array in values.items():
        image, field = np.asarray(array, np.float64), name.removeprefix(LIGHT)
        if field in light.lists:
            fields[field] = image.reshape(-1, *image.shape[3:])
        else:
            fields[field] = image[0] if field in light.images else image[:, 0, 0]
    return type(light)(**fields)


# The maps that a material fit optimises: their parameters, their ranges, and what they become at the end.


def learned(part: str) -> Learned:
    """How a part is found."""
    how = GLTF.learned[part].learned
    assert how is not None
    return how


class Maps:
    """The optimised maps of a mesh. parts: names of them.  size: (W, H).

    ``given`` are Variables by the names of ``render``'s material, and "texture"; ``pyramids`` hold the
    parameters, by part. Each is what its ``Learned`` makes of its parameters; of the base colour, whose name
    is albedo, these are sRGB codes. Normals are those of the mesh, tilted.
    """

    def __init__(self, mesh: Mesh, parts: tuple[str, ...], size: tuple[int, int]):
        self.mesh, self.size = mesh, size
        self.pyramids: dict[str, Pyramid] = {}
        self.given: dict[str, Variable] = {}
        self.values: dict[str, Variable] = {}
        """What is read at the end, by part: codes of albedo, normals and factors as they are."""
        for part, row in GLTF.learned.items():
            if part not in parts:
                continue
            if row.fields:
                start = _values(mesh, row, size)
            else:
                base = _image(mesh.texture, (1.0, 1.0, 1.0), size)
                start = linear_to_srgb(base * np.asarray(mesh.color))
            self.pyramids[part] = Pyramid(size, learned(part).start(start), part)
            self.values[part] = learned(part).value(self.pyramids[part].texture)
            name = row.name if row.fields else row.image.field
            self.given[name] = self.values[part] if row.fields else decoded(self.values[part])


def with_maps(base: Mesh, values: Mapping[str, np.ndarray], size: tuple[int, int]) -> Mesh:
    """The mesh with maps of ``size`` (W, H), ``values`` by part as (1, H, W, ...); texels outside of all
    charts are filled. Values of other names are left out."""
    material = replace(base.material or Material())
    mesh = replace(base, material=material)
    inside, names = charted(mesh, size), [part for part in GLTF.learned if part in values]
    maps = {part: dilated(np.asarray(values[part], np.float64)[0], inside) for part in names}
    for part, image in maps.items():
        row = GLTF.learned[part]
        if not row.fields:
            mesh.texture, mesh.color = srgb_to_linear(np.clip(image, 0, 1)), (1.0, 1.0, 1.0)
        elif row.column is None:
            setattr(material, row.image.field, image if row.image.width else image.reshape(image.shape[:2]))
            setattr(material, row.field, (1.0,) * 3 if np.ndim(row.default) else 1.0)
    for shared in {row.image for part in maps if (row := GLTF.learned[part]).column is not None}:
        rows = [row for row in GLTF.parameters if row.map is shared]
        given = {GLTF.learned[part].name: image for part, image in maps.items()}
        columns = [np.clip(given.get(row.name, _values(base, row, size)), 0, 1) for row in rows]
        setattr(material, shared.field, np.concatenate([c.reshape(size[1], size[0], 1) for c in columns], -1))
        for row in rows:
            setattr(material, row.field, 1.0)
    return mesh


def _values(mesh: Mesh, row: Parameter, size: tuple[int, int]) -> np.ndarray:
    """(H, W, C) of a parameter: its map, resampled, times its factor where that multiplies."""
    material = mesh.material or Material()
    image, width = getattr(material, row.image.field), max(row.image.width, 1)
    default = (1.0,) * width if row.multiplies else (0.0, 0.0, 1.0)
    values = _image(None if image is None else image.reshape(*image.shape[:2], width), default, size)
    values = values if row.column is None else values[..., row.column : row.column + 1]
    return values * getattr(material, row.field) if row.multiplies else values


def _image(values: np.ndarray | None, default: tuple[float, ...], size: tuple[int, int]) -> np.ndarray:
    """(H, W, C) of a map, resampled, or of its default."""
    if values is None:
        return np.broadcast_to(np.asarray(default), (size[1], size[0], len(default))).copy()
    return resize(np.asarray(values, np.float64), size)


# Material, light and exposure of a mesh of known shape, from pictures with known cameras.

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

    mesh: in the world, with texture coordinates.  views: its pictures; colours are compared as sRGB codes, at
    the centres of pixels that mask and mesh cover.  light: what shines, or what the light starts from if it
    is optimised.  moves: whether vertices move as well, for exact masks: whole pictures are compared then,
    masks too, blended at contours (the edges form), and normals are those of the present shape; folds are
    healed at the end.  exposures: (N,) what those of the views start from.  factors: what a person may change
    meanwhile. Raises InputError.

    Maps are pyramids (``Pyramid``), so texels that few pixels show follow their neighbours. All parameters
    are found together by Adam with a rate that falls to a thirtieth.
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
        self.options, self.make_engine, self.given, self.moves = options, make_engine, light, moves
        counter, count = optim.clock(), len(views.masks)
        batch = min(options.batch or count, count)
        pick = ViewBatches(count, batch, counter, options.seed) if batch < count else lambda x: x
        self.maps = Maps(mesh, options.optimize, (options.texture_size, options.texture_size))
        self.light = LearnedLight(light, "light" in options.optimize)
        parts, drawn, lit = self._drawn(mesh, views, pick)
        start = np.zeros(count) if exposures is None else np.log2(exposures)
        self.stops = Variable(FLOAT, (1, 1), count, name="exposure", data=start.reshape(count, 1, 1))
        if "exposure" in options.optimize:
            lit = lit * F.exp2(pick(self.stops))
        bend = (
            bending(adjacency(mesh.faces, len(mesh.positions)), parts["position"], options.steps, factors)
            if moves
            else None
        )
        paces = self._paces({} if bend is None else bend.optimizers, factors)
        terms = [*self._comparison(views, drawn, lit, pick), *([] if bend is None else [bend])]
        for part, value in self.maps.values.items():
            weight = learned(part).smoothness * options.smoothness * factors.smoothness
            terms.append(Term(squared_steps(value) * weight))
        super().__init__(mesh, options.steps, terms, paces, counter, self.maps.values | self.light.values)
        self.position = parts["position"] if moves else None
        self._base = parts.get("texture")
        self.doing = f"{' and '.join(options.optimize)}, {views.masks.shape[2]}x{views.masks.shape[1]}"
        self.subject = Subject(parts["position"], parts["faces"], len(mesh.faces), self._codes)

    def _drawn(
        self, mesh: Mesh, views: Observations, pick: Callable[[Variable], Variable]
    ) -> tuple[dict[str, Variable], Silhouette, Variable]:
        """The mesh as leaves by name, what is drawn of it, and its light at each pixel, VEC3 linear."""
        center, radius = mesh.bounding_sphere()
        unit = mesh.moved((mesh.positions - center) / radius)
        if not self.moves:
            unit.normals, unit.normal_faces = mesh.normals, mesh.normal_faces
        others = dict(self.maps.given)
        texture = {"texture": others.pop("texture")} if "texture" in others else {}
        given = shape_given(unit).given | texture | material_given(mesh, others)
        parts = leaves(given | tangents_given(mesh, given, self.moves))
        if texture:
            parts["colour"] = F.constant((1.0, 1.0, 1.0))
        matrices = pick(matrices_leaf(unit_matrices(views.cameras, center, radius)))
        clip, faces, count = to_clip(parts["position"], matrices), parts["faces"], len(mesh.faces)
        size = views.masks.shape[2], views.masks.shape[1]
        drawn = draw_form(FOLDING if self.moves else HARD, clip, faces, size, count)
        view, lights = (
            View(parts["position"], faces, count, clip=clip, matrices=matrices),
            (self.light.light,),
        )
        # A vertex moves for what its texels show, not to blur them.
        look = Look(view, parts, True, lights, "trilinear", recipe_of(mesh, None), level_moves=False)
        return parts, drawn, SurfacePoint(look, drawn.surfaces[0]).lit()

    def _comparison(
        self, views: Observations, drawn: Silhouette, lit: Variable, pick: Callable[[Variable], Variable]
    ) -> list[Term]:
        """The terms that compare pictures, and the penalty of light and exposures."""
        inside = views.masks > 0.99
        count, size, scale = (
            len(inside),
            inside.shape[:0:-1],
            views.masks.size / max(float(inside.sum()), 1.0),
        )
        codes = pick(Variable(VEC3, size, count, name="target", data=linear_to_srgb(views.colors)))
        mask = pick(Variable(FLOAT, size, count, name="mask", data=inside.astype(float)))
        lit = F.maximum(lit, 0.0)
        # Codes of pictures end at 1, and so does what is compared with them.
        drawn_codes = drawn.blend_codes([F.minimum(lit, 1.0)], encoded) if self.moves else encoded(lit)
        shown = F.minimum(drawn_codes, 1.0)
        self._shown = drawn.hard, mask, shown, codes
        penalty = self.light.penalty
        if "exposure" in self.options.optimize:
            penalty = penalty + F.mean(F.square(self.stops)) * LIKENESS
        if self.moves:
            outline = Variable(FLOAT, size, count, name="coverage", data=views.masks.astype(float))
            outlines = Term(l2(drawn.silhouette, pick(outline)) * scale)
            return [Term(l2(shown, codes) * scale), outlines, Term(penalty)]
        # 0 where there is no surface, so that the planner leaves these pixels out.
        difference = F.select(covered(drawn.surfaces[0].face), shown - codes, 0.0)
        return [Term(l2(difference, 0.0, mask * drawn.hard) * scale), Term(penalty)]

    def _paces(
        self, moves: Mapping[Variable, optim.Optimizer], factors: Factors
    ) -> dict[Variable, optim.Optimizer]:
        """The optimizers by leaf. moves: of vertices. Raises InputError where there is none."""
        options = self.options

        def falling(rate: float) -> optim.Optimizer:
            return optim.adam(
                optim.cosine(rate * factors.rate, rate / 30 * factors.rate, options.steps), BETAS
            )

        paces = {self.stops: falling(EXPOSURE)} if "exposure" in options.optimize else {}
        paces |= moves
        for part, pyramid in self.maps.pyramids.items():
            paces |= {leaf: falling(learned(part).rate) for leaf in pyramid.levels}
        paces |= {leaf: falling(rate) for leaf, rate in self.light.rates.items()}
        if not paces:
            raise InputError("nothing is optimised; name some of albedo, normal, roughness, metallic, light")
        return paces

    def look(self, engine: Engine) -> Comparison:
        """The training views of the next step as they are now, lit."""
        covered, mask, shown, codes = engine.evaluate(self._shown)
        inside = (mask >= 0.5)[..., None]
        return Comparison(covered, mask, shown * inside, codes * inside)

    def _codes(self, drawn: DrawnMesh, matrices: Variable) -> Variable:
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
        """Optimise until done or until ``stop()``, polled every ``CHUNK`` steps, is true. measure: called
        with "material" and the engine when all is done and read."""
        steps, done = self.options.steps, 0
        with closing(self.make_engine()) as engine:
            start(engine, self)
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

    def found(self, engine: Engine) -> Found:
        """The mesh, without folds, and maps by part, fields of the light by ``LIGHT`` and their name, and
        exposures, as they are read."""
        values, mesh = {name: engine.recv(name) for name in self.outputs}, self.mesh
        exposed = "exposure" in self.options.optimize
        stops = engine.recv(self.stops).reshape(-1) if exposed else np.zeros(self.stops.batch)
        if self.position is not None:
            center, radius = mesh.bounding_sphere()
            unit = list_values(engine.recv(self.position), len(mesh.positions))[0]
            mesh = mesh.moved(unfolded_from(mesh.moved(unit * radius + center), mesh).positions)
        return Found(mesh, values={**values, EXPOSURES: np.exp2(stops)})


# What is recovered of a material, and how.

PARTS = (*GLTF.learned, "light", "exposure")
"""What may be optimised, together or one by one."""


@dataclass(frozen=True)
class MaterialOptions:
    """Options of ``MaterialFit``. Raises InputError.

    >>> MaterialOptions(("albedo", "roughness")).steps
    600
    """

    optimize: tuple[str, ...] = ("albedo", "roughness", "metallic")
    """Some of ``PARTS``. What is not among them stays as the mesh and the light have it."""
    steps: int = 600
    texture_size: int = 512
    """Texels along each side of all maps that are optimised."""
    batch: int = 4
    """Random views in each step; 0 for all."""
    seed: int = 0
    smoothness: float = 1.0
    """Factor on the weights of all smoothness terms."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "optimize", parts_of(self.optimize))
        if self.steps < 1:
            raise InputError(f"{self.steps} steps recover no material; give at least 1, such as 600")
        if self.texture_size < 1:
            raise InputError(f"maps of {self.texture_size} texels cannot be; give at least 1, such as 512")
        if self.batch < 0 or not 0 <= self.smoothness < 1e9:
            raise InputError("batch and smoothness are 0 or more")


def parts_of(names: str | Sequence[str]) -> tuple[str, ...]:
    """The parts that a text such as "albedo,roughness" or a sequence names, each once. Raises InputError.

    >>> parts_of("roughness, albedo")
    ('roughness', 'albedo')
    """
    given = names.split(",") if isinstance(names, str) else names
    parts = tuple(dict.fromkeys(name.strip() for name in given))
    unknown = [name for name in parts if name not in PARTS]
    if unknown or not parts:
        raise InputError(
            f"what is optimised is some of {', '.join(PARTS)}, not {', '.join(unknown) or 'nothing'}"
            f"{did_you_mean(unknown[0], PARTS) if unknown else ''}"
        )
    return parts


# The material phase of a fit: after shape and texture, for the shape that was found.

TEXTURE = "texture"
"""The texture of the mesh that a recovery begins with, among its values."""


class Stage(NamedTuple):
    """A part of a recovery: its options, and whether vertices move in it."""

    options: MaterialOptions
    moves: bool


@dataclass(frozen=True, eq=False)
class Recovery:
    """What a fit recovers after its texture: a material in place of it, the light and the exposures, in
    ``stages``.

    light: what shines, or what the light starts from.  moves: whether vertices move under the light in some
    of the steps, for exact masks.
    """

    options: MaterialOptions
    light: LightSource
    moves: bool = False

    @cached_property
    def stages(self) -> list[Stage]:
        """The parts, one a round; together they have the steps of ``options``.

        Vertices move when the rest of the material is known roughly, and before there is a normal map, which
        would take what is wrong with the shape upon itself.
        """
        options = self.options
        smooth = tuple(part for part in options.optimize if part != "normal")
        quarter = options.steps // 4
        if not self.moves or not smooth or quarter == 0:
            return [Stage(options, False)]
        first = replace(options, optimize=smooth, steps=quarter)
        last = replace(options, steps=options.steps - 2 * quarter)
        return [Stage(first, False), Stage(first, True), Stage(last, False)]

    @property
    def task(self) -> dict[str, Any]:
        """What determines the result, beside ``arrays``."""
        return {"options": asdict(self.options), "moves": self.moves, "light": type(self.light).__name__}

    @property
    def arrays(self) -> list[np.ndarray]:
        """The light."""
        return [np.asarray(getattr(self.light, name), np.float64) for name in self.light.parameters]

    def values(self, mesh: Mesh) -> dict[str, np.ndarray]:
        """What the first stage begins with beside the shape, as ``Found.values``."""
        return {} if mesh.texture is None else {TEXTURE: np.asarray(mesh.texture)}

    def mesh(self, found: Found) -> Mesh:
        """The mesh, in the world, with what was found of its material."""
        mesh, texture = found.mesh, found.values.get(TEXTURE)
        if texture is not None:
            mesh = replace(mesh, texture=texture, color=(1.0, 1.0, 1.0))
        size = self.options.texture_size
        return with_maps(mesh, found.values, (size, size)) if EXPOSURES in found.values else mesh

    def lit_by(self, found: Found) -> LightSource:
        """The light, with what was found of it."""
        return with_light(self.light, {k: x for k, x in found.values.items() if k.startswith(LIGHT)})

    def exposures(self, found: Found) -> np.ndarray | None:
        """(N,) of the views, where they are found."""
        return found.values.get(EXPOSURES) if "exposure" in self.options.optimize else None

    def round(
        self, number: int, found: Found, views: Observations, factors: Factors = UNCHANGED
    ) -> MaterialFit:
        """Stage ``number``, which begins with what was found."""
        options, moves = self.stages[number]
        mesh, light, exposures = self.mesh(found), self.lit_by(found), found.values.get(EXPOSURES)

        def no_engine() -> Engine:
            raise NotImplementedError("the fit makes the engines of its rounds")

        return MaterialFit(mesh, views, options, light, no_engine, moves, exposures, factors)
