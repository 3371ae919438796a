"""Variables and Functions, the values of a computation and the operations between them; immutable."""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...errors import GraphError
from ...figures import Figures
from .arrays import ArrayShape, At, array_of, doubt, layout_of
from .operators import Operators, builders
from .snippet import places_of
from .types import Access, Domain, Sampler, Size, VType, broadcast, domain_of, inferred_domain
from .user_code import of_dressi, user_line
from .work import Edge, Work

_serial = itertools.count()


class Variable(ArrayShape, Operators, Figures):
    """An image value: ``vtype`` for each texel, ``size`` (W, H) of a tile, ``batch`` tiles.

    A Variable made by a user is a *leaf*: its values come from ``data`` (an array that fits ``shape``, kept
    as it is) or are sent to the engine later. Every other Variable is the output of its ``creator``, a
    Function. Arithmetic operators, comparisons, ``@``, indexing and swizzles (``v.xy``) build Functions.
    ``==`` is ``F.equal``, a mask, which has no truth value; Variables are keys of dictionaries and members of
    sets by identity, and ``is`` compares the objects, as in ``any(v is x for v in several)``. Variables are
    immutable.

    domain: size, tiles and channels: an image with channels has one tile a channel, one after the other.
    name: used by errors and saved states. count: number of entries of a list, None for images. id: a serial
    number. where: the line of user code that made it. Raises GraphError if type, size, batch or data do not
    fit.

    >>> image = Variable(VEC3, (64, 48), name="photograph")  # a leaf whose values are sent or given
    >>> image, image.shape, image.is_leaf
    (VEC3 photograph (64x48), (1, 48, 64, 3), True)
    >>> grey = F.mean(image).x * 0.5
    >>> grey.vtype, grey.size, grey.is_leaf, evaluate(grey, {image: np.ones((48, 64, 3))}).item()
    (FLOAT, (1, 1), False, 0.5)
    """

    __slots__ = (
        "channels", "count", "creator", "data", "domain", "id", "name", "size", "tiles", "vtype", "where"
    )  # fmt: skip

    def __init__(
        self,
        vtype: VType = VType.FLOAT,
        size: Size = (1, 1),
        batch: int = 1,
        *,
        name: str | None = None,
        data: Any = None,
        count: int | None = None,
        channels: int = 1,
    ):
        self.id = next(_serial)
        self.count = count
        self.where = user_line()
        if not isinstance(vtype, VType):
            raise GraphError(
                f"the type of a Variable is FLOAT, VEC3, INT, ... of dressi.ad.graph.types, not {vtype!r}"
            )
        self.vtype, self.domain = vtype, domain_of(size, batch, channels)
        self.size, self.tiles, self.channels = self.domain
        if count is not None and channels != 1:
            raise GraphError("a list has no channels")
        self.name: str | None = name
        self.creator: Function | None = None
        self.data: np.ndarray | None = None if data is None else self.conform(data)

    @classmethod
    def made(cls, creator: Function, vtype: VType, domain: Domain, name: str | None = None) -> Variable:
        """The output of a Function, called by its constructor."""
        self = object.__new__(cls)
        self.id, self.where = next(_serial), creator.where
        if type(domain) is not Domain or type(vtype) is not VType:
            inferred = inferred_domain(domain) if isinstance(vtype, VType) else None
            if inferred is None:
                raise creator.fail(
                    f"infer returns a type and a domain ((W, H), batch), not {vtype!r} and {domain!r}"
                )
            domain = inferred
        self.vtype, self.domain = vtype, domain
        self.size, self.tiles, self.channels = domain
        self.name, self.creator, self.data, self.count = name, creator, None, None
        return self

    @classmethod
    def of(
        cls, values: Any, vtype: VType | None = None, *, batched: bool = False, name: str | None = None
    ) -> Variable:
        """A leaf that holds ``values``, with type, size and batch from the array's shape.

        A last axis of length 2 to 4 holds the components of a vector. The axes before it are () for one
        texel, (V,) for a list of V entries, (H, W) for an image, (N, H, W) for N images, or, with a type, (N,
        C, H, W) for N images of C channels. vtype: the type, needed if the shape fits two types, as (3, 3)
        does, or suggests the wrong one. batched: the first axis is the batch (views), so that (N, 4, 4) with
        MAT4 holds N matrices and (N, V, 3) N lists. ``recv`` returns lists, and what is computed from them
        entry by entry, as lists: (V, ...) or (N, V, ...). Integers give INT types, everything else gives
        floats. Raises GraphError; warns where a shape without vtype may mean something else, as two to four
        numbers do.

        >>> Variable.of([[0.0, 0.0, 1.0], [1.0, 0.0, 1.0]])
        VEC3 #... (2x1)
        >>> Variable.of(np.zeros((48, 64, 3)), name="photograph")
        VEC3 photograph (64x48)
        """
        array = array_of(values)
        text = doubt(array) if vtype is None and not batched else None
        if text is not None and not of_dressi(sys._getframe(1)):
            warnings.warn(text, stacklevel=2)
        vtype, size, batch, count, channels = layout_of(array, vtype, batched)
        leaf = cls(vtype, size, batch, name=name, count=count, channels=channels)
        leaf.data = leaf.conform(array.reshape(leaf.shape if count is None else (batch, count, *vtype.shape)))
        return leaf

    @property
    def is_leaf(self) -> bool:
        """Whether a user made the Variable, and no Function computes it."""
        return self.creator is None

    def __str__(self) -> str:
        name = self.name or (f"{type(self.creator).__name__}#{self.id}" if self.creator else f"#{self.id}")
        return f"{self.vtype.name} {name} ({self.domain})"

    __repr__ = __str__

    def __bool__(self) -> bool:
        raise GraphError(
            "a Variable has no truth value while the graph is built; use F.select(condition, a, b), and `is`"
            " to compare objects: any(v is x for v in several) instead of x in several"
        )


