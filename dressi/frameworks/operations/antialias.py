"""Antialias: silhouettes blended between neighbouring pixels."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from ..checks import need, same
from ..graphs.antialias import antialiased, edge_tables, spans
from ..layout import Layout, Parts, Spec, entries, image, with_room
from ..operation import Operation

KEPT = 8
"""Topologies whose edges are kept."""


@dataclass(frozen=True)
class Antialias(Operation):
    """Inputs: colours (N, H, W, C), rast (N, H, W, 4), positions (N, V, 4) or (V, 4), triangles (T, 3). Output: like the
    colours."""

    ranged: bool = False
    """Whether the images share the positions, and each shows a range of the triangles."""

    names = ("color", "rast", "pos", "tri")

    def outputs(self, *given: Spec) -> tuple[tuple[int, ...], ...]:
        color, rast, pos, tri = given
        axes = need("color", color, "float32", ("N", "H", "W", "C"))
        need("rast", rast, "float32", (axes["N"], axes["H"], axes["W"], 4))
        shape = ("V", 4) if self.ranged else ("N", "V", 4)
        batch = need("pos", pos, "float32", shape).get("N", 1)
        same("images", "color", axes["N"], "pos", batch, broadcasts=self.ranged)
        need("tri", tri, "int32", ("T", 3))
        return (color.shape,)

    def complete(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        color, rast, pos, tri = arrays
        edges, neighbours = edges_of(tri)
        room = with_room(edges)
        if len(room) > len(edges):
            room[len(edges) :, 2:] = -1  # no faces: never drawn
        lists = [pos, tri, room, neighbours, *([spans(tri, len(pos))] if self.ranged else [])]
        return [color, rast, *map(with_room, lists)]

    def layouts(self, *given: Spec) -> tuple[Layout, ...]:
        color, rast, *lists = given
        return image(color), image(rast), *map(entries, lists)

    def graph(self, *inputs: Parts) -> tuple[Parts, ...]:
        colours, (rast,), (position,), *tables = inputs
        lists = [table for (table,) in tables]
        return (antialiased(colours, rast, position, *lists),)


_kept: OrderedDict[bytes, tuple[np.ndarray, np.ndarray]] = OrderedDict()


def edges_of(triangles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``edge_tables`` of triangles; those of the last few topologies are kept."""
    key = blake2b(np.ascontiguousarray(triangles).data, digest_size=16).digest()
    if key not in _kept:
        _kept[key] = edge_tables(triangles)
        if len(_kept) > KEPT:
            _kept.popitem(last=False)
    _kept.move_to_end(key)
    return _kept[key]
