"""``render``: arrays in give arrays, Variables in give differentiable images; broadcasting, light, errors."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dressi import DressiAD, F, GraphError, InputError, Variable, gradient
from dressi.ad.check import check_gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.ad.graph.types import FLOAT, MAT4, VEC3, list_image
from dressi.render import Environment, Material, StrandGeometry, hard_soft_ras, poses, primitives, render
from dressi.render.cameras.camera import Camera, Cameras
from dressi.render.cameras.rigid import axis_angle_to_matrix, look_at, rigid
from dressi.render.cameras.views import frame, ring
from dressi.render.core.lists import list_leaf
from dressi.render.drawing import pixels
from dressi.render.drawing.picture import Picture
from dressi.render.drawing.pixels import Pixels
from dressi.render.scene.scene import Node, Scene
from dressi.render.shading.lights import DirectionalLight, Light, PointLight
from dressi.render.strands.draw import draw_strands
from dressi.render.surface.projection import to_clip
from dressi.render.surface.screen import rasterize_hard, vertex_normals

pytestmark = pytest.mark.usefixtures("engines")

SIZE = (24, 18)
CAMERA = Camera.perspective(45, SIZE, (1.5, 1.0, 4.0), (0, 0, 0))
CUBE = primitives.cube()
CORNERS = np.array([(-1.0, -0.9, 0), (0.9, -1.0, 0), (1.0, 0.9, 0), (-0.9, 1.0, 0)])


@pytest.mark.one_driver
def test_triangles_that_share_no_vertices_have_no_outlines_inside():
    """Of arrays, and of a Variable with other data than the mesh; arrays of the same shape that do not meet
    are another graph."""
    camera = Camera.perspective(45, (16, 16), (0, 0, 3.5), (0, 0, 0))
    points, faces = CORNERS[[0, 1, 2, 0, 2, 3]], np.arange(6).reshape(2, 3)
    torn = points + np.repeat([(0.2, -0.2, 0), (-0.2, 0.2, 0)], 3, axis=0)
    options = {"form": "edges", "light": None}

    def drawn(given: np.ndarray, faces) -> Pixels:
        return render((given, faces), camera, **options)

    def mask(picture: Pixels) -> np.ndarray:
        leaves = {name: values.leaf(name) for name, values in picture.recipe.values.items()}
        return evaluate([picture.recipe.picture(leaves).mask])[0]

    whole = mask(drawn(CORNERS, [(0, 1, 2), (0, 2, 3)]))
    assert_allclose(mask(drawn(points, faces)), whole, atol=1e-6)
    assert drawn(points, faces).recipe.key != drawn(torn, faces).recipe.key
    position = Variable.of(0.0 * points)
    moved = render((points, faces), camera, positions=position, **options).mask
    for given, expected in ((points, whole), (torn, mask(drawn(torn, faces)))):
        assert_allclose(evaluate([moved], {position: list_image(given)})[0], expected, atol=1e-6)


@pytest.mark.one_driver
def test_depth_normals_and_points_are_blended_by_the_coverage():
    """Of a plate that faces the camera they are those of the plate times the mask, and so are their
    derivatives."""
    plate = CORNERS, np.array([(0, 1, 2), (0, 2, 3)])
    camera, place = (
        Camera.perspective(45, (12, 12), (0, 0, 4.0), (0, 0, 0)),
        Variable.of(np.zeros((1, 3)), VEC3),
    )
    picture = render(plate, camera, to_world=rigid(np.eye(3), place), form="edges", light=None)
    weight = Variable(FLOAT, (12, 12), data=np.random.default_rng(0).normal(size=(1, 12, 12)))
    mask, *images = picture.mask, picture.depth * 0.25, picture.normal.z, picture.attribute(np.ones(4))
    known = evaluate([mask, *(gradient(F.sum(mask * weight), [place]))])
    for image in images:
        value, slope = evaluate([image, *gradient(F.sum(image * weight), [place])])
        assert_allclose(value, known[0], atol=1e-6)
        assert_allclose(slope[..., :2], known[1][..., :2], atol=1e-6)
    assert 0 < known[0].min(where=known[0] > 0, initial=1) < 1 and abs(known[1]).max() > 0.1


def rays(camera: Camera, mesh) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nearest face (H, W), depth along the axis and point by Moeller and Trumbore, by hand."""
    origin, directions = camera.rays()
    a, b, c = (mesh.positions[mesh.faces[:, k]] for k in range(3))
    d = directions[:, :, None]
    p = np.cross(d, c - a)
    det = (p * (b - a)).sum(-1)
    u = (p * (origin - a)).sum(-1) / det
    q = np.cross(origin - a, b - a)
    v = (d * q).sum(-1) / det
    t = ((c - a) * q).sum(-1) / det
    t = np.where((u >= 0) & (v >= 0) & (u + v <= 1) & (t > 0), t, np.inf)
    face, depth = t.argmin(-1), t.min(-1)
    hit = np.isfinite(depth)
    depth = np.where(hit, depth, 0)
    return np.where(hit, face, -1), depth, origin + directions * depth[..., None]


