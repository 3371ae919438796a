"""Materials in pictures, and where their maps are placed."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dressi import FLOAT, MAT4, VEC2, VEC3, DressiAD, F, InputError, Variable, adam
from dressi.ad.check import check_gradient
from dressi.ad.graph.evaluation import evaluate
from dressi.config import shader_text
from dressi.render import Bsdf, Camera, Cameras, Environment, Material, Mesh, Node, Scene, render, ring
from dressi.render.core.materials import MaterialKind, Parameter, Placement
from dressi.render.drawing.draw import draw
from dressi.render.shading.lights import DirectionalLight, Light, PointLight
from dressi.vk.plan.core.limits import profile
from dressi.vk.plan.model.records import model_of_profile
from dressi.vk.planning import PlanningEngine

pytestmark = pytest.mark.usefixtures("engines")

SIZE = (16, 16)
CAMERA = Camera.perspective(45, SIZE, (0.2, 0.3, 4.0), (0, 0, 0))
FACES = [[0, 1, 2], [0, 2, 3]]
CORNERS = [[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]]
SQUARE = Mesh(CORNERS, FACES, uvs=[[0, 1], [1, 1], [1, 0], [0, 0]], uv_faces=FACES, name="square")
SUN = DirectionalLight((0.5, 0.4, 1.0), (2.0, 2.0, 2.0))


def whole() -> Material:
    rng = np.random.default_rng(0)
    normal = np.concatenate([rng.uniform(-0.3, 0.3, (4, 4, 2)), np.ones((4, 4, 1))], axis=-1)
    return Material(
        metallic=0.8, roughness=0.9, metallic_roughness=rng.uniform(0.2, 1, (4, 4, 2)),
        normal=normal / np.linalg.norm(normal, axis=-1, keepdims=True), normal_scale=0.7, occlusion=rng.random((4, 4)),
        emission=(0.1, 0.0, 0.2), emission_map=rng.random((3, 5, 3)), clearcoat=0.5, clearcoat_roughness=0.3,
        sheen_color=(0.2, 0.1, 0.0), sheen_roughness=0.5,
    )  # fmt: skip


@pytest.mark.one_driver
def test_every_part_of_a_material_reaches_the_picture():
    mesh = replace(SQUARE, material=whole(), texture=np.full((2, 2, 3), 0.5))
    full = render(mesh, CAMERA, light=SUN).colour
    for field in "metallic roughness normal emission clearcoat sheen_color metallic_roughness".split():
        default = Material.__dataclass_fields__[field].default
        other = replace(mesh, material=replace(whole(), **{field: default}))
        assert np.abs(render(other, CAMERA, light=SUN).colour - full).max() > 1e-3, field
    # Occlusion is of light from all around only.
    other = replace(mesh, material=replace(whole(), occlusion=None))
    assert_array_equal(render(other, CAMERA, light=SUN).colour, full)


@pytest.mark.one_driver
def test_given_parts_replace_those_of_the_mesh():
    mesh = replace(SQUARE, material=whole())
    own = render(mesh, CAMERA, light=SUN).colour
    columns = whole().metallic_roughness
    given = render(mesh, CAMERA, light=SUN, material={"roughness": columns[..., 1] * 0.9}).colour
    assert_allclose(given, own, atol=1e-5)
    smooth = render(mesh, CAMERA, light=SUN, material={"roughness": 0.1, "normal": (0.0, 0.0, 1.0)}).colour
    assert np.abs(smooth - own).max() > 0.01


@pytest.mark.one_driver
def test_a_flat_normal_map_changes_nothing():
    plain = replace(SQUARE, material=Material(roughness=0.4))
    flat = replace(SQUARE, material=Material(roughness=0.4, normal=np.tile([0.0, 0, 1], (2, 2, 1))))
    a, b = (render(mesh, CAMERA, light=[SUN, PointLight((0, 0, 1.5))]).colour for mesh in (plain, flat))
    assert_allclose(a, b, atol=1e-5)


def test_cut_outs_show_what_is_behind():
    alpha = np.array([[1.0, 0.0], [0.0, 1.0]])
    holed = replace(SQUARE, material=Material(alpha=alpha, alpha_mode="mask"))
    mask = render(holed, CAMERA, light=None).mask
    whole_mask = render(SQUARE, CAMERA, light=None).mask
    assert 0.4 < mask.sum() / whole_mask.sum() < 0.6
    picture = render(SQUARE, CAMERA, light=None, material={"alpha": Variable.of(alpha, FLOAT)})
    (oracle,) = evaluate([picture.mask])
    assert_array_equal(oracle[0], mask)
    opaque = replace(SQUARE, material=Material(alpha=alpha))
    assert_array_equal(render(opaque, CAMERA, light=None).mask, whole_mask)


def test_gradients_by_maps_light_and_shape():
    rng = np.random.default_rng(1)
    roughness = Variable.of(rng.uniform(0.3, 0.9, (3, 3)), FLOAT, name="roughness")
    normal = Variable.of(rng.uniform(0.2, 1, (3, 3, 3)), VEC3, name="normal")
    metallic = Variable.of(np.full((1, 1), 0.4), FLOAT, name="metallic")
    towards = Variable.of([[0.4, 0.3, 1.0]], VEC3, name="towards")
    colour = Variable.of([[1.0, 2.0, 1.5]], VEC3, name="colour")
    positions = Variable.of(SQUARE.positions, VEC3, name="positions")
    picture = render(
        SQUARE,
        Camera.perspective(45, (6, 5), (0.23, 0.31, 4.0), (0, 0, 0)),
        positions=positions,
        form="hard",
        texture=rng.random((2, 2, 3)),
        material={"roughness": roughness, "metallic": metallic, "normal": F.normalize(normal)},
        light=[DirectionalLight(towards, colour), PointLight((0.3, 0.2, 1.0), colour)],
    )
    assert check_gradient(picture.colour, [roughness, normal, metallic, towards, colour, positions]) < 1e-5


@pytest.mark.one_driver
@pytest.mark.parametrize("light", [None, SUN], ids=["albedo", "lit"])
def test_gradients_pass_through_the_mip_level(light):
    """Float64. A texture much finer than the pixels and oblique to them, so that the level changes with
    everything."""
    rng = np.random.default_rng(2)
    fine = rng.random((64, 64, 3))
    positions = Variable.of(SQUARE.positions, VEC3, name="positions")
    uvs = Variable.of(np.array([[0.1, 0.9], [0.8, 0.95], [0.9, 0.2], [0.15, 0.1]]), VEC2, name="uvs")
    camera = Camera.perspective(45, (7, 5), (1.5, 1.1, 2.5), (0.03, 0.11, 0)).world_to_clip
    matrix = Variable(MAT4, name="matrix", data=np.asarray(camera)[None, None, None])
    material = {"roughness": 0.3 + 0.6 * rng.random((64, 64))}
    arguments = {"size": (7, 5), "form": "hard", "texture": fine, "material": material, "light": light}
    own = {"positions": positions, "uvs": uvs, "uv_faces": SQUARE.uv_faces}
    picture = render(SQUARE, matrix, **own, filter="trilinear", **arguments)
    for leaf in (positions, uvs, matrix):
        assert check_gradient(picture.colour, [leaf]) < 1e-5, leaf.name


def test_devices_agree_with_the_oracle(device):
    mesh = replace(SQUARE, material=whole(), texture=np.full((2, 2, 3), 0.5))
    leaf = Variable.of([[0.5, 0.4, 1.0]], VEC3, name="towards")
    picture = render(mesh, CAMERA, light=DirectionalLight(leaf), filter="trilinear")
    (oracle,) = evaluate([picture.colour])
    with DressiAD(device) as ad:
        assert_allclose(ad.evaluate([picture.colour])[0], oracle, rtol=1e-3, atol=1e-4)


def test_a_map_needs_texture_coordinates():
    bare = replace(SQUARE, uvs=None, uv_faces=None)
    with pytest.raises(InputError, match="texture coordinates"):
        render(bare, CAMERA, light=SUN, material={"roughness": np.ones((2, 2))}).colour.sum()


@pytest.mark.one_driver
def test_six_views_pack_into_the_stages_of_one():
    mesh = replace(SQUARE, material=whole(), texture=np.full((2, 2, 3), 0.5))
    counts = []
    for views in (1, 6):
        roughness = Variable.of(np.full((4, 4), 0.5), FLOAT, name="roughness")
        cameras = ring(np.zeros(3), 1.0, views, SIZE)
        sky = Environment(np.full((8, 16, 3), 0.5), lobes=1)
        picture = render(mesh, cameras, material={"roughness": roughness}, light=sky, filter="trilinear")
        engine = PlanningEngine(profile("lavapipe"), model_of_profile("lavapipe"), shader_text)
        engine.set_loss(F.mean(F.square(F.length(picture.colour))))
        engine.set_optimizer(adam(0.01), [roughness])
        counts.append((engine.plan.counts["stages"], engine.plan.counts["substages"]))
    assert counts[0] == counts[1]


@pytest.mark.one_driver
@pytest.mark.parametrize(
    "arguments, text",
    [
        ({"ligth": None}, "did you mean 'light'"),
        ({"backgroud": 1}, "did you mean 'background'"),
        ({"layer": 3}, "did you mean 'layers'"),
        ({"zoom": None}, "no argument 'zoom'; leave it out"),
        ({"filter": "trilinaer"}, "did you mean 'trilinear'"),
        ({"form": "contour"}, "edges takes its place"),
        ({"colors": np.ones((8, 3))}, "did you mean 'colours'"),
        ({"edges": np.ones((3, 2))}, "edges is one value"),
        ({"form": np.ones(3)}, "form is one of"),
        ({"radius": np.ones(3)}, "radius is a number"),
        ({"shader": np.ones(3)}, "shader is a function"),
        ({"material": {"roughnes": 0.1}}, "did you mean 'roughness'"),
        ({"form": "outer", "sigma": 0.1}, "sigma has no meaning in the outer form"),
        ({"material": {"shininess": 3}}, "roughness"),
        ({"material": {"roughness": np.zeros((2, 2, 3))}}, r"\(H, W\)"),
        ({"material": {"normal": Variable.of(np.zeros((2, 2)), FLOAT)}}, "VEC3"),
        ({"material": {"roughness": np.full((2, 2), np.nan)}}, "NaN"),
        ({"light": [Light((0, 0, 1)), 3]}, "list of lights"),
        ({"light": DirectionalLight((0, 0, 0))}, "zero"),
        ({"light": "sunset"}, "headlight"),
        ({"filter": "cubic"}, "trilinear"),
    ],
)
def test_bad_arguments_name_the_cure(arguments, text):
    with pytest.raises(InputError, match=text):
        np.asarray(render(SQUARE, CAMERA, **arguments))


PLACEMENT_CAMERA = Camera.perspective(30, SIZE, (0.1, 0.2, 4.0), (0, 0, 0))
RNG = np.random.default_rng(7)
SECOND = [[0.2, 0.1], [0.9, 0.1], [0.9, 0.8], [0.2, 0.8]]
PLACEMENT_SQUARE = replace(
    SQUARE, uvs=SQUARE.uvs * 2 - 0.4, texture=RNG.random((4, 6, 3)), second_uvs=SECOND, second_uv_faces=FACES
)


@pytest.mark.parametrize("wrap", [("clamp", "repeat"), ("mirror", "clamp")])
def test_each_axis_wraps_by_its_own_rule(wrap):
    mesh = replace(PLACEMENT_SQUARE, material=Material(wrap=wrap))
    shown = render(mesh, PLACEMENT_CAMERA, light=None, colours=np.ones((4, 3)))
    positions = Variable.of(PLACEMENT_SQUARE.positions, VEC3)
    oracle = render(mesh, PLACEMENT_CAMERA, positions=positions, form="hard")
    uv, mask = (x[0] for x in evaluate([oracle.uv, oracle.mask]))
    # Drivers differ on whether they cover a pixel centre at an edge.
    inside = (shown.mask > 0) & (mask > 0)
    assert inside.sum() > 100
    assert_allclose(shown.colour[inside], mesh.sample_texture(uv)[inside], atol=2e-3)


@pytest.mark.one_driver
def test_unlit_pictures_have_textures_where_they_lie(device):
    place = Placement(1, ((0.0, 1.5), (-2.0, 0.0)), (0.3, 0.1), ("mirror", "clamp"))
    mesh = replace(PLACEMENT_SQUARE, material=Material(placements={"texture": place}))
    _, colours = draw(mesh, Cameras([PLACEMENT_CAMERA]), lambda: DressiAD(device))
    # Rounding decides whether the centre of a pixel at an edge is covered.
    off = np.abs(colours[0] - render(mesh, PLACEMENT_CAMERA, light=None).colour).max(-1) > 2e-3
    assert off.mean() < 0.02 and colours[0].any()


@pytest.mark.one_driver
def test_maps_lie_at_their_own_coordinates():
    """A second set of UVs and an affine motion give what a mesh with these UVs shows."""
    glow = RNG.random((3, 5, 3))
    place = Placement(1, ((0.0, 1.5), (-2.0, 0.0)), (0.3, 0.1), ("mirror", "repeat"))
    dark = {"texture": None, "color": (0.0, 0.0, 0.0)}
    lamp = Material(emission=(1.0, 1.0, 1.0), emission_map=glow)
    own = replace(lamp, placements={"emission_map": place})
    moved = PLACEMENT_SQUARE.second_uvs @ np.transpose(place.matrix) + place.offset
    wanted = replace(PLACEMENT_SQUARE, **dark, uvs=moved, material=replace(lamp, wrap=place.wrap))
    mesh = replace(PLACEMENT_SQUARE, **dark, material=own)
    for filter in ("bilinear", "trilinear"):
        found, plain = (render(m, PLACEMENT_CAMERA, light=SUN, filter=filter).colour for m in (mesh, wanted))
        assert_allclose(found, plain, atol=1e-4)
    # A map that is given in its place lies there too, and has a gradient.
    leaf = Variable.of(glow, VEC3, name="glow")
    picture = render(mesh, PLACEMENT_CAMERA.resized((5, 4)), light=SUN, material={"emission": leaf})
    assert check_gradient(picture.colour, [leaf]) < 1e-5
    bare = replace(mesh, second_uvs=None, second_uv_faces=None)
    with pytest.raises(InputError, match="places emission_map by second UVs, which the mesh lacks"):
        np.asarray(render(bare, PLACEMENT_CAMERA, light=SUN))


@pytest.mark.one_driver
def test_opacity_is_what_blending_takes_from_behind():
    alpha = RNG.random((3, 3))
    mesh = replace(PLACEMENT_SQUARE, material=Material(alpha=alpha, alpha_mode="blend"))
    leaf = Variable.of(alpha, FLOAT, name="alpha")
    given = {"light": SUN, "form": "hard"}
    point = render(mesh, PLACEMENT_CAMERA, material={"alpha": leaf}, **given).seen
    positions = Variable.of(PLACEMENT_SQUARE.positions, VEC3)
    solid = render(replace(mesh, material=None), PLACEMENT_CAMERA, positions=positions, **given).seen
    assert point.look.transparent and not solid.look.transparent and solid.transmittance is None
    images = [point.map("alpha"), point.lit(), point.transmittance, solid.lit()]
    opacity, lit, through, full = evaluate(images)
    inside = opacity > 0
    assert_allclose(lit[inside], (opacity[..., None] * full)[inside], rtol=1e-6)
    assert_allclose(through[inside], (1 - opacity[..., None].repeat(3, -1))[inside], rtol=1e-6)


@dataclass(frozen=True, eq=False)
class Wax(Bsdf):
    kind = MaterialKind("wax", (Parameter("depth", default=0.5), Parameter("roughness", optional=False)))
    depth: Any = 0.5
    roughness: Any = None

    def reflected(self, frame, to_light):
        wrapped = (F.dot(frame.normal, to_light) + self.depth) / (1.0 + self.depth)
        return self.base * (F.maximum(wrapped, 0.0) * self.roughness / np.pi)


@pytest.mark.one_driver
def test_a_surface_of_ones_own_is_a_material():
    depth = Variable.of([[0.2, 0.6], [0.9, 0.4]], FLOAT, name="depth")
    mesh = replace(PLACEMENT_SQUARE, material=Material(roughness=0.7, metallic=1.0))
    small = PLACEMENT_CAMERA.resized((5, 4))
    picture = render(mesh, small, material=Wax(depth=depth), light=[SUN, Environment(np.ones((8, 16, 3)))])
    assert check_gradient(picture.colour, [depth]) < 1e-5
    white = replace(PLACEMENT_SQUARE, texture=None)
    n_l = SUN.direction[2] / np.linalg.norm(SUN.direction)
    for material, value in ((Wax(depth=1.0), 0.0), (Wax((0.5, 1.0, 1.0), 1.0, 0.4), 0.4)):
        shown = render(white, PLACEMENT_CAMERA, material=material, light=SUN).colour[8, 8]
        base = 1.0 if material.base is None else np.array(material.base)
        assert_allclose(shown, base * (n_l + 1) / 2 * value * 2 / np.pi * np.ones(3), rtol=1e-4)
    # It takes what it leaves out from the mesh, and stands beside other materials.
    scene = Scene([Node(mesh, Wax(depth=1.0)), Node(mesh, to_world=np.diag([1, 1, 1, 1.0]))])
    shown = render(scene, PLACEMENT_CAMERA, light=SUN).colour[8, 8]
    assert (shown > 0).all()
    with pytest.raises(InputError, match=r"depth is one value or an image \(H, W\)"):
        render(mesh, PLACEMENT_CAMERA, material=Wax(depth=np.ones((2, 2, 3))), light=SUN)


@pytest.mark.one_driver
def test_unlit_materials_show_their_colour_under_any_light():
    mesh = replace(PLACEMENT_SQUARE, material=Material(unlit=True, metallic=0.3))
    wanted = render(mesh, PLACEMENT_CAMERA, light=None).colour
    for light in (SUN, "headlight", Environment(np.ones((8, 16, 3)))):
        assert_allclose(render(mesh, PLACEMENT_CAMERA, light=light).colour, wanted, atol=1e-5)
