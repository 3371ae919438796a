"""Unlit and Lambert shading. All colours are linear."""

from __future__ import annotations

from ...ad import functional as F
from ...ad.graph import Variable, as_variable
from ...ad.ops.pixel.constant import Like
from ..surface.screen import covered


def unlit(albedo: Variable, face: Variable) -> Variable:
    """VEC3: the albedo where there is a face (INT, -1 for none), else 0.

    >>> unlit(Variable(VEC3, (32, 32)), Variable(INT, (32, 32))).shape
    (1, 32, 32, 3)
    """
    return F.select(covered(face), albedo, 0.0)


def lambert(
    albedo: Variable, normal: Variable, direction: Like, colour: Like = 1.0, ambient: Like = 0.0
) -> Variable:
    """VEC3: ``albedo * (ambient + colour * max(dot(normal, direction), 0))``.

    normal: VEC3, normalised here; 0 where there is no surface.  direction: VEC3 towards the light, in the space
    of the normals, normalised here.  colour and ambient: FLOAT or VEC3. Arguments may be images, one value a
    view, or constants. Differentiable in all of them.

    >>> lambert(Variable(VEC3, (32, 32)), Variable(VEC3, (32, 32)), (0.0, 1.0, 0.0), ambient=0.1).shape
    (1, 32, 32, 3)
    """
    towards = F.normalize(as_variable(direction))
    cosine = F.maximum(F.dot(F.normalize(normal), towards), 0.0)
    return albedo * F.add(F.mul(colour, cosine), ambient)
