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


# The parts of the C header that ``source`` writes: words behind $ are filled in.

HEAD = """\
/* An energy and its solver, written by dressi. C99, double precision, no dependencies but math.h and stdlib.h. */
#ifndef $UPPER_SOLVE_H
#define $UPPER_SOLVE_H

#include <math.h>
#include <stdlib.h>

#define $UPPER_COUNT $COUNT

/* A residual: `rows` numbers at each of `texels`, of `scalars` numbers in `reads` blocks of x. `at` writes the
   residual and its derivative by these, row by row. */
typedef struct {
    int texels, rows, reads, scalars;
    const int *index, *widths;
    void (*at)(const double *u, int texel, double *out);
    void (*kernel)(double square, double out[2]);
} $NAME_residual;
"""

TERM = """
static const int $TERM_index[$TEXELS][$READS] = {
$INDEX};
static const int $TERM_widths[$READS] = {$WIDTHS};
static const double $TERM_values[$TEXELS][$NUMBERS] = {
$VALUES};
static inline void $TERM_at(const double *u, int texel, double *out) {
    const double *c = $TERM_values[texel];
    (void)c;
    $TERM($GIVEN);
}
static const $NAME_residual $TERM_term = {
    $TEXELS, $ROWS, $READS, $SCALARS, $TERM_index[0], $TERM_widths, $TERM_at, $KERNEL};
"""

SOLVER = """
static const $NAME_residual *const $NAME_terms[] = {$TABLE};
enum { $NAME_TERMS = sizeof($NAME_terms) / sizeof($NAME_terms[0]) };
static const double $NAME_start[$UPPER_COUNT] = {$START};

/* The places in x of the numbers that a texel reads; -1 for none, which count as 0. */
static inline void $NAME_places(const $NAME_residual *r, int texel, int *at) {
    int i, k, n = 0;
    for (i = 0; i < r->reads; ++i)
        for (k = 0; k < r->widths[i]; ++k) {
            int first = r->index[texel * r->reads + i];
            at[n++] = first < 0 ? -1 : first + k;
        }
}

/* The cost at x. blocks, if given: residual and derivative of all texels, times the roots of their weights. */
static inline double $NAME_linearize(const double *x, double *blocks) {
    double cost = 0.0, u[$MOST], out[$LARGEST], robust[2];
    int at[$MOST], t, texel, k;
    for (t = 0; t < $NAME_TERMS; ++t) {
        const $NAME_residual *r = $NAME_terms[t];
        const int count = r->rows * (1 + r->scalars);
        for (texel = 0; texel < r->texels; ++texel) {
            double square = 0.0;
            $NAME_places(r, texel, at);
            for (k = 0; k < r->scalars; ++k) u[k] = at[k] < 0 ? 0.0 : x[at[k]];
            r->at(u, texel, out);
            for (k = 0; k < r->rows; ++k) square += out[k] * out[k];
            robust[0] = square, robust[1] = 1.0;
            if (r->kernel) r->kernel(square, robust);
            cost += 0.5 * robust[0];
            if (!blocks) continue;
            for (k = 0; k < count; ++k) *blocks++ = sqrt(robust[1]) * out[k];
        }
    }
    return cost;
}

/* y = J^T (J p), or J^T r without p. squares, if given: the diagonal of J^T J. */
static inline void $NAME_product(const double *blocks, const double *p, double *y, double *squares) {
    int at[$MOST], t, texel, row, k;
    for (k = 0; k < $UPPER_COUNT; ++k) y[k] = 0.0;
    for (k = 0; squares && k < $UPPER_COUNT; ++k) squares[k] = 0.0;
    for (t = 0; t < $NAME_TERMS; ++t) {
        const $NAME_residual *r = $NAME_terms[t];
        for (texel = 0; texel < r->texels; ++texel) {
            const double *j = blocks + r->rows;
            $NAME_places(r, texel, at);
            for (row = 0; row < r->rows; ++row, j += r->scalars) {
                double s = p ? 0.0 : blocks[row];
                for (k = 0; p && k < r->scalars; ++k) s += at[k] < 0 ? 0.0 : j[k] * p[at[k]];
                for (k = 0; k < r->scalars; ++k)
                    if (at[k] >= 0) {
                        y[at[k]] += j[k] * s;
                        if (squares) squares[at[k]] += j[k] * j[k];
                    }
            }
            blocks = j;
        }
    }
}

static inline double $NAME_dot(const double *a, const double *b) {
    double s = 0.0;
    int k;
    for (k = 0; k < $UPPER_COUNT; ++k) s += a[k] * b[k];
    return s;
}

static inline double $NAME_cost(const double *x) { return $NAME_linearize(x, 0); }

/* Levenberg-Marquardt from x, which it moves; returns the cost. steps: at most. iterations: of conjugate gradients in each.
   tolerance: the part of the cost by which the last step changes it. NAN if there is no memory. */
static inline double $NAME_solve(double *x, int steps, int iterations, double tolerance) {
    enum { N = $UPPER_COUNT };
    double *const room = malloc(sizeof(double) * (9 * (size_t)N + $BLOCKS)), radius = 1e4, shrink = 2.0, cost;
    double *g = room, *squares = g + N, *damping = squares + N, *d = damping + N, *r = d + N, *p = r + N, *q = p + N;
    double *moved = q + N, *z = moved + N, *blocks = z + N;
    int step, i, k, fresh = 1;
    if (!room) return NAN;
    cost = $NAME_linearize(x, blocks);
    for (step = 0; step < steps && radius > 1e-16; ++step) {
        double energy = 0.0, first, decrease = 0.0, model, gain, ratio;
        if (fresh) $NAME_product(blocks, 0, g, squares);
        for (k = 0; k < N; ++k) {
            damping[k] = fmin(fmax(squares[k], 1e-6), 1e32) / radius;
            d[k] = 0.0, r[k] = -g[k], p[k] = r[k] / (squares[k] + damping[k]);
            energy += r[k] * p[k];
        }
        for (i = 0, first = energy; i < iterations && energy > 1e-24 * first; ++i) {
            double alpha, next = 0.0, won;
            $NAME_product(blocks, p, q, 0);
            for (k = 0; k < N; ++k) q[k] += damping[k] * p[k];
            alpha = energy / $NAME_dot(p, q), won = 0.5 * alpha * energy;
            for (k = 0; k < N; ++k) {
                d[k] += alpha * p[k], r[k] -= alpha * q[k], z[k] = r[k] / (squares[k] + damping[k]);
                next += r[k] * z[k];
            }
            decrease += won;
            if ((i + 1) * won < 1e-6 * decrease) break;
            for (k = 0; k < N; ++k) p[k] = z[k] + next / energy * p[k];
            energy = next;
        }
        for (k = 0, model = decrease; k < N; ++k) moved[k] = x[k] + d[k], model += 0.5 * damping[k] * d[k] * d[k];
        gain = cost - $NAME_linearize(moved, 0), ratio = model > 0.0 ? gain / model : 0.0;
        fresh = ratio > 1e-3;
        if (fresh) {
            for (k = 0; k < N; ++k) x[k] = moved[k];
            cost = $NAME_linearize(x, blocks);
            radius = fmin(radius / fmax(1.0 - pow(2.0 * ratio - 1.0, 3.0), 1.0 / 3.0), 1e16), shrink = 2.0;
        } else
            radius /= shrink, shrink *= 2.0;
        if (model <= tolerance * cost || (fresh && gain <= tolerance * cost)) break;
    }
    free(room);
    return cost;
}

#endif
"""
