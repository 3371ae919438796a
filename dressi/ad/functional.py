"""F: every operation on Variables. Each builds a graph; ``evaluate`` and ``DressiAD`` compute it.

The examples in the docstrings run after these two lines::

    import numpy as np
    from dressi import *

    image = Variable.of(np.random.rand(48, 64, 3))              # VEC3, 64x48
    evaluate(F.sum_components(F.mean(F.square(image - 0.5))))    # FLOAT, one texel

Arguments (``Like``) are Variables, numbers, tuples of 2 to 4 numbers, or arrays as large as a Variable beside them. Square
arrays of order 2 to 4 are matrices for operations on matrices and beside a Variable that is one; elsewhere they may be images,
and GraphError asks: ``F.constant`` makes a matrix, ``Variable.of(values, FLOAT)`` an image. *Types* are those of one texel: FLOAT, VECn, MATn and INT, IVECn with n from 2 to 4. A FLOAT (INT) broadcasts
over components. Integers and floats do not mix, but Python numbers take the type of the Variables beside them. *Domains*
are ((W, H), batch); along each axis they are equal or 1, and 1 broadcasts. If types or domains do not fit, GraphError names
the operation and the line of your code. Undefined values, as of 1 / 0 or log(-1), are infinity or NaN, as in IEEE 754.
Unless a docstring says otherwise, second derivatives exist.

The operations by family, with the file of ``dressi/ad`` that holds them:
"""

# ruff: noqa: F403
# A family names its operations in its own __all__. A new family is listed here; a new operation of a family is not.

from typing import Any

from .contract import channels as _channels
from .contract import contract as _contract
from .contract import convolve as _convolve
from .contract import window as _window
from .contract.channels import *
from .contract.contract import *
from .contract.convolve import *
from .contract.window import *
from .expressions import emit as _emit
from .expressions import jacobian as _jacobian
from .expressions.emit import *
from .expressions.jacobian import *
from .graph.names import cure as _cure
from .graph.names import register as _register
from .imaging import filters as _filters
from .imaging import grids as _grids
from .imaging import mosaics as _mosaics
from .imaging import pyramids as _pyramids
from .imaging import recurrences as _recurrences
from .imaging import warps as _warps
from .imaging.filters import *
from .imaging.grids import *
from .imaging.mosaics import *
from .imaging.pyramids import *
from .imaging.recurrences import *
from .imaging.warps import *
from .loops import loop as _loop
from .loops.loop import *
from .ops import custom as _custom
from .ops import hints as _hints
from .ops.activations import activations as _activations
from .ops.activations.activations import *
from .ops.coordinates import coordinates as _coordinates
from .ops.coordinates.coordinates import *
from .ops.custom import *
from .ops.hints import *
from .ops.image import extremes as _extremes
from .ops.image import image as _image
from .ops.image import lookup as _lookup
from .ops.image import raster as _raster
from .ops.image import reduce as _reduce
from .ops.image import resize as _resize
from .ops.image import take as _take
from .ops.image.extremes import *
from .ops.image.image import *
from .ops.image.lookup import *
from .ops.image.raster import *
from .ops.image.reduce import *
from .ops.image.resize import *
from .ops.image.take import *
from .ops.pixel import arithmetic as _arithmetic
from .ops.pixel import compare as _compare
from .ops.pixel import components as _components
from .ops.pixel import constant as _constant
from .ops.pixel import exponential as _exponential
from .ops.pixel import geometry as _geometry
from .ops.pixel import math as _math
from .ops.pixel import matrix as _matrix
from .ops.pixel import random as _random
from .ops.pixel import trigonometry as _trigonometry
from .ops.pixel import vector as _vector
from .ops.pixel.arithmetic import *
from .ops.pixel.compare import *
from .ops.pixel.components import *
from .ops.pixel.constant import *
from .ops.pixel.exponential import *
from .ops.pixel.geometry import *
from .ops.pixel.math import *
from .ops.pixel.matrix import *
from .ops.pixel.random import *
from .ops.pixel.trigonometry import *
from .ops.pixel.vector import *
from .ops.sums import accumulate as _accumulate
from .ops.sums.accumulate import *
from .ops.texture import cube as _cube
from .ops.texture import inverse_uv as _inverse_uv
from .ops.texture import mipmap as _mipmap
from .ops.texture import sample as _sample
from .ops.texture import sphere as _sphere
from .ops.texture.cube import *
from .ops.texture.inverse_uv import *
from .ops.texture.mipmap import *
from .ops.texture.sample import *
from .ops.texture.sphere import *

FAMILIES = (
    _constant,
    _arithmetic,
    _math,
    _exponential,
    _trigonometry,
    _compare,
    _vector,
    _components,
    _geometry,
    _matrix,
    _random,
    _hints,
    _reduce,
    _extremes,
    _activations,
    _window,
    _coordinates,
    _image,
    _resize,
    _channels,
    _contract,
    _convolve,
    _take,
    _lookup,
    _raster,
    _accumulate,
    _sample,
    _mipmap,
    _cube,
    _sphere,
    _inverse_uv,
    _filters,
    _grids,
    _mosaics,
    _pyramids,
    _recurrences,
    _warps,
    _jacobian,
    _emit,
    _loop,
    _custom,
)

__all__: list[str] = []
__all__ += _constant.__all__
__all__ += _arithmetic.__all__
__all__ += _math.__all__
__all__ += _exponential.__all__
__all__ += _trigonometry.__all__
__all__ += _compare.__all__
__all__ += _vector.__all__
__all__ += _components.__all__
__all__ += _geometry.__all__
__all__ += _matrix.__all__
__all__ += _random.__all__
__all__ += _hints.__all__
__all__ += _reduce.__all__
__all__ += _extremes.__all__
__all__ += _activations.__all__
__all__ += _window.__all__
__all__ += _coordinates.__all__
__all__ += _image.__all__
__all__ += _resize.__all__
__all__ += _channels.__all__
__all__ += _contract.__all__
__all__ += _convolve.__all__
__all__ += _take.__all__
__all__ += _lookup.__all__
__all__ += _raster.__all__
__all__ += _accumulate.__all__
__all__ += _jacobian.__all__
__all__ += _emit.__all__
__all__ += _sample.__all__
__all__ += _mipmap.__all__
__all__ += _cube.__all__
__all__ += _sphere.__all__
__all__ += _inverse_uv.__all__
__all__ += _filters.__all__
__all__ += _grids.__all__
__all__ += _mosaics.__all__
__all__ += _pyramids.__all__
__all__ += _recurrences.__all__
__all__ += _warps.__all__
__all__ += _loop.__all__
__all__ += _custom.__all__


for _family in FAMILIES:
    _title = (_family.__doc__ or "").partition("\n")[0]
    _file = _family.__name__.partition(".ad.")[2].replace(".", "/")
    __doc__ = f"{__doc__ or ''}\n{_title} ({_file}.py)\n    {', '.join(_family.__all__)}\n"

_register(__all__)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"F has no {name!r}{_cure(name)}")
