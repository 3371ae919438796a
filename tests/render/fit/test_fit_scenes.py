"""Targets that are hard to see: flat, thin, huge or tiny ones; each refusal names a remedy that helps."""

import re
from dataclasses import replace

import numpy as np
import pytest

from dressi import DressiAD
from dressi.errors import InputError
from dressi.render import DirectionalLight, Node, Scene
from dressi.render.fit import mesh_dataset
from dressi.render.fit.data.dataset import MOST_PIXELS
from dressi.render.mesh import Mesh
from dressi.render.mesh.material import Material
from dressi.render.mesh.primitives import octasphere, pear

SIZE = (16, 16)


def plate(normal: int) -> Mesh:
    flat = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)], float)
    return Mesh(np.insert(flat, normal, 0.0, axis=1), np.array([(0, 1, 2), (0, 2, 3)]), name="plate")


@pytest.fixture
def make_engine(device):
    return lambda: DressiAD(device)


@pytest.mark.vk
def test_views_that_see_a_plate_edge_on_are_left_out(make_engine):
    lying = mesh_dataset(plate(1), 3, SIZE, make_engine)
    # The level views that judge see it edge-on.
    assert len(lying.train.masks) == 3 and lying.held_out is not None and len(lying.held_out.masks) < 12
    with pytest.warns(UserWarning, match="1 of 3 views, which see it edge-on"):
        standing = mesh_dataset(plate(0), 3, SIZE, make_engine)
    assert (
        len(standing.train.masks) == len(standing.train.cameras) == 2
        and standing.train.masks.any((1, 2)).all()
    )


@pytest.mark.vk
def test_more_views_of_a_plate_help(make_engine):
    with pytest.raises(InputError, match="edge-on: give --views 6"):
        mesh_dataset(plate(0), 2, SIZE, make_engine)
    with pytest.warns(UserWarning, match="left out"):
        assert mesh_dataset(plate(0), 6, SIZE, make_engine).train.masks.any()


@pytest.mark.vk
def test_more_pixels_or_thickness_of_a_needle_help(make_engine):
    ball = octasphere(2)
    needle = ball.moved(ball.positions * (1, 0.01, 0.01))
    with pytest.raises(InputError, match=r"use --size \d+") as error:
        mesh_dataset(needle, 2, SIZE, make_engine)
    rows = int(re.findall(r"--size (\d+)", str(error.value))[0])
    assert mesh_dataset(needle, 2, (rows, rows), make_engine).train.masks.any()
    with pytest.raises(InputError, match="thick") as error:
        mesh_dataset(ball.moved(ball.positions * (1, 1e-6, 1e-6)), 2, SIZE, make_engine)
    thick = float(re.findall(r"at least ([\d.e-]+) thick", str(error.value))[0])
    thicker = ball.moved(ball.positions * (1, thick / 2, thick / 2))
    assert mesh_dataset(thicker, 2, SIZE, make_engine).train.masks.any()


@pytest.mark.vk
def test_units_do_not_matter_until_they_are_named(make_engine):
    mesh = pear(16, 12, 8)
    masks = mesh_dataset(mesh, 2, SIZE, make_engine).train.masks
    for scale in (1e-5, 1e11):
        found = mesh_dataset(mesh.moved(mesh.positions * scale), 2, SIZE, make_engine).train.masks
        np.testing.assert_array_equal(found, masks)
    for scale in (1e-9, 1e15, 1e30):
        with pytest.raises(InputError, match="scale it to between"):
            mesh_dataset(mesh.moved(mesh.positions * scale), 2, SIZE, make_engine)


def test_pictures_past_all_memory():
    def none():
        raise AssertionError("no engine is needed")

    with pytest.raises(InputError, match="fewer --views"):
        mesh_dataset(pear(16, 12, 8), 10**9, SIZE, none)
    assert MOST_PIXELS >= 1000 * 512 * 512


@pytest.mark.vk
def test_pictures_of_a_scene_show_the_material_of_each_node(make_engine):
    """Two balls of one shape: a fit of the mesh alone would draw both alike, and a light shines on each as its own."""
    place = np.eye(4)
    place[0, 3] = 2.2
    matt, metal = Material(metallic=0.0, roughness=0.9), Material(metallic=1.0, roughness=0.3)
    nodes = [
        Node(replace(octasphere(2), material=matt)),
        Node(replace(octasphere(2), material=metal), None, place),
    ]
    nodes[0].geometry.mesh.color = (0.8, 0.1, 0.1)
    far = octasphere(2).moved(octasphere(2).positions + place[:3, 3])
    joined = Mesh(
        np.concatenate([octasphere(2).positions, far.positions]),
        np.concatenate([far.faces, far.faces + len(far.positions)]),
    )
    scene, size = Scene(nodes), (48, 24)
    plain = mesh_dataset(joined, 2, size, make_engine, 16).train
    drawn = mesh_dataset(joined, 2, size, make_engine, 16, None, scene).train
    assert np.abs(drawn.masks - plain.masks).mean() < 0.01
    inside = np.minimum(plain.masks, drawn.masks) > 0.99
    shown = np.unique(drawn.colors[inside].round(2), axis=0)
    np.testing.assert_allclose(shown, [(0.8, 0.1, 0.1), (1.0, 1.0, 1.0)])
    assert np.unique(plain.colors[inside].round(2), axis=0).tolist() == [[1.0, 1.0, 1.0]]
    sun = mesh_dataset(joined, 2, size, make_engine, 4, DirectionalLight((0, 1, 1)), scene).train
    assert np.abs(sun.colors - drawn.colors)[inside].mean() > 0.1
