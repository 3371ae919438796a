"""What Functions declare of their work: every class does, and planners read nothing else."""

import ast
import importlib
import math
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import dressi
from dressi.ad import functional as F
from dressi.ad.graph import Function, PixelFunction, RasterFunction, ReduceFunction, ScatterFunction, Variable
from dressi.ad.graph.work import Work
from dressi.ad.types import FLOAT, Access
from dressi.vk.plan.model.cost import fetches, operations

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
    assert one is not None and many is not None
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
