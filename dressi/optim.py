"""The module ``dressi.ad.optim.optimizers``, so that ``from dressi.optim import adam`` finds it."""

import sys

from .ad.optim import optimizers
from .ad.optim.optimizers import *  # noqa: F403 - for tools that read the file

sys.modules[__name__] = optimizers
