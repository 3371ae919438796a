"""The text of snippets: what a comment says does not count."""

from __future__ import annotations

import re
from functools import lru_cache

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_PLACE = re.compile(r"(?<![.\w])(?:pixel|tile)\b")


@lru_cache(maxsize=4096)
def without_comments(glsl: str) -> str:
    """GLSL without its comments, in the same lines."""
    return _COMMENT.sub(lambda m: "\n" * m[0].count("\n") or " ", glsl)


@lru_cache(maxsize=4096)
def places_of(glsl: str) -> frozenset[str]:
    """Which of ``pixel`` and ``tile``, the texel that a shader computes, a snippet names. A member ``x.pixel`` is neither."""
    return frozenset(_PLACE.findall(without_comments(glsl)))
