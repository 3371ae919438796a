"""Interpolate: attributes of vertices at every pixel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...ad.types import whole
from ...errors import GraphError, InputError
from ..checks import need, one_of, same
from ..graphs.interpolate import interpolated, slopes
from ..layout import Layout, Parts, Spec, entries, image, with_room
from ..operation import Operation


@dataclass(frozen=True)
class Interpolate(Operation):
    """Inputs: attributes (V, A) or (N or 1, V, A), rast (N, H, W, 4), triangles (T, 3), and with ``chosen`` rast_db like
    rast. Outputs: (N, H, W, A), and with ``chosen`` the derivatives of these attributes by pixels."""

    chosen: tuple[int, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return ("attr", "rast", "tri", "rast_db")[: 4 if self.chosen else 3]

    def outputs(self, *given: Spec) -> tuple[tuple[int, ...], ...]:
        attr, rast, tri, *rest = given
        axes = need("attr", attr, "float32", ("V", "A"), ("N", "V", "A"))
        pixels = need("rast", rast, "float32", ("N", "H", "W", 4))
        need("tri", tri, "int32", ("T", 3))
        same("images", "rast", pixels["N"], "attr", axes.get("N", 1), broadcasts=True)
        main = (*rast.shape[:3], axes["A"])
        if not self.chosen:
            return (main,)
        need("rast_db", rest[0], "float32", rast.shape)
        wrong = [k for k in self.chosen if not 0 <= k < axes["A"]]
        if wrong:
            raise InputError(f"diff_attrs names attribute {wrong[0]}; there are {axes['A']}, counted from 0")
        return main, (*rast.shape[:3], 2 * len(self.chosen))

    def complete(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        attr, rast, tri, *rest = arrays
        return [with_room(attr), rast, with_room(tri), *rest]

    def layouts(self, *given: Spec) -> tuple[Layout, ...]:
        attr, rast, tri, *rest = given
        return entries(attr), image(rast), entries(tri), *map(image, rest)

    def graph(self, *inputs: Parts) -> tuple[Parts, ...]:
        tables, (rast,), (triangles,), *rest = inputs
        at, found = interpolated(tables, rast, triangles)
        if not self.chosen:
            return (found,)
        return found, slopes(tables, at, rest[0][0], self.chosen)


def chosen_attributes(diff_attrs: object, count: int, has_db: bool) -> tuple[int, ...]:
    """The attributes whose derivatives by pixels are wanted: "all", numbers, or None. has_db: whether there is what they
    are made of, the second output of ``rasterize``. Raises InputError."""
    chosen = _chosen(diff_attrs, count)
    if chosen and not has_db:
        raise InputError("diff_attrs needs rast_db, the second output of rasterize")
    return chosen


def _chosen(diff_attrs: object, count: int) -> tuple[int, ...]:
    if diff_attrs is None:
        return ()
    if isinstance(diff_attrs, str):
        one_of("diff_attrs", diff_attrs, ("all",))
        return tuple(range(count))
    try:
        return tuple(whole(k, "diff_attrs", 0) for k in diff_attrs)  # type: ignore[attr-defined]
    except (GraphError, TypeError):
        raise InputError(
            f"diff_attrs is 'all' or a list of attributes by number, not {diff_attrs!r}"
        ) from None
