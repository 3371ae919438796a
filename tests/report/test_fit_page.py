"""The page of a fit: what it shows, that it escapes and asks nobody, and what it says to damaged folders."""

import json
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from command_line import refuses, run
from folders import SIZE, write_fit

from dressi.errors import InputError
from dressi.render.formats import save_mesh
from dressi.render.formats.gltf.mesh import load_gltf
from dressi.render.io import save_png
from dressi.render.mesh.primitives import icosphere, pear
from dressi.report import MOST_BYTES, write_report
from dressi.report.parts.model import page_model
from dressi.report.parts.pictures import error_map, scaled, sheet_cells


def page_of(folder: Path) -> str:
    return write_report(folder).read_text(encoding="utf-8")


def test_the_page_shows_what_the_folder_holds(tmp_path: Path):
    html = page_of(write_fit(tmp_path))
    body = html[html.index("<body") : html.index('<script type="application/octet-stream"')]
    for shown in (
        "pear.glb",
        "0.875",
        "22.1 dB",
        "1.23 %",
        "3.25 ms",
        "Round 1: shape",
        "4.0 KiB",
        "View 4",
        "24.5 dB",
        "c&lt;d&gt;.png",
        "1.00 0.900 1.10",
        "IoU 0.930",
    ):
        assert shown in body, shown
    assert body.index("b.png") < body.index("a.png"), "the worst picture is the first"
    assert body.count('class="compare"') == 3 and body.count('class="error"') == 3
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
    assert (
        len(small.faces) == len(mesh.faces)
        and small.texture is not None
        and small.texture.shape == (256, 256, 3)
    )


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


@pytest.mark.parametrize("value", ["1e308", "-1e308", "nan", "inf", "1e-320", "9" * 400])
def test_losses_that_no_chart_has_room_for_are_gaps(value: str, tmp_path: Path):
    folder = write_fit(tmp_path / "fit")
    (folder / "loss.csv").write_text(f"step,phase,loss\n0,a,{value}\n1,a,{value}\n{value},a,1\n3,a,0.5\n")
    text = write_report(folder).read_text(encoding="utf-8")
    assert not re.search(
        r"\bnan\b|\binf\b|Infinity", text[text.index("<main") : text.index("</main>")], re.IGNORECASE
    )


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
            text = write_report(folder).read_text(encoding="utf-8")
        except InputError as error:
            assert "report.json" in str(error)
        else:
            shown = text[text.index("<main") : text.index("</main>")]
            assert not re.search(r"\bnan\b|\binf\b|Infinity", shown, re.IGNORECASE), place


def test_a_folder_of_many_fits_says_which_to_name(tmp_path: Path):
    for name in ("bob", "spot"):
        write_fit(tmp_path / name)
    with pytest.raises(InputError, match=r"results of 2 fits.*bob"):
        write_report(tmp_path)
