"""The GLSL that adds to the accumulators of scatters, and that reads them and leaves zeros."""

from __future__ import annotations

import numpy as np

from ..accumulators import HIGHEST, LOWEST, MANTISSA, Accumulators

PLUS, MINUS = 1, 2  # flags of a component
DIGIT = 24  # bits of the digits in which all slots are added up


def _bits(x: float) -> int:
    return int(np.float32(x).view(np.int32))


INFINITE = _bits(np.inf)


def buffer_text(binding: int, *, long: bool) -> str:
    """The declaration of the accumulators, an array ``dressi_totals``. long: of 64-bit integers, else of 32-bit integers."""
    integer = "int64_t" if long else "int"
    return f"layout(set=0, binding={binding}, std430) buffer dressi_Totals {{ {integer} dressi_totals[]; }};"


ATOMIC_EXTENSIONS = """#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_atomic_int64 : require"""


def put_text(a: Accumulators, numbers: int, *, long: bool) -> str:
    """The GLSL function ``dressi_put(number, value)``, with a bound ``dressi_put(number, value, bound)``. It adds a value to a
    component by its number among the ``numbers`` in the buffer. A value beyond the bound, or beyond the near slots where there
    are no far ones, is clamped and sets ``dressi_saturated``; NaN sets it then and adds nothing."""
    if a.bits:
        bound, most, limit = ", float bound", "floatBitsToInt(bound)", "bound"
        place = [
            "  int slot = number;",
            f"  int last = dressi_last_bit(value) - dressi_last_bit(bound) + {a.bits - MANTISSA};",
        ]
    else:
        bound, most, limit = "", str(_bits(2.0**HIGHEST) - 1), f"{2.0 ** (HIGHEST - 1)!r}"
        skipped = " + ".join(f"int(last >= {a.width * k})" for k in range(1, a.slots)) or "0"
        place = [
            f"  int last = dressi_last_bit(value) - ({LOWEST}), skipped = {skipped};",
            f"  int slot = {a.slots} * number + skipped;",
            f"  last -= {a.width} * skipped;",
        ]
    clamped = [
        f"  if (size > {most}) {{",
        "    atomicMax(dressi_saturated, 1);",
        f"    if (size > {INFINITE}) return;",
        f"    value = clamp(value, -{limit}, {limit});",
        "  }",
    ]
    lines = [
        f"void dressi_put(int number, float value{bound}) {{",
        # Bits of positive floats have the order of the floats, and those of NaN come last. Comparisons of floats would not
        # see NaN where a driver takes it that there are none.
        "  int size = floatBitsToInt(value) & 0x7fffffff;",
        f"  if (size < {_bits(2.0**-126)}) return;",
        *([] if a.far else clamped),
        *place,
        *(_far_place(a, numbers, long=long) if a.far else []),
        "  ivec2 words = dressi_fixed_point(value, last);",
    ]
    if long:
        lines.append("  atomicAdd(dressi_totals[slot], packInt2x32(words));")
    else:
        lines += [
            "  uint before = words.x == 0 ? 0u : uint(atomicAdd(dressi_totals[2 * slot], words.x));",
            "  int high = words.y + int(before + uint(words.x) < before);",
            "  if (high != 0) atomicAdd(dressi_totals[2 * slot + 1], high);",
        ]
    return "\n".join([*lines, "}"])


def _far_place(a: Accumulators, numbers: int, *, long: bool) -> list[str]:
    """Statements that set ``slot``, ``last`` and the flags of the cell where a value has no near slot. The loop runs once or
    never: CPU drivers skip nothing inside of a branch."""
    cell = f"number / {a.components}" if a.components > 1 else "number"
    flags = _flags_slot(a, numbers, cell)
    most = _bits(2.0 ** (LOWEST + a.width * a.slots + MANTISSA - 1)) - 1
    put = ["    atomicOr(dressi_totals[flags], packInt2x32(ivec2(1, sort)));"]
    if not long:
        put = [
            "    atomicOr(dressi_totals[2 * flags], 1);",
            "    if (sort != 0) atomicOr(dressi_totals[2 * flags + 1], sort);",
        ]
    return [
        f"  for (bool far = size > {most}; far; far = false) {{",
        f"    int flags = {flags}, sort = 0;",
        f"    last = dressi_last_bit(value) - ({LOWEST});",
        f"    slot = {numbers * a.slots} + {a.far} * number + last / {a.width} - {a.slots};",
        f"    last %= {a.width};",
        f"    if (size >= {INFINITE}) {{",
        f"      sort = size > {INFINITE} ? {PLUS | MINUS} : floatBitsToInt(value) > 0 ? {PLUS} : {MINUS};",
        f"      sort <<= 2 * (number - {a.components} * ({cell}));",
        "      slot = 0; last = -64;",  # adds 0
        "    }",
        *put,
        "  }",
    ]


def _flags_slot(a: Accumulators, numbers: int, cell: str) -> str:
    return f"{numbers * (a.slots + a.far)} + {cell}"


