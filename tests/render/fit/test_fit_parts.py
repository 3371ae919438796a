"""Targets of several objects: what is said, and that the remedy helps."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from dressi import DressiAD
from dressi.render.fit import FitJob, FitOptions, draw, mesh_dataset
from dressi.render.fit.parts import Parts, regions
from dressi.render.mesh import Mesh
from dressi.render.mesh.primitives import octasphere
from dressi.render.objectives.metrics import iou

SIZE = (40, 40)


def several(*meshes: Mesh) -> Mesh:
    """One mesh of many, with their UVs."""
    positions, faces, uvs, uv_faces, at, uv_at = [], [], [], [], 0, 0
    for mesh in meshes:
        assert mesh.uvs is not None and mesh.uv_faces is not None
        positions.append(mesh.positions)
        faces.append(mesh.faces + at)
        uvs.append(mesh.uvs)
        uv_faces.append(mesh.uv_faces + uv_at)
        at, uv_at = at + len(mesh.positions), uv_at + len(mesh.uvs)
    return Mesh(*map(np.concatenate, (positions, faces, uvs, uv_faces)))  # pyright: ignore[reportArgumentType]


def test_regions_of_a_mask():
    mask = np.zeros((20, 20))
    assert regions(mask) == 0
    mask[5:10, 5:10] = 1
    assert regions(mask) == 1
    mask[12:15, 5:10] = 1
    assert regions(mask) == 2
    mask[11, 10] = mask[10, 10] = 1  # corners connect
    assert regions(mask) == 1
    large = np.zeros((100, 100))
    large[20:80, 20:80] = large[5, 5] = 1
    assert regions(large) == 1


def test_regions_that_leave_the_picture_may_be_connected_there():
    mask = np.zeros((20, 20))
    mask[0:5, 2:6] = mask[0:5, 12:16] = 1
    assert regions(mask) == 1
    mask[10:14, 8:12] = 1
    assert regions(mask) == 2
    known = np.ones((20, 20), bool)
    known[14:] = False
    assert regions(mask, known) == 1


def test_what_is_said():
    assert (
        Parts(1, 6, 3).note() is None and Parts(None, 6, 1).note() is None and Parts(2, 6, 4).note(2) is None
    )
    for note in (Parts(2, 6, 4).note(), Parts(None, 6, 4).note(), Parts(None, 1, 1).note()):
        assert note is not None and "--init" in note and "bridges" in note and "apart in" in note
    note = Parts(5, 6, 0).note()
    assert note is not None and "5 connected components" in note and "around all of them" in note
    assert "--init" not in note


@pytest.mark.release
@pytest.mark.vk
def test_two_objects_are_said_and_two_spheres_reach_them(device):
    def make_engine() -> DressiAD:
        return DressiAD(device)

    target = several(octasphere(3, 0.4, (-0.6, 0.0, 0.0)), octasphere(3, 0.4, (0.6, 0.2, 0.0)))
    scene = mesh_dataset(target, 4, SIZE, make_engine)
    options = FitOptions(size=SIZE, views=4, steps=60, texture_size=8, colours=False, joint=False)
    assert Parts.of(scene).components == 2 and Parts.of(scene).apart >= 2
    with pytest.warns(UserWarning, match=r"2 connected components, apart in \d of 4 views"):
        one = FitJob(scene, replace(options, start="sphere"), make_engine).run()
    start = several(octasphere(3, 0.25, (-0.5, 0.1, 0.1)), octasphere(3, 0.25, (0.5, 0.0, -0.1)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        two = FitJob(scene, options, make_engine, init=start).run()
    found = [iou(draw(r.mesh, scene.train.cameras, make_engine)[0], scene.train.masks) for r in (one, two)]
    assert two.mesh.component_count() == 2 and found[1] > max(found[0], 0.93), found
