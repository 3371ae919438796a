"""Strands and points as nodes of a scene: hidden, picked, shadows, derivatives; and lines of glTF files."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dressi.ad import functional as F
from dressi.ad.check import check_gradient
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import Variable
from dressi.ad.transform.gradient import gradient
from dressi.ad.types import VEC3
from dressi.errors import InputError
from dressi.render import (
    Camera,
    DirectionalLight,
    KajiyaKay,
    Node,
    PointGeometry,
    Scene,
    Shadow,
    StrandGeometry,
    draw_strands,
    load_scene,
    render,
    save_scene,
)

WALL = (np.array([[-2.0, -2, 0], [0, -2, 0], [0, 2, 0], [-2, 2, 0]]), [[0, 1, 2], [0, 2, 3]])
FLOOR = (np.array([[-2.0, -1, -2], [2, -1, -2], [2, -1, 2], [-2, -1, 2]]), [[0, 2, 1], [0, 3, 2]])
CAMERA = Camera.perspective(45, (24, 16), (0, 0, 4), (0, 0, 0))
BEHIND = np.array([[-1.5, 0, -0.5], [1.5, 0, -0.5]])


def test_a_surface_hides_strands_and_picking_names_the_node():
    strand = StrandGeometry(BEHIND, radius=0.3, colours=(1.0, 0, 0), name="hair")
    cloud = PointGeometry([[0.8, 0.9, 0.5]], 0.3, (0.0, 0, 1))
    scene = Scene([Node(strand), Node(WALL, name="wall"), Node(cloud, to_world=np.diag([1.0, -1, 1, 1]))])
    shown = render(scene, CAMERA, light=None, outputs=("colour", "mask", "node", "face", "material"))
    assert np.unique(shown.node).tolist() == [-1, 0, 1, 2]
    assert (shown.node[8, 2:11] == 1).all() and (shown.node[8, 13:18] == 0).all()
    assert (shown.node[10:] == 2).any() and not (shown.node[:6] == 2).any()
    assert (shown.face[shown.node == 0] == -1).all() and (shown.face[shown.node == 1] >= 0).all()
    np.testing.assert_allclose(shown.colour[8, 14], [1, 0, 0], atol=2e-3)
    np.testing.assert_allclose(shown.colour[8, 4], [1, 1, 1], atol=1e-6)
    # Not where it is cut out.
    cut = Scene([Node(strand), Node(WALL, {"alpha": 0.2, "alpha_mode": "mask"})])
    np.testing.assert_allclose(render(cut, CAMERA, light=None).colour[8, 7], [1, 0, 0], atol=2e-3)


@pytest.mark.release
@pytest.mark.one_driver
def test_strands_throw_shadows_and_have_derivatives_in_a_scene(device):
    points = Variable.of([[-1.0, 0.2, 0], [1, 0.2, 0]], VEC3, name="points")
    strand = Node(StrandGeometry(points, radius=0.25), KajiyaKay((0.0, 1, 0)))
    sun = DirectionalLight((0.0, 1, 0), shadow=Shadow(32))
    camera = Camera.perspective(45, (24, 16), (0, 3, 4), (0, -1, 0))
    with_strand = render(Scene([strand, Node(FLOOR)]), camera, light=sun, background=0.2)
    alone = render(Scene([Node(FLOOR)]), camera, light=sun, background=0.2)
    from dressi import DressiAD

    with DressiAD(device) as ad:
        ad.set_output("shadowed", with_strand.colour)
        ad.set_output("slope", gradient(F.sum(with_strand.mask), [points])[0])
        ad.step()
        shadowed, slope = ad.recv("shadowed")[0], ad.recv("slope")
    darker = (alone.colour - shadowed).max(axis=2)
    assert (darker[7:9, 10:14] > 0.5).all() and np.abs(darker[13:]).max() < 1e-3
    (truth,) = evaluate([gradient(F.sum(with_strand.mask), [points])[0]])
    np.testing.assert_allclose(slope, truth.reshape(slope.shape), atol=1e-3 * np.abs(truth).max())


@pytest.mark.one_driver
def test_strands_need_no_surface(device):
    strand = StrandGeometry(BEHIND, radius=0.3, colours=(1.0, 0, 0))
    for shown in (strand, Scene([Node(strand)])):
        picture = render(shown, CAMERA, light=None, background=0.2, outputs=("colour", "mask", "node"))
        one = draw_strands(strand, CAMERA)
        mask, colour = evaluate([one.mask, one.over(0.2)])
        np.testing.assert_allclose(picture.mask, mask[0], atol=1e-5)
        np.testing.assert_allclose(picture.colour, colour[0], atol=1e-5)
        assert np.unique(picture.node).tolist() == [-1, 0]
    # Cameras frame it, and lights with shadows shine on it.
    points = Variable.of(BEHIND, VEC3, name="points")
    sun = DirectionalLight((0.0, 1, 0), shadow=Shadow(16))
    found = render(Scene([Node(replace(strand, points=points))]), light=sun, size=(16, 16))
    assert found.form == "hard"
    mask, colour = evaluate([found.mask, found.colour])
    assert mask.max() > 0.9 and np.isfinite(colour).all() and colour.max() > 0.05


def test_mistakes_of_nodes_are_named(tmp_path):
    strand = StrandGeometry(BEHIND, name="hair")
    with pytest.raises(InputError, match="node 'hair': the material of strands"):
        Node(strand, {"roughness": 0.5})
    with pytest.raises(InputError, match="node 'hair' is of strands or points"):
        save_scene(tmp_path / "a.glb", Scene([Node(strand), Node(WALL)]))


def test_lines_of_a_file_are_strands(tmp_path):
    data = np.float32([[0, 0, 0], [1, 0, 0], [1, 1, 0]])
    (tmp_path / "a.bin").write_bytes(data.tobytes())
    entry = {"attributes": {"POSITION": 0}, "mode": 2, "material": 0}
    document = {
        "asset": {"version": "2.0"},
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0, "name": "wire", "translation": [0, 0, 2]}],
        "meshes": [{"primitives": [entry]}],
        "materials": [{"pbrMetallicRoughness": {"baseColorFactor": [1, 0.5, 0, 1]}}],
        "buffers": [{"uri": "a.bin", "byteLength": 36}],
        "bufferViews": [{"buffer": 0, "byteLength": 36}],
        "accessors": [{"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"}],
    }
    (tmp_path / "a.gltf").write_text(json.dumps(document))
    (node,) = load_scene(tmp_path / "a.gltf")
    assert node.name == "wire" and node.geometry.count == 4 and node.geometry.unit == "pixels"
    np.testing.assert_allclose(node.geometry.colours, [[1, 0.5, 0]])
    np.testing.assert_allclose(node.to_world[:3, 3], [0, 0, 2])


@pytest.mark.release
@pytest.mark.parametrize(
    "options", [{"form": "hard"}, {"form": "antialias", "samples": 2}, {"transparency": "moments"}]
)
def test_strands_lie_among_panes(options):
    """Before both, between the two and behind them, each seen through what is nearer; with exact derivatives."""
    alpha = Variable(name="alpha", data=[[[0.4]]])
    camera = Camera.perspective(30, (5, 5), (0, 0, 4), (0, 0, 0))
    square = np.array([[-1.0, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]])
    nodes, layers = [], []
    for k, z in enumerate((1.5, 1.0, 0.5, 0.0, -0.5)):
        colour = np.eye(3)[k % 3] * 0.5 + 0.1 * k
        if k % 2:
            paint = F.constant(tuple(colour))
            nodes.append(
                Node((square + (0, 0, z), WALL[1]), {"texture": paint, "alpha": alpha}, name=f"pane {k}")
            )
            layers.append((0.4 * colour, 0.4))
        else:
            strand = StrandGeometry([[-0.2, -1, z], [0.2, 1, z]], radius=0.05, colours=tuple(colour))
            own = draw_strands(strand, camera)
            nodes.append(Node(strand))
            layers.append([image[0, 2, 2] for image in evaluate([own.colour, own.mask])])
    picture = render(Scene(nodes), camera, light=None, background=0.8, **options)
    expected = np.full(3, 0.8)
    for colour, mask in reversed(layers):
        expected = colour + (1 - mask) * expected
    found, node = evaluate([picture.colour, picture.node])
    assert 0.1 < layers[0][1] < 0.9
    near = 0.02 if "transparency" in options else 1e-6
    np.testing.assert_allclose(found[0, 2, 2], expected, atol=near)
    if options.get("form") == "hard":
        assert check_gradient(picture.colour, [alpha], step=1e-6) < 1e-3
    assert node[0, 2, 2] == (0 if layers[0][1] >= 0.5 else 1)
