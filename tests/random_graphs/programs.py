"""Random programs: a graph, a loss, its gradients, optimizers, tangents."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dressi import FLOAT, MAT2, MAT3, MAT4, VEC2, VEC3, VEC4, GraphError, Variable, gradient, jvp, optim
from dressi.ad.program import Program

from .contractions import CONTRACTIONS
from .coverage import F
from .operations import OPERATIONS, Operation
from .pool import VECTORS, Pool, Refused
from .rasters import SUMS
from .textures import MORE

TYPES = (FLOAT, FLOAT, VEC2, VEC3, VEC3, VEC4, MAT2, MAT3, MAT4)


EVERY = (*OPERATIONS, *MORE, *CONTRACTIONS, *SUMS)


def random_program(
    seed: int, count: int | None = None, operations: Sequence[Operation] = OPERATIONS
) -> tuple[Program, int]:
    """A program of about ``count`` operations, and how many steps to run. Equal arguments give equal programs."""
    rng = np.random.default_rng(seed)
    p = Pool(rng)
    for k in range(5):
        size, batch = p.domain()
        p.add(p.leaf(FLOAT if k == 0 else p.among(TYPES), size, batch, parameter=k < 3))
    p.add(p.leaf(p.among([FLOAT, VEC2, VEC3]), (6, 4), p.among([1, p.batch]), parameter=True))
    count = count or int(p.among([3, 5, 7, 10, 14, 22]))
    made = tried = 0
    while made < count and tried < 12 * count:
        tried += 1
        try:
            p.add(p.among(operations)(p))
            made += 1
        except (Refused, GraphError):  # GraphError: domains or types that do not go together
            continue
    last = p.values[-3:]
    loss = sum((small(v) for v in last), start=F.constant(0.0))
    outputs = {"loss": loss, "last": p.values[-1], "middle": p.values[len(p.values) // 2]}
    if p.ints:
        outputs["index"] = p.ints[-1]
    parameters = [x for x in p.parameters if p.chance(0.8)] or p.parameters[:1]
    gradients = gradient(loss, parameters)
    if p.chance(0.25):
        tangent = gradients[0] if p.chance(0.5) else F.zeros_like(parameters[0]) + p.number()
        outputs["tangent"] = _tangent(loss, parameters[0], tangent)
    if p.chance(0.1):
        outputs["curvature"] = _second(gradients[0], parameters[0])
    updates = _updates(p, parameters, gradients)
    outputs = {name: v for name, v in outputs.items() if v.creator is not None}
    return Program(outputs, updates), int(p.among([1, 2, 3]))


def small(v: Variable) -> Variable:
    """A FLOAT of one texel that depends smoothly on all of a value."""
    if v.vtype.is_matrix:
        v = F.hadamard(v, v)
        v = F.column(v, 0) + F.column(v, 1) * 0.5
    return F.mean(F.dot(v, v) if v.vtype in VECTORS else F.sin(v))


def _tangent(loss: Variable, x: Variable, tangent: Variable) -> Variable:
    """The derivative along a tangent; the tangent itself where a Function has no forward derivative."""
    try:
        return jvp([loss], [x], [tangent])[0]
    except GraphError:
        return tangent


def _second(g: Variable, x: Variable) -> Variable:
    """The gradient of a gradient; the gradient itself where a Function has no second derivative."""
    try:
        return gradient(small(g), [x])[0]
    except GraphError:
        return g


def _updates(p: Pool, parameters: list[Variable], gradients: list[Variable]):
    rate = p.among([0.05, 0.01, optim.exponential(0.05, 0.5, 2), optim.cosine(0.05, 0.01, 3)])
    kinds = [
        optim.sgd(rate),
        optim.sgd(rate, momentum=0.9),
        optim.sgd(rate, momentum=0.8, nesterov=True),
        optim.adam(rate, eps=1e-2),
        optim.adamw(rate, eps=1e-2),
        optim.adam_uniform(rate, eps=1e-2),
        optim.amsgrad(rate, eps=1e-2),
        optim.chain(optim.clip_by_value(0.5), optim.sgd(rate)),
    ]
    optimizer = p.among(kinds)
    if len(parameters) > 1 and p.chance(0.2):
        optimizer = optim.per_parameter({parameters[0]: p.among(kinds)}, default=p.among(kinds))
    if p.chance(0.15):
        return tuple((x, x - 0.1 * g) for x, g in zip(parameters, gradients, strict=True))
    built = optimizer.build(parameters, gradients)
    updates = [*zip(parameters, built.parameters, strict=True), *built.updates]
    if p.chance(0.15):  # a leaf that remembers another
        x = parameters[0]
        data = np.zeros(x.shape, np.float32)
        updates.append((Variable(x.vtype, x.size, x.batch, channels=x.channels, data=data, name="before"), x))
    return tuple(updates)
