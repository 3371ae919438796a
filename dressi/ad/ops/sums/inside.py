"""The sub-graph of a draw as an ordinary graph, whose derivatives are those of the values of a fragment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ....errors import GraphError
from ...coordinates import pixel_coordinates
from ...graph import DrawFunction, Function, ScatterFunction, Variable
from ...transform.algebra import COMMUTATIVE, drop_derivative_marks
from ...transform.gradient import blocks_derivatives, depending, gradient, jvp, total
from ...transform.rewrite import rewrite
from ...transform.simplify import RULES
from ...traversal import topological_order
from ...types import FLOAT, Access
from ..image.draws import FragmentGraph, split
from ..image.lookup import lookup
from ..pixel.arithmetic import Add
from ..pixel.compare import not_equal, select
from ..pixel.constant import is_constant
from ..pixel.geometry import cross, dot
from ..pixel.math import to_float
from ..pixel.vector import vec3

KEEPING_MARKS = tuple(rule for rule in RULES if rule is not drop_derivative_marks)

Pair = tuple[Variable, Variable]
"""(value, index): what a fragment adds to which texel of a table."""
Seeded = tuple[Variable, Variable]
"""A value of the fragments, and the gradient of the loss by it."""


@dataclass(eq=False)
class Inside:
    """The sub-graph of a draw over leaves of its own.

    face, z: of the fragment. pixel: leaves over all fragments, for the externals that are read at the fragment's pixel, by
    their numbers among the inputs of the draw. table: leaves for the inputs that are fetched from. roots: those of the
    sub-graph. readers: (Function, number of its input, number of the input of the draw) of every fetch.
    """

    f: DrawFunction
    face: Variable = field(init=False)
    z: Variable = field(init=False)
    pixel: dict[int, Variable] = field(default_factory=dict)
    table: dict[int, Variable] = field(default_factory=dict)
    roots: list[Variable] = field(init=False)
    readers: list[tuple[Function, int, int]] = field(default_factory=list)

    def __post_init__(self):
        f, graph = self.f, self.f.fragment
        self.face, self.z = self.over_fragments(graph.face), self.over_fragments(Variable(FLOAT, name="z"))
        made = dict(zip(graph.given, (self.face, self.z), strict=False))
        number = {v: f.pulled + k for k, v in enumerate(graph.formals)}

        def read(v: Variable, access: Access) -> Variable:
            if v in made:
                return made[v]
            return self._pixel(number[v]) if access is Access.SAME_PIXEL else self._table(number[v])

        for g in graph.functions:
            inside = g.rebuild(*map(read, g.inputs, g.access))
            made[g.output] = inside.output
            self.readers += [
                (inside, i, number[x])
                for i, (x, access) in enumerate(zip(g.inputs, g.access, strict=True))
                if access is not Access.SAME_PIXEL
            ]
        self.roots = [read(v, Access.SAME_PIXEL) for v in graph.roots]

    def over_fragments(self, like: Variable) -> Variable:
        """A leaf of that type over the domain of the fragments."""
        return Variable(like.vtype, self.f.size, self.f.batch, name=like.name)

    def _pixel(self, k: int) -> Variable:
        return self.pixel.setdefault(k, self.over_fragments(self.f.inputs[k]))

    def _table(self, k: int) -> Variable:
        x = self.f.inputs[k]
        return self.table.setdefault(k, Variable(x.vtype, x.size, x.batch, name=x.name))

    # ---- derivatives
    def by_pixel(self, seeded: Sequence[Seeded], k: int) -> Variable | None:
        """The gradient by input ``k`` of the draw where it is read at the fragment's own pixel; None if it is zero."""
        return _by(self.pixel[k], seeded) if k in self.pixel else None

    def by_table(self, seeded: Sequence[Seeded], k: int) -> list[Pair]:
        """The gradient by input ``k`` of the draw where it is fetched from, as what each fragment adds to it."""
        readers = [(g, i) for g, i, number in self.readers if number == k]
        found = _scattered(readers, seeded)
        return found + (self._by_depth(seeded) if k == 0 else [])

    def _by_depth(self, seeded: Sequence[Seeded]) -> list[Pair]:
        """What each fragment adds to the gradient by the positions through its depth."""
        slope = _by(self.z, seeded)
        if slope is None:
            return []
        depth = self.depth()
        readers = [(g, 0) for g in topological_order([depth]) if g.inputs[:1] == (self.table[0],)]
        return _scattered(readers, [(depth, slope)])

    def depth(self) -> Variable:
        """The depth of the fragment of a face as a function of the positions: those of the plane through its corners."""
        f = self.f
        if f.triangles_per_face != 1:
            raise f.fail(
                "the derivative by the depth of a fragment needs triangles_per_face=1; compute the depth from the lists, or "
                "use F.stop_gradient(depth)"
            )
        position = self._table(0)
        if f.indexed:
            corners = lookup(self._table(1), self.face)
            numbers = [corners.x, corners.y, corners.z]
        else:
            numbers = [self.face * 3 + k for k in range(3)]
        p = [lookup(position, n) for n in numbers]
        x, y, z, w = (vec3(*(c[k] for c in p)) for k in range(4))
        width, height = f.size
        ray = (to_float(pixel_coordinates(f.size)) + 0.5) * (2.0 / width, 2.0 / height) - 1.0
        # Olano and Greer 1997: the weights of the corners, times a common factor.
        weights = cross(x - w * ray.x, y - w * ray.y)
        return dot(weights, z) / dot(weights, w)

    def along(
        self, roots: Sequence[Variable], tangents: Sequence[Variable | None]
    ) -> tuple[list[Variable | None], dict[Variable, Variable]]:
        """The derivatives of some roots along tangents of the inputs of the draw, None if they are zero; and the leaves that
        stand for the tangents."""
        leaves, moved, actual = [], [], {}
        for k, tangent in enumerate(tangents):
            if tangent is None or tangent.vtype.is_int:
                continue
            held = [leaf for leaf in (self.pixel.get(k), self.table.get(k)) if leaf is not None]
            if k == 0 and any(self.z in depending(topological_order([r]), [self.z]) for r in roots):
                depth = self.depth()
                along = Variable(tangent.vtype, tangent.size, tangent.batch)
                actual[along] = tangent
                leaves.append(self.z)
                moved.append(jvp([depth], [self.table[0]], [along])[0])
                held = [leaf for leaf in held if leaf is not self.table[0]]
            for leaf in held:
                along = Variable(leaf.vtype, leaf.size, leaf.batch)
                actual[along] = tangent
                leaves.append(leaf)
                moved.append(along)
        found: list[Variable | None] = []
        for root in roots:
            active = depending(topological_order([root]), leaves)
            found.append(jvp([root], leaves, moved)[0] if leaves and root in active else None)
        return found, actual

    # ---- back to draws
    def outside(
        self, roots: Sequence[Variable], actual: Mapping[Variable, Variable] | None = None
    ) -> tuple[FragmentGraph, tuple[Variable, ...]]:
        """A sub-graph of these roots, and the images that it reads. actual: what further leaves stand for."""
        standing = {leaf: self.f.inputs[k] for held in (self.pixel, self.table) for k, leaf in held.items()}
        standing.update(actual or {})
        return simplified(self.face, self.z, roots, standing)


