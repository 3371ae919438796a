"""The two-sided form: against brute force, and its derivative against the picture drawn again, on the oracle and every
driver.

Recorded, derivative over central difference of the loss drawn again, r = 5 pixels, 128 and 256 pixels, nine directions:
a torus of 704 faces from two sides 0.97 to 1.06, of 2816 faces 0.96 to 1.05; from well above, where no contour lies inside
of the outline, 0.98 to 1.05 and 0.98 to 1.01.
"""

import brute_force
import numpy as np
import outer_cases as oc
import pytest
import soft_cases as sc

from dressi.ad import functional as F
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.transform.gradient import gradient
from dressi.ad.types import FLOAT, VEC4, list_size
from dressi.errors import InputError
from dressi.render.forms.hard_soft_ras import hard_soft_ras
from dressi.render.forms.soft_target import band
from dressi.render.mesh.primitives import torus

CASES = oc.cases()
LOOK = 0.75


def two_sided(case, size=oc.SIZE, radius=oc.RADIUS, **options):
    position, faces = case.variables()
    drawn = hard_soft_ras(
        position, faces, size=size, radius=radius, face_count=len(case.faces), form="silhouette", **options
    )
    return position, drawn


def expected(case, hard: np.ndarray, sigma: float) -> np.ndarray:
    """Every pixel against every silhouette, with the covered pixels ``hard``."""
    height, width = hard.shape
    xy, _, _ = brute_force.to_screen(case.clip, width, height)
    y, x = np.mgrid[:height, :width]
    p = (np.stack([x, y], axis=-1) + 0.5) / height
    signed, best = np.zeros(hard.shape), np.full(hard.shape, oc.RADIUS)
    for a, b in oc.silhouettes(case.clip, case.faces, (width, height), "none"):
        u, q = xy[b] - xy[a], p - xy[a]
        t = q @ u / max(u @ u, 1e-30)
        corners = [face for face in case.faces.tolist() if a in face and b in face]
        third = xy[next(v for face in corners for v in face if v not in (a, b))] - xy[a]
        normal = np.array([-u[1], u[0]]) / np.linalg.norm(u)
        normal *= -np.sign(third @ normal)  # away from the mesh
        beside = (t > 0) & (t < 1)
        inside = np.where(beside, q @ normal < 0, hard > 0)
        place = xy[a] + np.clip(t, 0, 1)[..., None] * u
        distance = np.linalg.norm(p - place, axis=-1)
        out = (p - place) * np.where(inside, -1, 1)[..., None] / np.maximum(distance, 1e-12)[..., None]
        out = np.where(beside[..., None], normal, out)
        look = np.clip(np.floor((place + out * LOOK / height) * height), 0, (width - 1, height - 1)).astype(
            int
        )
        fine = (hard[look[..., 1], look[..., 0]] == 0) & ((inside == hard) | (distance * height <= LOOK))
        closer = fine & (distance < best)
        best = np.where(closer, distance, best)
        signed = np.where(closer, np.where(inside, distance, -distance), signed)
    return np.where(best < oc.RADIUS, 1 / (1 + np.exp(-signed / sigma)), hard)


def check_image(run, name: str, sigma: float | None = None) -> None:
    _, drawn = two_sided(CASES[name], sigma=sigma)
    coverage, hard = run([drawn.silhouette, drawn.hard])
    truth = expected(CASES[name], hard[0], sigma or oc.RADIUS / 7)
    assert coverage.min() >= 0 and coverage.max() <= 1
    assert np.mean((coverage > 0.01) & (coverage < 0.99)) > 0.02
    # A place to look at may lie on the border of two pixels.
    assert np.mean(np.abs(coverage[0] - truth) > 1e-3) <= 0.004


# Closed, self-occluding, open.
NAMES = ["acute", "overlapping", "torus", "torus from the side", "ellipsoid", "open"]


@pytest.mark.parametrize("name", NAMES)
def test_coverage_is_that_of_brute_force(name):
    check_image(evaluate, name)


def test_softness_can_be_given():
    check_image(evaluate, "torus", 0.03)