def test_arrays_are_what_rays_meet():
    picture = render(CUBE, CAMERA, light=None, colours=CUBE.positions * 0.5 + 0.5)
    assert isinstance(picture, Pixels)
    face, depth, point = rays(CAMERA, CUBE)
    assert (picture.face != face).mean() < 0.02
    same = picture.face == face
    hit = same & (face >= 0)
    assert picture.colour.shape == (18, 24, 3) and picture.image.shape == (18, 24, 4) and hit.sum() > 60
    assert_allclose(picture.mask[same], (face >= 0)[same])
    assert_allclose(picture.depth[same], depth[same], atol=1e-4)
    assert_allclose(picture.point[hit], point[hit], atol=1e-4)
    assert_allclose(picture.colour[hit], point[hit] * 0.5 + 0.5, atol=1e-4)
    assert_allclose(picture.attribute(CUBE.positions[:, 1])[hit], point[hit][:, 1], atol=1e-4)
    assert_array_equal(picture.colour[picture.face < 0], 0)
    assert_array_equal(np.asarray(picture), picture.image)
    flat = render(CUBE, CAMERA, smooth=False)
    assert_allclose(flat.normal[hit], CUBE.face_normals()[face[hit]], atol=1e-5)
    to_eye = CAMERA.center - point
    to_eye = to_eye[hit] / np.linalg.norm(to_eye[hit], axis=-1, keepdims=True)
    cosine = (CUBE.face_normals()[face[hit]] * to_eye).sum(-1)
    assert_allclose(flat.colour[hit][:, 0], 0.1 + 0.9 * cosine, atol=1e-4)


def test_texture_light_and_background():
    mesh = primitives.cube()
    mesh.texture, mesh.color = np.random.default_rng(0).uniform(0, 1, (16, 16, 3)), (1.0, 0.5, 0.25)
    picture = render(mesh, CAMERA, light=None, background=(0.1, 0.2, 0.3))
    hit = picture.face >= 0
    assert_allclose(picture.colour[hit], mesh.sample_texture(picture.uv)[hit], atol=2e-3)
    assert_allclose(picture.colour[~hit], np.broadcast_to((0.1, 0.2, 0.3), (int((~hit).sum()), 3)), atol=1e-6)
    sun = render(CUBE, CAMERA, smooth=False, light=Light((0, 3, 0), colour=(1, 0.5, 0), ambient=0.2))
    up = hit & (sun.normal[..., 1] > 0.5)
    assert_allclose(sun.colour[up], np.broadcast_to((1.2, 0.7, 0.2), (int(up.sum()), 3)), atol=1e-5)
    assert_allclose(sun.colour[hit & ~up], 0.2, atol=1e-5)
    both = (CUBE.positions, CUBE.faces[:, ::-1]), CUBE
    assert_allclose(*(render(mesh, CAMERA, smooth=False).colour for mesh in both), atol=1e-6)
    shaded = render(CUBE, CAMERA, shader=lambda p: p.point * 0.5 + 0.5)
    assert_allclose(shaded.colour[hit], shaded.point[hit] * 0.5 + 0.5, atol=1e-5)


