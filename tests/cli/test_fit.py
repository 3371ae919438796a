"""`dressi fit`: options, files, materials, the window, and what is said to bad input."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from command_line import CODE, refuses, run, run_process
from reference import depth_pictures, photographed, views_of_bowl

from dressi import Device
from dressi.cli.core.interrupt import Stop
from dressi.cli.fitting.request import GROUPS, OPTIONS, Request
from dressi.cli.fitting.run import Bar, FitWindow, fine_offer
from dressi.render import Cameras, Material, chamfer, load_mesh, primitives, ring, save_mesh
from dressi.render.fit import Progress, shape_rounds
from dressi.render.io import encode_png
from dressi.render.mesh.primitives import bowl, cube, pear

pytestmark = pytest.mark.usefixtures("driver", "coarse_surfaces")

PICTURES = ["heldout.png", "turntable.gif", "views.png"]
RESULTS = sorted(["loss.csv", "quality.csv", "report.json", "result.glb", "stages.json", *PICTURES])


def fit_command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run("fit", *arguments)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("target") / "pear.glb"
    save_mesh(path, pear(16, 12, 32))
    return path


def photograph(folder: Path, count: int = 5, size: tuple[int, int] = (20, 16)) -> tuple[dict, Cameras]:
    """Discs on grey as photographs with masks and cameras.json; the document and the cameras."""
    cameras = ring(np.zeros(3), 1.0, count, size)
    y, x = np.mgrid[: size[1], : size[0]] + 0.5
    disc = np.hypot(x - size[0] / 2, y - size[1] / 2) < 5
    views = []
    (folder / "mask").mkdir(parents=True)
    for i, camera in enumerate(cameras):
        name = f"photo{i}.png"
        picture = np.where(disc[..., None], (0.6, 0.3, 0.1), 0.5)
        (folder / name).write_bytes(encode_png(picture))
        (folder / "mask" / name).write_bytes(encode_png(disc.astype(float)))
        k, r, t = (a.tolist() for a in (camera.intrinsics, camera.rotation, camera.translation))
        views.append({"file": name, "K": k, "R": r, "t": t})
    document = {"pixel_center": 0.5, "bbox": [[-0.8] * 3, [0.8] * 3], "views": views}
    (folder / "cameras.json").write_text(json.dumps(document))
    return document, cameras


def test_a_mesh(target: Path, tmp_path: Path):
    out = tmp_path / "new" / "folder"
    options = ("--views", "3", "--size", "24", "--steps", "20", "--texture-size", "16")
    result = fit_command("--target", target, "--out", out, *options, "--baseline")
    assert result.returncode == 0, result.stderr
    assert sorted(f.name for f in out.iterdir()) == RESULTS
    report = json.loads((out / "report.json").read_text())
    assert set(report["device"]) == {"name", "driver", "version"}
    assert {"substages", "stages", "functions", "shape", "texture"} == set(report["plan"])
    assert {"first_build_ms", "step_ms", "total_s"} == set(report["time"])
    for key in ("substages", "stages", "functions"):
        assert report["plan"][key] == report["plan"]["shape"][key] + report["plan"]["texture"][key]
    assert report["task"]["source"] == target.name and report["views"]["size"] == [24, 24]
    assert [view["view"] for view in report["views"]["train"]] == [0, 1, 2]
    shown = [view["iou"] for view in report["views"]["train"]]
    assert np.isclose(np.mean(shown), report["metrics"]["train"]["iou"])
    stages = json.loads((out / "stages.json").read_text())
    assert [one["round"] for one in stages] == report["stages"] and "texture" in report["stages"][-1]
    for stage in (stage for one in stages for stage in one["stages"]):
        assert stage["name"] and stage["bytes"] > 0 and stage["predicted_ms"] > 0
    for views in ("train", "heldout"):
        assert {"iou", "psnr", "ssim", "inside", "exposed_inside"} < set(report["metrics"][views])
        assert f"{views}: IoU" in result.stdout
    assert "visual hull" in result.stdout and "step/s" in result.stderr
    assert "shape by outlines, 24x24" in result.stderr and "writing results" in result.stderr
    assert load_mesh(out / "result.glb").texture is not None
    assert len((out / "loss.csv").read_text().splitlines()) == 21
    assert (out / "views.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "turntable.gif").read_bytes().startswith(b"GIF")


@pytest.mark.release
@pytest.mark.one_driver
def test_the_demonstration_is_recovered(tmp_path: Path):
    """As `make demo` runs it: a start that lies elsewhere by a fraction of a pixel costs .7 % of overlap, which no
    smaller fit shows."""
    save_mesh(tmp_path / "pear.glb", pear())
    options = ("--target", tmp_path / "pear.glb", "--views", "6", "--size", "256")
    result = fit_command(*options, "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    found = json.loads((tmp_path / "out" / "report.json").read_text())["metrics"]["heldout"]
    assert found["iou"] > 0.98 and found["psnr"] > 33


@pytest.mark.release
def test_photographs(tmp_path: Path):
    photograph(tmp_path / "photos")
    options = ("--size", "20x16", "--steps", "10", "--texture-size", "8", "--no-colours")
    result = fit_command("--photos", tmp_path / "photos", "--out", tmp_path / "out", *options)
    assert result.returncode == 0, result.stderr
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["metrics"]["heldout"]["iou"] > 0.3
    assert len(report["exposures"]) == len(report["pictures"]["train"])
    assert report["metrics"]["heldout"]["plain"]


@pytest.mark.release
def test_a_photograph_without_a_camera_is_placed(tmp_path: Path):
    photos, out = tmp_path / "photos", tmp_path / "out"
    document, cameras = photograph(photos, 6)
    (photos / "cameras.json").write_text(json.dumps(document | {"views": document["views"][1:]}))
    options = ("--photos", photos, "--out", out, "--size", "20x16", "--steps", "2", "--texture-size", "8")
    result = fit_command(*options, "--no-colours")
    assert result.returncode == 0 and "1 of them got one" in result.stderr, result.stderr
    views = json.loads((out / "cameras" / "cameras.json").read_text())["views"]
    assert [view["file"] for view in views] == [f"photo{i}.png" for i in (1, 2, 3, 4, 5, 0)]
    assert np.allclose(views[0]["R"], cameras.cameras[1].rotation)
    # The disc looks alike from everywhere, as far away as it is.
    center = -np.transpose(views[-1]["R"]) @ views[-1]["t"]
    assert np.linalg.norm(center) == pytest.approx(np.linalg.norm(cameras.cameras[0].center), rel=0.15)
    report = json.loads((out / "report.json").read_text())
    assert sum(len(part) for part in report["pictures"].values()) == 6


@pytest.mark.release
def test_photographs_without_masks(tmp_path: Path):
    photos, out = tmp_path / "photos", tmp_path / "out"
    document, _ = photograph(photos)
    shutil.rmtree(photos / "mask")
    options = ("--photos", photos, "--out", out, "--size", "20x16", "--steps", "5", "--texture-size", "8")
    calibration = photos / "cameras.json"
    refuses(fit_command(*options, "--masks", "magic"), "magic", "--masks threshold")
    for i in range(2, 5):
        (photos / f"photo{i}.png").rename(tmp_path / f"photo{i}.png")
    calibration.write_text(json.dumps(document | {"views": document["views"][:2]}))
    refuses(fit_command(*options), "--masks threshold", "--masks background:", "--masks box", "--masks rembg")
    assert not out.exists()
    for i in range(2, 5):
        (tmp_path / f"photo{i}.png").rename(photos / f"photo{i}.png")
    calibration.write_text(json.dumps(document))
    result = fit_command(*options, "--masks", "threshold", "--no-colours")
    assert result.returncode == 0 and "look at them" in result.stderr, result.stderr
    assert sorted(f.name for f in (out / "masks").iterdir()) == [f"photo{i}.png.png" for i in range(5)]
    assert json.loads((out / "report.json").read_text())["metrics"]["train"]["iou"] > 0.3


@pytest.mark.release
def test_one_photograph(tmp_path: Path):
    document, _ = photograph(tmp_path / "photos", 1)
    del document["bbox"]
    (tmp_path / "photos" / "cameras.json").write_text(json.dumps(document))
    options = ("--size", "20x16", "--steps", "10", "--texture-size", "8", "--no-colours")
    result = fit_command("--photos", tmp_path / "photos", "--out", tmp_path / "out", *options)
    assert result.returncode == 0, result.stderr
    assert "one photograph does not say how far away" in result.stderr
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["metrics"]["heldout"] is None and report["metrics"]["train"]["iou"] > 0.3


@pytest.mark.release
def test_counts_of_the_plan(target: Path, tmp_path: Path):
    counts = []
    # The start decides which rounds there are. Between few views and many, lists of active pixels begin to pay, which are a Stage.
    for start, views in (("sphere", "1"), ("sphere", "6"), ("hull", "12"), ("hull", "24")):
        options = ("--plan", "--json", "--size", "16", "--out", tmp_path / "no")
        result = fit_command("--target", target, *options, "--views", views, "--start", start)
        assert result.returncode == 0, result.stderr
        counts.append(json.loads(result.stdout))
    # The texture round of few views uses all of them in every step.
    shapes = [{name: c for name, c in found["rounds"].items() if name != "texture"} for found in counts]
    assert shapes[0] == shapes[1] and counts[2] == counts[3]
    assert set(counts[2]["rounds"]) < set(counts[0]["rounds"])
    whole = {"substages", "stages", "functions"}
    assert set(counts[0]) == {*whole, "shape", "texture", "rounds", "planned_for"}
    rounds = counts[0]["rounds"]
    assert len(rounds) > 4
    assert list(rounds) == [*(f"shape {k + 1}" for k in range(len(rounds) - 1)), "texture"]
    assert all(set(found) == whole and found["stages"] > 0 for found in rounds.values())
    assert not (tmp_path / "no").exists()


def test_what_photographs_and_haste_ask_for():
    photos, size = Request(photos=Path("photos")), (320, 240)
    assert photos.options(size).texels == 2 * Request(target=Path("a.glb")).options(size).texels == 1024
    texels = [photos.options((rows, rows)).texels for rows in (20, 160, 320, 480, 4000)]
    assert texels == [128, 512, 1024, 2048, 2048]
    assert photos.changed({"texture_size": 64}).options(size).texels == 64
    quick, fine = (photos.changed({name: True}) for name in ("quick", "fine"))
    assert quick.effort.width < photos.effort.width < fine.effort.width
    assert quick.options().steps < photos.options().steps < fine.options().steps
    assert quick.changed({"steps": 12}).options().steps == 12
    # Twice the faces and four times the texels of the usual fit of the same pictures.
    plain, finer = Request(target=Path("a.glb")), Request(target=Path("a.glb"), fine=True)
    assert finer.options().size == (512, 512) and finer.options().texels == 2 * plain.options().texels
    faces = [max(plan.faces for plan in shape_rounds(one.options())) for one in (plain, finer)]
    assert faces == [8192, 16384]
    given = {"size": "96", "faces": 500, "texture_size": 32}
    assert finer.changed(given).options((96, 96)).texels == 32
    assert max(plan.faces for plan in shape_rounds(finer.changed(given).options((96, 96)))) == 500
    assert photos.options((320, 240)).texels == 1024 and fine.options((640, 480)).texels == 2048


def test_a_finer_fit_is_offered_where_the_device_is_fast():
    plain = Request(target=Path("a.glb"))
    assert "--fine (512x512 pixels" in (fine_offer(plain, (256, 256), cube(), 2000.0) or "")
    assert fine_offer(plain, (256, 256), cube(), 30000.0) is None
    assert fine_offer(plain.changed({"fine": True}), (512, 512), cube(), 2000.0) is None
    assert fine_offer(plain, (256, 256), cube(), None) is None


def test_the_help_lists_every_option_under_its_heading():
    text = " ".join(fit_command("--help").stdout.split())
    assert all(f"{heading}:" in text for heading in GROUPS)
    for row in OPTIONS.values():
        assert f"{row.flag} " in text and " ".join(row.option.help.split()) in text.replace("- ", "-")
    assert "[default: 6]" in text and "--colours / --no-colours" in text


def test_the_plan_as_text(target: Path):
    options = ("--plan", "--size", "16", "--optimize", "roughness", "--views", "1")
    result = fit_command("--target", target, *options)
    assert result.returncode == 0
    assert all(f"{name}:" in result.stdout for name in ("shape 1", "texture", "material 1", "material 3"))
    assert "Rasterize" in result.stdout
    assert "shipped options" in result.stdout.splitlines()[0]


@pytest.mark.release
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_keeps_what_was_reached(target: Path, tmp_path: Path):
    options = ("--target", target, "--out", tmp_path, "--size", "16", "--views", "2", "--texture-size", "8")
    command = [sys.executable, "-c", CODE, "fit", *map(str, options), "--steps", "3000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        shown = ""
        while "IoU=" not in shown:
            shown += process.stderr.read(16)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=60)
    assert process.returncode == 130, rest
    last = rest.splitlines()[-1]
    assert "interrupted" in last and "--resume" in last and "Traceback" not in rest
    # Stages are those of rounds that were finished.
    assert {f.name for f in tmp_path.iterdir()} | {"stages.json"} == {"checkpoint.npz", *RESULTS}
    # It resumes with the same options only.
    refuses(fit_command(*options, "--steps", "2999", "--resume"), "other options")
    assert (tmp_path / "checkpoint.npz").exists()


def test_what_it_refuses_before_it_starts(target: Path, tmp_path: Path):
    out = ("--out", tmp_path / "out")
    refuses(fit_command(*out), "--target", "--photos")
    refuses(fit_command("--target", tmp_path / "none.glb", *out), "none.glb")
    for words, said in (
        (("--photos", tmp_path), "not both"),
        (("--json",), "--plan"),
        (("--masks", "threshold"), "--photos"),
        (("--gloss",), "--photos"),
        (("--gloss", "--no-directional"), "leave out --no-directional"),
        (("--wrong",), "--wrong"),
        (("--quick", "--fine"), "one of them"),
        (("--resume",), "nothing to resume"),
        (("--device", "Voodoo"), "Voodoo"),
    ):
        refuses(fit_command("--target", target, *words, *out), said)
    alone = run_process("fit", "--target", target, *out, VK_DRIVER_FILES="/nonexistent.json")
    refuses(alone, "no Vulkan driver")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("--size", size) for size in ("0", "0x9", "big", "1x2x3", "-4", "9999999")),
        ("--views", "0"), ("--steps", "0"), ("--steps", "many"), ("--radius", "0"), ("--radius", "nan"), ("--peels", "0"),
        ("--form", "round"), ("--seed", "-1"), ("--texture-size", "0"), ("--texture-gradient", "wrong"),
    ],
)  # fmt: skip
def test_values_that_cannot_be(target: Path, tmp_path: Path, option: str, value: str):
    refuses(fit_command("--target", target, "--out", tmp_path / "out", option, value))
    assert not (tmp_path / "out").exists()


def test_files_that_are_no_meshes(target: Path, tmp_path: Path):
    outside = {"asset": {"version": "2.0"}, "buffers": [{"byteLength": 4, "uri": "../secret.bin"}]}
    for name, content in {
        "text.obj": b"hello\n",
        "short.glb": target.read_bytes()[:1000],
        "nan.obj": b"v 0 0 nan\nv 1 0 0\nv 0 1 0\nf 1 2 3\n",
        "range.obj": b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 9\n",
        "outside.gltf": json.dumps(outside).encode(),
    }.items():
        (tmp_path / name).write_bytes(content)
        refuses(fit_command("--target", tmp_path / name, "--out", tmp_path / "out"), name.split(".")[0])
    refuses(fit_command("--target", target, "--init", tmp_path / "nan.obj", "--out", tmp_path / "out"), "nan")
    assert not (tmp_path / "out").exists()


def test_folders_of_photographs_that_disagree(tmp_path: Path):
    folder = tmp_path / "photos"
    out = ("--out", tmp_path / "out")
    refuses(fit_command("--photos", tmp_path / "none", *out), "none")
    refuses(fit_command("--photos", tmp_path / "none.mp4", *out), "no video")
    folder.mkdir()
    refuses(fit_command("--photos", folder, *out), "no images")
    document, _ = photograph(folder)
    more = [folder / f"photo{number}.png" for number in range(5, 12)]
    for file in more:
        shutil.copy(folder / "photo0.png", file)
    refuses(fit_command("--photos", folder, *out), "photo10.png", "have no camera")
    for file in more:
        file.unlink()
    mask = folder / "mask" / "photo1.png"
    whole = mask.read_bytes()
    mask.write_bytes(encode_png(np.zeros((16, 20))))
    refuses(fit_command("--photos", folder, *out), "empty")
    mask.write_bytes(whole)
    document["views"][2]["t"] = [0.0, 0.0, -5.0]
    (folder / "cameras.json").write_text(json.dumps(document))
    refuses(fit_command("--photos", folder, *out), "photo2.png")
    assert not (tmp_path / "out").exists()


@pytest.mark.release
def test_photographs_with_depths(tmp_path: Path):
    truth, cameras = bowl(3), views_of_bowl(8, (48, 48))
    masks, depths = depth_pictures(truth, cameras)
    folder = photographed(tmp_path / "photos", cameras, masks, depths, truth.bounds())
    out = ("--photos", folder, "--out", tmp_path / "out")
    refuses(fit_command(*out, "--depth-scale", "1000"), "--depth")
    small = fit_command(*out, "--depth", "--depth-scale", "1")
    refuses(small, "'0.png'", "units of the scene", "--depth-scale")
    refuses(fit_command(*out, "--depth", "--depth-scale", "-1"), "number of codes")
    refuses(fit_command("--target", folder / "none.glb", "--depth"), "--photos")
    result = fit_command(*out, "--depth", "--steps", "90", "--texture-size", "8")
    assert result.returncode == 0, result.stderr
    # The visual hull, which a fit without depths starts from and stays near, is 0.09 away.
    assert chamfer(load_mesh(tmp_path / "out" / "result.glb"), truth, 5000) < 0.055
    (folder / "depth" / "3.png").unlink()
    refuses(fit_command(*out, "--depth"), "'3.png'")


def test_folders_that_cannot_be_written(target: Path, tmp_path: Path):
    (tmp_path / "file").write_text("mine")
    refuses(fit_command("--target", target, "--out", tmp_path / "file"), "file")
    assert (tmp_path / "file").read_text() == "mine"
    if Path("/proc/self").exists():
        refuses(fit_command("--target", target, "--out", "/proc/self/out"), "cannot write")
    if hasattr(os, "geteuid") and os.geteuid() != 0:
        (tmp_path / "locked").mkdir(mode=0o500)
        refuses(fit_command("--target", target, "--out", tmp_path / "locked"), "cannot write")


@pytest.fixture(scope="module")
def material_target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("target") / "pear.glb"
    mesh = pear(16, 12, 32)
    mesh.material = Material(roughness=0.4)
    save_mesh(path, mesh)
    return path


COMMAND = (
    "--size 32 --views 5 --steps 48 --texture-size 32 --optimize albedo,roughness,light,exposure".split()
)


class Polls:
    """The phase wherever progress is told; what follows a round is told at its last step, and counts once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.phases: dict[int, str] = {}
        shown = Bar.__call__

        def noted(bar: Bar, now: Progress) -> None:
            self.phases.setdefault(now.done, now.phase)
            shown(bar, now)

        monkeypatch.setattr(Bar, "__call__", noted)

    def of_the_material(self) -> int:
        return list(self.phases.values()).count("material")


