"""F: every operation on Variables. Each builds a graph; ``evaluate`` and ``DressiAD`` compute it.

The examples in the docstrings run after these two lines::

    import numpy as np
    from dressi import *

    image = Variable.of(np.random.rand(48, 64, 3))              # VEC3, 64x48
    evaluate(F.sum_components(F.mean(F.square(image - 0.5))))    # FLOAT, one texel

Arguments (``Like``) are Variables, numbers, tuples of 2 to 4 numbers, or arrays as large as a Variable beside
them. Square arrays of order 2 to 4 are matrices for operations on matrices and beside a Variable that is one;
elsewhere they may be images, and GraphError asks: ``F.constant`` makes a matrix, ``Variable.of(values,
FLOAT)`` an image. *Types* are those of one texel: FLOAT, VECn, MATn and INT, IVECn with n from 2 to 4. A
FLOAT (INT) broadcasts over components. Integers and floats do not mix, but Python numbers take the type of
the Variables beside them. *Domains* are ((W, H), batch); along each axis they are equal or 1, and 1
broadcasts. If types or domains do not fit, GraphError names the operation and the line of your code.
Undefined values, as of 1 / 0 or log(-1), are infinity or NaN, as in IEEE 754. Unless a docstring says
otherwise, second derivatives exist.

The operations by family, with the file of ``dressi/ad`` that holds them:
"""

from typing import Any

# ruff: noqa: F403, I001
# A family names its operations in its own __all__. A new family is a line here, in the order of the listing.
from .ops.pixel.constant import *
from .ops.pixel.arithmetic import *
from .ops.pixel.math import *
from .ops.pixel.elementary import *
from .ops.pixel.compare import *
from .ops.pixel.vector import *
from .ops.pixel.geometry import *
from .ops.pixel.matrix import *
from .ops.pixel.random import *
from .ops.pixel.hints import *
from .ops.image.reduce import *
from .ops.image.activations import *
from .ops.image.coordinates import *
from .ops.image.image import *
from .imaging.channels import *
from .imaging.contract import *
from .imaging.convolve import *
from .ops.image.lookup import *
from .ops.image.draws import *
from .sums import *
from .ops.texture.sample import *
from .ops.texture.inverse_uv import *
from .imaging.filters import *
from .imaging.order import *
from .imaging.warps import *
from .expressions.jacobian import *
from .expressions.sparse import *
from .expressions.emit import *
from .loops.loop import *
from .ops.pixel.kinds import *

from .graph.names import cure as _cure
from .graph.names import gather as _gather
from .graph.names import register as _register

FAMILIES = _gather(globals())
_register(name for family in FAMILIES for name in family.__all__)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"F has no {name!r}{_cure(name)}")
