"""The documentation: its code runs and prints what it says, its commands parse, its links lead somewhere."""

import doctest
import os
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import typer
from command_line import run
from pages import DOCS, PAGES, README, REPOSITORY, Block, anchors, blocks, commands, links, run_block

import dressi
import dressi.render
from dressi.cli.commands import app
from dressi.vk.run.device.device import Device

WITH_CODE = [page for page in PAGES if page != README and any(b.language == "python" for b in blocks(page))]
CHEAP = ("dressi devices", "dressi --version", "dressi bench model image_fitting --profile mali_g76")
"""Commands of the documentation that are run, not only parsed."""
QUICK = ("concepts.md", "guides/derivatives.md", "guides/devices.md", "guides/functions.md", "quickstart.md")
"""Pages whose code runs with every test; that of the others before a release."""
OPTIONAL = ("torch", "jax")
"""Libraries of extras. Blocks that name one that is not installed are left out."""


def named(page: Path) -> str:
    return page.relative_to(DOCS).as_posix() if page.is_relative_to(DOCS) else page.name


def differs(expected: str, printed: str) -> str:
    """Nothing where the text is what was printed, with ... for any part; else both."""
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    checker = doctest.OutputChecker()
    if checker.check_output(expected, printed, flags):
        return ""
    return checker.output_difference(doctest.Example("", expected), printed, flags)


@pytest.mark.one_driver
@pytest.mark.parametrize("page", WITH_CODE, ids=named)
@pytest.mark.release(*sorted({named(page) for page in WITH_CODE} - {*QUICK}))
def test_the_code_of_a_page_runs(device, page, monkeypatch, capsys, tmp_path):
    """In one namespace, in order, in an empty folder; a block ``text`` after it is what it prints."""
    monkeypatch.setenv("DRESSI_DEVICE", device.name)
    monkeypatch.chdir(tmp_path)
    names: dict = {"__name__": "__main__"}
    missing = [name for name in OPTIONAL if find_spec(name) is None]
    for block in blocks(page):
        if block.language == "python" and not any(re.search(rf"\b{name}\b", block.code) for name in missing):
            run_block(page, block, names)
            printed = capsys.readouterr().out
            if block.printed is not None:
                assert not (found := differs(block.printed, printed)), f"line {block.line}: {found}"
    left_out = {name for name in missing for block in blocks(page) if re.search(rf"\b{name}\b", block.code)}
    if left_out:
        pytest.skip(f"all blocks run but those with {', '.join(left_out)}; pip install it")


def test_a_wrong_output_is_found():
    assert differs("1 ... 4\n", "1 2 3 4\n") == "" and "Got:" in differs("1 ... 4\n", "1 2 3 5\n")


def parse(command: str) -> None:
    """Raises if the command line has no such command, option or value."""
    words = shlex.split(command)[1:]
    # `dressi fit ... --preview` leaves out what the command needs besides.
    words = [word for k, word in enumerate(words) if word != "..." or k != 1]
    group = typer.main.get_command(app)
    if words and words[0] in group.commands:  # type: ignore[attr-defined]
        try:
            group.commands[words[0]].make_context(words[0], words[1:])  # type: ignore[attr-defined]
        except Exception as error:
            # `dressi bench` names a command without its arguments, `dressi fit --photos` an option without its value.
            if len(words) > 1 and not str(error).startswith(f"Option '{words[-1]}' requires an argument"):
                raise
    elif words and not words[0].startswith("-"):
        raise ValueError(f"there is no command {words[0]}")


COMMANDS = sorted({command for page in PAGES for command in commands(page) if "--help" not in command})


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_has_the_options_that_a_page_shows(command: str):
    parse(command)


def test_a_wrong_command_is_found():
    for wrong in ("dressi fitt", "dressi fit --pictures folder", "dressi fit --views many"):
        with pytest.raises(Exception, match=r"no command|No such option|a valid integer"):
            parse(wrong)


SCRIPTS = sorted(
    {
        line
        for page in PAGES
        for block in blocks(page)
        for line in block.code.splitlines()
        if re.match(r"python (apps/|-m dressi)", line)
    }
)


