import pytest

from dressi import DressiAD


@pytest.fixture
def engine(device):
    """Makes engines on the device."""
    return lambda: DressiAD(device)
