"""Whether the snippet of a user's Function names what exists."""

from __future__ import annotations

import re
from functools import cache

from .function import Function
from .includes import is_own
from .snippet import without_comments

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