def test_samples_average_a_larger_picture(tmp_path):
    fine = render(CUBE, CAMERA.resized((72, 54)))
    picture = render(CUBE, CAMERA, samples=3)
    expected = fine.mask.reshape(18, 3, 24, 3).mean((1, 3))
    assert_allclose(picture.mask, expected, atol=1e-5)
    assert 0 < ((picture.mask > 0) & (picture.mask < 1)).mean() < 0.5
    picture.save(tmp_path / "cube.png")
    assert (tmp_path / "cube.png").stat().st_size > 100
    assert_allclose(picture.srgb.max(), 1, atol=0.02)
    with pytest.raises(InputError, match=r"\.png"):
        picture.save(tmp_path / "cube.obj")


def test_meshes_and_cameras_broadcast():
    cameras = ring(np.zeros(3), 1.8, 3, SIZE)
    each = np.stack([render(CUBE, camera).colour for camera in cameras])
    assert_allclose(render(CUBE, cameras).colour, each, atol=1e-5)
    assert_allclose(render(CUBE, list(cameras)).colour, each, atol=1e-5)
    assert_allclose(render(CUBE, cameras.matrices, size=SIZE).colour, each, atol=1e-5)
    scaled = CUBE.positions * np.array([1.0, 0.7, 0.4])[:, None, None]
    several = render(CUBE, CAMERA, positions=scaled).mask
    assert several.shape == (3, 18, 24)
    for k in range(3):
        assert_allclose(several[k], render(CUBE.moved(scaled[k]), CAMERA).mask, atol=1e-6)
    pairs = render(CUBE, cameras, positions=scaled).mask
    moved = render(CUBE, cameras, to_world=np.stack([np.diag([s, s, s, 1]) for s in (1.0, 0.7, 0.4)])).mask
    assert_allclose(moved, pairs, atol=1e-6)
    assert_allclose(pairs[1], render(CUBE.moved(scaled[1]), cameras[1]).mask, atol=1e-6)
    torus = primitives.torus(8, 6)
    found = render([CUBE, torus, CUBE], CAMERA)
    assert [p.mask.shape for p in found] == [(18, 24)] * 3
    assert_array_equal(found[0].mask, found[2].mask)
    both = render([CUBE, torus], Cameras([cameras[0], cameras[2]]))
    assert_allclose(both[1].mask, render(torus, cameras[2]).mask)


@pytest.mark.one_driver
def test_the_second_picture_builds_nothing(device):
    first = render(CUBE, CAMERA).colour
    assert first.any() and len(pixels._engines) == 1
    (kept,) = pixels._engines.values()
    plan = kept.engine.plan
    moved = render(CUBE.moved(CUBE.positions * 0.5), CAMERA).colour
    assert len(pixels._engines) == 1 and kept.engine.plan is plan
    pixels.close_engines()
    assert_allclose(moved, render(CUBE.moved(CUBE.positions * 0.5), CAMERA).colour)
    for k in range(pixels.KEPT + 2):
        assert render(CUBE, CAMERA.resized((8 + k, 8))).colour.any()
    assert len(pixels._engines) == pixels.KEPT


def test_gradients_flow_to_everything(device):
    mesh = primitives.octasphere(2)
    random = np.random.default_rng(1)
    positions = Variable.of(mesh.positions, name="positions")
    colours = Variable.of(random.uniform(0.2, 1, mesh.positions.shape), name="colours")
    turn = Variable.of([0.1, 0.2, 0.3], name="turn")
    eye = Variable.of([0.5, 1.0, 4.0], name="eye")
    light = Variable.of([0.3, 1.0, 0.5], name="light")
    behind = Variable.of([0.1, 0.2, 0.3], name="background")
    camera = CAMERA.with_view(rigid(*look_at(eye, (0.0, 0.0, 0.0))))
    to_world = rigid(axis_angle_to_matrix(turn), (0.0, 0.0, 0.0))
    given = {"positions": positions, "colours": colours, "light": light, "background": behind}
    picture = render(mesh, camera, to_world=to_world, radius=0.1, **given)
    assert isinstance(picture, Picture) and picture.form == "outer"
    leaves = [colours, light, behind]
    assert check_gradient(picture.colour, leaves) < 1e-6
    loss = F.mean(F.square(F.length(picture.colour - 0.3))) + F.mean(picture.mask)
    loss = loss + F.mean(picture.depth) * 0.1
    slopes = gradient(loss, [positions, colours, turn, eye, light, behind])
    with DressiAD(device) as ad:
        found = ad.evaluate(slopes)
    for value, expected in zip(found, evaluate(slopes), strict=True):
        assert np.abs(value).max() > 0
        # Drivers cover pixels on the outline differently.
        value = np.reshape(value, -1)
        expected = expected.reshape(-1)[: value.size]
        assert np.linalg.norm(value - expected) < 0.1 * np.linalg.norm(expected)