@pytest.mark.parametrize("command", SCRIPTS)
def test_a_program_has_the_options_that_a_page_shows(command: str):
    words = shlex.split(command)[1:]
    module = words[1].replace(".", "/") + ".py" if words[0] == "-m" else words[0]
    text = (REPOSITORY / module).read_text(encoding="utf-8")
    assert all(f'"{word}"' in text for word in words[2:] if word.startswith("--"))


@pytest.mark.one_driver
@pytest.mark.parametrize("command", CHEAP)
def test_a_cheap_command_runs(device: Device, monkeypatch: pytest.MonkeyPatch, command: str):
    monkeypatch.setenv("DRESSI_DEVICE", device.name)
    result = run(*shlex.split(command)[1:])
    assert result.returncode == 0 and result.stdout


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path):
    broken = []
    for link in links(page):
        if re.match(r"https?://", link):
            continue
        path, _, anchor = link.partition("#")
        target = page if not path else Path(os.path.normpath(page.parent / path))
        inside = target.is_relative_to(REPOSITORY) and target.exists()
        if not inside or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


def test_the_readme_is_read_at_once():
    assert len((REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()) <= 200


def test_every_page_is_linked_from_the_index():
    index = DOCS / "index.md"
    linked = {Path(os.path.normpath(DOCS / link.partition("#")[0])) for link in links(index)}
    assert set(DOCS.rglob("*.md")) - {index} <= linked


def test_blocks_are_found_with_their_lines(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text(
        "# One\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n\n## A `b` c\n\n```bash\nls\n```\n"
    )
    first, _, last = blocks(page)
    assert first == Block("python", "print(1)\n", "One", 4, "1\n") and last.heading == "A `b` c"
    assert anchors(page) == {"one", "a-b-c"} and np.all([b.line for b in blocks(page)])


def test_the_changelog_begins_with_this_version():
    text = (DOCS / "changelog.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert versions[0] == dressi.__version__
    numbers = [tuple(map(int, version.split("."))) for version in versions]
    assert all(len(number) == 3 for number in numbers) and numbers == sorted(set(numbers), reverse=True)


def test_make_demo_writes_its_mesh(tmp_path: Path):
    text = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    code = re.search(r"^PEAR = (.+)$", text, re.MULTILINE)
    assert code is not None
    exec(code[1].replace("$@", str(tmp_path / "pear.glb")), {})
    assert dressi.render.load_mesh(tmp_path / "pear.glb").faces.size


EXAMPLES = {block.heading: block for block in blocks(README) if block.language == "python"}


@pytest.fixture
def printed(device: Device, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Runs an example by its heading and gives what it prints."""
    monkeypatch.setenv("DRESSI_DEVICE", device.name)

    def run(heading: str) -> str:
        run_block(README, EXAMPLES[heading], {"np": np})
        return capsys.readouterr().out

    return run


@pytest.mark.one_driver
def test_the_example_fits_its_image(printed):
    found = re.fullmatch(r"\[(.*)\] \(1, 64, 96, 3\)\n", printed("Fit an image"))
    assert found is not None
    losses = [float(number) for number in found.group(1).split(",")]
    assert losses[-1] < 0.1 * losses[0]


@pytest.mark.one_driver
def test_the_example_moves_a_sphere(printed):
    found = re.fullmatch(r"\[(.*)\] <?Mesh.*\n", printed("From a mesh to a picture to a gradient"))
    assert found is not None
    losses = [float(number) for number in found.group(1).split(",")]
    assert losses[-1] < 0.2 * losses[0]


@pytest.mark.one_driver
def test_the_example_has_a_function_of_its_own(printed):
    assert printed("Functions of your own") == "[0.21  0.393 0.5   0.393 0.21 ]\n"


@pytest.mark.one_driver
def test_the_example_finds_the_roughness(printed):
    found = re.fullmatch(r"\[\[\[(.*)\]\]\]\n", printed("Light and material"))
    assert found is not None
    assert abs(float(found.group(1)) - 0.3) < 0.05


@pytest.mark.one_driver
def test_no_example_is_left_out():
    assert len(EXAMPLES) == README.read_text(encoding="utf-8").count("```python") == 4
