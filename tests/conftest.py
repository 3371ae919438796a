"""Drivers, validation and data of the tests.

lavapipe and SwiftShader are offered to the loader together, before it is first used, so that one process sees both;
`VK_DRIVER_FILES` given by the user is respected, then the tests run on its best device (or on DRESSI_DEVICE). The
validation layer, synchronization checks included, watches every test that uses `device`: a message fails that test.
"""

import os

# The tests run side by side. Threads of OpenBLAS, which wait by spinning, would take the cores from each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# glibc keeps the memory that arrays and compilers free, in the processes that are started from here: otherwise the kernel
# takes it back and clears it again for the next one.
os.environ.setdefault("MALLOC_TRIM_THRESHOLD_", str(512 << 20))
os.environ.setdefault("MALLOC_TOP_PAD_", str(32 << 20))
os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", str(32 << 20))

import gc
import json
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import hypothesis
import numpy as np
import pytest

from dressi.config import config
from dressi.errors import DeviceNotFoundError, NoDriverError

if TYPE_CHECKING:
    from dressi.vk.run.device.device import Device
    from dressi.vk.run.engine import DressiAD

REPOSITORY = Path(__file__).resolve().parent.parent


def _first(*patterns: str) -> Path | None:
    root = Path("/")
    return next((file for pattern in patterns for file in sorted(root.glob(pattern))), None)


LAVAPIPE = _first("usr/share/vulkan/icd.d/lvp_icd*.json", "usr/local/share/vulkan/icd.d/lvp_icd*.json")
SWIFTSHADER = _first("usr/lib*/chromium*/vk_swiftshader_icd.json")
LAYER = _first("usr/lib*/chromium*/libVkLayer_khronos_validation.so")


FOUND = {"lavapipe": (LAVAPIPE, "llvmpipe"), "swiftshader": (SWIFTSHADER, "SwiftShader")}


def _drivers() -> dict[str, str | None]:
    """Names for the reports -> what `Device.open` looks for (None: the best device)."""
    drivers = {name: wanted for name, (file, wanted) in FOUND.items() if file}
    offered = os.pathsep.join(str(file) for file, _ in FOUND.values() if file)
    given = os.environ.get("VK_DRIVER_FILES") or os.environ.get("VK_ICD_FILENAMES")
    # Processes that share the tests find what the first one has offered.
    if not drivers or (given and given != offered):
        return {"given": None}
    os.environ["VK_DRIVER_FILES"] = offered
    # Images are small: lavapipe takes longer to optimise a shader than to run it. `make drivers` runs it with its optimiser.
    os.environ.setdefault("GALLIVM_PERF", "nopt")
    return drivers


def _prepare_validation() -> bool:
    """Makes the layer that lies beside SwiftShader (it is current, but has no manifest) known to the loader."""
    os.environ.setdefault("VK_LAYER_VALIDATE_SYNC", "1")
    os.environ.setdefault("VK_LAYER_SYNCVAL_SHADER_ACCESSES_HEURISTIC", "1")
    # By default the layer falls silent after ten messages of a kind, and the planted hazards would use them up.
    os.environ.setdefault("VK_LAYER_ENABLE_MESSAGE_LIMIT", "0")
    if os.environ.get("VK_LAYER_PATH"):
        return True
    if LAYER is None:
        return False
    layer = {
        "name": "VK_LAYER_KHRONOS_validation",
        "type": "GLOBAL",
        "library_path": str(LAYER),
        "api_version": "1.4.0",
        "implementation_version": "1",
        "description": "Khronos validation layer",
        "instance_extensions": [
            {"name": "VK_EXT_debug_utils", "spec_version": "2"},
            {"name": "VK_EXT_validation_features", "spec_version": "6"},
        ],
    }
    folder = tempfile.TemporaryDirectory(prefix="dressi-layer-")
    globals()["_layer_folder"] = folder  # lives as long as the process
    manifest = Path(folder.name) / "VkLayer_khronos_validation.json"
    manifest.write_text(json.dumps({"file_format_version": "1.2.0", "layer": layer}))
    # Not VK_ADD_LAYER_PATH: an older layer of the same name may be installed.
    os.environ["VK_LAYER_PATH"] = folder.name
    return True


DRIVERS = _drivers()
VALIDATION = _prepare_validation()


# The same examples in every run, and no limit on the time of one: the machine may be busy.
hypothesis.settings.register_profile("dressi", deadline=None, derandomize=True)
hypothesis.settings.load_profile("dressi")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--one-driver", action="store_true", help="run every test on the first driver alone")
    parser.addoption("--release", action="store_true", help="run the tests of a release, too")


def pytest_configure(config: pytest.Config) -> None:
    # A shell that starts a job in the background has it ignore Ctrl-C, and all processes that tests start with it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # A cache that stays between runs of the tests but is not the user's own.
    if "DRESSI_CACHE" not in os.environ and getattr(config, "cache", None) is not None:
        folder = config.cache.mkdir("dressi")
        folder.chmod(0o700)  # a cache that others can write is not used
        os.environ["DRESSI_CACHE"] = str(folder)