@pytest.mark.vk
@pytest.mark.parametrize("name", NAMES[2:])
def test_coverage_is_that_of_brute_force_on_devices(run, name):
    check_image(run, name)


@pytest.mark.parametrize(
    "name", ["three faces at an edge", "doubled", "lines", "mixed orientation", "near plane"]
)
def test_any_topology_can_be_drawn(name):
    position, drawn = two_sided(CASES[name])
    coverage, hard, slope = evaluate(
        [drawn.silhouette, drawn.hard, *gradient(F.sum(F.square(drawn.silhouette)), [position])]
    )
    assert coverage.min() >= 0 and coverage.max() <= 1 and np.isfinite(slope).all() and slope.any()
    truth = oc.render(CASES[name].clip, CASES[name].faces, radius=oc.RADIUS)
    far = truth.distance > oc.RADIUS * 1.01
    assert far.any() and (coverage[0] == hard[0])[far & (truth.hard == 0)].all()


def ratios(run, mesh, pixels: float, side: int) -> np.ndarray:
    """Derivative over central difference (0.3 pixel) of the loss drawn again, in the directions that change it."""
    (points, faces), matrix = mesh
    size = (side, side)
    moves = [oc.pixel_step(points, move, matrix, size) for _, move in oc.nine_directions(points)]
    target = oc.render(
        sc.to_clip(matrix, points * 1.15 + (0.06, 0.04, 0.03)), faces, size, radius=pixels / side
    ).hard
    clips = [points] + [points + h * move for move in moves for h in (0.3, -0.3)]
    position = Variable(VEC4, list_size(len(points)), len(clips), name="position")
    position.data = np.stack([sc.to_clip(matrix, moved) for moved in clips])[:, None]
    _, face_list = sc.Case(sc.to_clip(matrix, points), faces).variables()
    drawn = hard_soft_ras(
        position, face_list, size=size, radius=pixels / side, face_count=len(faces), form="silhouette"
    )
    squares = F.square(drawn.silhouette - Variable(size=size, data=target))
    image, slope = run([squares, gradient(F.sum(squares), [position])[0]])
    losses = image.astype(float).sum(axis=(1, 2))
    differences = (losses[1::2] - losses[2::2]) / 0.6
    along = np.array([(slope[0].reshape(-1, 4)[: len(points)] * (m @ matrix[:, :3].T)).sum() for m in moves])
    kept = np.abs(differences) > 0.05 * np.abs(differences).max()
    return along[kept] / differences[kept]


def check_derivative(run) -> None:
    mesh = torus(44, 32)
    found = ratios(run, ((mesh.positions, mesh.faces), sc.camera(40, 60, 4)), 5, 128)
    assert len(found) >= 7 and (np.abs(found - 1) <= 0.05).all(), found


def test_derivative_is_that_of_the_picture_drawn_again():
    check_derivative(evaluate)


@pytest.mark.vk
def test_derivative_is_that_of_the_picture_drawn_again_on_devices(run):
    check_derivative(run)


def test_targets_go_through_the_same_function():
    distance = Variable(FLOAT, (5, 1), data=[[[-0.3, -0.1, 0.0, 0.1, 0.3]]])
    (found,) = evaluate([band(distance, 0.2, 0.05)])
    np.testing.assert_allclose(found, [[[0, 1 / (1 + np.exp(2)), 0.5, 1 / (1 + np.exp(-2)), 1]]])


def test_covered_pixels_have_a_gradient_and_culled_faces_are_not_there():
    position, drawn = two_sided(CASES["open"], cull="back")
    inside = F.sum(drawn.silhouette * drawn.hard)
    slope, hard = evaluate([gradient(inside, [position])[0], drawn.hard])
    truth = oc.render(CASES["open"].clip, CASES["open"].faces, radius=oc.RADIUS, cull="back")
    assert slope.any() and (hard[0] == truth.hard).all()


@pytest.mark.parametrize(
    "wrong, named", [({"layers": 3}, "layers"), ({"sigma": 1.5}, "sigma"), ({"delta": 0.1}, "delta")]
)
def test_options_of_other_forms_are_named(wrong, named):
    with pytest.raises(InputError, match=named):
        two_sided(CASES["acute"], **wrong)
