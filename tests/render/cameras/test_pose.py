"""Poses as parameters: the exponential, its derivative, and a pose found from silhouettes."""

import numpy as np
import pytest
from scipy.linalg import expm

from dressi import DressiAD
from dressi.ad import functional as F
from dressi.ad import optim
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.types import FLOAT, IVEC3, VEC3
from dressi.errors import GraphError, InputError
from dressi.render.cameras import Camera, Cameras
from dressi.render.cameras.pose import Poses, poses, turned
from dressi.render.cameras.rigid import exp_se3
from dressi.render.cameras.rotations import exp_so3
from dressi.render.cameras.units import matrices_leaf
from dressi.render.cameras.views import ring
from dressi.render.forms.hard_soft_ras import hard_soft_ras
from dressi.render.lists import list_leaf
from dressi.render.mesh.primitives import bumpy_ellipsoid
from dressi.render.objectives.losses import l2
from dressi.render.surface.projection import to_clip

ANGLES = (0.0, 1e-9, 1e-4, 0.49, 0.51, 2.0, 3.1)
AXIS = np.array([2.0, -1.0, 2.0]) / 3


def twists() -> tuple[Variable, Variable]:
    turns = np.array(ANGLES)[:, None] * AXIS
    shifts = np.random.default_rng(0).normal(size=turns.shape)
    return tuple(
        Variable(VEC3, (1, 1), len(ANGLES), name=name, data=values[:, None, None])
        for name, values in (("rotation", turns), ("translation", shifts))
    )


def exponential(rotation: np.ndarray, translation: np.ndarray) -> np.ndarray:
    x, y, z = rotation
    twist = np.zeros((4, 4))
    twist[:3, :3], twist[:3, 3] = [[0, -z, y], [z, 0, -x], [-y, x, 0]], translation
    return expm(twist)


def expected() -> np.ndarray:
    rotation, translation = (v.data[:, 0, 0] for v in twists())
    return np.stack([exponential(*pair) for pair in zip(rotation, translation, strict=True)])


def test_the_exponential_is_that_of_the_matrix():
    rotation, translation = twists()
    found, turn = evaluate([exp_se3(rotation, translation), exp_so3(rotation)])
    np.testing.assert_allclose(found[:, 0, 0], expected(), atol=1e-10)
    np.testing.assert_allclose(turn[:, 0, 0], expected()[:, :3, :3], atol=1e-10)
    with pytest.raises(GraphError, match="VEC3"):
        exp_so3(Variable(FLOAT))


def test_its_derivative_is_the_central_difference():
    rotation, translation = twists()
    for k in range(len(ANGLES)):
        one = [Variable(VEC3, name=v.name, data=v.data[k]) for v in (rotation, translation)]
        assert check_gradient(exp_se3(*one), one) < 1e-6


@pytest.mark.vk
def test_the_exponential_on_devices(run):
    (found,) = run([exp_se3(*twists())])
    np.testing.assert_allclose(found[:, 0, 0], expected(), atol=2e-6)


def cameras(count: int = 2, size: int = 96) -> Cameras:
    return ring(np.array([0.1, 0.2, 0.3]), 1.0, count, (size, size))


@pytest.mark.parametrize("center", [None, (0.1, 0.2, 0.3)])
def test_matrices_are_those_of_the_cameras(center):
    made = poses(cameras(3), center)
    (found,) = evaluate([made.matrices])
    np.testing.assert_allclose(found[:, 0, 0], cameras(3).matrices, atol=1e-12)
    wrt = [made.rotation, made.translation, made.focal]
    assert check_gradient(made.matrices, wrt) < 1e-6
    rng = np.random.default_rng(1)
    values = {leaf: rng.normal(size=leaf.shape) for leaf in wrt}
    (moved,) = evaluate([made.matrices], values)
    back = made.found(lambda leaf: values.get(leaf, leaf.data))
    np.testing.assert_allclose(moved[:, 0, 0], back.matrices, atol=1e-9)
    np.testing.assert_allclose(
        back[1].intrinsics[0, 0] / cameras(3)[1].intrinsics[0, 0], np.exp(values[made.focal][1].item())
    )


