"""Least squares: an energy of residuals, minimised on the device by Gauss-Newton or Levenberg-Marquardt.

    energy = [r1, w * r2, least_squares.Robust(r3, least_squares.huber(0.1))]
    ad.set_loss(energy)
    ad.set_optimizer(LevenbergMarquardt(), [x, y])
    ad.step(10)

``Energy`` is the list with its cost, ``Jacobian`` multiplies by J and its transpose, ``diagonal`` gives
diag(J^T J).

The names by file of ``dressi/ad``:
"""

# ruff: noqa: F403, I001
from .energy import *
from .stencil import *
from .source import *
from .solver import *
from .linear.preconditioner import *
from .linear.diagonal import *
from .linear.vectors import *

from ..graph.names import gather as _gather

_gather(globals())
