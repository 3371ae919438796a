"""Folds of a surface are smoothed away, and nothing else is touched."""

import numpy as np
import pytest

from dressi.render.fit.phases.unfold import unfolded
from dressi.render.mesh import Mesh, primitives
from dressi.render.mesh.checks import check_surface


@pytest.mark.parametrize("pushed", [1, 6])
def test_what_was_pushed_through_the_surface_comes_back(pushed: int):
    ball = primitives.icosphere(3)
    positions = ball.positions.copy()
    # A vertex and those nearest to it, pushed through the other side.
    near = np.argsort(np.linalg.norm(positions - positions[0], axis=1))[:pushed]
    positions[near] *= -1.3
    broken = ball.moved(positions)
    assert check_surface(broken).self_intersecting > 0
    found = unfolded(broken)
    surface = check_surface(found)
    assert surface.inside_out == 0 and surface.self_intersecting == 0
    # Those it passed through give way, too; the rest of the ball stays.
    assert (found.positions == ball.positions).all(1).mean() > 0.75


def test_good_and_open_surfaces_stay_as_they_are():
    ball = primitives.bumpy_ellipsoid(3)
    np.testing.assert_array_equal(unfolded(ball).positions, ball.positions)
    sheet = Mesh(ball.positions, ball.faces[1:])
    assert unfolded(sheet) is sheet
