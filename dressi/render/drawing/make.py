"""From the inputs of ``render`` to a ``Picture``, and the checks of these inputs."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.ops.pixel.constant import Like
from ...ad.types import FLOAT, Size
from ...errors import InputError, did_you_mean
from ..forms.edges.edge_list import edge_list
from ..forms.form import HARD, Form, Silhouette, fraction, known_form
from ..forms.hard_soft_ras import FORMS, draw_form
from ..layers.margins import check_layered, draw_layers
from ..layers.moments import draw_summed
from ..layers.peel import MOST
from ..lists import list_data
from ..surface.screen import CULLING, DrawnMesh, Surface, covered
from .fibres import Fibres, transmitted, with_fibres
from .look import Look, View, opaque
from .picture import Picked, Picture
from .pixels import NAMES
from .point import Shader, SurfacePoint
from .scenes.images import Given, LightRecipe, Values, shape_of, tiled
from .scenes.joined import SceneRecipe, look_parts

MOMENTS = "moments"
"""The ``transparency`` that sums all transparent surfaces, in no order."""
LARGEST = 16
"""Largest number of samples along each axis of a pixel."""
FILTERS = ("bilinear", "trilinear")
"""Of textures in pictures."""
DRAWABLE: dict[str, Form] = {**FORMS, HARD.name: HARD}
"""The forms that ``render`` accepts, by name."""


@dataclass(frozen=True)
class Maker:
    """Makes a ``Picture`` from its Variables. Holds everything that is not an image; equal makers make equal graphs."""

    scene: SceneRecipe
    size: Size
    samples: int
    form: Form
    cull: str
    smooth: bool
    shader: Shader | None
    options: tuple[tuple[str, Any], ...]
    lights: tuple[LightRecipe, ...] = ()
    filter: str = "bilinear"
    transparency: int | str = 4
    fibres: tuple[Fibres, ...] = ()
    numbers: tuple[int, ...] = ()
    """The numbers of the nodes of surfaces in the scene, if it has other nodes."""
    apart: int = 1
    """How many samples of a pixel are drawn one after the other (``Look.samples``)."""

    def __call__(self, parts: Mapping[str, Variable]) -> Picture:
        scene, matrices = self.scene, parts["cameras"]
        position = scene.position(parts)
        clip = F.matmul(matrices, tiled(F.vec4(position, 1.0), matrices.batch))
        opaque_faces = scene.opaque_faces if scene.transparent else None
        through = (lambda s: _transmittance(looks, s)) if scene.transparent else None
        fibres = transmitted(self.fibres) if self.fibres else None
        drawn = position, parts["faces"], scene.face_count, opaque_faces, through, fibres
        view = View(*drawn, clip=clip, matrices=matrices)
        lights = tuple(recipe.light(parts) for recipe in self.lights)
        looks = tuple(
            Look(
                view, look_parts(scene, recipe, parts), self.smooth, lights, self.filter, recipe.material, self.apart,
                run=recipe.run, transparent=recipe.transparent, members=recipe.members,
            )
            for recipe in scene.looks
        )  # fmt: skip

        def draw(size: Size) -> Silhouette:
            options: dict[str, Any] = dict(self.options)
            if "radius" in parts:
                options["radius"] = parts["radius"]
            if "places" in parts and "edges" not in options:
                faces, places = (list_data(parts[name]) for name in ("faces", "places"))
                options["edges"] = edge_list(faces[: scene.face_count], places)
            keep = opaque(looks, size)
            if scene.opaque_faces < scene.face_count:
                mesh = DrawnMesh(clip, view.faces, size, view.face_count, self.cull, keep)
                given = self.form.arguments(size, None, options)
                if isinstance(self.transparency, str):
                    return draw_summed(self.form, mesh, scene.opaque_faces, **given)
                return draw_layers(self.form, mesh, scene.opaque_faces, self.transparency, **given)
            shape = clip, view.faces, size, view.face_count
            return draw_form(self.form, *shape, self.cull, keep=keep, **options)

        def pick(face: Variable) -> Picked:
            return Picked(scene.node(face, parts), scene.material(face, parts), scene.number(face, parts))

        background, radius = parts.get("background"), parts.get("radius")
        picture = Picture(
            view, looks, self.size, self.samples, background, self.shader, radius, self.form, draw, pick
        )
        return with_fibres(picture, self.fibres, np.array(self.numbers), lights) if self.fibres else picture


def _transmittance(looks: Sequence[Look], surface: Surface) -> Variable:
    """VEC3: the transmittance of transparent looks at a surface that is not seen by the camera, 0 elsewhere."""
    total = F.constant((0.0, 0.0, 0.0))
    whole = SurfacePoint(Look(looks[0].view, {}, looks[0].smooth), surface)
    for look in looks:
        if look.transparent:
            # The levels of textures would be those of the camera.
            plain, around = replace(look, filter="bilinear"), None if look.run is None else whole
            point = SurfacePoint(plain, look.of(surface), around)
            if point.transmittance is not None:
                total = total + F.select(covered(point.face), point.transmittance, 0.0)
    return total


def leaves(given: Mapping[str, Given]) -> dict[str, Variable]:
    return {name: g if isinstance(g, Variable) else g.leaf(name) for name, g in given.items()}


def check_options(
    form: str, samples: int, cull: str, filter: str, outputs: Sequence[str], options: Mapping[str, Any]
) -> None:
    """Raises InputError. options: those of the form, by name."""
    known_form(form, DRAWABLE)
    for name, value, allowed in (("filter", filter, FILTERS), ("cull", cull, CULLING)):
        if not isinstance(value, str) or value not in allowed:
            raise InputError(
                f"{name} is one of {', '.join(allowed)}, not {value!r}{did_you_mean(value, allowed)}"
            )
    if not isinstance(samples, int) or not 1 <= samples <= LARGEST:
        raise InputError(f"samples are a whole number from 1 to {LARGEST}, not {samples!r}")
    for name, value in options.items():
        if not isinstance(value, Hashable):
            raise InputError(
                f"{name} is one value for the {form} form, not {type(value).__name__}; see hard_soft_ras, which has its options"
            )
    unknown = [name for name in outputs if name not in NAMES]
    if isinstance(outputs, str) or unknown:
        raise InputError(f"outputs are some of {', '.join(NAMES)}, not {outputs!r}")


def check_transparency(layers: int | str, form: str, nodes: Sequence[str]) -> None:
    """Raises InputError for transparent nodes that the form cannot draw. nodes: their names."""
    if layers == MOMENTS:
        return
    if not isinstance(layers, int) or isinstance(layers, bool) or not 1 <= layers <= MOST:
        raise InputError(
            f"transparency is a number of layers from 1 to {MOST}, or '{MOMENTS}', not {layers!r}"
        )
    if nodes:
        check_layered(DRAWABLE[form], nodes[0])


def radius_given(radius: Like | None, form: str, size: Size) -> dict[str, Given]:
    """The radius of a soft form: 0.02, and at least 3 pixels, by default. Raises InputError."""
    if not DRAWABLE[form].soft:
        if radius is not None:
            raise InputError(f"the {form} form has no radius; leave it out")
        return {}
    if radius is None:
        radius = min(max(0.02, 3 / size[1]), 0.5)
    if isinstance(radius, Variable):
        return {"radius": radius}
    if np.ndim(radius):
        raise InputError(f"radius is a number or a FLOAT 1x1, not an array of shape {np.shape(radius)}")
    fraction("radius", float(radius))
    return {"radius": Values(FLOAT, np.full((1, 1, 1), float(radius)))}


def check_batches(given: Mapping[str, Given]) -> int:
    """The number of tiles. Raises InputError if the inputs differ."""
    batches = {name: shape_of(g)[0] for name, g in given.items() if shape_of(g)[0] != 1}
    if len(set(batches.values())) > 1:
        found = ", ".join(f"{count} {name}" for name, count in batches.items())
        raise InputError(f"tiles must be equal in number, or one: not {found}")
    return max(batches.values(), default=1)


def check_in_view(matrices: Given, vertices: np.ndarray | None, name: str) -> None:
    """Raises InputError for a mesh behind all cameras; warns if no picture shows it. Arrays only.

    vertices: (N, V, 3), in the world."""
    if vertices is None or isinstance(matrices, Variable):
        return
    matrix = matrices.array[:, 0, 0]
    clip = vertices @ matrix[:, :, :3].swapaxes(1, 2) + matrix[:, None, :, 3]
    x, y, z, w = np.moveaxis(clip, -1, 0)
    if (w <= 0).all():
        raise InputError(
            f"mesh '{name}' is behind all cameras; cameras look along +z of their own axes: check the convention of"
            " the matrices, or use Camera.perspective(fov_y, size, eye, target)"
        )
    beyond = (x < -w, x > w, y < -w, y > w, z < 0, z > w)
    if np.any([b.all(axis=1) for b in beyond], axis=0).all():
        warnings.warn(
            f"mesh '{name}' is outside of every picture or of its near and far planes; move the cameras, widen near"
            " and far, or check the convention of the matrices: clip = matrix @ (x, y, z, 1) in Vulkan's clip space, y down"
            " and depth in [0, 1]",
            stacklevel=4,
        )
