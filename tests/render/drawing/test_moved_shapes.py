"""Morph targets and skins: shapes by NumPy, derivatives, and in scenes."""

from dataclasses import replace

import numpy as np
import pytest

from dressi.ad import functional as F
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.transform.gradient import gradient
from dressi.ad.types import FLOAT, MAT4, VEC3, list_image, list_values
from dressi.errors import InputError
from dressi.render import (
    Camera,
    MorphGeometry,
    Node,
    Scene,
    Skeleton,
    SkinnedGeometry,
    primitives,
    render,
)
from dressi.render.lists import list_leaf
from dressi.render.mesh import Mesh

RANDOM = np.random.default_rng(3)
BALL = primitives.icosphere(1)
COUNT = len(BALL.positions)
MODES = RANDOM.normal(size=(5, COUNT, 3)) * 0.1
WEIGHTS = RANDOM.normal(size=5)
CAMERA = Camera.perspective(45, (40, 32), (0.5, 1.0, 5), (0, 0, 0))
SMOOTH = replace(
    BALL, normals=BALL.positions / np.linalg.norm(BALL.positions, axis=1)[:, None], normal_faces=BALL.faces
)


def rigid_places(count: int) -> np.ndarray:
    """(count, 4, 4): small rotations and shifts."""
    found = np.tile(np.eye(4), (count, 1, 1))
    found[:, :3, :3] = np.linalg.qr(np.eye(3) + RANDOM.normal(size=(count, 3, 3)) * 0.2)[0]
    found[:, :3, :3] *= np.sign(np.linalg.det(found[:, :3, :3]))[:, None, None]
    found[:, :3, 3] = RANDOM.normal(size=(count, 3)) * 0.3
    return found


PARENTS = np.array([-1, 0, 1, 2, 1, 3])
LOCAL, BIND = rigid_places(6), rigid_places(6)
JOINTS = RANDOM.integers(0, 6, (COUNT, 4))
SHARES = RANDOM.dirichlet(np.ones(4), COUNT)


def world() -> np.ndarray:
    found = []
    for k, parent in enumerate(PARENTS):
        found.append(LOCAL[k] if parent < 0 else found[parent] @ LOCAL[k])
    return np.stack(found)


def skinned(points: np.ndarray) -> np.ndarray:
    """By a loop over vertices and joints."""
    matrices, found = world() @ BIND, np.zeros_like(points)
    for v, point in enumerate(points):
        for joint, share in zip(JOINTS[v], SHARES[v], strict=True):
            found[v] += share * (matrices[joint] @ [*point, 1])[:3]
    return found


def rows(values, count: int) -> np.ndarray:
    return list_values(evaluate([values])[0], count)[0]


def test_morphed_positions_are_sums_of_modes_and_differentiable():
    truth = BALL.positions + sum(w * mode for w, mode in zip(WEIGHTS, MODES, strict=True))
    arrays = MorphGeometry(BALL, MODES, WEIGHTS)
    np.testing.assert_allclose(arrays.lists()["positions"], truth, atol=1e-12)
    weights, mean = list_leaf("weights", FLOAT, WEIGHTS), list_leaf("mean", VEC3, BALL.positions)
    found = MorphGeometry(BALL, MODES, weights, positions=mean).lists()["positions"]
    np.testing.assert_allclose(rows(found, COUNT), truth, atol=1e-12)
    assert check_gradient(found, [weights, mean]) < 1e-6
    one = MorphGeometry(BALL, MODES[:1], list_leaf("weight", FLOAT, WEIGHTS[:1])).lists()["positions"]
    np.testing.assert_allclose(rows(one, COUNT), BALL.positions + WEIGHTS[0] * MODES[0], atol=1e-12)


def test_several_weights_make_several_tiles():
    many = np.stack([WEIGHTS, -WEIGHTS, 0 * WEIGHTS])
    shape = MorphGeometry(BALL, MODES, Variable(FLOAT, (5, 1), 3, data=many[:, None]))
    found = evaluate([shape.lists()["positions"]])[0]
    np.testing.assert_allclose(
        found, np.concatenate([list_image(m) for m in shape.weighted(many).moved]), atol=1e-12
    )


def test_normals_follow_modes_of_their_own():
    modes = RANDOM.normal(size=(5, COUNT, 3)) * 0.1
    arrays = MorphGeometry(SMOOTH, MODES, WEIGHTS, normal_modes=modes).lists()["normals"]
    truth = SMOOTH.normals + np.tensordot(WEIGHTS, modes, 1)
    np.testing.assert_allclose(arrays, truth / np.linalg.norm(truth, axis=1)[:, None], atol=1e-12)
    given = MorphGeometry(SMOOTH, MODES, list_leaf("w", FLOAT, WEIGHTS), normal_modes=modes).lists()[
        "normals"
    ]
    np.testing.assert_allclose(rows(given, COUNT), arrays, atol=1e-12)
    assert "normals" not in MorphGeometry(SMOOTH, MODES, WEIGHTS).lists()


