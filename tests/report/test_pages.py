"""Pages of fits and of the benchmark, and the parts they are made of."""

import doctest
import importlib
import json
import pkgutil
import re
import shutil
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import refuses, run
from folders import SIZE, write_fit

import dressi.report
from dressi.errors import InputError
from dressi.render.formats import save_mesh
from dressi.render.formats.gltf.scene import load_gltf
from dressi.render.io import save_png
from dressi.render.mesh.primitives import icosphere, pear
from dressi.report import MOST_BYTES, write_report
from dressi.report.bench.tables import BenchFolder
from dressi.report.parts.charts import MOST_POINTS, Series, StageRow, line_chart, timeline
from dressi.report.parts.markup import Markup, element, number, table
from dressi.report.parts.model import error_map, page_model, scaled, sheet_cells


def page_of(folder: Path) -> str:
    return write_report(folder).read_text(encoding="utf-8")


def test_the_page_shows_what_the_folder_holds(tmp_path: Path):
    html = page_of(write_fit(tmp_path))
    body = html[html.index("<body") : html.index('<script type="application/octet-stream"')]
    figures = ["0.875", "22.1 dB", "1.23 %", "3.25 ms", "4.0 KiB", "24.5 dB", "1.00 0.900 1.10", "IoU 0.930"]
    figures += ["outlines &amp; rims: larger &lt;pictures&gt;", "about 3.5 dB", "62.5 %", "12.5 %", "6.2 %"]
    for shown in ["pear.glb", "Round 1: shape", "View 4", "c&lt;d&gt;.png", *figures]:
        assert shown in body, shown
    assert body.index("b.png") < body.index("a.png"), "the worst picture is the first"
    assert body.count('class="compare"') == 3 and body.count('class="error"') == 3
    assert body.count('class="sheet"') == 1
    assert "<!doctype html>" in html and (tmp_path / "report.html").is_file()


def test_the_page_asks_nobody(tmp_path: Path):
    html = page_of(write_fit(tmp_path))
    assert "default-src 'none'" in unescape(html)
    tags = re.findall(r"<(?:script|link|img|iframe|object|a)\b[^>]*>", html)
    addresses = [address for tag in tags for address in re.findall(r'(?:src|href)="([^"]*)"', tag)]
    assert addresses and all(address.startswith(("data:image/", "#")) for address in addresses)
    assert "@import" not in html and not re.search(r"url\(\s*[\"']?http", html)


def test_text_of_files_is_escaped(tmp_path: Path):
    evil = '</script><script>alert("x")</script>'
    folder = write_fit(tmp_path, task={"kind": evil, "source": evil}, device={"name": evil, "driver": evil})
    stages = [{"name": evil, "functions": evil, "ms": 1.0, "predicted_ms": 1.0, "bytes": 1}]
    (folder / "stages.json").write_text(json.dumps([{"round": evil, "stages": stages}]))
    (folder / "loss.csv").write_text(f'step,phase,loss\n0,"{evil.replace(chr(34), chr(34) * 2)}",0.5\n')
    html = page_of(folder)
    assert "alert(" in html and evil not in html and "<script>alert" not in html
    # The scripts of the page itself are all there is.
    assert html.count("<script") == 4 == html.count("</script>")


def test_a_report_of_an_earlier_version_has_its_sheet(tmp_path: Path):
    folder = write_fit(tmp_path)
    report = json.loads((folder / "report.json").read_text())
    for name in ("views", "task", "stages", "hull"):
        del report[name]
    (folder / "report.json").write_text(json.dumps(report))
    for name in ("heldout.png", "stages.json", "turntable.gif", "quality.csv"):
        (folder / name).unlink()
    html = page_of(folder)
    assert 'class="sheet"' in html and 'class="compare"' not in html and tmp_path.name in html


