"""Images read by an index map, and the exact transpose of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import inf, prod

import numpy as np

from ...graph import Domain, Variable
from ...graph.index_map import Affine, IndexMap, wrapped
from ...graph.preimage import NAMES, Preimage, preimage
from ...graph.snippet import add_compensated
from ..coordinates.coordinates import shape_of
from .reduce import LOST, SumOfParts
from .texels import Fetching

MOST = 256
"""The largest number of texels that a transpose may sum in one loop. What sums more is gathered axis by axis."""


class Gather(Fetching):
    """Texel p of the output is texel ``map`` of p of the input, or what its border says where that is outside.

    domain: of the output; its batch and channels are those of the input if the map leaves these axes alone. transposed:
    the transpose instead: texel q of the output is the sum of the texels p of the input with map(p) = q.
    length: 0, or the number of texels in a partial sum of the transpose. The partial sums of a texel are then in
    consecutive tiles.
    """

    fields = ("map", "domain", "transposed", "length")
    map: IndexMap
    domain: Domain
    transposed: bool = False
    length: int = 0

    def infer(self):
        return self.inputs[0].vtype, Domain(
            self.whole.size, self.whole.tiles * self.parts, self.whole.channels if self.parts == 1 else 1
        )

    @property
    def whole(self) -> Domain:
        """Of the output, without the tiles of partial sums."""
        return self.inputs[0].domain._replace(size=self.domain.size) if self.own_tile else self.domain

    @property
    def own_tile(self) -> bool:
        """Whether each tile is made from that tile of the input."""
        return self.map[:2] == (Affine.axis(0), Affine.axis(1))

    @cached_property
    def _readers(self) -> Preimage:
        """Of a texel, of the map that is transposed."""
        x, y = shape_of(self.inputs[0].domain), shape_of(self.whole)
        return preimage(self.map, y, x) if self.transposed else preimage(self.map, x, y)

    # ---- work
    @property
    def footprint(self) -> float:
        return self.map.footprint(shape_of(self.inputs[0].domain))

    @property
    def moves(self) -> bool:
        """Whether it reads texels at a fixed distance, as stencils do."""
        texels = shape_of(self.inputs[0].domain)
        return self.map._replace(border="zero").footprint(texels) < inf

    @cached_property
    def operations(self) -> float:
        leaving = sum(map(self._readers.leaves, range(4)))
        if not self.transposed:
            return 2.0 + 4.0 * leaving
        return 14.0 + 8.0 * leaving if self.iterations else 2.0 * self.fetches

    @cached_property
    def iterations(self) -> int:
        if not self.transposed or (self._few is not None and not self._few[0]):
            return 0
        return self.length or self._readers.iterations

    @property
    def fetches(self) -> float:
        few = float(self._readers.iterations or 1)
        return min(max(self._readers.average, 1.0), few) if self.transposed else 1.0

    @property
    def parts(self) -> int:
        """The number of partial sums of a texel."""
        return self._readers.parts(self.length) if self.length else 1

    def shortened(self, most):
        readers, x = self._readers, self.inputs[0]
        axes = [step.axis for step in readers.loops]
        if not self.transposed or self.length or not self.own_tile or most < 2:
            return None
        if any(readers.folds(k) != range(1) for k in range(4)):
            return None
        if len(axes) == 1:
            partial = Gather(x, self.map, self.domain, True, most)
            return SumOfParts(partial.output, partial.parts, self.whole.channels).output
        if self.map.x.axes == (3,) and self.map.y.axes == (2,):
            across = x.domain._replace(size=(self.domain.size[0], x.size[1]))
            first = Gather(x, IndexMap.of(x=self.map.x, border=self.map.border), across, True).output
            return Gather(first, IndexMap.of(y=self.map.y, border=self.map.border), self.domain, True).output
        return None

    def known_value(self, known):
        kept = not self.transposed and (
            self.map.border != "zero" or not any(map(self._readers.leaves, range(4)))
        )
        return known[0] if 0 in known and (kept or not np.any(known[0])) else None

    # ---- meaning
    @property
    def _names(self) -> dict[int, str]:
        """GLSL of the axes of the texel that is computed."""
        tile = f"tile / {self.parts}" if self.parts > 1 else "tile"
        return {0: tile, 1: "0", 2: "pixel.y", 3: "pixel.x"}

    @cached_property
    def _fixed(self) -> dict[int, str]:
        """GLSL of the axes of the readers of a texel for which no loop is needed."""
        one = {a: "0" for a, n in enumerate(shape_of(self.inputs[0].domain)) if n == 1}
        return one | ({0: self._names[0], 1: "0"} if self.own_tile else {})

    @cached_property
    def _few(self) -> tuple[list[str], list[dict[int, str]]] | None:
        return None if self.length else self._readers.straight(self._names, self._fixed)

    @cached_property
    def glsl(self) -> str:
        if self.transposed:
            return self._summed
        shape, out = shape_of(self.inputs[0].domain), shape_of(self.output.domain)
        tests: list[str] = []
        for affine, extent in zip(self.map.affines, shape, strict=True) if self.map.border == "zero" else ():
            tests += affine.inside_glsl(self._names, extent, affine.bounds(out))
        value = _texel(self.map.glsl(self._names, shape, out))
        return f"{' && '.join(tests)} ? {value} : $type(0)" if tests else value

    @property
    def _summed(self) -> str:
        """The snippet of a transpose: straight where the number of readers is known, else loops over them."""
        tests, readers = self._few or ([], [])
        total = " + ".join(map(_texel, readers))
        if readers and not tests:
            return total
        each, lost = _texel(NAMES | self._fixed), LOST if self.iterations > MOST else ""
        body = f"{{ {add_compensated(each)} }}" if lost else f"$y += {each};"
        loops = self._readers.glsl(self._names, body, self._fixed, f"tile % {self.parts}", self.length)
        loops = f"$y = $type(0);\n{lost}{loops}"
        return f"if ({' && '.join(tests)}) $y = {total};\nelse {{ {loops} }}" if readers else loops

    def evaluate(self, at, x):
        if self.transposed:
            return self._scattered(x)[at.tile, at.y, at.x]
        axes = {0: at.tile, 1: np.zeros_like(at.tile), 2: at.y, 3: at.x}
        texel, inside = self._texels(axes, shape_of(self.inputs[0].domain))
        # Images of one texel along an axis may be arrays of one texel that stand for more.
        values = x[tuple(0 * i if n == 1 else i for i, n in zip(texel, x.shape[:3], strict=True))]
        return np.where(inside.reshape(inside.shape + (1,) * (values.ndim - 3)), values, 0)

    def _texels(self, axes, taken):
        """((tile, y, x), inside) of the texels that the map gives for the values of its axes."""
        zero, inside, texel = sum((0 * a for a in axes.values()), np.zeros((), int)), np.bool_(True), []
        for affine, extent in zip(self.map.affines, taken, strict=True):
            index = affine.values(axes) + zero
            inside = inside & affine.whole_at(axes)
            if self.map.border == "zero":
                inside = inside & (index >= 0) & (index < extent)
                index = np.clip(index, 0, extent - 1)
            else:
                index = wrapped(index, extent, self.map.border)
            texel.append(index)
        n, _, y, x = texel
        return (n, y, x), np.broadcast_to(inside, zero.shape)

    def _scattered(self, g):
        """The sums of a transpose at all texels."""
        g = np.broadcast_to(g, self.inputs[0].tiled)
        tiles, height, width = g.shape[:3]
        (w, h), count, _ = self.output.domain
        axes: dict[int, np.ndarray] = dict(zip((0, 2, 3), np.ogrid[:tiles, :height, :width], strict=True))
        axes[1] = np.zeros((1, 1, 1), int)
        (n, y, x), inside = self._texels(axes, shape_of(self.whole))
        if self.length:
            (step,) = self._readers.loops
            n = n * self.parts + axes[step.axis] // self.length % self.parts
        total = np.zeros((count * h * w, *g.shape[3:]), g.dtype)
        np.add.at(total, ((n * h + y) * w + x)[inside], g[inside])
        return total.reshape(count, h, w, *g.shape[3:])

    # ---- derivatives
    def transpose(self, gy):
        x = self.inputs[0]
        if self.length:
            raise self.fail("is made when a plan is built; take derivatives of whole sums")
        if self.transposed:
            return Gather(gy, self.map, x.domain).output
        inverse = self._readers.inverse()
        if inverse is None:
            return Gather(gy, self.map, x.domain, True).output
        if self.own_tile:
            inverse = inverse._replace(n=Affine.axis(0), c=Affine.axis(1))
        return Gather(gy, inverse, x.domain).output

    @property
    def cheap(self) -> bool:
        """Whether its transpose reads about as few texels as it does itself."""
        readers = self._readers
        written = prod(readers.shape) / prod(readers.taken)
        return readers.iterations <= MOST and readers.average <= max(4 * written, 1.0)


def gather(
    x: Variable, size: tuple[int, int], across: Affine, down: Affine, border: str = "zero"
) -> Variable:
    """An image of another size whose columns are the columns ``across`` of x, and its rows the rows ``down``; axis by axis
    where that keeps the sums of the transpose short."""
    whole = Gather(x, IndexMap.of(x=across, y=down, border=border), x.domain._replace(size=size))
    if whole._readers.iterations <= MOST or across == Affine.axis(3) or down == Affine.axis(2):
        return whole.output
    first = gather(x, (size[0], x.size[1]), across, Affine.axis(2), border)
    return gather(first, size, Affine.axis(3), down, border)


def _texel(at: Mapping[int, str] | Sequence[str]) -> str:
    """GLSL that reads the texel at (n, c, y, x)."""
    return f"$0(ivec2({at[3]}, {at[2]}), {at[0]})".replace("ivec2(pixel.x, pixel.y)", "pixel")