def as_variable(value: Any) -> Variable:
    """``value`` if it is a Variable; else a constant of a number, a tuple of numbers or a small array."""
    return value if isinstance(value, Variable) else builders.constant(value)


_same_pixel = cache(lambda count: (Access.SAME_PIXEL,) * count)
_ORIGIN = At(*(np.zeros((1, 1, 1), int),) * 3)


@cache
def _known(kind: type[Function]) -> frozenset[str]:
    names = {"inputs", "where", "output", *kind.fields}
    for base in kind.__mro__:
        names.update(name for name, value in vars(base).items() if isinstance(value, cached_property))
    return frozenset(names)


class Function(Work):
    """One application of one operation. Subclass one of the kinds (``PixelFunction``, ...), not this class.

    A subclass declares
      ``fields``    the names of its parameters, behind the inputs; equal fields and inputs are one Function;
      ``access``    how each input is read (default: all SAME_PIXEL);
      ``infer``     type and domain of the output; raises GraphError through ``self.fail``;
      ``glsl``      the snippet, see below;
      ``eval``      the meaning in NumPy, float64 (``evaluate`` if it depends on the texel);
      its work      ``operations``, ``iterations``, ``fetches``: see ``dressi.ad.graph.work.Work``;
      and its derivative in one of four ways: ``partials`` for component-wise Functions; ``vjp`` and
      ``jvp`` for others; ``zero_derivative = True`` if the output is piecewise constant, as of ``floor``;
      ``no_derivative``, a sentence that says why there is none and what to use instead.

    If a Function with a float output declares none of these, asking for its derivative raises GraphError. If
    it declares ``vjp`` alone, forward mode raises; if it declares ``jvp`` alone, reverse mode does. None as a
    partial, or returned by ``vjp`` or ``jvp``, means that the derivative by that input is zero. Second
    derivatives go through the Functions that ``vjp`` builds, so these need derivatives of their own.

    A snippet is GLSL in which ``$0``, ``$1`` stand for the inputs: an expression for SAME_PIXEL, the name of
    a function ``(ivec2 texel, int tile)`` for FETCH, ``(vec2 uv)`` for SAMPLE. ``$y`` is the output; a
    snippet without ``$y`` is an expression. ``$size``, ``$batch`` and ``$type`` describe the output,
    ``$size0`` and so on an input. ``pixel`` (ivec2, inside the tile) and ``tile`` (int) are the texel that
    the shader computes. ``includes`` names the GLSL files that the snippet needs: full paths, paths relative
    to the file of the class, or names of dressi's own shaders.
    """

    fields: ClassVar[tuple[str, ...]] = ()
    includes: ClassVar[tuple[str, ...]] = ()
    exact: ClassVar[bool] = False  # devices compute the value of ``eval``, rounded to single precision
    zero_derivative: ClassVar[bool] = False
    decides_on: tuple[int, ...] | Any | None = None  # inputs whose rounding may choose a value; None: all
    sampler: Sampler | None = None  # of inputs with the access SAMPLE
    no_derivative: ClassVar[str] = ""
    joint: Any = None  # shared by Functions whose gradients are taken together, by its ``pull``

    def __init__(self, *given: Any, **fields: Any):
        """given: the inputs, then values of fields in their order."""
        self.inputs = tuple(itertools.takewhile(lambda x: isinstance(x, Variable), given))
        more = given[len(self.inputs) :]
        if len(more) > len(self.fields) or not fields.keys().isdisjoint(self.fields[: len(more)]):
            raise GraphError(
                f"inputs of {type(self).__name__} are Variables, not {more[0]!r}; F.apply makes constants of"
                " numbers"
            )
        for name, value in (*zip(self.fields, more, strict=False), *fields.items()):
            if name not in self.fields:
                declared = ", ".join(self.fields) or "none"
                raise GraphError(f"{type(self).__name__} has no field {name!r}; its fields are: {declared}")
            setattr(self, name, value)
        self.where = user_line(self)
        vtype, domain = self.infer()
        self.output = Variable.made(self, vtype, domain)
        # The result of a list, computed entry by entry, is a list.
        for x, access in zip(self.inputs, self.access):
            if x.count is not None and access is Access.SAME_PIXEL and x.domain == domain:
                self.output.count = x.count
                break

    # ---- what a subclass declares
    if TYPE_CHECKING:
        access: Any  # a property or cached_property: a tuple of Access, one an input
    else:

        @cached_property
        def access(self) -> tuple[Access, ...]:
            return _same_pixel(len(self.inputs))

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
        """Values at the texels ``at``. SAME_PIXEL inputs are given at those texels, FETCH inputs as whole
        images of shape (N, H, W) + vtype.shape."""
        return self.eval(*x)

    def partials(self, *x: Variable) -> tuple[Variable | None, ...]:
        """The partial derivative by each input, by components; None if it is zero."""
        if self.zero_derivative:
            return (None,) * len(x)
        raise self.fail(self.no_derivative or self._undeclared())

    def vjp(self, gy: Variable, i: int) -> Variable | None:
        """The gradient of input ``i``, given the gradient of the output; None if it is zero. The caller sums
        it over the axes along which the input was broadcast."""
        raise self.fail(self._undeclared())

    def jvp(self, tangents: Sequence[Variable | None]) -> Variable | None:
        """The derivative of the output along the tangents of the inputs; None is zero, in both.

        A tangent has the type of its input. Its domain broadcasts to that of the input, and equals it if the
        Function reads any input by FETCH."""
        raise self.fail(self._undeclared())

    def known_value(self, known: Mapping[int, np.ndarray]) -> np.ndarray | None:
        """The value of the output at texels where the inputs numbered in ``known`` have the given values;
        None if it depends on other inputs.

        Values have the shape of their types. The planner does not compute texels whose values are known. A
        product with zero counts as zero. A Function that is not ``exact`` must turn zeros into exact zeros.
        """
        if self.places or len(known) < len(self.inputs) or {*self.access} != {Access.SAME_PIXEL}:
            return None
        if not self.exact and any(np.any(x) for x in known.values()):
            return None
        values = [np.reshape(known[i], (1, 1, 1, *x.vtype.shape)) for i, x in enumerate(self.inputs)]
        value = np.reshape(self.evaluate(_ORIGIN, *values), self.output.vtype.shape)
        return value if self.exact or not value.any() else None

    @property
    def sign_only(self) -> tuple[int, ...]:
        """Indices of the inputs that are used only by whether they are negative."""
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

    def _zero_with_zero(self, known: Mapping[int, np.ndarray], *factors: int) -> np.ndarray | None:
        """``known_value`` of a Function, such as a product, that is zero if one of these inputs is."""
        if any(i in known and not np.any(known[i]) for i in factors):
            return np.zeros(self.output.vtype.shape)
        return Function.known_value(self, known)

    # ---- what every Function has
    @property
    def working_domain(self) -> Domain:
        """The domain over which the Function runs."""
        return self.output.domain

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """The inputs, in order."""
        here, same = self.working_domain, Access.SAME_PIXEL
        return tuple(
            Edge(x, x.creator, access, access is same and x.domain == here)
            for x, access in zip(self.inputs, self.access, strict=True)
        )

    @property
    def attributes(self) -> tuple[Any, ...]:
        """The values of the fields. Hashable."""
        return tuple(getattr(self, name) for name in self.fields)

    @property
    def identity(self) -> tuple[Any, ...]:
        """Equal for two applications that compute the same of equal inputs: class and attributes, and the
        snippet if the instance has attributes that are no fields, since it may depend on them."""
        if self.own_state():
            return (type(self), self.attributes, self.glsl)
        return (type(self), self.attributes)

    def own_state(self) -> dict[str, Any]:
        """Attributes of this instance that are neither fields nor cached properties."""
        known, own = _known(type(self)), self.__dict__
        return {} if own.keys() <= known else {n: value for n, value in own.items() if n not in known}

    @cached_property
    def places(self) -> frozenset[str]:
        """Which of ``pixel`` and ``tile`` the snippet uses; if neither, all texels have one value."""
        return places_of(self.glsl)

    def rebuild(self, *inputs: Variable) -> Function:
        """The same operation on other inputs. The output keeps its name."""
        new = object.__new__(type(self))
        for name in self.fields:
            setattr(new, name, getattr(self, name))
        new.__dict__.update(self.own_state())
        new.inputs, new.where = inputs, self.where
        alike = [(x.vtype, x.domain) for x in inputs] == [(x.vtype, x.domain) for x in self.inputs]
        vtype, domain = (self.output.vtype, self.output.domain) if alike else new.infer()
        new.output = Variable.made(new, vtype, domain, self.output.name)
        return new

    def fail(self, reason: str) -> GraphError:
        """An error that names the Function, its inputs and the user's line: ``raise self.fail(...)``."""
        inputs = ", ".join(map(str, self.inputs))
        return GraphError(f"{type(self).__name__}({inputs}): {reason} (at {self.where})")

    def broadcast(self, *variables: Variable) -> Domain:
        """The domain that the given inputs, by default all read at the same pixel, broadcast to."""
        if not variables:
            same, pairs = self.access is _same_pixel(len(self.inputs)), zip(self.inputs, self.access)
            variables = self.inputs if same else tuple(x for x, a in pairs if a is Access.SAME_PIXEL)
        domain = broadcast([v.domain for v in variables])
        if domain is None:
            raise self.fail("sizes and batches must be equal or 1; use F.resize, F.crop, F.take or F.expand")
        return domain

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self.attributes or ''}"


