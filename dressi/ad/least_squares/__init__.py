"""Least squares: an energy of residuals, minimised on the device by Gauss-Newton or Levenberg-Marquardt.

    energy = [r1, w * r2, least_squares.Robust(r3, least_squares.huber(0.1))]
    ad.set_loss(energy)
    ad.set_optimizer(LevenbergMarquardt(), [x, y])
    ad.step(10)

``Energy`` is the list with its cost, ``Jacobian`` multiplies by J and its transpose, ``diagonal`` gives diag(J^T J).
"""

from .computed import linearized
from .energy import Energy
from .gauss_newton import GaussNewton
from .levenberg_marquardt import LevenbergMarquardt
from .linear.blocks import BlockJacobi
from .linear.diagonal import diagonal
from .linear.jacobian import Jacobian
from .linear.preconditioner import Jacobi, Multilevel, Preconditioner
from .robust import Kernel, Robust, cauchy, huber, tukey
from .solver import LeastSquares

__all__ = [
    "BlockJacobi",
    "Energy",
    "GaussNewton",
    "Jacobi",
    "Jacobian",
    "Kernel",
    "LeastSquares",
    "LevenbergMarquardt",
    "Multilevel",
    "Preconditioner",
    "Robust",
    "cauchy",
    "diagonal",
    "huber",
    "linearized",
    "tukey",
]
