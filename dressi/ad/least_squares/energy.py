"""Energies of residuals, E(x) = 1/2 sum |r_k(x)|^2, their robust kernels, and computed arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple

from ...errors import GraphError
from .. import functional as F
from ..graph import Variable
from ..graph.traversal import topological_order
from ..ops.image.coordinates import entries_only
from ..ops.pixel.kinds import shortcut
from ..transform.gradient import gradient, total
from ..transform.rewrite import substitute
from .linear.diagonal import Paths, selections, selects, texel_by_texel, unrolled
from .linear.vectors import WHOLE, inner, squared_norm, units

__all__ = ["Energy", "Kernel", "Robust", "cauchy", "huber", "linearized", "tukey"]

# Robust kernels: costs that grow more slowly than the square, so that outliers weigh less.
#
# A kernel maps the squared norm s = |r|^2 of a residual at one texel to rho(s); the cost is 1/2 rho(s). Near
# zero rho(s) = s. The solvers use iteratively reweighted least squares: every step multiplies r by
# sqrt(rho'(s)), held constant.


@dataclass(frozen=True)
class Kernel(ABC):
    """A robust kernel. width: the norm of a residual from which on it counts as an outlier, > 0."""

    width: float

    def __post_init__(self) -> None:
        if not (isinstance(self.width, Real) and self.width > 0):
            raise GraphError(f"the width of a robust kernel is a number above 0, not {self.width!r}")

    @abstractmethod
    def rho(self, s: Variable) -> Variable:
        """The kernel of the squared norm s >= 0, FLOAT."""

    @abstractmethod
    def weight(self, s: Variable) -> Variable:
        """Its derivative d rho / d s, in [0, 1]."""


class Huber(Kernel):
    """s up to width^2, then 2 width sqrt(s) - width^2."""

    def rho(self, s):
        norm = F.sqrt(F.maximum(s, self.width**2))
        return F.select(F.less(s, self.width**2), s, 2.0 * self.width * norm - self.width**2)

    def weight(self, s):
        return self.width / F.sqrt(F.maximum(s, self.width**2))


class Cauchy(Kernel):
    """width^2 log(1 + s / width^2)."""

    def rho(self, s):
        x = s / self.width**2
        # 1 + x loses x where that is small: log(1 + x) = 2 artanh z, with z = x / (2 + x).
        z = x / (2.0 + x)
        square = F.square(z)
        near = 2.0 * z * (1.0 + square * (1.0 / 3.0 + square * (1.0 / 5.0 + square * (1.0 / 7.0))))
        return self.width**2 * F.select(F.less(x, 0.1), near, F.log(1.0 + x))

    def weight(self, s):
        return 1.0 / (1.0 + s / self.width**2)


class Tukey(Kernel):
    """width^2 / 3 (1 - (1 - s / width^2)^3) up to width^2, then constant: outliers do not count."""

    def rho(self, s):
        # The same as width^2 / 3 (1 - (1 - x)^3), which loses x where that is small.
        x = F.minimum(s / self.width**2, 1.0)
        return self.width**2 * x * (1.0 - x + F.square(x) * (1.0 / 3.0))

    def weight(self, s):
        return F.square(F.maximum(1.0 - s / self.width**2, 0.0))


@dataclass(frozen=True)
class Own(Kernel):
    """A kernel by a function, see ``Robust``."""

    function: Callable[[Variable], Variable] = F.square

    def rho(self, s):
        made = self.function(s)
        if not isinstance(made, Variable) or (made.vtype, made.domain) != (s.vtype, s.domain):
            raise GraphError(
                f"a robust kernel maps the squared norm {s} to a FLOAT of each texel, not to {made!r}"
            )
        return made

    def weight(self, s):
        rho = self.rho(s)
        return F.maximum(gradient(rho, [s], F.zeros_like(rho) + 1.0)[0], 0.0)


def huber(width: float) -> Kernel:
    """Quadratic up to a norm of ``width``, linear beyond (Huber). width > 0. Raises GraphError.

    >>> r = Variable.of([0.5, 4.0, 4.0, 4.0, 4.0])
    >>> evaluate(least_squares.huber(1.0).rho(F.square(r))).tolist()[:2]
    [0.25, 7.0]
    """
    return Huber(width)


def cauchy(width: float) -> Kernel:
    """Logarithmic beyond a norm of ``width`` (Cauchy, or Lorentzian). width > 0. Raises GraphError.

    >>> evaluate(least_squares.cauchy(1.0).weight(Variable.of(3.0))).item()
    0.25
    """
    return Cauchy(width)


def tukey(width: float) -> Kernel:
    """Constant beyond a norm of ``width``: no influence (Tukey's biweight). width > 0. Raises GraphError.

    >>> evaluate(least_squares.tukey(1.0).weight(Variable.of(3.0))).item()
    0.0
    """
    return Tukey(width)


class Robust(NamedTuple):
    """A residual with its kernel, for the list that ``DressiAD.set_loss`` takes.

    residual: any float type. At each texel the kernel gets the squared norm of all components together. Each
    channel has texels of its own; ``F.from_channels`` makes components of up to four, for one kernel of all.
    kernel: ``huber``, ``cauchy`` or ``tukey``, or a function of your own from the squared norm s, FLOAT, to
    rho(s), whose derivative is the weight: ``lambda s: F.log(1.0 + s)``. It is finite at 0, and rises.

    >>> x = Variable.of([0.0, 0.1, 9.0, 0.2, 0.1], name="x")
    >>> energy = least_squares.Energy([least_squares.Robust(x, least_squares.tukey(1.0))])
    >>> round(evaluate(energy.cost()).item(), 3)
    0.195
    """

    residual: Variable
    kernel: Kernel | Callable[[Variable], Variable]


Residual = Variable | Robust


class Energy:
    """A list of residuals. ``cost()`` is what a least-squares solver minimises.

    residuals: Variables of any float type, size, channels and batch, or ``Robust`` ones. A weight is a factor
    of the residual: the root of the weight of its square. What a mask or a border excludes is zero:
    ``F.select(valid, r, 0.0)``. Raises GraphError for anything else.

    >>> x = Variable.of([1.0, 2.0, 4.0, 7.0, 11.0], name="x")
    >>> energy = least_squares.Energy([F.crop(x, 1, 0, (4, 1)) - F.crop(x, 0, 0, (4, 1)), 0.5 * x])
    >>> evaluate(energy.cost()).item()  # half of 1 + 4 + 9 + 16, and of a quarter of 191
    38.875
    """

    def __init__(self, residuals: Sequence[Residual]):
        if isinstance(residuals, Variable | Robust) or not isinstance(residuals, Sequence) or not residuals:
            raise GraphError(f"an energy is a list of at least one residual, not {residuals!r}")
        pairs = [r if isinstance(r, Robust) else (r, None) for r in residuals]
        pairs = [(r, Own(1.0, k) if callable(k) and not isinstance(k, Kernel) else k) for r, k in pairs]
        for r, kernel in pairs:
            if not isinstance(r, Variable):
                raise GraphError(
                    f"a residual is a Variable, or Robust(Variable, kernel), not {r!r}; F makes one of"
                    " numbers"
                )
            if r.vtype.is_int:
                raise GraphError(f"the residual {r} holds integers; convert it with F.to_float")
            if kernel is not None and not isinstance(kernel, Kernel):
                raise GraphError(
                    f"a robust kernel is huber(width), cauchy(width), tukey(width) or a function, not"
                    f" {kernel!r}"
                )
        self.residuals: tuple[Variable, ...] = tuple(entries_only(r) for r, _ in pairs)
        self.kernels: tuple[Kernel | None, ...] = tuple(k for _, k in pairs)
        for r, kernel in zip(self.residuals, self.kernels, strict=True):
            if isinstance(kernel, Own):
                kernel.rho(squared_norm(r))  # raises for what is no kernel

    def cost(self, axes: str = WHOLE) -> Variable:
        """The cost, FLOAT of one texel; with axes "xyc" that of every image, with the batch."""
        parts = [(squared_norm(r), kernel) for r, kernel in zip(self.residuals, self.kernels)]
        return total([F.sum(0.5 * (s if kernel is None else kernel.rho(s)), axes) for s, kernel in parts])

    def decrease(self, after: Energy, axes: str = WHOLE) -> Variable:
        """The cost minus that of ``after``, the energy at other unknowns; exact if they are nearly equal.

        Squares are subtracted texel by texel: |a|^2 - |b|^2 = (a - b) . (a + b).
        """
        parts = []
        for a, b, kernel in zip(self.residuals, after.residuals, self.kernels, strict=True):
            if kernel is None:
                difference = inner(a - b, a + b)
            else:
                difference = kernel.rho(squared_norm(a)) - kernel.rho(squared_norm(b))
            parts.append(F.sum(0.5 * difference, axes))
        return total(parts)

    def with_residuals(self, residuals: Sequence[Variable]) -> Energy:
        """The energy of other residuals with the same kernels."""
        pairs = zip(residuals, self.kernels, strict=True)
        return Energy([r if k is None else Robust(r, k) for r, k in pairs])

    def linearized(self) -> list[Variable]:
        """The residuals as the solver sees them: robust ones times sqrt(rho'), held constant."""
        return [
            r if k is None else r * F.stop_gradient(F.sqrt(k.weight(squared_norm(r))))
            for r, k in zip(self.residuals, self.kernels)
        ]


# Computed arrays: values whose derivatives are images, made once for all products with J (Opt, section 3).


def linearized(y: Variable, inputs: Variable | Sequence[Variable]) -> Variable:
    """A computed array: ``y``, with its derivative by ``inputs`` as images that are computed once in a
    nonlinear step.

    An iteration of conjugate gradients multiplies by the Jacobian twice, and computes again what is cheaper
    than to read. Where long arithmetic stands between a few values and ``y``, as in the shading of a normal,
    the product needs only the slopes S_k = dy / dx_k at each texel:  dy = sum_k S_k dx_k.

    y: any float type, computed from ``inputs`` at the same texel, at texels at a fixed distance and along
    ``F.lookup``; each such read x_k has its own slope. inputs: computed Variables or leaves of float types. All
    else that y reads is held constant. Type, size, channels and batch are those of y. First derivatives are
    exact, second ones are zero. Raises GraphError if y reads no input, or otherwise, as a sum does.

    >>> x = Variable.of([1.0, 2.0, 4.0, 7.0, 11.0], name="x")
    >>> fourth = F.square(F.square(x - F.shift(x, 1, 0)))
    >>> jacobian = least_squares.Jacobian([least_squares.linearized(fourth, x)], [x])
    >>> ramp = F.to_float(F.pixel_coordinates(x.size).x)
    >>> evaluate(jacobian.forward([ramp])[0]).tolist()  # 4 (x - its left)^3, times 1
    [0.0, 4.0, 32.0, 108.0, 256.0]
    """
    inputs = [inputs] if isinstance(inputs, Variable) else list(inputs)
    for v in (y, *inputs):
        if not isinstance(v, Variable) or v.vtype.is_int:
            raise GraphError(f"linearized takes Variables of float types, not {v!r}")
    # An input may be computed from another one: each gets a placeholder, which holds the others.
    places = {x: Variable(x.vtype, x.size, x.batch, channels=x.channels, count=x.count) for x in inputs}
    local = unrolled(substitute([y], places)[0], places.values())
    _check(y, local, places)
    changes = []
    for place in places.values():
        paths = Paths(place, selections(local, place) or [])
        for path, tangents in paths.flow(local).items():
            read = paths.read[path]
            for unit, slope in zip(units(read.vtype), tangents, strict=True):
                along = read if read.vtype.is_scalar else inner(read, unit)
                changes.append(F.stop_gradient(slope) * along)
    change = substitute([F.fit(total(changes), y)], {place: x for x, place in places.items()})[0]
    return shortcut(F.stop_gradient(y), change)


def _check(y: Variable, local: Variable, places: Mapping[Variable, Variable]) -> None:
    """Raises GraphError unless ``local``, y of places instead of inputs, reads them along paths."""
    depending = set(places.values())
    for function in topological_order([local]):
        read = [i for i, x in enumerate(function.inputs) if x in depending]
        if not read or function.zero_derivative:
            continue
        if not (texel_by_texel(function, read) or (read == [0] and selects(function))):
            raise GraphError(
                f"{y} is not computed from texels at fixed distances of the inputs of linearized:"
                f" {type(function).__name__} (made at {function.output.where}) reads them otherwise; make its"
                " output an input"
            )
        depending.add(function.output)
    if local not in depending or local in places.values():
        raise GraphError(f"{y} is not computed from the inputs of linearized, {', '.join(map(str, places))}")