def test_the_gradient_of_a_silhouette_is_that_of_the_picture_drawn_again():
    mesh = primitives.octasphere(2)
    scale = Variable.of(1.0, name="scale")
    camera = Camera.perspective(45, (48, 48), (0.3, 0.5, 4.0), (0, 0, 0))
    grown = F.mat4((1.0, 0, 0, 0), (0, 1.0, 0, 0), (0, 0, 1.0, 0), (0, 0, 0, 1.0))
    to_world = F.mat4(*(F.column(grown, k) * scale for k in range(3)), (0.0, 0.0, 0.0, 1.0))
    loss = F.mean(render(mesh, camera, to_world=to_world, radius=0.08).mask)
    (slope,) = gradient(loss, [scale])

    def at(value: Variable, s: float) -> float:
        return evaluate([value], {scale: np.full((1, 1, 1), 1 + s)})[0].item()

    slopes = [at(slope, s) for s in np.linspace(-0.05, 0.05, 41)]
    assert np.mean(slopes) == pytest.approx((at(loss, 0.05) - at(loss, -0.05)) / 0.1, rel=0.03)


def test_a_scene_and_poses_are_drawn():
    cameras = ring(np.zeros(3), 2.0, 2, SIZE)
    halves = [CUBE.positions * 0.5 + (dx, 0, 0) for dx in (-0.8, 0.8)]
    nodes = [Node((list_leaf("a", VEC3, half), CUBE.faces)) for half in halves]
    scene = render(Scene(nodes), cameras, form="hard")
    assert isinstance(scene, Picture)
    mask = evaluate([scene.mask])[0]
    both = np.maximum(*(render(CUBE.moved(half), cameras).mask for half in halves))
    assert np.abs(mask - both).mean() < 0.01
    learned = poses(cameras)
    picture = render(CUBE, learned)
    assert picture.mask.batch == 2 and picture.form == "outer"
    assert_allclose(evaluate([picture._drawn.hard])[0], render(CUBE, cameras).mask, atol=0.01 * 432)


@pytest.mark.one_driver
@pytest.mark.parametrize("form", ["hard", "outer", "edges", "face"])
def test_depth_of_an_orthographic_matrix_is_z(form):
    """From 0 at the near plane to 1 at the far one, of strands too; its derivative is that of the pictures
    drawn again."""
    turn = axis_angle_to_matrix(np.array([0.4, 0.5, 0.1]))
    matrix = np.diag([0.6, -0.6, -0.1, 1.0]) @ rigid(turn, (0.0, 0, 0))
    matrix[2, 3] = 0.5
    shift = Variable(FLOAT, (1, 1), name="shift", data=np.zeros((1, 1, 1)))
    away = F.constant(tuple((turn.T @ (0.0, 0, -1)).tolist())) * shift
    options = {} if form in ("hard", "edges") else {"radius": 0.15}
    leaf, positions = Variable.of(matrix, MAT4), list_leaf("p", VEC3, CUBE.positions) + away
    picture = render(CUBE, leaf, positions=positions, size=(16, 12), form=form, **options)
    images = [picture.depth, picture.point, picture._drawn.hard]
    depth, point, hard, *slope = evaluate([*images, *gradient(F.sum(picture.depth), [shift])])
    at = hard[0] > 0
    if form == "edges":
        at[1:-1, 1:-1] &= at[:-2, 1:-1] & at[2:, 1:-1] & at[1:-1, :-2] & at[1:-1, 2:]
    assert_allclose(depth[0][at], point[0][at] @ matrix[2, :3] + matrix[2, 3], atol=1e-6)
    assert np.ptp(depth[0][at]) > 0.1
    ends = [evaluate([F.sum(picture.depth)], {shift: np.full((1, 1, 1), h)})[0].item() for h in (1e-5, -1e-5)]
    assert slope[0].item() == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6) and ends[0] > ends[1]
    if form == "hard":
        shape = StrandGeometry(CUBE.positions[:2], radius=0.4, caps="flat")
        strand = draw_strands(shape, leaf, size=(16, 12))
        mask, distance, summed = (x[0] for x in evaluate([strand.mask, strand.distance, strand.depth]))
        z = CUBE.positions[:2] @ matrix[2, :3] + matrix[2, 3]
        assert z.min() - 1e-6 <= distance[mask > 0.9].min() and distance.max() <= z.max() + 1e-6
        assert_allclose(summed[mask > 1e-3], (mask * distance)[mask > 1e-3], atol=1e-6)


