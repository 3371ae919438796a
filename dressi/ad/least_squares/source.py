"""An energy with its solver as one C header without dependencies, in double precision."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import GraphError
from .. import functional as F
from ..expressions.emit import component_names
from ..expressions.emit import source as text_of
from ..graph import Domain, Function, Variable
from ..graph.evaluation import evaluate
from ..graph.traversal import topological_order
from ..graph.types import FLOAT
from ..ops.pixel.constant import constant
from .energy import Energy, Residual
from .linear.diagonal import reading, selects, texel_by_texel, unrolled
from .source_c import HEAD, SOLVER, TERM

__all__ = ["source"]

Kept = dict[Any, tuple[Variable, np.ndarray]]
"""Leaves of one texel, each with what it is at every texel of a residual."""


def source(energy: Energy | Sequence[Residual], unknowns: Sequence[Variable], name: str = "energy") -> str:
    """The text of a C99 header that minimises an energy on a CPU, in double precision.

    energy: as for ``DressiAD.set_loss``. unknowns: its unknown leaves with data, from which a solve starts. All
    else is constant, with its data. name: a C name, with which all others begin. Residuals read texels of the
    unknowns at the same place, at fixed distances, along ``F.lookup`` with indices that do not follow from
    unknowns, and in contractions of up to 16 terms. For the name "energy" the header has

        #define ENERGY_COUNT                                          numbers in x
        static const double energy_start[ENERGY_COUNT]
        static inline double energy_cost(const double *x)             as that of ``Energy``
        static inline double energy_solve(double *x, int steps, int iterations, double tolerance)

    x: all unknowns after each other, each as ``Variable.shape`` says. energy_solve moves x and returns its cost;
    NAN if there is no memory. It has the trust region of ``LevenbergMarquardt``, conjugate gradients of so many
    iterations with Jacobi's preconditioner, and ends when a step changes the cost by less than this part.
    Raises GraphError for other reads, leaves without data, and Functions that ``F.source`` does not write.

    >>> x = Variable.of([1.0, 2.0, 4.0, 7.0, 11.0], name="x")
    >>> text = least_squares.source([F.square(x) - 2.0], [x], "roots")
    >>> "double roots_solve(double *x, int steps, int iterations, double tolerance)" in text
    True
    """
    if not re.fullmatch(r"[A-Za-z]\w*", name):
        raise GraphError(f"a C header cannot have {name!r} as a name; take letters, digits and _")
    energy, unknowns = energy if isinstance(energy, Energy) else Energy(energy), list(unknowns)
    for x in unknowns:
        if not x.is_leaf or x.data is None or x.vtype.is_int:
            raise GraphError(f"unknowns are leaves of float types with data, where a solve starts, not {x}")
    ends = np.cumsum([0, *(int(np.prod(x.shape)) for x in unknowns)]).tolist()
    firsts = dict(zip(unknowns, ends, strict=False))
    kinds = list(zip(energy.residuals, energy.kernels, strict=True))
    names = [f"{name}_{k}" for k in range(len(kinds))]
    terms = [Term(unrolled(r, unknowns), firsts) for r, _ in kinds]
    texts = [term.text(n, kernel) for term, n, (_, kernel) in zip(terms, names, kinds, strict=True)]
    start = np.concatenate([np.ravel(x.data).astype(float) for x in unknowns])  # type: ignore[arg-type]
    words = {
        "NAME": name, "UPPER": name.upper(), "COUNT": len(start), "START": ", ".join(map(repr, start.tolist())),
        "TABLE": ", ".join(f"&{n}_term" for n in names), "MOST": max(term.scalars for term in terms),
        "LARGEST": max(term.block for term in terms), "BLOCKS": sum(term.block * term.texels for term in terms),
    }  # fmt: skip
    return filled("\n".join([HEAD, *texts, SOLVER]), words)


class Term:
    """A residual as a function of what one texel of it reads. firsts: where the numbers of each unknown begin."""

    def __init__(self, residual: Variable, firsts: dict[Variable, int]):
        self.residual, self.firsts = residual, firsts
        self.reads: Kept = {}  # with the first number of each in x; -1 for none
        self.constants: Kept = {}  # with their numbers
        self.active = set(firsts)
        for f in topological_order([residual]):
            if not self.active.isdisjoint(f.inputs):
                self.active.add(f.output)

    def text(self, name: str, kernel: Any) -> str:
        """What the header has of it."""
        local = self._local()
        reads, constants = list(self.reads.values()), list(self.constants.values())
        if not reads:
            raise GraphError(f"the residual {self.residual} reads no unknown: leave it out")
        rows = F.jacobian(local, [v for v, _ in reads], limit=None)
        body, robust = text_of([local, *(x for row in rows for x in row)], "c", name), "0"
        given = {}
        for word, leaves in (("u", reads), ("c", constants)):
            names = [n for v, _ in leaves for n in component_names(v)]
            given |= {n: f"{word}[{k}]" for k, n in enumerate(names)}
        wanted = re.findall(r"double (\w+)", body.partition("{")[0].partition("(")[2])
        if kernel is not None:
            square, robust = Variable(FLOAT, name="square"), f"{name}_kernel"
            body += text_of([kernel.rho(square), kernel.weight(square)], "c", robust)
        values = np.concatenate([x for _, x in constants] or [np.zeros((self.texels, 1))], 1)
        widths = [v.vtype.components for v, _ in reads]
        words = {
            "TERM": name, "TEXELS": self.texels, "READS": len(reads), "ROWS": local.vtype.components,
            "SCALARS": self.scalars, "NUMBERS": values.shape[1], "KERNEL": robust,
            "INDEX": _rows(np.stack([at for _, at in reads], 1)), "VALUES": _rows(values),
            "WIDTHS": ", ".join(map(str, widths)), "GIVEN": ", ".join(given.get(n, n) for n in wanted),
        }  # fmt: skip
        return body + filled(TERM, words)

    @property
    def scalars(self) -> int:
        """How many numbers a texel reads."""
        return sum(v.vtype.components for v, _ in self.reads.values())

    @property
    def block(self) -> int:
        """How many numbers the residual and its derivative have at a texel."""
        return self.residual.vtype.components * (1 + self.scalars)

    @property
    def texels(self) -> int:
        return int(np.prod(self.residual.tiled[:3]))

    # ---- the graph of one texel
    def _local(self) -> Variable:
        """The residual over leaves of one texel. A place is the selections from a value to the residual's texel,
        the first one first; a Domain broadcasts."""
        made: dict[Any, Variable] = {}
        waiting: list[Any] = [(self.residual, ())]
        while waiting:
            key = v, place = waiting[-1]
            further = [] if v not in self.active or v.is_leaf else self._inputs(v, place)
            missing = [k for k in further if k not in made]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            if key in made:
                continue
            if not further:
                made[key] = self._read(v, place) if v in self.active else self._constant(v, place)
            elif selects(v.creator):
                made[key] = self._inside(made[further[0]], further[0])
            else:
                made[key] = v.creator.rebuild(*(made[k] for k in further)).output
        return made[self.residual, ()]

    def _inputs(self, v: Variable, place: tuple[Any, ...]) -> list[Any]:
        """The values at places from which an active value is computed."""
        f: Function = v.creator  # type: ignore[assignment]
        active = [i for i, x in enumerate(f.inputs) if x in self.active]
        if active == [0] and selects(f):
            return [(f.inputs[0], (f, *place))]
        if not texel_by_texel(f, range(len(f.inputs))):
            raise f.fail(
                "reads other texels than at fixed distances and along lookups, so that C cannot have it"
            )
        return [(x, place if x.domain == v.domain else (v.domain, *place)) for x in f.inputs]

    def _numbers(self, v: Variable, place: tuple[Any, ...]) -> np.ndarray:
        """The values of a Variable at each texel of the residual: (texels, components)."""
        for step in place:
            broadcasts = isinstance(step, Domain)
            v = F.expand(v, step.batch, step.size, step.channels) if broadcasts else reading(step, v)
        return evaluate([v])[0].reshape(-1, v.vtype.components)

    def _read(self, x: Variable, place: tuple[Any, ...]) -> Variable:
        """A leaf for the texels of an unknown, or for those of a value with ``place``."""
        numbered = _images(x, np.arange(1.0, x.tiles * x.size[0] * x.size[1] + 1.0))
        texel = np.rint(self._numbers(numbered, place)[:, 0]).astype(int) - 1
        first = np.where(texel < 0, -1, self.firsts[x] + texel * x.vtype.components)
        return self._leaf(self.reads, "u", x, first)

    def _inside(self, value: Variable, key: Any) -> Variable:
        """A selected value; 0 where the selection leaves the image."""
        v, place = key
        if v.is_leaf:
            return value  # a number that is not read is 0
        inside = self._constant(_images(v, np.ones(v.tiles * v.size[0] * v.size[1])), place)
        return F.select(F.greater(inside, 0.5), value, 0.0)

    def _constant(self, v: Variable, place: tuple[Any, ...]) -> Variable:
        """A leaf, or the numbers themselves where they are the same everywhere."""
        values = self._numbers(v, place)
        if (values == values[0]).all():
            return constant(values[0].reshape(v.vtype.shape), v.vtype)
        return self._leaf(self.constants, "c", v, values)

    def _leaf(self, kept: Kept, word: str, v: Variable, values: np.ndarray) -> Variable:
        key = v.vtype, values.tobytes()
        if key not in kept:
            kept[key] = Variable(v.vtype, name=f"{word}{len(kept)}"), values
        return kept[key][0]


def _images(like: Variable, values: np.ndarray) -> Variable:
    """A FLOAT leaf with the domain of another Variable, of the values of its texels."""
    shape = like.shape[: len(like.shape) - len(like.vtype.shape)]
    return Variable(FLOAT, like.size, like.batch, channels=like.channels, data=values.reshape(shape))


def filled(text: str, words: Mapping[str, Any]) -> str:
    """The text with $WORD replaced."""
    return re.sub(r"\$([A-Z]+)", lambda m: str(words.get(m[1], m[0])), text)


def _rows(values: np.ndarray) -> str:
    """Rows of a C table."""
    return ",\n".join("{" + ", ".join(map(repr, row)) + "}" for row in values.tolist())
