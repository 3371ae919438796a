"""Contractions in index notation, ``out[y, x] = image[y + dy, x + dx] * weight[dy, dx]``, read as Python: the
extents of axes from the operands, borders, and the Function."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ...errors import GraphError
from ..contract.contraction import COMBINE, ContractFunction
from ..contract.terms import shape_of
from ..graph import Variable, user_line
from ..graph.evaluation import SubGraph
from ..graph.index_map import BORDERS, IMAGE_AXES, Affine, IndexMap
from ..graph.names import cure
from ..graph.types import FLOAT, INT, whole
from ..ops.image import activations
from ..ops.pixel import arithmetic, compare, elementary, geometry, math, matrix, vector
from ..ops.pixel.constant import constant

__all__ = ["contract"]

LEADING = ("the batch", "the channels", "the rows")  # names of the axes n, c and y where they are left out


class Index(NamedTuple):
    """floor((sum of coefficient * axis + constant) / divisor), the axes by their names."""

    terms: tuple[tuple[str, int], ...] = ()
    constant: int = 0
    divisor: int = 1

    @property
    def alone(self) -> str | None:
        """The axis that it is, None if it is more than that."""
        axis = self.terms[0][0] if self.terms else ""
        return axis if self == Index(((axis, 1),)) else None

    def affine(self, numbers: Mapping[str, int]) -> Affine:
        return Affine.of({numbers[a]: k for a, k in self.terms}, self.constant, self.divisor)

    def scaled(self, by: int) -> Index:
        return Index(tuple((a, k * by) for a, k in self.terms if by), self.constant * by, self.divisor)

    def plus(self, other: Index) -> Index:
        """The sum of two, of which at most one is divided."""
        a, b = self.scaled(other.divisor), other.scaled(self.divisor)
        terms = dict(a.terms)
        for axis, k in b.terms:
            terms[axis] = terms.get(axis, 0) + k
        kept = tuple((axis, k) for axis, k in terms.items() if k)
        return Index(kept, a.constant + b.constant, self.divisor * other.divisor)

    def __str__(self) -> str:
        names = [a for a, _ in self.terms]
        text = str(self.affine({a: i for i, a in enumerate(names)}))
        for i in reversed(range(len(names))):
            text = text.replace(f"a{i}", names[i])
        return text


FUNCTIONS: dict[str, Callable[..., Variable]] = {
    name: getattr(module, name)
    for module in (activations, arithmetic, compare, elementary, geometry, math, matrix, vector)
    for name in module.__all__
    if name not in ("softmax", "log_softmax", "fill", "swizzle")  # of axes, or of what is no value
} | {"min": arithmetic.minimum, "max": arithmetic.maximum}
OPERATORS: dict[type[ast.AST], Callable[..., Variable]] = {
    ast.Add: arithmetic.add,
    ast.Sub: arithmetic.sub,
    ast.Mult: arithmetic.mul,
    ast.Div: arithmetic.div,
    ast.Mod: arithmetic.mod,
    ast.Pow: elementary.pow,
    ast.USub: math.neg,
    ast.Lt: compare.less,
    ast.LtE: compare.less_equal,
    ast.Gt: compare.greater,
    ast.GtE: compare.greater_equal,
    ast.Eq: compare.equal,
    ast.NotEq: compare.not_equal,
}


class Notation:
    """An expression as data. Raises GraphError.

    output: the written axes of the output. Each is made of one axis or of several, the slowest first;
    ``radices`` are their factors.  reads: (name of the operand, its indices) -> placeholder.  indices: axes
    whose values are used -> INT placeholder.  root: the body over all placeholders.
    """

    def __init__(self, text: str, given: Mapping[str, Any]):
        self.text, self.where = text, user_line()
        self.numbers = {k: v for k, v in given.items() if isinstance(v, int) and not isinstance(v, bool)}
        self.operands = {k: v for k, v in given.items() if k not in self.numbers}
        self.variables = {k: _operand(v) for k, v in self.operands.items()}
        self.reads: dict[tuple[str, tuple[Index, ...]], Variable] = {}
        self._used: set[str] = set()
        self.indices: dict[str, Variable] = {}
        self.axes: dict[str, None] = {}  # in the order of their first use
        self.radices: list[tuple[int, ...]] = []
        self._check_text()
        try:
            tree = ast.parse(text.strip(), mode="exec").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            self.fail(f"is no expression: {getattr(error, 'msg', error)}")
        match tree:
            case [ast.Assign(targets=[ast.Subscript(value=ast.Name(), slice=index)], value=body)]:
                self.output = [self._axes_of(e) for e in _elements(index)]
            case _:
                self.fail("is written as out[y, x] = image[y + dy, x + dx] * weight[dy, dx]")
        left = [axis for axes in self.output for axis in axes]
        twice = sorted({a for a in left if left.count(a) > 1})
        if twice:
            self.fail(f"names the axis {twice[0]!r} of the output twice")
        if len(self.output) > 4:
            self.fail("has an output of more than the four axes n, c, y, x")
        self.axes = dict.fromkeys(left)
        self.root = self._value(body)
        if not isinstance(self.root, Variable) or not self.reads:
            self.fail("reads no operand")
        unused = sorted({*self.operands} - {name for name, _ in self.reads})
        unused += sorted({*self.numbers} - self._used)
        if unused:
            self.fail(f"does not use {unused[0]!r}")

    def _check_text(self) -> None:
        """Raises GraphError for what is no text, and for subscripts of einsum, with what to write instead."""
        if not isinstance(self.text, str):
            self.fail("takes its notation first, a text such as 'out[y, x] = a[y, k] * b[k, x]'")
        if "->" not in self.text:
            return
        left, _, right = self.text.replace(" ", "").partition("->")
        terms, names = left.split(","), list(self.operands)
        names += [name for name in "abcdefgh" if name not in names][: max(len(terms) - len(names), 0)]
        same = "out[y, x] = a[y, k] * b[k, x]"
        if all(t.isalpha() for t in terms) and right.isalpha() and len(terms) <= len(names):
            reads = (f"{name}[{', '.join(t)}]" for name, t in zip(names, terms, strict=False))
            same = f"out[{', '.join(right)}] = {' * '.join(reads)}"
        self.fail(f"is written with the names of operands, not as for einsum: {same!r}")

    def fail(self, reason: str) -> NoReturn:
        raise GraphError(f"contract({self.text!r}): it {reason} (at {self.where})")

    # ---- the body
    def _value(self, node: ast.expr) -> Any:
        """The value of a part of the body: a Variable of one texel, or a number."""
        match node:
            case ast.Constant(value=float() | int() as number) if not isinstance(number, bool):
                return number
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                return self._read(name, _elements(index))
            case ast.Name(id=name) if name in self.operands:
                return self._read(name, [])
            case ast.Name(id=name) if name in self.numbers:
                self._used.add(name)
                return self.numbers[name]
            case ast.Name(id=name):
                self.axes.setdefault(name)
                if name not in self.indices:
                    self.indices[name] = Variable(INT)
                return math.to_float(self.indices[name])
            case ast.UnaryOp(op=ast.UAdd(), operand=x):
                return self._value(x)
            case ast.UnaryOp(op=op, operand=x) if type(op) in OPERATORS:
                return self._apply(OPERATORS[type(op)], x)
            case ast.BinOp(left=a, op=op, right=b) if type(op) in OPERATORS:
                return self._apply(OPERATORS[type(op)], a, b)
            case ast.Compare(left=a, ops=[op], comparators=[b]) if type(op) in OPERATORS:
                return self._apply(OPERATORS[type(op)], a, b)
            case ast.IfExp(test=test, body=a, orelse=b):
                return self._apply(compare.select, test, a, b)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
                return self._apply(FUNCTIONS[name], *args)
            case ast.Call(func=ast.Name(id=name)):
                self.fail(f"calls {name!r}, which is no function of one texel{cure(name)}")
        self.fail(f"holds {ast.unparse(node)!r}, which is no arithmetic of operands, axes and numbers")

    def _apply(self, function: Callable[..., Variable], *nodes: ast.expr) -> Any:
        values = [self._value(node) for node in nodes]
        if not any(isinstance(v, Variable) for v in values):
            values = [constant(float(v)) for v in values]
        try:
            return function(*values)
        except TypeError:
            self.fail(f"calls {function.__name__!r} with {len(values)} values, which it does not take")

    def _read(self, name: str, elements: Sequence[ast.expr]) -> Variable:
        if name not in self.variables:
            known = ", ".join(self.operands) or "none"
            self.fail(f"reads {name!r}, which is not given; the operands are: {known}")
        if len(elements) > 4:
            self.fail(f"reads {name!r} at more than the four axes n, c, y, x")
        key = name, tuple(self._index(e) for e in elements)
        if key not in self.reads:
            self.reads[key] = Variable(self.variables[name].vtype)
        return self.reads[key]

    # ---- indices
    def _axes_of(self, node: ast.expr) -> tuple[str, ...]:
        """The axes that an index on the left is made of: ``x``, or ``2 * x + dx``, which dx fills."""
        index = self._index(node)
        terms = sorted(index.terms, key=lambda term: -term[1])
        if not terms or index.constant or index.divisor != 1 or terms[-1][1] != 1:
            self.fail(
                f"has the index {ast.unparse(node)!r} on the left; that is an axis, or as 2 * x + dx, which"
                " dx fills"
            )
        self.radices.append(tuple(k for _, k in terms))
        return tuple(a for a, _ in terms)

    def _index(self, node: ast.expr) -> Index:
        match node:
            case ast.Constant(value=int() as number) if not isinstance(number, bool):
                return Index((), number)
            case ast.Name(id=name) if name in self.numbers:
                self._used.add(name)
                return Index((), self.numbers[name])
            case ast.Name(id=name) if name not in self.operands:
                self.axes.setdefault(name)
                return Index(((name, 1),))
            case ast.UnaryOp(op=ast.USub(), operand=x):
                return self._scaled(self._index(x), -1, node)
            case ast.BinOp(left=a, op=ast.Add() | ast.Sub() as op, right=b):
                x, y = self._index(a), self._index(b)
                y = self._scaled(y, -1, node) if isinstance(op, ast.Sub) else y
                if x.divisor != 1 and y.divisor != 1:
                    self.fail(f"has the index {ast.unparse(node)!r}: it adds two divisions")
                return x.plus(y)
            case ast.BinOp(left=a, op=ast.Mult(), right=b):
                x, y = self._index(a), self._index(b)
                if not x.terms:
                    return self._scaled(y, x.constant, node)
                if not y.terms:
                    return self._scaled(x, y.constant, node)
            case ast.BinOp(left=a, op=ast.FloorDiv(), right=b):
                x, by = self._index(a), self._index(b)
                if not by.terms and by.constant > 0 and by.divisor == 1:
                    return x._replace(divisor=x.divisor * by.constant)
        self.fail(
            f"has the index {ast.unparse(node)!r}; an index is a sum of multiples of axes and numbers, which"
            " may be divided by // (for others use F.lookup)"
        )

    def _scaled(self, index: Index, by: int, node: ast.expr) -> Index:
        if index.divisor != 1:
            self.fail(f"has the index {ast.unparse(node)!r}: what // gives can be moved, not multiplied")
        return index.scaled(by)


def _operand(value: Any) -> Variable:
    """A Variable, or a leaf or a constant of numbers: (H, W) or (N, H, W) of an array."""
    if isinstance(value, Variable):
        return value
    array = np.asarray(value)
    if array.ndim == 0:
        return constant(float(array))
    return Variable.of(array, INT if array.dtype.kind in "biu" else FLOAT)


def _elements(index: ast.expr) -> list[ast.expr]:
    return list(index.elts) if isinstance(index, ast.Tuple) else [index]


def contract(
    expression: str,
    *,
    combine: str = "add",
    border: str | None = None,
    extents: Mapping[str, int] | None = None,
    **operands: Any,
) -> Variable:
    """A sum over axes, written with indices: convolutions, matrix products, reductions, slices of grids.

    expression: ``out[...] = ...``. The axes on the left are those of the result; every other axis is summed
    over. Indices are those of arrays: row and column, ``[y, x]``, before them the channel if there are any,
    before that the number in the batch. Axes that are left out run along, as in other operations. An index is
    a sum of multiples of axes and whole numbers, and may be divided by a number with ``//``. The right side
    is arithmetic of operands, numbers and axes (their values), with comparisons, ``a if c else b``, and the
    functions of F of one texel. combine: "add", or "max" or "min" for the largest or smallest term instead of
    the sum. border: what is read beyond an image along any axis, also the batch and the channels: "zero",
    "clamp" (the nearest texel), "mirror" (the texel at the edge twice, NumPy's "symmetric"), "reflect" (once)
    or "repeat"; None refuses such reads. extents: of axes by their names. operands: Variables (any type),
    numbers, and whole numbers for indices, by their names.

    An axis has the extent of what it indexes alone. An axis y in ``image[s * y + dy]`` has, with a border,
    the extent of the image divided by s and rounded up, else the largest for which nothing beyond the image
    is read. Differentiable by all operands; the derivatives are contractions. Raises GraphError.

    >>> image, weight = Variable.of(np.arange(20.0).reshape(4, 5)), Variable.of([[0.0, 1.0, 0.0]], FLOAT)
    >>> box, text = np.ones((3, 3)) / 9, "out[y, x] = image[y + dy - 1, x + dx - 1] * w[dy, dx]"
    >>> blur = F.contract(text, border="zero", image=image, w=box)
    >>> blur.size, F.contract("out[y, x] = image[y, 2 * x + dx] * w[0, dx]", image=image, w=weight).size
    ((5, 4), (2, 4))
    >>> product = F.contract("out[y, x] = a[y, k] * b[k, x]", a=image, b=np.ones((5, 7)))
    >>> product.size, evaluate(product)[0, 1].tolist()
    ((7, 4), [35.0, 35.0, 35.0, 35.0, 35.0, 35.0, 35.0])
    """
    notation = Notation(expression, operands)
    if combine not in COMBINE:
        notation.fail(f"combines terms by {combine!r}; that is one of {', '.join(COMBINE)}")
    if border is not None and border not in BORDERS:
        notation.fail(f"has the border {border!r}; that is one of {', '.join(BORDERS)}")
    if combine != "add" and not notation.root.vtype.is_scalar:
        notation.fail(f"combines a {notation.root.vtype.name} by {combine!r}; that takes scalars")
    return Contraction(notation, border, extents or {}).output_of(combine)


class Contraction:
    """A notation with four indices for each operand, and the extents of its axes. Raises GraphError if these
    do not follow, or an index leaves its image."""

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
        """The indices n, c, y, x of a read: axes that are not written run along with the output."""
        shape = shape_of(self.variables[k])
        indices = [None] * (len(IMAGE_AXES) - len(written)) + [*written]
        if len(written) == 3 and shape[1] == 1:
            indices = [written[0], None, *written[1:]]
        whole = []
        for name, index, extent in zip((*LEADING, "the columns"), indices, shape, strict=True):
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
        for k, s, index, extent in self._reads():
            axis = index.alone
            if axis is None or axis in given:
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
            extents: dict[str, int] = {}
            for k, s, index, extent in self._reads():
                new = [a for a, _ in index.terms if a in missing]
                if len(new) == 1:
                    (axis,) = new
                    most = self._most(index, axis, extent)
                    extents[axis] = min(extents.get(axis, most), most)
                    if most < 1:
                        self._leaves(k, s, index, extent)
            if not extents:
                self.notation.fail(
                    f"does not tell the extent of the axis {missing[0]}; give extents={{{missing[0]!r}: ...}}"
                )
            self.extents |= extents

    def _filled(self) -> None:
        """Raises GraphError where the axes on the left leave gaps between texels or meet in one."""
        for axes, radices in zip(self.notation.output, self.notation.radices, strict=True):
            reach = 1
            for axis, radix in zip(reversed(axes), reversed(radices), strict=True):
                if radix != reach:
                    self.notation.fail(
                        f"multiplies the axis {axis} on the left by {radix}; what is added to it has {reach}"
                        " values"
                    )
                reach *= self.extents[axis]

    def _most(self, index: Index, axis: str, extent: int) -> int:
        """The largest extent of an axis that stays inside the image; with a border that of the image."""
        by = dict(index.terms)[axis]
        if self.border is not None:
            return -(-extent * index.divisor // abs(by))
        reach = [c * (self.extents[a] - 1) for a, c in index.terms if a != axis]
        low = index.constant + sum(r for r in reach if r < 0)
        high = index.constant + sum(r for r in reach if r > 0)
        room = extent * index.divisor - 1 - high if by > 0 else low
        return room // abs(by) + 1

    def _leaves(self, k: int, s: int, index: Index, extent: int) -> NoReturn:
        self.notation.fail(
            f"reads {self.names[k]!r} at {index} along {IMAGE_AXES[s]}, which leaves [0, {extent}); give a"
            f" border ({', '.join(map(repr, BORDERS))}), or extents="
        )

    def output_of(self, combine: str) -> Variable:
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
                if self.border is None and not affine.within(extent, extents):
                    self._leaves(k, s, self.indices[k][s], extent)
            maps.append(IndexMap.to(affines, self.border or "zero").bordered(shape_of(x), extents))
        notation = self.notation
        formals = [*notation.reads.values(), *notation.indices.values()]
        fields = {
            "parallel": tuple(tuple(self.extents[a] for a in axes) for axes in self.output),
            "reduced": tuple(extents[sum(map(len, self.output)) :]),
            "maps": tuple(maps),
            "combine": combine,
            "indices": tuple(Affine.axis(number[a]) for a in notation.indices),
            "body": SubGraph(tuple(formals), (notation.root,)),
        }
        return ContractFunction(*self.variables, **fields).output