def test_the_default_view_frames_the_mesh():
    for size in ((32, 32), (40, 20), (20, 40)):
        mask = render(CUBE, size=size).mask
        assert mask.shape == size[::-1] and 0.15 < mask.mean() < 0.8
        assert not mask[0].any() and not mask[-1].any() and not mask[:, 0].any() and not mask[:, -1].any()
    assert frame((0, 0, 0), (2, 4, 2), (8, 8)).project(np.array([1.0, 2, 1]))[0] == pytest.approx([4, 4])


BAD = np.array([[0, 1, 99]])
BEHIND = Camera.perspective(45, SIZE, (0, 0, 5), (0, 0, 10))
NAN = CUBE.positions * np.nan
UVS, ROWS = np.zeros((8, 2)), np.eye(4)
ROWS[3, :3] = 0.1


def lit(**options):
    return render(CUBE, CAMERA, **{"light": DirectionalLight((0, 0, 1))} | options)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: render((CUBE.positions, BAD), CAMERA), InputError, r"face 0 is \[0, 1, 99\], out of range for 8"),
        (lambda: render((CUBE.positions, CUBE.faces * 1.0), CAMERA), InputError, "integers"),
        (lambda: render((CUBE.positions, CUBE.faces), CAMERA, texture=np.ones((4, 4, 3))), InputError, "texture coordinates"),
        (lambda: render((NAN, CUBE.faces), CAMERA), InputError, "positions has values that are NaN|positions have|NaN"),
        (lambda: render(CUBE, BEHIND), InputError, "behind all cameras"),
        (lambda: render(CUBE, np.eye(4)), InputError, "size"),
        (lambda: render(CUBE, CAMERA, colours=np.ones((5, 3))), InputError, "5 rows for 8 vertices"),
        (lambda: render(CUBE, CAMERA, positions=Variable(FLOAT, (8, 1))), InputError, "VEC3 list"),
        (lambda: render(CUBE, CAMERA, positions=Variable(VEC3, (9, 1))), InputError, "list of 8 entries"),
        (lambda: render(CUBE, CAMERA, light="sun"), InputError, "'headlight'"),
        (lambda: render(CUBE, CAMERA, light=(0, 0, 0)), InputError, "zero"),
        (lambda: render(CUBE, CAMERA, samples=0), InputError, "samples"),
        (lambda: render(CUBE, CAMERA, form="soft"), InputError, "form is one of"),
        (lambda: render(CUBE, CAMERA, form="hard", radius=0.1), InputError, "has no radius"),
        (lambda: render(CUBE, CAMERA, radius=2), InputError, "fraction of the image height"),
        (lambda: render(CUBE, CAMERA, outputs="colour"), InputError, "outputs"),
        (lambda: render(CUBE, CAMERA, cull="front"), InputError, "cull"),
        (lambda: render("mesh.obj", CAMERA), InputError, "load_mesh"),
        (lambda: render([], CAMERA), InputError, "at least one"),
        (lambda: render([CUBE, CUBE], ring(np.zeros(3), 1, 3, SIZE)), InputError, "2 meshes need one camera or as many"),
        (lambda: render(CUBE, ring(np.zeros(3), 1, 3, SIZE), to_world=np.stack([np.eye(4)] * 2)), InputError, "3 cameras, 2 to_world"),
        (lambda: render(CUBE, "front"), InputError, "cameras are"),
        (lambda: render((CUBE.positions, CUBE.faces), CAMERA).uv, InputError, "texture coordinates"),
        (lambda: render(CUBE, CAMERA).attribute(np.ones((8, 5))), InputError, "attribute"),
        (lambda: render(CUBE, CAMERA, positions=Variable.of(CUBE.positions), form="face", layers=1).soft_target(np.ones(SIZE)), InputError, "compared as they are"),
        (lambda: render(CUBE, size=64), InputError, r"size of a picture is \(width, height\), not 64; give size=\(W, H\)"),
        (lambda: render(CUBE, np.eye(4), size=(32.5, 8)), InputError, "whole number, not 32.5"),
        (lambda: CAMERA.resized((32.5, 8)), InputError, "'camera': size 32.5x8: .* whole number, not 32.5"),
        (lambda: Camera.perspective(45, 64, (0, 0, 5), (0, 0, 0)), InputError, r"not 64; give \(W, H\)"),
        (lambda: rasterize_hard(np.ones((8, 4)), CUBE.faces, size=(8.5, 8), face_count=1), GraphError, "not 8.5"),
        (lambda: lit(uvs=UVS, texture=np.full((4, 4, 3), 200, np.uint8)), InputError, r"texture has code values \(uint8, up to 200"),
        (lambda: lit(colours=np.full((8, 3), 255.0)), InputError, r"colours has code values .*srgb_to_linear\(colours / 255"),
        (lambda: lit(background=(255, 0, 0)), InputError, "background has code values"),
        (lambda: render(replace(CUBE, color=(0, 128, 0)), CAMERA), InputError, "color of mesh 'cube' has code values"),
        (lambda: lit(light=Environment(np.full((8, 16, 3), 9, np.uint8))), InputError, "map has code values"),
        (lambda: lit(material={"alpha": 2}), InputError, r"alpha is 2, which is not in \[0, 1\]"),
        (lambda: lit(material={"roughness": 2}), InputError, r"roughness is 2, which is not in \[0, 1\]"),
        (lambda: lit(uvs=UVS, material={"roughness": np.full((2, 2), 200)}), InputError, "divide code values by 255"),
        (lambda: lit(light=DirectionalLight((0, 0, 1), colour=(1, -1, 0))), InputError, "colour of DirectionalLight is -1"),
        (lambda: lit(light=Light((0, 0, 1), ambient=-0.5)), InputError, "ambient of Light is -0.5; light is not negative"),
        (lambda: lit(to_world=ROWS), InputError, r"translation in the last row.* give to_world.swapaxes"),
        (lambda: lit(to_world=Variable.of(ROWS, MAT4)), InputError, "translation in the last row"),
        (lambda: Node(CUBE, to_world=CAMERA.world_to_clip), InputError, "the last row of to_world"),
        (lambda: CAMERA.with_view(ROWS), InputError, "view has its translation in the last row"),
        (lambda: render(CUBE, CAMERA, positions=Variable.of(CUBE.positions)).save("x.png"), AttributeError, "only pictures of arrays have 'save'"),
        (lambda: draw_strands(StrandGeometry(CUBE.positions), CAMERA).save("x.png"), AttributeError, "only pictures of arrays have 'save'"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, error, words: str):
    with pytest.raises(error, match=words):
        call()


