"""Markup, numbers, charts and timelines."""

import doctest
import importlib
import json
import pkgutil
import re

import numpy as np
import pytest

import dressi.report
from dressi.report.parts.charts import MOST_POINTS, Series, line_chart
from dressi.report.parts.markup import Markup, element, number, table
from dressi.report.parts.timeline import StageRow, timeline

MODULES = sorted(m.name for m in pkgutil.walk_packages(dressi.report.__path__, "dressi.report."))


@pytest.mark.parametrize("name", ["dressi.report", *MODULES])
def test_examples_run(name: str):
    module = importlib.import_module(name)
    assert module.__doc__
    found = doctest.testmod(module, extraglobs={"np": np}, optionflags=doctest.ELLIPSIS)
    assert found.failed == 0


def test_text_never_becomes_markup():
    html = element("p", "<b>", ["&", None, Markup("<i>")], title='"<', hidden=True, lang=None)
    assert html == '<p title="&quot;&lt;" hidden>&lt;b&gt;&amp;<i></p>'


@pytest.mark.parametrize("value", [0.0, 1e-9, 0.00123, 0.5, 1.0, 12.34, 999.9, 1234567.0, -3.21])
def test_numbers_keep_three_digits(value: float):
    assert float(number(value).replace(",", "")) == pytest.approx(value, rel=6e-3)


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), "text", True])
def test_what_is_no_number_is_a_dash(value: object):
    assert number(value) == "–"


def points_of(html: str) -> list[list[list[float | None]]]:
    text = re.search(r'data-chart="([^"]*)"', html)
    assert text is not None
    return json.loads(text[1].replace("&quot;", '"'))["series"]


def test_a_curve_goes_where_its_values_are():
    html = line_chart("T", [Series("a", [0, 1, 2], [0.0, 1.0, 0.5])], x_label="x", y_label="y", zero=True)
    path = re.search(r'<path d="(M[^"]*)" class="s0">', html)
    assert path is not None
    numbers = [float(n) for n in re.findall(r"-?[\d.]+", path[1].replace("h0", ""))]
    x, y = numbers[::2], numbers[1::2]
    assert x == [0, 500, 1000] and y[0] == 1000 and y[1] < y[2] < y[0]
    # The middle value lies half way between the others.
    assert y[2] == pytest.approx((y[0] + y[1]) / 2, abs=0.1)


def test_gaps_and_values_without_a_logarithm_are_left_out():
    html = line_chart(
        "T", [Series("a", range(5), [1.0, 0.0, float("nan"), 0.1, None])], x_label="x", y_label="y", log=True
    )
    assert points_of(html) == [[[0, 1.0], [1, None], [2, None], [3, 0.1], [4, None]]]
    assert html.count("h0") >= 2


def test_long_curves_are_means_of_stretches():
    values = [float(k % 2) for k in range(10_000)]
    html = line_chart("T", [Series("a", range(10_000), values)], x_label="x", y_label="y")
    (points,) = points_of(html)
    assert len(points) == MOST_POINTS and {y for _, y in points} == {0.5}


@pytest.mark.parametrize("values", [[], [None], [float("nan"), -1.0]])
def test_a_chart_of_nothing_says_so(values: list):
    html = line_chart("T", [Series("a", range(len(values)), values)], x_label="x", y_label="y", log=True)
    assert "no values" in html


@pytest.mark.parametrize("values", [[3.0, 3.0], [0.0, 0.0], [1e-30, 1e30], [5.0]])
@pytest.mark.parametrize("log", [False, True])
def test_charts_of_unusual_ranges_are_drawn(values: list[float], log: bool):
    html = line_chart("T", [Series("a", range(len(values)), values)], x_label="x", y_label="y", log=log)
    assert "nan" not in html and "inf" not in html.replace("info", "")


def test_strips_have_the_shares_of_their_stages():
    stages = [StageRow("raster 8x8", "A", 3.0, 1.0, 100), StageRow("compute 8x8", "B", 1.0, 1.0, 300)]
    html = timeline(stages)
    shares = [float(share) for share in re.findall(r"flex-grow:([\d.]+)", html)]
    assert shares == [750, 250, 250, 750]
    assert "4.00 ms measured" in html and "400 bytes moved" in html


def test_without_timestamps_the_prediction_is_shown_and_said():
    html = timeline([StageRow("raster 8x8", "A", None, 2.0, 100)])
    assert "2.00 ms predicted" in html


def test_a_row_of_one_cell_heads_those_below():
    html = table(["a", "b"], [["all"], [1, 2]])
    assert (
        '<th colspan="2" scope="rowgroup">all</th>' in html
        and '<th scope="row">1</th><td class="n">2</td>' in html
    )
