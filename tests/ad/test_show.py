"""Listings and drawings."""

import xml.etree.ElementTree as ElementTree

import numpy as np

from dressi.ad import functional as F
from dressi.ad.graph import Variable
from dressi.ad.ops.image.raster import rasterize
from dressi.ad.program import Program
from dressi.ad.show import dot, listing, svg
from dressi.ad.types import FLOAT, INT, VEC3, VEC4


def program():
    x = Variable(VEC3, (4, 3), 2, name="x")
    index = Variable(INT, (4, 3), name="index")
    loss = F.sum(F.sum(F.sum(F.length(F.lookup(x, index) * 2.0 - x), "x"), "y"), "n")
    position = Variable(VEC4, (3, 1), name="position", data=np.zeros((1, 1, 3, 4)))
    ids = rasterize(position, size=(8, 8), fragment=lambda face: (F.to_float(face), None))
    return Program({"loss": loss, "ids": ids}, ((x, x * 0.5), (index, index)))


def test_the_listing_says_what_is_computed_from_what():
    assert listing(Program({"loss": program().outputs["loss"]})) == (
        "$x      VEC3 4x3 x 2   leaf\n"
        "$index  INT 4x3        leaf\n"
        "%0      VEC3 4x3 x 2   Lookup($x[], $index)\n"
        "%1      VEC3 4x3 x 2   Mul(%0, 2.0)\n"
        "%2      VEC3 4x3 x 2   Sub(%1, $x)\n"
        "%3      FLOAT 4x3 x 2  Length(%2)\n"
        "%4      FLOAT 1x3 x 2  Sum<axis=x>(%3[])\n"
        "%5      FLOAT 1x1 x 2  Sum<axis=y>(%4[])\n"
        "%6      FLOAT 1x1      Sum<axis=n>(%5[])  : loss\n"
    )


def test_updates_and_the_rasterizer_are_listed():
    text = listing(program())
    assert ": -> x" in text and "Rasterize<" in text and "$position[v]" in text and "-> index" in text


def test_variables_can_be_listed_without_a_program():
    x = Variable(FLOAT, name="x")
    unnamed = Variable(FLOAT)
    assert (
        listing(x + unnamed)
        == "$x     FLOAT 1x1  leaf\n$leaf  FLOAT 1x1  leaf\n%0     FLOAT 1x1  Add($x, $leaf)  : out0\n"
    )
    assert listing([F.constant(1.0)]) == "1.0  FLOAT 1x1  Constant(1.0)  : out0\n"


def test_dot_has_every_node_once_and_dashes_fetches():
    text = dot(program())
    assert text.startswith("digraph {") and text.endswith("}\n")
    assert (
        text.count("Lookup") == 1 and '"$x" -> "%0" [style=dashed]' in text and '"$index" -> "%0"\n' in text
    )
    assert "Constant" not in text and "with 2.0" in text


def test_svg_without_graphviz_is_well_formed():
    root = ElementTree.fromstring(svg(program(), graphviz=False))
    texts = [e.text for e in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "loss" in texts and "Lookup" in texts
    for rect in list(root.iter("{http://www.w3.org/2000/svg}rect"))[1:]:
        assert float(rect.get("x", -1)) >= 0 and float(rect.get("x", 0)) < float(root.get("width", 0))


def test_svg_escapes():
    x = Variable(FLOAT, name="a<b&c")
    assert ElementTree.fromstring(svg(x + 1.0, graphviz=False)) is not None
    assert "svg" in svg(x + 1.0)
