"""Peeled layers, drawn by a form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import InputError
from ..forms.antialias import ANTIALIAS
from ..forms.contour import CONTOUR
from ..forms.form import Form
from ..forms.hard import HARD
from ..forms.outer import OUTER
from ..surface.screen import DrawnMesh
from .margins import contour_layers, outer_layers
from .peel import peel
from .stacks import Layered, antialiased_layers, hard_layers

LAYERED: dict[Form, Callable[..., Layered]] = {
    HARD: hard_layers, ANTIALIAS: antialiased_layers, OUTER: outer_layers, CONTOUR: contour_layers,
}  # fmt: skip
"""How the forms draw peeled faces."""


def draw_layers(form: Form, mesh: DrawnMesh, opaque: int, layers: int = 4, **options: Any) -> Layered:
    """The picture of a mesh whose faces from number ``opaque`` on are transparent.

    form: one of ``LAYERED``; not that of faces, whose layers are soft faces already, each half transparent along the edges that it
    shares with the next.  layers: of transparent faces, ``peel``.  options: of the form. Differentiable in the positions: through the
    surfaces, and as the form is through the silhouettes of every layer. Raises InputError.
    """
    check_layered(form)
    return LAYERED[form](peel(mesh, opaque, layers), **options)


def check_layered(form: Form, node: str = "") -> None:
    """Raises InputError for a form that draws no layers. node: the name of one that is transparent, if it has one."""
    if form not in LAYERED:
        able = ", ".join(f"'{other.name}'" for other in LAYERED)
        what = f"node '{node}' is transparent, and the" if node else "the"
        raise InputError(
            f"{what} {form.name} form draws no transparent surfaces, because its soft faces overlap along every edge of the mesh;"
            f" take form={able}"
        )
