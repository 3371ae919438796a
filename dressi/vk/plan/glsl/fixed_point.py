"""Scatters add in 64-bit fixed point. This file lays out the accumulators and writes the GLSL that adds and reads them.

Integer addition modulo 2^64 is associative, so a sum has the same bits in any order of the additions, and with one 64-bit
atomic or two 32-bit atomics and a carry. Each component of a table cell has one or several 64-bit accumulators, called *slots*:

- If the scatter has a *bound* on the absolute values, there is one slot. Its unit is 2^-bits of the power of two above the
  bound. A cell gets at most 2^k additions, and bits = min(40, 62 - k), so that the sum cannot overflow.
- If the bound is infinite, several slots cover all magnitudes from 2^-60 to 2^24, so that nothing has to be measured before.
  A float has 24 significant bits; it is added, without rounding, to the slot that contains its lowest bit. A slot covers
  W = min(40 - k, 24) exponents: its addends have 23 + W bits and its sum at most 63.

Example: 6 views of 256x256 with 9 pairs give k = ceil(log2(3538944)) = 22. With a bound, bits = 40. Without one, W = 18 and
there are four slots.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ....ad.graph import FragmentScatterFunction, Function, ScatterFunction
from ....ad.ops.pixel.constant import constant_value
from ..limits import DeviceLimits

LOWEST, HIGHEST = -60, 24  # exponents of the smallest and largest values of sums without a bound
MANTISSA = 24  # significant bits of a float
MOST_BITS = 40  # with a bound: values above 2^-16 of the bound are added without rounding
FRAGMENTS = 32  # a draw adds at most 2^32 fragments to one cell: more take longer than drivers allow
EXACT = 24  # integers of at most this many bits are exact as floats


@dataclass(frozen=True)
class Accumulators:
    """The accumulators of a table: ``cells`` texels, each with ``components``, each with ``slots``.

    Sums use 64-bit integers, maxima (``adding`` is False) 32-bit integers.  bits: the unit of a slot is 2^-bits of the power
    of two above the bound; 0 without a bound.  width: exponents that a slot covers.
    """

    cells: int
    components: int
    slots: int = 1
    bits: int = 0
    width: int = EXACT
    adding: bool = True

    @property
    def words(self) -> int:
        """32-bit words of all cells."""
        return self.cells * self.words_of_cell

    @property
    def words_of_cell(self) -> int:
        return self.components * self.slots * (2 if self.adding else 1)

    def bands(self, limits: DeviceLimits) -> range:
        """The first cell of each band. A band is the part of the table that fits one storage buffer of the device."""
        return range(0, self.cells, limits.max_storage_buffer_bytes // (4 * self.words_of_cell))

    def buffer_words(self, limits: DeviceLimits) -> int:
        """32-bit words of the buffer, which holds one band."""
        return min(self.cells, self.bands(limits).step) * self.words_of_cell


def accumulators_of(f: ScatterFunction | FragmentScatterFunction) -> Accumulators:
    """The layout of the accumulators of a scatter."""
    cells, components = f.table.texels, f.output.vtype.components
    if f.operation == "max":
        return Accumulators(cells, components, adding=False)
    if isinstance(f, FragmentScatterFunction):
        return _unbounded(cells, components, min(max(math.ceil(math.log2(f.additions)), 0), FRAGMENTS))
    additions = len(f.pairs) * (f.source.texels if f.table.tiles == 1 else f.source.area)
    k = max(math.ceil(math.log2(additions)), 0)
    if k > 38:
        raise f.fail(f"{additions} additions to one cell are more than 2^38; use smaller images")
    bound = constant_value(f.inputs[0])
    if bound is None or np.isfinite(bound):
        return Accumulators(cells, components, bits=min(MOST_BITS, 62 - k))
    return _unbounded(cells, components, k)


def _unbounded(cells: int, components: int, k: int) -> Accumulators:
    """Of sums of up to 2^k values of any magnitude."""
    span = min(40 - k, EXACT)
    last_bits = HIGHEST - MANTISSA - LOWEST + 1
    return Accumulators(cells, components, -(-last_bits // span), width=span)


def accumulator_bytes(functions: Iterable[Function], limits: DeviceLimits) -> int:
    """Size of the buffer that all scatters among the Functions share, in bytes."""
    scatters = (f for f in functions if isinstance(f, ScatterFunction | FragmentScatterFunction))
    return 4 * max((accumulators_of(f).buffer_words(limits) for f in scatters), default=0)


def _bits(x: float) -> int:
    return int(np.float32(x).view(np.int32))


def buffer_text(binding: int, *, long: bool) -> str:
    """The declaration of the accumulators, an array ``dressi_totals``. long: of 64-bit integers, else of 32-bit integers."""
    integer = "int64_t" if long else "int"
    return f"layout(set=0, binding={binding}, std430) buffer dressi_Totals {{ {integer} dressi_totals[]; }};"


ATOMIC_EXTENSIONS = """#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_atomic_int64 : require"""