def test_a_turn_about_a_point_leaves_it_where_it_was():
    point, camera = np.array([0.5, -0.2, 0.1]), cameras()[0]
    other = turned(camera, 0.3 * AXIS, np.zeros(3), point)
    np.testing.assert_allclose(other.project(point)[0], camera.project(point)[0])
    assert np.abs(other.rotation - camera.rotation).max() > 0.1
    with pytest.raises(InputError, match="three numbers"):
        poses(cameras(), (1.0, 2.0))


def pictures(matrices: Variable, radius: float = 0.1) -> Variable:
    mesh = bumpy_ellipsoid(2)
    clip = to_clip(list_leaf("position", VEC3, mesh.positions), matrices)
    return hard_soft_ras(
        clip, list_leaf("faces", IVEC3, mesh.faces), size=(96, 96), radius=F.constant(radius),
        face_count=len(mesh.faces), form="outer",
    ).silhouette  # fmt: skip


def aligned(device, start: Cameras, truth: Cameras, wrt, steps: int, fold: bool = False) -> Poses:
    """Poses after steps of Adam on silhouettes; the found cameras are on ``cameras``."""
    with DressiAD(device) as ad:
        ad.set_output("target", pictures(matrices_leaf(truth.matrices)))
        ad.step()
        target = Variable(FLOAT, (96, 96), len(truth), name="target", data=ad.recv("target"))
    made = poses(start, np.zeros(3))
    with DressiAD(device) as ad:
        ad.set_loss(l2(pictures(made.matrices), target))
        ad.set_optimizer(optim.adam(optim.cosine(0.01, 0.0005, steps), (0.9, 0.99)), wrt(made))
        ad.step(steps // 2)
        before = made.found(ad.recv)
        if fold:
            made.fold(ad)
            after = made.found(ad.recv)
            np.testing.assert_allclose(
                before.matrices, after.matrices, atol=2e-6 * np.abs(before.matrices).max()
            )
            assert not ad.recv(made.rotation).any()
        ad.step(steps - steps // 2)
        losses = ad.losses()
        assert losses[-1] < 0.02 * losses[0]
        return made.found(ad.recv)


def degrees(a: Camera, b: Camera) -> float:
    cosine = (np.trace(a.rotation @ b.rotation.T) - 1) / 2
    return float(np.degrees(np.arccos(np.clip(cosine, -1, 1))))


@pytest.mark.vk
@pytest.mark.one_driver
def test_poses_are_found_from_silhouettes(device):
    truth = ring(np.zeros(3), 1.2, 2, (96, 96))
    rng = np.random.default_rng(2)
    start = []
    for camera in truth:
        axis, shift = rng.normal(size=(2, 3))
        distance = np.linalg.norm(camera.center)
        start.append(
            turned(
                camera, np.radians(2) * axis / np.linalg.norm(axis),
                0.02 * distance * shift / np.linalg.norm(shift), np.zeros(3),
            )
        )  # fmt: skip
    found = aligned(device, Cameras(start), truth, lambda p: [p.rotation, p.translation], 120, fold=True)
    for camera, right in zip(found, truth, strict=True):
        assert degrees(camera, right) < 0.25
        away = np.linalg.norm(camera.center - right.center) / np.linalg.norm(right.center)
        assert away < 0.005


@pytest.mark.vk
@pytest.mark.one_driver
def test_focal_lengths_are_found_from_silhouettes(device):
    truth = ring(np.zeros(3), 1.2, 2, (96, 96))
    wrong = [
        camera.intrinsics * [[g, 1, 1], [1, g, 1], [1, 1, 1]]
        for camera, g in zip(truth, (0.98, 1.02), strict=True)
    ]
    start = Cameras(
        [
            Camera(k, c.rotation, c.translation, c.size, c.near, c.far)
            for k, c in zip(wrong, truth, strict=True)
        ]
    )
    found = aligned(device, start, truth, lambda p: [p.focal], 60)
    for camera, right in zip(found, truth, strict=True):
        assert abs(camera.intrinsics[1, 1] / right.intrinsics[1, 1] - 1) < 0.001
