"""The parts of the C header that ``source`` writes: words behind $ are filled in."""

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