def test_a_mesh_beside_the_picture_is_warned_of():
    away = Camera.perspective(20, SIZE, (0, 0, 5), (9, 0, 0))
    with pytest.warns(UserWarning, match="outside of every picture"):
        render(CUBE, away)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        render(CUBE, [CAMERA, away])


@pytest.mark.one_driver
@pytest.mark.parametrize(
    "options, words",
    [
        ({"material": {"roughness": 0.2}}, "roughness of the material change nothing: the headlight"),
        ({"material": Material(metallic=1.0)}, "metallic of the material change nothing"),
        ({"material": {"emission": 1.0}, "light": None}, "emission of the material change nothing: without a light"),
        ({"material": {"texture": (1.0, 1.0, 1.0)}}, None),
        ({"material": {"roughness": 0.2}, "light": PointLight((0, 0, 4))}, None),
        ({"colours": np.full((8, 3), 99.5)}, "colours has values up to 99.5"),
        ({"colours": np.full((8, 3), 3.0)}, None),
    ],
)  # fmt: skip
def test_what_changes_nothing_or_is_too_bright_is_warned_of(options, words):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        render(CUBE, CAMERA, **options)
    assert words in str(found[0].message) if words else not found


@pytest.mark.one_driver
@pytest.mark.parametrize("form", ["outer", "face"])
def test_a_radius_that_reached_zero_comes_back(device, form):
    """Also from below: the mask is that of half of a pixel, and both the radius and the positions keep their
    gradients."""
    radius, positions = Variable(FLOAT, (1, 1), name="radius"), Variable.of(CUBE.positions)
    mask = render(CUBE, CAMERA, positions=positions, radius=radius, form=form).mask
    loss = F.mean(F.square(mask - 0.3))
    with DressiAD(device) as ad:
        read = []
        for value in (0.5 / SIZE[1], 0.0, -0.1):
            ad.send(radius, np.full((1, 1, 1), value))
            read.append(ad.evaluate([mask, *gradient(loss, [radius, positions])]))
    for least, other in zip(read[0], read[1], strict=True):
        assert np.abs(other).sum() > 0
        assert_allclose(other, least, atol=1e-5)
    assert_allclose(read[2][0], read[0][0], atol=1e-5)


