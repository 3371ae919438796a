"""Sums in 64-bit fixed point: how the accumulators of a scatter are laid out, and the GLSL that adds and reads them.

A sum modulo 2^64 has the same bits in whatever order the device adds, and whether it adds by one 64-bit atomic or by
two of 32 bits with a carry. A component of a cell has one *slot* or several:

- With a *bound* one slot, its quantum 2^bits below the power of two above the bound; with at most 2^k additions to a
  cell bits = min(40, 62 - k).
- Without one (a bound of infinity) the slots span every magnitude from 2^-60 to 2^24: no bound must be measured first.
  A value goes, unrounded, into the one slot that its last bit falls into. With W exponents a slot, W = 40 - k, at most
  24, its integers have 23 + W bits and their sums 63.

Worked example: 6 views of 256x256, 9 pairs: k = ceil(log2(3538944)) = 22; bits = 40; four slots of W = 18 without a
bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ....ad.graph import Function, ScatterFunction
from ....ad.ops.pixel.constant import constant_value
from ..limits import DeviceLimits

LOWEST, HIGHEST = -60, 24  # powers of two that sums without a bound span
MANTISSA = 24
MOST_BITS = 40  # below a bound: values over 2^-16 of it keep all of their bits
EXACT = 24  # integers of so many bits are exact floats


@dataclass(frozen=True)
class Accumulators:
    """``cells`` texels of ``components`` of ``slots``; integers of 64 bits to add to, of 32 for a maximum.

    bits: of the quantum below the bound; 0 when there is none.  width: exponents a slot.
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
        """The first cell of each band of the table that one buffer of the device holds; one band where it can."""
        return range(0, self.cells, limits.max_storage_buffer_bytes // (4 * self.words_of_cell))

    def buffer_words(self, limits: DeviceLimits) -> int:
        """32-bit words of the buffer: of the largest band."""
        return min(self.cells, self.bands(limits).step) * self.words_of_cell


def accumulators_of(f: ScatterFunction) -> Accumulators:
    """The layout of the accumulators of a scatter."""
    (width, height), batch = f.table
    cells = width * height * batch
    components = f.output.vtype.components
    if f.operation == "max":
        return Accumulators(cells, components, adding=False)
    (w, h), n = f.source
    additions = w * h * len(f.pairs) * (n if batch == 1 else 1)
    k = max(math.ceil(math.log2(additions)), 0)
    if k > 38:
        raise f.fail(f"{additions} additions to one cell are more than 2^38; use smaller images")
    bound = constant_value(f.inputs[0])
    if bound is None or np.isfinite(bound):
        return Accumulators(cells, components, bits=min(MOST_BITS, 62 - k))
    span = min(40 - k, EXACT)
    last_bits = HIGHEST - MANTISSA - LOWEST + 1
    return Accumulators(cells, components, -(-last_bits // span), width=span)


def accumulator_bytes(functions: Iterable[Function], limits: DeviceLimits) -> int:
    """Of the buffer that serves all scatters among the Functions."""
    scatters = (f for f in functions if isinstance(f, ScatterFunction))
    return 4 * max((accumulators_of(f).buffer_words(limits) for f in scatters), default=0)


def buffer_text(binding: int, *, long: bool) -> str:
    """Declares the accumulators as ``totals``, of 64 or 32 bits."""
    integer = "int64_t" if long else "int"
    return f"layout(set=0, binding={binding}, std430) buffer Totals {{ {integer} totals[]; }};"


ATOMIC_EXTENSIONS = """#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_atomic_int64 : require"""


def put_text(a: Accumulators, *, long: bool) -> str:
    """``put(slot, value)``, or ``put(slot, value, bound)``: adds a value to the slots from a number on."""
    if a.bits:
        parameters, allowed, limit = "int slot, float value, float bound", "<= bound", "bound"
        place = [f"  int last = last_bit(value) - last_bit(bound) + {a.bits - MANTISSA};"]
    else:
        parameters, allowed, limit = (
            "int slot, float value",
            f"< {2.0**HIGHEST!r}",
            f"{2.0 ** (HIGHEST - 1)!r}",
        )
        skipped = " + ".join(f"int(last >= {a.width * k})" for k in range(1, a.slots)) or "0"
        place = [
            f"  int last = last_bit(value) - ({LOWEST}), skipped = {skipped};",
            "  slot += skipped;",
            f"  last -= {a.width} * skipped;",
        ]
    lines = [
        f"void put({parameters}) {{",
        f"  if (abs(value) < {2.0**-126!r}) return;",
        f"  if (!(abs(value) {allowed})) {{",
        "    atomicMax(saturated, 1);",
        "    if (isnan(value)) return;",
        f"    value = clamp(value, -{limit}, {limit});",
        "  }",
        *place,
    ]
    lines.append("  ivec2 words = fixed_point(value, last);")
    if long:
        lines.append("  atomicAdd(totals[slot], packInt2x32(words));")
    else:
        lines += [
            "  uint before = words.x == 0 ? 0u : uint(atomicAdd(totals[2 * slot], words.x));",
            "  int high = words.y + int(before + uint(words.x) < before);",
            "  if (high != 0) atomicAdd(totals[2 * slot + 1], high);",
        ]
    return "\n".join([*lines, "}"])


def total_text(a: Accumulators, *, long: bool) -> str:
    """``total(slot)``: the sum of the slots from a number on, in units of the power of two above the bound where
    there is one. They are settled on a common grid of ``width`` bits in integers first, as a magnitude with a sign,
    so that nothing cancels between them; then comes a float sum from the top."""
    if not a.adding:
        return "int total(int slot) { int least = totals[slot]; totals[slot] = 0; return ~least; }"
    pieces = -(-64 // a.width)
    n = a.slots - 1 + pieces
    mask = (1 << a.width) - 1
    lines = ["float total(int slot) {", f"  int digits[{n}];", "  int carry, low, high;"]
    lines += ["  ivec2 words;"] * long
    lines.append(f"  for (int k = 0; k < {n}; ++k) digits[k] = 0;")
    for slot in range(a.slots):
        if long:
            lines.append(f"  words = unpackInt2x32(totals[slot + {slot}]); totals[slot + {slot}] = 0;")
            lines.append("  low = words.x; high = words.y;")
        else:
            lines.append(f"  low = totals[2 * slot + {2 * slot}]; high = totals[2 * slot + {2 * slot + 1}];")
            lines.append(f"  totals[2 * slot + {2 * slot}] = 0; totals[2 * slot + {2 * slot + 1}] = 0;")
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
