"""The columns of J^T J, made one after another, against the products."""

import numpy as np
import pytest

from dressi import F, Variable
from dressi.ad.evaluate import evaluate
from dressi.ad.least_squares import Jacobian
from dressi.ad.least_squares.linear.direct import Columns
from dressi.ad.types import FLOAT, INT, VEC2


@pytest.mark.parametrize("independent", [False, True])
def test_the_matrix_multiplies_like_the_jacobian(independent: bool):
    rng = np.random.default_rng(0)
    x = Variable(FLOAT, (1, 1), 3, name="x", data=rng.normal(size=(3, 1, 1)))
    y = Variable(VEC2, (1, 1), 3, name="y", data=rng.normal(size=(3, 1, 1, 2)))
    z = Variable(FLOAT, (1, 1), 3, channels=2, name="z", data=rng.normal(size=(3, 2, 1, 1)))
    ramp = Variable(FLOAT, (4, 2), 3, data=rng.normal(size=(3, 2, 4)))
    unknowns, residuals = [x, y, z], [F.sin(ramp * x) + y.x * y.y, ramp * F.dot(y, y) + x, ramp * z - x * z]
    if not independent:
        residuals.append(F.sum(x * y.x, "n") - 1.0)
    jacobian = Jacobian(residuals, unknowns)
    probe = Variable(INT, name="probe", data=np.zeros((1, 1, 1), np.int64))
    columns = Columns(jacobian, probe, independent)
    assert columns.count == (5 if independent else 15)
    kept = [
        Variable(v.vtype, v.size, v.batch, channels=v.channels, name=f"d{k}", data=np.zeros(v.shape))
        for k, v in enumerate(unknowns)
    ]
    updates = columns.updates(kept)
    values = {leaf: np.asarray(leaf.data) for leaf, _ in updates}
    for _ in range(columns.count):
        found = evaluate([value for _, value in updates], values)
        values = dict(zip(values, found, strict=True))
    p = [
        Variable(v.vtype, v.size, v.batch, channels=v.channels, data=rng.normal(size=v.shape))
        for v in unknowns
    ]
    mine = evaluate(columns(p), {leaf: value for leaf, value in values.items() if leaf not in {probe, *kept}})
    for a, b in zip(mine, evaluate(jacobian.reverse(jacobian.forward(p))), strict=True):
        assert a == pytest.approx(b, rel=1e-6, abs=1e-9)
    # The diagonal, by its entries.
    for k, leaf in enumerate(kept):
        for tile in range(3):
            for c in range(leaf.vtype.components * leaf.channels):
                unit = [np.zeros(v.shape) for v in unknowns]
                unit[k].reshape(3, -1)[tile, c] = 1.0
                e = [
                    Variable(v.vtype, v.size, v.batch, channels=v.channels, data=u)
                    for v, u in zip(unknowns, unit, strict=True)
                ]
                entry = evaluate(jacobian.reverse(jacobian.forward(e)))[k].reshape(3, -1)[tile, c]
                assert values[leaf].reshape(3, -1)[tile, c] == pytest.approx(entry, rel=1e-6)
