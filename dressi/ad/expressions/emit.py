"""Computations of one texel as the text of a function: GLSL, NumPy, or C, one header without dependencies."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from ...errors import GraphError
from ..graph import Variable
from ..ops.pixel import arithmetic, compare, elementary, math
from ..transform.simplify import paused
from .count import shortest
from .reader import Reader, floats
from .steps import CALL, GIVEN, NUMBER, PRODUCT, RECIPROCAL, Steps
from .table import Table

__all__ = ["source"]


def _mask(c: str, numpy: str | None = None) -> tuple[str, str]:
    return f"({c} ? 1.0 : 0.0)", f"np.where({numpy or c}, 1.0, 0.0)"


# Class -> how C, NumPy and GLSL write it; where GLSL is left out it is written as in C.
_SPELLED: dict[type, tuple[str, ...]] = {
    elementary.Sqrt: ("sqrt({0})", "np.sqrt({0})"),
    elementary.Sin: ("sin({0})", "np.sin({0})"),
    elementary.Cos: ("cos({0})", "np.cos({0})"),
    elementary.Tan: ("tan({0})", "np.tan({0})"),
    elementary.Asin: ("asin({0})", "np.arcsin({0})"),
    elementary.Acos: ("acos({0})", "np.arccos({0})"),
    elementary.Atan: ("atan({0})", "np.arctan({0})"),
    elementary.Atan2: ("atan2({0}, {1})", "np.arctan2({0}, {1})", "atan({0}, {1})"),
    elementary.Exp: ("exp({0})", "np.exp({0})"),
    elementary.Exp2: ("exp2({0})", "np.exp2({0})"),
    elementary.Log: ("log({0})", "np.log({0})"),
    elementary.Log2: ("log2({0})", "np.log2({0})"),
    elementary.Pow: ("pow({0}, {1})", "np.power({0}, {1})"),
    elementary.Sigmoid: ("(1.0 / (1.0 + exp(-({0}))))", "(1.0 / (1.0 + np.exp(-({0}))))"),
    math.Abs: ("fabs({0})", "np.abs({0})", "abs({0})"),
    math.Sign: ("(double)(({0} > 0.0) - ({0} < 0.0))", "np.sign({0})", "sign({0})"),
    math.Floor: ("floor({0})", "np.floor({0})"),
    math.Ceil: ("ceil({0})", "np.ceil({0})"),
    math.Round: ("rint({0})", "np.round({0})", "roundEven({0})"),
    math.Fract: ("({0} - floor({0}))", "({0} - np.floor({0}))", "fract({0})"),
    math.StopGradient: ("{0}", "{0}"),
    arithmetic.Min: ("fmin({0}, {1})", "np.minimum({0}, {1})", "min({0}, {1})"),
    arithmetic.Max: ("fmax({0}, {1})", "np.maximum({0}, {1})", "max({0}, {1})"),
    arithmetic.Clamp: (
        "fmin(fmax({0}, {1}), {2})", "np.minimum(np.maximum({0}, {1}), {2})", "clamp({0}, {1}, {2})",
    ),
    arithmetic.Mod: (
        "({0} - {1} * floor({0} / {1}))", "({0} - {1} * np.floor({0} / {1}))", "mod({0}, {1})",
    ),
    arithmetic.Step: ("({1} < {0} ? 0.0 : 1.0)", "np.where({1} < {0}, 0.0, 1.0)"),
    compare.Less: _mask("{0} < {1}"),
    compare.LessEqual: _mask("{0} <= {1}"),
    compare.Equal: _mask("{0} == {1}"),
    compare.NotEqual: _mask("{0} != {1}"),
    compare.LogicalAnd: _mask("{0} != 0.0 && {1} != 0.0", "({0} != 0.0) & ({1} != 0.0)"),
    compare.LogicalOr: _mask("{0} != 0.0 || {1} != 0.0", "({0} != 0.0) | ({1} != 0.0)"),
    compare.LogicalNot: _mask("{0} == 0.0"),
    compare.Select: ("({0} != 0.0 ? {1} : {2})", "np.where({0} != 0.0, {1}, {2})"),
}  # fmt: skip


class _Language(NamedTuple):
    """How a language writes a function. column: in the table. output: the parameter for the results."""

    column: int
    head: str
    argument: str
    output: str
    declare: str
    result: str
    tail: str
    reserved: str


_C_WORDS = (
    "auto break case char const continue default do double else enum extern float for goto if int long out"
    " return short signed sizeof static struct switch typedef union unsigned void volatile while inline"
)
LANGUAGES = {
    "c": _Language(
        0,
        "#ifndef DRESSI_{upper}_H\n#define DRESSI_{upper}_H\n\n#include <math.h>\n\n"
        "static inline void {name}({parameters}) {{",
        "double {}", "double out[{}]", "    const double {0} = {1};", "    out[{0}] = {1};", "}\n\n#endif",
        _C_WORDS,
    ),
    "numpy": _Language(
        1, "import numpy as np\n\n\ndef {name}({parameters}):\n    out = [0.0] * {count}",
        "{}", "", "    {0} = {1}", "    out[{0}] = {1}", "    return out",
        " ".join([*keyword.kwlist, "np out"]),
    ),
    "glsl": _Language(
        2, "void {name}({parameters}) {{",
        "float {}", "out float result[{}]", "    float {0} = {1};", "    result[{0}] = {1};", "}",
        f"{_C_WORDS} result in inout uniform buffer input output sample",
    ),
}  # fmt: skip


@paused()
def source(
    outputs: Variable | Sequence[Variable],
    language: str = "c",
    name: str = "function",
    *,
    product_cost: float = 1.0,
) -> str:
    """The text of a function that computes the components of the outputs, with few operations.

    outputs: float Variables that Functions of one texel make of named leaves. language: "c" (a header,
    double), "glsl" (float) or "numpy" (a module; the arguments may be arrays). name: that of the function.
    product_cost: of a product in sums, at least 1: the dearer products are, the more sums replace them. The
    arguments are the components of the leaves in the order in which they were made: ``p`` of a FLOAT,
    ``p_x``, ``p_y`` of a vector, ``m_01`` of row 0 and column 1 of a matrix. Derivatives are written as what
    they are: outputs may be those of ``jacobian``. The results are the components of the outputs in order.
    Raises GraphError for a leaf without a name, for names that the language cannot take or that occur twice,
    for a product_cost below 1, and for Functions that read other texels.

    >>> x = Variable.of(2.0, name="x")
    >>> print(F.source(F.square(x) + 1.0, "numpy", "f"))
    import numpy as np
    <BLANKLINE>
    <BLANKLINE>
    def f(x):
        out = [0.0] * 1
        t0 = x * x
        t1 = 1.0 + t0
        out[0] = t1
        return out
    <BLANKLINE>
    """
    outputs = floats(outputs, "a function", "output")
    if language not in LANGUAGES:
        raise GraphError(f"a function is written as {', '.join(LANGUAGES)}, not as {language!r}")
    if not product_cost >= 1.0:
        raise GraphError(f"a product costs at least 1 sum, not product_cost={product_cost!r}")
    to = LANGUAGES[language]
    reader = Reader(Table())
    roots = [x for y in reader.read(outputs) for x in y]
    leaves = sorted(reader.leaves, key=lambda v: v.id)
    names = {(v, k): text for v in leaves for k, text in enumerate(component_names(v))}
    given = list(names.values())
    for text in [name, *given]:
        taken = text in to.reserved.split() or re.fullmatch(r"t\d+", text)
        if taken or not re.fullmatch(r"[A-Za-z]\w*", text):
            what = "function" if text == name else "leaf"
            raise GraphError(f"{language} cannot have {text!r} as a name: give the {what} another name=")
    twice = next((x for x in given if given.count(x) > 1), None)
    if twice:
        raise GraphError(f"two leaves are named {twice!r}: give one of them another name=")
    steps = shortest(reader.table, roots, product_cost)
    parameters = [to.argument.format(x) for x in given] + [to.output.format(len(roots))] * bool(to.output)
    head = to.head.format(name=name, upper=name.upper(), parameters=", ".join(parameters), count=len(roots))
    body = _Body(steps, to, names)
    results = [to.result.format(k, body.term(r) if r else "0.0") for k, r in enumerate(steps.roots)]
    return "\n".join([head, *body.lines, *results, to.tail, ""])


def component_names(v: Variable) -> list[str]:
    """The arguments for a leaf, one for each component."""
    if not v.is_leaf:
        raise v.creator.fail("is no Function of one texel that can be written as text")  # type: ignore[union-attr]
    if not v.name:
        raise GraphError(f"{v} (made at {v.where}) has no name: give it name=")
    if v.vtype.is_scalar:
        return [v.name]
    if v.vtype.is_matrix:
        rows, columns = v.vtype.shape
        return [f"{v.name}_{i}{j}" for i in range(rows) for j in range(columns)]
    return [f"{v.name}_{c}" for c in "xyzw"[: v.vtype.components]]


class _Body:
    """The statements of steps."""

    def __init__(self, steps: Steps, to: _Language, names: dict[Any, str]):
        self.steps, self.to, self.lines = steps, to, list[str]()
        self._text: dict[int, str] = {}
        order = steps.order()
        uses = steps.uses(order)
        for n in order:
            kind, of = steps.kinds[n], cast("Any", steps.of.get(n))
            if kind == GIVEN:
                self._text[n] = names[of]
            elif kind == NUMBER:
                self._text[n] = repr(float(of)) if of.numerator >= 0 else f"({float(of)!r})"
            elif kind == RECIPROCAL and uses[n] == 1:
                self._text[n] = f"(1.0 / {self._text[steps.operands[n][0]]})"
            else:
                self._text[n] = f"t{len(self.lines)}"
                self.lines.append(to.declare.format(self._text[n], self._expression(n)))

    def term(self, m: int) -> str:
        return self._text[m] if m >= 0 else f"-{self._text[-m]}"

    def _expression(self, n: int) -> str:
        kind, operands, terms = self.steps.kinds[n], self.steps.operands[n], self.steps.terms[n]
        if kind == RECIPROCAL:
            return f"1.0 / {self._text[operands[0]]}"
        if kind == PRODUCT:
            text = " * ".join(self._text[m] for m in operands if not self._divides(m)) or "1.0"
            for m in operands:
                if self._divides(m):
                    text += f" / {self._text[self.steps.operands[m][0]]}"
            return text
        if kind == CALL:
            function = self.steps.of[n][0]
            spelled = _SPELLED.get(function)
            if spelled is None:
                raise GraphError(
                    f"{function.__name__} cannot be written as text; write it with operations of F"
                )
            text = spelled[self.to.column if self.to.column < len(spelled) else 0]
            return text.format(*(f"({self.term(m)})" if m < 0 else self._text[m] for m in terms))
        first, *rest = sorted(terms, key=lambda m: m < 0)
        return self.term(first) + "".join(f" {'+' if m > 0 else '-'} {self._text[abs(m)]}" for m in rest)

    def _divides(self, n: int) -> bool:
        return self.steps.kinds[n] == RECIPROCAL and self._text[n].startswith("(")
