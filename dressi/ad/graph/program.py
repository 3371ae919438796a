"""A Program: what one step computes and what the next starts from. A Procedure: Programs in sequence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property

from ...errors import GraphError
from ...figures import Figures
from . import DrawFunction, Function, Variable
from .includes import is_own
from .snippet import without_comments
from .traversal import topological_order


@dataclass(frozen=True, eq=False)
class Program(Figures):
    """Named outputs, and updates: pairs (leaf, new value).

    A run computes outputs and new values from the leaves as they are, then updates all leaves at once.
    """

    outputs: Mapping[str, Variable] = field(default_factory=dict)
    updates: tuple[tuple[Variable, Variable], ...] = ()

    @cached_property
    def roots(self) -> tuple[Variable, ...]:
        """Everything that is computed: outputs, then new values, without repetitions."""
        return tuple(dict.fromkeys((*self.outputs.values(), *(new for _, new in self.updates))))

    @cached_property
    def leaves(self) -> tuple[Variable, ...]:
        """Leaves that are read or updated, in the order in which they were made."""
        read = {v for v in (*self.roots, *(x for f in self.functions for x in f.inputs)) if v.is_leaf}
        return tuple(sorted(read | {leaf for leaf, _ in self.updates}, key=lambda v: v.id))

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """All Functions, producers first."""
        return tuple(topological_order(self.roots))

    def check(self) -> None:
        """Raises GraphError for updates that do not fit, second ones of a leaf, and invalid snippets."""
        for f in self.functions:
            for g in (f, *(f.fragment.functions if isinstance(f, DrawFunction) and f.fragment else ())):
                if not is_own(type(g)):
                    check_snippet(g)
        seen: set[Variable] = set()
        for leaf, new in self.updates:
            if not leaf.is_leaf:
                raise GraphError(f"{leaf} is computed and cannot be updated; only leaves can")
            if leaf in seen:
                raise GraphError(f"{leaf} is updated twice in one program; combine the two new values")
            seen.add(leaf)
            if (leaf.vtype, leaf.domain) != (new.vtype, new.domain):
                raise GraphError(f"the new value {new} of {leaf} must have its type, size and batch")


@dataclass(frozen=True, eq=False)
class Part:
    """A Program that runs ``times`` times in a row.

    at: leaves of the program -> leaves of their type and domain that this run reads and writes instead; none
    of them twice. gate: a FLOAT leaf of one texel, with a batch or not. While all its tiles are zero devices
    skip the Program, so its updates must then keep all leaves as they are.
    """

    name: str
    program: Program
    times: int = 1
    gate: Variable | None = None
    at: Mapping[Variable, Variable] = field(default_factory=dict)

    @property
    def updated(self) -> tuple[Variable, ...]:
        """Leaves that get new values."""
        return tuple(self.at.get(leaf, leaf) for leaf, _ in self.program.updates)


@dataclass(frozen=True, eq=False)
class Copies:
    """Pairs (leaf, target): leaves whose values are copied into other leaves of their type and domain."""

    pairs: tuple[tuple[Variable, Variable], ...]


@dataclass(frozen=True, eq=False)
class Procedure:
    """What one step runs: parts that share leaves, in order. What a part updates, the next one reads.

    scratch: leaves that nobody reads between steps. unmet: FLOAT leaves of one texel with the warning that a
    value other than 0 after a step gives. restart: leaves that are set to 1 before a step if any other leaf
    was sent: what was learned from the old values is out of date.
    """

    sequence: tuple[Part | Copies, ...]
    restart: tuple[Variable, ...] = ()
    scratch: tuple[Variable, ...] = ()
    unmet: Mapping[Variable, str] = field(default_factory=dict)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return tuple(part for part in self.sequence if isinstance(part, Part))

    @cached_property
    def copies(self) -> tuple[tuple[Variable, Variable], ...]:
        return tuple(pair for part in self.sequence if isinstance(part, Copies) for pair in part.pairs)

    @cached_property
    def updated(self) -> tuple[Variable, ...]:
        made = [leaf for part in self.parts for leaf in part.updated]
        return tuple(dict.fromkeys([*made, *(target for _, target in self.copies)]))

    @cached_property
    def stood_for(self) -> tuple[Variable, ...]:
        """Leaves that stand in for leaves of a program, or that are copied."""
        named = [leaf for part in self.parts for leaf in part.at.values()]
        return tuple(dict.fromkeys([*named, *(leaf for pair in self.copies for leaf in pair)]))

    def changing(self, part: Part) -> frozenset[Variable]:
        """The leaves that change between the runs of a part. A repeated program counts what other programs
        write as constant: it computes from that once, before its first run."""
        runs = [p for p in self.parts if p.program is part.program]
        leaves = frozenset(target for _, target in self.copies).union(*(p.at for p in runs))
        if part.times > 1 or len(runs) > 1:
            return leaves
        return leaves.union(*(p.updated for p in self.parts if p.program is not part.program))


# Whether the snippet of a Function names what exists.

_WORD = re.compile(r"\$(\w*)")
_RESERVED = re.compile(r"\bdressi_\w*")
"""Names that dressi gives to what is around a snippet."""
_KNOWN = re.compile(r"\d+|y|(size|batch|type)\d*")


@cache
def _is_own_snippet(kind: type[Function]) -> bool:
    """Whether the snippet of a class is dressi's, though the class may be a user's."""
    return is_own(next((c for c in kind.__mro__ if "glsl" in vars(c)), kind))


def check_snippet(function: Function) -> None:
    """Raises GraphError if the snippet names an input or a word that does not exist."""
    try:
        snippet = function.glsl
    except AttributeError:
        raise function.fail("declares no glsl, the snippet that computes it on a device") from None
    if not isinstance(snippet, str):
        raise function.fail(f"its glsl is a string, not {snippet!r}")
    snippet = without_comments(snippet)
    if not _is_own_snippet(type(function)) and (reserved := _RESERVED.search(snippet)):
        raise function.fail(
            f"its snippet uses the name {reserved[0]}; names that begin with dressi_ are those of the shaders"
        )
    for word in _WORD.findall(snippet):
        number = re.search(r"\d+$", word)
        if not _KNOWN.fullmatch(word):
            raise function.fail(
                f"its snippet has ${word}; there are $0, $1, ..., $y, $type, $size and $batch"
            )
        if number and int(number[0]) >= len(function.inputs):
            raise function.fail(f"its snippet names ${word}, but it has {len(function.inputs)} inputs")
