"""Fixtures of the tests of the command line."""

import pytest

from dressi.errors import DressiError


@pytest.fixture(scope="session")
def driver() -> None:
    """Skips tests where no driver answers."""
    from dressi.vk.run.device.choose import list_devices

    try:
        list_devices()
    except DressiError as error:
        pytest.skip(str(error))
