"""What a camera sees while its shutter is open: depth of field, motion, and rows that are read one by one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ad import functional as F
from ...ad.graph import Variable
from ...ad.graph.evaluation import evaluate
from ...ad.graph.types import FLOAT, MAT4, VEC2
from ...errors import InputError
from .camera import Camera, Views
from .rigid import check_affine, exp_se3, invert, log_se3

MOST = 1024
"""Samples of an exposure."""
GOLDEN = np.pi * (3 - np.sqrt(5))


def exposure(
    camera: Camera, *, aperture: Any = 0.0, focus: Any = None, end: Any = None, samples: int = 16
) -> Views:
    """Views whose pictures ``render`` averages: through places of the opening of the lens, from the start of
    the exposure to its end.

    aperture: radius of the opening in units of the world.  focus: depth of the plane that is sharp; both
    numbers or FLOAT Variables 1x1.  end: (4, 4) or MAT4, the view at the end; ``camera.view`` is that at the
    start, and the motion between is rigid and steady.  samples: how many pictures, at ``sample_times``.
    Positions and ``to_world`` of so many tiles move an object meanwhile. Colour, mask and what a form blends
    like colours are means, in linear light; other images show single samples, as arrays the first one.
    Differentiable in aperture, focus and end. Raises InputError.

    >>> camera = Camera.perspective(45, (64, 48), (0, 0, 5), (0, 0, 0))
    >>> exposure(camera, aperture=0.1, focus=5.0, samples=4).matrices.shape
    (4, 4, 4)
    """
    if not isinstance(samples, int) or not 1 <= samples <= MOST:
        raise InputError(f"an exposure has 1 to {MOST} samples, not {samples!r}; 16 to 64 look smooth")
    opened = isinstance(aperture, Variable) or aperture != 0
    if opened and (focus is None or camera.parallel):
        raise InputError(
            "an opening blurs by the distance from the sharp plane: give focus=, of a perspective"
        )
    for name, value in (("aperture", aperture), ("focus", focus)):
        if not isinstance(value, Variable) and value is not None and not (np.isfinite(value) and value >= 0):
            raise InputError(f"{name} is a number from 0 on, in units of the world, not {value}")
    if focus is not None and not isinstance(focus, Variable) and focus <= 0:
        raise InputError(f"focus is a depth above 0, not {focus}")
    view: Any = _tiles(F.constant(camera.view), samples)
    if end is not None:
        view = _between(camera, end, Variable(FLOAT, (1, 1), samples, data=_column(sample_times(samples))))
    matrices = F.matmul(F.constant(camera.projection), view)
    if opened:
        number = np.arange(samples) + 0.5
        radius, turn = np.sqrt(number / samples), number * GOLDEN
        places = np.stack([radius * np.cos(turn), radius * np.sin(turn)], -1)
        at = Variable(VEC2, (1, 1), samples, data=_column(places)) * aperture
        # A point at the depth of the sharp plane stays where it is.
        sheared = F.vec4(at / focus, 1.0, 0.0), F.vec4(-at, 0.0, 1.0)
        x, y = F.constant((1.0, 0.0, 0.0, 0.0)), F.constant((0.0, 1.0, 0.0, 0.0))
        through = F.mat4(_tiles(x, samples), _tiles(y, samples), *sheared)
        matrices = F.matmul(F.matmul(F.constant(camera.projection), through), view)
    given = _known(matrices, aperture, focus, end)
    return Views(given, camera.size, camera.lens, camera.intrinsics if camera.lens else None, mean=True)


def sample_times(samples: int) -> np.ndarray:
    """(samples,) in (0, 1): when the samples of an exposure are taken, in an order unlike that of their places
    in the opening.

    >>> sample_times(4).tolist()
    [0.125, 0.625, 0.375, 0.875]
    """
    bits = max((samples - 1).bit_length(), 1)
    order = [int(f"{k:0{bits}b}"[::-1], 2) for k in range(2**bits)]
    return (np.argsort(np.argsort(order[:samples])) + 0.5) / samples


def rolling_shutter(camera: Camera, end: Any, *, keys: int = 5) -> Views:
    """A view whose rows are read one after the other: the first at ``camera.view``, the last at ``end``, (4, 4)
    or MAT4, and those between at poses on the steady rigid motion from one to the other.

    Each vertex is drawn at the pose of the row that it is seen in, found by iteration, so that edges between
    vertices stay straight.  keys: how many poses are exact; between two of them matrices are mixed, which is
    off by an eighth of the square of the angle. Depths, and what a light sees of the camera, are those of the
    row or the middle. Differentiable in end. Raises InputError.

    >>> camera = Camera.perspective(45, (64, 48), (0, 0, 5), (0, 0, 0))
    >>> len(rolling_shutter(camera, camera.view).rows)
    5
    """
    if not isinstance(keys, int) or not 2 <= keys <= 64:
        raise InputError(f"a rolling shutter has 2 to 64 poses, not {keys!r}")
    poses = [_between(camera, end, F.constant(t)) for t in (*np.linspace(0, 1, keys).tolist(), 0.5)]
    rows = [_known(F.matmul(F.constant(camera.projection), pose), end) for pose in poses]
    lens = camera.intrinsics if camera.lens else None
    return Views(rows[-1], camera.size, camera.lens, lens, rows=tuple(rows[:-1]))


def _between(camera: Camera, end: Any, time: Variable) -> Variable:
    """MAT4: the view at a share of the rigid motion to ``end``."""
    if not isinstance(end, Variable):
        check_affine("end", np.asarray(end))
        end = Variable(MAT4, data=np.reshape(np.asarray(end, np.float64), (1, 1, 1, 4, 4)))
    start = F.constant(camera.view)
    turn, shift = log_se3(F.matmul(end, F.constant(invert(camera.view))))
    return F.matmul(exp_se3(turn * time, shift * time), start)


def _tiles(value: Variable, count: int) -> Variable:
    return F.expand(value, count)


def _column(values: np.ndarray) -> np.ndarray:
    """(N, ...) as the data of N tiles of one texel."""
    return np.asarray(values, np.float64)[:, None, None]


def _known(matrices: Variable, *arguments: Any) -> Variable | np.ndarray:
    """The matrices as an array if no argument is a Variable."""
    if any(isinstance(value, Variable) for value in arguments):
        return matrices
    (values,) = evaluate([matrices])
    return values[:, 0, 0] if len(values) > 1 else values[0, 0, 0]
