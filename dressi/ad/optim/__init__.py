"""Optimizers: graphs that turn gradients into new parameters, composed of small parts.

    adam(0.01)  =  optim.chain(optim.scale_by_adam(), optim.scale_by_learning_rate(0.01))

State (moments, the step counter) consists of leaf Variables that the program updates, so the host does
nothing between steps. Each has a name, such as ``"<parameter>.adam_m"``, and ``DressiAD.state`` saves them by
name. Examples run after ``import numpy as np`` and ``from dressi import *``.

Optimizers for ``DressiAD.set_optimizer`` are ``adam``, ``adam_uniform``, ``adamw``, ``amsgrad``,
``per_parameter``, ``sgd`` and ``LBFGS``; ``accumulate`` and ``until`` go around one; the others are parts,
of which ``chain`` makes an optimizer. ``clock``, ``Clocked`` and ``rate_at`` are for losses that depend on the
step; ``Optimizer`` and ``Stateless`` for your own.

Kinds of values: Rate (a number, a FLOAT Variable of one texel, or a schedule), Schedule (from the step, a
FLOAT of one texel, 0 in the first step, to a FLOAT of one texel), State (a dict of state leaves by name),
STEP (the name of the step counter).

The names by file of ``dressi/ad``:
"""

# ruff: noqa: F403, I001
from .optimizer import *
from .lbfgs import *
from .wrappers import *
from .schedules import *

from ..graph.names import gather as _gather

_gather(globals())
