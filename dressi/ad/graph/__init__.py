"""The graph of a computation: Variables, Functions and the kinds of Functions. Graphs are immutable."""

from .arrays import At
from .function import (
    AccumulateFunction,
    DrawFunction,
    FragmentScatterFunction,
    Function,
    PixelFunction,
    RasterFunction,
    ReduceFunction,
    ScatterFunction,
    Variable,
    as_variable,
)
from .types import Domain, domain_of
from .user_code import user_line
from .work import Edge

__all__ = [
    "AccumulateFunction", "At", "Domain", "DrawFunction", "Edge", "FragmentScatterFunction", "Function",
    "PixelFunction", "RasterFunction", "ReduceFunction", "ScatterFunction", "Variable", "as_variable",
    "domain_of", "user_line",
]  # fmt: skip
