"""Graphs are evaluated, shown, and weighed."""

import ast
import importlib
import math
import pkgutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import dressi
from dressi import FLOAT, INT, VEC3, VEC4, Access, F, GraphError
from dressi.ad.graph import Function, PixelFunction, RasterFunction, ReduceFunction, ScatterFunction, Variable
from dressi.ad.graph.evaluation import Evaluator, NumpyExecutor, evaluate
from dressi.ad.graph.program import Program
from dressi.ad.graph.work import Work
from dressi.ad.ops.image.draws import rasterize
from dressi.ad.show import dot, listing, svg
from dressi.vk.plan.model.device import fetches, operations


def test_values_come_from_the_argument_before_the_data():
    x = Variable(FLOAT, (2, 1), data=[[[1.0, 2.0]]])
    assert [v.tolist() for v in evaluate([x, x + 1.0])] == [[[[1.0, 2.0]]], [[[2.0, 3.0]]]]
    assert evaluate([x + 1.0], {x: [[[5.0, 6.0]]]})[0].tolist() == [[[6.0, 7.0]]]


def test_values_that_are_missing_or_do_not_fit_are_named():
    radius, x = Variable(FLOAT, name="radius"), Variable(VEC3, (2, 2), name="x")
    with pytest.raises(GraphError, match=r"radius.*no values.*test_evaluate"):
        evaluate([radius * 2.0])
    with pytest.raises(GraphError, match="computed"):
        evaluate([radius], {radius: 1.0, radius + 1.0: 2.0})
    with pytest.raises(GraphError, match="shape"):
        evaluate([x], {x: np.zeros((2, 2))})


def test_outputs_have_their_full_shape_and_type():
    x = Variable(FLOAT, data=np.ones((1, 1, 1)))
    v = Variable(VEC3, (4, 1), 2, data=np.ones((2, 1, 4, 3)))
    column = Variable(FLOAT, (1, 3), data=np.arange(3.0).reshape(1, 3, 1))
    out, index = evaluate([x * v + column, F.to_int(column) + 2**20])
    assert out.shape == (2, 3, 4, 3) and out.dtype == np.float64
    assert np.array_equal(out[1, :, 3, 2], [1, 2, 3])
    assert index.dtype == np.int64 and index[0, 2, 0] == 2**20 + 2


def test_division_by_zero_is_silent_in_either_precision(recwarn):
    x = Variable(FLOAT, data=[[[0.0]]])
    for dtype in (np.float64, np.float32):
        infinite, undefined = evaluate([1.0 / x, x / x], dtype=dtype)
        assert np.isinf(infinite).all() and np.isnan(undefined).all() and not recwarn.list
        assert infinite.dtype == dtype


def test_intermediates_are_dropped_after_their_last_use():
    x = Variable(FLOAT, (8, 8), data=np.ones((1, 8, 8)))
    chain = [x]
    for _ in range(50):
        chain.append(F.sin(chain[-1]))
    run = Evaluator([chain[-1], chain[20]])
    alive = peak = 0
    for function, drop in zip(run.order, run.drop, strict=True):
        alive += 1 + sum(i.is_leaf for i in function.inputs)
        peak = max(peak, alive)
        alive -= len(drop)
    assert peak <= 4 and alive == 2


def test_a_deep_graph_is_evaluated_without_recursion():
    x = Variable(FLOAT, data=[[[0.0]]])
    y = x
    for _ in range(5000):
        y = y + 1.0
    assert evaluate([y])[0].item() == 5000


def test_updates_happen_at_once_after_the_outputs():
    a, b = Variable(FLOAT, name="a", data=[[[1.0]]]), Variable(FLOAT, name="b", data=[[[1.0]]])
    program = Program({"sum": a + b}, ((a, b), (b, a + b)))
    runner = NumpyExecutor(program)
    runner.run(5)
    assert (runner.recv(a).item(), runner.recv(b).item()) == (8, 13)
    assert runner.recv(program.outputs["sum"]).item() == 13  # before the last update: 5 + 8
    runner.send(a, [[[100.0]]])
    runner.run()
    assert runner.recv(program.outputs["sum"]).item() == 113
    runner.close()
    runner.close()


