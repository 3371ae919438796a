"""Where values lie that shaders hand to each other or to the next step, in the order of the passes."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from ....ad.graph import Function, Variable
from ....ad.graph.traversal import reached
from ....ad.graph.types import Access, VType
from ....ad.ops.pixel.vector import Construct
from ..analysis import rematerialization
from ..analysis.context import Context, Uses
from ..analysis.dataflow import Analysis, restrict
from ..analysis.dependencies import OldValue
from ..core import substage
from ..core.limits import DeviceLimits
from ..core.substage import Binding, PixelWork, Range, Read, Scatter, SubStage, words_of_value
from ..model.device import Walks, planes

# In-place updates: a new value is written into the image of the leaf that it replaces.


def update_in_place(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages, some of which overwrite leaves. The other updates are copied at the end of a step.

    A SubStage may overwrite a leaf if it reads it at its own pixel only, or not at all, and if every other
    reader of the leaf can run before it. It must fit a dispatch: a compute shader may load and store the same
    texel of a storage image. ``choose_lowering`` may draw it instead.
    """
    uses = context.uses
    later = [set(k) for k in uses.later]
    replaces: dict[int, dict[Variable, Variable]] = {}
    claimed: set[Variable] = set()
    for leaf, new in context.updates:
        k = uses.maker.get(new)
        if k is None or new in claimed or new in context.named:
            continue
        others = [n for n in uses.readers.get(leaf, ()) if n != k]
        if not _may_write_in_place(sub_stages[k], leaf, new, context.limits):
            continue
        if not reached([k], later.__getitem__).keys().isdisjoint(others):
            continue  # one of them has to run after it
        claimed.add(new)
        replaces.setdefault(k, {})[new] = leaf
        for n in others:
            later[n].add(k)
    return [replace(s, replaces=replaces[k]) if k in replaces else s for k, s in enumerate(sub_stages)]


def _may_write_in_place(s: SubStage, leaf: Variable, new: Variable, limits: DeviceLimits) -> bool:
    if not isinstance(s.work, substage.Undecided) or (leaf.domain, leaf.vtype) != (new.domain, new.vtype):
        return False
    elsewhere = any(r.elsewhere for r in s.reads if r.variable is leaf)
    return not elsewhere and limits.violation(s.as_dispatch()) is None


# Channel packing: values that one SubStage makes and the same shaders read share the channels of an image.
#
# Two scalars in one image of two channels take one attachment and one fetch instead of two. A vector of three
# leaves the fourth channel of its image unused, and a scalar can have it. Values are only packed if that
# takes no more bytes.

_TYPES = {(2, False): VType.VEC2, (4, False): VType.VEC4, (2, True): VType.IVEC2, (4, True): VType.IVEC4}


