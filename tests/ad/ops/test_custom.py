"""Functions of a user's own: what tells two of them apart, and what is said of one that lacks something."""

import numpy as np
import pytest

from dressi import FLOAT, VEC3, F, GraphError, PixelFunction, Variable, gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.program import Program
from dressi.ad.transform.simplify import simplify
from dressi.vk.run.execution.executor import VulkanExecutor

X = Variable(VEC3, (3, 2), name="x", data=np.arange(18.0).reshape(1, 2, 3, 3))


class Own(PixelFunction):
    """What the classes below share."""

    glsl = "$0"

    def infer(self):
        return self.inputs[0].vtype, self.broadcast()

    def eval(self, x):
        return x


class Scale(Own):
    """The factor is no field, and is set before the rest."""

    def __init__(self, x, factor):
        self.factor = factor
        super().__init__(x)

    @property
    def glsl(self):
        return f"$0 * {self.factor!r}"

    def eval(self, x):
        return x * self.factor

    def partials(self, x):
        return (F.constant(self.factor),)


class LateScale(Scale):
    """It is set after it."""

    def __init__(self, x, factor):
        PixelFunction.__init__(self, x)
        self.factor = factor


class FieldScale(Scale):
    fields = ("factor",)

    def __init__(self, *inputs, **fields):
        PixelFunction.__init__(self, *inputs, **fields)


def simple(y: Variable) -> Variable:
    return simplify(Program({"y": y})).outputs["y"]


APPLIED = {
    "forgotten field": lambda x, f: Scale(x, f).output,
    "set late": lambda x, f: LateScale(x, f).output,
    "field": lambda x, f: F.apply(FieldScale, x, factor=f),
    "init through apply": lambda x, f: F.apply(Scale, x, factor=f),
}


@pytest.mark.parametrize("scaled", APPLIED.values(), ids=APPLIED)
def test_functions_of_other_snippets_are_not_merged(scaled):
    y = scaled(X * 1.0, 2.0) + scaled(X + 0.0, 5.0)
    assert np.allclose(evaluate([simple(y)])[0], 7 * X.data)
    (slope,) = gradient(F.sum(F.sum_components(y)), [X])
    assert np.allclose(evaluate([simple(slope)])[0], 7)
    same = simplify(Program({"y": scaled(X, 2.0) + scaled(X, 2.0)}))
    assert sum(isinstance(f, Scale) for f in same.functions) == 1


@pytest.mark.parametrize("scaled", APPLIED.values(), ids=APPLIED)
def test_devices_tell_them_apart(device, scaled):
    with VulkanExecutor(simplify(Program({"y": scaled(X, 2.0) + scaled(X, 5.0)})), device) as run:
        run.run()
        assert np.allclose(run.recv(run.program.outputs["y"]), 7 * X.data)


def test_numbers_and_arrays_are_inputs():
    class Add(Own):
        glsl = "$0 + $1"

        def eval(self, a, b):
            return a + b

    for other in (2.0, (2.0, 2.0, 2.0), 2.0 * np.ones((2, 3, 3))):
        assert np.allclose(evaluate([F.apply(Add, X, other)])[0], X.data + 2)


def kind(name: str, base: type = Own, **attributes) -> type:
    return type(name, (base,), attributes)


NoInfer, NoEval = kind("NoInfer", PixelFunction, glsl="$0"), kind("NoEval", eval=PixelFunction.eval)
OddInfer, TooMany = kind("OddInfer", infer=lambda self: ("vec3", (3, 2))), kind("TooMany", glsl="$0 + $9")
MISTAKES = [
    (lambda: F.apply(NoInfer, X), r"NoInfer.*declares no infer.*self.broadcast.*test_custom.py"),
    (lambda: evaluate([F.apply(NoEval, X)]), "NoEval.*declares no eval"),
    (lambda: F.apply(kind("NoGlsl", PixelFunction, infer=Own.infer), X), "NoGlsl.*declares no glsl"),
    (lambda: F.apply(OddInfer, X), "OddInfer.*infer returns a type and a domain"),
    (lambda: F.apply(kind("Number", glsl=3.0), X), "Number.*glsl is a string, not 3.0"),
    (lambda: F.apply(TooMany, X), r"TooMany.*names \$9, but it has 1 inputs"),
    (lambda: F.apply(kind("Unknown", glsl="$0 * $scale"), X), r"Unknown.*has \$scale; there are \$0"),
    (lambda: F.apply(kind("Unset", fields=("factor",)), X), "Unset.*a field was not set"),
    (lambda: F.apply(FieldScale, X, factor=[1.0]), "fields .*must be hashable"),
    (lambda: F.apply(FieldScale, X, faktor=1.0), "has no field 'faktor'; its fields are: factor"),
    (lambda: Own(3.0), "inputs of Own are Variables, not 3.0; F.apply"),
    (lambda: F.apply(np.sin, X), "takes a class of Functions"),
    (lambda: F.apply(Own, "text"), "Variable or numbers"),
]


@pytest.mark.parametrize(("call", "words"), MISTAKES)
def test_what_is_wrong_is_named(call, words):
    with pytest.raises(GraphError, match=words):
        call()


def test_inputs_that_are_not_there_are_named_before_the_device_sees_them(device):
    with pytest.raises(GraphError, match=r"TooMany.*names \$9, but it has 1 inputs"):
        VulkanExecutor(Program({"y": TooMany(Variable(FLOAT)).output}), device)