# ---- the kinds: what computes the texels of the output
class PixelFunction(Function):
    """Kind PIXEL: the snippet computes each output texel, in any order.

    A subclass declares ``glsl``, ``infer`` (type and domain), ``eval`` (the meaning in NumPy) and a
    derivative; see ``help(PixelFunction.__base__)`` for all it may declare, and ``F.apply``.

    >>> class Cube(PixelFunction):
    ...     glsl = "$0 * $0 * $0"
    ...     infer = lambda self: (self.inputs[0].vtype, self.broadcast())
    ...     eval = lambda self, x: x**3
    ...     partials = lambda self, x: (3.0 * x * x,)
    >>> evaluate(F.apply(Cube, 2.0)).item()
    8.0
    """


class ReduceFunction(PixelFunction):
    """Kind REDUCE: the snippet of an output texel loops over the texels of the input along ``axis``.

    Declare ``combine`` if the texels along the axis are added up or the largest or smallest counts: devices
    with many lanes then split a long axis. Otherwise the loop stays whole, or the class says itself what is
    shorter: see ``shortened`` of ``dressi.ad.graph.work``.

    >>> class Product(ReduceFunction):
    ...     axis, access = "x", (Access.FETCH,)
    ...     glsl = "$y = 1.0; for (int i = 0; i < $size0.x; ++i) $y *= $0(ivec2(i, pixel.y), tile);"
    ...     infer = lambda self: (FLOAT, ((1, self.inputs[0].size[1]), self.inputs[0].batch))
    ...     eval = lambda self, x: x.prod(axis=2, keepdims=True)
    >>> evaluate(F.apply(Product, Variable.of([1.0, 2.0, 3.0, 4.0, 5.0]))).item()
    120.0
    """

    axis: str
    combine: str = ""
    """"add", "max" or "min" if it only combines texels so, by components: planners may split long axes."""
    unrolled: str | Any = ""
    """A snippet of the same value to the bit whose one loop takes ``UNROLLED`` texels an iteration; no loop
    takes the rest. Planners choose it where the input takes little to make."""

    @property
    def extent(self) -> int:
        """The number of input texels for each output texel."""
        (width, height), _, channels = domain = self.inputs[0].domain
        return {"x": width, "y": height, "c": channels, "n": domain.batch}[self.axis]

    @property
    def iterations(self) -> int:
        return self.extent

    @property
    def fetches(self) -> float:
        return float(self.extent)


