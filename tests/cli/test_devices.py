"""`dressi devices` and how the command line reports errors."""

import json
import subprocess

import pytest
from command_line import refuses, run, run_process

from dressi.vk.plan.limits import DeviceLimits


def refuses_in_one_line(result: subprocess.CompletedProcess[str], *words: str) -> None:
    refuses(result, *words)
    assert len(result.stderr.splitlines()) == 1, result.stderr


def test_devices_are_listed_with_their_limits():
    result = run("devices", "--json")
    if result.returncode == 2 and "no Vulkan driver" in result.stderr:
        pytest.skip("no Vulkan driver")
    listed = json.loads(result.stdout)
    assert sum(device["chosen"] for device in listed["devices"]) == 1
    for index, device in enumerate(listed["devices"]):
        assert device["index"] == index and device["name"] and device["driver"] and device["driver_version"]
        assert DeviceLimits(**device["limits"]).max_image_dimension >= 4096
    text = run("devices")
    assert text.returncode == 0
    for device in listed["devices"]:
        assert f"{device['index']}: {device['name']}" in text.stdout


def test_a_machine_without_a_driver():
    refuses_in_one_line(
        run_process("devices", VK_DRIVER_FILES="/nonexistent.json"),
        "no Vulkan driver",
        "/nonexistent.json",
        "install",
    )


def test_a_device_that_is_not_there_is_noted_by_the_list(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DRESSI_DEVICE", "Voodoo 2")
    result = run("devices", "--json")
    if result.returncode == 2:
        pytest.skip("no Vulkan driver")
    listed = json.loads(result.stdout)
    assert any("Voodoo 2" in note for note in listed["missing"])
    assert not any(device["chosen"] for device in listed["devices"])


@pytest.mark.parametrize(
    ("arguments", "word"), [(["--foo"], "--foo"), (["devices", "--bar"], "--bar"), (["sing"], "sing")]
)
def test_what_the_parser_refuses(arguments: list[str], word: str):
    refuses_in_one_line(run(*arguments), word, "--help")


def test_no_command_shows_the_help():
    result = run()
    assert result.returncode == 0 and "devices" in result.stdout


def test_a_traceback_only_where_it_is_asked_for():
    result = run_process("devices", VK_DRIVER_FILES="/nonexistent.json", DRESSI_DEBUG="1")
    assert result.returncode != 0 and "Traceback" in result.stderr
