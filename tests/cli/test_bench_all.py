"""`dressi bench all`: parts are kept one by one, whatever becomes of the others. What a part measures is tested elsewhere."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import refuses, run
from rich.table import Table

from dressi.cli.bench.names import CASES, RIVALS
from dressi.cli.bench.request import DEFAULTS, Request
from dressi.cli.bench.suite.folder import Processor
from dressi.cli.bench.suite.units import units
from dressi.cli.terminal import table_console
from dressi.errors import DeviceError, NoDriverError
from dressi.render.formats import _LOADERS

OPTIONS = dict.fromkeys(
    "views size texture_size texture_gradient form target mesh profile device steps batches".split()
)
SMALL = ("--size", "16", "--texture-size", "8", "--mesh", "small")
Measure = Callable[[Request], tuple[list[dict[str, Any]], list[Exception]]]


def test_the_help_lists_every_peer_and_every_kind_of_mesh():
    peers = run("bench", "--help").stdout.partition("--peer")[2].partition("--channels")[0]
    assert all(re.search(rf"\b{name}\b", peers) for names in RIVALS.values() for name in names)
    target = run("fit", "--help").stdout.partition("--target ")[2].partition("--photos")[0]
    assert {f".{kind}" for kind in re.findall(r"\.(\w{3,4})\b", target)} == set(_LOADERS)


def test_a_table_in_a_pipe_keeps_its_cells_whole(capsys: pytest.CaptureFixture[str]):
    text = "a cell of more than a hundred characters " * 4
    table = Table("what", *("column" for _ in range(24)))
    table.add_row("x", *(text.strip() for _ in range(24)))
    table_console().print(table)
    assert capsys.readouterr().out.count(text.strip()) == 24


def good(request: Request) -> tuple[list[dict[str, Any]], list[Exception]]:
    settings = {"size": list(request.sizes[0]), "faces": 684, "views": 1}
    facts = {
        "case": request.case,
        "label": "",
        "settings": settings,
        "device": "D",
        "driver": "d",
    }
    return [{**facts, "step_ms": 1.0, "quality": {}, "batches": request.batches}], []


@pytest.fixture
def measures(monkeypatch: pytest.MonkeyPatch) -> Callable[[Measure], list[str]]:
    """Replaces what measures, and gives the cases that it was asked for."""

    def replace(measure: Measure) -> list[str]:
        asked: list[str] = []

        def record(request: Request) -> tuple[list[dict[str, Any]], list[Exception]]:
            asked.append(request.case)
            return measure(request)

        monkeypatch.setattr("dressi.cli.bench.suite.run.measured", record)
        return asked

    return replace


def failing(case: str, error: BaseException) -> Measure:
    def measure(request: Request) -> tuple[list[dict[str, Any]], list[Exception]]:
        if request.case == case:
            raise error
        return good(request)

    return measure


def suite(out: Path, *more: str):
    return run("bench", "all", "--out", out, *SMALL, *more)


def test_every_case_has_its_parts():
    found = units({**OPTIONS, "peels": 3, "radius_px": 2.0})
    assert list(dict.fromkeys(unit.case for unit in found)) == list(CASES)
    of_table4 = [unit for unit in found if unit.case == "table4"]
    assert len(of_table4) == len(DEFAULTS["table4"].sizes) * len(DEFAULTS["table4"].meshes)
    assert len({unit.name for unit in found}) == len(found)
    requests = [unit.request() for unit in found]
    assert all(request.device == "all" and request.batches <= 31 for request in requests)
    assert {request.case for request in requests if request.peer} == set(RIVALS)
    assert sum(len(r.sizes) * len(r.models) * len(r.textures) for r in requests) == len(found)


def test_all_cases_are_measured_and_shown(measures, tmp_path: Path):
    asked = measures(good)
    result = suite(tmp_path)
    assert result.returncode == 0, result.stderr
    assert asked == list(CASES) and "report.html" in result.stdout
    assert len(list(tmp_path.glob("*.json"))) == len(CASES) + 1
    (curves,) = json.loads((tmp_path / "figure9-small-16-8.json").read_text())
    (other,) = json.loads((tmp_path / "texture-small-16-8.json").read_text())
    assert curves["when"] and other["when"]
    # A second run has nothing to do, unless it is told to.
    assert "measured already" in suite(tmp_path).stderr and asked == list(CASES)
    suite(tmp_path, "--fresh")
    assert asked == 2 * list(CASES)


def test_a_case_that_fails_is_a_row_and_is_tried_again(measures, tmp_path: Path):
    measures(failing("texture", DeviceError("no memory is left\ndetails")))
    result = suite(tmp_path)
    assert result.returncode == 0 and "1 parts failed" in result.stderr
    html = (tmp_path / "report.html").read_text()
    assert (
        'id="failed"' in html
        and "no memory is left" in html
        and "details" not in html.split("<body")[1].split("<script")[0]
    )
    asked = measures(good)
    suite(tmp_path)
    assert asked == ["texture"] and 'id="failed"' not in (tmp_path / "report.html").read_text()


def test_a_trial_and_a_device_that_fail_are_rows(measures, tmp_path: Path):
    def measure(request: Request):
        results, _ = good(request)
        broken = {
            "case": request.case,
            "label": "b",
            "error": "too large",
            "exception": DeviceError("too large"),
        }
        return [*results, broken], [DeviceError("the second device is lost")]

    measures(measure)
    assert suite(tmp_path).returncode == 0
    html = (tmp_path / "report.html").read_text()
    assert "too large" in html and "the second device is lost" in html


def test_ctrl_c_keeps_what_was_measured(measures, tmp_path: Path):
    measures(failing("texture", KeyboardInterrupt()))
    result = suite(tmp_path)
    assert result.returncode == 130 and "the same command goes on" in result.stderr
    assert (tmp_path / "silhouette-small-16-8.json").exists() and not (
        tmp_path / "texture-small-16-8.json"
    ).exists()
    assert (tmp_path / "report.html").is_file()
    asked = measures(good)
    assert suite(tmp_path).returncode == 0
    assert asked == list(CASES[CASES.index("texture") :])


def test_a_part_that_ends_the_program_twice_is_a_row(measures, tmp_path: Path):
    class Killed(BaseException):
        pass

    measures(failing("texture", Killed()))
    for _ in range(2):
        with pytest.raises(Killed):
            suite(tmp_path)
    asked = measures(good)
    result = suite(tmp_path)
    assert result.returncode == 0 and "texture" not in asked and "material" in asked
    assert "`dressi bench texture " in result.stderr and "alone may show why" in result.stderr


def test_results_of_other_options_are_not_mixed(measures, tmp_path: Path):
    measures(good)
    suite(tmp_path)
    refuses(suite(tmp_path, "--steps", "7"), "other options", "--fresh")


def test_damaged_lists_of_what_was_measured(measures, tmp_path: Path):
    measures(good)
    for text in ("{", '{"options": {}}', "[]"):
        (tmp_path / "bench.json").write_text(text)
        refuses(suite(tmp_path), "bench.json")


def test_without_a_driver_nothing_is_written_as_measured(measures, tmp_path: Path):
    measures(failing("image_fitting", NoDriverError("there is no Vulkan driver; install one")))
    refuses(suite(tmp_path), "no Vulkan driver")
    assert [file.name for file in tmp_path.iterdir()] == ["bench.json"]


@pytest.mark.parametrize(
    "words",
    [("all", "silhouette"), ("all", "--json", "a.json"), ("all", "--cold"), ("all", "--peer", "deodr"), ("all", "--measure"),
     ("texture", "--fresh"), ("texture", "--out", "a"), ("all", "--size", "none"), ("all", "--out", "/dev/null/a")],
)  # fmt: skip
def test_options_that_do_not_belong_there(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    refuses(run("bench", *words))


def test_the_time_of_other_programs():
    before, after = Processor(all=10.0, own=2.0), Processor(all=16.0, own=4.0)
    import os

    cores = os.cpu_count() or 1
    assert after.others_since(before, 8.0) == pytest.approx(4.0 / (8.0 * cores))
    assert Processor(None, 1.0).others_since(before, 8.0) is None
    now = Processor.read()
    assert now.own > 0 and (now.all is None or now.all > now.own)
