"""HardSoftRas (Takimoto et al. 2022, section 3.4): the soft silhouette of a mesh, by one of three estimators.

- "face": the paper's. Layers of enlarged faces are peeled off; distances to the edges of each (``forms.face``).
- "outer": hard inside, soft outside of the outline (``forms.outer``). Its derivative agrees with finite differences of the
  rendered loss.
- "edges": the hard picture with the derivative of pictures of many samples a pixel (``forms.pairs``), for whatever is
  shaded, without a radius: losses of blurred pictures bring the reach.

The outer form draws only possible silhouette edges: its cost grows with the margin around these, not with the image.

The face form has the modes of the paper (figure 6) as presets, ``mode``; options given explicitly override them:

    "aa"        K = 1, r and delta one pixel: similar to antialiasing, on all pixels along the outline
    "default"   K = 3, r = 0.01: sharp inside, soft around the outline
    "softras"   K = 5, r = 0.1, sigma = 0.0285, E = 1 everywhere: soft inside of the outline too
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, Literal, NotRequired, TypedDict, Unpack, overload

from ...ad.graph import Variable
from ...ad.graph.types import IVEC3, Size, size_of
from ...ad.ops.pixel.constant import Like
from ...errors import InputError, did_you_mean
from ..core.lists import as_list
from ..surface.projection import clip_list
from ..surface.screen import DrawnMesh
from .edges.edge_list import EdgeList
from .face import FACE, SoftLayer, SoftLayers
from .form import Form, Silhouette, known_form
from .outer import OUTER, EdgeSilhouette
from .pairs import EDGES, Edged

FORMS: dict[str, Form] = {form.name: form for form in (FACE, OUTER, EDGES)}
"""The estimators of the silhouette and of its derivative, by name."""
SOFT_FORMS: dict[str, Form] = {name: form for name, form in FORMS.items() if form.soft}
"""Those that take a radius, which says how far the derivative reaches."""


class Drawing(TypedDict):
    """Arguments of every form."""

    size: Size
    face_count: int
    cull: NotRequired[str]


@overload
def hard_soft_ras(
    position: Variable, faces: Variable, *, form: Literal["face"] = "face", radius: Like | None = None,
    mode: str | None = None, layers: int | None = None, sigma: Like | None = None, delta: Like | None = None,
    **drawing: Unpack[Drawing],
) -> SoftLayers: ...  # fmt: skip
@overload
def hard_soft_ras(
    position: Variable, faces: Variable, *, form: Literal["outer"], radius: Like, edges: EdgeList | None = None,
    smooth_edge: bool = False, **drawing: Unpack[Drawing],
) -> EdgeSilhouette: ...  # fmt: skip
@overload
def hard_soft_ras(
    position: Variable, faces: Variable, *, form: Literal["edges"], edges: EdgeList | None = None,
    crossings: bool = True, **drawing: Unpack[Drawing],
) -> Edged: ...  # fmt: skip
@overload
def hard_soft_ras(position: Variable, faces: Variable, *, form: str, **options: Any) -> Silhouette: ...
def hard_soft_ras(
    position: Variable,
    faces: Variable,
    *,
    size: Size,
    face_count: int,
    cull: str = "none",
    form: str = "face",
    mode: str | None = None,
    **options: Any,
) -> Silhouette:
    """The soft silhouette of a mesh (Dressi, section 3.4) by one of three estimators, with what a colour picture needs.

    form: "face" (``SoftLayers``), "outer" (``EdgeSilhouette``) or "edges" (``Edged``), defined in the modules named above.
    position: VEC4 list in clip space, batch N (views).  faces: IVEC3 list, the first ``face_count`` are drawn.
    size: of the images.  cull: "none" or "back".  mode (face): a preset, see above.

    Options of some forms (None means the default):
    radius (all but edges): fraction of the image height in (0, 1); needed without a mode. Less than half of a pixel, 0
    and negative values of a Variable included, counts as that; the derivative goes on.
    layers (face): how many are peeled, 3.  delta (face): half width of the band E, radius; ``math.inf``: E = 1.
    sigma (face): softness, radius / 7.
    smooth_edge (outer): a margin that is flat at the outline, for second derivatives, False.
    crossings (edges): whether the edges along which surfaces pass through each other have a derivative, True; False for
    shapes that are learned and may fold through themselves.
    edges (all but face): ``edge_list`` of the faces, by default made of the data of ``faces``, and of the positions
    where what they are computed from has data: faces that share no vertices, but meet at equal positions, are one surface.

    radius, sigma and delta are numbers or FLOAT 1x1 Variables; leaves can be sent between steps without a new
    build. The form and the layers determine the graph: other ones need a build of their own.

    Images have size ``size`` and batch N. Differentiable in position, any number of times; derivatives keep
    the choice of each pixel, its faces and its nearest edge, fixed. Faces are clipped at the near plane; a face with a NaN
    or infinite corner is dropped. Raises InputError for options, GraphError for types.

    >>> cube, camera = primitives.cube(), Camera.perspective(45, (32, 32), (0, 0, 4), (0, 0, 0))
    >>> clip = to_clip(cube.positions, camera.world_to_clip)
    >>> soft = hard_soft_ras(clip, cube.faces, size=(32, 32), face_count=12, form="outer", radius=0.1)
    >>> soft.silhouette.shape
    (1, 32, 32)
    """
    return draw_form(known_form(form, FORMS), position, faces, size, face_count, cull, mode=mode, **options)


def check_names(function: Callable[..., Any], options: Iterable[str]) -> None:
    """Raises InputError for an option that no form has, with the nearest argument of the function or option of a form."""
    known = frozenset[str]().union(*(form.options for form in FORMS.values()))
    for name in options:
        if name not in known:
            near = did_you_mean(name, [*inspect.signature(function).parameters, *known])
            raise InputError(f"{function.__name__} has no argument '{name}'{near or '; leave it out'}")


def draw_form(
    form: Form,
    position: Variable,
    faces: Variable,
    size: Size,
    face_count: int,
    cull: str = "none",
    *,
    mode: str | None = None,
    keep: Callable[[Variable], Variable] | None = None,
    **options: Any,
) -> Silhouette:
    """``hard_soft_ras`` by a record: the same arguments, checked.  keep: see ``DrawnMesh``."""
    size = size_of(size)
    check_names(hard_soft_ras, options)
    given = form.arguments(size, mode, options)
    position, faces = clip_list(position), as_list("faces", IVEC3, faces)
    return form.draw(DrawnMesh(position, faces, size, face_count, cull, keep), **given)


__all__ = ["FORMS", "SOFT_FORMS", "SoftLayer", "SoftLayers", "draw_form", "hard_soft_ras"]