class ScatterFunction(Function):
    """Kind SCATTER: texels of the *source* domain add to texels of the output table, or raise their maximum.

    ``inputs`` are ``(bound, value0, index0, value1, index1, ...)``. ``bound`` is a FLOAT 1x1, at least the
    largest absolute value: the scale of the fixed-point sums. Values and indices are read at the source
    pixel. Indices are INT (row by row through the table) or IVEC2 (texel); those outside the table are
    ignored. ``table`` is the domain of the output: all tiles share a table of batch 1, otherwise each source
    tile has its own. ``operation`` is "add" or "max".
    """

    fields = ("table", "operation")
    table: Domain
    operation: str

    @cached_property
    def source(self) -> Domain:
        return self.broadcast(*self.inputs[1:])

    @property
    def working_domain(self) -> Domain:
        return self.source

    @property
    def pairs(self) -> list[tuple[Variable, Variable]]:
        return list(zip(self.inputs[1::2], self.inputs[2::2], strict=True))


class DrawFunction(Function):
    """The base of the kinds that draw triangles and run a sub-graph in every fragment.

    ``inputs`` are ``(position, [faces,] [live,] *externals)``: clip positions VEC4 as a list, faces IVEC3
    (absent: three consecutive positions make a triangle), a mask of the live faces, which are drawn (absent:
    all are), and the images that the fragment sub-graph reads. ``indexed`` and ``masked`` tell whether faces
    and mask are there. ``fragment`` is the sub-graph, a ``FragmentGraph``. ``size`` and ``batch`` are of the
    images drawn into. ``triangles`` is the number of triangles drawn, ``triangles_per_face`` the number that
    make a face.
    """

    fields = ("indexed", "masked", "size", "batch", "triangles", "triangles_per_face", "fragment")
    indexed: bool
    masked: bool
    size: Size
    batch: int
    triangles: int
    triangles_per_face: int
    fragment: Any
    covering: bool = False
    """Whether only which pixels are covered counts."""

    @property
    def drawn(self) -> Domain:
        return Domain(self.size, self.batch)

    @property
    def working_domain(self) -> Domain:
        return self.drawn

    @property
    def faces(self) -> int:
        """The largest number of faces that can be drawn."""
        return self.triangles // self.triangles_per_face

    @property
    def pulled(self) -> int:
        """The number of inputs that the vertex shader pulls."""
        return 1 + self.indexed + self.masked

    @property
    def live(self) -> Variable | None:
        return self.inputs[self.pulled - 1] if self.masked else None

    @property
    def externals(self) -> tuple[Variable, ...]:
        """The images that the fragment sub-graph reads, one for each of its formals."""
        return self.inputs[self.pulled :]


