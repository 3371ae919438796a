"""Parts of an image of faces."""

from __future__ import annotations

import numpy as np

from ...ad.graph import PixelFunction
from ...ad.types import INT


class FacesWithin(PixelFunction):
    """Input: INT, an image of faces, -1 for none. INT: the same counted from ``first``, -1 for faces outside of [first, last).

    It declares that it is quiet and divides the image, so that what is computed for these faces alone skips the blocks of pixels
    that show none of them, whatever else is drawn there.
    """

    operations, quiet, divides = 3.0, -1, True
    exact = True
    zero_derivative = True
    fields = ("first", "last")
    first: int
    last: int

    def infer(self):
        if self.inputs[0].vtype is not INT:
            raise self.fail("faces are INT")
        return INT, self.broadcast()

    @property
    def glsl(self) -> str:
        return f"($0 >= {self.first} && $0 < {self.last}) ? $0 - {self.first} : -1"

    def eval(self, face):
        return np.where((face >= self.first) & (face < self.last), face - self.first, -1)
