"""Surface points at pixels, the argument of shaders; and the looks that shade and cut out runs of faces."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property

import numpy as np

from ...ad import functional as F
from ...ad.graph import PixelFunction, Variable
from ...ad.graph.types import INT, Size
from ...ad.transform.gradient import total
from ...errors import InputError
from ..core.materials import GLTF
from ..shading.bsdf import Bsdf, Frame
from ..shading.lights import Fragment, LightSource, Occluders
from ..shading.normal_map import mapped_normal, vertex_tangents
from ..surface.projection import eye_of, view_depth
from ..surface.screen import Surface, barycentric, corners, covered, flat_normal, interpolate, vertex_normals
from ..surface.texturing import barycentric_slopes, texture_colour, uv_level
from .scenes import images
from .scenes.images import ALONE, MEMBER, PLAIN, UNLIT, UV_SETS, MaterialRecipe, Members


@dataclass(frozen=True, eq=False, kw_only=True)
class View(Occluders):
    """Everything that is drawn, as lists of positions and faces, and from where; made by ``render``."""

    clip: Variable
    """VEC4 list, batch N."""
    matrices: Variable
    """MAT4 1x1: world to clip."""
    near: Variable | None = None
    """FLOAT 1x1: the depth of the near plane of a parallel projection, where it is known."""

    @cached_property
    def centre(self) -> Variable:
        """VEC3 1x1: positions of the cameras."""
        return eye_of(self.matrices)

    @cached_property
    def depth(self) -> Variable:
        """FLOAT list: the depth of the vertices (``view_depth``), linear along faces in the world."""
        depth = view_depth(self.clip, self.matrices)
        if self.near is None:
            return depth
        # Of a parallel projection: z / w grows by the length of its row in a unit of the world.
        return self.near + depth / F.length(F.column(F.transpose(self.matrices), 2).xyz)

    @cached_property
    def normals(self) -> Variable:
        """VEC3 list: smooth normals of the vertices."""
        return vertex_normals(self.position, self.faces)


@dataclass(frozen=True, eq=False)
class Look:
    """How a run of faces is shaded: one material, or several of one structure, under the lights."""

    view: View
    parts: Mapping[str, Variable]
    """Variables by name: uvs, texture, colours, normals, tangents and their faces; colour; the parts that
    ``images.MATERIAL`` lists."""
    smooth: bool = True
    lights: tuple[LightSource, ...] = ()
    """Lights, whose parameters are Variables. Without any, the colour is the albedo."""
    filter: str = "bilinear"
    """Of textures: the name of a filter of ``F.sample``."""
    material: MaterialRecipe = PLAIN
    """Everything of the material that is not an image."""
    samples: int = 1
    """How many samples, drawn one after the other, share a pixel: each filters its part."""
    level_moves: bool = True
    """Whether derivatives by positions and camera pass through the mip level."""
    run: tuple[int, int] | None = None
    """The first of the faces and the one behind the last, where others are shaded by other looks. Faces are
    then numbered from the first, which ``parts["faces"]`` holds."""
    transparent: bool = False
    """Whether what lies behind these faces is seen through them."""
    members: Members = ALONE
    """What each of several nodes has for itself."""

    @cached_property
    def faces(self) -> Variable:
        """IVEC3 list: the faces of the run, with numbers of vertices of the view."""
        return self.view.faces if self.run is None else self.parts["faces"]

    @cached_property
    def tangents(self) -> Variable:
        """VEC4 list, an entry for each of the texture coordinates."""
        uvs, numbers = self.parts["uvs"], self.parts.get("uv_faces", self.faces)
        return vertex_tangents(self.view.position, self.faces, uvs, numbers)

    def coordinates(self, part: str = "") -> tuple[Variable, Variable | None]:
        """VEC2 list: where a map is looked up, and the faces that number the list, None for those of the
        vertices. Raises InputError when the mesh has no such texture coordinates."""
        place = self.material.place(part)
        table, index = UV_SETS[place.uv_set]
        if table not in self.parts:
            which = "" if place.uv_set == 0 else f" of the set {place.uv_set}"
            raise InputError(f"this mesh has no texture coordinates{which}; give uvs=, or use mesh.unwrap()")
        uvs = self.parts[table]
        if place.moves:
            names = images.matrix_name(part), images.offset_name(part)
            matrix, offset = (self._of_rows(name, table) for name in names)
            uvs = F.matmul(matrix, uvs) + offset
        return uvs, self.parts.get(index)

    def _of_rows(self, part: str, table: str) -> Variable:
        """A factor for each row of a list."""
        value = self.parts[part]
        return F.lookup(value, self.parts[images.row_name(table)]) if part in self.members.factors else value

    def factor(self, part: str, face: Variable) -> Variable:
        """A part that is one value, at each pixel of an image of faces, by the member of the face."""
        value = self.parts[part]
        return F.lookup(value, self._member(face)) if part in self.members.factors else value

    def layer(self, part: str, face: Variable) -> tuple[int, Variable | None]:
        """How many maps the image of a part holds, and which of them a pixel shows, INT; None of one."""
        count = self.members.layers(part)
        if count == 1:
            return 1, None
        member = self._member(face)
        numbered = part in self.members.numbered
        return count, F.lookup(self.parts[images.layer_name(part)], member) if numbered else member

    def texels(self, part: str) -> Size:
        """The size of a map."""
        width, height = self.parts[part].size
        return width, height // self.members.layers(part)

    def is_map(self, part: str) -> bool:
        """Whether a part is an image that is looked up at the UVs."""
        return part not in self.members.factors and self.parts[part].size != (1, 1)

    def _member(self, face: Variable) -> Variable:
        """INT: the number of the member, that of the first where there is no face."""
        return F.lookup(self.parts[MEMBER], face)

    def of(self, surface: Surface) -> Surface:
        """The part of a surface that shows these faces."""
        if self.run is None:
            return surface
        return Surface(self.faces, FacesWithin(surface.face, *self.run).output, surface.weights)


def opaque(looks: Sequence[Look], size: Size) -> Callable[[Variable], Variable] | None:
    """``DrawnMesh.keep`` of looks with alpha masks: alpha is at least the cutoff (0.5). None without
    masks."""
    cut = [look for look in looks if "alpha" in look.parts and not look.material.blends]
    if not cut:
        return None

    def keep(face: Variable) -> Variable:
        masks = []
        for look in cut:
            own = face if look.run is None else FacesWithin(face, *look.run).output
            mask = _kept(look, own, size)
            masks.append(mask if look.run is None else F.select(covered(own), mask, 1.0))
        return functools.reduce(F.minimum, masks)

    return keep


def _kept(look: Look, face: Variable, size: Size) -> Variable:
    """FLOAT mask: 1 where the material of a look is not cut out."""
    cutoff = look.factor("alpha_cutoff", face) if "alpha_cutoff" in look.parts else F.constant(0.5)
    if not look.is_map("alpha"):
        return F.greater_equal(F.zeros_like(F.to_float(face)) + look.factor("alpha", face), cutoff)
    weights = barycentric(look.view.clip, corners(face, look.faces), size)
    uvs, faces = look.coordinates("alpha")
    uv = interpolate(uvs, corners(face, look.faces if faces is None else faces), weights)
    layers, layer = look.layer("alpha", face)
    wrap = look.material.place("alpha").wrap
    alpha = F.sample(look.parts["alpha"], uv, "bilinear", wrap, layers=layers, layer=layer, tolerance=0.0)
    return F.greater_equal(alpha, cutoff)


class FacesWithin(PixelFunction):
    """Input: INT, an image of faces, -1 for none. INT: the same counted from ``first``, -1 for faces outside
    of [first, last).

    ``quiet`` and ``divides`` let the computation for these faces skip blocks of pixels without them.
    """

    operations, quiet, divides = 3.0, -1, True
    exact = True
    zero_derivative = True
    fields = ("first", "last")
    first: int
    last: int

    def infer(self):
        if self.inputs[0].vtype is not INT:
            raise self.fail("faces are INT")
        return INT, self.broadcast()

    @property
    def glsl(self) -> str:
        return f"($0 >= {self.first} && $0 < {self.last}) ? $0 - {self.first} : -1"

    def eval(self, face):
        return np.where((face >= self.first) & (face < self.last), face - self.first, -1)


@dataclass(frozen=True, eq=False)
class SurfacePoint:
    """The surface point at every pixel: images of one size, N tiles. Values are 0 where there is none. For
    one of several nodes, place and directions are those of the nearest node at the pixel.

    With a soft silhouette the margin around the outline shows the nearest point of the outline. All values
    but ``face`` are differentiable in the positions, the camera and their own tables.

    >>> picture = render(primitives.cube(), size=(32, 32), shader=lambda point: point.normal * 0.5 + 0.5)
    """

    look: Look
    surface: Surface
    whole: SurfacePoint | None = None
    """The point of all nodes, which has the place and the shape; None if this point is that of all nodes."""
    _maps: dict[str, Variable] = field(default_factory=dict, init=False, repr=False)

    @property
    def face(self) -> Variable:
        """INT: the number of the face, -1 for none. No derivative."""
        return self.surface.face

    @property
    def weights(self) -> Variable:
        """VEC3: perspective-correct barycentric weights of the corners of the face."""
        return self.surface.weights

    @cached_property
    def uv(self) -> Variable:
        """VEC2: texture coordinates; (0, 0) is the corner of the first texel, v grows downward. Raises
        InputError when the mesh has none."""
        return self.surface.interpolate(*self.look.coordinates())

    @cached_property
    def point(self) -> Variable:
        """VEC3: the place in the world."""
        if self.whole is not None:
            return self.whole.point
        return self.surface.interpolate(self.look.view.position)

    @cached_property
    def depth(self) -> Variable:
        """FLOAT: the distance from the camera along its axis, in units of the world; of a matrix of a parallel
        projection z / w, from 0 at the near plane to 1 at the far one."""
        if self.whole is not None:
            return self.whole.depth
        return self.surface.interpolate(self.look.view.depth)

    @cached_property
    def normal(self) -> Variable:
        """VEC3: the unit normal in the world, outward for counter-clockwise faces; smooth, or of the face."""
        parts = self.look.parts
        if not self.look.smooth:
            return self._flat
        if "normals" in parts:
            return F.normalize(self.surface.interpolate(parts["normals"], parts.get("normal_faces")))
        if self.whole is not None:
            return self.whole.normal
        return F.normalize(self.surface.interpolate(self.look.view.normals))

    @cached_property
    def _flat(self) -> Variable:
        if self.whole is not None:
            return self.whole._flat
        return flat_normal(self.look.view.position, corners(self.face, self.look.faces))

    @cached_property
    def to_eye(self) -> Variable:
        """VEC3: the unit direction to the camera, in the world."""
        if self.whole is not None:
            return self.whole.to_eye
        return F.normalize(self.look.view.centre - self.point)

    @cached_property
    def facing(self) -> Variable:
        """FLOAT: 1 where the front of the face is seen, -1 where its back is. No derivative."""
        if self.whole is not None:
            return self.whole.facing
        front = F.greater_equal(F.dot(self._flat, self.to_eye), 0.0)
        return F.select(front, 1.0, F.constant(-1.0))

    @cached_property
    def albedo(self) -> Variable:
        """VEC3: the texture times the colours of the vertices times the colour of the mesh, linear; or the
        base colour of a surface of one's own."""
        parts = self.look.parts
        if "base" in parts:
            return self.map("base")
        colour = self.map("colour")
        if "colours" in parts:
            colour = colour * self.surface.interpolate(parts["colours"], parts.get("colour_faces"))
        if "texture" in parts:
            colour = colour * self.map("texture")
        return colour

    def map(self, name: str) -> Variable:
        """A part of the material at the point: its image at ``uv`` by the filter of the picture, 0 where
        there is no surface; an image of one texel as it is. Raises KeyError without such a part."""
        if name not in self._maps:
            look = self.look
            if look.is_map(name):
                place = look.material.place(name)
                own = place.moves or place.uv_set
                uv = self.surface.interpolate(*look.coordinates(name)) if own else self.uv
                level = self._level(name, look.texels(name)) if look.filter == "trilinear" else None
                layers, layer = look.layer(name, self.face)
                self._maps[name] = texture_colour(
                    look.parts[name], uv, self.face, wrap=place.wrap, level=level, layers=layers, layer=layer
                )
            else:
                self._maps[name] = look.factor(name, self.face)
        return self._maps[name]

    def _level(self, name: str, texels: Size) -> Variable:
        """FLOAT: the mip level of a map of so many texels, by the footprint of the pixel. Differentiable in
        the positions, the camera and the UVs where ``level_moves``."""
        look = self.look
        size = self.face.size
        slopes = barycentric_slopes(look.view.clip, corners(self.face, look.faces), size)
        uvs, faces = look.coordinates(name)
        at = corners(self.face, look.faces if faces is None else faces)
        level = uv_level(uvs, at, slopes, texels, look.samples)
        return level if look.level_moves else F.stop_gradient(level)

    def has(self, name: str) -> bool:
        """Whether the material has a part of that name."""
        return name in self.look.parts

    @cached_property
    def tangent(self) -> Variable:
        """VEC4: the unit direction in which u grows, and the bitangent's sign. Raises InputError without
        UVs."""
        parts = self.look.parts
        if "tangents" in parts:
            return self.surface.interpolate(parts["tangents"], parts.get("tangent_faces"))
        if "uvs" not in parts:
            raise InputError("a normal map needs texture coordinates; give uvs=, or use mesh.unwrap()")
        return self.surface.interpolate(self.look.tangents, parts.get("uv_faces"))

    @cached_property
    def shading_normal(self) -> Variable:
        """VEC3: the unit normal of the normal map, on the side that is seen; without a map, ``normal``."""
        mapped = GLTF["normal"].at(self)
        return self.normal * self.facing if mapped is None else mapped

    def mapped(self, name: str, scale: str) -> Variable:
        """VEC3: the unit normal in the world that a normal map means, on the side that is seen.

        name, scale: the names of the parts with the map and, if the material has one, the factor of its x and
        y.
        """
        factor = self.map(scale) if self.has(scale) else None
        return mapped_normal(self.map(name), self.normal, self.tangent, factor) * self.facing

    @cached_property
    def bsdf(self) -> Bsdf:
        """The material at the point: maps times factors; a rough dielectric by default."""
        kind = self.look.material.bsdf
        names = {one.name for one in fields(kind)}
        values = {row.name: row.at(self) for row in kind.kind.parameters if row.name in names}
        return kind(**{"base": self.albedo} | {name: x for name, x in values.items() if x is not None})

    def attribute(self, table: Variable, faces: Variable | None = None) -> Variable:
        """A list (FLOAT or vectors, one entry a vertex), interpolated; differentiable in it and the
        positions.

        faces: IVEC3 list of the corners' entries, by default the numbers of the vertices.
        """
        return self.surface.interpolate(table, faces)

    def lit(self) -> Variable:
        """VEC3: the material under the lights, and its emission; without lights the albedo. Both sides of
        faces are lit. A material that is blended by alpha gives the part that covers what is behind."""
        return self._lit * self.map("alpha") if self._blends else self._lit

    @property
    def _blends(self) -> bool:
        return self.look.material.blends and self.has("alpha")

    @cached_property
    def transmittance(self) -> Variable | None:
        """VEC3 in [0, 1]: how much of what is behind is seen through the surface; None for an opaque one."""
        through = self.bsdf.transmittance(self.frame)
        if not self._blends:
            return through
        alpha = self.map("alpha")
        return F.vec3(1.0 - alpha) if through is None else 1.0 - alpha + alpha * through

    @cached_property
    def frame(self) -> Frame:
        """The directions that a BSDF sees."""
        tangent = self.tangent if self.look.material.bsdf.oriented else None
        return Frame(self.shading_normal, self.to_eye, tangent)

    @cached_property
    def _lit(self) -> Variable:
        if not self.look.lights:
            return self.albedo
        surface, view = self.bsdf, self.look.view
        fragment = Fragment(self.point, self.shading_normal, self.to_eye, surface, view, self.frame.tangent)
        emitted = surface.emitted(self.frame)
        lit = total(
            [*([] if emitted is None else [emitted]), *(x.reflected(fragment) for x in self.look.lights)]
        )
        return F.select(F.greater(self.map(UNLIT), 0.5), self.albedo, lit) if self.has(UNLIT) else lit


Shader = Callable[[SurfacePoint], Variable]
"""A function from points to their linear colour, such as ``lambda p: p.normal * 0.5 + 0.5``."""
