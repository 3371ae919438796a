"""`dressi doctor`: each lack is planted, and must be named with its cure."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from command_line import run, run_process

from dressi.cli.doctor import machine, probe
from dressi.cli.doctor.machine import Finding
from dressi.cli.doctor.probe import Answer, ask
from dressi.config import config
from dressi.vk.run.host.platforms import LINUX, MACOS, WINDOWS, Platform

DEVICE = {"index": 0, "name": "Some GPU", "driver": "some", "driver_version": "1", "type": "discrete"}
CPU = {"index": 1, "name": "llvmpipe", "driver": "llvmpipe", "driver_version": "2", "type": "cpu"}
FACTS = {"devices": [DEVICE, CPU], "validation": True, "chosen": 0}
WORKING = Answer(FACTS)
RIGHT = Answer({"right": True, "seconds": 0.5})


class Machine:
    """Answers as the probes of some machine would; a step on a device answers by the device's index."""

    def __init__(self, devices: Answer = WORKING, steps: Mapping[str, Answer] | None = None, **alone: Answer):
        self.devices, self.steps, self.alone = devices, steps or {}, alone

    def __call__(self, what: str, index: str = "", environment: Mapping[str, str] | None = None) -> Answer:
        if what == "step":
            return self.steps.get(index, RIGHT)
        only = Path((environment or {}).get("VK_DRIVER_FILES", "")).stem
        return self.alone.get(only, self.devices)


def found(findings: list[Finding], level: str, topic: str) -> str:
    """The text of the one finding of that level and topic."""
    texts = [finding.text for finding in findings if (finding.level, finding.topic) == (level, topic)]
    assert len(texts) == 1, findings
    return texts[0]


def levels(findings: list[Finding]) -> set[str]:
    return {finding.level for finding in findings}


@pytest.fixture(autouse=True)
def no_list_of_drivers(monkeypatch: pytest.MonkeyPatch):
    for name in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VULKAN_SDK"):
        monkeypatch.delenv(name, raising=False)


def alike(system: Platform, **changes: Any) -> Platform:
    return Platform(**{**system.__dict__, "folders": (), "manifests": (), **changes})


@pytest.mark.usefixtures("driver")
def test_this_machine(monkeypatch: pytest.MonkeyPatch):
    result = run("doctor", "--json")
    assert result.returncode == 0, result.stdout
    report = json.loads(result.stdout)
    topics = {finding["topic"] for finding in report["findings"]}
    assert report["can_run"] and {"python", "loader", "device 0", "glslang", "cache"} <= topics


def test_a_machine_without_a_driver(tmp_path: Path):
    result = run_process("doctor", VK_DRIVER_FILES="/nonexistent.json", DRESSI_CACHE=str(tmp_path / "cache"))
    assert result.returncode == 1 and result.stderr == "", result
    assert "problem  no Vulkan driver answers; install" in result.stdout
    assert "/nonexistent.json, which is not there" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("dressi cannot run")


@pytest.mark.skipif(sys.platform != "linux", reason="how Linux finds libraries")
def test_a_machine_without_a_loader(tmp_path: Path):
    (tmp_path / "libvulkan.so.1").write_text("no library")
    answer = ask("devices", environment={"LD_LIBRARY_PATH": str(tmp_path)})
    assert "loader" in answer.facts, answer


