"""GLSL of a scatter: exact, order-free sums in fixed point of several 32-bit limbs.

A value v becomes the integer round(|v| / quantum), split into limbs of L bits. Each limb is added with its sign to
its own 32-bit integer. With at most 2^k additions to a cell L = 30 - k keeps every limb from overflowing, so a sum
has the same bits in whatever order the device adds.

Two layouts. With a *bound* the quantum is the power of two above the bound divided by 2^S, S = n L at least 22: two
or three limbs. Without one (a bound of infinity) the limbs span every magnitude from 2^-60 to 2^24 and a value
touches only those that its 24 bits fall into: no bound must be measured first.

Worked example: 6 views of 256x256, 9 pairs: k = ceil(log2(3538944)) = 22, L = 8; n = 3 with a bound, 11 without.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...ad.constant import constant_value
from ...ad.graph import ScatterFunction
from ...errors import PlanError
from .glsl_raster import flat_layouts, fragment_place, pull
from .limits import DeviceLimits
from .substage import SubStage
from .writer import GROUP, Resource, Shaders, ShaderText, Writer, invocation

LOWEST, HIGHEST = -60, 24  # powers of two that sums without a bound span
MANTISSA = 24


@dataclass(frozen=True)
class Limbs:
    """How the accumulators of a scatter are laid out: ``cells`` texels of ``components`` of ``count`` limbs."""

    bits: int
    count: int
    components: int
    cells: int
    bounded: bool

    @property
    def words(self) -> int:
        """32-bit words of the buffer."""
        return self.cells * self.components * self.count


def limbs_of(f: ScatterFunction) -> Limbs:
    """The layout of the accumulators of a scatter."""
    (width, height), batch = f.table
    cells = width * height * batch
    components = f.output.vtype.components
    if f.operation == "max":
        return Limbs(32, 1, components, cells, True)
    (w, h), n = f.source
    additions = w * h * len(f.pairs) * (n if batch == 1 else 1)
    bits = 30 - max(math.ceil(math.log2(additions)), 0)
    if bits < 1:
        raise f.fail(f"{additions} additions to one cell are more than 2^29; use smaller images")
    bound = constant_value(f.inputs[0])
    bounded = bound is None or bool(np.isfinite(bound))
    span = 22 if bounded else HIGHEST - LOWEST
    return Limbs(bits, -(-span // bits), components, cells, bounded)


def scatter_shaders(s: SubStage, limits: DeviceLimits, shader_text: ShaderText) -> Shaders:
    """``compute`` makes the values of a source texel and adds them into the buffer, ``resolve`` writes the table
    from it. Raises PlanError when the accumulators are more than the device allows."""
    f = next(g for g in s.functions if isinstance(g, ScatterFunction))
    limbs = limbs_of(f)
    if 4 * limbs.words > limits.max_storage_buffer_bytes:
        raise PlanError(
            f"{f!r} made at {f.where} needs {limbs.words >> 18} MiB of accumulators for {f.output}, the device "
            f"allows {limits.max_storage_buffer_bytes >> 20}; use a smaller table (texture)"
        )
    accumulate, slot = _writer(s, f, limits, shader_text)
    source = _accumulate(s, f, limbs, accumulate, slot, limits)
    resolve, _ = _writer(s, f, limits, shader_text)
    sources = {"resolve": _resolve(f, limbs, resolve, slot, limits)}
    if s.drawn is None:
        return Shaders(tuple(accumulate.resources), {"compute": source, **sources})
    vertex, _ = _writer(s, f, limits, shader_text)
    vertex.head = [line for line in vertex.head if "image2D" not in line]
    pulled = vertex.text(pull(vertex, s.drawn), flat_layouts([], "out"))
    return Shaders(tuple(accumulate.resources), {"vertex": pulled, "fragment": source, **sources})


def _writer(
    s: SubStage, f: ScatterFunction, limits: DeviceLimits, shader_text: ShaderText
) -> tuple[Writer, int]:
    """A writer with reads, table, further outputs and buffers declared; and the binding of the accumulators."""
    w = Writer(s, limits, shader_text)
    w.declare_reads()
    for k, v in enumerate(s.outputs):
        w.declare_storage(v, "table" if v is f.output else f"output{k}", "writeonly")
    slot = len(w.resources)
    w.resources += [Resource("buffer"), Resource("status")]
    return w, slot


def _accumulate(
    s: SubStage, f: ScatterFunction, limbs: Limbs, w: Writer, slot: int, limits: DeviceLimits
) -> str:
    for g in s.body:
        if g is not f:
            w.emit(g)
    lines = []
    adding = f.operation == "add"
    if adding:
        w.head.append(_put_bounded(limbs) if limbs.bounded else _put_unbounded(limbs))
        if limbs.bounded:
            lines += _scale(w.value(f.inputs[0]), limbs)
    wide, high = f.table.size
    words = limbs.components * limbs.count
    for value, index in f.pairs:
        v, i = w.value(value), w.value(index)
        if index.vtype.components == 2:
            cell = f"{i}.y * {wide} + {i}.x"
            inside = f"uint({i}.x) < {wide}u && uint({i}.y) < {high}u"
        else:
            cell, inside = i, f"uint({i}) < {wide * high}u"
        offset = f" + tile * {wide * high}" if f.table.batch > 1 else ""
        lines.append(f"if ({inside}) {{ int cell = ({cell}{offset}) * {words};")
        for k in range(limbs.components):
            part, place = _component(v, value.vtype, k), f"cell + {k * limbs.count}"
            if adding:
                lines.append(f"  put({place}, {part}{', scale, bound' if limbs.bounded else ''});")
            else:
                lines.append(f"  atomicMax(totals[{place}], {part});")
        lines.append("}")
    for k, v in enumerate(s.outputs):
        if v is not f.output:
            lines += [f"imageStore(output{k}_{p}, place, {e});" for p, e in w.planes(v)]
    if s.drawn is not None:
        # Every pixel is worked on once: by the fragment of its winner.
        winner = f"if ({w.fetch(s.drawn.output)}(pixel, tile) != face_in) discard;"
        w.head = [line for line in w.head if "image2D" not in line]
        start = [*fragment_place(w), winner]
        return w.text([*start, *w.lines, *lines], [*flat_layouts([], "in"), *_buffers(slot)])
    layout, start = invocation(s.domain, limits)
    return w.text([*start, *w.place(), *w.lines, *lines], [layout, *_buffers(slot)])


def _resolve(f: ScatterFunction, limbs: Limbs, w: Writer, slot: int, limits: DeviceLimits) -> str:
    wide, high = f.table.size
    t = limits.tiling(f.output)
    adding = f.operation == "add"
    parts = [
        f"total(cell + {k * limbs.count}, quantum)" if adding else f"totals[cell + {k}]"
        for k in range(limbs.components)
    ]
    if adding:
        w.head.append(_total(limbs))
    main = [
        "ivec2 place = ivec2(gl_GlobalInvocationID.xy);",
        f"if (place.x >= {t.width} || place.y >= {t.height}) return;",
        f"int tile = place.y / {high} + place.x / {wide} * {t.rows};",
        f"if (tile >= {f.table.batch}) return;",
        f"int cell = (tile * {wide * high} + place.y % {high} * {wide} + place.x % {wide})"
        f" * {limbs.components * limbs.count};",
        *(_quantum(w, f, limbs) if adding else []),
        f"{f.output.vtype.glsl} texel = {f.output.vtype.glsl}({', '.join(parts)});",
    ]
    w.names[f.output] = "texel"
    main += [f"imageStore(table_{p}, place, {e});" for p, e in w.planes(f.output)]
    return w.text(main, [f"layout(local_size_x={GROUP}) in;", *_buffers(slot)])


def _buffers(slot: int) -> list[str]:
    return [
        f"layout(set=0, binding={slot}, std430) buffer Totals {{ int totals[]; }};",
        f"layout(set=0, binding={slot + 1}, std430) buffer Status {{ int saturated; }};",
    ]


def _exponent(bound: str) -> list[str]:
    return [f"float bound = {bound};", "int exponent = ((floatBitsToInt(bound) >> 23) & 255) - 126;"]


def _scale(bound: str, limbs: Limbs) -> list[str]:
    """``scale`` turns values into integers: 2^(S - e), e the exponent above the bound. Bounds under 2^-90 (or
    zero) make every value zero; the factor stays a normal float."""
    span = limbs.bits * limbs.count
    factor = f"intBitsToFloat(({span} - exponent + 127) << 23)"
    return [*_exponent(bound), f"float scale = exponent < -90 || exponent > 127 ? 0.0 : {factor};"]


def _quantum(w: Writer, f: ScatterFunction, limbs: Limbs) -> list[str]:
    """``quantum``, what the lowest bit of the lowest limb is worth; undefined bounds must not look like a sum."""
    if not limbs.bounded:
        return [f"float quantum = {2.0**LOWEST!r};"]
    bound = f.inputs[0]
    if bound in w.binding:
        expression = f"{w.fetch(bound)}(ivec2(0), 0)"
    else:  # a constant, or made of constants
        for g in w.s.body:
            if g is not f and (g.output is bound or not g.inputs):
                w.emit(g)
        expression = w.names[bound]
    span = limbs.bits * limbs.count
    return [
        *w.lines,
        *_exponent(expression),
        f"float quantum = exponent < -90 ? 0.0 : intBitsToFloat((exponent - {span} + 127) << 23);",
        "if (exponent > 127) quantum = intBitsToFloat(0x7fc00000);",
    ]


def _put_bounded(limbs: Limbs) -> str:
    lines = ["void put(int cell, float value, float scale, float bound) {"]
    lines.append("  if (value == 0.0) return;")
    lines.append(
        "  if (!(abs(value) <= bound)) { atomicMax(saturated, 1); value = clamp(value, -bound, bound); }"
    )
    lines.append("  int sign = value < 0.0 ? -1 : 1;")
    lines.append("  precise float rest = abs(value) * scale;")
    return "\n".join([*lines, *_add_limbs(limbs.bits, limbs.count, "cell"), "}"])


def _add_limbs(bits: int, count: int, first: str) -> list[str]:
    """Adds ``rest``, under 2^(bits count), to the limbs from ``first`` on."""
    lines = []
    for k in range(count - 1, 0, -1):
        step = float(2 ** (bits * k))
        lines.append(f"  int high{k} = int(rest * {1 / step!r});")
        lines.append(f"  rest -= float(high{k}) * {step!r};")
        lines.append(f"  if (high{k} != 0) atomicAdd(totals[{first} + {k}], sign * high{k});")
    lines.append("  int low = int(rest + 0.5);")
    lines.append(f"  if (low != 0) atomicAdd(totals[{first}], sign * low);")
    return lines


def _put_unbounded(limbs: Limbs) -> str:
    """The lowest limb touched is the one that the value's last bit falls into; from there on the scaled value has
    at most 24 + L bits, an exact float."""
    touched = min(-(-MANTISSA // limbs.bits) + 1, limbs.count)
    largest = 2.0**HIGHEST
    lines = ["void put(int cell, float value) {"]
    lines.append("  if (value == 0.0) return;")
    lines.append(f"  if (!(abs(value) < {largest!r})) {{")
    lines.append(f"    atomicMax(saturated, 1); value = clamp(value, -{largest / 2!r}, {largest / 2!r});")
    lines.append("    if (isnan(value)) return;")
    lines.append("  }")
    lines.append("  int sign = value < 0.0 ? -1 : 1;")
    lines.append(f"  int last = ((floatBitsToInt(value) >> 23) & 255) - {127 + MANTISSA - 1 + LOWEST};")
    lines.append(f"  int first = clamp(last / {limbs.bits}, 0, {limbs.count - touched});")
    lines.append(
        f"  precise float rest = abs(value) * intBitsToFloat(({-LOWEST} - first * {limbs.bits} + 127) << 23);"
    )
    return "\n".join([*lines, *_add_limbs(limbs.bits, touched, "cell + first"), "}"])


def _total(limbs: Limbs) -> str:
    """The sum of a cell: carries are settled in integers first, as a magnitude with a sign, so that nothing cancels
    between limbs; then a float sum from the top."""
    n, bits = limbs.count, limbs.bits
    carries = "\n".join(
        f"  carry = limb[{k}] >> {bits}; limb[{k}] -= carry << {bits}; limb[{k + 1}] += carry;"
        for k in range(n - 1)
    )
    sums = "\n".join(
        f"  sum += float(limb[{k}]) * (quantum * {float(2 ** (bits * k))!r});" for k in range(n - 1, -1, -1)
    )
    return f"""float total(int cell, float quantum) {{
  int limb[{n}];
  int carry;
  for (int k = 0; k < {n}; ++k) limb[k] = totals[cell + k];
{carries}
  bool negative = limb[{n - 1}] < 0;
  if (negative) {{
    for (int k = 0; k < {n}; ++k) limb[k] = -limb[k];
{carries}
  }}
  precise float sum = 0.0;
{sums}
  return negative ? -sum : sum;
}}"""


def _component(name: str, vtype, k: int) -> str:
    if vtype.is_matrix:
        return f"{name}[{k // vtype.shape[0]}][{k % vtype.shape[0]}]"  # column by column
    return name if vtype.is_scalar else f"{name}[{k}]"