def test_lists_of_positions_fit_variables():
    batch = np.stack([list_image(CUBE.positions)[0]] * 2)
    picture = render(CUBE, CAMERA, positions=Variable(VEC3, (8, 1), 2, data=batch))
    assert picture.colour.batch == 2
    matrices = Variable(MAT4, (1, 1), 2, data=np.stack([CAMERA.world_to_clip] * 2)[:, None, None])
    assert render(CUBE, matrices, size=SIZE).mask.batch == 2


CLIP = Variable(VEC3, (8, 1), name="corners")


def rasterized(faces: np.ndarray, clip: Any = np.ones((8, 4)), count: int = 12) -> Variable:  # noqa: B008
    return rasterize_hard(clip, faces, size=SIZE, face_count=count)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: hard_soft_ras(CLIP, CUBE.faces, size=SIZE, face_count=12, form="outer", radius=0.1), "use to_clip"),
        (lambda: rasterized(CUBE.faces, CLIP), "use to_clip"),
        (lambda: rasterized(CUBE.faces * 1.0), "faces are integers"),
        (lambda: rasterized(CUBE.faces[:, :2]), r"array \(N, 3\)"),
        (lambda: rasterized(CUBE.faces, count=99), "test_render.py"),
        (lambda: to_clip(Variable(FLOAT, (8, 1)), np.eye(4)), "positions are a VEC3 list"),
        (lambda: to_clip(CUBE.positions[:, :2], np.eye(4)), "positions are a VEC3 list"),
    ],
)  # fmt: skip
def test_messages_of_the_parts_name_the_cure(call, words: str):
    with pytest.raises(GraphError, match=words):
        call()


def test_the_parts_take_arrays():
    clip = to_clip(CUBE.positions, CAMERA.world_to_clip)
    soft = hard_soft_ras(clip, CUBE.faces, size=SIZE, face_count=12, form="outer", radius=0.1)
    face = rasterize_hard(evaluate([clip])[0][0, 0], CUBE.faces, size=SIZE, face_count=12)
    mask, found = evaluate([soft.hard, face])
    assert_array_equal(mask, found >= 0)
    assert evaluate([vertex_normals(CUBE.positions, CUBE.faces)])[0].shape == (1, 1, 8, 3)
