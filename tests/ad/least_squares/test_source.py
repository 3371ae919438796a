"""Energies as C headers: they are compiled, and solve as a device does."""

import ctypes
import re
import shutil
import subprocess

import numpy as np
import pytest
from graphs import optimising
from numpy.testing import assert_allclose

from dressi import F, LevenbergMarquardt, Variable, least_squares
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.types import INT, MAT3, VEC2, VEC3
from dressi.errors import GraphError

pytestmark = pytest.mark.one_driver


def chain():
    """A list with computed values in front of lookups, some of them of no entry, and a robust kernel."""
    rng = np.random.default_rng(3)
    x = Variable.of(0.1 * rng.normal(size=40), name="x")
    first, second = np.arange(39), np.arange(1, 40)
    second[[3, 20]] = -1
    across = F.lookup(F.exp(0.2 * x), Variable.of(second)) - F.lookup(x, Variable.of(first))
    data = F.sin(x) + 0.3 * F.square(x) - Variable.of(rng.normal(size=40))
    weights = Variable.of(rng.uniform(0, 2, 39))
    return [least_squares.Robust(data, least_squares.cauchy(2.0)), weights * across], [x]


def image():
    """Differences of an image of two components, clamped at one border and cropped at the other, and its data."""
    rng = np.random.default_rng(4)
    x = Variable.of(np.zeros((6, 5, 2)), VEC2, name="x")
    scale = Variable.of(1.0, name="scale")
    right = F.crop(x, 1, 0, (4, 6)) - F.crop(x, 0, 0, (4, 6))
    data = scale * x - Variable.of(rng.normal(size=(6, 5, 2)), VEC2)
    return [data, F.shift(x, 0, 1, "clamp") - F.square(x), right, 0.3 * (scale - 2.0)], [x, scale]


def frames():
    """Points that hang on others by frames that are nearly rotations."""
    rng = np.random.default_rng(5)
    rest = rng.normal(size=(12, 3))
    points = Variable.of(rest, VEC3, name="points")
    frame = Variable.of(np.tile(np.eye(3), (12, 1, 1)), MAT3, name="frame")
    near = Variable.of(np.stack([(np.arange(12) + k) % 12 for k in (1, 2, 5)]).reshape(3, 1, 12), INT)
    still = Variable.of(rest, VEC3)
    now, before = F.lookup(points, near) - points, F.lookup(still, near) - still
    goal = Variable.of(rest[:6] + 0.3 * rng.normal(size=(6, 3)), VEC3)
    a, b = F.column(frame, 0), F.column(frame, 1)
    ends = F.lookup(points, Variable.of(np.arange(6))) - goal
    rigid = F.transpose(frame) @ frame - Variable.of(np.eye(3), MAT3)
    residuals = [2.0 * ends, now - frame @ before, 0.5 * rigid, F.dot(a, b), 0.2 * (points - still)]
    return residuals, [points, frame]


class Solver:
    """A header, compiled."""

    def __init__(self, folder, residuals, unknowns):
        if (compiler := shutil.which("cc")) is None:
            pytest.skip("there is no C compiler, cc")
        (folder / "energy.h").write_text(least_squares.source(residuals, unknowns))
        (folder / "energy.c").write_text(
            '#include "energy.h"\n'
            "const double *start(void) { return energy_start; }\nint count(void) { return ENERGY_COUNT; }\n"
            "double cost(const double *x) { return energy_cost(x); }\n"
            "double solve(double *x) { return energy_solve(x, 500, 2000, 1e-15); }\n"
        )
        library = folder / "energy.so"
        words = [
            "-std=c99",
            "-O1",
            "-Wall",
            "-Wextra",
            "-pedantic",
            "-Wno-unused-parameter",
            "-Werror",
            "-shared",
            "-fPIC",
        ]
        made = [compiler, *words, folder / "energy.c", "-o", library, "-lm"]
        done = subprocess.run(made, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        self.library = ctypes.CDLL(str(library))
        self.library.cost.restype = self.library.solve.restype = ctypes.c_double
        self.library.start.restype = ctypes.POINTER(ctypes.c_double)
        self.x = np.array(self.library.start()[: self.library.count()])

    def cost(self):
        return self.library.cost(self.x.ctypes.data_as(ctypes.c_void_p))

    def solve(self):
        return self.library.solve(self.x.ctypes.data_as(ctypes.c_void_p))


@pytest.mark.parametrize("make", [chain, image, frames])
def test_a_header_solves_as_a_device_does(device, tmp_path, make):
    residuals, unknowns = make()
    solver, energy = Solver(tmp_path, residuals, unknowns), least_squares.Energy(residuals)
    assert_allclose(solver.x, np.concatenate([np.ravel(x.data) for x in unknowns]))
    assert_allclose(solver.cost(), evaluate([energy.cost()])[0].item(), rtol=1e-13)
    cost = solver.solve()
    with optimising(device, residuals, LevenbergMarquardt(), unknowns) as ad:
        ad.step(100)
        assert ad.stopped()
        exact = dict(zip(unknowns, ad.refine(300), strict=True))
    found = np.split(solver.x, np.cumsum([np.prod(x.shape) for x in unknowns])[:-1])
    assert_allclose(cost, evaluate([energy.cost()], exact)[0].item(), rtol=1e-12)
    for x, own in zip(unknowns, found, strict=True):
        assert_allclose(own.reshape(x.shape), exact[x], rtol=1e-5, atol=1e-6)


def test_a_header_refuses_what_it_cannot_have():
    x = Variable.of([1.0, 2.0, 4.0, 7.0, 11.0], name="x")
    moving = F.lookup(x, F.to_int(x))
    for residuals, unknowns, name, text in (
        ([x - 1.0, Variable.of(np.ones(5))], [x], "energy", "reads no unknown: leave it out"),
        ([x - F.mean(x)], [x], "energy", "reads other texels than at fixed distances"),
        ([moving - 1.0], [x], "energy", "reads other texels than at fixed distances"),
        ([x - 1.0], [x], "two words", "a C header cannot have 'two words' as a name"),
        ([x - 1.0], [Variable(x.vtype, x.size)], "energy", "unknowns are leaves of float types with data"),
    ):
        with pytest.raises(GraphError, match=re.escape(text)):
            least_squares.source(residuals, unknowns, name)
