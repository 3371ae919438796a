"""``render``: from a mesh to a picture, differentiable if an argument is a Variable."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable, traversal
from ...ad.graph.types import FLOAT, MAT3, MAT4, Size
from ...ad.ops.pixel.constant import Like
from ...ad.transform.gradient import total
from ...errors import InputError, did_you_mean
from ..cameras.lens import Lens, through_lens
from ..cameras.views import Seen, seen_by
from ..core.lists import list_data
from ..forms.edges.edge_list import edge_list
from ..forms.form import HARD, Form, Silhouette, fraction, known_form
from ..forms.hard_soft_ras import FORMS, check_names, draw_form
from ..layers.edged import check_layered, draw_layers
from ..layers.moments import draw_summed
from ..layers.stacks import MOST
from ..mesh import Material, Mesh
from ..scene.geometry import Geometry, TriangleGeometry
from ..scene.scene import Node, Scene
from ..shading.bsdf import Bsdf
from ..shading.lights import LightSource
from ..strands.geometry import PointGeometry, StrandGeometry
from ..surface.screen import CULLING, DrawnMesh, Surface, covered
from .fibres import Fibres, places_of, split_nodes, transmitted, with_fibres
from .picture import Picked, Picture
from .pixels import NAMES, Pixels, Recipe
from .point import Look, Shader, SurfacePoint, View, opaque
from .scenes import images
from .scenes.groups import numbers_list
from .scenes.images import Given, LightRecipe, Values
from .scenes.joined import SceneRecipe, look_parts, scene_given


def render(
    mesh: Any,
    cameras: Any = None,
    *,
    size: Size | None = None,
    positions: Any = None,
    to_world: Any = None,
    colours: Any = None,
    uvs: Any = None,
    uv_faces: Any = None,
    texture: Any = None,
    material: Material | Mapping[str, Any] | Bsdf | None = None,
    light: LightSource | Sequence[LightSource] | str | Like | None = "headlight",
    shader: Shader | None = None,
    background: Like | None = None,
    smooth: bool = True,
    filter: str = "bilinear",
    samples: int = 1,
    radius: Like | None = None,
    form: str | None = None,
    cull: str = "none",
    transparency: int | str = 4,
    outputs: Sequence[str] = ("colour", "mask"),
    **options: Any,
) -> Any:
    """A picture of a mesh: arrays (``Pixels``), or differentiable images (``Picture``) when an argument is a
    Variable.

    ::

        render(mesh).save("mesh.png")
        picture = render(mesh, cameras, positions=positions)          # positions: a Variable
        loss = F.mean(F.square(picture.mask - picture.soft_target(masks)))

    mesh: a ``Mesh``, a ``Scene`` of several with a material and a place each, a pair (positions, faces), a
    ``Geometry``, strands or points, or a list of meshes. A pair has no surface: its colours, uvs, texture and
    material are arguments. Those of a scene belong to its nodes.
    cameras: a ``Camera``, ``Cameras`` or a list of them, ``Poses``, ``Views`` (``camera.with_view``, ``exposure``,
    ``rolling_shutter``), or matrices from the world to Vulkan's clip space, (4, 4), (N, 4, 4) or MAT4 1x1 with N tiles, with a
    ``size``. Left out: a view that frames the mesh.  size: (W, H) in pixels, that of the cameras by default.
    positions: (V, 3), (N, V, 3) or a VEC3 list, instead of the mesh's.  to_world: a rigid or affine motion of
    the mesh, or of a scene as a whole, (4, 4), (N, 4, 4) or MAT4.
    colours: linear, (V, 3) or a VEC3 list, one a vertex.  texture: linear, (H, W, 3) or a VEC3 Variable, with
    ``uvs``, (U, 2) or a VEC2 list, one a vertex or numbered by ``uv_faces`` (F, 3).  The albedo is the
    product of those given and of the colour of the mesh.
    material: parts of the glTF material that replace those of the mesh, by name: texture, metallic,
    roughness, normal (of a map, in [-1, 1]), emission and others (``drawing.scenes.images.MATERIAL``); each
    one value, an image that is looked up at the UVs, or a Variable of either. Or a ``Material``, or a surface
    of one's own, a ``Bsdf``, whose fields are such values.
    light: "headlight" (from the camera), a direction towards the light in the world, a ``Light``, or None:
    the albedo as it is. ``DirectionalLight``, ``PointLight``, ``Environment`` and others shade the material;
    several in a list. Both sides of faces are lit.  shader: instead of a light, a function of the
    ``SurfacePoint`` that gives a colour; Variables that it uses count as arguments.  smooth: whether normals
    are interpolated from the vertices (those of the file if it has some); False takes normals of the faces.
    filter: of textures: "bilinear", or "trilinear", which filters the texels of a pixel by mip levels.
    Derivatives include those through the level.
    background: linear, a number, (3,), (H, W, 3) or a Variable; default black.
    samples: each pixel is the mean of samples x samples; 1 to 16.
    radius: of the soft silhouette, a fraction of the image height: a number or a FLOAT 1x1; by default 0.02,
    at least 3 pixels.  form: "outer", "face", "edges" (``hard_soft_ras``, which has the options) or "hard".
    Default: "outer" if a radius is given, or if positions, cameras or to_world are Variables, else "hard". Take
    "edges" for losses of colours, depths or normals. It has no radius: compare blurred pictures (``pyramid``),
    which say how far the derivative reaches. What jumps at creases, such as normals of faces, has no derivative
    in any form. Faces of a node that meet at equal positions are one surface to "outer" and "edges", whether or
    not they share vertices; smooth normals need shared ones (``mesh.weld``).
    cull: "none" or "back".  transparency: how many transparent surfaces a pixel shows, from 1 to 16, sorted
    by their depth at its centre; ``picture.missed`` tells where there are more, and arrays warn. "edges" and "hard" draw
    them; "edges" is then the default instead of "outer". "moments" sums all of them in no order, over the opaque
    ones by any form: nearly the same colours, and no derivatives of their silhouettes.
    outputs: the images of ``Pixels`` that are computed together.

    All computation is in linear light; only ``Pixels.srgb`` and ``save`` convert to sRGB.  N meshes
    (positions, to_world) with one camera, one mesh with N cameras, and N with N make N tiles. A list of
    meshes gives a list of separate pictures, with one camera or one for each mesh. With one camera, arrays
    have no axis of views.

    Differentiable in positions, to_world, cameras (matrices), colours, uvs, texture, material, light,
    background and radius. Raises InputError: faces out of range, a texture without texture coordinates, NaN,
    shapes that do not fit, a mesh that is behind all cameras.

    >>> from dressi import Variable
    >>> from dressi.render import primitives
    >>> cube = primitives.cube()
    >>> red = Variable(name="red", data=[[[0.5]]])
    >>> picture = render(cube, colours=F.expand(F.vec3(red, 0.2, 0.2), 1, (8, 1)), size=(64, 64))
    >>> picture.colour.shape, picture.face.shape
    ((1, 64, 64, 3), (1, 64, 64))
    """
    arguments = {
        name: value for name, value in locals().items() if name not in ("mesh", "cameras", "options")
    }
    check_names(render, options)
    if isinstance(mesh, list) or (isinstance(mesh, tuple) and not _is_pair(mesh)):
        several = isinstance(cameras, Sequence) and len(cameras) != 1
        if not mesh:
            raise InputError("a list of meshes needs at least one")
        if several and len(cameras) != len(mesh):
            raise InputError(f"{len(mesh)} meshes need one camera or as many, not {len(cameras)}")
        each = list(cameras) if several else [cameras] * len(mesh)
        return [render(m, c, **arguments, **options) for m, c in zip(mesh, each, strict=True)]
    overrides = {name: arguments[name] for name in ("positions", "colours", "uvs", "uv_faces", "texture")}
    shown, fibres, numbers = split_nodes(_scene(mesh, overrides, material), to_world)
    scene = scene_given(shown, to_world)
    seen = seen_by(cameras, size, None if cameras is not None else places_of(scene.framed, fibres))
    matrices = images.per_view("cameras", MAT4, seen.matrices)
    if shader is not None and not callable(shader):
        raise InputError(f"shader is a function of the SurfacePoint, not {type(shader).__name__}")
    emitted, lights = ({}, ()) if shader is not None else images.light_given(light)
    if shader is None:
        images.warn_without_effect(material, lights, stacklevel=3)
    given = {"cameras": matrices} | scene.given | emitted | lens_given(seen)
    if fibres:
        seen.check_straight()
    if background is not None:
        given["background"] = images.picture_of("background", background)
    if form is None:
        moving = any(isinstance(given.get(name), Variable) for name in (*scene.moving, "cameras"))
        layered = scene.recipe.transparent and transparency != MOMENTS
        soft = "edges" if layered else "outer"
        form = soft if moving or radius is not None else "hard"
    check_options(form, samples, cull, filter, outputs, options)
    seen_through = [shown.nodes[k].name for k in scene.recipe.transparent]
    check_transparency(transparency, form, seen_through)
    given |= radius_given(radius, form, seen.size)
    places = scene.places() if DRAWABLE[form].draws_edges else None
    if places is not None:
        given["places"] = numbers_list(places)
    tiles = check_batches(given)
    if seen.bending is None and not seen.rows:
        check_in_view(matrices, scene.vertices, scene.name)
    of_surfaces = tuple(numbers.tolist()) if fibres else ()
    make = Maker(
        scene.recipe, seen.size, samples, DRAWABLE[form], cull, bool(smooth), shader, tuple(sorted(options.items())),
        lights, filter, transparency, tuple(fibres), of_surfaces,
        lens=None if seen.bending is None else seen.bending.kind, mean=seen.mean,
    )  # fmt: skip
    known = [*given.values(), *options.values()]
    if any(isinstance(value, Variable) for value in known) or any(one.variables for one in fibres):
        return make(leaves(given))
    if shader is not None:
        # The Variables that a shader uses are known only after it has run.
        own = leaves(given)
        picture = make(own)
        if not set(traversal.leaves([picture.colour])) <= set(own.values()):
            return picture
    values = {name: value for name, value in given.items() if isinstance(value, Values)}
    # A form that draws edges derives them from the faces and from the vertices that lie at one place: another
    # topology is another graph.
    topology = values["faces"].array.tobytes() if DRAWABLE[form].draws_edges else b""
    topology += b"" if places is None else places.tobytes()
    layers = transparency if scene.recipe.transparent and isinstance(transparency, int) else 0
    return Pixels(
        Recipe((make, topology), values, make),
        seen.single and (tiles == 1 or seen.mean),
        tuple(outputs),
        layers,
    )


def _scene(mesh: Any, overrides: Mapping[str, Any], material: Any) -> Scene:
    """The scene of an argument ``mesh``. Raises InputError."""
    given = {name: value for name, value in (*overrides.items(), ("material", material)) if value is not None}
    if isinstance(mesh, Scene):
        if given:
            raise InputError(
                f"{', '.join(given)} of a scene belong to its nodes: Node(TriangleGeometry(mesh, positions=...), material)"
            )
        return mesh
    if isinstance(mesh, Node):
        return _scene(Scene([mesh]), overrides, material)
    given.pop("material", None)
    if isinstance(mesh, (Geometry, StrandGeometry, PointGeometry)):
        if given:
            raise InputError(f"{', '.join(given)} belong to the geometry; give them to {type(mesh).__name__}")
        return Scene([Node(mesh, material)])
    return Scene([Node(TriangleGeometry(mesh, **given), material)])


def _is_pair(mesh: tuple) -> bool:
    """Whether this is (positions, faces), not several meshes."""
    return len(mesh) == 2 and not isinstance(mesh[1], (Mesh, Scene, Node, Geometry, StrandGeometry, tuple))


# From the Variables of a scene to a picture, and the checks of arguments.

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
    """Makes a ``Picture`` from its Variables. Holds all but images; equal makers make equal graphs."""

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
    lens: type[Lens] | None = None
    mean: bool = False
    """Whether the views are one picture, their mean."""

    def __call__(self, parts: Mapping[str, Variable]) -> Picture:
        scene, matrices = self.scene, parts["cameras"]
        position = scene.position(parts)
        clip = F.matmul(matrices, images.tiled(F.vec4(position, 1.0), matrices.batch))
        clip = self._by_rows(position, clip, parts)
        opaque_faces = scene.opaque_faces if scene.transparent else None
        through = (lambda s: _transmittance(looks, s)) if scene.transparent else None
        fibres = transmitted(self.fibres) if self.fibres else None
        drawn = position, parts["faces"], scene.face_count, opaque_faces, through, fibres
        view = View(*drawn, clip=clip, matrices=matrices, near=parts.get("near"))
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
        form = self.form.with_options(dict(self.options))
        picture = Picture(
            view,
            looks,
            self.size,
            self.samples,
            background,
            self.shader,
            radius,
            form,
            draw,
            pick,
            mean=self.mean,
        )
        return with_fibres(picture, self.fibres, np.array(self.numbers), lights) if self.fibres else picture

    def _by_rows(self, position: Variable, clip: Variable, parts: Mapping[str, Variable]) -> Variable:
        """Clip positions behind the lens, at the poses of the rows that vertices are seen in."""
        rows = [parts[f"{ROW}{k}"] for k in range(sum(name.startswith(ROW) for name in parts))]
        bent = self._bent(clip, parts)
        if not rows:
            return bent
        places = [F.matmul(row, images.tiled(F.vec4(position, 1.0), row.batch)) for row in rows]
        for _ in range(ROW_STEPS):
            front = F.greater(bent.w, 1e-6)
            row = F.select(front, bent.y / F.select(front, bent.w, 1.0), 0.0) * 0.5 + 0.5
            at = F.clamp(row, 0.0, 1.0) * float(len(rows) - 1)
            shares = [F.maximum(1.0 - F.abs(at - float(k)), 0.0) for k in range(len(rows))]
            bent = self._bent(total([p * share for p, share in zip(places, shares, strict=True)]), parts)
        return bent

    def _bent(self, clip: Variable, parts: Mapping[str, Variable]) -> Variable:
        """Clip positions behind the lens."""
        if self.lens is None:
            return clip
        values = {k.removeprefix(COEFFICIENT): x for k, x in parts.items() if k.startswith(COEFFICIENT)}
        given = parts["cameras"], parts["intrinsics"], parts["limit"]
        return through_lens(self.lens(**values), clip, *given, self.size)


def _transmittance(looks: Sequence[Look], surface: Surface) -> Variable:
    """VEC3: the transmittance of transparent looks at a surface that others than the camera see, else 0."""
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


COEFFICIENT, ROW = "lens ", "row "
"""Before the names of the coefficients of a lens, and the numbers of rows, as parts of a picture."""
ROW_STEPS = 4
"""To find the row of a vertex: each leaves the share of the picture's height by which it moves meanwhile."""


def lens_given(seen: Seen) -> dict[str, Given]:
    """The lens of the views, matrices of their rows, and near planes of parallel projections."""
    given = {} if seen.near is None else {"near": images.per_view("near", FLOAT, seen.near)}
    given |= {f"{ROW}{k}": images.per_view("rows", MAT4, row) for k, row in enumerate(seen.rows)}
    if seen.bending is None:
        return given
    _, values, k, limit = seen.bending
    given |= {COEFFICIENT + name: images.per_view(name, FLOAT, value) for name, value in values.items()}
    named = ("intrinsics", MAT3, k), ("limit", FLOAT, limit)
    return given | {name: images.per_view(name, vtype, value) for name, vtype, value in named}


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
    batches = {name: images.shape_of(g)[0] for name, g in given.items() if images.shape_of(g)[0] != 1}
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