@pytest.fixture(scope="module")
def gone_on(material_target: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Polls]:
    """The folder of a fit that was stopped where its material is recovered, and went on; what the second part
    told."""
    folder = tmp_path_factory.mktemp("fit")
    # From the shape itself, so that one round is enough for it.
    command = ("fit", "--target", material_target, "--init", material_target, *COMMAND, "--out", folder)
    with pytest.MonkeyPatch.context() as monkeypatch:
        polls = Polls(monkeypatch)
        monkeypatch.setattr(Stop, "__call__", lambda stop: polls.of_the_material() == 3)
        stopped = run(*command)
        assert stopped.returncode != 0 and "--resume goes on" in stopped.stderr
        polls.phases.clear()
        monkeypatch.setattr(Stop, "__call__", lambda stop: False)
        done = run(*command, "--resume")
    assert done.returncode == 0, done.stderr
    return folder, polls


@pytest.mark.release
def test_a_mesh_under_unknown_light(gone_on: tuple[Path, Polls]):
    folder, _ = gone_on
    report = json.loads((folder / "report.json").read_text())
    assert report["plan"]["material"]["stages"] > 0
    assert report["material"]["light"] == "HarmonicsLight" and len(report["material"]["exposures"]) == 5
    phases = [line.split(",")[1] for line in (folder / "loss.csv").read_text().splitlines()[1:]]
    assert phases.count("material") == 40 and phases[-1] == "material"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mesh = load_mesh(folder / "result.glb")
    assert mesh.material is not None and mesh.material.metallic_roughness is not None
    light = json.loads((folder / "light.json").read_text())
    assert light["kind"] == "HarmonicsLight" and np.shape(light["coefficients"]) == (16, 3)