def pack_channels(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages with fewer images. Only for schedules that update leaves: they run many times."""
    if not context.updates:
        return list(sub_stages)
    readers = context.uses.readers
    shared: dict[Variable, tuple[Variable, ...]] = {}
    result = list(sub_stages)
    for k, s in enumerate(result):
        if not isinstance(s.work, (substage.Fragment, substage.Compute)) or s.work.uses or len(s.outputs) < 2:
            continue
        groups: dict[tuple, list[Variable]] = {}
        for v in s.outputs:
            if (
                v not in context.unchanged
                and v in readers
                and v.domain == s.domain
                and len(v.vtype.planes) == 1
            ):
                groups.setdefault((tuple(readers[v]), v.vtype.is_int), []).append(v)
        for (_, is_int), members in groups.items():
            for together in _fitting(members):
                width = sum(v.vtype.components for v in together)
                made = Construct(_TYPES[width, is_int], *together)
                shared[made.output] = together
                result[k] = _making(result[k], made, together)
    for new, members in shared.items():
        for k in readers[members[0]]:
            result[k] = _reading(result[k], new, members)
    return result


def _fitting(members: list[Variable]) -> list[tuple[Variable, ...]]:
    """Disjoint sets of Variables that fill an image of two or four channels with no more bytes than apart."""
    one, two, three = ([v for v in members if v.vtype.components == n] for n in (1, 2, 3))
    sets: list[tuple[Variable, ...]] = []
    while three and one:
        sets.append((three.pop(), one.pop()))
    while len(two) > 1:
        sets.append((two.pop(), two.pop()))
    if two and len(one) > 1:
        sets.append((two.pop(), one.pop(), one.pop()))
    while len(one) > 3:
        sets.append(tuple(one.pop() for _ in range(4)))
    if len(one) > 1:
        sets.append((one.pop(), one.pop()))
    return sets


def _making(s: SubStage, made: Construct, members: tuple[Variable, ...]) -> SubStage:
    outputs = (*(v for v in s.outputs if v not in members), made.output)
    return replace(s, functions=(*s.functions, made), body=(*s.body, made), outputs=outputs)


def _reading(s: SubStage, new: Variable, members: tuple[Variable, ...]) -> SubStage:
    mine = [r for r in s.reads if r.variable in members]
    binding = mine[0].binding if len({r.binding for r in mine}) == 1 else Binding.TEXTURE
    channels, first = dict(s.channels), 0
    for v in members:
        channels[v] = new, first
        first += v.vtype.components
    reads = (
        *(r for r in s.reads if r.variable not in members),
        Read(new, binding, any(r.elsewhere for r in mine)),
    )
    return replace(s, reads=reads, channels=channels)


# Values between dispatches and other shaders lie in storage buffers where the device stores these faster.
#
# CPU drivers pack each texel of a storage image into its format, invocation by invocation: lavapipe takes 16
# to 27 nanoseconds for four floats, and 2 to 5 in a buffer. GPUs do both alike, and images have caches for
# neighbours in two dimensions. The rates of the device model decide, value by value.
#
# A value stays an image where hardware needs one: what draws write, what samplers filter, leaves, outputs and
# all that outlives a step, and what vertices are pulled from. Values of one format that the same SubStages
# read share a range, since devices allow few buffers in a shader. Those that save most come first.


def store_in_buffers(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages with ranges of storage buffers for some of what they read and write."""
    result, limits, model, readers = list(sub_stages), context.limits, context.cost, context.uses.readers
    texels, filters = [texels_read(s) for s in result], [filtered(s) for s in result]
    stored = 1 / model.image_store_rate - 1 / model.buffer_store_rate
    read = model.load_seconds() - 1 / model.buffer_fetch_rate

    def gain_of(v: Variable) -> float:
        """Seconds that a buffer saves, of all planes."""
        reads = sum(sub_stages[k].domain.texels * texels[k][v] for k in readers[v])
        return len(v.vtype.planes) * (v.domain.texels * stored + reads * read)

    gains = {}
    for k, s in enumerate(sub_stages):
        eligible = [v for v in s.outputs if _eligible(v, s, context)]
        eligible = [v for v in eligible if not any(v in filters[n] for n in readers[v])]
        for held in _candidates(eligible, _masks(s), context):
            gain = sum(map(gain_of, held.members))
            if gain > 0:
                gains[held] = k, gain
    for held, (maker, _) in sorted(gains.items(), key=lambda item: -item[1][1]):
        changed = {}
        for k in {maker, *readers[held.members[0]]}:
            s, own = result[k], dict.fromkeys(held.members, held)
            reads = tuple([r.by(Binding.TEXTURE) if r.variable in own else r for r in s.reads])
            changed[k] = replace(s, reads=reads, ranges={**s.ranges, **own})
        if all(limits.violation_of(s.descriptors) is None for s in changed.values()):
            for k, s in changed.items():
                result[k] = s
    return result


def _masks(s: SubStage) -> dict[Variable, tuple[int, ...]]:
    """The words of what images hold outside of the pixels that a SubStage works on, where these differ."""
    sparse = s.work.sparse if isinstance(s.work, substage.SparseWork) else None
    words = {v: words_of_value(value, v) for v, value in (sparse.fill if sparse else {}).items()}
    return {v: own for v, own in words.items() if len(own) > 1}


def _candidates(
    values: Sequence[Variable], masks: Mapping[Variable, tuple[int, ...]], context: Context
) -> Iterator[Range]:
    """The values of a SubStage in ranges, as many in each as a buffer holds."""
    groups: dict[tuple, list[Variable]] = {}
    limits = context.limits

    def held(together: Sequence[Variable]) -> Range:
        return Range(tuple(together), {v: masks[v] for v in together if v in masks})

    def fits(*members: Variable) -> bool:
        words = Range(members).words * limits.tiling(members[0]).texels
        return 4 * words <= limits.max_storage_buffer_bytes

    for v in values:
        if fits(v):
            key = tuple(context.uses.readers[v]), Range((v,)).components, v.vtype.is_int, v.domain
            groups.setdefault(key, []).append(v)
    for members in groups.values():
        together: list[Variable] = []
        for v in members:
            if not fits(*together, v):
                yield held(together)
                together = []
            together.append(v)
        yield held(together)


def _eligible(v: Variable, s: SubStage, context: Context) -> bool:
    """Whether a dispatch writes an output, shaders alone read it, and no step after this one does."""
    readers = [context.uses.sub_stages[k] for k in context.uses.readers.get(v, ())]
    if not readers or v in context.fixed or v in context.given or v in s.narrow:
        return False
    drawn = s.draws or (s.final.draws and v in s.final.outputs)
    if drawn or v in s.replaces or v.size == (1, 1) or any(v in part.outputs for part in s.final.fused):
        return False
    if v.vtype.is_matrix and v in _masks(s):
        return False
    bindings = {r.binding for s in readers for r in s.reads if r.variable is v}
    return bindings <= {Binding.TEXTURE, Binding.ATTACHMENT}


def filtered(s: SubStage) -> set[Variable]:
    """What a SubStage filters with a sampler."""
    edges = (e for f in s.everything if f.sampler is not None for e in f.edges)
    return {s.channels.get(x, (x,))[0] for x, _, access, _ in edges if access is Access.SAMPLE}


def texels_read(s: SubStage) -> dict[Variable, float]:
    """How many texels of each value that a SubStage reads an invocation is expected to load."""
    texels = {r.variable: 0.0 for r in s.reads}
    for f in s.everything:
        for k, (x, _, access, _) in enumerate(f.edges if Access.FETCH in f.access else ()):
            if access is Access.FETCH and (v := s.channels.get(x, (x,))[0]) in texels:
                texels[v] += 1.0 if math.isinf(f.reads(k)) else f.reads(k)
    return {v: max(n, 1.0) for v, n in texels.items()}


# Shaders load what they fetch from storage images where the device does that faster than from textures.
#
# Both read one texel. CPU drivers write the whole of their sampler around a fetch from a texture: lavapipe
# takes 1.8 nanoseconds for four floats, and .7 for a load from a storage image. GPUs read both through the
# same caches. The rates of the device model decide.
#
# Devices allow fewer storage images than textures in a shader. Those that are read most often come first.


def load_images(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages, which read storage images instead of textures."""
    if context.cost.image_load_rate <= context.cost.fetch_rate:
        return list(sub_stages)
    narrow = frozenset[Variable]().union(*(s.narrow for s in sub_stages))
    return [
        s if isinstance(s.work, substage.PrimitiveWork) and s.draws else _loading(s, narrow, context)
        for s in sub_stages
    ]


def _loading(s: SubStage, narrow: frozenset[Variable], context: Context) -> SubStage:
    others = {*s.ranges, *s.replaces.values(), *narrow, *filtered(s)}
    textures = [r.variable for r in s.reads if r.binding is Binding.TEXTURE and r.variable not in others]
    texels = texels_read(s)
    textures.sort(key=lambda v: -texels[v])

    def loading(count: int) -> SubStage:
        some = set(textures[:count])
        return replace(s, reads=tuple(r.by(Binding.STORAGE) if r.variable in some else r for r in s.reads))

    def too_many(count: int) -> bool:
        return context.limits.violation_of(loading(count).descriptors) is not None

    most = len(textures)
    return loading(bisect_left(range(1, most + 1), True, key=too_many) if too_many(most) else most)


# Copies before a step: a SubStage that reads a leaf at other pixels can overwrite it if it reads a copy.
#
# An update that is not made in place takes a copy of the new value into the leaf at the end of the step,
# behind a barrier that nothing else needs. The old value can be copied instead, while the first Stages run:
# the maker of the new value reads the copy and writes into the image of the leaf. As many texels are copied,
# with one barrier less.
#
# Worked example: ``step`` is read by every pixel of the optimizer, and its first invocation makes ``step +
# 1``.
#
#     project; draw; optimize; copy new -> step      4 levels of commands
#     project, copy step -> old; draw; optimize      3 levels


def copy_leaves_first(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages; makers of new values read copies of the leaves that they overwrite. Only if no copy is
    left at the end of the step, and if that saves a barrier: all makers wait for something else, and no chain
    of SubStages gets longer. A gated step pays the barrier."""
    unchanged = list(sub_stages)
    placed = {leaf for s in sub_stages for leaf in s.replaces.values()}
    waiting = set().union(*context.uses.later)
    by_maker: dict[int, dict[Variable, Variable]] = {}
    for leaf, new in context.updates:
        if leaf in placed:
            continue
        k = context.uses.maker.get(new)
        if k is None or new in context.named or not _may_overwrite(sub_stages[k], leaf, new):
            return unchanged
        own = by_maker.setdefault(k, {})
        if new in own or (k not in waiting and not context.gated):
            return unchanged  # the new value of two leaves has one image
        own[new] = leaf
    result = list(sub_stages)
    for k, replaced in by_maker.items():
        s = sub_stages[k]
        read = {r.variable for r in s.reads}
        old = {leaf: OldValue.of(leaf) for leaf in replaced.values() if leaf in read}
        result[k] = _overwriting(s, old, replaced)
        if s.final is not s and isinstance(s.work, substage.Scatter):
            work = replace(s.work, epilogue=_overwriting(s.final, old, replaced))
            result[k] = replace(result[k], work=work)
    uses = Uses(result)
    if not uses.can_run:
        return unchanged
    shorter = _longest_chain(uses) <= _longest_chain(context.uses)
    return result if shorter or context.gated else unchanged


def _longest_chain(uses: Uses) -> int:
    """Commands that wait for each other, two of a scatter. Overwriting a leaf waits for all that read it."""
    own = [2 if isinstance(s.work, substage.Scatter) else 1 for s in uses.sub_stages]
    length = list(own)
    for k in uses.order:
        for n in uses.later[k]:
            length[n] = max(length[n], length[k] + own[n])
    return max(length, default=0)


def _may_overwrite(s: SubStage, leaf: Variable, new: Variable) -> bool:
    alike = (leaf.domain, leaf.vtype) == (new.domain, new.vtype) and len(leaf.vtype.planes) == 1
    dense = not (isinstance(s.work, substage.SparseWork) and s.work.sparse is not None and s.final is s)
    return (
        alike
        and dense
        and isinstance(s.final.work, (substage.Compute, substage.Fragment))
        and leaf not in s.channels
    )


def _overwriting(
    s: SubStage, old: Mapping[Variable, OldValue], replaced: Mapping[Variable, Variable]
) -> SubStage:
    """The SubStage that overwrites leaves (by their new values) and reads copies of them instead."""
    reads = tuple([replace(r, variable=old.get(r.variable, r.variable)) for r in s.reads])
    channels = {**s.channels, **{leaf: (copy, 0) for leaf, copy in old.items()}}
    return replace(s, reads=reads, channels=channels, replaces={**s.replaces, **replaced})


# Min-cut rematerialization: a SubStage stores the operands of values where these need fewer planes.
#
# The planes that shaders hand to each other are what a step moves. Whoever reads the values makes them again.

_SHADERS = (PixelWork, Scatter)


def store_operands(sub_stages: Sequence[SubStage], context: Context) -> list[SubStage]:
    """The SubStages with fewer planes between them."""
    if not context.options.rematerialize:
        return list(sub_stages)
    choice = _Between(sub_stages, context)
    chosen = set[Function]()
    for s in sub_stages:
        chosen |= choice.of(s)
    if not chosen:
        return list(sub_stages)
    analysis = context.analysis.recomputing(context.analysis.recomputed | chosen)
    result = [_again(s, analysis, chosen) for s in sub_stages]
    result = [s for s in result if s.outputs]
    walks = Walks(analysis.recomputed.__contains__)
    too_large = any(
        context.limits.violation(s) is not None
        or sum(walks.of(f).functions for f in s.body) > rematerialization.LARGEST_CALLS
        for s in result
    )
    return list(sub_stages) if too_large else result


class _Between:
    """The values that SubStages hand to each other."""

    def __init__(self, sub_stages: Sequence[SubStage], context: Context):
        self.analysis, self.model = context.analysis, context.cost
        self.readers = {v: [sub_stages[k] for k in numbers] for v, numbers in context.uses.readers.items()}
        self.reads = {s: {r.variable: r for r in s.reads} for s in sub_stages}
        self._near: dict[tuple[SubStage, bool], frozenset[Variable]] = {}
        self.fixed = set(context.fixed)
        self.fixed.update(x for f in self.analysis.order if f.stores_inputs for x in f.inputs)
        for s in sub_stages:
            for f in s.functions:
                for x, access, _ in self.analysis.stored_inputs(f):
                    if not isinstance(s.work, _SHADERS) or access not in (Access.SAME_PIXEL, Access.FETCH):
                        self.fixed.add(x)
            if s.scatter is not None:
                self.fixed.add(s.scatter.inputs[0])

    def of(self, s: SubStage) -> set[Function]:
        """The Functions of a SubStage that its readers should run instead."""
        if not isinstance(s.work, _SHADERS):
            return set()
        values = [
            v
            for v in s.outputs
            if v not in self.fixed and v in self.readers and v.domain == s.domain and v.size != (1, 1)
        ]
        inside = {
            f: frozenset(x for x in f.inputs if not rematerialization.is_constant(x))
            for f in (s.body if values else ())
            if rematerialization.works_at_pixel(f) and f.output not in self.fixed
        }
        known: dict[frozenset[Variable], dict[Variable, frozenset[Function]]] = {}
        cones: dict[Variable, list[rematerialization.Cone]] = {}
        for v in values:
            common = self._common(v)
            if common not in known:
                known[common] = _following(common, inside)
            cones[v] = rematerialization.find_cones(
                v, inside.__contains__, known[common], self.analysis.position
            )
        stored = {*self.reads[s], *(f.output for f in s.functions)} - self.fixed
        cones = {
            v: [c for c in found if c.operand is None or c.operand in stored] for v, found in cones.items()
        }
        if not any(cones.values()):
            return set()

        def gain(operand: Variable | None, group: rematerialization.Cones) -> float:
            new = [] if operand is None else [operand]
            if any(
                f.output in self.readers and f.output not in group
                for f in rematerialization.functions_of(group.values())
            ):
                return 0.0
            made = [x for x in new if x.creator in s.functions and x not in s.outputs]
            stores = planes(group) - planes(made)
            total = self.model.store * stores
            readers = dict.fromkeys(r for v in group for r in self.readers[v])
            for r in readers:
                mine = [v for v in group if v in self.reads[r]]
                again = rematerialization.functions_of(group[v] for v in mine)
                less = planes(mine) - planes(x for x in new if x not in self.reads[r])
                total += self.model.fetch * less - rematerialization.operations_of(again)
            return total if stores > 0 else 0.0

        return rematerialization.best(values, cones, gain)

    def _common(self, v: Variable) -> frozenset[Variable]:
        """The Variables that all readers of a value read, at every texel where they read the value."""
        first, *others = (self._read_with(s, self.reads[s][v].elsewhere) for s in self.readers[v])
        return first.intersection(*others)

    def _read_with(self, s: SubStage, elsewhere: bool) -> frozenset[Variable]:
        """The Variables that a SubStage reads wherever it reads a value, at other texels or not."""
        if (s, elsewhere) not in self._near:
            own = self.reads[s].items()
            near = {x for x, r in own if r.elsewhere or not elsewhere or x.size == (1, 1)}
            self._near[s, elsewhere] = frozenset(near)
        return self._near[s, elsewhere]


def _following(
    common: Iterable[Variable], functions: Mapping[Function, frozenset[Variable]]
) -> dict[Variable, frozenset[Function]]:
    """The Variables, and all values that Functions at the same pixel (producers first) make of them and of
    constants.  functions: with their inputs that are no constants."""
    known = dict.fromkeys(common, frozenset[Function]())
    for f, inputs in functions.items():
        if inputs <= known.keys() and f.output not in known:
            needed = frozenset((f,)).union(*(known[x] for x in f.inputs if x in known))
            if len(needed) <= rematerialization.LARGEST_CONE:
                known[f.output] = needed
    return known


def _again(s: SubStage, analysis: Analysis, chosen: AbstractSet[Function]) -> SubStage:
    """The SubStage with its new reads and outputs, after the chosen Functions moved to their readers."""
    functions = tuple(f for f in s.functions if f not in chosen)
    inside, roots = set(functions), set(analysis.roots)
    outputs = [
        f.output for f in functions if f.output in roots or any(u not in inside for u in analysis.users(f))
    ]
    outputs = tuple(sorted(outputs, key=lambda v: v.id))
    if outputs == s.outputs and chosen.isdisjoint(r.variable.creator for r in s.reads if r.variable.creator):
        return s
    return restrict(replace(s, functions=functions), analysis, outputs, s.work)
