"""Variables and Functions: the values of a computation and the operations between them. Both are immutable."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from ...errors import GraphError
from ..types import Access, Domain, Size, VType, domain_of
from .arrays import ArrayShape, layout_of
from .operators import Operators, builders
from .user_code import user_line
from .work import Work

_serial = itertools.count()


class Variable(ArrayShape, Operators):
    """An image value: ``vtype`` for each texel, ``size`` (W, H) of a tile, ``batch`` tiles.

    A Variable made by a user is a *leaf*: its values come from ``data`` (an array that fits ``shape``, kept as
    it is) or are sent to the engine later. Every other Variable is the output of its ``creator``, a Function.
    Arithmetic operators, comparisons, ``@``, indexing and swizzles (``v.xy``) build Functions; ``==`` stays the
    identity of the object, for images use ``F.equal``. Variables are immutable.

    domain: (size, batch). name: for errors, and for saved states. count: entries of a list, else None. id: a number of its
    own. where: the line of code that made it. Raises GraphError where type, size, batch or data do not fit.

    >>> image = Variable(VEC3, (64, 48), name="photograph")  # a leaf without values: send them, or pass them to evaluate
    >>> image, image.shape, image.is_leaf
    (VEC3 photograph (64x48), (1, 48, 64, 3), True)
    >>> grey = F.mean(image).x * 0.5
    >>> grey.vtype, grey.size, grey.is_leaf, evaluate(grey, {image: np.ones((48, 64, 3))}).item()
    (FLOAT, (1, 1), False, 0.5)
    """

    __slots__ = ("batch", "count", "creator", "data", "domain", "id", "name", "size", "vtype", "where")

    def __init__(
        self,
        vtype: VType = VType.FLOAT,
        size: Size = (1, 1),
        batch: int = 1,
        *,
        name: str | None = None,
        data: Any = None,
        creator: Function | None = None,
        count: int | None = None,
    ):
        self.id = next(_serial)
        self.count = count
        self.where = user_line() if creator is None else creator.where
        if not isinstance(vtype, VType):
            raise GraphError(
                f"the type of a Variable is FLOAT, VEC3, INT, ... of dressi.ad.types, not {vtype!r}"
            )
        self.vtype, self.domain = vtype, domain_of(size, batch)
        self.size, self.batch = self.domain
        self.name, self.creator = name, creator
        self.data = None if data is None else self.conform(data)

    @classmethod
    def made(cls, creator: Function, vtype: VType, domain: Domain, name: str | None = None) -> Variable:
        """The output of a Function: the constructor of a Function calls this."""
        self = object.__new__(cls)
        self.id = next(_serial)
        self.where = creator.where
        if type(domain) is not Domain or type(vtype) is not VType:
            vtype, domain = _inferred(creator, vtype, domain)
        self.vtype, self.domain = vtype, domain
        self.size, self.batch = domain
        self.name, self.creator, self.data, self.count = name, creator, None, None
        return self

    @classmethod
    def of(
        cls, values: Any, vtype: VType | None = None, *, batched: bool = False, name: str | None = None
    ) -> Variable:
        """A leaf that holds ``values``, with type, size and batch from the array's shape.

        Of the shape, 2 to 4 numbers at the end are the components of a vector. What is before them is nothing (one
        texel), (V,): a list of V entries, (H, W): an image, or (N, H, W): N images. vtype: the type, where the guess
        would be wrong or two are possible, as for (3, 3). batched: the first axis counts the batch (views), so that
        (N, 4, 4) with MAT4 are N matrices and (N, V, 3) N lists. Lists come back as lists: ``recv`` gives (V, ...), or
        (N, V, ...), of them and of what is computed from them entry by entry. Integers make INT types, everything else
        floats. Raises GraphError.

        >>> Variable.of([[0.0, 0.0, 1.0], [1.0, 0.0, 1.0]])
        VEC3 #... (2x1)
        >>> Variable.of(np.zeros((48, 64, 3)), name="photograph")
        VEC3 photograph (64x48)
        """
        array = np.asarray(values)
        vtype, size, batch, count = layout_of(array, vtype, batched)
        leaf = cls(vtype, size, batch, name=name, count=count)
        leaf.data = leaf.conform(array.reshape(leaf.shape if count is None else (batch, count, *vtype.shape)))
        return leaf

    @property
    def is_leaf(self) -> bool:
        """Whether it is made by a user, and holds values instead of computing them."""

        return self.creator is None

    def __str__(self) -> str:
        name = self.name or (f"{type(self.creator).__name__}#{self.id}" if self.creator else f"#{self.id}")
        return f"{self.vtype.name} {name} ({self.domain})"

    __repr__ = __str__

    def __bool__(self) -> bool:
        raise GraphError(
            "a Variable has no truth value while the graph is built; use F.select(condition, a, b)"
        )

    def __iter__(self):
        return (self[i] for i in range(self.vtype.shape[-1] if self.vtype.shape else 0))


def as_variable(value: Any) -> Variable:
    """A Variable, or a constant made of a number, a tuple of numbers or a small array."""
    return value if isinstance(value, Variable) else builders.constant(value)


def _inferred(creator: Function, vtype: Any, domain: Any) -> tuple[VType, Domain]:
    """What the infer of a user's Function gave. Raises GraphError."""
    try:
        size, batch = domain
        if isinstance(vtype, VType):
            return vtype, domain_of(size, batch)
    except (TypeError, ValueError, GraphError):
        pass
    raise creator.fail(f"infer returns a type and a domain ((W, H), batch), not {vtype!r} and {domain!r}")


