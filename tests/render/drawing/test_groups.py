"""Nodes of one structure are shaded together: the same colours and derivatives as when each is shaded by itself."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from dressi.ad import functional as F
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.transform.gradient import gradient
from dressi.ad.types import FLOAT, MAT4, VEC3
from dressi.render import Camera, DirectionalLight, Environment, Material, Mesh, Node, Scene, render
from dressi.render.drawing.scenes import groups, joined
from dressi.render.drawing.scenes.joined import scene_given
from dressi.render.materials import MaterialKind, Parameter, Placement
from dressi.render.shading.bsdf import Bsdf

SIZE = (24, 16)
CAMERA = Camera.perspective(40, SIZE, (0.2, 0.3, 5), (0, 0, 0))
SUN = DirectionalLight((0.5, 0.4, 1.0), (2.0, 2.0, 2.0))
RANDOM = np.random.default_rng(3)
ROUGH = Variable(FLOAT, (1, 1), name="rough", data=[[[0.5]]])
TINT = Variable(VEC3, (5, 4), name="tint", data=RANDOM.random((1, 4, 5, 3)))
PLACE = Variable(MAT4, (1, 1), name="place", data=np.eye(4).reshape(1, 1, 1, 4, 4))
LEAVES = [ROUGH, TINT, PLACE]


def tile(texture: np.ndarray, **material) -> Mesh:
    """A square whose two faces are tilted, with normals and a map of normals."""
    bumps = RANDOM.normal(size=(3, 3, 3)) * 0.2 + (0, 0, 1)
    bumps /= np.linalg.norm(bumps, axis=-1, keepdims=True)
    normals = RANDOM.normal(size=(4, 3)) * 0.2 + (0, 0, 1)
    return Mesh(
        [[-1, -1, 0], [1, -1, 0.2], [1, 1, 0], [-1, 1, 0.2]],
        [[0, 1, 2], [0, 2, 3]],
        uvs=[[0.0, 1], [1, 1], [1, 0], [0, 0]],
        uv_faces=[[0, 1, 2], [0, 2, 3]],
        normals=normals / np.linalg.norm(normals, axis=1, keepdims=True),
        normal_faces=[[0, 1, 2], [0, 2, 3]],
        texture=texture,
        material=Material(normal=bumps, **material),
    )


def at(x: float, y: float) -> np.ndarray:
    matrix = np.diag([0.9, 0.8, 1.0, 1.0])
    matrix[:3, 3] = x, y, 0.3 * x
    return matrix


def scene() -> Scene:
    """Of the tiles three share a texture, maps lie at coordinates of their own, one is moved and one learned; one has holes."""
    textures = [RANDOM.random((4, 5, 3)) for _ in range(2)]
    holes = (RANDOM.random((2, 3, 6)) > 0.4).astype(float)
    turned = [Placement(0, ((a, 0.3), (-0.3, a)), (0.1, a)) for a in (1.5, 0.7, 1.1, 0.4)]
    meshes = [
        tile(textures[k % 2], roughness=0.3 + 0.1 * k, placements={"normal": place}, metallic=0.2 * k)
        for k, place in enumerate(turned)
    ]
    return Scene(
        [
            Node(meshes[0], to_world=at(-1.1, 0.9)),
            Node(meshes[1], {"roughness": ROUGH}, at(-0.9, -0.8)),
            Node(meshes[2], to_world=at(0.6, 0.5)),
            *(
                Node(m, to_world=F.matmul(PLACE, Variable(MAT4, data=at(*xy).reshape(1, 1, 1, 4, 4))))
                for m, xy in ((meshes[3], (1.4, -0.7)), (meshes[0], (0.1, 0.1)))
            ),
            Node(meshes[0], {"texture": TINT}, at(0.5, -1.2)),
            *(
                Node(replace(m, material=Material()), {"alpha": hole, "alpha_cutoff": cut}, at(2.0, y))
                for m, hole, cut, y in zip(meshes, holes, (0.5, 0.2), (1.0, -1.0), strict=False)
            ),
        ]
    )


def apart(monkeypatch) -> None:
    """Every node by itself from now on."""
    monkeypatch.setattr(groups, "_look_of", lambda node: node)
    monkeypatch.setattr(joined, "unlit_beside_lit", list)


def test_materials_that_differ_in_numbers_are_one_look():
    looks = scene_given(scene()).recipe.looks
    assert [look.nodes for look in looks] == [(0, 1, 2), (3, 4), (5,), (6, 7)]


def slopes(
    shown: Scene, form: str, run, filter: str = "bilinear", where: float | np.ndarray = 1.0
) -> list[np.ndarray]:
    """Colours, and gradients of a loss that weighs pixels by ``where``."""
    picture = render(shown, CAMERA, light=SUN, form=form, filter=filter)
    weight = np.random.default_rng(0).random((1, SIZE[1], SIZE[0], 3)) * where
    image = picture.colour * Variable(VEC3, SIZE, data=weight)
    return run([image, *gradient(F.sum(F.sum_components(image)), LEAVES)])


@pytest.mark.parametrize(("form", "filter"), [("hard", "trilinear"), ("antialias", "bilinear")])
def test_together_they_have_the_colours_and_derivatives_of_each(form, filter, monkeypatch):
    shown = scene()
    together = slopes(shown, form, evaluate, filter)
    apart(monkeypatch)
    for found, expected in zip(together, slopes(shown, form, evaluate, filter), strict=True):
        assert np.abs(expected).max() > 0.01
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.release
@pytest.mark.vk
@pytest.mark.one_driver
def test_devices_shade_groups_as_numpy_does(run):
    shown = scene()
    nodes = [one([render(shown, CAMERA, form="hard").node])[0] for one in (run, evaluate)]
    same = (nodes[0] == nodes[1])[..., None]  # rounding decides about centres of pixels at edges
    assert same.mean() > 0.97
    images = [slopes(shown, "hard", one, where=same) for one in (run, evaluate)]
    for found, expected in zip(*images, strict=True):
        assert np.linalg.norm(found - expected) <= 1e-4 * np.linalg.norm(expected)


def test_derivatives_of_a_group_meet_differences():
    colour = render(scene(), CAMERA, light=SUN, form="hard").colour
    assert check_gradient(colour, LEAVES[:2]) < 1e-5


def test_materials_get_what_they_lack(monkeypatch):
    """Factors, images, colours of vertices, coats, sheen and what no light shades: one look of them all."""
    plain = replace(tile(RANDOM.random((4, 5, 3))), normals=None, normal_faces=None)
    bare = replace(plain, texture=None, uvs=None, uv_faces=None, colors=RANDOM.random((4, 3)))
    bare.color_faces = bare.faces
    rough, both = RANDOM.random((4, 5)), RANDOM.random((4, 5, 2))
    materials = (
        Material(roughness=0.4, clearcoat=0.8, normal=tile(rough).material.normal, normal_scale=0.7),
        Material(sheen_color=(0.2, 0.3, 0.4), sheen_roughness=0.4, occlusion=rough, occlusion_strength=0.5),
        Material(metallic_roughness=both, emission=(0.2, 0.1, 0.0)),
        Material(
            specular_map=rough, ior=1.8, emission=(1.0, 0.5, 0.2), emission_map=RANDOM.random((2, 3, 3))
        ),
        Material(alpha_mode="mask", alpha=(RANDOM.random((3, 6)) > 0.4).astype(float)),
        Material(alpha_mode="mask", alpha=RANDOM.random((3, 6)), alpha_cutoff=0.7, unlit=True),
    )
    meshes = [replace(plain, material=m) for m in (*materials, Material(unlit=True))]
    meshes.append(replace(bare, material=Material()))
    corners = ((-1, 0.9), (-0.9, -0.8), (0.6, 0.5), (1.4, -0.7), (1.9, 0.6), (-1.6, 0.1), (0.3, 1.2), (0, 0))
    places = [at(*corner) for corner in corners]
    shown = Scene([Node(m, to_world=place) for m, place in zip(meshes, places, strict=True)])
    assert len(scene_given(shown).recipe.looks) == 1
    lights = [SUN, Environment(RANDOM.random((8, 16, 3)))]
    together = evaluate(render(shown, CAMERA, light=lights, background=Variable.of(0.0)).colour)
    apart(monkeypatch)
    alone = evaluate(render(shown, CAMERA, light=lights, background=Variable.of(0.0)).colour)
    np.testing.assert_allclose(together, alone, rtol=1e-9, atol=1e-9)


@dataclass(frozen=True, eq=False)
class Velvet(Bsdf):
    kind = MaterialKind(
        "velvet", (Parameter("fuzz", optional=False, default=0.5), Parameter("glow", VEC3, (0.0,) * 3))
    )
    fuzz: Any = None
    glow: Any = None

    def reflected(self, frame, to_light):
        return self.base * self.fuzz * F.maximum(F.dot(frame.normal, to_light), 0.0)

    def emitted(self, frame):
        return self.glow


def test_surfaces_of_ones_own_get_what_they_lack(monkeypatch):
    surfaces = (Velvet(fuzz=0.3), Velvet(glow=(0.3, 0.1, 0.0)), Velvet(fuzz=RANDOM.random((4, 5))), Velvet())
    shown = Scene(
        [Node(tile(RANDOM.random((4, 5, 3))), one, at(k - 1.5, 0)) for k, one in enumerate(surfaces)]
    )
    assert len(scene_given(shown).recipe.looks) == 1
    together = evaluate(render(shown, CAMERA, light=SUN, background=Variable.of(0.0)).colour)
    apart(monkeypatch)
    alone = evaluate(render(shown, CAMERA, light=SUN, background=Variable.of(0.0)).colour)
    assert np.std(alone) > 0.05
    np.testing.assert_allclose(together, alone, rtol=1e-9, atol=1e-9)


def test_stacks_are_as_high_as_images_may_be(monkeypatch):
    monkeypatch.setattr(groups, "HIGHEST_STACK", 12)
    assert [look.nodes for look in scene_given(scene()).recipe.looks][:2] == [(0, 1), (2,)]
