"""Random graphs for tests: pixels, fetches, reductions, gathers and scatters, of several sizes and batches."""

import numpy as np

from dressi.ad import functional as F
from dressi.ad.gradient import gradient
from dressi.ad.graph import Variable
from dressi.ad.program import Program
from dressi.ad.types import FLOAT, INT, VEC2, VEC3, VType

SIZE, BATCH = (7, 5), 2


def _leaf(rng: np.random.Generator, vtype: VType, size, batch, name) -> Variable:
    shape = (batch, size[1], size[0], *vtype.shape)
    return Variable(vtype, size, batch, data=rng.uniform(-1, 1, shape).astype(np.float32), name=name)


def random_program(seed: int, count: int = 25) -> Program:
    """A program of about ``count`` operations with a loss, its gradient and updates. Values stay of order one."""
    rng = np.random.default_rng(seed)
    parameters = [
        _leaf(rng, VEC3, SIZE, 1, "image"),
        _leaf(rng, VEC2, (1, 1), BATCH, "scalars"),
        _leaf(rng, FLOAT, (6, 3), 1, "table"),
    ]
    index = Variable(INT, SIZE, BATCH, data=rng.integers(-1, 18, (BATCH, SIZE[1], SIZE[0])), name="index")
    pool = [*parameters[:2], _leaf(rng, FLOAT, SIZE, BATCH, "constant"), F.lookup(parameters[2], index)]
    full = [v for v in pool if v.size == SIZE]
    for _ in range(count):
        x = pool[rng.integers(len(pool))]
        y = full[rng.integers(len(full))]
        k = rng.integers(10)
        if k == 0:
            z = F.sin(x)
        elif k == 1:
            z = F.dot(x, x) if x.vtype.components > 1 else F.square(x)
            z = z * 0.3
        elif k == 2:
            z = F.shift(y, int(rng.integers(-2, 3)), int(rng.integers(-2, 3)), border="clamp")
        elif k == 3:
            z = F.sum(y, "y") * 0.2 if rng.random() < 0.5 else F.mean(y)
        elif k == 4:
            z = F.sigmoid(x)
        elif k == 5:
            z = F.scatter_add(y * 0.1, index, SIZE)
        elif k == 6:
            z = F.to_float(F.linear_index(SIZE)) * 0.01 + x.x * 0.1
        else:
            a, b = (x, y) if x.vtype.components in (1, y.vtype.components) else (F.dot(x, x), y)
            z = (a + b) * 0.6 if k < 9 else a * b
        pool.append(z)
        if z.size == SIZE:
            full.append(z)
    total = sum(
        (F.mean(F.dot(v, v) if v.vtype.components > 1 else v) for v in pool[-4:]), start=F.constant(0.0)
    )
    gradients = gradient(total, parameters)
    updates = tuple((p, p - 0.1 * g) for p, g in zip(parameters, gradients, strict=True))
    return Program({"loss": total, "last": full[-1]}, updates)
