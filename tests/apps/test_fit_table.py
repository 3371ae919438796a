"""What the table of fits computes beside the fits."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from dressi.render.cameras.views import ring
from dressi.render.fit import Dataset, Observations

_PATH = Path(__file__).resolve().parents[2] / "apps" / "fit_table.py"


@pytest.fixture(scope="module")
def table():
    spec = importlib.util.spec_from_file_location("fit_table", _PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_holes_are_what_a_silhouette_surrounds(table):
    mask = np.zeros((1, 9, 9))
    mask[:, 2:7, 2:7] = 1
    mask[:, 4, 3:5] = 0
    assert np.argwhere(table.holes(mask)[0]).tolist() == [[4, 3], [4, 4]]


def test_the_spread_of_seeds(table):
    rows = [{"surface": {"relative_chamfer": x}, "heldout": {"iou": 1 - x}} for x in (0.1, 0.2, 0.3)]
    found = table.spread(rows)
    assert (found["seeds"], found["least_heldout_iou"]) == (3, 0.7)
    assert found["range"] == pytest.approx(1.0) and found["deviation"] == pytest.approx(0.5)


def test_a_seed_turns_the_start_and_changes_the_pictures(table):
    size = (24, 24)
    y, x = np.mgrid[:24, :24] - 11.5
    masks = np.repeat((np.hypot(x, y) < 8).astype(np.float32)[None], 4, axis=0)
    colors = masks[..., None] * np.linspace(0.2, 0.8, 4)[:, None, None, None] * np.ones(3)
    box = np.array([[-1.0] * 3, [1.0] * 3])
    train = Observations(ring(np.zeros(3), 1.0, 4, size), masks, colors)
    scene = Dataset(train, None, np.zeros(3), 1.0, box, np.array([0.0, 1, 0]))
    again, other = table.varied(scene, 1), table.varied(scene, 2)
    np.testing.assert_array_equal(again.train.masks, table.varied(scene, 1).train.masks)
    assert (again.train.masks != other.train.masks).any()
    assert 0 < (again.train.masks != masks).mean() < 0.1
    start, turned = (found - found.mean(0) for found in (scene.start(1).positions, again.start(1).positions))
    assert np.abs(start - turned).max() > 0.05
    np.testing.assert_allclose(np.linalg.norm(turned, axis=1), np.linalg.norm(turned[0]))
