"""What values show of themselves in notebooks."""

import base64
import io
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from PIL import Image

import dressi
from dressi import FLOAT, VEC3, F, NoDriverError, Variable, adam, notebook
from dressi.ad.graph.program import Program
from dressi.ad.show import svg
from dressi.config import shader_text
from dressi.figures import Figures
from dressi.notebook import svg as notebook_svg
from dressi.render import primitives, render
from dressi.render.fit.data.dataset import FitResult, Quality, Timing
from dressi.vk.plan.core.limits import PROFILES
from dressi.vk.plan.model.records import CPU
from dressi.vk.planning import PlanningEngine

NASTY = 'a<b>&"c</svg>'


def decoded(data: bytes | None) -> np.ndarray:
    assert data is not None
    return np.asarray(Image.open(io.BytesIO(data)))


def texts(svg: str | None) -> list[str]:
    """The texts of an SVG, which is well formed."""
    assert svg is not None
    return [e.text or "" for e in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


class Balance(HTMLParser):
    """Cells of tables; raises where tags are not closed in their order."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.cells: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in ("img", "br", "polyline", "rect", "path"):
            self.open.append(tag)
        self.cells += [""] if tag == "td" else []

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("polyline", "rect", "path"):
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "td" in self.open:
            self.cells[-1] += data


@pytest.fixture
def planned() -> PlanningEngine:
    image = Variable(VEC3, (16, 8), name=NASTY)
    engine = PlanningEngine(PROFILES["lavapipe"], CPU, shader_text)
    engine.set_loss(F.mean(F.square(F.length(image + F.shift(image, 1, 0)))))
    engine.set_optimizer(adam(0.1), [image])
    return engine


def test_computed_variables_show_their_graph():
    x = Variable(VEC3, (4, 3), name=NASTY)
    shown = texts((x * 2.0)._repr_svg_())
    assert NASTY in shown and "Mul" in shown and "with 2.0" in shown
    assert (x * 2.0)._repr_png_() is None and (x * 2.0)._repr_html_() is None


def test_a_large_graph_shows_what_is_near_its_result_and_counts_the_rest():
    x = Variable(FLOAT, name="far")
    y = x
    for _ in range(2000):
        y = F.sin(y) + x
    found = svg(y, graphviz=False, most=60)
    boxes = [t for t in texts(found) if t in ("Sin", "Add", "far")]
    assert len(boxes) <= 60 < len(boxes) + 2
    assert f"... {4001 - len(boxes)} more" in texts(found)
    assert "more" not in svg(F.sin(x), graphviz=False, most=60)


def test_image_leaves_show_their_data():
    values = np.zeros((4, 6, 3))
    values[0, :, 0] = 1.0
    values[1, :, 1] = 0.5  # of linear light
    image = Variable.of(values, name="image")
    pixels = decoded(image._repr_png_())
    grown = 128 // 4
    assert pixels.shape == (4 * grown, 6 * grown, 3) and image._repr_svg_() is None
    assert pixels[0, 0].tolist() == [255, 0, 0] and pixels[grown, 0].tolist() == [0, 188, 0]


@pytest.mark.parametrize(
    "values",
    [
        np.full((5, 7), np.nan),
        np.linspace(-3, 9, 35).reshape(5, 7),
        np.ones((3, 5, 7, 2)),
        np.arange(35).reshape(5, 7),
        np.ones((5, 7, 4)),
        np.zeros((2000, 5, 3)),
    ],
    ids=["nan", "range", "batch of two", "integers", "alpha", "tall"],
)
def test_every_kind_of_image_is_drawn(values: np.ndarray):
    pixels = decoded(Variable.of(values)._repr_png_())
    assert pixels.shape[0] <= notebook.LARGE
    if values.min() < 0:
        assert (pixels.min(), pixels.max()) == (0, 255)


def test_lists_show_a_box_and_no_picture():
    points = Variable.of(np.zeros((9, 3)), name="points")
    assert points._repr_png_() is None and texts(points._repr_svg_()) == ["points", "VEC3 9x1"]


def test_plans_are_tables_with_a_row_for_each_substage(planned: PlanningEngine):
    plan = planned.plan
    found = Balance(plan._repr_html_() or "")
    assert len(found.cells) == 6 * len(plan.sub_stages) + 5 * len(plan.images.slots)
    assert any(NASTY in cell for cell in found.cells)
    kib = [
        float(c.removesuffix(" KiB")) for c in found.cells[6 * len(plan.sub_stages) :] if c.endswith(" KiB")
    ]
    assert sum(kib) == pytest.approx(plan.counts["image_bytes"] / 1024, rel=0.02, abs=0.05 * len(kib))


def test_programs_show_graph_and_listing(planned: PlanningEngine):
    program = planned.program()
    page = program._repr_html_() or ""
    listed = re.search(r"<pre>(.*?)</pre>", page, re.DOTALL)
    assert listed is not None and "-&gt; step" in listed[1] and NASTY not in page
    assert "-> step" in texts(program._repr_svg_())
    assert texts(Program()._repr_svg_()) == []


@pytest.mark.one_driver
def test_meshes_and_pictures_show_themselves(device, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DRESSI_DEVICE", device.name)
    cube = primitives.cube()
    cube.name = NASTY
    pixels = decoded(cube._repr_png_())
    assert pixels.shape == (240, 320, 3) and 0.05 < (pixels > 0).mean() < 0.9
    page = cube._repr_html_() or ""
    image = re.search(r'src="data:image/png;base64,([^"]*)"', page)
    assert image is not None and (decoded(base64.b64decode(image[1])) == pixels).all()
    assert NASTY not in page and "8 vertices" in page
    drawn = render(cube, size=(64, 128))
    assert decoded(drawn._repr_png_()).shape == (128, 64, 3)
    assert (decoded(drawn._repr_png_()) == np.round(255 * drawn.srgb)).mean() > 0.99
    moving = render(cube, positions=Variable.of(cube.positions, name="moving"), size=(32, 32))
    assert "moving" in texts(moving._repr_svg_())
    result = FitResult(cube, [("shape", 1.0), ("shape", 0.1), ("texture", 0.3)], {}, Timing(steps=3), True)
    result.quality.append(Quality(3, "shape", 0.987, None))
    cells = Balance(result._repr_html_() or "").cells
    assert "0.9870" in cells and "0.1" in cells and result._repr_png_() is not None


def test_a_mesh_without_a_device_shows_its_counts(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: Any, **__: Any) -> None:
        raise NoDriverError("there is <no> driver")

    monkeypatch.setattr(notebook, "render", refuse)
    page = primitives.cube()._repr_html_() or ""
    assert "there is &lt;no&gt; driver" in page and "8 vertices" in page
    with pytest.warns(UserWarning, match="no png figure of this Mesh: there is <no> driver"):
        assert primitives.cube()._repr_png_() is None


def test_a_figure_never_raises():
    class Broken(Figures):
        pass

    @notebook_svg.register(Broken)  # type: ignore[attr-defined]
    def _(value: Broken) -> str:
        raise ZeroDivisionError

    with pytest.warns(UserWarning, match="no svg figure of this Broken: ZeroDivisionError"):
        assert Broken()._repr_svg_() is None
    assert Broken()._repr_html_() is None


def test_notebooks_find_the_methods_and_no_others():
    """Swizzles answer to any attribute of one to four letters alone."""
    x = Variable.of(np.zeros((2, 2, 3)))
    assert not hasattr(x, "_ipython_display_") and not hasattr(x, "_repr_mimebundle_")
    assert all(issubclass(cls, Figures) for cls in (Variable, Program, dressi.render.Mesh, FitResult))


@pytest.mark.release
@pytest.mark.one_driver
def test_a_notebook_runs_and_shows_figures(device, monkeypatch: pytest.MonkeyPatch, tmp_path):
    nbformat = pytest.importorskip("nbformat", reason="pip install 'dressi[notebook]'")
    executor = pytest.importorskip("nbconvert.preprocessors", reason="pip install 'dressi[notebook]'")
    monkeypatch.setenv("DRESSI_DEVICE", device.name)
    book = nbformat.v4.new_notebook()
    code = [
        "from dressi import *; from dressi.render import *; primitives.cube()",
        "F.sin(Variable(name='angle'))",
    ]
    book.cells = [nbformat.v4.new_code_cell(text) for text in code]
    executor.ExecutePreprocessor(timeout=120).preprocess(book, {"metadata": {"path": str(tmp_path)}})
    kinds = [set(cell.outputs[-1].data) for cell in book.cells]
    assert kinds == [{"text/plain", "text/html", "image/png"}, {"text/plain", "image/svg+xml"}]
