"""Cameras with lenses and parallel projections: against OpenCV, rays, and differences."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dressi import F, InputError, Variable, gradient
from dressi.ad.check import check_gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.types import FLOAT, MAT3, MAT4, VEC3
from dressi.render import Node, Scene, load_scene, poses, primitives, render, resampled, save_scene, surround
from dressi.render.cameras.camera import Camera, Cameras, Views
from dressi.render.cameras.lens import FisheyeLens, Lens, RollingLens, through_lens

pytestmark = pytest.mark.usefixtures("engines")

K = np.array([[800.0, 0, 640], [0, 810, 360], [0, 0, 1]])
POINTS = np.array([[0.7, -0.4, 1], [-1.2, 0.3, 2], [0.01, 0.9, 3]])
OPENCV = {
    (-0.28, 0.09, 0.001, -0.002): [
        [1116.318, 84.3408],
        [203.17957, 470.725083844],
        [642.458949517, 597.268303743],
    ],
    (-0.28, 0.09, 0.001, -0.002, -0.01): [
        [1114.7801, 85.230585],
        [203.448188275, 470.657089843],
        [642.45893007, 597.266531617],
    ],
    (0.3, 0.1, 0.001, -0.002, 0.02, 0.4, 0.15, 0.03): [
        [1159.569874057, 59.316501438],
        [176.908506539, 477.374946782],
        [642.500011955, 601.010118407],
    ],
}
"""Coefficients, and the pixels of the points by ``cv2.projectPoints``."""
FISHEYE = (-0.02, 0.005, -0.003, 0.0004)
FISHEYE_PIXELS = [
    [1107.33046556, 89.615944926],
    [212.591777922, 468.187706213],
    [642.58640495, 595.686151081],
]
"""The same by ``cv2.fisheye.projectPoints``."""

LENSES = [
    Lens(-0.1, 0.05, 0.002, -0.003, 0.01, 0.02, 0.01, 0.003),
    FisheyeLens(-0.02, 0.005, k3=0.001, k4=0.0002),
    RollingLens(
        k1=-0.1, turn_x=0.05, turn_y=0.1, turn_z=-0.08, shift_x=0.06, shift_y=-0.05, shift_z=0.04,
        begin=0.1, across=0.2, down=1.0,
    ),
]  # fmt: skip
# Outlines pass centres of pixels within what SwiftShader moves vertices by.
LENSES.append(replace(LENSES[2], begin=0.3))
SPHERE = primitives.icosphere(4)
CAMERA = Camera.perspective(60, (64, 48), (0.6, 0.3, 2.6), (0.3, 0.2, 0))
MATRIX = Variable.of(CAMERA.world_to_clip, MAT4)


@pytest.mark.one_driver
def test_lenses_are_those_of_opencv():
    lenses = [(Lens.from_opencv(c), pixels) for c, pixels in OPENCV.items()]
    for lens, pixels in [*lenses, (FisheyeLens.from_opencv(FISHEYE), FISHEYE_PIXELS)]:
        camera = Camera(K, np.eye(3), np.zeros(3), (1280, 720), lens=lens)
        assert_allclose(camera.project(POINTS)[0], pixels, atol=1e-6)
        small = camera.resized((64, 36))
        origin, directions = small.rays()
        seen, _ = small.project(origin + 3.0 * directions)
        y, x = np.mgrid[:36, :64] + 0.5
        assert_allclose(seen, np.stack([x, y], -1), atol=1e-8)


def off(pixels: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """How far points are from the centres of their pixels. Drivers with few digits draw some beside a face."""
    return float(np.quantile(np.abs(pixels - np.stack([x, y], -1) - 0.5), 0.995))


@pytest.mark.parametrize("lens", LENSES)
def test_pictures_behind_a_lens_are_what_rays_meet(lens):
    camera = replace(CAMERA, lens=lens)
    picture = render(SPHERE, camera, outputs=("mask", "point", "depth"))
    origin, directions = camera.rays()
    unit = directions / np.linalg.norm(directions, axis=-1, keepdims=True)
    along = unit @ origin
    assert ((along**2 > origin @ origin - 1) != (picture.mask > 0.5)).mean() < 0.01
    covered = picture.mask > 0.5
    y, x = np.nonzero(covered)
    pixels, depth = camera.project(picture.point[covered].astype(float))
    assert off(pixels, x, y) < 0.01
    far = np.linalg.norm(picture.point[covered] - camera.center, axis=-1) if lens.bent else depth
    assert_allclose(picture.depth[covered], far, atol=2e-3)
    # Nothing beyond the limit, or behind, folds back into the picture.
    around = primitives.icosphere(3, radius=5.0)
    assert (render(around, camera).mask == 1).all()
    behind = primitives.icosphere(2, center=tuple(camera.center - 3 * camera.forward))
    assert render(behind, camera).mask.max() == 0


@pytest.mark.one_driver
@pytest.mark.parametrize("lens", LENSES)
def test_vertices_have_derivatives_by_every_coefficient(lens):
    values = {name: Variable(name=name, data=[[[x]]]) for name, x in lens.coefficients.items()}
    k = Variable(MAT3, name="k", data=CAMERA.intrinsics[None, None, None])
    matrices, points = MATRIX, Variable.of(SPHERE.positions[::20], VEC3)
    clip = F.matmul(matrices, F.vec4(points, 1.0))
    limit = F.constant(lens.limit(CAMERA.intrinsics, CAMERA.size))
    bent = through_lens(type(lens)(**values), clip, matrices, k, limit, CAMERA.size)
    assert check_gradient(bent.xy / bent.w, [points, matrices, k, *values.values()]) < 1e-5


@pytest.mark.parametrize("lens", LENSES)
def test_pictures_have_derivatives_by_every_coefficient(lens, run):
    """On each driver as in NumPy, and near the slope between pictures of single samples."""
    values = {name: Variable(name=name, data=[[[x]]]) for name, x in lens.coefficients.items()}
    weight = Variable.of(np.hypot(*(np.indices((48, 64)) - 20)) / 30, FLOAT)

    def masks(lens: Lens) -> Variable:
        return render(SPHERE, CAMERA.with_lens(lens), form="edges", light=None).mask

    slopes = gradient(F.mean(masks(type(lens)(**values)) * weight), list(values.values()))
    expected, found = evaluate(slopes), run(slopes)
    assert_allclose(np.ravel(found), np.ravel(expected), rtol=0.02, atol=1e-7)
    most = max(abs(slope.item()) for slope in expected)
    for name, slope in zip(values, expected, strict=True):
        scale = {"k1": 0.02, "k4": 0.02, "p1": 0.03, "p2": 0.03}.get(name, 0.04)
        ends = [
            np.mean(masks(replace(lens, **{name: getattr(lens, name) + d})) * weight.data)
            for d in (-scale, scale)
        ]
        assert_allclose(slope.item(), (ends[1] - ends[0]) / (2 * scale), rtol=0.1, atol=0.01 * most)


@pytest.mark.one_driver
def test_poses_and_views_keep_the_lens():
    cameras = Cameras([CAMERA.with_lens(Lens(k1=k)) for k in (-0.1, 0.1)])
    known = render(SPHERE, cameras, light=None, form="edges").mask
    learned = poses(cameras)
    assert_allclose(evaluate([render(SPHERE, learned, form="edges", light=None).mask])[0], known, atol=1e-4)
    views = Views(MATRIX, CAMERA.size, Lens(k1=0.1), CAMERA.intrinsics)
    assert_allclose(
        evaluate([render(SPHERE, views, form="edges", light=None).mask])[0][0], known[1], atol=1e-4
    )


@pytest.mark.one_driver
def test_lenses_that_no_camera_has():
    for make, words in (
        (
            lambda: CAMERA.with_lens(Lens(k1=-0.8)),
            "folds at radius 0.6455, seen 17.889 pixels.*edge reaches 40",
        ),
        (
            lambda: CAMERA.with_lens(FisheyeLens(k1=-1.0)),
            "OPENCV_FISHEYE has no inverse.*folds at radius 0.57",
        ),
        (lambda: Lens.from_opencv([0.1, 0.2, 0.3]), "4 or 5 or 8 coefficients.*not 3"),
        (lambda: FisheyeLens.from_opencv([0.1] * 5), "4 coefficients, k1 k2 k3 k4, not 5"),
        (lambda: FisheyeLens(p1=0.1), "a fisheye has k1 to k4, not p1"),
        (lambda: Cameras([CAMERA.with_lens(Lens(0.1))]).matrices, "a lens, which a matrix does not hold"),
        (lambda: render(SPHERE, [CAMERA.with_lens(x) for x in LENSES]), "one kind of lens"),
        (lambda: replace(CAMERA, parallel=True, lens=Lens(0.1)), "a parallel projection has no lens"),
    ):
        with pytest.raises(InputError, match=words):
            make()


@pytest.mark.parametrize("form", ["hard", "edges"])
def test_depths_of_a_parallel_projection_are_distances(form):
    camera = Camera.orthographic(2.5, (32, 24), (0.6, 0.3, 2.6), (0.3, 0.2, 0), near=0.5, far=9.0)
    picture = render(SPHERE, camera, outputs=("mask", "point", "depth"), form=form)
    covered = picture.mask == 1
    y, x = np.nonzero(covered)
    pixels, depth = camera.project(picture.point[covered].astype(float))
    assert off(pixels, x, y) < 0.05
    assert_allclose(picture.depth[covered], depth, atol=1e-4)
    origins, directions = camera.rays()
    assert_allclose(camera.project(origins + 2 * directions)[1], 2.0)
    half = primitives.icosphere(4, radius=0.5)
    assert_allclose(
        render(half, camera.scaled(0.5)).mask, picture.mask if form == "hard" else render(SPHERE, camera).mask
    )


@pytest.mark.one_driver
def test_gltf_keeps_parallel_projections(tmp_path):
    camera = Camera.orthographic(2.5, (32, 16), (0.6, 0.3, 2.6), (0.3, 0.2, 0), near=0.5, far=9.0, name="a")
    save_scene(tmp_path / "a.glb", Scene([Node(SPHERE)], cameras={"a": camera}))
    again = load_scene(tmp_path / "a.glb").cameras["a"].resized((32, 16))
    assert again.parallel
    assert_allclose(again.world_to_clip, camera.world_to_clip, atol=1e-6)


@pytest.mark.parametrize("lens", [None, FisheyeLens(k1=-0.02)])
def test_panoramas_and_half_turns_are_resampled_from_views_around(lens):
    """Against rays, poles and the border of the panorama included, where a ball around the camera is coloured
    by direction."""
    eye = np.array([0.1, 0.2, -0.1])
    camera = Camera.equirectangular((64, 32), eye, (1.0, 0.5, 0.3))
    if lens:
        k = np.array([[15.0, 0, 24], [0, 15, 24], [0, 0, 1]])
        camera = Camera(k, camera.rotation, camera.translation, (48, 48), lens=lens)
    sides = surround(eye, 32)
    ball = primitives.icosphere(5, radius=3.0)
    found = resampled(render(ball, sides, outputs=("point", "colour")).point, sides, camera)
    _, rays = camera.rays()
    rays = rays / np.linalg.norm(rays, axis=-1, keepdims=True)
    along = rays @ eye
    expected = eye + rays * (np.sqrt(along**2 - eye @ eye + 9) - along)[..., None]
    assert_allclose(found, expected, atol=0.02)
    seen, _ = camera.project(eye + 2 * rays)
    y, x = np.mgrid[: camera.size[1], : camera.size[0]] + 0.5
    assert_allclose(seen, np.stack([x, y], -1), atol=1e-9)
    image = Variable.of(np.random.default_rng(0).uniform(size=(6, 32, 32)), FLOAT, batched=True)
    assert check_gradient(resampled(image, sides, camera), [image]) < 1e-5
    with pytest.raises(InputError, match="at the same place, not 1 away"):
        resampled(image, surround(eye + (1, 0, 0), 32), camera)
    if lens is None:
        cut = replace(sides[5], size=(16, 16), intrinsics=np.diag([0.5, 0.5, 1]) @ sides[5].intrinsics)
        back = resampled(found[None], Cameras([camera]), cut)
        _, straight = cut.rays()
        assert_allclose(np.cross(back - eye, straight), 0.0, atol=0.25)
        assert np.abs(np.cross(back - eye, straight)).mean() < 0.05
        with pytest.raises(InputError, match="resample its pictures"):
            render(ball, camera)
