"""Snippets as templates, and the text of a shader that knows the Function behind each of its statements."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from ....ad.graph import Function, Variable
from ....ad.graph.snippet import without_comments
from ..limits import DeviceLimits

_WORD = re.compile(r"\$(y|size|batch|type|)(\d*)\b")


class Template(NamedTuple):
    """A snippet as a format with a gap for each of its words (kind, number of an input).

    inputs: those numbers, where all words are the values of inputs.  statements: whether it assigns its value itself.
    most: the largest number of an input, -1 where there is none.
    """

    text: str
    words: tuple[tuple[str, int | None], ...]
    inputs: tuple[int, ...] | None
    statements: bool
    most: int


@lru_cache(maxsize=4096)
def template_of(glsl: str) -> Template:
    """The template of a snippet."""
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


def constants(limits: DeviceLimits, bands: range = range(1)) -> list[str]:
    """The push constants of the shaders of a dispatch: its first workgroup, the first cell of a band of a table."""
    members = ["uvec2 dressi_base;"] * (not limits.dispatch_base) + ["int dressi_band;"] * (len(bands) > 1)
    return [f"layout(push_constant) uniform dressi_Constants {{ {' '.join(members)} }};"] if members else []


def workgroup_number(limits: DeviceLimits) -> str:
    """GLSL of the number of the workgroup in the whole dispatch, of which a slice may run: an ivec2."""
    return f"ivec2(gl_WorkGroupID.xy{'' if limits.dispatch_base else ' + dressi_base'})"


def invocation_number(limits: DeviceLimits) -> str:
    """The same of the invocation."""
    base = "" if limits.dispatch_base else " + dressi_base * gl_WorkGroupSize.xy"
    return f"ivec2(gl_GlobalInvocationID.xy{base})"


class ShaderSource(str):
    """The GLSL of one shader, a string that knows its parts.

    statements: whole statements of its text, each with the Function whose snippet it is.  included: the texts of other
    files in it, by the names of these.  reads: the stored Variables that it reads.
    """

    statements: Mapping[str, Function]
    included: Mapping[str, str]
    reads: frozenset[Variable] = frozenset()

    @classmethod
    def of(
        cls,
        text: str,
        statements: Mapping[str, Function],
        included: Mapping[str, str],
        reads: Iterable[Variable] = (),
    ) -> ShaderSource:
        """A text with its parts."""
        self = cls(text)
        self.statements, self.included, self.reads = statements, included, frozenset(reads)
        return self