def total_text(a: Accumulators, numbers: int, *, long: bool) -> str:
    """The GLSL function ``dressi_total(number)``. It returns the sum of a component and sets its slots to zero. With a bound the
    result is in units of the power of two above the bound.

    The slots overlap. The function first adds them as integers, in digits of ``width`` bits, and propagates carries. It makes
    the number positive, so that no digits cancel. Then it adds the digits as floats, the largest first.
    """
    if not a.adding:
        return (
            "int dressi_total(int number)"
            " { int least = dressi_totals[number]; dressi_totals[number] = 0; return ~least; }"
        )
    pieces = -(-64 // a.width)
    n = a.slots - 1 + pieces
    mask = (1 << a.width) - 1
    lines = [*_take(long=long), *(_far_total(a, numbers) if a.far else [])]
    lines += ["float dressi_total(int number) {", f"  int digits[{n}];", "  int carry;"]
    lines.append(f"  for (int k = 0; k < {n}; ++k) digits[k] = 0;")
    for slot in range(a.slots):
        words = f"words{slot}"
        lines.append(f"  ivec2 {words} = dressi_take({a.slots} * number + {slot});")
        for k in range(pieces):
            start = a.width * k
            if start >= 32:
                piece = f"{words}.y >> {start - 32}"
            elif start + a.width <= 32:
                piece = f"int(uint({words}.x) >> {start})"
            else:
                piece = f"int(uint({words}.x) >> {start} | uint({words}.y) << {32 - start})"
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


def _take(*, long: bool) -> list[str]:
    """The GLSL function ``dressi_take(slot)``: what is in it, which is zero then."""
    if long:
        return [
            "ivec2 dressi_take(int slot) {",
            "  ivec2 words = unpackInt2x32(dressi_totals[slot]); dressi_totals[slot] = 0; return words;",
            "}",
        ]
    return [
        "ivec2 dressi_take(int slot) {",
        "  ivec2 words = ivec2(dressi_totals[2 * slot], dressi_totals[2 * slot + 1]);",
        "  dressi_totals[2 * slot] = 0; dressi_totals[2 * slot + 1] = 0;",
        "  return words;",
        "}",
    ]


def far_totals(a: Accumulators, numbers: int, cell: str, *, long: bool) -> list[str]:
    """Statements that set ``dressi_far``, for each component of a cell the sum of all slots if anything is in far ones. They
    leave zeros behind, so that what ``dressi_total`` finds in the near ones then can be added. The loop runs once or never:
    CPU drivers skip nothing inside of a branch."""
    flags = _flags_slot(a, numbers, cell)
    load = f"unpackInt2x32(dressi_totals[{flags}]).x" if long else f"dressi_totals[2 * ({flags})]"
    return [
        f"float dressi_far[{a.components}];",
        f"for (int k = 0; k < {a.components}; ++k) dressi_far[k] = 0.0;",
        f"for (bool far = {load} != 0; far; far = false) {{",
        f"  int sorts = dressi_take({flags}).y;",
        f"  for (int k = 0; k < {a.components}; ++k) {{",
        f"    dressi_far[k] = dressi_far_total(number + k, sorts >> 2 * k & {PLUS | MINUS});",
        "  }",
        "}",
    ]


def _far_total(a: Accumulators, numbers: int) -> list[str]:
    """The GLSL function ``dressi_far_total``: the sum of all slots of a component, given which infinite values it got.

    It runs seldom, so it is written for length and not for speed: one integer of ``n`` digits, to which each slot adds its 64
    bits with their sign.
    """
    n = -(-(a.width * (a.slots + a.far) + 64) // DIGIT)
    mask = (1 << DIGIT) - 1
    return [
        "float dressi_far_total(int number, int sort) {",
        f"  int digits[{n}];",
        "  int carry = 0, top = 0;",
        f"  for (int k = 0; k < {n}; ++k) digits[k] = 0;",
        f"  for (int s = 0; s < {a.slots + a.far}; ++s) {{",
        f"    int far = {numbers * a.slots} + {a.far} * number + s - {a.slots};",
        f"    ivec2 words = dressi_take(s < {a.slots} ? {a.slots} * number + s : far);",
        f"    for (int k = {a.width} * s / {DIGIT}; k < {n}; ++k) {{",
        f"      int bit = {DIGIT} * k - {a.width} * s;",
        "      int piece = bit < 0 ? words.x << -bit : bit >= 32 ? words.y >> min(bit - 32, 31)",
        "        : int(uint(words.x) >> bit | (bit > 0 ? uint(words.y) << (32 - bit) : 0u));",
        f"      digits[k] += piece & {mask};",
        "    }",
        "  }",
        f"  for (int k = 0; k < {n}; ++k) {{",
        f"    digits[k] += carry; carry = digits[k] >> {DIGIT}; digits[k] &= {mask};",
        "  }",
        f"  bool negative = digits[{n - 1}] >> {DIGIT - 1} != 0;",
        "  carry = int(negative);",
        f"  for (int k = 0; k < {n}; ++k) {{",
        f"    digits[k] = (negative ? ~digits[k] & {mask} : digits[k]) + carry;",
        f"    carry = digits[k] >> {DIGIT}; digits[k] &= {mask};",
        "    if (digits[k] != 0) top = k;",
        "  }",
        "  precise float sum = 0.0, unit = 1.0;",
        "  for (int k = top; k >= max(top - 2, 0); --k) {",
        f"    sum += float(digits[k]) * unit; unit *= {2.0**-DIGIT!r};",
        "  }",
        # In two steps: a factor may lie beyond the floats while the product does not.
        f"  int power = {DIGIT} * top - {-LOWEST}, part = power >> 1;",
        "  sum *= intBitsToFloat(part + 127 << 23);",
        "  sum *= intBitsToFloat(power - part + 127 << 23);",
        f"  if (sort == {PLUS | MINUS}) return intBitsToFloat({_bits(np.nan)});",
        f"  if (sort != 0) return intBitsToFloat(sort == {PLUS} ? {INFINITE} : {_bits(-np.inf)});",
        "  return negative ? -sum : sum;",
        "}",
    ]