def test_skins_are_sums_over_joints_and_differentiable():
    truth = skinned(BALL.positions)
    shape = SkinnedGeometry(SMOOTH, JOINTS, SHARES, BIND, Skeleton(PARENTS, LOCAL))
    np.testing.assert_allclose(shape.lists()["positions"], truth, atol=1e-12)
    local = list_leaf("local", MAT4, LOCAL)
    moved = shape.posed(Skeleton(PARENTS, local)).lists()
    np.testing.assert_allclose(rows(moved["positions"], COUNT), truth, atol=1e-12)
    np.testing.assert_allclose(rows(moved["normals"], COUNT), shape.lists()["normals"], atol=1e-12)
    assert check_gradient(moved["positions"], [local]) < 1e-6
    weights = list_leaf("weights", FLOAT, WEIGHTS)
    both = SkinnedGeometry(
        MorphGeometry(BALL, MODES, weights), JOINTS, SHARES, BIND, Skeleton(PARENTS, local)
    )
    positions = both.lists()["positions"]
    expected = skinned(BALL.positions + np.tensordot(WEIGHTS, MODES, 1))
    np.testing.assert_allclose(rows(positions, COUNT), expected, atol=1e-12)
    assert check_gradient(positions, [weights, local]) < 1e-6


def picture() -> tuple[list[Variable], list[Variable]]:
    """Images of a scene of both, and the gradients of a loss."""
    local, weights = list_leaf("local", MAT4, LOCAL), list_leaf("weights", FLOAT, WEIGHTS)
    skin = SkinnedGeometry(SMOOTH, JOINTS, SHARES, BIND, Skeleton(PARENTS, local))
    shift = np.eye(4)
    shift[0, 3] = 1.2
    nodes = Scene([Node(skin), Node(MorphGeometry(BALL, MODES, weights), to_world=shift)])
    shown = render(nodes, CAMERA, radius=0.1)
    return [shown.mask, shown.normal], gradient(F.mean(F.square(shown.mask - 0.3)), [local, weights])


@pytest.mark.vk
@pytest.mark.one_driver
def test_both_are_drawn_on_devices(run):
    images, slopes = picture()
    expected = evaluate([*images, *slopes])
    for found, truth in zip(run([*images, *slopes]), expected, strict=True):
        assert np.linalg.norm(found - truth) <= 0.02 * np.linalg.norm(truth)
        assert np.abs(truth).max() > 1e-4


def test_instances_of_a_shape_share_its_sum():
    shape = MorphGeometry(BALL, MODES, list_leaf("weights", FLOAT, WEIGHTS))
    assert shape.lists()["positions"] is shape.lists()["positions"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MorphGeometry(BALL, MODES[:, :3], WEIGHTS), r"modes are an array \(M, 42, 3\)"),
        (lambda: MorphGeometry(BALL, MODES, WEIGHTS[:2]), "weights are 5 finite numbers"),
        (lambda: MorphGeometry(BALL, MODES * np.nan, WEIGHTS), "modes have values that are NaN"),
        (lambda: MorphGeometry(BALL, MODES, list_leaf("w", FLOAT, np.ones(4))), "FLOAT list of 5"),
        (lambda: MorphGeometry(BALL, MODES, WEIGHTS, normal_modes=MODES), "no normals"),
        (lambda: SkinnedGeometry(BALL, JOINTS, SHARES * 0.8, BIND, LOCAL), "'icosphere': the weights of vertex 0 add up to 0.8"),
        (lambda: SkinnedGeometry(BALL, JOINTS + 3, SHARES, BIND, LOCAL), "joints are 3 to 8, and there are 6"),
        (lambda: SkinnedGeometry(BALL, JOINTS, SHARES, BIND[:0], LOCAL[:0]), "needs a joint"),
        (lambda: SkinnedGeometry(BALL, JOINTS, SHARES, BIND, LOCAL[:5]), "inverse_bind has 6 joints"),
        (lambda: SkinnedGeometry((BALL.positions, BALL.faces), JOINTS, SHARES, BIND, LOCAL), "takes a Mesh"),
        (lambda: Skeleton([1, 2, 0], LOCAL[:3], "abc"), "'a' is its own ancestor"),
        (lambda: Skeleton([-1, 7], LOCAL[:2]), "'joint 1' has the parent 7"),
        (lambda: Skeleton(PARENTS, LOCAL[:2]), r"finite matrices \(6, 4, 4\)"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(make, words: str):
    with pytest.raises(InputError, match=words):
        make()


def test_a_mesh_of_the_skin_keeps_its_uvs_and_material():
    mesh = Mesh(
        BALL.positions, BALL.faces, uvs=BALL.positions[:, :2], uv_faces=BALL.faces, texture=np.ones((2, 2, 3))
    )
    shape = SkinnedGeometry(mesh, JOINTS, SHARES, BIND, LOCAL)
    assert shape.lists()["texture"] is mesh.texture and shape.lists()["uv_faces"] is mesh.uv_faces