def put_text(a: Accumulators, *, long: bool) -> str:
    """The GLSL function ``dressi_put(slot, value)``, with a bound ``dressi_put(slot, value, bound)``. It adds a value to a component whose
    first slot is ``slot``. A value beyond the bound is clamped and sets ``dressi_saturated``; NaN sets it and adds nothing."""
    if a.bits:
        parameters, most, limit = "int slot, float value, float bound", "floatBitsToInt(bound)", "bound"
        place = [f"  int last = dressi_last_bit(value) - dressi_last_bit(bound) + {a.bits - MANTISSA};"]
    else:
        parameters, most = "int slot, float value", str(_bits(2.0**HIGHEST) - 1)
        limit = f"{2.0 ** (HIGHEST - 1)!r}"
        skipped = " + ".join(f"int(last >= {a.width * k})" for k in range(1, a.slots)) or "0"
        place = [
            f"  int last = dressi_last_bit(value) - ({LOWEST}), skipped = {skipped};",
            "  slot += skipped;",
            f"  last -= {a.width} * skipped;",
        ]
    lines = [
        f"void dressi_put({parameters}) {{",
        # Bits of positive floats have the order of the floats, and those of NaN come last. Comparisons of floats would not
        # see NaN where a driver takes it that there are none.
        "  int size = floatBitsToInt(value) & 0x7fffffff;",
        f"  if (size < {_bits(2.0**-126)}) return;",
        f"  if (size > {most}) {{",
        "    atomicMax(dressi_saturated, 1);",
        f"    if (size > {_bits(np.inf)}) return;",
        f"    value = clamp(value, -{limit}, {limit});",
        "  }",
        *place,
    ]
    lines.append("  ivec2 words = dressi_fixed_point(value, last);")
    if long:
        lines.append("  atomicAdd(dressi_totals[slot], packInt2x32(words));")
    else:
        lines += [
            "  uint before = words.x == 0 ? 0u : uint(atomicAdd(dressi_totals[2 * slot], words.x));",
            "  int high = words.y + int(before + uint(words.x) < before);",
            "  if (high != 0) atomicAdd(dressi_totals[2 * slot + 1], high);",
        ]
    return "\n".join([*lines, "}"])


def total_text(a: Accumulators, *, long: bool) -> str:
    """The GLSL function ``dressi_total(slot)``. It returns the sum of a component whose first slot is ``slot`` and sets the slots to
    zero. With a bound the result is in units of the power of two above the bound.

    The slots overlap. The function first adds them as integers, in digits of ``width`` bits, and propagates carries. It makes
    the number positive, so that no digits cancel. Then it adds the digits as floats, the largest first.
    """
    if not a.adding:
        return "int dressi_total(int slot) { int least = dressi_totals[slot]; dressi_totals[slot] = 0; return ~least; }"
    pieces = -(-64 // a.width)
    n = a.slots - 1 + pieces
    mask = (1 << a.width) - 1
    lines = ["float dressi_total(int slot) {", f"  int digits[{n}];", "  int carry, low, high;"]
    lines += ["  ivec2 words;"] * long
    lines.append(f"  for (int k = 0; k < {n}; ++k) digits[k] = 0;")
    for slot in range(a.slots):
        if long:
            lines.append(
                f"  words = unpackInt2x32(dressi_totals[slot + {slot}]); dressi_totals[slot + {slot}] = 0;"
            )
            lines.append("  low = words.x; high = words.y;")
        else:
            lines.append(
                f"  low = dressi_totals[2 * slot + {2 * slot}]; high = dressi_totals[2 * slot + {2 * slot + 1}];"
            )
            lines.append(
                f"  dressi_totals[2 * slot + {2 * slot}] = 0; dressi_totals[2 * slot + {2 * slot + 1}] = 0;"
            )
        for k in range(pieces):
            start = a.width * k
            if start >= 32:
                piece = f"high >> {start - 32}"
            elif start + a.width <= 32:
                piece = f"int(uint(low) >> {start})"
            else:
                piece = f"int(uint(low) >> {start} | uint(high) << {32 - start})"
            lines.append(f"  digits[{slot + k}] += {f'{piece} & {mask}' if k < pieces - 1 else piece};")
    carries = [
        f"  carry = digits[{k}] >> {a.width}; digits[{k}] &= {mask}; digits[{k + 1}] += carry;"
        for k in range(n - 1)
    ]
    lines += [*carries, f"  bool negative = digits[{n - 1}] < 0;", "  if (negative) {"]
    lines += [f"  for (int k = 0; k < {n}; ++k) digits[k] = -digits[k];", *carries, "  }"]
    lines.append("  precise float sum = 0.0;")
    unit = -a.bits if a.bits else LOWEST
    for k in reversed(range(n)):
        lines.append(f"  sum += float(digits[{k}]) * {2.0 ** (unit + a.width * k)!r};")
    return "\n".join([*lines, "  return negative ? -sum : sum;", "}"])
