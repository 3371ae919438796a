"""Scatters add in 64-bit fixed point: the layout of their accumulators. ``fixed_point.glsl`` adds to them.

Integer addition modulo 2^64 is associative, so a sum has the same bits in any order of the additions, and
with one 64-bit atomic or two 32-bit atomics and a carry. Each component of a table cell has one or several
64-bit accumulators, called *slots*:

- If the scatter has a *bound* on the absolute values, there is one slot. Its unit is 2^-bits of the power of
  two above the bound. A cell gets at most 2^k additions, and bits = min(40, 62 - k), so that the sum cannot
  overflow.
- If the bound is infinite, several slots cover all magnitudes from 2^-60 on, so that nothing has to be
  measured before. A float has 24 significant bits; it is added, without rounding, to the slot that contains
  its lowest bit, and rounded to a multiple of 2^-60 where that is smaller. A slot covers W = min(40 - k, 24)
  exponents: its addends have 23 + W bits and its sum at most 63.

Most values are below 2^24. The few slots for these, the *near* ones, are all that a step usually touches. The
*far* slots lie behind those of all cells, and behind them a slot of flags for each cell. Its first word says
whether anything of the cell is in far slots, which are read only then. Its second word has two bits for each
component: it got values of inf, or of -inf; NaN sets both. The sum is then what it is of floats. Tables that
would need too much memory have no far slots (``FAR_BYTES``): they clamp values and report it.

Example: 6 views of 256x256 with 9 pairs give k = ceil(log2(3538944)) = 22. With a bound, bits = 40. Without
one, W = 18 and there are four near and six far slots.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from ....ad.graph import AccumulateFunction, FragmentScatterFunction, RasterFunction
from ....ad.ops.pixel.constant import constant_value
from .substage import Kept, SubStage

LOWEST, HIGHEST = -60, 24  # exponents of the lowest bit, and of what is above all values, in near slots
LAST = 104  # exponent of the last bit of the largest floats
MANTISSA = 24  # significant bits of a float
# Of the accumulators of a table with far slots: every device allows a buffer of this size.
FAR_BYTES = 1 << 27
# The same of sums over the fragments of a pixel: floats that are blended have any magnitude.
FAR_BYTES_OF_SUMS = 1 << 30
MOST_BITS = 40  # with a bound: values above 2^-16 of the bound are added without rounding
FRAGMENTS = 32  # a draw adds at most 2^32 fragments to one cell: more take longer than drivers allow
EXACT = 24  # integers of at most this many bits are exact as floats


@dataclass(frozen=True)
class Accumulators:
    """The accumulators of a table: ``cells`` texels, each with ``components``, each with ``slots``.

    Sums use 64-bit integers, maxima (``adding`` is False) 32-bit integers.  bits: the unit of a slot is
    2^-bits of the power of two above the bound; 0 without a bound.  width: exponents that a slot covers.
    slots: the near ones.  far: those for larger values.  nearest: keys of the nearest face of a pixel, in 64 bits.
    """

    cells: int
    components: int
    slots: int = 1
    bits: int = 0
    width: int = EXACT
    adding: bool = True
    far: int = 0
    nearest: bool = False

    @property
    def words(self) -> int:
        """32-bit words of all cells."""
        return self.cells * self.words_of_cell

    @property
    def words_of_cell(self) -> int:
        return (self.components * (self.slots + self.far) + int(self.far > 0)) * (
            2 if self.adding or self.nearest else 1
        )

    @property
    def touched_words(self) -> int:
        """32-bit words of all cells that a step touches where nothing is far."""
        return replace(self, far=0).words + 2 * self.cells * int(self.far > 0)

    def bands(self, most: int) -> range:
        """The first cell of each band: a part of the table that fits a storage buffer of so many bytes."""
        return range(0, self.cells, most // (4 * self.words_of_cell))

    def buffer_numbers(self, most: int) -> int:
        """Components of all cells of the buffer, which holds one band."""
        return min(self.cells, self.bands(most).step) * self.components

    def buffer_words(self, most: int) -> int:
        """32-bit words of the buffer."""
        return min(self.cells, self.bands(most).step) * self.words_of_cell


def accumulators_of(f: Kept) -> Accumulators:
    """The layout of the accumulators of a scatter, or of a draw by a dispatch."""
    if isinstance(f, RasterFunction):
        return Accumulators(f.output.domain.texels, 1, adding=False, nearest=True)
    cells, components = f.table.texels, f.output.vtype.components
    if f.operation == "max":
        return Accumulators(cells, components, adding=False)
    if isinstance(f, FragmentScatterFunction | AccumulateFunction):
        k = min(max(math.ceil(math.log2(f.additions)), 0), FRAGMENTS)
        most = FAR_BYTES_OF_SUMS if isinstance(f, AccumulateFunction) else FAR_BYTES
        return _unbounded(cells, components, k, most)
    additions = len(f.pairs) * (f.source.texels if f.table.tiles == 1 else f.source.area)
    k = max(math.ceil(math.log2(additions)), 0)
    if k > 38:
        raise f.fail(f"{additions} additions to one cell are more than 2^38; use smaller images")
    bound = constant_value(f.inputs[0])
    if bound is None or np.isfinite(bound):
        return Accumulators(cells, components, bits=min(MOST_BITS, 62 - k))
    return _unbounded(cells, components, k, FAR_BYTES)


def _unbounded(cells: int, components: int, k: int, most: int) -> Accumulators:
    """Accumulators for sums of up to 2^k values of any magnitude, with far slots in at most so many bytes."""
    span = min(40 - k, EXACT)
    last_bits = HIGHEST - MANTISSA - LOWEST + 1
    slots = -(-last_bits // span)
    near = Accumulators(cells, components, slots, width=span)
    whole = replace(near, far=(LAST - LOWEST) // span + 1 - slots)
    return whole if 4 * whole.words <= most else near


def accumulator_bytes(sub_stages: Iterable[SubStage], most: int) -> int:
    """Bytes of the buffer that all scatters and draws by dispatches share. most: that a buffer may have."""
    kept = (s.kept for s in sub_stages)
    return 4 * max((accumulators_of(f).buffer_words(most) for f in kept if f is not None), default=0)
