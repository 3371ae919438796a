"""Contractions from the index notation: extents of axes from the operands, borders, and the Function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from ..graph import Variable
from ..graph.index_map import BORDERS, IMAGE_AXES, Affine, IndexMap
from ..sub_graph import SubGraph
from ..types import whole
from .contraction import COMBINE, ContractFunction
from .notation import LEADING, Index, Notation
from .terms import shape_of

__all__ = ["contract"]


def contract(
    expression: str,
    *,
    combine: str = "add",
    border: str | None = None,
    extents: Mapping[str, int] | None = None,
    **operands: Any,
) -> Variable:
    """A sum over axes, written with indices: convolutions, matrix products, reductions, slices of grids.

    expression: ``out[...] = ...``. The axes on the left are those of the result; every other axis is summed over. Indices
    are those of arrays: row and column, ``[y, x]``, before them the channel if there are any, before that the number in the
    batch. What is left out runs along, as in other operations. An index is a sum of multiples of axes and whole numbers,
    and may be divided by a number with ``//``. The right side is arithmetic of operands, numbers and axes (their values),
    with comparisons, ``a if c else b``, and the functions of F of one texel.
    combine: "add", or "max" or "min" for the largest or smallest term instead of the sum. border: what is read beyond an
    image along any of its axes, the batch and the channels among them: "zero", "clamp" (the nearest texel), "mirror" (with the
    texel at the edge repeated, NumPy's "symmetric"), "reflect" (without repeating it) or "repeat"; None, the default, means
    that nothing is. extents: of axes by their names.
    operands: Variables (any type), numbers, and whole numbers for indices, by their names.

    The extent of an axis is that of what it indexes alone. Of an axis y in ``image[s * y + dy]`` it is with a border that of
    the image, divided by s and rounded up, and else the largest for which nothing beyond the image is read. Differentiable by
    all operands; the derivatives are contractions. Raises GraphError, which names the axis.

    >>> image, weight = Variable.of(np.arange(20.0).reshape(4, 5)), Variable.of([[0.0, 1.0, 0.0]], FLOAT)
    >>> blur = F.contract("out[y, x] = image[y + dy - 1, x + dx - 1] * w[dy, dx]", border="zero", image=image, w=np.ones((3, 3)) / 9)
    >>> blur.size, F.contract("out[y, x] = image[y, 2 * x + dx] * w[0, dx]", image=image, w=weight).size
    ((5, 4), (2, 4))
    >>> product = F.contract("out[y, x] = a[y, k] * b[k, x]", a=image, b=np.ones((5, 7)))
    >>> product.size, evaluate(product)[0, 1].tolist()
    ((7, 4), [35.0, 35.0, 35.0, 35.0, 35.0, 35.0, 35.0])
    """
    found = Notation(expression, operands)
    if combine not in COMBINE:
        found.fail(f"combines terms by {combine!r}; that is one of {', '.join(COMBINE)}")
    if border is not None and border not in BORDERS:
        found.fail(f"has the border {border!r}; that is one of {', '.join(BORDERS)}")
    if combine != "add" and not found.root.vtype.is_scalar:
        found.fail(f"combines a {found.root.vtype.name} by {combine!r}; that takes scalars")
    return Contraction(found, border, extents or {}).output_of(combine)


class Contraction:
    """A notation with the indices of all four axes of each operand, and the extents of its axes. Raises GraphError where
    these do not follow, or an index leaves its image."""

    def __init__(self, notation: Notation, border: str | None, given: Mapping[str, int]):
        self.notation, self.border = notation, border
        self.variables = [notation.variables[name] for name, _ in notation.reads]
        self.names = [name for name, _ in notation.reads]
        written = [index for _, index in notation.reads]
        channels = any(shape_of(x)[1] > 1 for x in self.variables)
        self.output = self._placed(notation.output, channels)
        outer = [axis for axes in self.output for axis in axes]
        self.indices = [self._whole(k, index) for k, index in enumerate(written)]
        self.axes = [*outer, *(a for a in notation.axes if a not in outer)]
        unknown = [name for name in given if name not in notation.axes]
        if unknown:
            notation.fail(f"has no axis {unknown[0]!r}; its axes are {', '.join(notation.axes)}")
        self.extents = {a: whole(e, f"the extent of the axis {a}", 1) for a, e in given.items()}
        self._alone(given)
        self._together()
        self._filled()

    def _placed(self, names: Sequence[tuple[str, ...]], channels: bool) -> list[tuple[str, ...]]:
        """The names of the axes n, c, y, x of the output. channels: whether there are any."""
        if len(names) == 3 and not channels:
            return [names[0], (LEADING[1],), *names[1:]]
        return [*((name,) for name in LEADING[: len(IMAGE_AXES) - len(names)]), *names]

    def _whole(self, k: int, written: Sequence[Index]) -> list[Index]:
        """The indices n, c, y, x of a read: those of the last axes of the array, which others run along with the output."""
        shape = shape_of(self.variables[k])
        found = [None] * (len(IMAGE_AXES) - len(written)) + [*written]
        if len(written) == 3 and shape[1] == 1:
            found = [written[0], None, *written[1:]]
        whole = []
        for name, index, extent in zip((*LEADING, "the columns"), found, shape, strict=True):
            if index is None and extent > 1 and (name,) not in self.output:
                self.notation.fail(
                    f"reads {self.names[k]!r} by {len(written)} indices, but it has {extent} along {name}"
                )
            whole.append(index or Index(((name, 1),) if extent > 1 else ()))
        return whole

    def _reads(self) -> Iterator[tuple[int, int, Index, int]]:
        """(number of the read, of its axis, index, extent of the image)."""
        for k, (x, index) in enumerate(zip(self.variables, self.indices, strict=True)):
            for s, (i, extent) in enumerate(zip(index, shape_of(x), strict=True)):
                yield k, s, i, extent

    def _alone(self, given: Mapping[str, int]) -> None:
        """Extents of the axes that index an image alone."""
        for k, s, index, extent in self._reads():
            axis = index.alone
            if axis is None:
                continue
            if axis in given:
                continue
            if self.extents.setdefault(axis, extent) != extent:
                self.notation.fail(
                    f"gives the axis {axis} the extent {self.extents[axis]} and, along {IMAGE_AXES[s]} of"
                    f" {self.names[k]!r}, {extent}"
                )

    def _together(self) -> None:
        """Extents of the axes that are indices together with others whose extents are known."""
        for axis in self.axes:
            if axis in LEADING:
                self.extents.setdefault(axis, 1)
        while missing := [a for a in self.axes if a not in self.extents]:
            found: dict[str, int] = {}
            for k, s, index, extent in self._reads():
                new = [a for a in index.terms_by_axis if a in missing]
                if len(new) == 1:
                    (axis,) = new
                    most = self._most(index, axis, extent)
                    found[axis] = min(found.get(axis, most), most)
                    if most < 1:
                        self._leaves(k, s, index, extent)
            if not found:
                self.notation.fail(
                    f"does not tell the extent of the axis {missing[0]}; give extents={{{missing[0]!r}: ...}}"
                )
            self.extents |= found

    def _filled(self) -> None:
        """Raises GraphError where the axes on the left leave gaps between texels or meet in one."""
        for axes, radices in zip(self.notation.output, self.notation.radices, strict=True):
            reach = 1
            for axis, radix in zip(reversed(axes), reversed(radices), strict=True):
                if radix != reach:
                    self.notation.fail(
                        f"multiplies the axis {axis} on the left by {radix}; what is added to it has {reach} values"
                    )
                reach *= self.extents[axis]

    def _most(self, index: Index, axis: str, extent: int) -> int:
        """The extent of an axis for which nothing beyond the image is read, or, with a border, that of the image."""
        by = index.terms_by_axis[axis]
        if self.border is not None:
            return -(-extent * index.divisor // abs(by))
        low, high = index.constant, index.constant
        for a, c in index.terms:
            if a != axis:
                low, high = low + min(c * (self.extents[a] - 1), 0), high + max(c * (self.extents[a] - 1), 0)
        room = extent * index.divisor - 1 - high if by > 0 else low
        return room // abs(by) + 1

    def _leaves(self, k: int, s: int, index: Index, extent: int) -> NoReturn:
        axis = IMAGE_AXES[s]
        hint = f"give a border ({', '.join(map(repr, BORDERS))}), or extents="
        self.notation.fail(
            f"reads {self.names[k]!r} at {index} along {axis}, which leaves [0, {extent}); {hint}"
        )

    def output_of(self, combine: str) -> Variable:
        """The contraction."""
        number = {axis: i for i, axis in enumerate(self.axes)}
        extents = [self.extents[a] for a in self.axes]
        maps = []
        for k, x in enumerate(self.variables):
            if x.count is not None and x.size[1] > 1:
                self.notation.fail(
                    f"reads {self.names[k]!r}, a list in several rows; contractions read images"
                )
            affines = [i.affine(number) for i in self.indices[k]]
            for s, (affine, extent) in enumerate(zip(affines, shape_of(x), strict=True)):
                beyond = not affine.within(extent, extents)
                if beyond and self.border is None:
                    self._leaves(k, s, self.indices[k][s], extent)
            maps.append(IndexMap.to(affines, self.border or "zero").bordered(shape_of(x), extents))
        notation = self.notation
        formals = [*notation.reads.values(), *notation.indices.values()]
        fields = {
            "parallel": tuple(tuple(self.extents[a] for a in axes) for axes in self.output),
            "reduced": tuple(extents[sum(map(len, self.output)) :]),
            "maps": tuple(maps),
            "guards": (),
            "combine": combine,
            "indices": tuple(Affine.axis(number[a]) for a in notation.indices),
            "body": SubGraph(tuple(formals), (notation.root,)),
        }
        return ContractFunction(*self.variables, **fields).output
