"""Every public name says what it is, with types and an example, and the examples run. (dressi.render: its own test.)"""

import doctest
import inspect
import itertools
import pydoc
import re
import textwrap
import types
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest

import dressi
from dressi import F, networks, optim
from dressi.ad.graph import Function

# What a reader has after `import numpy as np` and `from dressi import *`.
GLOBALS = {"np": np, **{name: getattr(dressi, name) for name in dressi.__all__}}
NAMES = {
    f"{module.__name__.rpartition('.')[2]}.{name}": getattr(module, name)
    for module in (dressi, F, networks, optim)
    for name in module.__all__
    if not isinstance(getattr(module, name), types.ModuleType)
}
ALIASES = {"functional.Like", "optim.Rate", "optim.STEP", "optim.Schedule", "optim.State"}
"""Names of plain values, which have no docstring: the docstrings of their modules explain them."""

FOR_DRESSI_ITSELF = {
    "Variable": {"made"},
    "DressiAD": {"executor", "plan", "program"},
    "Device": {
        "check_thread", "compiles_late", "create", "destroy", "forked", "here", "key", "open", "own", "release",
        "settle", "share", "undo_on_error", "usable",
    },
    "Optimizer": {"init", "update", "states", "build"},
}  # fmt: skip
"""Members that have a docstring, and need no example: what makes the engines work."""

TYPE = re.compile(
    r"\b(FLOAT|INT|I?VEC[n234]|MAT[n234]|any types?|NumPy array|[Tt]ypes? (and domain )?(and result )?(as for|of))\b"
)
DERIVATIVE = re.compile(r"[Dd]ifferentiable|[Dd]erivative|gradient")


def is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, dressi.DressiError)


def text_of(value: object) -> str:
    """The docstring that belongs to the object itself, not to what it inherits from."""
    own = vars(value).get("__doc__") if isinstance(value, type) else getattr(value, "__doc__", None)
    return inspect.cleandoc(own or "")


def examples(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if line.lstrip().startswith((">>>", "...")))


def prose(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if line not in examples(text))


def failures(value: object, name: str) -> list[str]:
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
    found: list[str] = []
    for test in doctest.DocTestFinder().find(value, name, globs=dict(GLOBALS)):
        runner.run(test, out=found.append)
    return found


def members(cls: type) -> dict[str, object]:
    """Public methods and properties, of the class itself and of dressi's classes below it."""
    kinds = (types.FunctionType, classmethod, staticmethod, property, cached_property)
    return {
        name: value
        for base in reversed(cls.__mro__)
        if base.__module__.startswith("dressi.")
        for name, value in vars(base).items()
        if not name.startswith("_") and isinstance(value, kinds)
    }


def test_each_says_what_it_is_with_an_example():
    for name in sorted(set(NAMES) - ALIASES):
        value = NAMES[name]
        text = text_of(type(value) if isinstance(value, dressi.VType) else value)
        assert len(prose(text)) > 30, f"{name}: what is it?"
        if is_error(value) and value is not dressi.DressiError:
            text += text_of(dressi.DressiError)  # how they are caught
        assert ">>>" in examples(text), f"{name}: an example, please"


def test_each_names_every_argument():
    for name, value in NAMES.items():
        if isinstance(value, types.FunctionType):
            text = prose(text_of(value))
            if "as for" not in text:  # which says that another function describes them
                missing = set(inspect.signature(value).parameters) - set(re.findall(r"\w+", text))
                assert not missing, f"{name}: {missing}"


def test_operations_tell_types_and_derivatives():
    for name in F.__all__:
        if name != "Like":
            text = prose(text_of(NAMES[f"functional.{name}"]))
            assert TYPE.search(text), f"{name}: of which types are arguments and result?"
            assert DERIVATIVE.search(text), f"{name}: what is differentiable?"


@pytest.mark.parametrize("name", sorted(set(NAMES) - ALIASES))
def test_examples_run(name: str):
    if not isinstance(NAMES[name], dressi.VType):
        assert not (found := failures(NAMES[name], name)), "".join(found)


@pytest.mark.parametrize(
    "cls", [dressi.Variable, dressi.DressiAD, dressi.Device, optim.Optimizer], ids=lambda c: c.__name__
)
def test_members_have_docstrings_and_appear_in_examples(cls: type):
    shown = examples(text_of(cls))
    internal = FOR_DRESSI_ITSELF.get(cls.__name__, set())
    assert internal <= set(members(cls)), "the list of exceptions names members that there are"
    for name, member in members(cls).items():
        text = inspect.getdoc(member) or ""
        assert len(text) > 15, f"{name} says nothing"
        used = re.search(rf"\b{name}\b", shown + examples(text))
        assert used or name in internal, f"{name} is in no example"


@pytest.mark.parametrize("cls", [dressi.PixelFunction, dressi.ReduceFunction], ids=lambda c: c.__name__)
def test_what_a_function_declares_is_described(cls: type):
    text = text_of(Function)
    for name, member in members(cls).items():
        assert f"``{name}``" in text or inspect.getdoc(member), name


def test_every_option_of_a_plan_is_described():
    for name in dressi.PlanOptions.__dataclass_fields__:
        assert f"\n{name}: " in text_of(dressi.PlanOptions)


@pytest.mark.parametrize("module", [dressi, F, networks, optim], ids=lambda m: m.__name__)
def test_the_front_pages_list_every_name(module: types.ModuleType):
    words = set(re.findall(r"\w+", module.__doc__ or ""))
    assert set(module.__all__) <= words
    assert len(set(module.__all__)) == len(module.__all__)
    assert set(module.__all__) <= set(dir(module))
    page = pydoc.render_doc(module)  # what help() shows
    assert inspect.cleandoc(module.__doc__ or "").splitlines()[0].partition(": ")[2] in page


@pytest.mark.parametrize("family", F.FAMILIES, ids=lambda m: m.__name__.rpartition(".")[2])
def test_a_family_lists_every_operation_with_an_example(family: types.ModuleType):
    own = {
        n: v
        for n, v in vars(family).items()
        if getattr(v, "__module__", "") == family.__name__ and n[0] != "_"
    }
    shown = {n for n, v in own.items() if isinstance(v, types.FunctionType) and ">>>" in text_of(v)}
    assert shown == set(family.__all__) - {"Like"}
    assert set(family.__all__) <= set(F.__all__)


@pytest.mark.parametrize("module", [dressi, F], ids=lambda m: m.__name__)
def test_the_code_on_the_front_pages_runs(module: types.ModuleType):
    lines = (module.__doc__ or "").splitlines()
    indented = itertools.dropwhile(lambda line: not line.startswith("    "), lines)
    code = textwrap.dedent("\n".join(itertools.takewhile(lambda line: not line or line[0] == " ", indented)))
    assert code.count("\n") > 3
    exec(compile(code, module.__name__, "exec"), {})


def test_few_examples_are_skipped():
    files = Path(dressi.__file__).parent.rglob("*.py")
    assert sum(file.read_text(encoding="utf-8").count("+SKIP") for file in files) <= 5  # of the whole package


def test_a_wrong_example_fails():
    def wrong():
        """One.

        >>> evaluate(F.sqrt(4.0)).item()
        3.0
        """

    assert any("2.0" in found for found in failures(wrong, "wrong"))
