"""Images read by an index map."""

from __future__ import annotations

from functools import cached_property
from math import prod

from ...contract.contraction import ContractFunction
from ...contract.derivative import Space, readers_of
from ...contract.readers import Readers
from ...contract.terms import shape_of as image_shape
from ...coordinates import shape_of
from ...graph import Domain, Variable
from ...graph.index_map import Affine, IndexMap

MOST = 256
"""The most texels that a transpose sums in one loop; beyond it images are gathered axis by axis."""


class Gather(ContractFunction):
    """Texel p of the output is texel ``map`` of p of the input, or what its border says outside.

    domain: of the output; its batch and channels are those of the input if the map leaves these axes alone.
    The map takes all tiles for images without channels. A contraction of one term.
    """

    fields = ("map", "domain")
    map: IndexMap
    domain: Domain
    reduced = ()

    @property
    def own_tile(self) -> bool:
        return self.map[:2] == (Affine.axis(0), Affine.axis(1))

    @cached_property
    def parallel(self) -> tuple[tuple[int, ...], ...]:
        whole = self.inputs[0].domain._replace(size=self.domain.size) if self.own_tile else self.domain
        return (whole.batch,), (whole.channels,), (whole.size[1],), (whole.size[0],)

    @cached_property
    def maps(self) -> tuple[IndexMap, ...]:
        if not self.own_tile and self.inputs[0].channels > 1:
            raise self.fail("other tiles are read of images without channels")
        (channels,) = self.parallel[1]
        if channels == 1:
            return (self.map,)
        m = self.map.substituted({0: Affine.of({0: channels, 1: 1}), 1: Affine()})
        assert m is not None  # the number of a tile is whole
        return (m._replace(n=Affine.axis(0), c=Affine.axis(1)) if self.own_tile else m,)

    @property
    def footprint(self) -> float:
        return self.map.footprint(shape_of(self.inputs[0].domain))

    @cached_property
    def readers_of_texels(self) -> Readers:
        """The inverse map: the output texels that read an input texel."""
        return readers_of(Space.of(self), self.maps[0], image_shape(self.inputs[0]))

    @property
    def operations(self) -> float:
        return 2.0 + 4.0 * sum(map(self.readers_of_texels.leaves, range(4)))

    def known_value(self, known):
        """What is read, where it is the same everywhere; beyond a border it may be zero."""
        kept = self.map.border != "zero" or not any(map(self.readers_of_texels.leaves, range(4)))
        return known[0] if 0 in known and (kept or not known[0].any()) else None

    @property
    def cheap(self) -> bool:
        """Whether the transpose reads about as few texels as the gather."""
        readers = self.readers_of_texels
        written = prod(self.shape) / prod(image_shape(self.inputs[0]))
        return readers.iterations <= MOST and readers.average <= max(4 * written, 1.0)


def gather(
    x: Variable, size: tuple[int, int], across: Affine, down: Affine, border: str = "zero"
) -> Variable:
    """An image of another size that reads the columns ``across`` and rows ``down`` of x; axis by axis if that
    keeps the sums of the transpose short."""
    whole = Gather(x, IndexMap.of(x=across, y=down, border=border), x.domain._replace(size=size))
    if whole.readers_of_texels.iterations <= MOST or across == Affine.axis(3) or down == Affine.axis(2):
        return whole.output
    first = gather(x, (size[0], x.size[1]), across, Affine.axis(2), border)
    return gather(first, size, Affine.axis(3), down, border)
