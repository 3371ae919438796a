"""The wheel, which is built from the sdist, in an environment of what it requires, on a machine without a compiler."""

import importlib.util
import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from email import message_from_bytes
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

import dressi
from dressi.render.formats import load_mesh, save_mesh
from dressi.render.mesh.primitives import pear

REPOSITORY = Path(__file__).resolve().parent.parent
OFFLINE = (
    "No matching distribution", "Could not find a version", "ConnectionError", "Temporary failure", "Max retries",
)  # fmt: skip
pytestmark = [
    pytest.mark.release,
    pytest.mark.skipif(sys.platform == "win32", reason="folders of Linux and macOS"),
]


def call(*words: str | Path, folder: Path, path: str) -> subprocess.CompletedProcess[str]:
    """A program that finds others in ``path`` alone; skips where a package index cannot be reached."""
    drop = ("PYTHONPATH", "VIRTUAL_ENV", "CC", "CXX")
    environment = {name: value for name, value in os.environ.items() if name not in drop}
    environment |= {"PATH": path, "DRESSI_CACHE": str(folder / "cache"), "HOME": str(folder)}
    # The machine code that the driver has kept is no part of the environment; Mesa adds the name of its folder.
    environment.setdefault("MESA_SHADER_CACHE_DIR", str(Path.home() / ".cache"))
    options: dict[str, Any] = {"capture_output": True, "text": True, "check": False, "timeout": 1200}
    result = subprocess.run([str(word) for word in words], cwd=folder, env=environment, **options)
    said = result.stdout + result.stderr
    if result.returncode and any(word in said for word in OFFLINE):
        pytest.skip(f"no package index: {said.strip().splitlines()[-1]}")
    return result


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the sdist and the wheel."""
    if importlib.util.find_spec("build") is None:
        pytest.skip("the package build is missing: pip install build")
    folder = tmp_path_factory.mktemp("built")
    # git is there for nothing but the list of ignored files.
    result = call(sys.executable, "-m", "build", "-o", folder, REPOSITORY, folder=folder, path="/nonexistent")
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


def test_what_is_in_them(built: Path):
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    assert wheel.name == f"dressi-{dressi.__version__}-py3-none-any.whl"
    names = zipfile.ZipFile(wheel).namelist()
    kept = {
        *"dressi/py.typed dressi/shaders/face.glsl dressi/docs/changelog.md dressi/cli/many/pool.py".split()
    }
    kept |= {f"dressi/{file.relative_to(REPOSITORY)}" for file in (REPOSITORY / "shaders").rglob("*.glsl")}
    kept |= {str(file.relative_to(REPOSITORY)) for file in (REPOSITORY / "dressi").rglob("*.py")}
    assert kept <= set(names)
    assert not [name for name in names if name.startswith(("tests", "apps")) or "__pycache__" in name]
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        *"pyproject.toml LICENSE Makefile .ci/setup tests/conftest.py shaders/face.glsl".split()
    } <= inside


def required(wheel: Path) -> dict[str, Distribution]:
    """The distributions that the wheel requires, and those that these require, as they are installed for the tests."""
    archive = zipfile.ZipFile(wheel)
    (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    waiting = [(line, "") for line in message_from_bytes(archive.read(metadata)).get_all("Requires-Dist", [])]
    found: dict[str, Distribution] = {}
    for line, extra in waiting:
        wanted = Requirement(line)
        if wanted.marker is None or wanted.marker.evaluate({"extra": extra}):
            one = found[wanted.name] = distribution(wanted.name)
            assert wanted.specifier.contains(one.version, prereleases=True), line
            more = [(needed, name) for name in ("", *wanted.extras) for needed in one.requires or ()]
            waiting += [entry for entry in more if entry not in waiting]
    return found


@pytest.mark.vk
def test_it_runs_with_what_it_requires_alone(built: Path, tmp_path: Path):
    """Required distributions are linked, not fetched and unpacked again: `make setup` installs them from the index."""
    home = tmp_path / "empty"
    venv.create(home, symlinks=True)
    path = str(home / "bin")
    (wheel,) = built.glob("*.whl")
    pip = (sys.executable, "-m", "pip", "--python", home / "bin" / "python")
    options = ("-q", "--no-compile", "--no-deps", "--no-index")
    result = call(*pip, "install", *options, wheel, folder=tmp_path, path=path)
    assert result.returncode == 0, result.stderr
    (packages,) = (home / "lib").glob("python*/site-packages")
    for one in required(wheel).values():
        for name in {file.parts[0] for file in one.files or () if file.parts[0] not in ("..", "__pycache__")}:
            if not (packages / name).exists():
                (packages / name).symlink_to(Path(str(one.locate_file(name))))
    result = call(home / "bin" / "dressi", "doctor", "--json", folder=tmp_path, path=path)
    report = json.loads(result.stdout)
    problems = {finding["topic"] for finding in report["findings"] if finding["level"] == "problem"}
    if problems & {"driver", "loader"}:
        pytest.skip("no Vulkan driver")
    assert result.returncode == 0 and report["can_run"] and report["version"] == dressi.__version__, (
        result.stdout
    )
    (fallback,) = [finding["text"] for finding in report["findings"] if finding["topic"] == "fallback"]
    assert "c++" not in fallback
    save_mesh(tmp_path / "pear.glb", pear(16, 12, 32))
    options = (
        "--target pear.glb --size 32 --steps 2 --views 4 --texture-size 16 --no-colours --out out".split()
    )
    result = call(home / "bin" / "dressi", "fit", *options, folder=tmp_path, path=path)
    assert result.returncode == 0 and "heldout: IoU 0.9" in result.stdout, result
    assert load_mesh(tmp_path / "out" / "result.glb").texture is not None