def simplified(
    face: Variable,
    z: Variable,
    roots: Sequence[Variable],
    standing: Mapping[Variable, Variable] | None = None,
) -> tuple[FragmentGraph, tuple[Variable, ...]]:
    """A sub-graph of these roots after simplification, without the depth if it is not used, and the images that it reads.
    standing: what leaves stand for. Marks such as ``stop_gradient`` stay: derivatives are still to be taken."""
    simple = rewrite(roots, KEEPING_MARKS, dict(standing or {}), COMMUTATIVE)
    roots = [simple[r] for r in roots]
    used = any(z in f.inputs for f in topological_order(roots)) or z in roots
    return split(face, roots, z if used else None)


def joined(
    parts: Sequence[tuple[FragmentGraph, Sequence[Variable]]],
) -> tuple[FragmentGraph, tuple[Variable, ...]]:
    """One sub-graph with the roots of several over one domain, in order, and the images that it reads. What two of them compute
    alike is computed once. parts: sub-graphs, each with the images that its formals stand for."""
    face = parts[0][0].face
    z = next((graph.z for graph, _ in parts if graph.z is not None), None)
    formals: dict[Variable, Variable] = {}
    alike: dict[Variable, Variable] = {}
    for graph, externals in parts:
        given = [(graph.face, face)]
        given += [(graph.z, z)] if graph.z is not None and z is not None else []
        standing = zip(graph.formals, externals, strict=True)
        given += [(formal, formals.setdefault(x, formal)) for formal, x in standing]
        alike.update((own, other) for own, other in given if own is not other)
    roots = [root for graph, _ in parts for root in graph.roots]
    same = rewrite(roots, (), alike, COMMUTATIVE)
    return FragmentGraph(tuple(formals.values()), tuple(same[r] for r in roots), face, z), tuple(formals)


def kept_only(pairs: Sequence[Pair], keep: Variable | None) -> list[Variable]:
    """The roots of a scatter of pairs, one for each index: fragments that ``keep`` drops add nothing."""
    found: dict[Variable, list[Variable]] = {}
    for value, index in pairs:
        found.setdefault(index, []).append(value)
    roots = []
    for index, values in found.items():
        kept = index if keep is None else select(not_equal(keep, 0.0), index, -1)
        roots += [total(values), kept]
    return roots


def _by(x: Variable, seeded: Sequence[Seeded]) -> Variable | None:
    """The gradient by a leaf or a value of the fragments; None if it is zero."""
    found = [
        gradient(y, [x], seed)[0]
        for y, seed in seeded
        if not y.vtype.is_int and y in depending(topological_order([y]), [x])
    ]
    return total(found) if found else None


def _scattered(readers: Iterable[tuple[Function, int]], seeded: Sequence[Seeded]) -> list[Pair]:
    """What each fragment adds to the gradient by the table that some Functions fetch from as the given input."""
    pairs: list[Pair] = []
    for g, i in readers:
        if blocks_derivatives(g) or g.inputs[i].vtype.is_int:
            continue
        slope = _by(g.output, seeded)
        if slope is not None:
            pairs += _pairs_of(g, g.vjp(slope, i), g.inputs[i])
    return pairs


def _pairs_of(g: Function, found: Variable | None, table: Variable) -> list[Pair]:
    """The pairs of the scatters that are added up in the gradient by a table."""
    pairs: list[Pair] = []
    stack = [] if found is None else [found]
    while stack:
        v = stack.pop()
        made = v.creator
        if isinstance(made, Add):
            stack += made.inputs
        elif isinstance(made, ScatterFunction) and made.operation == "add" and made.table == table.domain:
            pairs += made.pairs
        elif not is_constant(v, 0.0):
            raise GraphError(
                f"{g!r} reads {table} in the fragments of a draw, and its gradient by that is no sum of scatters; read lists by"
                f" F.lookup and textures by F.sample (at {g.where})"
            )
    return pairs
