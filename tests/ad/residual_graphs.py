"""Random small least-squares problems, and their Jacobian as a dense matrix.

Residuals read the unknowns by shifts, crops, lookups and broadcasting, and are smooth functions behind that.
Values that are computed by texel may be read in these ways again (``computed``), or be summed over axes
(``reduced``). They may also be contracted (``contracted``): stencils over channels, parts of channels, linear
layers and convolutions, whose weights may be unknowns, and loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from dressi import F, Variable, networks
from dressi.ad.graph.evaluation import Evaluator
from dressi.ad.graph.traversal import topological_order
from dressi.ad.graph.types import FLOAT, INT, MAT2, MAT3, VEC2, VEC3, VEC4, Domain, VType, broadcast

TYPES = (FLOAT, FLOAT, VEC2, VEC3, VEC4, MAT2, MAT3)
LARGEST = 24
"""Scalars of an unknown."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """residuals: at least one that depends on each unknown. unknowns: leaves with the start as their data."""

    residuals: tuple[Variable, ...]
    unknowns: tuple[Variable, ...]


def flat(values: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.asarray(v, dtype=np.float64).ravel() for v in values])


def unflat(x: np.ndarray, like: Sequence[Variable]) -> list[np.ndarray]:
    ends = np.cumsum([np.prod(v.shape) for v in like])
    return [part.reshape(v.shape) for part, v in zip(np.split(x, ends[:-1]), like, strict=True)]


def start(drawn: Drawn) -> np.ndarray:
    return flat([x.data for x in drawn.unknowns if x.data is not None])


class Dense:
    """Residuals as a vector, and the Jacobian by central differences in float64."""

    def __init__(self, drawn: Drawn):
        self.unknowns, self._run = drawn.unknowns, Evaluator(drawn.residuals)

    def residuals(self, x: np.ndarray) -> np.ndarray:
        return flat(self._run(dict(zip(self.unknowns, unflat(x, self.unknowns), strict=True))))

    def jacobian(self, x: np.ndarray, step: float = 1e-5) -> np.ndarray:
        moves = step * np.eye(len(x))
        return np.stack([self.residuals(x + d) - self.residuals(x - d) for d in moves], 1) / (2 * step)


class Builder:
    """random: of hypothesis, so that what fails is made smaller."""

    def __init__(self, random: Random, problems: int | None = None):
        """problems: the batch of all unknowns, which residuals do not mix; None: of any batch."""
        self.random, self.problems = random, problems
        self.numbers = np.random.default_rng(random.randrange(1000))

    def unknown(self, k: int) -> Variable:
        vtype = self.random.choice(TYPES)
        width, height, batch = (self.random.randint(1, n) for n in (4, 3, 2))
        channels = self.random.choice((1, 1, 2, 3, 4))
        batch = self.problems or batch
        while width * height * batch * channels * vtype.components > LARGEST * (self.problems or 1):
            width, height, channels = max(width - 1, 1), max(height - 1, 1), max(channels - 1, 1)
            batch = self.problems or max(batch - 1, 1)
        return self.leaf(vtype, (width, height), batch, channels, f"x{k}", 0.5, 1.5)

    def leaf(self, vtype, size, batch=1, channels=1, name=None, low=-1.0, high=1.0) -> Variable:
        leaf = Variable(vtype, size, batch, channels=channels, name=name)
        leaf.data = self.numbers.uniform(low, high, leaf.shape)
        return leaf

    def selection(self, x: Variable) -> Variable:
        """Texels of x in other places."""
        kind = self.random.randrange(6)
        width, height = x.size
        if kind == 0:
            return F.shift(x, self.random.randint(-2, 2), self.random.randint(-2, 2), "zero")
        if kind == 1:
            return F.shift(x, self.random.randint(-2, 2), self.random.randint(-2, 2), "repeat")
        if kind == 2:
            left, top = self.random.randrange(width), self.random.randrange(height)
            size = self.random.randint(1, width - left), self.random.randint(1, height - top)
            return F.crop(x, left, top, size)
        if kind == 3:
            return F.shift(x, self.random.randint(-2, 2), self.random.randint(-2, 2), "clamp")
        index = self.numbers.integers(
            -1, width * height + 1, (1, self.random.randint(1, 3), self.random.randint(1, 4))
        )
        return F.lookup(x, Variable(INT, (index.shape[2], index.shape[1]), data=index))

    def constant(self, vtype: VType, domain: Domain) -> Variable:
        return self.leaf(vtype, domain.size, domain.batch, domain.channels)

    def contraction(self, x: Variable, known: Sequence[Variable]) -> Variable:
        """A sum over channels or windows, channels taken apart or put together, or iterations."""
        kind, count = self.random.randrange(8), self.random.randint(1, 3)
        if kind == 0 and x.channels > 1:
            first = self.random.randrange(x.channels)
            return F.channels(x, first, self.random.randint(1, x.channels - first))
        if kind == 1:
            return F.concatenate_channels(x, self.smooth_like(x))
        if kind == 2 and x.vtype is FLOAT and x.channels > 1:
            line = "out[n, z, y, x] = v[n, z + 1, y, x] * v[n, z, y, x] - 0.5 * v[n, z, y, x]"
            return F.contract(line, v=x, extents={"z": x.channels - 1})
        if kind == 3 and not x.vtype.is_scalar and not x.vtype.is_matrix and x.channels == 1:
            return F.to_channels(x)
        if kind == 3 and x.vtype is FLOAT and 2 <= x.channels <= 4:
            return F.from_channels(x)
        if kind == 4:
            return self.random.choice((F.sum, F.mean))(x, "c")
        if kind == 5:
            return F.loop(lambda v: 0.7 * v + 0.1 * F.hadamard(v, v), x, count)
        if x.vtype is not FLOAT:
            return F.expand(F.sum(x, "c"), channels=count) * 0.5
        if kind == 6:
            fits = [w for w in known if w.vtype is FLOAT and (w.size[0], w.tiles) == (x.channels, 1)]
            weight = self.random.choice(fits) if fits else self.leaf(FLOAT, (x.channels, count))
            return networks.linear({"weight": weight}, x)
        fits = [w for w in known if w.vtype is FLOAT and (w.tiles, w.channels) == (1, 1)]
        kernel = self.random.choice(fits) if fits else self.leaf(FLOAT, (count, 2), count, x.channels)
        return F.correlate(x, kernel, border=self.random.choice(("zero", "clamp", "mirror", "repeat")))

    def smooth_like(self, x: Variable) -> Variable:
        """A smooth function of x of the same type and domain."""
        y = self.smooth(x)
        return y if (y.vtype, y.domain) == (x.vtype, x.domain) else x * 0.3

    def smooth(self, x: Variable) -> Variable:
        kind = self.random.randrange(9)
        if kind == 0:
            return F.sin(x) if not x.vtype.is_matrix else x * 0.5
        if kind == 1:
            return F.hadamard(x, x)
        if kind == 2:
            return F.hadamard(x, self.constant(x.vtype, x.domain)) + 0.25
        if kind == 3:
            return F.sqrt(1.0 + F.hadamard(x, x)) if not x.vtype.is_matrix else x + x
        if kind == 4 and x.vtype.is_matrix:
            return x @ self.constant(x.vtype, x.domain)
        if kind == 4 and not x.vtype.is_scalar:
            return F.dot(x, self.constant(x.vtype, x.domain))
        if kind == 5 and not x.vtype.is_scalar and not x.vtype.is_matrix:
            return F.component(x, self.random.randrange(x.vtype.components))
        if kind == 6 and x.vtype.is_matrix:
            return F.determinant(x)
        if kind == 7:
            mask = Variable(INT, x.size, x.batch, channels=x.channels)
            mask.data = self.numbers.integers(0, 2, mask.shape)
            return F.select(mask, x, 0.0)
        return x * 0.7 - 0.3

    def pair(self, a: Variable, b: Variable) -> Variable:
        """A function of both, if their domains fit; else of the first."""
        if broadcast([a.domain, b.domain]) is None:
            return self.smooth(a)
        if a.vtype is b.vtype:
            return self.random.choice((F.hadamard(a, b), a - b, a + b * 0.5))
        if a.vtype.is_matrix and b.vtype.shape == a.vtype.shape[1:]:
            return a @ b
        if b.vtype is FLOAT:
            return a * b
        return a * F.sin(b) if a.vtype is FLOAT and not b.vtype.is_matrix else self.smooth(a)


def draw(
    random: Random,
    *,
    ways: int = 2,
    computed: bool = False,
    reduced: bool = False,
    contracted: bool = False,
    problems: int | None = None,
) -> Drawn:
    """One to three unknowns, and one to three residuals. ways: in which a residual reads an unknown, at most;
    with one, a texel of a residual depends on one texel of each unknown. computed, reduced, contracted: as
    the module says. problems: that residuals do not mix, an image of the batch of all unknowns and residuals
    each."""
    builder = Builder(random, problems)
    unknowns = tuple(builder.unknown(k) for k in range(random.randint(1, 3)))
    axes = ("x", "y", "xy", "xyn", "xyc", "xycn") if problems is None else ("x", "y", "xy", "xyc")
    residuals = []
    for _ in range(random.randint(1, 3)):
        known = [builder.selection(x) if random.random() < 0.6 else x for x in unknowns * ways]
        for _ in range(random.randint(1, 5)):
            x = random.choice(known)
            if computed and random.random() < 0.3:
                made = builder.selection(x)
            elif contracted and random.random() < 0.5:
                made = builder.contraction(x, known)
            elif reduced and random.random() < 0.25:
                made = F.sum(x, random.choice(axes))
            elif random.random() < 0.5:
                made = builder.pair(x, random.choice(known))
            else:
                made = builder.smooth(x)
            known.append(made)
        residuals.append(known[-1])
    needed = depends(residuals, unknowns)
    residuals += [builder.smooth(x) for x in unknowns if x not in needed]
    return Drawn(tuple(residuals), unknowns)


def depends(residuals: Sequence[Variable], unknowns: Sequence[Variable]) -> set[Variable]:
    """The unknowns that some residual reads."""
    inputs = {x for f in topological_order(residuals) for x in f.inputs} | set(residuals)
    return inputs & set(unknowns)


def leaves(x: np.ndarray, like: Sequence[Variable]) -> list[Variable]:
    """A vector as leaves of the types and domains of ``like``."""
    return [
        Variable(v.vtype, v.size, v.batch, channels=v.channels, data=a)
        for v, a in zip(like, unflat(x, like), strict=True)
    ]