def test_stages_of_an_older_run_are_not_shown(tmp_path: Path):
    assert "raster 24x16" not in page_of(write_fit(tmp_path, stages=[]))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40])


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut report": (lambda f: truncate(f / "report.json"), "report.json"),
    "foreign report": (lambda f: (f / "report.json").write_text('{"score": 3}'), "no report of `dressi fit`"),
    "list": (lambda f: (f / "report.json").write_text("[]"), "no report of `dressi fit`"),
    "no mesh": (lambda f: (f / "result.glb").unlink(), "no result.glb"),
    "cut mesh": (lambda f: truncate(f / "result.glb"), "result.glb"),
    "cut picture": (lambda f: truncate(f / "views.png"), "views.png"),
    "other picture": (lambda f: save_png(f / "views.png", np.zeros((9, 9, 3))), "9x9 pixels"),
    "cut animation": (lambda f: (f / "turntable.gif").write_bytes(b"GIF89a"), "turntable.gif"),
    "columns": (lambda f: (f / "loss.csv").write_text("a,b\n1,2\n"), "columns step, phase, loss"),
    "words": (lambda f: (f / "loss.csv").write_text("step,phase,loss\n0,shape,much\n"), "loss.csv"),
    "bytes": (lambda f: (f / "quality.csv").write_bytes(b"\xff\xfe\x00"), "quality.csv"),
    "lines": (lambda f: (f / "quality.csv").write_bytes(b"step,phase,iou,psnr\n1,a\rb,0,0\n"), "quality.csv"),
    "cut stages": (lambda f: truncate(f / "stages.json"), "stages.json"),
    "no stages": (lambda f: (f / "stages.json").write_text('[{"round": "a"}]'), "stages.json"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_damaged_folders_end_in_a_sentence(name: str, tmp_path: Path):
    folder = write_fit(tmp_path)
    damage, said = BROKEN[name]
    damage(folder)
    refuses(run("report", folder), said)
    assert not (folder / "report.html").exists()


@pytest.mark.parametrize(
    "changes", [{"views": {"size": 3}}, {"views": {"size": [1, -2], "gap": 2, "up": [0, 1, 0], "train": []}},
                {"views": [1]}, {"time": {"step_ms": "fast"}}, {"metrics": {"train": {"iou": "good"}}}]
)  # fmt: skip
def test_reports_of_the_wrong_types_end_in_a_sentence(changes: dict, tmp_path: Path):
    with pytest.raises(InputError, match=r"report\.json"):
        write_report(write_fit(tmp_path, **changes))


def test_folders_that_are_not_there(tmp_path: Path):
    refuses(run("report", tmp_path / "none"), "does not exist", "--out")
    refuses(run("report", tmp_path), "holds no results", "report.json")
    (tmp_path / "file").write_text("")
    refuses(run("report", tmp_path / "file"), "a file, not a folder")
    fit = write_fit(tmp_path / "fit")
    refuses(run("report", fit, "--out", tmp_path / "no" / "page.html"), "cannot write")
    refuses(run("report", fit, "--out", tmp_path), "folder")


def test_the_page_goes_where_it_is_asked(tmp_path: Path):
    page = tmp_path / "mine.html"
    result = run("report", write_fit(tmp_path / "fit"), "--out", page)
    assert result.returncode == 0 and str(page) in result.stdout and page.is_file()


def test_huge_pictures_are_scaled_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = write_fit(tmp_path, size=(300, 200))
    whole = write_report(folder).stat().st_size
    monkeypatch.setattr("dressi.report.MOST_BYTES", whole - 1)
    assert write_report(folder).stat().st_size < 0.9 * whole and whole < MOST_BYTES
    monkeypatch.setattr("dressi.report.MOST_BYTES", 1)
    with pytest.raises(InputError, match="fewer views"):
        write_report(folder)


def test_a_large_model_is_reduced_and_the_page_says_so(tmp_path: Path):
    path = tmp_path / "large.glb"
    mesh = icosphere(6)  # 81,920 faces
    mesh.colors, mesh.color_faces = np.abs(mesh.positions), mesh.faces
    save_mesh(path, mesh)
    found = page_model(path, most=1_000_000)
    assert len(found.data) <= 1_000_000 and found.faces == len(mesh.faces)
    assert found.note is not None and "of its 81,920 faces" in found.note
    (tmp_path / "small.glb").write_bytes(found.data)
    small = load_gltf(tmp_path / "small.glb")
    assert 1000 < len(small.faces) < len(mesh.faces) / 2
    # Colours go with the shape: they were the positions.
    np.testing.assert_allclose(small.vertex_colors(), np.abs(small.positions), atol=0.05)


def test_large_maps_are_reduced_before_faces(tmp_path: Path):
    path = tmp_path / "maps.glb"
    mesh = pear(20, 20, 32)
    mesh.texture = np.random.default_rng(0).random((300, 300, 3))
    save_mesh(path, mesh)
    found = page_model(path, most=250_000)
    assert found.note is not None and "256 texels" in found.note
    (tmp_path / "small.glb").write_bytes(found.data)
    small = load_gltf(tmp_path / "small.glb")
    assert len(small.faces) == len(mesh.faces)
    assert small.texture is not None and small.texture.shape == (256, 256, 3)


def test_a_small_model_is_whole(tmp_path: Path):
    path = tmp_path / "small.glb"
    save_mesh(path, pear(9, 9, 32))
    assert page_model(path).note is None and not page_model(path).lit
    # Without colours it would be a white outline.
    save_mesh(path, icosphere(1))
    assert page_model(path).lit


def test_sheets_are_cut_where_they_were_joined(tmp_path: Path):
    folder = write_fit(tmp_path)
    pictures = np.random.default_rng(0).random((2, SIZE[1], SIZE[0], 3))
    cells = sheet_cells(folder / "views.png", SIZE, 2, 2)
    for (target, result), light in zip(cells, pictures, strict=True):
        codes = np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
        assert np.abs(target - codes).max() < 0.01
        assert 0 < np.mean(target - result) < 0.1


def test_errors_grow_with_the_difference():
    target = np.full((1, 4, 3), 0.5)
    result = target + np.array([0.0, 0.05, 0.1, 0.3])[None, :, None]
    brightness = error_map(target, result).sum(-1)[0]
    assert (np.diff(brightness) > 0.1).all()


def test_small_pictures_stay():
    picture = np.random.default_rng(0).random((10, 20, 3))
    assert scaled(picture, 20) is picture and scaled(picture, 10).shape == (5, 10, 3)


def is_finite(html: str) -> bool:
    shown = html[html.index("<main") : html.index("</main>")]
    return not re.search(r"\bnan\b|\binf\b|Infinity", shown, re.IGNORECASE)


@pytest.mark.parametrize("value", ["1e308", "-1e308", "nan", "inf", "1e-320", "9" * 400])
def test_losses_that_no_chart_has_room_for_are_gaps(value: str, tmp_path: Path):
    folder = write_fit(tmp_path / "fit")
    (folder / "loss.csv").write_text(f"step,phase,loss\n0,a,{value}\n1,a,{value}\n{value},a,1\n3,a,0.5\n")
    assert is_finite(page_of(folder))


@pytest.mark.parametrize("value", ["1e999", "-1e999", "1e308", "[]", "{}", '"x"', "true", "9" * 400])
def test_no_number_of_a_report_is_believed(value: str, tmp_path: Path):
    folder = write_fit(tmp_path / "fit")
    whole = json.loads((folder / "report.json").read_text())
    for place in (
        ("task", "kind"),
        ("time", "total_s"),
        ("surface", "self_intersecting"),
        ("metrics", "train", "iou"),
        ("views", "train", 0, "fov"),
    ):
        report = json.loads(json.dumps(whole))
        node = report
        for key in place[:-1]:
            node = node[key]
        node[place[-1]] = "here"
        (folder / "report.json").write_text(json.dumps(report).replace('"here"', value))
        try:
            assert is_finite(page_of(folder)), place
        except InputError as error:
            assert "report.json" in str(error)


def test_a_folder_of_many_fits_says_which_to_name(tmp_path: Path):
    for name in ("bob", "spot"):
        write_fit(tmp_path / name)
    with pytest.raises(InputError, match=r"results of 2 fits.*bob"):
        write_report(tmp_path)


RESULTS = Path(__file__).resolve().parents[2] / "apps" / "results"


def result(case: str, device: str, ms: float, **facts: Any) -> dict[str, Any]:
    settings = {"views": 1, "form": "outer", "mesh": "small", "faces": 684, "size": [256, 256]}
    return {
        "case": case, "label": "", "device": device, "driver": "d 1", "step_ms": ms, "plan": {}, "commit": "abc",
        "machine": {"system": "Linux", "cores": 2}, "stages": [{"name": "raster 8x8", "ms": 1.0, "bytes": 10}],
        "quality": {"steps": 2, "iou": 0.9, "last_loss": 0.5}, **facts, "settings": {**settings, **facts.get("settings", {})},
    }  # fmt: skip


def bench_page_of(folder: Path, results: list[dict[str, Any]]) -> str:
    (folder / "results.json").write_text(json.dumps(results))
    html = page_of(folder)
    return html[html.index("<body") :]


def rows(html: str, identity: str) -> list[list[str]]:
    """The text of the cells of the first table of a section."""
    part = html[html.index(f'id="{identity}"') :]
    part = part[: part.index("</table>")]
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr.*?</tr>", part)]
    return [[re.sub(r"<[^>]*>", "", cell) for cell in row] for row in cells]


def test_table4_has_the_paper_and_the_peer_beside_the_devices(tmp_path: Path):
    peer = {"peers": {"deodr": {"step_ms": 4.0, "ours_over_theirs": 0.5}}}
    results = [result("table4", "A (x)", 2.0, **peer), result("table4", "B Device", 6.0)]
    html = bench_page_of(tmp_path, results)
    head, group, row = rows(html, "table4")
    assert group == ["684 triangles (the paper: 682)"]
    assert head[4:] == ["here, A", "here, B", "deodr beside A", "A over deodr"]
    assert row == ["256 pixels", "0.304", "1.06", "8.05", "2.00", "6.00", "4.00", "×0.50"]


def test_a_peer_that_is_not_there_is_a_remark(tmp_path: Path):
    sentence = "deodr cannot be imported; install it with `pip install deodr`"
    peers = {"deodr": {"step_ms": None, "error": sentence}}
    html = bench_page_of(tmp_path, [result("table4", "A", 2.0, peers=peers)])
    assert f"Left out: {sentence}." in html and rows(html, "table4")[0][4:] == ["here, A"]


def test_table3_says_how_many_times_as_long(tmp_path: Path):
    full, slow = (
        result("table3", "A", ms, phase="geometry", ablation=name, label=f"geometry, {name}")
        for ms, name in ((10.0, "full"), (25.0, "no stage packing"))
    )
    _, first, second, *_ = rows(bench_page_of(tmp_path, [full, slow]), "table3")
    assert first == ["full", "58.4 ×1.00", "30.9 ×1.00", "10.0"]
    assert second == ["no stage packing", "111 ×1.89", "47.5 ×1.54", "25.0 ×2.50"]


def test_table2_has_counts_of_every_profile(tmp_path: Path):
    counts = {"before_cache": {"substages": 13, "stages": 9}, "after_cache": {"substages": 12, "stages": 8}}
    one = result("table2", "A", 7.0, phase="geometry", profile="uhd620", profile_plan=counts)
    shown = rows(bench_page_of(tmp_path, [one]), "table2")
    paper = ["1,048,576", "218 / 129 → 206 / 122", "187 / 160 → 86 / 69", "3.00", "2.00"]
    assert shown[2][:6] == ["NVIDIA RTX 2080", *paper]
    assert shown[-1] == ["uhd620", "8", "13 / 9 → 12 / 8", "–", "", "", "7.00", "–"]


def test_figure9_draws_a_curve_for_each_device(tmp_path: Path):
    curves = {"losses": [1.0, 0.5, None, 0.25], "distances": [0.1, 0.05, 0.02, 0.01]}
    facts = {"phase": "geometry", "quality": {"last_loss": 0.25}, **curves}
    agreement = {"last_loss": 1e-4, "image": 0, "gradient": 2e-6}
    other = result("figure9", "B", 1.0, **facts, agreement=agreement)
    html = bench_page_of(tmp_path, [result("figure9", "A", 1.0, **facts), other])
    assert html.count('class="s0"></i>') >= 1 and html.count('class="s1"></i>') >= 1
    assert "distance of surfaces" in html
    assert rows(html, "figure9")[2] == ["geometry", "B", "0.250", "1.0e-04", "0", "2.0e-06"]


def test_devices_stand_against_each_other(tmp_path: Path):
    far = {"agreement": {"with": "A", "last_loss": 0.0, "image": 1e-5, "gradient": 1e-3}}
    html = bench_page_of(tmp_path, [result("silhouette", "A", 2.0), result("silhouette", "B", 5.0, **far)])
    assert rows(html, "devices")[1][1:] == ["2.00", "5.00", "×2.50", "1.0e-05", "1.0e-03", "0"]


def test_the_fastest_device_is_the_reference(tmp_path: Path):
    html = bench_page_of(tmp_path, [result("silhouette", "slow", 4.0), result("silhouette", "fast", 2.0)])
    assert rows(html, "devices")[1][1:4] == ["2.00", "4.00", "×2.00"]


@pytest.mark.parametrize(("share", "warned"), [(0.5, True), (0.01, False)])
def test_a_machine_that_was_shared_is_said_at_the_top(share: float, warned: bool, tmp_path: Path):
    html = bench_page_of(tmp_path, [result("silhouette", "A", 2.0, others=share)])
    assert (f"Other programs used {100 * share:.0f} %" in html[: html.index("<main")]) == warned
    assert f"used {100 * share:.0f} % of the processor" in html[html.index(">Machine<") :]


def test_failures_are_rows_with_their_sentence(tmp_path: Path):
    bad = {"case": "table5", "label": "small", "error": "no memory for <4096> texels", "device": "A"}
    html = bench_page_of(tmp_path, [result("silhouette", "A", 2.0), bad])
    assert rows(html, "failed")[1] == ["table5", "small", "A", "no memory for &lt;4096&gt; texels"]
    assert bench_page_of(tmp_path, [bad]).count("no memory")  # a folder of failures alone has a page, too


def test_the_recorded_results_have_a_page(tmp_path: Path):
    """Those of this repository: fits, figures and other programs' files are named as left out."""
    for file in RESULTS.glob("*.json"):
        shutil.copy(file, tmp_path)
    html, folder = page_of(tmp_path), BenchFolder.read(tmp_path)
    assert folder is not None and len(folder.measured) > 50 and "fit_table.json" in folder.ignored
    assert "fit_table.json" in html and "SwiftShader" in html
    assert "nan" not in re.sub(r"<script.*?</script>", "", html)


RESULT = '[{"case": "silhouette", "step_ms": '


@pytest.mark.parametrize("text", [RESULT + "1}]", RESULT + '"x", "settings": {}}]', "[{"])
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
    html = bench_page_of(tmp_path, [result("silhouette", evil, 2.0, label=evil), named, failed])
    assert "<img" not in html


MODULES = sorted(m.name for m in pkgutil.walk_packages(dressi.report.__path__, "dressi.report."))


@pytest.mark.parametrize("name", ["dressi.report", *MODULES])
def test_examples_run(name: str):
    module = importlib.import_module(name)
    assert module.__doc__
    found = doctest.testmod(module, extraglobs={"np": np}, optionflags=doctest.ELLIPSIS)
    assert found.failed == 0


def test_text_never_becomes_markup():
    html = element("p", "<b>", ["&", None, Markup("<i>")], title='"<', hidden=True, lang=None)
    assert html == '<p title="&quot;&lt;" hidden>&lt;b&gt;&amp;<i></p>'


@pytest.mark.parametrize("value", [0.0, 1e-9, 0.00123, 0.5, 1.0, 12.34, 999.9, 1234567.0, -3.21])
def test_numbers_keep_three_digits(value: float):
    assert float(number(value).replace(",", "")) == pytest.approx(value, rel=6e-3)


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), "text", True])
def test_what_is_no_number_is_a_dash(value: object):
    assert number(value) == "–"


