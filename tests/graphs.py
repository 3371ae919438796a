"""Graphs and engines for tests. Random graphs: pixels, fetches, reductions, gathers and scatters, of several sizes and batches."""

from dataclasses import replace
from math import inf

import numpy as np

from dressi import FLOAT, INT, VEC2, VEC3, VEC4, DressiAD, F, Variable, VType, gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.program import Program
from dressi.vk.plan.model.device import DeviceModel

SIZE, BATCH = (7, 5), 2


def optimising(device, loss, optimizer, parameters, **options) -> DressiAD:
    """An engine that minimises a loss."""
    ad = DressiAD(device, **options)
    ad.set_loss(loss)
    ad.set_optimizer(optimizer, parameters)
    return ad


def weighing(
    model: DeviceModel,
    *,
    fetch: float | None = None,
    store: float | None = None,
    stage: float | None = None,
    lanes: int = 0,
) -> DeviceModel:
    """The model with these planner's quantities, in operations, instead of its own; 0 lanes: its own."""
    changed = replace(model, lanes=lanes or model.lanes)
    if fetch is not None:
        changed = replace(changed, fetch_rate=model.rate / fetch if fetch else inf)
    if store is not None:
        kind = "image_store_rate" if model.prefers_dispatches else "store_rate"
        changed = replace(changed, **{kind: model.rate / store if store else inf})
    if stage is not None:
        changed = replace(changed, render_pass=stage * changed.operation, barrier=0.0)
    return changed


def program_of(outputs) -> Program:
    return Program({f"output {k}": v for k, v in enumerate(outputs)})


def check_values(run, outputs, bound: float) -> None:
    """Runs a step. Its values are those in float64 but for a part of the largest."""
    run.run()
    run.wait()
    for v, expected in zip(outputs, evaluate(outputs), strict=True):
        error = np.abs(run.recv(v) - expected).max() / max(np.abs(expected).max(), 1e-30)
        assert error < bound, (v, error / 2.0**-24)


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


def large_program(shape: str, count: int = 10_000) -> Program:
    """About ``count`` Functions as one "chain", as a tree ("wide"), as "updates" of a thousand leaves, or as "mixed"
    pixels, fetches, reductions and scatters."""
    rng = np.random.default_rng(0)
    image = [
        _leaf(rng, VEC3, (8, 8), 2, f"image{k}") for k in range(count // 10 if shape == "updates" else 8)
    ]
    if shape == "chain":
        y = image[0]
        for _ in range(count // 2):
            y = F.sin(y) + image[0]
        return Program({"y": y})
    if shape == "wide":
        terms = [F.sin(image[k % 8]) * (k + 1.0) for k in range(count // 3)]
        while len(terms) > 1:
            terms = [a + b for a, b in zip(terms[::2], terms[1::2])] + terms[len(terms) // 2 * 2 :]
        return Program({"y": terms[0]})
    if shape == "updates":
        updates = []
        for k, x in enumerate(image):
            y = x
            for n in range(5):
                y = F.sin(y) + image[(7 * k + n) % len(image)]
            updates.append((x, y))
        return Program({}, tuple(updates))
    index = Variable(INT, (8, 8), 2, data=rng.integers(-1, 64, (2, 8, 8)), name="index")
    pool = list(image)
    while len(pool) < count / 1.6:
        a, b = (pool[k] for k in rng.integers(max(len(pool) - 40, 0), len(pool), 2))
        kind = rng.random()
        if kind < 0.5:
            y = a * 0.5 + b
        elif kind < 0.7:
            y = F.sin(a) * b.x
        elif kind < 0.92:
            y = F.shift(a, 1, 0)
        elif kind < 0.96:
            y = F.sum(a) + b
        else:
            y = F.scatter_add(a, index, (8, 8)) + b
        pool.append(y)
    updates = tuple((x, y * 0.1) for x, y in zip(image, pool[-8:], strict=True))
    return Program({"y": sum(pool[-40:], start=F.constant(0.0))}, updates)


def masked_program(seed: int, size=(37, 21), batch: int = 2, triangles: int = 2, count: int = 11) -> Program:
    """Like ``random_program``, of values over the pixels of rasters, most of them settled where nothing is hit.

    The second raster draws the triangles of the first behind it, the third others. No triangle: nothing is hit.
    """
    rng = np.random.default_rng(seed)
    corners = rng.uniform(-1, 1, (2, batch, 1, 3 * max(triangles, 1), 4))
    corners[..., 2:] = (0.5, 1.0) if triangles else (2.0, 1.0)
    first, other = (
        Variable(VEC4, (corners.shape[3], 1), batch, data=c.astype(np.float32), name=n)
        for c, n in zip(corners, ("first", "other"), strict=True)
    )
    front = F.rasterize(first, size=size, fragment=lambda face: (F.to_float(face) * 0.1, face < 5))
    layer = F.select(front < 0, 7.0, F.abs(F.to_float(front)))

    def further(face):
        return F.to_float(face) * 0.1, F.logical_and(face < 5, F.greater(F.to_float(face), layer))

    behind = F.rasterize(first, size=size, fragment=further)
    faces = [front, behind, F.rasterize(other, size=size)]
    parameters = [_leaf(rng, VEC3, size, 1, "image"), _leaf(rng, FLOAT, (6, 3), 1, "table")]
    ramp = F.to_float(F.linear_index(size, batch)) * 0.001
    outside = (0.0, 0.25, (0.5, -1.0, 2.0))
    pool = [F.lookup(parameters[1], f) for f in faces] + [ramp, parameters[0]]
    for _ in range(count):
        x, y = (pool[rng.integers(len(pool))] for _ in range(2))
        face = faces[rng.integers(3)]
        hit = F.greater_equal(face, 0) if rng.random() < 0.7 else F.less(ramp, 0.3)
        k = rng.integers(7)
        if k < 3:
            z = F.select(
                hit, F.sin(x), outside[rng.integers(3)] if x.vtype is VEC3 else 0.25 * int(rng.integers(3))
            )
        elif k == 3:
            z = F.shift(x, 1, 2) * 0.5
        elif k == 4:
            a, b = (x, y) if x.vtype is FLOAT else (F.dot(x, x), y)
            z = a * b
        elif k == 5:
            z = F.sigmoid(x) if rng.random() < 0.3 else F.floor(x * 3.0) * 0.5
        else:
            value = F.select(hit, x, 0.0)
            z = F.lookup(F.scatter_add(value * 0.1, F.clamp(face, -1, 3), (4, 1), batch), face)
        pool.append(z if z.domain == ramp.domain else F.expand(z, batch))
    total = sum((F.mean(F.dot(v, v) if v.vtype is VEC3 else v) for v in pool[-4:]), start=F.constant(0.0))
    updates = tuple((p, p - 0.1 * g) for p, g in zip(parameters, gradient(total, parameters), strict=True))
    return Program({"loss": total, "last": pool[-1], "masked": pool[5]}, updates)
