"""Small graphs that are one Function each: what they know of their value."""

import numpy as np
import pytest

from dressi.ad import functional as F
from dressi.ad.graph import Variable
from dressi.ad.transform.fused import fused
from dressi.ad.types import FLOAT, INT


@fused
def nearest(face: Variable, x: Variable) -> Variable:
    return F.select(F.less(face, 0), F.constant(-1.0), F.sqrt(x) + 2.0)


@pytest.mark.parametrize(("face", "value"), [(-1, -1.0), (3, None)])
def test_a_value_is_known_where_the_graph_knows_it(face, value):
    made = nearest(Variable(INT, (4, 4)), Variable(FLOAT, (4, 4))).creator
    found = made.known_value({0: np.array(face)})
    assert found is None if value is None else found == value
    assert made.known_value({}) is None
