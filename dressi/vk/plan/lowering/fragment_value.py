"""A value that the fragments of a raster write beside the number of their face."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from ....ad.graph import Domain, Function, RasterFunction, Variable
from ....ad.ops.image.draws import FragmentGraph
from ....ad.ops.image.texels import fetch
from ....ad.transform.rewrite import substitute
from ....ad.types import Access, VType


class FragmentValue(Function):
    """Inputs (raster, *externals): root ``number`` of a graph over the number of the winning face, where a face covers the
    pixel, else ``background``, a component each. A kind of Function of its own, made by the planner: the subpass that
    draws the raster writes it.
    """

    fields = ("graph", "number", "background")
    operations = 0.0  # those of the graph count
    no_derivative = "is made when a plan is built; take derivatives of what it stands for"
    graph: FragmentGraph
    number: int
    background: tuple[float, ...]

    @property
    def raster(self) -> RasterFunction:
        raster = self.inputs[0].creator
        assert isinstance(raster, RasterFunction), f"{raster!r} draws nothing"
        return raster

    @property
    def root(self) -> Variable:
        return self.graph.roots[self.number]

    @property
    def actual(self) -> dict[Variable, Variable]:
        """The image that each formal input of the graph stands for."""
        return dict(zip(self.graph.formals, self.inputs[1:], strict=True))

    @property
    def everywhere(self) -> Variable:
        """The same value from the number of the face by Functions at each pixel."""
        return substitute([self.root], {self.graph.face: self.inputs[0], **self.actual})[0]

    @cached_property
    def access(self):
        fetched = (Access.FETCH if f else Access.SAME_PIXEL for f in self.graph.fetched)
        return (Access.SAME_PIXEL, *fetched)

    def reads(self, k: int) -> float:
        """Texels of an external."""
        formal = self.graph.formals[k - 1] if k else self.graph.face
        return sum(f.reads(n) for f in self.graph.functions for n, x in enumerate(f.inputs) if x is formal)

    @property
    def iterations(self) -> int:
        return sum(f.iterations for f in self.graph.functions)

    @property
    def places(self) -> frozenset[str]:
        return frozenset(("pixel",))

    def infer(self) -> tuple[VType, Domain]:
        return self.root.vtype, self.inputs[0].domain

    def known_value(self, known):
        return self.missed if 0 in known and known[0] < 0 else None

    @property
    def missed(self) -> np.ndarray:
        """The value where no face covers the pixel."""
        return np.reshape(self.background, self.root.vtype.shape)

    def evaluate(self, at, face, *externals):
        given = dict(zip(self.graph.formals, zip(externals, self.graph.fetched, strict=True), strict=True))

        def read(v: Variable, access: Access) -> np.ndarray:
            values, whole = (face, False) if v is self.graph.face else given[v]
            return fetch(values, at) if whole and access is Access.SAME_PIXEL else values

        inside = replace(self.graph, roots=(self.root,))
        (found,) = inside.evaluate(at, read, np.result_type(*externals, np.float32))
        covered = np.reshape(face >= 0, (*face.shape, *(1 for _ in self.root.vtype.shape)))
        return np.where(covered, found, self.missed)
