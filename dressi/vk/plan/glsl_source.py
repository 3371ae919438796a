"""The text of a shader, with the Function behind each of its statements and the files in it."""

from __future__ import annotations

from collections.abc import Mapping

from ...ad.graph import Function


class ShaderSource(str):
    """The GLSL of one shader, a string that knows its parts.

    statements: whole statements of its text, each with the Function whose snippet it is.  included: the texts of other
    files in it, by the names of these.
    """

    statements: Mapping[str, Function]
    included: Mapping[str, str]

    @classmethod
    def of(cls, text: str, statements: Mapping[str, Function], included: Mapping[str, str]) -> ShaderSource:
        """A text with its parts."""
        self = cls(text)
        self.statements, self.included = statements, included
        return self