@pytest.mark.parametrize(
    ("system", "words"),
    [
        (LINUX, ["libvulkan.so.1", "apt-get install libvulkan1 mesa-vulkan-drivers", "dnf", "pacman"]),
        (MACOS, ["libvulkan.dylib", "MoltenVK", "brew install"]),
        (WINDOWS, ["vulkan-1.dll", "driver of your GPU"]),
    ],
)
def test_the_cure_is_that_of_the_system(system: Platform, words: list[str], tmp_path: Path):
    unloaded = Machine(Answer({"loader": "not found", "devices": []}))
    lacks = machine.loader_and_devices(unloaded, alike(system))
    for word in words:
        assert word in found(lacks, "problem", "loader")
    (tmp_path / system.loader).touch()
    there = machine.loader_and_devices(unloaded, alike(system, folders=(str(tmp_path),)))
    text = found(there, "problem", "loader")
    assert str(tmp_path) in text and system.search in text
    none = machine.loader_and_devices(Machine(Answer({"devices": []})), alike(system))
    assert system.driver in found(none, "problem", "driver")
    slow = Answer({"compiler": "glslc (/bin/glslc)", "in_process": False, "failures": ["libx is broken"]})
    assert system.glslang in found(machine.compilers(lambda _: slow, system), "note", "glslang")
    nothing = Answer({"compiler": None, "failures": []})
    assert system.glslang in found(machine.compilers(lambda _: nothing, system), "problem", "glslang")
    bare = machine.loader_and_devices(Machine(Answer({**FACTS, "validation": False})), alike(system))
    assert system.validation in found(bare, "note", "validation") and "problem" not in levels(bare)


def test_a_device_that_crashes_is_reported():
    crash = Answer(failure="crashes (SIGSEGV)")

    def findings(**steps: Answer) -> list[Finding]:
        answers = {name[1:]: answer for name, answer in steps.items()}
        return machine.loader_and_devices(Machine(steps=answers), alike(LINUX))

    text = found(findings(_0=crash), "problem", "device 0")
    assert "Some GPU" in text and "SIGSEGV" in text and "DRESSI_DEVICE=1" in text
    other, every = findings(_1=crash), findings(_0=crash, _1=crash)
    assert "SIGSEGV" in found(other, "note", "device 1") and "problem" not in levels(other)
    assert "DRESSI_DEVICE" not in found(every, "problem", "device 0") + found(every, "problem", "device 1")
    for answer, said in (({"right": False}, "wrong numbers"), ({"error": "the device is gone"}, "is gone")):
        assert said in found(findings(_0=Answer(answer)), "problem", "device 0")


def test_a_wrong_choice_of_a_device_and_a_machine_without_a_gpu():
    refused = {"devices": [CPU], "chosen": None, "refused": "there is no Vulkan device 'Voodoo'"}
    findings = machine.loader_and_devices(Machine(Answer({**FACTS, **refused})), alike(LINUX))
    assert "Voodoo" in found(findings, "problem", "settings")
    assert "driver of your GPU" in found(findings, "note", "gpu")


