"""The page of benchmarks: the paper beside what was measured, and what it says to damaged folders."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import refuses, run

from dressi.report import write_report
from dressi.report.bench.folder import BenchFolder

RESULTS = Path(__file__).resolve().parents[2] / "apps" / "results"


def result(case: str, device: str, ms: float, **facts: Any) -> dict[str, Any]:
    settings = {"views": 1, "form": "outer", "mesh": "small", "faces": 684, "size": [256, 256]}
    return {
        "case": case, "label": "", "device": device, "driver": "d 1", "step_ms": ms, "plan": {}, "commit": "abc",
        "machine": {"system": "Linux", "cores": 2}, "stages": [{"name": "raster 8x8", "ms": 1.0, "bytes": 10}],
        "quality": {"steps": 2, "iou": 0.9, "last_loss": 0.5}, **facts, "settings": {**settings, **facts.get("settings", {})},
    }  # fmt: skip


def page_of(folder: Path, results: list[dict[str, Any]]) -> str:
    (folder / "results.json").write_text(json.dumps(results))
    html = write_report(folder).read_text(encoding="utf-8")
    return html[html.index("<body") :]


def rows(html: str, identity: str) -> list[list[str]]:
    """The text of the cells of the first table of a section."""
    part = html[html.index(f'id="{identity}"') :]
    part = part[: part.index("</table>")]
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr.*?</tr>", part)]
    return [[re.sub(r"<[^>]*>", "", cell) for cell in row] for row in cells]


def test_table4_has_the_paper_and_the_peer_beside_the_devices(tmp_path: Path):
    peer = {"peers": {"deodr": {"step_ms": 4.0, "ours_over_theirs": 0.5}}}
    html = page_of(tmp_path, [result("table4", "A (x)", 2.0, **peer), result("table4", "B Device", 6.0)])
    head, group, row = rows(html, "table4")
    assert group == ["684 triangles (the paper: 682)"]
    assert head[4:] == ["here, A", "here, B", "deodr, here", "A over deodr"]
    assert row == ["256 pixels", "0.304", "1.06", "8.05", "2.00", "6.00", "4.00", "×0.50"]


def test_a_peer_that_is_not_there_is_a_remark(tmp_path: Path):
    sentence = "deodr cannot be imported; install it with `pip install deodr`"
    html = page_of(
        tmp_path, [result("table4", "A", 2.0, peers={"deodr": {"step_ms": None, "error": sentence}})]
    )
    assert f"Left out: {sentence}." in html and rows(html, "table4")[2][-2:] == ["–", "–"]


def test_table3_says_how_many_times_as_long(tmp_path: Path):
    full = result("table3", "A", 10.0, phase="geometry", ablation="full", label="geometry, full")
    slow = result(
        "table3", "A", 25.0, phase="geometry", ablation="no stage packing", label="geometry, no stage packing"
    )
    _, first, second, *_ = rows(page_of(tmp_path, [full, slow]), "table3")
    assert first == ["full", "58.4 ×1.00", "30.9 ×1.00", "10.0", "–", "–"]
    assert second == ["no stage packing", "111 ×1.89", "47.5 ×1.54", "25.0 ×2.50", "–", "–"]


def test_table2_has_counts_of_every_profile(tmp_path: Path):
    counts = {"before_cache": {"substages": 13, "stages": 9}, "after_cache": {"substages": 12, "stages": 8}}
    found = rows(
        page_of(
            tmp_path, [result("table2", "A", 7.0, phase="geometry", profile="uhd620", profile_plan=counts)]
        ),
        "table2",
    )
    assert found[2][:6] == [
        "NVIDIA RTX 2080",
        "1,048,576",
        "218 / 129 → 206 / 122",
        "187 / 160 → 86 / 69",
        "3.00",
        "2.00",
    ]
    assert found[-1] == ["uhd620", "8", "13 / 9 → 12 / 8", "–", "", "", "7.00", "–"]


def test_figure9_draws_a_curve_for_each_device(tmp_path: Path):
    curves = [
        result(
            "figure9",
            name,
            1.0,
            phase="geometry",
            losses=[1.0, 0.5, None, 0.25],
            distances=[0.1, 0.05, 0.02, 0.01],
            quality={"last_loss": 0.25},
            **more,
        )
        for name, more in (("A", {}), ("B", {"agreement": {"last_loss": 1e-4, "image": 0, "gradient": 2e-6}}))
    ]
    html = page_of(tmp_path, curves)
    assert html.count('class="s0"></i>') >= 1 and html.count('class="s1"></i>') >= 1
    assert "distance of surfaces" in html
    assert rows(html, "figure9")[2] == ["geometry", "B", "0.250", "1.0e-04", "0", "2.0e-06"]


def test_devices_stand_against_each_other(tmp_path: Path):
    far = {"agreement": {"with": "A", "last_loss": 0.0, "image": 1e-5, "gradient": 1e-3}}
    html = page_of(tmp_path, [result("silhouette", "A", 2.0), result("silhouette", "B", 5.0, **far)])
    assert rows(html, "devices")[1][1:] == ["2.00", "5.00", "×2.50", "1.0e-05", "1.0e-03", "0"]


def test_the_fastest_device_is_the_reference(tmp_path: Path):
    html = page_of(tmp_path, [result("silhouette", "slow", 4.0), result("silhouette", "fast", 2.0)])
    assert rows(html, "devices")[1][1:4] == ["2.00", "4.00", "×2.00"]


@pytest.mark.parametrize(("share", "warned"), [(0.5, True), (0.01, False)])
def test_a_machine_that_was_shared_is_said_at_the_top(share: float, warned: bool, tmp_path: Path):
    html = page_of(tmp_path, [result("silhouette", "A", 2.0, others=share)])
    assert (f"Other programs used {100 * share:.0f} %" in html[: html.index("<main")]) == warned
    assert f"used {100 * share:.0f} % of the processor" in html[html.index(">Machine<") :]


def test_failures_are_rows_with_their_sentence(tmp_path: Path):
    bad = {
        "case": "table5",
        "label": "table5-small-4096",
        "error": "no memory for <4096> texels",
        "device": "A",
    }
    html = page_of(tmp_path, [result("silhouette", "A", 2.0), bad])
    assert rows(html, "failed")[1] == [
        "table5",
        "table5-small-4096",
        "A",
        "no memory for &lt;4096&gt; texels",
    ]
    assert page_of(tmp_path, [bad]).count("no memory")  # a folder of failures alone has a page, too


def test_the_recorded_results_have_a_page(tmp_path: Path):
    """Those of this repository: fits, figures and other programs' files are named as left out."""
    for file in RESULTS.glob("*.json"):
        shutil.copy(file, tmp_path)
    html = write_report(tmp_path).read_text(encoding="utf-8")
    found = BenchFolder.read(tmp_path)
    assert found is not None and len(found.measured) > 50 and "fit_table.json" in found.ignored
    assert (
        "fit_table.json" in html
        and "SwiftShader" in html
        and "nan" not in re.sub(r"<script.*?</script>", "", html)
    )


@pytest.mark.parametrize(
    "text",
    [
        '[{"case": "silhouette", "step_ms": 1}]',
        '[{"case": "silhouette", "step_ms": "x", "settings": {}}]',
        "[{",
    ],
)
def test_damaged_results_end_in_a_sentence(text: str, tmp_path: Path):
    (tmp_path / "one.json").write_text(text)
    refuses(run("report", tmp_path), "one.json")


def test_a_folder_of_other_files_holds_no_results(tmp_path: Path):
    (tmp_path / "package.json").write_text('{"name": "other"}')
    refuses(run("report", tmp_path), "holds no results")


def test_text_of_results_is_escaped(tmp_path: Path):
    evil = "<img src=x onerror=alert(1)>"
    named = result(evil, evil, 2.0, label=evil, commit=evil, driver=evil)
    failed = {"case": evil, "label": evil, "error": evil, "device": evil}
    html = page_of(tmp_path, [result("silhouette", evil, 2.0, label=evil), named, failed])
    assert "<img" not in html
