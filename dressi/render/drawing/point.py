"""Surface points at pixels: the argument of shaders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.ops.pixel.constant import Like
from ...errors import InputError
from ..shading.lambert import lambert
from ..surface.normals import flat_normal, vertex_normals
from ..surface.screen import Surface, corners
from ..surface.texturing import texture_colour


class Light(NamedTuple):
    """A light: ``albedo * (ambient + colour * max(dot(normal, direction), 0))``, linear.

    >>> Light((0, 1, 0), colour=(1.0, 0.9, 0.8)).ambient
    0.1
    """

    direction: Like = "headlight"
    """(3,) or (N, 3) or VEC3: towards the light, in the world, of any length; "headlight": towards the camera."""
    colour: Like = 0.9
    """A number, (3,), FLOAT or VEC3: linear."""
    ambient: Like = 0.1
    """A number, (3,), FLOAT or VEC3: linear."""


@dataclass(frozen=True, eq=False)
class Geometry:
    """The Variables of the drawn mesh; ``render`` makes them from its arguments."""

    position: Variable
    """VEC3 list: in the world, batch 1 or N."""
    clip: Variable
    """VEC4 list, batch N."""
    matrices: Variable
    """MAT4 1x1: world to clip."""
    faces: Variable
    """IVEC3 list."""
    parts: Mapping[str, Variable]
    """The other Variables by name: uvs, texture, colours, normals and their faces; colour, light_..."""
    face_count: int
    smooth: bool

    @cached_property
    def centre(self) -> Variable:
        """VEC3 1x1: positions of the cameras, where x, y and w of clip space are 0."""
        columns = [F.swizzle(F.column(self.matrices, k), "xyw") for k in range(4)]
        return -(F.inverse(F.mat3(*columns[:3])) @ columns[3])

    @cached_property
    def normals(self) -> Variable:
        """VEC3 list: smooth normals of the vertices."""
        return vertex_normals(self.position, self.faces)


@dataclass(frozen=True, eq=False)
class SurfacePoint:
    """The surface point at every pixel: images of one size, N tiles. Values are 0 where there is none.

    With a soft silhouette the margin around the outline shows the nearest point of the outline. All values but ``face``
    are differentiable in the positions, the camera and their own tables.

    >>> picture = render(primitives.cube(), size=(32, 32), shader=lambda point: point.normal * 0.5 + 0.5)
    """

    geometry: Geometry
    surface: Surface

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
        """VEC2: texture coordinates; (0, 0) is the corner of the first texel, v grows downward. Raises InputError when
        the mesh has none."""
        parts = self.geometry.parts
        if "uvs" not in parts:
            raise InputError("this mesh has no texture coordinates; give uvs=, or use mesh.unwrap()")
        return self.surface.interpolate(parts["uvs"], parts.get("uv_faces"))

    @cached_property
    def point(self) -> Variable:
        """VEC3: the place in the world."""
        return self.surface.interpolate(self.geometry.position)

    @cached_property
    def depth(self) -> Variable:
        """FLOAT: the distance from the camera along its axis, in units of the world."""
        return self.surface.interpolate(F.component(self.geometry.clip, 3))

    @cached_property
    def normal(self) -> Variable:
        """VEC3: the unit normal in the world, outward where faces turn counter-clockwise; smooth, or of the face."""
        parts = self.geometry.parts
        if not self.geometry.smooth:
            return self._flat
        if "normals" in parts:
            return F.normalize(self.surface.interpolate(parts["normals"], parts.get("normal_faces")))
        return F.normalize(self.surface.interpolate(self.geometry.normals))

    @cached_property
    def _flat(self) -> Variable:
        return flat_normal(self.geometry.position, corners(self.face, self.geometry.faces))

    @cached_property
    def to_eye(self) -> Variable:
        """VEC3: the unit direction to the camera, in the world."""
        return F.normalize(self.geometry.centre - self.point)

    @cached_property
    def facing(self) -> Variable:
        """FLOAT: 1 where the front of the face is seen, -1 where its back is. No derivative."""
        front = F.greater_equal(F.dot(self._flat, self.to_eye), 0.0)
        return F.select(front, 1.0, F.constant(-1.0))

    @cached_property
    def albedo(self) -> Variable:
        """VEC3: the texture times the colours of the vertices times the colour of the mesh, linear."""
        parts = self.geometry.parts
        colour = parts["colour"]
        if "colours" in parts:
            colour = colour * self.surface.interpolate(parts["colours"], parts.get("colour_faces"))
        if "texture" in parts:
            colour = colour * texture_colour(parts["texture"], self.uv, self.face)
        return colour

    def attribute(self, table: Variable, faces: Variable | None = None) -> Variable:
        """A list (FLOAT or vectors, one entry a vertex), interpolated; differentiable in it and the positions.

        faces: IVEC3 list of the corners' entries, by default the numbers of the vertices.
        """
        return self.surface.interpolate(table, faces)

    def lit(self) -> Variable:
        """VEC3: the albedo under the light, both sides of the faces; the albedo itself without a light."""
        parts = self.geometry.parts
        if "light_colour" not in parts:
            return self.albedo
        towards = parts.get("light_direction", self.to_eye)
        return lambert(
            self.albedo, self.normal * self.facing, towards, parts["light_colour"], parts["light_ambient"]
        )


Shader = Callable[[SurfacePoint], Variable]
"""A function from points to their colour (a linear float image), such as ``lambda p: p.normal * 0.5 + 0.5``."""
