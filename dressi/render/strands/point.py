"""The point of a strand, or of a cloud of points, that is shaded: what shaders read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.ops.pixel.constant import Like
from ...errors import InputError
from ..surface.projection import depth_of_zw
from .ribbons import Disc, Segment


@dataclass(frozen=True, eq=False)
class StrandPoint:
    """The nearest point of a segment, or a point of a cloud, at a pixel: all images, differentiable in points
    and cameras.

    >>> strand = StrandGeometry([[-1.0, 0, 0], [1, 0, 0]], radius=0.1)
    >>> draw_strands(strand, size=(32, 24), shader=lambda point: point.colour * point.opacity).colour.vtype
    VEC3
    """

    fragment: Segment | Disc | _Listed
    leaves: Mapping[str, Variable]
    """Tables of the geometry by name; those of strands have ``tangents`` too."""
    eye: Variable
    """VEC3: the place of the camera, one a view."""
    clip: Variable
    """VEC2 list: z and w of the points in clip space."""
    matrices: Variable
    """MAT4: from the world to clip space, one a view."""

    @property
    def opacity(self) -> Variable:
        """FLOAT in [0, 1): how much it hides of what is behind it."""
        return 1.0 - F.exp(-self.fragment.absorbance)

    def attribute(self, table: Variable) -> Variable:
        """A list (FLOAT or vectors, one entry a point), interpolated between the ends of the segment;
        differentiable in it."""
        return self.fragment.attribute(table)

    @cached_property
    def colour(self) -> Variable:
        """VEC3: the linear colour of the point."""
        return self.attribute(self.leaves["colours"])

    @cached_property
    def point(self) -> Variable:
        """VEC3: the place in the world."""
        return self.attribute(self.leaves["points"])

    @cached_property
    def distance(self) -> Variable:
        """FLOAT: the distance from the camera along its axis; in a parallel projection the ``depth``."""
        return depth_of_zw(self.attribute(self.clip), self.matrices)

    @cached_property
    def depth(self) -> Variable:
        """FLOAT in [0, 1]: the depth, as rasters have it."""
        clip = self.attribute(self.clip)
        return clip.x / F.maximum(clip.y, 1e-6)

    @cached_property
    def to_eye(self) -> Variable:
        """VEC3: the unit direction to the camera."""
        return F.normalize(self.eye - self.point)

    @cached_property
    def tangent(self) -> Variable:
        """VEC3: the unit direction of the strand, from its first point to its last: the frame of models of
        hair. Raises InputError for points, which have none."""
        if "tangents" not in self.leaves:
            raise InputError("points have no tangent; shade them by colour, or draw strands")
        return F.normalize(self.attribute(self.leaves["tangents"]))


StrandShader = Callable[[StrandPoint], Variable]
"""A function from points to their linear colour, VEC3, such as ``lambda p: p.tangent * 0.5 + 0.5``."""


def unlit(point: StrandPoint) -> Variable:
    """VEC3: the colour as it is."""
    return point.colour


@dataclass(frozen=True, eq=False)
class AtPoints:
    """A shader of strands that computes the colours of another one at the points of the geometry, once for each view,
    and interpolates them along the segments.

    Where points are closer than the colour changes, as of hair, the picture is the same to the eye. A shader then
    runs once a point instead of once for every segment in every pixel, and what it computes without the camera
    (light that arrives) stays from picture to picture. It may read all of a ``StrandPoint`` but ``opacity`` and
    ``fragment``, which differ from pixel to pixel. Differentiable as the shader is.

    >>> strand = StrandGeometry([[-1.0, 0, 0], [1, 0, 0]], radius=0.1)
    >>> draw_strands(strand, size=(32, 24), shader=AtPoints(KajiyaKay((0.0, 1.0, 0.0)))).colour.vtype
    VEC3
    """

    shader: StrandShader

    def __call__(self, point: StrandPoint) -> Variable:
        listed = StrandPoint(_Listed(), point.leaves, point.eye, point.clip, point.matrices)
        return point.attribute(F.store(self.shader(listed)))


class _Listed:
    """All points of a geometry at once, as lists."""

    def attribute(self, table: Variable) -> Variable:
        return table

    @property
    def absorbance(self) -> Variable:
        raise InputError(
            "how much strands hide differs from pixel to pixel: a shader AtPoints cannot read it"
        )


@dataclass(frozen=True)
class KajiyaKay:
    """A shader of strands: the model of Kajiya and Kay (1989), a cylinder too thin to see, under a distant
    light.

    direction: towards the light, in the world.  intensity: its radiance, a number or three.  specular: the
    strength of the highlight.  exponent: how narrow that is.  ambient: light from everywhere. Each may be a
    Variable; differentiable in all.

    >>> KajiyaKay((0.0, 1.0, 0.0)).exponent
    40.0
    """

    direction: Like
    intensity: Like = 1.0
    specular: Like = 0.2
    exponent: Like = 40.0
    ambient: Like = 0.1

    def __call__(self, point: StrandPoint) -> Variable:
        direction = self.direction
        if not isinstance(direction, Variable):
            unit = np.asarray(direction, np.float64)
            direction = F.constant(tuple((unit / max(float(np.linalg.norm(unit)), 1e-12)).tolist()))
        tangent, light, eye = point.tangent, F.normalize(direction), point.to_eye
        along_light, along_eye = F.dot(tangent, light), F.dot(tangent, eye)
        across_light, across_eye = _sine(along_light), _sine(along_eye)
        # The cosine of the angle between the eye and the cone of mirrored light.
        mirrored = F.maximum(across_light * across_eye - along_light * along_eye, 1e-3)
        highlight = F.pow(mirrored, self.exponent) * self.specular
        diffuse = point.colour * (across_light * self.intensity + self.ambient)
        return diffuse + F.vec3(highlight * self.intensity)


def _sine(cosine: Variable) -> Variable:
    return F.sqrt(F.maximum(1.0 - cosine * cosine, 1e-6))