def test_the_executor_names_what_it_cannot_do():
    a = Variable(FLOAT, name="a", data=[[[1.0]]])
    y = a * 2.0
    runner = NumpyExecutor(Program({"y": y}))
    with pytest.raises(GraphError, match="run first"):
        runner.recv(y)
    with pytest.raises(GraphError, match="no output"):
        runner.recv(a + 1.0)
    with pytest.raises(GraphError, match="not a leaf"):
        runner.send(Variable(FLOAT), 0.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda a: ((a, a + 1.0), (a, a + 2.0)), "twice"),
        (lambda a: ((a + 1.0, a),), "only leaves"),
        (lambda a: ((a, F.to_int(a)),), "must have its type"),
        (lambda a: ((a, F.expand(a, 2)),), "must have its type"),
    ],
)
def test_updates_are_checked(make, message):
    a = Variable(FLOAT, name="a", data=[[[1.0]]])
    with pytest.raises(GraphError, match=message):
        Program({}, make(a)).check()


def test_a_program_knows_its_leaves_in_order():
    a, b = Variable(FLOAT, name="a"), Variable(INT, name="b")
    program = Program({"y": F.to_float(b), "z": a + 1.0}, ((b, b + 1),))
    assert program.leaves == (a, b) and len(program.roots) == 3


def program():
    x = Variable(VEC3, (4, 3), 2, name="x")
    index = Variable(INT, (4, 3), name="index")
    loss = F.sum(F.sum(F.sum(F.length(F.lookup(x, index) * 2.0 - x), "x"), "y"), "n")
    position = Variable(VEC4, (3, 1), name="position", data=np.zeros((1, 1, 3, 4)))
    ids = rasterize(position, size=(8, 8), fragment=lambda face: (F.to_float(face), None))
    return Program({"loss": loss, "ids": ids}, ((x, x * 0.5), (index, index)))


def test_the_listing_says_what_is_computed_from_what():
    assert listing(Program({"loss": program().outputs["loss"]})) == (
        "$x      VEC3 4x3 x 2   leaf\n"
        "$index  INT 4x3        leaf\n"
        "%0      VEC3 4x3 x 2   Lookup($x[], $index)\n"
        "%1      VEC3 4x3 x 2   Mul(%0, 2.0)\n"
        "%2      VEC3 4x3 x 2   Sub(%1, $x)\n"
        "%3      FLOAT 4x3 x 2  Length(%2)\n"
        "%4      FLOAT 1x3 x 2  Sum<axis=x>(%3[])\n"
        "%5      FLOAT 1x1 x 2  Sum<axis=y>(%4[])\n"
        "%6      FLOAT 1x1      Sum<axis=n>(%5[])  : loss\n"
    )


def test_updates_and_the_rasterizer_are_listed():
    text = listing(program())
    assert ": -> x" in text and "Rasterize<" in text and "$position[v]" in text and "-> index" in text


def test_variables_can_be_listed_without_a_program():
    x = Variable(FLOAT, name="x")
    unnamed = Variable(FLOAT)
    rows = "$x     FLOAT 1x1  leaf\n$leaf  FLOAT 1x1  leaf\n%0     FLOAT 1x1  Add($x, $leaf)  : out0\n"
    assert listing(x + unnamed) == rows
    assert listing([F.constant(1.0)]) == "1.0  FLOAT 1x1  Constant(1.0)  : out0\n"


def test_dot_has_every_node_once_and_dashes_fetches():
    text = dot(program())
    assert text.startswith("digraph {") and text.endswith("}\n")
    assert text.count("Lookup") == 1
    assert '"$x" -> "%0" [style=dashed]' in text and '"$index" -> "%0"\n' in text
    assert "Constant" not in text and "with 2.0" in text