@pytest.mark.release
def test_a_material_that_was_stopped_goes_on(gone_on: tuple[Path, Polls]):
    """And nothing else again. That its numbers are those of a fit that was not stopped, ``test_materials.py``
    shows."""
    folder, polls = gone_on
    assert set(polls.phases.values()) == {"material"}
    assert not list(folder.glob("*.npz"))


@pytest.mark.release
def test_what_it_refuses(material_target: Path, tmp_path: Path):
    command = ("fit", "--target", material_target, "--out", tmp_path)
    for arguments, text in (
        (("--optimize", "albedo,shininess"), "shininess"),
        (("--optimize", ""), "nothing"),
        (("--light", material_target), "--optimize"),
        (("--optimize", "albedo", "--light", tmp_path / "none.hdr"), "none.hdr"),
    ):
        refuses(run(*command, *arguments), text)


def test_a_light_mesh_shows_a_fine_one_at_each_level(target: Path, tmp_path: Path):
    out = tmp_path / "light.glb"
    done = run(
        "bake", target, "--faces", "80", "--texture-size", "32", "--rays", "8", "--levels", "2", "--out", out
    )
    assert done.returncode == 0, done.stderr
    for path, most, side in ((out, 120, 32), (tmp_path / "light_lod1.glb", 60, 16)):
        light = load_mesh(path)
        assert len(light.faces) <= most and light.texture is not None and light.material is not None
        assert {"normal", "occlusion"} <= set(light.material.maps())
        assert light.texture.shape == (side, side, 3) and 0.2 < light.material.occlusion.min() <= 1.0
    refuses(run("bake", target, "--out", tmp_path / "light.obj"), ".glb")


class Canvas:
    """A window that is open."""

    closed = False


@pytest.mark.parametrize("stdin", [None, open])
def test_a_run_without_a_person_ends(monkeypatch, tmp_path, stdin):
    (tmp_path / "in").write_text("")
    with open(tmp_path / "in") as file:
        monkeypatch.setattr(sys, "stdin", None if stdin is None else file)
        window = object.__new__(FitWindow)
        window.canvas = cast("object", Canvas())  # type: ignore[assignment]
        window.stay(primitives.cube(1.0), cast(Device, None))  # a Device would be asked for
