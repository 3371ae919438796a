"""Scenes with transparent nodes: the pictures of ``render``, what it says, and gradients by alpha and place."""

import glass_cases as gc
import numpy as np
import pytest

from dressi.ad import functional as F
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.transform.gradient import gradient
from dressi.ad.types import FLOAT, MAT4, VEC3
from dressi.errors import InputError
from dressi.render import Camera, Mesh, Node, Scene, primitives, render
from dressi.render.mesh import Material

SCENE = gc.glass()
TRUTH, COUNT = gc.sorted_picture(SCENE)
FACES = np.array([(0, 1, 2), (0, 2, 3)])


def pane(k: int, colour: np.ndarray) -> Mesh:
    blends = Material(alpha=np.full((1, 1), SCENE.alphas[k]), alpha_mode="blend") if k else None
    uvs = np.array([(0, 0), (1, 0), (1, 1), (0, 1)], float)
    return Mesh(
        SCENE.corners[k],
        FACES,
        uvs=uvs,
        uv_faces=FACES,
        color=tuple(colour),
        name=f"pane {k}",
        material=blends,
    )


def nodes(**changes) -> list[Node]:
    """The panes, transparent ones first; of number 3 parts of the material or the place may be given."""
    meshes = [pane(k, colour) for k, colour in enumerate(SCENE.colours)]
    return [Node(mesh, **changes) if k == 3 else Node(mesh) for k, mesh in reversed(list(enumerate(meshes)))]


def drawn(scene: list[Node], **options):
    return render(
        Scene(scene),
        SCENE.matrix,
        light=None,
        background=gc.BACKGROUND,
        **{"form": "hard", "size": gc.SIZE, **options},
    )


def constant(name: str) -> Variable:
    return Variable(FLOAT, name=name, data=[[[SCENE.alphas[3]]]])


def test_panes_are_seen_through():
    """As differentiable images: in sorted layers, and nearly so by moments."""
    picture = drawn(nodes(material={"alpha": constant("alpha")}), transparency=gc.PANES)
    colour, mask, missed = evaluate([picture.colour, picture.mask, picture.missed])
    np.testing.assert_allclose(colour[0], TRUTH, atol=1e-6)
    # The mask is what white behind the panes would lose.
    behind = TRUTH - gc.sorted_picture(SCENE, background=(0.0, 0.0, 0.0))[0]
    np.testing.assert_allclose(mask[0], 1 - (behind / gc.BACKGROUND).mean(-1), atol=1e-6)
    assert not missed.any()
    summed = drawn(nodes(material={"alpha": constant("alpha")}), transparency="moments")
    found = evaluate([summed.colour])[0][0]
    assert np.abs(found - TRUTH)[COUNT > 0].sum() <= 0.02 * TRUTH[COUNT > 0].sum()


@pytest.mark.release
@pytest.mark.parametrize(
    "options",
    [
        {"transparency": 5},
        {"transparency": "moments"},
        {"form": "antialias", "transparency": 1},
        {"form": "contour", "radius": 0.05, "transparency": 2},
    ],
)
def test_gradients_by_alpha_and_place(options):
    alpha, place = constant("alpha"), Variable(MAT4, name="place", data=np.eye(4)[None, None, None])
    picture = drawn(nodes(material={"alpha": alpha}, to_world=place), size=(24, 20), **options)
    assert check_gradient(F.vec4(picture.colour, picture.mask), [alpha, place], step=1e-7) < 1e-3


@pytest.mark.vk
@pytest.mark.one_driver
def test_arrays_warn_of_what_is_missed():
    with pytest.warns(UserWarning, match="more than 2 transparent surfaces"):
        found = drawn(nodes(), transparency=2).colour
    np.testing.assert_allclose(found[COUNT <= 2][::7], TRUTH[COUNT <= 2][::7], atol=0.02)


def test_forms_that_draw_no_layers_name_the_node():
    with pytest.raises(InputError, match="node 'pane 5' is transparent, and the face form"):
        drawn(nodes(), form="face", radius=0.05)
    with pytest.raises(
        InputError, match="transparency is a number of layers from 1 to 16, or 'moments', not 99"
    ):
        drawn(nodes(), transparency=99)


def test_moving_glass_is_antialiased():
    place = Variable(MAT4, name="place", data=np.eye(4)[None, None, None])
    assert drawn(nodes(to_world=place), form=None).form == "antialias"
    assert drawn(nodes(to_world=place), form=None, transparency="moments").form == "outer"
    # Parts of eight layers as one number of 32 bits; a constant that does not fit raises.
    assert drawn(nodes(to_world=place), form="antialias", transparency=8).colour.vtype is VEC3


def test_one_value_of_alpha_blends():
    """As a mask it would cut out all or nothing. The mode may be said as well."""
    cube, camera = primitives.cube(), Camera.perspective(40, (16, 16), (0, 0, 6), (0, 0, 0))

    def drawn(**material):
        given = {name: Variable.of(x, FLOAT) if isinstance(x, list) else x for name, x in material.items()}
        scene, behind = Scene([Node(cube, given)]), Variable.of([0.0, 0.0, 0.0], VEC3)
        picture = render(scene, camera, light=None, transparency=1, background=behind)
        return evaluate([picture.colour])[0][0, 8, 8, 0]

    assert drawn(alpha=0.25) == pytest.approx(0.25) and drawn(alpha=[[0.25]]) == pytest.approx(0.25)
    assert drawn(alpha=0.25, alpha_mode="blend") == pytest.approx(0.25)
    assert drawn(alpha=0.25, alpha_mode="mask") == 0.0 and drawn(alpha=0.25, alpha_cutoff=0.2) == 1.0
    assert drawn(alpha=0.25, alpha_mode="opaque") == 1.0
    with pytest.raises(InputError, match=r"alpha_mode is one of .* did you mean 'blend'"):
        drawn(alpha=0.25, alpha_mode="blended")


def test_coverage_and_depth_are_differentiable():
    """By the place of a pane and by its alpha, as of the picture drawn again."""
    place, alpha = Variable(MAT4, name="place", data=np.eye(4)[None, None, None]), constant("alpha")
    scene = [nodes(material={"alpha": alpha}, to_world=place)[k] for k in (2, 5)]
    picture = drawn(scene, form="antialias", size=(16, 14), transparency=1)
    loss = F.sum(F.square(picture.mask)) + 0.1 * F.sum(F.square(picture.depth))
    turn = np.random.default_rng(3).normal(size=(1, 1, 1, 4, 4)) * np.array([1, 1, 1, 0])[:, None]
    for leaf, way in ((place, turn), (alpha, np.ones(alpha.shape))):
        (slope,) = evaluate(gradient(loss, [leaf]))
        ends = [evaluate([loss], {leaf: leaf.data + h * way})[0].item() for h in (1e-7, -1e-7)]
        assert abs((ends[0] - ends[1]) / 2e-7 - (slope * way).sum()) <= 1e-4 * np.abs(slope * way).sum() > 0