def test_the_driver_that_crashes_is_found(tmp_path: Path):
    for name in ("bad", "good"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"ICD": {"library_path": "libx.so"}}))
    crash = Answer(failure="crashes (SIGABRT)")
    system = alike(LINUX, manifests=(str(tmp_path),))
    findings = machine.loader_and_devices(Machine(crash, bad=crash, good=Answer(FACTS)), system)
    assert "bad.json" in found(findings, "problem", "driver")
    assert "good.json" in found(findings, "note", "driver")


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="needs a C compiler")
def test_a_driver_that_really_crashes(tmp_path: Path):
    source, library = tmp_path / "icd.c", tmp_path / "icd.so"
    start = '__attribute__((constructor)) static void start(void) { if (getenv("PLANTED")) abort(); }'
    source.write_text(f"#include <stdlib.h>\n{start}\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    manifest = tmp_path / "icd.json"
    icd = {"library_path": str(library), "api_version": "1.1.0"}
    manifest.write_text(json.dumps({"file_format_version": "1.0.0", "ICD": icd}))
    answer = ask("devices", environment={"VK_DRIVER_FILES": str(manifest), "PLANTED": "1"})
    assert answer.failure == "crashes (SIGABRT)"


def test_drivers_whose_library_is_gone(tmp_path: Path):
    (tmp_path / "gone.json").write_text(json.dumps({"ICD": {"library_path": "./libgone.so"}}))
    (tmp_path / "odd.json").write_text("[]")
    (tmp_path / "name.json").write_text(json.dumps({"ICD": {"library_path": "libfound_by_name.so"}}))
    findings = machine.manifests(alike(LINUX, manifests=(str(tmp_path),)))
    assert [re.findall(r"\w+\.json", finding.text)[0] for finding in findings] == ["gone.json", "odd.json"]
    assert all("reinstall" in finding.text for finding in findings)


def test_probes_that_do_not_answer(monkeypatch: pytest.MonkeyPatch):
    def says(code: str) -> str:
        return ask("devices", command=(sys.executable, "-c", code)).failure

    assert says("import os; os.abort()").startswith("crashes (SIG") or sys.platform == "win32"
    assert says("raise OSError('no space')") == "fails (OSError: no space)"
    assert says("print('hello')").startswith("fails (")
    assert ask("x", command=("/nonexistent/python",)).failure.startswith("cannot be started")
    monkeypatch.setattr(probe, "LONGEST", 0.2)
    assert "within" in says("import time; time.sleep(60)")


def test_packages_and_extras_that_are_missing(monkeypatch: pytest.MonkeyPatch):
    needed = ["numpy>=1.26", "no-such-package>=2", "for-another-system; sys_platform == 'plan9'",
              "xatlas>=0.0.9; platform_machine != 'aarch64'", "no-such-cluster>=1; extra == 'ray'", "numpy; extra == 'images'"]  # fmt: skip
    monkeypatch.setattr(machine.metadata, "requires", lambda name: needed)
    there = machine._installed
    monkeypatch.setattr(machine, "_installed", lambda name: name != "xatlas" and there(name))
    findings = machine.packages()
    assert "pip install xatlas`, with a C++ compiler" in found(findings, "note", "package xatlas")
    assert "pip install no-such-package`" in found(findings, "problem", "packages")
    text = found(findings, "note", "extra ray")
    assert "--ray" in text and "no-such-cluster" in text and "pip install 'dressi[ray]'" in text
    assert found(findings, "ok", "extra images")


def test_every_extra_is_explained():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert set(machine.EXTRAS) == set(project["optional-dependencies"]) - {"test"}


def test_settings_that_make_no_sense(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    values = {
        "DRESSI_DEBUG": "loud", "DRESSI_DEVCIE": "0", "DRESSI_MAX_FACES": "-1", "DRESSI_DATA": str(tmp_path / "none"),
        "DRESSI_CHECK": "1", "DRESSI_DUMP": "/proc/none",
    }  # fmt: skip
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    findings = machine.settings(values)
    said = {finding.text.split("=")[0].split()[0]: finding for finding in findings}
    assert {name: said[name].level for name in values} == {
        "DRESSI_DEBUG": "problem", "DRESSI_DEVCIE": "note", "DRESSI_MAX_FACES": "problem", "DRESSI_DATA": "note",
        "DRESSI_CHECK": "ok", "DRESSI_DUMP": "note",
    }  # fmt: skip
    assert "did you mean DRESSI_DEVICE?" in said["DRESSI_DEVCIE"].text
    monkeypatch.setenv("DRESSI_DEBUG", "9")
    assert "0 to 4" in machine.settings({"DRESSI_DEBUG": "9"})[0].text


def test_a_cache_that_cannot_be_used(tmp_path: Path):
    (tmp_path / "file").touch()
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    with config(cache=tmp_path / "file"):
        assert "not a folder" in found(machine.cache(), "note", "cache")
    with config(cache=None):
        assert "DRESSI_CACHE" in found(machine.cache(), "note", "cache")
    with config(cache=tmp_path / "good"):
        assert str(tmp_path / "good") in found(machine.cache(), "ok", "cache")
    if sys.platform != "win32":
        with config(cache=open_to_all):
            assert "chmod" in found(machine.cache(), "note", "cache")
