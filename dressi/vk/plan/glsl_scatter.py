"""GLSL of a scatter: exact, order-free sums in fixed point of several 32-bit limbs.

A value v becomes the integer round(|v| * 2^S / scale), scale the power of two above the bound, and is split into
n limbs of L bits, S = n L. Each limb is added with its sign to its own 32-bit integer. With at most 2^k additions
to a cell L = 30 - k keeps every limb from overflowing, so a sum has the same bits in whatever order the device
adds. The quantum is scale / 2^S; n is chosen so that S is at least 22.

Worked example: 6 views of 256x256, 9 pairs: k = ceil(log2(3538944)) = 22, L = 8, n = 3, S = 24.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...ad.graph import ScatterFunction
from ...errors import PlanError
from .limits import DeviceLimits
from .substage import SubStage
from .writer import GROUP, Resource, Shaders, ShaderText, Writer, invocation


@dataclass(frozen=True)
class Limbs:
    """How the accumulators of a scatter are laid out: ``cells`` texels of ``components`` of ``count`` limbs."""

    bits: int
    count: int
    components: int
    cells: int

    @property
    def scale_bits(self) -> int:
        return self.bits * self.count

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
        return Limbs(32, 1, components, cells)
    (w, h), n = f.source
    additions = w * h * len(f.pairs) * (n if batch == 1 else 1)
    bits = 30 - max(math.ceil(math.log2(additions)), 0)
    if bits < 1:
        raise f.fail(f"{additions} additions to one cell are more than 2^29; use smaller images")
    return Limbs(bits, -(-22 // bits), components, cells)


def scatter_shaders(s: SubStage, limits: DeviceLimits, shader_text: ShaderText) -> Shaders:
    """``compute`` adds every source texel into the buffer, ``resolve`` writes the table from it."""
    (f,) = s.functions
    assert isinstance(f, ScatterFunction)
    limbs = limbs_of(f)
    if 4 * limbs.words > limits.max_storage_buffer_bytes:
        raise PlanError(
            f"{f!r} made at {f.where} needs {limbs.words >> 18} MiB of accumulators for {f.output}, the device "
            f"allows {limits.max_storage_buffer_bytes >> 20}; use a smaller table (texture)"
        )
    accumulate, slot = _writer(s, limits, shader_text)
    for g in s.body:
        if g is not f:
            accumulate.emit(g)
    lines = []
    adding = f.operation == "add"
    if adding:
        accumulate.head.append(_split(limbs))
        lines += _scale(accumulate.value(f.inputs[0]), limbs)
    wide, high = f.table.size
    for value, index in f.pairs:
        v, i = accumulate.value(value), accumulate.value(index)
        cell = f"{i}.y * {wide} + {i}.x" if index.vtype.components == 2 else i
        inside = f"uint({i}) < {wide * high}u"
        if index.vtype.components == 2:
            inside = f"uint({i}.x) < {wide}u && uint({i}.y) < {high}u"
        offset = f" + tile * {wide * high}" if f.table.batch > 1 else ""
        put = _put_add if adding else _put_max
        lines.append(f"if ({inside}) {{ int cell = ({cell}{offset}) * {limbs.components * limbs.count};")
        lines += [f"  {put(limbs, k, _component(v, value.vtype, k))}" for k in range(limbs.components)]
        lines.append("}")
    layout, start = invocation(s.domain, limits)
    main = [*start, *accumulate.place(), *accumulate.lines, *lines]
    source = accumulate.text(main, [layout, *_buffers(slot)])

    resolve, _ = _writer(s, limits, shader_text)
    t = limits.tiling(f.output)
    parts = [
        _sum(limbs, k) if adding else f"totals[cell + {k * limbs.count}]" for k in range(limbs.components)
    ]
    ending = [
        "ivec2 place = ivec2(gl_GlobalInvocationID.xy);",
        f"if (place.x >= {t.width} || place.y >= {t.height}) return;",
        f"int tile = place.y / {high} + place.x / {wide} * {t.rows};",
        f"if (tile >= {f.table.batch}) return;",
        f"int cell = (tile * {wide * high} + place.y % {high} * {wide} + place.x % {wide})"
        f" * {limbs.components * limbs.count};",
        *(_bound_lines(resolve, f, limbs) if adding else []),
        f"{f.output.vtype.glsl} total = {f.output.vtype.glsl}({', '.join(parts)});",
    ]
    resolve.names[f.output] = "total"
    ending += [f"imageStore(table_{p}, place, {e});" for p, e in resolve.planes(f.output)]
    resolve_source = resolve.text(ending, [f"layout(local_size_x={GROUP}) in;", *_buffers(slot)])
    return Shaders(tuple(accumulate.resources), {"compute": source, "resolve": resolve_source})


def _writer(s: SubStage, limits: DeviceLimits, shader_text: ShaderText) -> tuple[Writer, int]:
    """A writer with the reads, the table and the buffers declared; and the binding of the buffer."""
    w = Writer(s, limits, shader_text)
    w.declare_reads()
    w.declare_storage(s.outputs[0], "table", "writeonly")
    slot = len(w.resources)
    w.resources += [Resource("buffer"), Resource("status")]
    return w, slot


def _buffers(slot: int) -> list[str]:
    return [
        f"layout(set=0, binding={slot}, std430) buffer Totals {{ int totals[]; }};",
        f"layout(set=0, binding={slot + 1}, std430) buffer Status {{ int saturated; }};",
    ]


def _scale(bound: str, limbs: Limbs) -> list[str]:
    """``scale`` turns values into integers: 2^(S - e), e the exponent above the bound. Bounds under 2^-90 (or
    zero) make every value zero; the factor stays a normal float."""
    return [
        f"float bound = {bound};",
        "int exponent = ((floatBitsToInt(bound) >> 23) & 255) - 126;",
        f"float scale = exponent < -90 || exponent > 127 ? 0.0 : "
        f"intBitsToFloat(({limbs.scale_bits} - exponent + 127) << 23);",
    ]


def _bound_lines(w: Writer, f: ScatterFunction, limbs: Limbs) -> list[str]:
    bound = f.inputs[0]
    if bound.creator is not None and bound not in w.binding:
        for g in w.s.body:
            if g.output is bound or (g is not f and not g.inputs):
                w.emit(g)
    expression = w.names.get(bound) or f"{w.fetch(bound)}(ivec2(0), 0)"
    return [
        *w.lines,
        f"float bound = {expression};",
        "int exponent = ((floatBitsToInt(bound) >> 23) & 255) - 126;",
        f"float quantum = exponent < -90 ? 0.0 : intBitsToFloat((exponent - {limbs.scale_bits} + 127) << 23);",
        # An infinite or undefined bound must not look like a sum.
        "if (exponent > 127) quantum = intBitsToFloat(0x7fc00000);",
    ]


def _split(limbs: Limbs) -> str:
    lines = ["void put(int cell, float value, float scale, float bound) {"]
    lines.append("  if (value == 0.0) return;")
    lines.append("  if (!(abs(value) <= bound)) { saturated = 1; value = clamp(value, -bound, bound); }")
    lines.append("  int sign = value < 0.0 ? -1 : 1;")
    lines.append("  precise float rest = abs(value) * scale;")
    for k in range(limbs.count - 1, 0, -1):
        step = float(2 ** (limbs.bits * k))
        lines.append(f"  int high{k} = int(rest * {1 / step!r});")
        lines.append(f"  rest -= float(high{k}) * {step!r};")
        lines.append(f"  if (high{k} != 0) atomicAdd(totals[cell + {k}], sign * high{k});")
    lines.append("  int low = int(rest + 0.5);")
    lines.append("  if (low != 0) atomicAdd(totals[cell], sign * low);")
    lines.append("}")
    return "\n".join(lines)


def _put_add(limbs: Limbs, component: int, value: str) -> str:
    return f"put(cell + {component * limbs.count}, {value}, scale, bound);"


def _put_max(limbs: Limbs, component: int, value: str) -> str:
    return f"atomicMax(totals[cell + {component * limbs.count}], {value});"


def _component(name: str, vtype, k: int) -> str:
    if vtype.is_matrix:
        return f"{name}[{k // vtype.shape[0]}][{k % vtype.shape[0]}]"  # column by column
    return name if vtype.is_scalar else f"{name}[{k}]"


def _sum(limbs: Limbs, component: int) -> str:
    parts = []
    for k in range(limbs.count):
        factor = float(2 ** (limbs.bits * k))
        parts.append(f"float(totals[cell + {component * limbs.count + k}]) * (quantum * {factor!r})")
    return "(" + " + ".join(reversed(parts)) + ")"
