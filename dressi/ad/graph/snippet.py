"""The text of snippets, snippets as templates, and the sums in them. What a comment says does not count."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_WORD = re.compile(r"\$(y|size|batch|type|)(\d*)\b")
_PLACE = re.compile(r"(?<![.\w])(?:pixel|tile)\b")


@lru_cache(maxsize=4096)
def without_comments(glsl: str) -> str:
    """GLSL without its comments, in the same lines."""
    return _COMMENT.sub(lambda m: "\n" * m[0].count("\n") or " ", glsl)


@lru_cache(maxsize=4096)
def places_of(glsl: str) -> frozenset[str]:
    """Which of ``pixel`` and ``tile``, the texel of the shader, a snippet names; ``x.pixel`` is neither."""
    return frozenset(_PLACE.findall(without_comments(glsl)))


class Template(NamedTuple):
    """A snippet as a format with a gap for each of its words (kind, number of an input).

    inputs: those numbers, where all words are inputs. statements: whether it assigns ``$y`` itself. most: the
    largest number of an input, or -1.
    """

    text: str
    words: tuple[tuple[str, int | None], ...]
    inputs: tuple[int, ...] | None
    statements: bool
    most: int


@lru_cache(maxsize=4096)
def template_of(glsl: str) -> Template:
    glsl = without_comments(glsl)
    words = tuple((kind, int(number) if number else None) for kind, number in _WORD.findall(glsl))
    inputs = tuple(number for kind, number in words if not kind and number is not None)
    return Template(
        _WORD.sub("%s", glsl.replace("%", "%%")).strip(),
        words,
        inputs if len(inputs) == len(words) else None,
        any(kind == "y" for kind, _ in words),
        max((number for _, number in words if number is not None), default=-1),
    )


LOST = "precise $type lost = $type(0);\n"
"""Declares what ``add_compensated`` keeps."""


def add_compensated(term: str, total: str = "$y", lost: str = "lost", kind: str = "$type") -> str:
    """Statements of a compensated addition (Kahan): ``lost`` keeps the rounding error and corrects the next
    term, so that long sums are as exact as short ones. Both are ``precise``, of the type ``kind``, and start
    from 0."""
    step = f"precise {kind} t = {term} - {lost}; precise {kind} sum = {total} + t;"
    return f"{step} {lost} = (sum - {total}) - t; {total} = sum;"
