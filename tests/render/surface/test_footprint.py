"""Screen derivatives of attributes: against central differences on the screen, and their own gradients."""

import numpy as np
import soft_cases as sc

from dressi.ad import functional as F
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.types import INT, VEC3, list_image, list_size
from dressi.render.surface import screen
from dressi.render.surface.footprint import interpolate_with_slopes

SIZE = (24, 16)
POINTS = np.array([(-1, -1, 0), (1, -1, 0.4), (1, 1, 0), (-1, 1, -0.8)], float)
FACES = np.array([(0, 1, 2), (0, 2, 3)])


def test_slopes_are_how_attributes_change_on_the_screen():
    case = sc.Case(sc.to_clip(sc.camera(50, 20), POINTS), FACES)
    position, faces = case.variables()
    face = evaluate([screen.rasterize_hard(position, faces, size=SIZE, face_count=2)])[0]
    assert set(face.ravel()) == {-1, 0, 1}
    at = screen.corners(Variable(INT, SIZE, data=face), faces)
    values = np.random.default_rng(3).normal(size=(4, 3))
    table = Variable(VEC3, list_size(4), data=list_image(values))
    found = interpolate_with_slopes(table, at, position, SIZE)
    value, across, down = evaluate(list(found))
    centre, step = screen.pixel_centres(SIZE), 1e-4
    for slope, axis in ((across, (1.0, 0.0)), (down, (0.0, 1.0))):
        sides = [
            screen.barycentric(
                position, at, SIZE, place=centre + tuple(sign * step / SIZE[1] * a for a in axis)
            )
            for sign in (1, -1)
        ]
        high, low = evaluate([screen.interpolate(table, at, w) for w in sides])
        np.testing.assert_allclose(slope, (high - low) / (2 * step), atol=1e-6)
        assert not slope[face < 0].any()
    assert not value[face < 0].any()
    for image in found:
        assert check_gradient(F.sum_components(image), [table, position]) < 1e-5
