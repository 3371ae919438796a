"""What is drawn, and how runs of its faces are shaded and cut out: views and looks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...ad import functional as F
from ...ad.graph import PixelFunction, Variable
from ...ad.types import INT, Size
from ...errors import InputError
from ..shading.lights import LightSource
from ..shading.normal_map import vertex_tangents
from ..shading.shadows import Occluders
from ..surface.projection import eye_of, view_depth
from ..surface.screen import Surface, barycentric, corners, covered, interpolate, vertex_normals
from .scenes import images
from .scenes.images import ALONE, MEMBER, PLAIN, UV_SETS, MaterialRecipe, Members


@dataclass(frozen=True, eq=False, kw_only=True)
class View(Occluders):
    """Everything that is drawn, as one list of positions and one of faces, and from where; ``render`` makes it."""

    clip: Variable
    """VEC4 list, batch N."""
    matrices: Variable
    """MAT4 1x1: world to clip."""

    @cached_property
    def centre(self) -> Variable:
        """VEC3 1x1: positions of the cameras."""
        return eye_of(self.matrices)

    @cached_property
    def depth(self) -> Variable:
        """FLOAT list: the depth of the vertices (``view_depth``), which is linear along faces in the world."""
        return view_depth(self.clip, self.matrices)

    @cached_property
    def normals(self) -> Variable:
        """VEC3 list: smooth normals of the vertices."""
        return vertex_normals(self.position, self.faces)


@dataclass(frozen=True, eq=False)
class Look:
    """How a run of faces is shaded: one material, or several of one structure, under the lights."""

    view: View
    parts: Mapping[str, Variable]
    """Variables by name: uvs, texture, colours, normals, tangents and their faces; colour; the parts that ``images.MATERIAL``
    lists."""
    smooth: bool = True
    lights: tuple[LightSource, ...] = ()
    """Lights, whose parameters are Variables. Without any, the colour is the albedo."""
    filter: str = "bilinear"
    """Of textures: the name of a filter of ``F.sample``."""
    material: MaterialRecipe = PLAIN
    """Everything of the material that is not an image."""
    samples: int = 1
    """How many samples, drawn one after the other, share a pixel: each stands for that part of it in ``filter``."""
    level_moves: bool = True
    """Whether derivatives by positions and camera pass through the mip level."""
    run: tuple[int, int] | None = None
    """The first of the faces and the one behind the last, where others are shaded by other looks. Faces are then numbered from
    the first, which ``parts["faces"]`` holds."""
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
        """VEC2 list: where a map is looked up, and the faces that number the list, None for those of the vertices. Raises
        InputError when the mesh has no such texture coordinates."""
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
        """A part that is one value, at each pixel of an image of faces: that of the member whose face it is."""
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
    """``DrawnMesh.keep`` of looks with alpha masks: where alpha is at least the cutoff (default 0.5); None without any."""
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
    """Input: INT, an image of faces, -1 for none. INT: the same counted from ``first``, -1 for faces outside of [first, last).

    ``quiet`` and ``divides`` let the computation for these faces skip the blocks of pixels that show none of them.
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
