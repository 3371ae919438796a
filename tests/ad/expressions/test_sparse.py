"""Sparse Jacobians: their entries, and how few products hold them."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

from dressi import FLOAT, INT, F, GraphError, Variable, evaluate, gradient, jvp

numbers = np.random.default_rng(0)
x, v = Variable.of(numbers.normal(size=(5, 6))), Variable.of(numbers.normal(size=(5, 6, 3)))
batch = Variable.of(numbers.normal(size=(2, 5, 6)), FLOAT, batched=True)
table, index = Variable.of(numbers.normal(size=(1, 9, 2))), Variable.of([[3, 8, 0, 5]], INT)
p = Variable.of(0.5)
chain = [Variable.of(float(k), name=f"x{k}") for k in numbers.normal(size=40)]
bent = F.square(F.shift(x, 1, 1)) * F.shift(x, 0, 1)


def dense(outputs, inputs):
    columns = []
    for k, given in enumerate(inputs):
        for unit in np.eye(given.data.size):
            tangents = [None] * len(inputs)
            tangents[k] = Variable(given.vtype, given.size, given.batch, data=unit.reshape(given.shape))
            columns.append(np.concatenate([np.ravel(y) for y in evaluate(jvp(outputs, inputs, tangents))]))
    return np.transpose(columns)


@pytest.mark.parametrize(
    ("outputs", "inputs", "entries", "sweeps"),
    [
        ([10.0 * (b - F.square(a)) for a, b in pairwise(chain)], chain, 78, (0, 0)),
        ([v * F.dot(v, v) * p, F.sin(v.x)], [v, p], 390, (0, 0)),
        ([F.shift(x, 1, 0) * x], [x], 55, (2, 0)),
        ([F.shift(v, 1, 0) - v, F.square(F.shift(v, 0, 1) * x)], [v, x], 345, (2, 0)),
        ([F.square(x), F.mean(F.square(x))], [x], 60, (1, 1)),
        ([F.sin(x) * p, F.shift(x, 1, 1) * p], [x, p], 120, (2, 0)),
        ([F.shift(batch, 1, 0) * x, F.sum(batch, "n")], [batch, x], 180, (3, 0)),
        ([F.lookup(table, index) * F.lookup(table, F.add(index, 1))], [table], 14, (0, 1)),
        (gradient(F.sum(bent), [x]), [x], 60, (3, 0)),
        ([F.sum(F.square(x))], [x], 30, (0, 1)),
        ([F.stop_gradient(x)], [x], 0, (0, 0)),
    ],
)
def test_entries_are_those_of_the_dense_jacobian(outputs, inputs, entries, sweeps):
    found = F.sparse_jacobian(outputs, inputs)
    values = found.values(evaluate(found.products))
    expected = dense(outputs, inputs)
    assert_allclose(
        csr_array((values, found.indices, found.indptr), found.shape).toarray(), expected, rtol=1e-5
    )
    assert np.count_nonzero(expected) <= len(values) == entries
    assert found.sweeps == sweeps


def test_bad_input():
    with pytest.raises(GraphError, match="an input twice"):
        F.sparse_jacobian(x, [x, x])
    with pytest.raises(GraphError, match="each input of a Jacobian is a float Variable"):
        F.sparse_jacobian(x, index)
    with pytest.raises(GraphError, match="more than the 5,000,000 whose texels"):
        y = Variable(FLOAT, (3000, 2000))
        F.sparse_jacobian(F.shift(y, 1, 0), y)
