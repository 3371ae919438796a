"""Rules of simplification: values that are broadcast to many texels, and reads of none."""

from __future__ import annotations

from ..contract.contraction import ContractFunction
from ..graph import Domain, Function, PixelFunction, ReduceFunction, ScatterFunction, Variable
from ..ops.image.lookup import Lookup
from ..ops.image.reduce import Expand, zeros
from ..types import Access
from .rewrite import Rule, if_alike, on


@on(Expand)
def expand_expand(function: Function) -> Variable | None:
    """expand(x) to its own domain -> x;  expand(expand(x)) -> expand(x)"""
    x = function.inputs[0]
    if x.domain == function.output.domain:
        return x
    match x.creator:
        case Expand(inputs=(y,)):
            return Expand(y, function.output.domain).output
    return None


def _expanded(function: Function) -> list[int]:
    """The indices of the inputs that are Expands and are read at the same pixel."""
    if isinstance(function, (ReduceFunction, Expand)) or not isinstance(
        function, (PixelFunction, ScatterFunction)
    ):
        return []
    return [
        i
        for i, (x, a) in enumerate(zip(function.inputs, function.access, strict=True))
        if isinstance(x.creator, Expand) and a is Access.SAME_PIXEL
    ]


def _without(function: Function, *expands: int) -> Function:
    """The Function with the given Expands removed."""
    inputs = list(function.inputs)
    for i in expands:
        creator = inputs[i].creator
        assert creator is not None
        inputs[i] = creator.inputs[0]
    return function.rebuild(*inputs)


def _keeps_source(scatter: ScatterFunction, expand: int) -> bool:
    """Whether the scatter keeps its source domain without the given Expand."""
    inputs = list(scatter.inputs)
    creator = inputs[expand].creator
    assert creator is not None
    inputs[expand] = creator.inputs[0]
    return scatter.broadcast(*inputs[1:]) == scatter.source


def expand_is_broadcast(function: Function) -> Variable | None:
    """f(expand(x), y) -> f(x, y), if y has the whole domain"""
    for i in _expanded(function):
        if isinstance(function, ScatterFunction) and not _keeps_source(function, i):
            continue
        small = _without(function, i)
        if small.output.domain == function.output.domain:
            return small.output
    return None


def expand_later(function: Function) -> Variable | None:
    """f(expand(x), c) -> expand(f(x, c)) if x is one texel, unless f depends on the texel

    Larger images are expanded first: computing before the expansion would take another pass.
    """
    expands = _expanded(function)
    if not expands or isinstance(function, ScatterFunction):
        return None
    if function.places or any(a is not Access.SAME_PIXEL for a in function.access):
        return None
    small = _without(function, *expands).output
    one_texel = small.domain == Domain((1, 1), 1) and small.domain != function.output.domain
    return Expand(small, function.output.domain).output if one_texel else None


@on(Lookup)
def lookup_expanded(function: Function) -> Variable | None:
    """lookup(expand(table), i) -> lookup(table, i), if the index has the whole batch: all tiles share one table"""
    table, index = function.inputs
    match table.creator:
        case Expand(inputs=(x,)) if x.size == table.size:
            small = Lookup(x, index).output
            return if_alike(small, function)
    return None


@on(ContractFunction)
def contract_expanded(function: Function) -> Variable | None:
    """contract(expand(x)) -> expand(contract(x)), if the expansion is to more tiles and each tile is made from that tile"""
    assert isinstance(function, ContractFunction)
    if not function.own_tile:
        return None
    x = function.inputs[0]
    match x.creator:
        case Expand(inputs=(y,)) if y.size == x.size:
            return Expand(function.over_tiles(y).output, function.output.domain).output
    return None


@on(ContractFunction)
def contract_nothing(function: Function) -> Variable | None:
    """contract(x) -> 0, if it reads no texel of x or has no term, as a shift by more than an image and its gradient

    lavapipe of Mesa 22 does not end when it compiles some functions of what it finds to be zero itself.
    """
    assert isinstance(function, ContractFunction)
    return zeros(function.output.vtype, function.output.domain) if function.empty else None


RULES: tuple[Rule, ...] = (
    contract_nothing,
    expand_expand,
    expand_is_broadcast,
    expand_later,
    lookup_expanded,
    contract_expanded,
)
