"""What a swapchain is made with, from what surfaces offer."""

import numpy as np
import pytest

from dressi.vk.run.present.choices import (
    choose_count,
    choose_format,
    choose_mode,
    choose_size,
    clip,
    covered,
    overlap,
)

BGRA, RGBA, BGRA_SRGB, HALF = 44, 37, 50, 97


def test_codes_are_kept_by_a_unorm_format():
    assert choose_format([(BGRA_SRGB, 0), (RGBA, 0), (BGRA, 0)]) == BGRA
    assert choose_format([(BGRA_SRGB, 0), (RGBA, 0)]) == RGBA
    assert choose_format([(0, 0)]) == BGRA  # any format
    # sRGB formats would encode once more; other colour spaces show other colours.
    assert choose_format([(BGRA_SRGB, 0), (HALF, 1000104002), (BGRA, 1000104001)]) is None


def test_frames_are_whole_unless_speed_is_asked_for():
    immediate, mailbox, fifo, relaxed = 0, 1, 2, 3
    assert choose_mode([immediate, mailbox, fifo, relaxed], wait=True) == mailbox
    assert choose_mode([immediate, mailbox, fifo], wait=False) == immediate
    assert choose_mode([mailbox, fifo], wait=False) == mailbox
    assert choose_mode([fifo, relaxed, immediate], wait=True) == fifo


def test_there_is_an_image_to_draw_into_while_others_are_shown():
    assert choose_count(1, 0) == 3
    assert choose_count(3, 8) == 4
    assert choose_count(2, 2) == 2
    assert choose_count(1, 2) == 2


def test_the_size_is_the_surfaces_or_the_windows():
    least, most = (1, 1), (4096, 2048)
    assert choose_size((640, 480), (9, 9), least, most) == (640, 480)
    unknown = (0xFFFFFFFF, 0xFFFFFFFF)
    assert choose_size(unknown, (800, 600), least, most) == (800, 600)
    assert choose_size(unknown, (8000, 6000), least, most) == (4096, 2048)
    assert choose_size(unknown, (0, 600), least, most) == (0, 0)
    assert choose_size((0, 480), (800, 600), (0, 0), (0, 0)) == (0, 0)


def test_what_lies_outside_of_the_window_is_cut_off():
    assert clip((8, 4), (0, 0, 16, 8), (16, 8)) == ((0, 0, 8, 4), (0, 0, 16, 8))
    assert clip((8, 4), (-8, 4, 16, 8), (16, 8)) == ((4, 0, 4, 2), (0, 4, 8, 4))
    for place in ((16, 0, 4, 4), (-4, 0, 4, 4), (0, 8, 4, 4), (0, -9, 4, 9), (0, 0, 0, 4), (0, 0, -4, 4)):
        assert clip((8, 4), place, (16, 8)) is None


def test_parts_are_never_empty_and_never_outside():
    rng = np.random.default_rng(3)
    for _ in range(2000):
        source = tuple(int(n) for n in rng.integers(1, 40, 2))
        size = tuple(int(n) for n in rng.integers(1, 40, 2))
        place = (*(int(n) for n in rng.integers(-50, 50, 2)), *(int(n) for n in rng.integers(1, 90, 2)))
        parts = clip(source, place, size)
        seen = overlap(place, (0, 0, *size))
        assert (parts is not None) == seen
        if parts is not None:
            for (x, y, width, height), (w, h) in zip(parts, (source, size), strict=True):
                assert width > 0 and height > 0 and x >= 0 and y >= 0 and x + width <= w and y + height <= h


@pytest.mark.parametrize(
    ("place", "whole"),
    [((0, 0, 8, 8), True), ((-1, 0, 9, 9), True), ((1, 0, 8, 8), False), ((0, 0, 8, 7), False)],
)
def test_a_layer_that_covers_the_window_spares_the_black(place, whole):
    assert covered([place], (8, 8)) == whole
