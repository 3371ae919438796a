"""Peeled layers against sorted float64, on every driver, and their derivatives against central differences and along paths."""

import glass_cases as gc
import numpy as np
import pytest

from dressi.ad import functional as F
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.transform.gradient import gradient
from dressi.ad.types import VEC3, VEC4
from dressi.errors import InputError
from dressi.render.forms.antialias import ANTIALIAS
from dressi.render.forms.hard import HARD
from dressi.render.forms.outer import OUTER

SCENE = gc.glass()
TRUTH, COUNT = gc.sorted_picture(SCENE)


def test_picture_is_the_sorted_one():
    """Of five panes that pass through each other and through an opaque quad; no pixel counts a diagonal twice."""
    assert set(np.unique(COUNT)) == set(range(gc.PANES + 1))
    made = gc.drawn(SCENE, HARD)
    picture, missed = evaluate([made.picture, made.layers.peeled.missed])
    assert np.abs(picture[0] - TRUTH).max() <= 1e-9 and not missed.any()


def test_what_lies_behind_the_last_layer_is_told():
    made = gc.drawn(SCENE, HARD, layers=2)
    picture, missed = evaluate([made.picture, made.layers.peeled.missed])
    np.testing.assert_array_equal(missed[0] > 0, COUNT > 2)
    np.testing.assert_allclose(picture[0][COUNT <= 2], TRUTH[COUNT <= 2], atol=1e-9)


def test_silhouettes_of_all_layers_are_antialiased():
    """Nearer to the mean of 64 samples a pixel than the hard picture: at edges, and where panes pass through each other."""
    fine = gc.sorted_picture(SCENE, (gc.SIZE[0] * 8, gc.SIZE[1] * 8))[0]
    truth = fine.reshape(gc.SIZE[1], 8, gc.SIZE[0], 8, 3).mean((1, 3))
    (picture,) = evaluate([gc.drawn(SCENE, ANTIALIAS).picture])
    (unseamed,) = evaluate([gc.drawn(SCENE, ANTIALIAS, with_seams=False).picture])
    hard, soft, without = (np.abs(p - truth).mean() for p in (TRUTH, picture[0], unseamed[0]))
    assert soft < 0.95 * without < 0.4 * hard, (hard, soft, without)


@pytest.mark.parametrize("form", [HARD, ANTIALIAS], ids=["hard", "antialias"])
def test_gradient_is_the_central_difference_of_the_picture_drawn_again(form):
    made = gc.drawn(SCENE, form)
    error = made.picture - Variable(VEC3, gc.SIZE, data=np.roll(TRUTH, 3, 1)[None])
    loss = F.sum(F.dot(error, error))
    leaves = [made.position, made.colours, made.alphas]
    slopes = evaluate(gradient(loss, leaves))
    rng = np.random.default_rng(1)
    for leaf, slope in zip(leaves, slopes, strict=True):
        direction = rng.normal(size=leaf.shape) * ((1, 1, 0.1, 0.3) if leaf.vtype is VEC4 else 1)
        ends = [evaluate([loss], {leaf: leaf.data + h * direction})[0].item() for h in (1e-7, -1e-7)]
        assert (
            abs((ends[0] - ends[1]) / 2e-7 - (slope * direction).sum())
            <= 1e-5 * np.abs(slope * direction).sum()
        )


def test_forms_that_draw_no_layers_say_so():
    with pytest.raises(InputError, match="outer form draws no transparent"):
        gc.drawn(SCENE, OUTER)
    with pytest.raises(InputError, match="from 1 to 16, not 0"):
        gc.drawn(SCENE, HARD, layers=0)


@pytest.mark.vk
def test_drivers_draw_the_sorted_picture(run):
    (picture,) = run([gc.drawn(SCENE, HARD).picture])
    clear = gc.clear(SCENE)
    assert clear.mean() > 0.85
    np.testing.assert_allclose(picture[0][clear], TRUTH[clear], atol=1e-4)


@pytest.mark.vk
def test_gradient_integrates_to_the_loss(run):
    """Of balls whose outlines, back sides and lines of intersection move."""
    names = ("translation z", "scale", "smooth 0", "one ball")
    ratios = [one.integral / one.difference for one in gc.Balls((64, 64), 6).along(run, names)]
    assert len(ratios) == 4 and np.abs(np.array(ratios) - 1).max() < 0.05, ratios
    assert abs(np.median(ratios) - 1) <= 0.02, ratios
