"""Every exception that dressi raises on purpose.

All derive from :class:`DressiError`, so a program can show ``str(error)`` to its user: the message names the
thing that is wrong and the cure.
"""

import inspect
import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any

_PACKAGE = os.path.dirname(__file__) + os.sep


class DressiError(Exception):
    """Base of all errors raised by dressi: ``str(error)`` names the thing that is wrong and the cure.

    >>> try:
    ...     F.sqrt(Variable.of(4, name="count"))
    ... except DressiError as error:
    ...     print(error)
    Sqrt(INT count (1x1)): takes floats; convert with F.to_float (at ...)
    """


class GraphError(DressiError, ValueError):
    """Types, sizes or batches of a Function do not fit, or a derivative does not exist.

    >>> F.vec2(1.0, 2.0, 3.0)
    Traceback (most recent call last):
        ...
    dressi.errors.GraphError: Construct(...): VEC2 needs 2 components, not 3 (at ...)
    """


class PlanError(DressiError):
    """A graph cannot be packed under the limits of the device."""


class DeviceError(DressiError):
    """A Vulkan call failed, or the device cannot do what is asked."""


class NoDriverError(DeviceError):
    """There is no Vulkan loader or no Vulkan driver on this machine."""


class DeviceNotFoundError(DeviceError):
    """A device was asked for by name or index and is not there.

    >>> Device("Voodoo 2")
    Traceback (most recent call last):
        ...
    dressi.errors.DeviceNotFoundError: there is no Vulkan device 'Voodoo 2'; there are ...
    """


class DeviceLostError(DeviceError):
    """The device is gone: reset, unplugged, or given up because its work did not end. Open another one."""


class OutOfMemoryError(DeviceError):
    """The device or the host has no memory left for an image, a buffer or a pipeline."""


class ShaderError(DeviceError):
    """A shader did not compile. The message has the Function, its GLSL and the compiler's log."""


class InputError(DressiError, ValueError):
    """A file, an array or an option given by the user cannot be used.

    >>> render.load_mesh("nowhere.obj")
    Traceback (most recent call last):
        ...
    dressi.errors.InputError: ...nowhere.obj...
    """


class NoAttributeError(InputError, AttributeError):
    """An object has no attribute of that name, to be set or to be read."""


def did_you_mean(name: object, names: Iterable[str]) -> str:
    """The nearest of the names as a question for the end of a message; empty if none is near.

    >>> did_you_mean("ligth", ("size", "light")), did_you_mean("x", ("size", "light"))
    ("; did you mean 'light'?", '')
    """
    near = get_close_matches(str(name), list(names), 1)
    return f"; did you mean '{near[0]}'?" if near else ""


def warn(text: str) -> None:
    """Warns at the line that called dressi: the nearest one outside of the package.

    >>> with warnings.catch_warnings(record=True) as said:
    ...     warn("the alpha was left out")
    >>> str(said[0].message)
    'the alpha was left out'
    """
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)


LONGEST_QUOTE = 200
"""Characters of a text that a message quotes."""


def shown(text: object, most: int = LONGEST_QUOTE) -> str:
    """A text of a file or of a user as it stands in a message: one line, cut short, without control characters.

    text: anything; a long list is not turned into text as a whole.  most: characters.

    >>> shown("two\nlines"), len(shown("x" * 1_000_000)), shown([0] * 1000, 12)
    ('two lines', 200, '[0, 0, 0,...')
    """
    if isinstance(text, (list, tuple)) and len(text) > most:
        text = text[:most]
    try:
        line = str(text)
    except (ValueError, RecursionError):  # a whole number of thousands of digits has no text
        line = f"a {type(text).__name__} that is too long to be shown"
    line = " ".join(line[: 5 * most].split())
    line = "".join(c if c.isprintable() else "?" for c in line)
    return line if len(line) <= most else line[: most - 3] + "..."


def listed(names: Sequence[str], most: int = 6) -> str:
    """Names for a message: the first ones, and how many more there are.

    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


class KnownAttributes:
    """Base of objects whose attributes users set. A name that the class does not declare raises
    NoAttributeError: Python would keep the value, and nothing would ever read it.

    >>> mesh = render.primitives.cube()
    >>> mesh.colours = np.ones((8, 3))
    Traceback (most recent call last):
        ...
    dressi.errors.NoAttributeError: a Mesh has no attribute 'colours'; did you mean 'colors'?
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_") and name not in _attributes(type(self)):
            near = did_you_mean(name, sorted(_attributes(type(self))))
            raise NoAttributeError(
                f"a {type(self).__name__} has no attribute '{name}'{near or '; check its name'}"
            )
        super().__setattr__(name, value)


@cache
def _attributes(kind: type) -> frozenset[str]:
    """What a class and its bases annotate or define."""
    return frozenset(name for one in kind.__mro__ for name in (*inspect.get_annotations(one), *vars(one)))


class OfVariables:
    """Base of pictures made of Variables. Names of pictures of arrays raise NoAttributeError with the cure."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        kind = type(self).__name__
        if name in ("save", "srgb", "image"):  # what a picture of arrays has
            raise NoAttributeError(
                f"a {kind} is made of Variables, and only pictures of arrays have '{name}': read them with "
                "evaluate(picture.colour), or draw with render, which gives arrays where no argument is a "
                "Variable"
            )
        raise NoAttributeError(f"a {kind} has no attribute '{name}'{did_you_mean(name, dir(type(self)))}")
