"""`dressi count`: the table, the files that it writes, and what it says to bad input."""

from pathlib import Path

import pytest
from command_line import refuses, run

from dressi.cli.commands import app

PROGRAM = """
from dressi import F, VEC3, Variable
p = Variable.of([1.0, 2.0, 3.0], VEC3, name="p")
r = Variable.of(1.0, name="r")
outputs = {"distance": F.length(p) - r}
"""


def test_a_program_is_counted_and_written(tmp_path: Path, capsys: pytest.CaptureFixture):
    program, header, graph = tmp_path / "program.py", tmp_path / "f.h", tmp_path / "f.dot"
    program.write_text(PROGRAM)
    app(
        ["count", str(program), "--by", "p,r", "--source", str(header), "--dot", str(graph)],
        standalone_mode=False,
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["sums", "and", "differences", "3", "3"] and lines[2].split() == [
        "products",
        "3",
        "3",
    ]
    assert any(line.startswith("their derivatives") for line in lines)
    assert "void f(double p_x, double p_y, double p_z, double out[4])" in header.read_text()
    assert graph.read_text().startswith("digraph")


def test_bad_input(tmp_path: Path):
    program, empty, broken = tmp_path / "program.py", tmp_path / "empty.py", tmp_path / "broken.py"
    program.write_text(PROGRAM)
    empty.write_text("outputs = 3\n")
    broken.write_text("outputs = (\n")
    for arguments, text in (
        (("none.py",), "no such file"), ((empty,), "no `outputs`"), ((broken,), "is no Python"),
        ((program, "--by", "q"), "they read p, r"), ((program, "--source", "f.rs"), "says the language"),
        ((program, "--product-cost", "0.5"), "product-cost"),
    ):  # fmt: skip
        refuses(run("count", *arguments), text)