def test_svg_without_graphviz_is_well_formed():
    root = ElementTree.fromstring(svg(program(), graphviz=False))
    texts = [e.text for e in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "loss" in texts and "Lookup" in texts
    for rect in list(root.iter("{http://www.w3.org/2000/svg}rect"))[1:]:
        assert float(rect.get("x", -1)) >= 0 and float(rect.get("x", 0)) < float(root.get("width", 0))


def test_svg_escapes():
    sums = Variable(FLOAT, name="a<b&c") + 1.0
    assert ElementTree.fromstring(svg(sums, graphviz=False)) is not None and "svg" in svg(sums)


KINDS = (Function, PixelFunction, ReduceFunction, ScatterFunction, RasterFunction)
PLANNER = Path(dressi.__file__).parent / "vk" / "plan"


def subclasses(kind: type) -> Iterator[type]:
    for cls in kind.__subclasses__():
        yield cls
        yield from subclasses(cls)


def own_classes() -> list[type[Function]]:
    """Classes of Functions of dressi that have a snippet, but for those that only others derive from."""
    for package in (dressi.ad, dressi.render):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    found = {cls for cls in subclasses(Function) if cls.__module__.startswith("dressi.")}
    families = {base for cls in found for base in cls.__bases__}
    return sorted((c for c in found - families if hasattr(c, "glsl")), key=repr)


def declares(cls: type, *names: str) -> bool:
    """Whether the class, or a base that is no kind, sets one of the names."""
    return any(
        name in vars(base) for base in cls.__mro__ if base not in (*KINDS, Work, object) for name in names
    )


def test_every_class_declares_its_work():
    classes = own_classes()
    assert len(classes) > 90
    assert [c.__name__ for c in classes if not declares(c, "operations")] == []
    fetching = [c for c in classes if declares(c, "access")]
    assert len(fetching) > 20
    assert [c.__name__ for c in fetching if not declares(c, "fetches", "reads")] == []


def test_users_have_defaults_and_may_say_more():
    class Mystery(PixelFunction):
        access = (Access.FETCH, Access.SAME_PIXEL)
        glsl = "$0(pixel, tile) + $1"
        infer = lambda self: (FLOAT, self.inputs[1].domain)  # noqa: E731

    class Known(Mystery):
        operations, fetches = 2.0, 1.0

    class Product(ReduceFunction):
        axis, access = "y", (Access.FETCH,)
        glsl = "$y = 1.0;"
        infer = lambda self: (FLOAT, ((7, 1), 1))  # noqa: E731

    x = Variable(FLOAT, (7, 5))
    first, second, third = Mystery(x, x), Known(x, x), Product(x)
    assert first.reads(0) == math.inf and first.reads(1) == 1 and operations(first) == Work.operations
    assert second.reads(0) == 1 and operations(second) == 2
    assert third.reads(0) == third.iterations == 5 and operations(third) == 5 * Work.operations


def test_a_plan_does_not_depend_on_the_number_of_views():
    one, many = (F.sum(Variable(FLOAT, (7, 5), batch), "n").creator for batch in (1, 8))
    assert operations(one) == operations(many) and fetches(one, 0) == fetches(many, 0) == 1
    assert many.iterations == many.reads(0) == 8


def test_planners_do_not_read_snippets():
    """Outside of the folder that writes GLSL nothing of the planner looks at it."""
    for file in PLANNER.rglob("*.py"):
        if "glsl" in file.relative_to(PLANNER).parts:
            continue
        nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
        # A Function that the planner makes may have the snippet of another one.
        snippets = [n for n in nodes if isinstance(n, ast.FunctionDef) and n.name == "glsl"]
        own = {id(inner) for n in snippets for inner in ast.walk(n)}
        looks = (isinstance(n, ast.Attribute) and n.attr == "glsl" and id(n) not in own for n in nodes)
        assert not any(looks), file
        imported = {a.name for n in nodes if isinstance(n, ast.Import) for a in n.names}
        assert "re" not in imported, file
