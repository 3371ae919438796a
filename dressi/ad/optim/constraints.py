"""What the parameters of an optimisation may be: bounds, entries that stay, and manifolds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import DressiError, GraphError, InputError
from .. import functional as F
from ..graph import Variable
from ..graph.types import FLOAT, Domain
from ..transform.gradient import gradient
from .manifolds import Manifold, manifold
from .optimizer import names, state_leaf

FAR = 1e30
"""The bound of what has none, and no longer infinite in differences of 32 bits."""
OFF = 1e-2
"""How far a start may lie off its manifold: rounding and a mean of rotations, but no other matrix."""

Bound = float | np.ndarray | Variable | None
Bounds = Mapping[Variable, tuple[Bound, Bound]]
Read = Callable[[Sequence[Variable]], list[np.ndarray]]


class Increment(Variable):
    """An unknown that stands for the motion of a parameter on its manifold; a leaf that stays 0."""

    __slots__ = ("parameter",)

    @staticmethod
    def like(p: Variable, name: str, vtype: Any) -> Increment:
        made = Increment(vtype or p.vtype, p.size, p.batch, channels=p.channels, name=name)
        made.data, made.parameter = np.zeros(made.shape), p
        return made


class Constraints:
    """Constraints of parameters. Solvers and optimizers move ``unknowns``: the parameters themselves, or of
    one on a manifold its increments. ``value`` gives the parameter.

    bounds: (low, high) by parameter, each a number, an array that broadcasts with ``parameter.shape``, a
    Variable that does, or None; equal ones hold an entry. fixed: by parameter a mask of the entries that
    stay, as an array or Variable. manifolds: by parameter a name. Raises GraphError.
    """

    def __init__(
        self,
        parameters: Sequence[Variable],
        bounds: Bounds | None = None,
        fixed: Mapping[Variable, Any] | None = None,
        manifolds: Mapping[Variable, str] | None = None,
    ):
        for what, given in (("bounds", bounds), ("fixed", fixed), ("manifolds", manifolds)):
            if not isinstance(given or {}, Mapping):
                raise GraphError(f"{what} is a dict by parameter, not {given!r}")
            for p in given or ():
                if not any(p is own for own in parameters):
                    raise GraphError(f"{what} has {p}, which is not among the parameters of the optimizer")
        self._bounds: dict[Variable, tuple[Any, Any]] = {}
        self._held: dict[Variable, Any] = {}
        self._manifolds: dict[Variable, tuple[str, Manifold]] = {}
        self.unknowns: dict[Variable, list[Variable]] = {}
        for p, name in zip(parameters, names(parameters), strict=True):
            self._held[p] = conformed((fixed or {}).get(p), p, f"{name}.fixed")
            self.unknowns[p] = [p]
            if manifolds and p in manifolds:
                self._on(p, name, manifold(manifolds[p], p), manifolds[p], bounds or {})
            if bounds and p in bounds:
                self._bounds[p] = _pair(bounds[p], p, name)

    def _on(self, p: Variable, name: str, kind: Manifold, called: str, bounds: Bounds) -> None:
        if p in bounds:
            raise GraphError(f"{p} has bounds and the manifold {called!r}; give it one of them")
        self._manifolds[p] = called, kind
        self.unknowns[p] = [Increment.like(p, f"{name}.{word}", vtype) for word, vtype in kind.increments]
        mask = self._held.pop(p)
        if mask is None:
            return
        texels = p.shape[: len(p.shape) - len(p.vtype.shape)]
        known = None if mask.data is None else mask.data.reshape(*texels, -1)
        if known is None or (known.any(-1) != known.all(-1)).any():
            raise GraphError(f"on the manifold {called!r} whole texels of {p} are fixed: give a mask of them")
        for d in self.unknowns[p]:
            whole = known.any(-1)[(..., *[None] * len(d.vtype.shape))]
            self._held[d] = conformed(np.broadcast_to(whole, d.shape), d, f"{d.name}.fixed")

    def limited(self, unknowns: Sequence[Variable] | None = None) -> bool:
        """Whether any of these unknowns, of all by default, has bounds or entries that stay."""
        every = [u for own in self.unknowns.values() for u in own] if unknowns is None else unknowns
        return any(u in self._bounds or self._held.get(u) is not None for u in every)

    @property
    def given(self) -> list[Variable]:
        """The Variables among the bounds and masks."""
        every = [*(end for pair in self._bounds.values() for end in pair), *self._held.values()]
        return [v for v in every if isinstance(v, Variable)]

    def limits(self, u: Variable) -> tuple[Variable, Variable] | None:
        """The lowest and highest values of an unknown, like it; None: it has none."""
        low, high = self._bounds.get(u, (None, None))
        mask = self._held.get(u)
        if low is None and high is None and mask is None:
            return None
        pair = [
            F.fit(end + F.zeros_like(u), u)
            for end in (-FAR if low is None else low, FAR if high is None else high)
        ]
        if mask is not None:
            pair = [F.select(mask, u, end) for end in pair]
        return pair[0], pair[1]

    def free(self, u: Variable, slope: Variable) -> Variable:
        """A gradient with zeros at the entries that stay."""
        mask = self._held.get(u)
        return slope if mask is None else F.select(mask, 0.0, slope)

    def value(self, p: Variable, new: Sequence[Variable]) -> Variable:
        """The value of a parameter when its unknowns get new values."""
        limited = [(self.limits(u), v) for u, v in zip(self.unknowns[p], new, strict=True)]
        new = [v if pair is None else F.clamp(v, *pair) for pair, v in limited]
        return self._manifolds[p][1].moved(p, *new) if p in self._manifolds else new[0]

    def by_unknowns(self, p: Variable, slope: Variable) -> list[Variable]:
        """The derivative by the unknowns of a parameter, from that by the parameter."""
        if p not in self._manifolds:
            return [self.free(p, slope)]
        own = self.unknowns[p]
        back = gradient(self._manifolds[p][1].moved(p, *own), own, F.stop_gradient(slope))
        return [self.free(u, g) for u, g in zip(own, back, strict=True)]

    @property
    def moving(self) -> dict[Variable, Callable[..., Variable]]:
        """For each parameter on a manifold what moves it: (increments) -> value, of a placeholder."""
        return {p: kind.moved for p, (_, kind) in self._manifolds.items()}

    def held(self, u: Variable, read: Callable[[Variable], np.ndarray]) -> np.ndarray | None:
        """The mask of the entries of an unknown that stay, of its shape; None: none."""
        mask = self._held.get(u)
        return None if mask is None else np.broadcast_to(u.conform(read(mask)) != 0, u.shape)

    def tangent(self, p: Variable, read: Callable[[Variable], np.ndarray]) -> np.ndarray | None:
        """For each texel of a unit vector an orthonormal basis across it, as columns; None elsewhere."""
        if p not in self._manifolds or self._manifolds[p][0] != "unit":
            return None
        x = np.asarray(read(p), np.float64).reshape(-1, p.vtype.components)
        return np.linalg.svd(x[:, None, :])[2][:, 1:].swapaxes(1, 2)

    def check(self, read: Read) -> None:
        """Raises InputError unless the present values are finite, inside of the bounds and on the manifolds.
        read: present values of Variables."""
        for p in self.unknowns:
            pair = self._bounds.get(p)
            if pair is None and p not in self._manifolds:
                continue
            (x,) = read([p])
            _refuse(p, x, ~np.isfinite(x), "where the optimisation starts; send finite values")
            if p in self._manifolds:
                name, kind = self._manifolds[p]
                off = kind.off(np.asarray(x, np.float64))
                if (off > OFF).any():
                    raise InputError(
                        f"{p} starts off the manifold {name!r} at entry {_first(off > OFF)}, by"
                        f" {off.max():.2g}; send values on it"
                    )
            if pair is None:
                continue
            low, high = (
                np.full(x.shape, far) if end is None else read([end])[0] if isinstance(end, Variable)
                else np.full(x.shape, end, np.float32)
                for end, far in zip(pair, (-np.inf, np.inf), strict=True)
            )  # fmt: skip
            _ordered(p, low, high)
            low, high = np.broadcast_to(low, x.shape), np.broadcast_to(high, x.shape)
            outside = (x < low) | (x > high)
            if outside.any():
                k = _first(outside)
                raise InputError(
                    f"{p} starts at {x[k]:g} at entry {k}, outside of its bounds [{low[k]:g}, {high[k]:g}],"
                    f" and so do {outside.sum()} of its {x.size} numbers; start inside, as np.clip gives it"
                )


def _refuse(p: Variable, x: np.ndarray, bad: np.ndarray, why: str) -> None:
    if bad.any():
        raise InputError(f"{p} is {x[_first(bad)]} at entry {_first(bad)} {why}")


def _first(mask: np.ndarray) -> tuple[int, ...]:
    return tuple(int(k) for k in np.argwhere(mask)[0])


def _ordered(p: Variable, low: np.ndarray, high: np.ndarray) -> None:
    """Raises InputError for bounds that are NaN, or a lower one above the upper one."""
    low, high = np.broadcast_arrays(low, high)
    if not (low <= high).all():
        k = _first(~(low <= high))
        raise InputError(
            f"the lower bound of {p} is {low[k]:g} and the upper one {high[k]:g} at entry {k}; exchange them"
        )


def _pair(given: Any, p: Variable, name: str) -> tuple[Any, Any]:
    if not (isinstance(given, Sequence) and len(given) == 2):
        raise GraphError(f"the bounds of {p} are (low, high), not {given!r}")
    low, high = (
        conformed(end, p, f"{name}.{word}") for end, word in zip(given, ("low", "high"), strict=True)
    )
    known = [e.data if isinstance(e, Variable) else e for e in (low, high)]
    if known[0] is not None and known[1] is not None:
        _ordered(p, np.asarray(known[0]), np.asarray(known[1]))
    return low, high


def conformed(given: Any, p: Variable, name: str) -> Any:
    """A number, or a Variable that broadcasts with a parameter, of numbers, an array or a Variable; None as
    it is. Raises GraphError."""
    if given is None:
        return None
    if isinstance(given, Variable):
        if given.vtype not in (p.vtype, FLOAT) or given.domain not in (p.domain, Domain((1, 1), 1)):
            raise GraphError(f"{given} does not fit {p}: its type, and its size or one texel")
        return given
    try:
        array = np.asarray(given, np.float64)
        shape = p.as_given(np.zeros(p.shape)).shape
        whole = np.clip(np.broadcast_to(array, shape), -FAR, FAR)
    except DressiError:
        raise
    except (ValueError, TypeError):
        raise GraphError(
            f"{name} has shape {np.shape(given)}, which does not broadcast with {shape} of {p}"
        ) from None
    if np.isnan(whole).any():
        raise GraphError(f"{name} is NaN at entry {_first(np.isnan(whole))}; None is no bound")
    if array.ndim == 0 and name.rpartition(".")[2] != "fixed":
        return float(whole.flat[0])
    leaf = state_leaf(p, name)
    leaf.count = p.count
    leaf.data = p.conform(whole)
    return leaf
