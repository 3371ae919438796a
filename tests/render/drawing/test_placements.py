"""Where maps lie: UV sets, transforms and wraps of their own; and materials that are not the shipped, lit and opaque one."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from dressi import DressiAD, F, Variable
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.types import FLOAT, VEC3
from dressi.errors import InputError
from dressi.render import Bsdf, Camera, DirectionalLight, Environment, Material, Mesh, Node, Scene, render
from dressi.render.cameras import Cameras
from dressi.render.drawing import pixels
from dressi.render.drawing.draw import draw
from dressi.render.materials import MaterialKind, Parameter, Placement

SIZE = (16, 16)
CAMERA = Camera.perspective(30, SIZE, (0.1, 0.2, 4.0), (0, 0, 0))
RNG = np.random.default_rng(7)
TEXTURE = RNG.random((4, 6, 3))
SQUARE = Mesh(
    [[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]],
    [[0, 1, 2], [0, 2, 3]],
    uvs=np.array([[0.0, 1], [1, 1], [1, 0], [0, 0]]) * 2 - 0.4,
    uv_faces=[[0, 1, 2], [0, 2, 3]],
    texture=TEXTURE,
    second_uvs=[[0.2, 0.1], [0.9, 0.1], [0.9, 0.8], [0.2, 0.8]],
    second_uv_faces=[[0, 1, 2], [0, 2, 3]],
    name="square",
)
SUN = DirectionalLight((0.5, 0.4, 1.0), (2.0, 2.0, 2.0))


@pytest.fixture(autouse=True)
def engines(device, monkeypatch):
    pixels.close_engines()
    monkeypatch.setattr(pixels, "default_engine", lambda: DressiAD(device))
    yield
    pixels.close_engines()


@pytest.mark.parametrize("wrap", [("clamp", "repeat"), ("mirror", "clamp")])
def test_each_axis_wraps_by_its_own_rule(wrap):
    mesh = replace(SQUARE, material=Material(wrap=wrap))
    shown = render(mesh, CAMERA, light=None, colours=np.ones((4, 3)))
    oracle = render(mesh, CAMERA, positions=Variable.of(SQUARE.positions, VEC3), form="hard")
    uv, mask = (x[0] for x in evaluate([oracle.uv, oracle.mask]))
    # Drivers differ on whether they cover a pixel centre at an edge.
    inside = (shown.mask > 0) & (mask > 0)
    assert inside.sum() > 100
    np.testing.assert_allclose(shown.colour[inside], mesh.sample_texture(uv)[inside], atol=2e-3)


@pytest.mark.one_driver
def test_unlit_pictures_have_textures_where_they_lie(device):
    place = Placement(1, ((0.0, 1.5), (-2.0, 0.0)), (0.3, 0.1), ("mirror", "clamp"))
    mesh = replace(SQUARE, material=Material(placements={"texture": place}))
    _, colours = draw(mesh, Cameras([CAMERA]), lambda: DressiAD(device))
    # Rounding decides whether the centre of a pixel at an edge is covered.
    off = np.abs(colours[0] - render(mesh, CAMERA, light=None).colour).max(-1) > 2e-3
    assert off.mean() < 0.02 and colours[0].any()


@pytest.mark.one_driver
def test_maps_lie_at_their_own_coordinates():
    """A second set of UVs and an affine motion give what a mesh with these UVs shows."""
    glow = RNG.random((3, 5, 3))
    place = Placement(1, ((0.0, 1.5), (-2.0, 0.0)), (0.3, 0.1), ("mirror", "repeat"))
    dark = {"texture": None, "color": (0.0, 0.0, 0.0)}
    lamp = Material(emission=(1.0, 1.0, 1.0), emission_map=glow)
    own = replace(lamp, placements={"emission_map": place})
    moved = SQUARE.second_uvs @ np.transpose(place.matrix) + place.offset
    wanted = replace(SQUARE, **dark, uvs=moved, material=replace(lamp, wrap=place.wrap))
    mesh = replace(SQUARE, **dark, material=own)
    for filter in ("bilinear", "trilinear"):
        found, plain = (render(m, CAMERA, light=SUN, filter=filter).colour for m in (mesh, wanted))
        np.testing.assert_allclose(found, plain, atol=1e-4)
    # A map that is given in its place lies there too, and has a gradient.
    leaf = Variable.of(glow, VEC3, name="glow")
    picture = render(mesh, CAMERA.resized((5, 4)), light=SUN, material={"emission": leaf})
    assert check_gradient(picture.colour, [leaf]) < 1e-5
    bare = replace(mesh, second_uvs=None, second_uv_faces=None)
    with pytest.raises(InputError, match="places emission_map by second UVs, which the mesh lacks"):
        np.asarray(render(bare, CAMERA, light=SUN))


@pytest.mark.one_driver
def test_opacity_is_what_blending_takes_from_behind():
    alpha = RNG.random((3, 3))
    mesh = replace(SQUARE, material=Material(alpha=alpha, alpha_mode="blend"))
    leaf = Variable.of(alpha, FLOAT, name="alpha")
    given = {"light": SUN, "form": "hard"}
    point = render(mesh, CAMERA, material={"alpha": leaf}, **given).seen
    solid = render(
        replace(mesh, material=None), CAMERA, positions=Variable.of(SQUARE.positions, VEC3), **given
    ).seen
    assert point.look.transparent and not solid.look.transparent and solid.transmittance is None
    opacity, lit, through, full = evaluate(
        [point.map("alpha"), point.lit(), point.transmittance, solid.lit()]
    )
    inside = opacity > 0
    np.testing.assert_allclose(lit[inside], (opacity[..., None] * full)[inside], rtol=1e-6)
    np.testing.assert_allclose(through[inside], (1 - opacity[..., None].repeat(3, -1))[inside], rtol=1e-6)


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
    mesh = replace(SQUARE, material=Material(roughness=0.7, metallic=1.0))
    small = CAMERA.resized((5, 4))
    picture = render(mesh, small, material=Wax(depth=depth), light=[SUN, Environment(np.ones((8, 16, 3)))])
    assert check_gradient(picture.colour, [depth]) < 1e-5
    white = replace(SQUARE, texture=None)
    n_l = SUN.direction[2] / np.linalg.norm(SUN.direction)
    for material, value in ((Wax(depth=1.0), 0.0), (Wax((0.5, 1.0, 1.0), 1.0, 0.4), 0.4)):
        shown = render(white, CAMERA, material=material, light=SUN).colour[8, 8]
        base = 1.0 if material.base is None else np.array(material.base)
        np.testing.assert_allclose(shown, base * (n_l + 1) / 2 * value * 2 / np.pi * np.ones(3), rtol=1e-4)
    # It takes what it leaves out from the mesh, and stands beside other materials.
    scene = Scene([Node(mesh, Wax(depth=1.0)), Node(mesh, to_world=np.diag([1, 1, 1, 1.0]))])
    shown = render(scene, CAMERA, light=SUN).colour[8, 8]
    assert (shown > 0).all()
    with pytest.raises(InputError, match=r"depth is one value or an image \(H, W\)"):
        render(mesh, CAMERA, material=Wax(depth=np.ones((2, 2, 3))), light=SUN)


@pytest.mark.one_driver
def test_unlit_materials_show_their_colour_under_any_light():
    mesh = replace(SQUARE, material=Material(unlit=True, metallic=0.3))
    wanted = render(mesh, CAMERA, light=None).colour
    for light in (SUN, "headlight", Environment(np.ones((8, 16, 3)))):
        np.testing.assert_allclose(render(mesh, CAMERA, light=light).colour, wanted, atol=1e-5)
