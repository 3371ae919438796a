"""The reference: every public name has its place and its text."""

import re
from pathlib import Path
from types import ModuleType

import pytest
from test_docstrings import ALIASES

import dressi
from dressi import F, networks, optim, render
from dressi.docs import reference
from dressi.docs.reference import main, markdown, page_text, signature, text_of, write
from dressi.render import fit, io

PLAIN = {name.partition(".")[2] for name in ALIASES} | {"FILES", "TARGET_SAMPLES", "MakeEngine", "OUTLINES"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, reference.Page]]:
    folder = tmp_path_factory.mktemp("reference")
    return folder, write(folder, say=lambda _: None)


@pytest.mark.parametrize("module", [dressi, F, networks, optim, render], ids=lambda m: m.__name__)
def test_every_public_name_is_there_with_its_text(made, module: ModuleType):
    folder, pages = made
    page = next(page for page in pages.values() if page.text == text_of(module))
    public = {name for name in module.__all__ if not isinstance(getattr(module, name), ModuleType)}
    assert set(page.names) == public
    written = (folder / page.file).read_text(encoding="utf-8")
    assert {line.removeprefix("### ") for line in written.splitlines() if line.startswith("### ")} == public
    assert {name for name, value in page.names.items() if not text_of(value)} <= PLAIN


@pytest.mark.parametrize("package", [fit, io], ids=lambda m: m.__name__)
def test_packages_below_render_list_what_their_modules_define(made, package: ModuleType):
    page = made[1][f"{package.__name__}.md"]
    own = {
        name for name in package.__all__ if getattr(package, name).__class__ in (type, type(lambda: 0))
        and getattr(package, name).__module__.rpartition(".")[0] == package.__name__
    }  # fmt: skip
    assert own <= set(page.names)
    assert all(text_of(value) for value in page.names.values())


def test_the_index_links_every_page(made):
    folder, pages = made
    index = (folder / "index.md").read_text(encoding="utf-8")
    assert (
        set(re.findall(r"\]\((.*?)\)", index))
        == set(pages)
        == {f.name for f in folder.iterdir()} - {"index.md"}
    )
    assert {"dressi.md", "dressi.F.md", "dressi.render.shading.md"} <= set(pages)


def test_signatures_hold_no_place_in_memory(made):
    assert not [page.module for page in made[1].values() if re.search(r" at 0x[0-9a-f]+", page_text(page))]
    assert signature("adam", dressi.adam).startswith("adam(") and signature("STEP", "step") == "STEP"


def test_docstrings_become_markdown():
    text = "Of a_b and ``c_d``.\n\nsize: of it.  other\nmore: text\n\n    indented\n\n>>> 1\n1\n\n| a | b |\n|---|---|"
    assert markdown(text, ["size"]) == (
        "Of a\\_b and ``c_d``.\n\n- size: of it.  other\nmore: text\n\n```text\n    indented\n```\n\n"
        "```python\n>>> 1\n1\n```\n\n| a | b |\n|---|---|"
    )


def test_bad_folders_end_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "file"
    file.write_text("")
    assert main([str(file)]) == 2 and "give another folder" in capsys.readouterr().err
    assert main([]) == 2 and "usage" in capsys.readouterr().err


def test_what_has_no_docstring_of_its_own_is_noticed():
    class Derived(dressi.GraphError):
        pass

    assert text_of(Derived) == "" and text_of(3.0) == "" and "FLOAT" in page_text(next(reference.pages()))
