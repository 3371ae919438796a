"""HardSoftRas (Takimoto et al. 2022, section 3.4): the soft silhouette of a mesh, in three forms behind one call.

- "face": the paper's. Layers of enlarged faces are peeled off; distances to the edges of each (``face_form``).
- "outer": hard inside, soft outside of the outline (``outer_form``). Its derivative is that of the picture drawn again.
- "silhouette": soft on both sides of the outline (``silhouette_form``).

The last two draw the edges that may be silhouettes: their work is that of the margin around them, not of the image.
"""

from __future__ import annotations

import inspect
from typing import Any, Literal, NotRequired, TypedDict, Unpack, overload

from ..ad.constant import Like
from ..ad.graph import Variable
from ..ad.types import Size
from ..errors import InputError
from .around_edges import EdgeSilhouette
from .edges import EdgeList
from .face_form import SoftLayer, SoftLayers, face_form
from .outer_form import outer_form
from .screen import DrawnMesh
from .silhouette import Silhouette, fraction
from .silhouette_form import silhouette_form

FORMS = {"face": face_form, "outer": outer_form, "silhouette": silhouette_form}
"""How distances are measured."""


class Drawing(TypedDict):
    """What all forms take."""

    size: Size
    radius: Like
    face_count: int
    cull: NotRequired[str]


@overload
def hard_soft_ras(
    position: Variable, faces: Variable, *, form: Literal["face"] = "face", layers: int | None = None,
    sigma: Like | None = None, delta: Like | None = None, **drawing: Unpack[Drawing],
) -> SoftLayers: ...  # fmt: skip
@overload
def hard_soft_ras(
    position: Variable, faces: Variable, *, form: Literal["outer"], edges: EdgeList | None = None,
    **drawing: Unpack[Drawing],
) -> EdgeSilhouette: ...  # fmt: skip
@overload
def hard_soft_ras(
    position: Variable, faces: Variable, *, form: Literal["silhouette"], sigma: Like | None = None,
    edges: EdgeList | None = None, **drawing: Unpack[Drawing],
) -> EdgeSilhouette: ...  # fmt: skip
@overload
def hard_soft_ras(position: Variable, faces: Variable, *, form: str, **options: Any) -> Silhouette: ...
def hard_soft_ras(
    position: Variable,
    faces: Variable,
    *,
    size: Size,
    radius: Like,
    face_count: int,
    cull: str = "none",
    form: str = "face",
    **options: Any,
) -> Silhouette:
    """The soft silhouette of a mesh (Dressi, section 3.4) in one of three forms, and what is seen of it in colour.

    form: "face" (``SoftLayers``), "outer" or "silhouette" (``EdgeSilhouette``), defined in the modules named above.
    position: VEC4 list in clip space, batch N (views).  faces: IVEC3 list, the first ``face_count`` are drawn.
    size: of the images.  radius: fraction of the image height in (0, 1), a number or a FLOAT 1x1 Variable, which
    can then change from step to step.  cull: "none" or "back".

    Options of some forms; one that is None, or left out, has its default:
    layers (face): how many are peeled, 3.  delta (face): half width of the band E, radius.
    sigma (face, silhouette): softness, radius / 7.
    edges (outer, silhouette): ``edge_list`` of the faces, made of the data of ``faces``.

    Images have size ``size`` and batch N. Differentiable in position. Faces with a corner behind the viewer or in
    front of the near plane are dropped. Raises InputError for options, GraphError for types.
    """
    if form not in FORMS:
        raise InputError(f"form is one of {', '.join(FORMS)}, not {form!r}")
    draw: Any = FORMS[form]
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in inspect.signature(draw).parameters:
            raise InputError(f"{name} has no meaning in the {form} form; leave it out")
    mesh = DrawnMesh(position, faces, (int(size[0]), int(size[1])), face_count, cull)
    return draw(mesh, fraction("radius", radius), **given)


__all__ = ["FORMS", "SoftLayer", "SoftLayers", "hard_soft_ras"]
