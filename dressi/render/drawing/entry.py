"""``render``: from a mesh to a picture, differentiable if an argument is a Variable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...ad import traversal
from ...ad.graph import Variable
from ...ad.ops.pixel.constant import Like
from ...ad.types import MAT4, Size
from ...errors import InputError
from ..cameras.given import seen_by
from ..forms.hard_soft_ras import check_names
from ..mesh import Material, Mesh
from ..scene.geometry import Geometry, TriangleGeometry
from ..scene.scene import Node, Scene
from ..shading.bsdf import Bsdf
from ..shading.lights import LightSource
from ..strands.geometry import PointGeometry, StrandGeometry
from . import make as checks
from .fibres import places_of, split_nodes
from .make import DRAWABLE, MOMENTS, Maker, leaves
from .pixels import Pixels, Recipe
from .point import Shader
from .scenes.groups import numbers_list
from .scenes.images import Values, light_given, per_view, picture_of, warn_without_effect
from .scenes.joined import scene_given


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
    """A picture of a mesh: arrays (``Pixels``), or differentiable images (``Picture``) when an argument is a Variable.

    ::

        render(mesh).save("mesh.png")
        picture = render(mesh, cameras, positions=positions)          # positions: a Variable
        loss = F.mean(F.square(picture.mask - picture.soft_target(masks)))

    mesh: a ``Mesh``, a ``Scene`` of several with a material and a place each, a pair (positions, faces), a ``Geometry``, strands or
    points, or a list of meshes. A pair has no surface: its colours, uvs, texture and material are arguments. Those of a scene
    belong to its nodes.
    cameras: a ``Camera``, ``Cameras`` or a list of them, ``Poses``, ``Views`` (``camera.with_view``), or matrices from
    the world to Vulkan's clip space, (4, 4), (N, 4, 4) or MAT4 1x1 with N tiles, with a ``size``. Left out: a view that
    frames the mesh.  size: (W, H) in pixels, that of the cameras by default.
    positions: (V, 3), (N, V, 3) or a VEC3 list, instead of the mesh's.  to_world: a rigid or affine motion of the mesh,
    or of a scene as a whole, (4, 4), (N, 4, 4) or MAT4.
    colours: linear, (V, 3) or a VEC3 list, one a vertex.  texture: linear, (H, W, 3) or a VEC3 Variable, with ``uvs``,
    (U, 2) or a VEC2 list, one a vertex or numbered by ``uv_faces`` (F, 3).  The albedo is the product of those given
    and of the colour of the mesh.
    material: parts of the glTF material that replace those of the mesh, by name: texture, metallic, roughness, normal (of a map,
    in [-1, 1]), emission and others (``drawing.scenes.images.MATERIAL``); each one value, an image that is looked up at the UVs, or
    a Variable of either. Or a ``Material``, or a surface of one's own, a ``Bsdf``, whose fields are such values.
    light: "headlight" (from the camera), a direction towards the light in the world, a ``Light``, or None: the albedo as
    it is. ``DirectionalLight``, ``PointLight``, ``Environment`` and others shade the material; several in a list.
    Both sides of faces are lit.  shader: instead of a light, a function of the ``SurfacePoint`` that gives a
    colour; Variables that it uses count as arguments.  smooth: whether normals are interpolated from the vertices
    (those of the file if it has some); False takes normals of the faces.
    filter: of textures: "bilinear", or "trilinear", which filters the texels of a pixel by mip levels.
    Derivatives include those through the level.
    background: linear, a number, (3,), (H, W, 3) or a Variable; default black.
    samples: each pixel is the mean of samples x samples; 1 to 16.
    radius: of the soft silhouette, a fraction of the image height: a number or a FLOAT 1x1; by default 0.02, at least 3
    pixels.  form: "outer", "contour", "face", "antialias" (``hard_soft_ras``, which has the options) or "hard". Default: "outer" if
    a radius is given, or if positions, cameras or to_world are Variables, else "hard". Take "contour" for losses of colours, depths
    or normals of what hides itself or other things; against photographs and other measured pictures its minimum is off by 0.3
    radii, so that the last steps are for "antialias". Faces of a node that meet at equal positions are one surface to these forms,
    whether or not they share vertices; smooth normals need shared ones (``mesh.weld``).
    cull: "none" or "back".  transparency: how many transparent surfaces a pixel shows, from 1 to 16, sorted by their depth at its
    centre; ``picture.missed`` tells where there are more, and arrays warn. All forms but "face" draw them; "antialias" is then the
    default instead of "outer". "moments" sums all of them in no order, over the opaque ones by any form: nearly the same colours,
    and no derivatives of their silhouettes.  outputs: the images of ``Pixels`` that are computed together.

    All computation is in linear light; only ``Pixels.srgb`` and ``save`` convert to sRGB.  N meshes (positions, to_world)
    with one camera, one mesh with N cameras, and N with N make N tiles. A list of meshes gives a list of separate
    pictures, with one camera or one for each mesh. With one camera, arrays have no axis of views.

    Differentiable in positions, to_world, cameras (matrices), colours, uvs, texture, material, light, background and radius.
    Raises InputError: faces out of range, a texture without texture coordinates, NaN, shapes that do not fit, a mesh that
    is behind all cameras.

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
    matrices = per_view("cameras", MAT4, seen.matrices)
    if shader is not None and not callable(shader):
        raise InputError(f"shader is a function of the SurfacePoint, not {type(shader).__name__}")
    emitted, lights = ({}, ()) if shader is not None else light_given(light)
    if shader is None:
        warn_without_effect(material, lights, stacklevel=3)
    given = {"cameras": matrices} | scene.given | emitted
    if background is not None:
        given["background"] = picture_of("background", background)
    if form is None:
        moving = any(isinstance(given.get(name), Variable) for name in (*scene.moving, "cameras"))
        layered = scene.recipe.transparent and transparency != MOMENTS
        soft = "antialias" if layered and radius is None else "outer"
        form = soft if moving or radius is not None else "hard"
    checks.check_options(form, samples, cull, filter, outputs, options)
    seen_through = [shown.nodes[k].name for k in scene.recipe.transparent]
    checks.check_transparency(transparency, form, seen_through)
    given |= checks.radius_given(radius, form, seen.size)
    places = scene.places() if DRAWABLE[form].draws_edges else None
    if places is not None:
        given["places"] = numbers_list(places)
    tiles = checks.check_batches(given)
    checks.check_in_view(matrices, scene.vertices, scene.name)
    of_surfaces = tuple(numbers.tolist()) if fibres else ()
    make = Maker(
        scene.recipe, seen.size, samples, DRAWABLE[form], cull, bool(smooth), shader, tuple(sorted(options.items())),
        lights, filter, transparency, tuple(fibres), of_surfaces,
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
    # A form that draws edges derives them from the faces and from the vertices that lie at one place: another topology is another
    # graph.
    topology = values["faces"].array.tobytes() if DRAWABLE[form].draws_edges else b""
    topology += b"" if places is None else places.tobytes()
    layers = transparency if scene.recipe.transparent and isinstance(transparency, int) else 0
    return Pixels(Recipe((make, topology), values, make), seen.single and tiles == 1, tuple(outputs), layers)


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
