"""Sums over the fragments of each face, and the tables that follow from them."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ....ad.graph import Domain, PixelFunction, Variable
from ....ad.ops.image.draws import Draw
from ....ad.types import FLOAT, Access, VType, list_size

LARGEST = 64
"""Pixels of a face, on average: one invocation visits them all, one after the other."""


BOXES = 2.5
"""Pixels that an invocation visits for each that its face covers: those of a box, and while others beside it go on."""


class FaceSum(Draw):
    """The sum of each root of ``fragment`` over the fragments of each face, by an invocation a face. A kind of Function of its
    own, made by the planner: FLOAT list of (component, face), all faces of the first component, then those of the next.

    Which pixels a face covers is computed as drivers do, but not on their grid: a pixel whose centre lies within a hundredth of
    a pixel of an edge may count here and not there.
    """

    no_derivative = "is made when a plan is built; take derivatives of what it stands for"

    @cached_property
    def access(self) -> tuple[Access, ...]:
        return (Access.FETCH,) * len(self.inputs)

    @property
    def components(self) -> int:
        return sum(v.vtype.components for v in self.fragment.roots)

    @property
    def iterations(self) -> int:
        return LARGEST

    def reads(self, k: int) -> float:
        """Texels of an input, of one invocation."""
        if k < self.pulled:
            return 3.0 * self.triangles_per_face if k == 0 else 1.0
        formal = self.fragment.formals[k - self.pulled]
        functions = self.fragment.functions
        found = sum(f.reads(n) for f in functions for n, x in enumerate(f.inputs) if x is formal)
        return found if self.fragment.fetched[k - self.pulled] else 8.0 * max(found, 1.0)

    @property
    def working_domain(self) -> Domain:
        return self.drawn

    def infer(self) -> tuple[VType, Domain]:
        self.check_inputs()
        return FLOAT, Domain(list_size(self.faces * self.components), self.batch)

    def evaluate(self, at, *x):
        total = np.zeros((self.batch, self.components, self.faces))
        for here in self.fragments(x, once=True):
            place = here.at.tile.reshape(-1) * self.faces + here.face
            values = [v.reshape(len(v), -1) for v in self.values(here, x)]
            for k, column in enumerate(np.concatenate(values, axis=1).T):
                total[:, k] += np.bincount(place, column, self.batch * self.faces).reshape(self.batch, -1)
        (width, height), batch, _ = self.output.domain
        found = np.zeros((batch, height * width))
        found[:, : self.components * self.faces] = total.reshape(batch, -1)
        return found.reshape(batch, height, width)


class FaceTable(PixelFunction):
    """Input (sums of a ``FaceSum``): a table to which each face adds. pairs: (first component, shift): the face of number n adds
    to the entry n + shift."""

    fields = ("kind", "table", "faces", "pairs")
    no_derivative = "is made when a plan is built; take derivatives of what it stands for"
    kind: VType
    table: Domain
    faces: int
    pairs: tuple[tuple[int, int], ...]

    @property
    def operations(self):
        return 8.0 * len(self.pairs)

    @property
    def fetches(self) -> float:
        return float(len(self.pairs) * self.kind.components)

    @cached_property
    def access(self):
        return (Access.FETCH,)

    def infer(self):
        return self.kind, self.table

    @cached_property
    def glsl(self) -> str:
        width, n = self.inputs[0].size[0], self.kind.components
        lines = ["$y = $type(0.0);", "int index = pixel.y * $size.x + pixel.x, face, at;"]
        for first, shift in self.pairs:
            at = [
                f"$0(ivec2((at + {k * self.faces}) % {width}, (at + {k * self.faces}) / {width}), tile)"
                for k in range(n)
            ]
            lines += [
                f"face = index - ({shift});",
                f"at = face + {first * self.faces};",
                f"if (face >= 0 && face < {self.faces}) $y += $type({', '.join(at)});",
            ]
        return "\n".join(lines)

    def evaluate(self, at, sums):
        x, y, tile = np.broadcast_arrays(at.x, at.y, at.tile)
        rows, index = sums.reshape(len(sums), -1), y * self.table.size[0] + x
        found = np.zeros((*index.shape, self.kind.components))
        for first, shift in self.pairs:
            face = index - shift
            there = (face >= 0) & (face < self.faces)
            for k in range(self.kind.components):
                at_face = (first + k) * self.faces + np.where(there, face, 0)
                found[..., k] += np.where(there, rows[tile, at_face], 0.0)
        return found.reshape(*index.shape, *self.kind.shape)


def entries_of(sums: Variable, faces: int, first: int, kind: VType) -> Variable:
    """Some components of the sums as a list of faces."""
    whole = Domain(list_size(faces), sums.batch)
    return FaceTable(sums, kind=kind, table=whole, faces=faces, pairs=((first, 0),)).output
