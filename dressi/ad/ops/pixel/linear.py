"""Kinds of linear Functions, whose forward derivative follows from the Function itself."""

from __future__ import annotations

from ...graph import PixelFunction, Variable


class Linear(PixelFunction):
    """A linear Function of one input. Its jvp is the Function itself, its vjp is ``transpose``."""

    def transpose(self, gy: Variable) -> Variable:
        raise NotImplementedError

    def vjp(self, gy, i):
        return None if self.output.vtype.is_int else self.transpose(gy)

    def jvp(self, tangents):
        (tangent,) = tangents
        if tangent is None or self.output.vtype.is_int:
            return None
        return self.rebuild(tangent).output


class Bilinear(PixelFunction):
    """A Function linear in each of its two inputs."""

    def known_value(self, known):
        return self._zero_with_zero(known, 0, 1)

    def jvp(self, tangents):
        a, b = self.inputs
        ta, tb = tangents
        terms = []
        if ta is not None:
            terms.append(type(self)(ta, b).output)
        if tb is not None:
            terms.append(type(self)(a, tb).output)
        return sum(terms[1:], terms[0]) if terms else None
