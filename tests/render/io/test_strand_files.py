"""Files of strands: round trips, and files that are not what they say."""

import struct

import numpy as np
import pytest

from dressi.errors import InputError
from dressi.render.io.strands import line_strands, load_strands, save_strands
from dressi.render.strands.geometry import StrandGeometry

POINTS = np.arange(18, dtype=np.float32).reshape(6, 3)
STRANDS = StrandGeometry(POINTS, [0, 3, 6], np.arange(6) / 8, POINTS / 32, 0.5)


@pytest.mark.parametrize("ending", [".hair", ".tfx"])
def test_round_trip(tmp_path, ending):
    path = tmp_path / f"a{ending}"
    save_strands(path, STRANDS)
    found = load_strands(path)
    np.testing.assert_array_equal(found.points, POINTS)
    np.testing.assert_array_equal(found.colours, STRANDS.colours)
    assert found.offsets.tolist() == [0, 3, 6] and found.name == "a"
    if ending == ".hair":
        np.testing.assert_array_equal(found.radius, STRANDS.radius)
        assert found.opacity.tolist() == [0.5]


@pytest.mark.parametrize("ending", [".hair", ".tfx"])
def test_damaged_files_are_refused(tmp_path, ending):
    path = tmp_path / f"a{ending}"
    save_strands(path, STRANDS)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for k in range(60):
        data = bytearray(whole[: rng.integers(len(whole))] if k % 2 else whole)
        for at in rng.integers(0, max(len(data), 1), 3 if data else 0):
            data[at] = rng.integers(256)
        path.write_bytes(data)
        try:
            load_strands(path)
        except InputError as error:
            assert "a." in str(error) and "\n" not in str(error)


@pytest.mark.parametrize("ending", [".hair", ".tfx"])
def test_a_file_that_ends_early_is_truncated(tmp_path, ending):
    path = tmp_path / f"a{ending}"
    save_strands(path, STRANDS)
    whole = path.read_bytes()
    for length in (10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=rf"a{ending}' is truncated"):
            load_strands(path)


def test_a_strand_of_one_point_is_refused(tmp_path):
    head = struct.pack("<4s4I5f88s", b"HAIR", 2, 3, 3, 0, 1.0, 0.0, 1.0, 1.0, 1.0, b"")
    path = tmp_path / "one.hair"
    path.write_bytes(head + struct.pack("<2H", 1, 0) + bytes(36))
    with pytest.raises(InputError, match=r"one\.hair': strand 1 has 1 point"):
        load_strands(path)


def test_promises_of_the_header_are_checked_before_memory(tmp_path):
    path = tmp_path / "large.hair"
    path.write_bytes(struct.pack("<4s4I5f88s", b"HAIR", 10**9, 10**9, 2, 1, *(1.0,) * 5, b""))
    with pytest.raises(InputError, match="above the limit"):
        load_strands(path)


def test_lines_of_primitives():
    places = np.eye(5)[:, :3]
    assert line_strands(places, np.array([0, 1, 1, 2, 3, 4])).offsets.tolist() == [0, 3, 5]
    assert line_strands(places, mode=2).count == 6 and line_strands(places, mode=3).count == 5
    with pytest.raises(InputError, match="two for each line"):
        line_strands(places, np.array([0, 1, 2]))