FIRST_DRIVER = ("apps", "cli", "docs", "frameworks", "render", "report", "viewer", "vk/run")
"""What stands on Functions and plans, which are tested on every driver: fits run on the first driver alone, and the others of
these folders run on the second one before a release."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that are marked ``one_driver`` run on the first one alone, and so do all with ``--one-driver``; of those marked
    ``second_driver`` only the cases that it names run on the others. A test marked ``every_driver`` runs on all, whatever its
    module says. Tests of ``device`` are marked ``vk``. Tests marked ``release``, their cases where it names some, or those on a
    driver that it names, run with ``--release``, and where a test is named (file.py::test)."""
    one, tests = config.getoption("one_driver"), REPOSITORY / "tests"
    named = any("::" in argument for argument in config.args)
    everything = config.getoption("release") or named
    others, cases = list(DRIVERS)[1:], dict[str, set[str]]()

    def first_alone(item: pytest.Item) -> bool:
        folders = ("render/fit",) if everything else FIRST_DRIVER
        marked = item.get_closest_marker("one_driver") or any(
            item.path.is_relative_to(tests / folder) for folder in folders
        )
        return bool(one or (marked and not item.get_closest_marker("every_driver")))

    for item in items:
        if {"device", "driver"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("vk")

    def stays(item: pytest.Item) -> bool:
        driver, case = _driver_and_case(item)
        markers = {name: item.get_closest_marker(name) for name in ("second_driver", "release")}
        for name, marker in markers.items():
            if marker and marker.args:
                named_ones = set(marker.args).difference(FOUND)
                cases.setdefault(f"{item.nodeid.partition('[')[0]} ({name})", named_ones).discard(case)
        later, second = markers["release"], markers["second_driver"]
        if later and not everything and (not later.args or {case, driver} & set(later.args)):
            return False
        return driver not in others or not (first_alone(item) or (second and case not in second.args))

    kept = [item for item in items if stays(item)]
    if not named and (unknown := {k: v for k, v in cases.items() if v}):
        raise pytest.UsageError(f"markers name cases that are not there: {unknown}")
    staying = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in staying])
    items[:] = kept


def _driver_and_case(item: pytest.Item) -> tuple[str, str]:
    """The driver of a test, or nothing, and the rest of its parameters' names."""
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return "", ""
    driver, _, case = item.callspec.id.partition("-")
    return (driver, case) if driver in DRIVERS else ("", item.callspec.id)


def pytest_collection_finish(session: pytest.Session) -> None:
    """What the collection made lives to the end: the garbage collector need not visit it again and again."""
    for item in session.items:
        if isinstance(item, pytest.Function) and item.module not in _first_numbers:
            _first_numbers[item.module] = [
                (x, x.bit_generator.state)
                for x in vars(item.module).values()
                if isinstance(x, np.random.Generator)
            ]
    gc.collect()
    gc.freeze()


_first_numbers: dict[ModuleType, list[tuple[np.random.Generator, Mapping[str, Any]]]] = {}
"""Random generators of test modules, as they were when the tests were collected."""


@pytest.fixture(autouse=True)
def the_same_numbers_in_any_order(request: pytest.FixtureRequest) -> None:
    """A test gets the same random numbers of its module's generators, whichever tests ran before it in this process."""
    for generator, state in _first_numbers.get(request.module, ()):
        generator.bit_generator.state = state


def pytest_report_header() -> list[str]:
    missing = [name for name in ("lavapipe", "swiftshader") if name not in DRIVERS]
    lines = [
        f"vulkan: {', '.join(DRIVERS)}; validation layer: {os.environ['VK_LAYER_PATH'] if VALIDATION else 'none'}"
    ]
    if missing or not VALIDATION:
        lines.append(
            "vulkan: `make test` installs lavapipe, SwiftShader and the validation layer where it can"
        )
    return lines


def _messages() -> list[str]:
    """What the layer has said in this process; empty while no instance was made."""
    module = sys.modules.get("dressi.vk.run.device.instance")
    return (
        [text for instance in module.Instance._shared.values() for text in instance.messages]
        if module
        else []
    )


@pytest.fixture(scope="session")
def devices() -> Iterator[dict[str, "Device"]]:
    """The devices that were opened, by the names of their drivers; at the end nothing may be alive on them."""
    opened: dict[str, Device] = {}
    yield opened
    alive = {device.name: device.live_objects() for device in opened.values()}
    for device in opened.values():
        device.close()
    assert not any(alive.values()), f"objects that nobody destroyed: {alive}"


@pytest.fixture(scope="module", params=DRIVERS)
def device(request: pytest.FixtureRequest, devices: dict[str, "Device"]) -> "Device":
    """An open device of each driver, validated. It stays open: the tests of a module run on one driver and then on the
    other, so that what depends on no driver, as the oracle's values do, is computed once for both."""
    from dressi.vk.run.device.device import Device

    if request.param not in devices:
        try:
            devices[request.param] = Device.open(DRIVERS[request.param], validation=VALIDATION)
        except (NoDriverError, DeviceNotFoundError) as error:
            pytest.skip(str(error))
    return devices[request.param]


@pytest.fixture
def make_engine(device: "Device") -> Callable[[], "DressiAD"]:
    """Makes engines on the device."""
    from dressi.vk.run.engine import DressiAD

    return lambda: DressiAD(device)


@pytest.fixture(autouse=True)
def validation_is_silent() -> Iterator[None]:
    """Fails a test during which the validation layer said something."""
    before = len(_messages())
    yield
    said = _messages()[before:]
    if said:
        pytest.fail("the validation layer says:\n" + "\n".join(said[:5]))


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder with meshes and photographs: DRESSI_DATA, or `../shared/data` beside the checkout."""
    folder = config.data or REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no folder {folder}; set DRESSI_DATA")
    return folder
