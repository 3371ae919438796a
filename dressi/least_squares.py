"""The module ``dressi.ad.least_squares``, so that ``from dressi.least_squares import Robust`` finds it."""

import sys

from .ad import least_squares
from .ad.least_squares import *  # noqa: F403 - for tools that read the file

sys.modules[__name__] = least_squares