class RasterFunction(DrawFunction):
    """Kind RASTER: draws triangles; the output is the INT number of the winning face, -1 for none.

    See ``DrawFunction`` for the inputs. ``covering``: the output is 0 at every covered pixel, instead of the number of the face.
    """

    fields = (*DrawFunction.fields, "covering")
    quiet = -1


class AccumulateFunction(DrawFunction):
    """Kind ACCUMULATE: draws triangles; sums the first root of ``fragment`` over the fragments of a pixel.

    See ``DrawFunction`` for the inputs. ``fixed_point``: the sums are those of 64-bit integers, which are the
    same on every device that computes the same values; otherwise devices add floats, in the order of the
    triangles.
    """

    fields = (*DrawFunction.fields, "fixed_point")
    operation = "add"
    fixed_point: bool

    @property
    def table(self) -> Domain:
        """The images that hold the sums."""
        return self.drawn

    @property
    def additions(self) -> int:
        """The largest number of fragments of a pixel: each triangle covers it once."""
        return self.triangles


class FragmentScatterFunction(DrawFunction):
    """Kind FRAGMENT SCATTER: draws triangles; every fragment adds values to texels of the output table.

    See ``DrawFunction`` for the inputs. The roots of ``fragment`` are (value0, index0, value1, index1, ...),
    with indices as in ``ScatterFunction``. ``table`` is the domain of the output: all tiles share a table of
    batch 1, otherwise each tile has its own. Sums are in fixed point.
    """

    fields = (*DrawFunction.fields, "table")
    operation = "add"
    table: Domain

    @property
    def pairs(self) -> list[tuple[Variable, Variable]]:
        """(value, index) pairs inside of the sub-graph."""
        roots = self.fragment.roots
        return list(zip(roots[0::2], roots[1::2], strict=True))

    @property
    def additions(self) -> int:
        """The largest number of values that are added to one texel of the table."""
        fragments = self.size[0] * self.size[1] * self.triangles * len(self.pairs)
        return fragments * (self.batch if self.table.tiles == 1 else 1)
