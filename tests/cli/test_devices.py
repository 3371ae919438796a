"""`dressi devices` and how the command line reports errors."""

import json
import os
import subprocess
import sys

import pytest

from dressi.vk.plan.limits import DeviceLimits


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dressi.cli", *arguments],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        timeout=60,
        check=False,
    )


def refuses(result: subprocess.CompletedProcess[str], *words: str) -> None:
    assert result.returncode == 2, result
    assert result.stdout == ""
    assert result.stderr.startswith("dressi: error: ") and len(result.stderr.splitlines()) == 1, result.stderr
    for word in words:
        assert word in result.stderr


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
    refuses(
        run("devices", VK_DRIVER_FILES="/nonexistent.json"),
        "no Vulkan driver",
        "/nonexistent.json",
        "install",
    )


def test_a_device_that_is_not_there_is_noted_by_the_list():
    result = run("devices", "--json", DRESSI_DEVICE="Voodoo 2")
    if result.returncode == 2:
        pytest.skip("no Vulkan driver")
    listed = json.loads(result.stdout)
    assert any("Voodoo 2" in note for note in listed["missing"])
    assert not any(device["chosen"] for device in listed["devices"])


@pytest.mark.parametrize(
    ("arguments", "word"), [(["--foo"], "--foo"), (["devices", "--bar"], "--bar"), (["sing"], "sing")]
)
def test_what_the_parser_refuses(arguments: list[str], word: str):
    refuses(run(*arguments), word, "--help")


def test_no_command_shows_the_help():
    result = run()
    assert result.returncode == 0 and "devices" in result.stdout


def test_a_traceback_only_where_it_is_asked_for():
    result = run("devices", VK_DRIVER_FILES="/nonexistent.json", DRESSI_DEBUG="1")
    assert result.returncode != 0 and "Traceback" in result.stderr
