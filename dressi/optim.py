"""The package ``dressi.ad.optim``, so that ``from dressi.optim import adam`` finds it."""

import sys

from .ad import optim
from .ad.optim import *  # noqa: F403 - for tools that read the file

sys.modules[__name__] = optim