def points_of(html: str) -> list[list[list[float | None]]]:
    text = re.search(r'data-chart="([^"]*)"', html)
    assert text is not None
    return json.loads(text[1].replace("&quot;", '"'))["series"]


def test_a_curve_goes_where_its_values_are():
    html = line_chart("T", [Series("a", [0, 1, 2], [0.0, 1.0, 0.5])], x_label="x", y_label="y")
    path = re.search(r'<path d="(M[^"]*)" class="s0">', html)
    assert path is not None
    numbers = [float(n) for n in re.findall(r"-?[\d.]+", path[1].replace("h0", ""))]
    x, y = numbers[::2], numbers[1::2]
    # The axis has 5 % of room below and above the values.
    assert x == [0, 500, 1000] and y[0] == pytest.approx(1000 - 50 / 1.1, abs=0.1) and y[1] < y[2] < y[0]
    # The middle value lies half way between the others.
    assert y[2] == pytest.approx((y[0] + y[1]) / 2, abs=0.1)


def test_gaps_and_values_without_a_logarithm_are_left_out():
    html = line_chart(
        "T", [Series("a", range(5), [1.0, 0.0, float("nan"), 0.1, None])], x_label="x", y_label="y", log=True
    )
    assert points_of(html) == [[[0, 1.0], [1, None], [2, None], [3, 0.1], [4, None]]]
    assert html.count("h0") >= 2


