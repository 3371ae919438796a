"""Every Function declares its derivative; one that does not says so when it is asked for."""

import importlib
import pkgutil

import numpy as np
import pytest

import dressi.ad
import dressi.render
from dressi.ad import functional as F
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Function, PixelFunction, Variable
from dressi.ad.transform.gradient import gradient, jvp
from dressi.ad.types import FLOAT
from dressi.errors import GraphError


class Double(PixelFunction):
    """Declares no derivative."""

    glsl = "2.0 * $0"

    def infer(self):
        return FLOAT, self.broadcast()

    def eval(self, x):
        return 2.0 * x


class DoubleByPartials(Double):
    def partials(self, x):
        return (F.constant(2.0),)


class DoubleByVjp(Double):
    def vjp(self, gy, i):
        return gy * 2.0


class DoubleByJvp(Double):
    def jvp(self, tangents):
        return tangents[0] * 2.0


class DeclaredZero(Double):
    zero_derivative = True


class Refusing(Double):
    no_derivative = "counts sheep; use F.length"


def leaf() -> Variable:
    return Variable(FLOAT, (3, 2), name="x", data=np.linspace(-1.0, 2.0, 6).reshape(1, 2, 3))


def reverse(y: Variable, x: Variable) -> np.ndarray:
    return evaluate(gradient(F.sum(y), [x]))[0]


def forward(y: Variable, x: Variable) -> np.ndarray:
    return evaluate(jvp([y], [x], [F.constant(1.0)]))[0]


@pytest.mark.parametrize(
    "cls, mode, message",
    [
        (Double, reverse, "Double.*FLOAT x.*declares no derivative.*partials.*test_declared_derivatives.py"),
        (Double, forward, "Double.*declares no derivative.*zero_derivative"),
        (DoubleByVjp, forward, "DoubleByVjp.*declares vjp alone.*jvp"),
        (DoubleByJvp, reverse, "DoubleByJvp.*declares jvp alone.*vjp"),
        (Refusing, reverse, "Refusing.*counts sheep; use F.length"),
        (Refusing, forward, "Refusing.*counts sheep; use F.length"),
    ],
)
def test_what_is_not_declared_is_named_when_it_is_asked_for(cls, mode, message):
    x = leaf()
    y = F.square(cls(x).output) + x
    evaluate([y])
    with pytest.raises(GraphError, match=message):
        mode(y, x)


@pytest.mark.parametrize(
    "cls, mode, expected",
    [
        (DoubleByPartials, reverse, 2.0),
        (DoubleByPartials, forward, 2.0),
        (DoubleByVjp, reverse, 2.0),
        (DoubleByJvp, forward, 2.0),
        (DeclaredZero, reverse, 0.0),
        (DeclaredZero, forward, 0.0),
    ],
)
def test_what_is_declared_counts(cls, mode, expected):
    x = leaf()
    assert (mode(cls(x).output, x) == expected).all()


@pytest.mark.parametrize("mode", [reverse, forward])
@pytest.mark.parametrize(
    "use",
    [
        lambda y, x: F.select(F.greater(y, 0.0), x, 2.0 * x),
        lambda y, x: F.floor(y) + x,
        lambda y, x: F.stop_gradient(y) + x,
        lambda y, x: F.to_float(F.to_int(y)) + x,
        lambda y, x: F.lookup(x, F.to_int(F.abs(y))),
    ],
)
def test_no_derivative_is_asked_for_where_none_arrives(use, mode):
    x = leaf()
    assert np.isfinite(mode(use(Double(x).output, x), x)).all()


@pytest.mark.parametrize("cls", [Double, DoubleByVjp, DoubleByJvp, Refusing])
def test_a_loss_that_does_not_depend_on_the_function_asks_nothing(cls):
    x, other = leaf(), leaf()
    y = cls(x).output + other
    assert (reverse(y, other) == 1).all() and (forward(y, other) == 1).all()


def declared() -> list[type[Function]]:
    """Functions of ``dressi`` that nothing there derives from."""
    for package in (dressi.ad, dressi.render):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            importlib.import_module(module.name)
    found, stack = set(), [Function]
    while stack:
        cls = stack.pop()
        below = [c for c in cls.__subclasses__() if c.__module__.startswith("dressi.")]
        stack += below
        if not below and cls.__module__.startswith("dressi."):
            found.add(cls)
    return sorted(found, key=lambda c: (c.__module__, c.__name__))


@pytest.mark.parametrize("cls", declared(), ids=lambda cls: cls.__name__)
def test_every_function_declares_its_derivative_in_one_way(cls):
    # Functions whose gradients are taken together have one vjp for all of them.
    vjp = cls.vjp is not Function.vjp or cls.joint is not Function.joint
    jvp_ = cls.jvp is not Function.jvp
    assert vjp == jvp_, "declare both modes"
    ways = [cls.partials is not Function.partials, vjp and jvp_, cls.zero_derivative, bool(cls.no_derivative)]
    assert sum(ways) == 1, "declare partials, or vjp and jvp, or zero_derivative, or no_derivative"