_PLACES = re.compile(r"\b(pixel|tile)\b")


class At(NamedTuple):
    """Where a Function is evaluated on the host: texel coordinates and tile, each broadcasting to (N, H, W)."""

    x: np.ndarray
    y: np.ndarray
    tile: np.ndarray


_SAME_PIXEL = tuple((Access.SAME_PIXEL,) * n for n in range(256))
_ORIGIN_DOMAIN = Domain((1, 1), 1)


@cache
def _known(kind: type[Function]) -> frozenset[str]:
    """Names that every application of a class has: inputs and output, fields, and what is cached from them."""
    names = {"inputs", "where", "output", *kind.fields}
    for base in kind.__mro__:
        names.update(name for name, value in vars(base).items() if isinstance(value, cached_property))
    return frozenset(names)


_ORIGIN = At(*(np.zeros((1, 1, 1), int),) * 3)


class Function(Work):
    """One application of one operation. Subclass a *kind* (below), never this class.

    A subclass declares
      ``fields``    names of its attributes (not inputs): what makes two applications equal;
      ``access``    how each input is read (default: all SAME_PIXEL);
      ``infer``     type and domain of the output; raises GraphError through ``self.fail``;
      ``glsl``      the snippet, see below;
      ``eval``      the float64 NumPy meaning (``evaluate`` when it needs to know where it is);
      its work      ``operations``, ``iterations``, ``fetches``: see ``dressi.ad.graph.work.Work``;
      and its derivative in one of four ways: ``partials`` for component-wise Functions; ``vjp`` and ``jvp`` for
      others; ``zero_derivative = True`` where the output is piecewise constant, as that of ``floor``;
      ``no_derivative``, a sentence that says why there is none and what to use instead.

    A Function to a float type that declares none of these raises GraphError when its derivative is asked for, and
    so does one that declares only ``vjp`` in forward mode, only ``jvp`` in reverse mode. None as a partial, or from
    ``vjp`` and ``jvp``, declares that the derivative by that input is zero. Derivatives of ``vjp`` are taken through
    the Functions that it builds: these need derivatives of their own to make the second derivative exist.

    Snippets are GLSL in which ``$0``, ``$1`` stand for the inputs: an expression for SAME_PIXEL, the name of a
    function ``(ivec2 texel, int tile)`` for FETCH. ``$y`` is the output; a snippet without it is an
    expression. ``$size``, ``$batch``, ``$type`` describe the output, with a number (``$size0``) an input.
    ``pixel`` (ivec2, inside the tile) and ``tile`` (int) say where the shader runs. ``includes`` names files of GLSL
    that the snippet needs: full paths, paths from the folder of the file that declares them, or dressi's own shaders.
    """

    fields: ClassVar[tuple[str, ...]] = ()
    includes: ClassVar[tuple[str, ...]] = ()
    exact: ClassVar[bool] = False  # devices give the value of ``eval``, rounded to single precision
    zero_derivative: ClassVar[bool] = False
    no_derivative: ClassVar[str] = ""

    def __init__(self, *inputs: Variable, **fields: Any):
        for name, value in fields.items():
            if name not in self.fields:
                declared = ", ".join(self.fields) or "none"
                raise GraphError(f"{type(self).__name__} has no field {name!r}; its fields are: {declared}")
            setattr(self, name, value)
        for x in inputs:
            if not isinstance(x, Variable):
                raise GraphError(
                    f"inputs of {type(self).__name__} are Variables, not {x!r}; F.apply makes constants of numbers"
                )
        self.inputs = inputs
        self.where = user_line(self)
        vtype, domain = self.infer()
        self.output = Variable.made(self, vtype, domain)
        # A list computed entry by entry is a list.
        for x, access in zip(inputs, self.access):
            if x.count is not None and access is Access.SAME_PIXEL and x.domain == domain:
                self.output.count = x.count
                break

    # ---- what a subclass declares
    if TYPE_CHECKING:
        access: Any  # a property or cached_property: a tuple of Access, one an input
    else:

        @property
        def access(self) -> tuple[Access, ...]:
            return _SAME_PIXEL[len(self.inputs)]

    def infer(self) -> tuple[VType, Domain]:
        raise self.fail(
            "declares no infer; it returns the type and domain of the output, often"
            " (self.inputs[0].vtype, self.broadcast())"
        )

    if TYPE_CHECKING:
        glsl: Any  # a class attribute, or a property where the snippet depends on the application

    def eval(self, *x: np.ndarray) -> np.ndarray:
        raise self.fail(
            "declares no eval, its meaning in NumPy; without it there is no reference to check against"
        )

    def evaluate(self, at: At, *x: np.ndarray) -> np.ndarray:
        """Values at ``at``. SAME_PIXEL inputs arrive already there, FETCH inputs whole, (N, H, W) + shape."""
        return self.eval(*x)

    def partials(self, *x: Variable) -> tuple[Variable | None, ...]:
        """Component-wise Functions: the partial derivative by each input, None where it is zero."""
        if self.zero_derivative:
            return (None,) * len(x)
        raise self.fail(self.no_derivative or self._undeclared())

    def vjp(self, gy: Variable, i: int) -> Variable | None:
        """Gradient of input ``i`` given the gradient of the output; before broadcasting is undone. None: zero.

        Declared, with ``jvp``, instead of ``partials``."""
        raise self.fail(self._undeclared())

    def jvp(self, tangents: Sequence[Variable | None]) -> Variable | None:
        """Derivative of the output along the tangents of the inputs. None: zero.

        A tangent has the type of its input, and a size and batch that broadcast to those of the input: exactly those
        where the Function reads any input by FETCH."""
        raise self.fail(self._undeclared())

    def settled(self, known: Mapping[int, np.ndarray]) -> np.ndarray | None:
        """The value wherever the inputs named by ``known`` have these values, None when it depends on more.

        Values have the shape of their types. Says where a Function has nothing to do: devices need not compute what
        is known. Zero times anything is zero. Functions that are not ``exact`` are trusted to turn zeros into zeros
        alone.
        """
        if not self.inputs or len(known) < len(self.inputs) or Access.FETCH in self.access or self.places:
            return None
        if not self.exact and any(np.any(x) for x in known.values()):
            return None
        values = [np.reshape(known[i], (1, 1, 1, *x.vtype.shape)) for i, x in enumerate(self.inputs)]
        found = np.reshape(self.evaluate(_ORIGIN, *values), self.output.vtype.shape)
        return found if self.exact or not found.any() else None

    @property
    def signs(self) -> tuple[int, ...]:
        """Numbers of the inputs of which nothing counts but whether they are negative."""
        return ()

    def _undeclared(self) -> str:
        cls = type(self)
        if cls.vjp is not Function.vjp:
            return "declares vjp alone; forward and second derivatives need jvp in its class as well"
        if cls.jvp is not Function.jvp:
            return "declares jvp alone; gradients need vjp in its class as well"
        return (
            "declares no derivative; give its class partials, or vjp and jvp, or zero_derivative = True"
            " if it is piecewise constant"
        )

    def _zero_with(self, known: Mapping[int, np.ndarray], *inputs: int) -> np.ndarray | None:
        """Zero when one of these inputs is known to be zero; else what ``settled`` says of Functions at large."""
        if any(i in known and not np.any(known[i]) for i in inputs):
            return np.zeros(self.output.vtype.shape)
        return Function.settled(self, known)

    # ---- what it gets
    @property
    def attributes(self) -> tuple[Any, ...]:
        """The values of the fields. Hashable."""
        return tuple(getattr(self, name) for name in self.fields)

    @property
    def identity(self) -> tuple[Any, ...]:
        """What makes two applications to the same inputs equal: class, attributes, and the snippet where something else
        was set on this one, which the snippet may depend on."""
        if self._own_state():
            return (type(self), self.attributes, self.glsl)
        return (type(self), self.attributes)

    def _own_state(self) -> dict[str, Any]:
        """Attributes of this application that are neither fields nor derived from them."""
        known = _known(type(self))
        return {name: value for name, value in self.__dict__.items() if name not in known}

    @cached_property
    def places(self) -> frozenset[str]:
        """Which of the words ``pixel`` and ``tile`` the snippet uses: empty, it is the same wherever it runs."""
        return frozenset(_PLACES.findall(self.glsl))

    def rebuild(self, *inputs: Variable) -> Function:
        """The same operation on other inputs (of the same types and domains)."""
        new = object.__new__(type(self))
        for name in self.fields:
            setattr(new, name, getattr(self, name))
        new.__dict__.update(self._own_state())
        new.inputs = inputs
        new.where = self.where
        vtype, domain = new.infer()
        new.output = Variable.made(new, vtype, domain, self.output.name)
        return new

    def fail(self, reason: str) -> GraphError:
        """An error that names the Function, its inputs, and the line of user code. ``raise self.fail(...)``."""
        inputs = ", ".join(str(x) for x in self.inputs)
        return GraphError(f"{type(self).__name__}({inputs}): {reason} (at {self.where})")

    def broadcast(self, *variables: Variable) -> Domain:
        """The domain that the given inputs (default: all read at the same pixel) broadcast to."""
        if not variables:
            access = self.access
            if access is _SAME_PIXEL[len(self.inputs)]:
                variables = self.inputs
            else:
                variables = tuple(x for x, a in zip(self.inputs, access) if a is Access.SAME_PIXEL)
        first = variables[0].domain if variables else _ORIGIN_DOMAIN
        if all(v.domain == first for v in variables):
            return first
        dims = [1, 1, 1]
        for v in variables:
            for k, n in enumerate((*v.size, v.batch)):
                if dims[k] == 1:
                    dims[k] = n
                elif n not in (1, dims[k]):
                    raise self.fail(
                        "sizes and batches must be equal or 1; use F.resize, F.crop, F.take or F.expand"
                    )
        return Domain((dims[0], dims[1]), dims[2])

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self.attributes or ''}"