def test_long_curves_are_means_of_stretches():
    values = [float(k % 2) for k in range(10_000)]
    html = line_chart("T", [Series("a", range(10_000), values)], x_label="x", y_label="y")
    (points,) = points_of(html)
    assert len(points) == MOST_POINTS and {y for _, y in points} == {0.5}


@pytest.mark.parametrize("values", [[], [None], [float("nan"), -1.0]])
def test_a_chart_of_nothing_says_so(values: list):
    html = line_chart("T", [Series("a", range(len(values)), values)], x_label="x", y_label="y", log=True)
    assert "no values" in html


@pytest.mark.parametrize("values", [[3.0, 3.0], [0.0, 0.0], [1e-30, 1e30], [5.0]])
@pytest.mark.parametrize("log", [False, True])
def test_charts_of_unusual_ranges_are_drawn(values: list[float], log: bool):
    html = line_chart("T", [Series("a", range(len(values)), values)], x_label="x", y_label="y", log=log)
    assert "nan" not in html and "inf" not in html.replace("info", "")


def test_strips_have_the_shares_of_their_stages():
    stages = [StageRow("raster 8x8", "A", 3.0, 1.0, 100), StageRow("compute 8x8", "B", 1.0, 1.0, 300)]
    html = timeline(stages)
    shares = [float(share) for share in re.findall(r"flex-grow:([\d.]+)", html)]
    assert shares == [750, 250, 250, 750]
    assert "4.00 ms measured" in html and "400 bytes moved" in html


def test_without_timestamps_the_prediction_is_shown_and_said():
    html = timeline([StageRow("raster 8x8", "A", None, 2.0, 100)])
    assert "2.00 ms predicted" in html


def test_a_row_of_one_cell_heads_those_below():
    html = table(["a", "b"], [["all"], [1, 2]])
    assert '<th colspan="2" scope="rowgroup">all</th>' in html
    assert '<th scope="row">1</th><td class="n">2</td>' in html
