"""What a Function reads, as data: every analysis of a graph walks these edges."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ..types import Access, Domain


class Edge(NamedTuple):
    """An input of a Function.  maker: the Function that computes it, None for a leaf.  near: whether it is read at the
    invocation's own texel, of an image over the same domain."""

    variable: Any
    maker: Any
    access: Access
    near: bool


class Reads:
    """The edges of a Function, made once."""

    if TYPE_CHECKING:
        inputs: Any
        output: Any
        access: Any

    @property
    def working_domain(self) -> Domain:
        """The domain over which it runs."""
        return self.output.domain

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """Its inputs, in order."""
        here, same = self.working_domain, Access.SAME_PIXEL
        return tuple(
            Edge(x, x.creator, access, access is same and x.domain == here)
            for x, access in zip(self.inputs, self.access, strict=True)
        )
