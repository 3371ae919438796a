"""Clouds of points in files: as a scene, with what a mesh of them says."""

import base64
import json
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dressi.errors import InputError
from dressi.render import Camera, load_mesh, load_scene, render
from dressi.render.surface.color import srgb_to_linear

POINTS = np.array([(0, 0, 0), (1, 0.5, 0), (-1, 0, 2), (0.25, 1, 1)])
COLOURS = np.array([(255, 0, 0), (0, 255, 0), (0, 0, 255), (128, 128, 128)])
PLY = """ply
format ascii 1.0
element vertex 4
property float x
property float y
property float z
property uchar red
property uchar green
property uchar blue
end_header
"""


def rows(table: np.ndarray) -> str:
    return "".join(" ".join(f"{x:g}" for x in row) + "\n" for row in table)


def gltf(indices: list[int] | None) -> str:
    points, colours = POINTS.astype("<f4").tobytes(), (COLOURS / 255).astype("<f4").tobytes()
    number = np.array(indices or [], "<u2").tobytes()
    views = [
        {"buffer": 0, "byteOffset": k, "byteLength": n} for k, n in ((0, 48), (48, 48), (96, len(number)))
    ]
    entry = {"mode": 0, "attributes": {"POSITION": 0, "COLOR_0": 1}} | ({"indices": 2} if indices else {})
    accessors = [
        {
            "bufferView": k,
            "componentType": 5126,
            "count": 4,
            "type": "VEC3",
            "min": [-1, 0, 0],
            "max": [1, 1, 2],
        }
        for k in range(2)
    ]
    if indices:
        accessors.append({"bufferView": 2, "componentType": 5123, "count": len(indices), "type": "SCALAR"})
    data = base64.b64encode(points + colours + number).decode()
    uri = f"data:application/octet-stream;base64,{data}"
    return json.dumps(
        {
            "asset": {"version": "2.0"}, "scene": 0, "scenes": [{"nodes": [0]}], "nodes": [{"mesh": 0}],
            "meshes": [{"primitives": [entry]}], "accessors": accessors,
            "bufferViews": views[: 3 if indices else 2],
            "buffers": [{"uri": uri, "byteLength": len(points + colours + number)}],
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    "name, text",
    [
        ("a.ply", PLY + rows(np.c_[POINTS, COLOURS])),
        ("a.xyz", "# of a scanner\n" + rows(np.c_[POINTS, COLOURS])),
        ("b.xyz", rows(np.c_[POINTS, COLOURS / 255]).replace(" ", ", ")),
        ("a.gltf", gltf(None)),
        ("a.obj", "".join(f"v {row}\n" for row in rows(np.c_[POINTS, COLOURS / 255]).splitlines())),
    ],
)
def test_clouds_come_with_their_colours(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    (node,) = load_scene(tmp_path / name)
    assert_allclose(node.geometry.points, POINTS, atol=1e-6)
    linear = COLOURS / 255 if name.endswith("gltf") else srgb_to_linear(COLOURS / 255)
    assert_allclose(node.geometry.colours, linear, atol=1e-5)


def test_points_of_gltf_may_have_indices_and_are_drawn(tmp_path):
    (tmp_path / "a.gltf").write_text(gltf([3, 1]))
    scene = load_scene(tmp_path / "a.gltf")
    assert_allclose(scene[0].geometry.points, POINTS[[3, 1]], atol=1e-6)
    picture = render(scene, Camera.perspective(45, (32, 32), (0, 0.5, 6), (0, 0.5, 0)))
    assert 2 <= (np.asarray(picture.mask) > 0).sum() < 30


def test_points_of_obj_are_those_that_it_lists_and_one_point_is_no_cloud(tmp_path):
    (tmp_path / "a.obj").write_text(
        "v 9 9 9\n" + "".join(f"v {row}\np -1\n" for row in rows(POINTS).splitlines())
    )
    assert_allclose(load_scene(tmp_path / "a.obj")[0].geometry.points, POINTS, atol=1e-6)
    (tmp_path / "a.gltf").write_text(gltf([1]))
    with (
        pytest.warns(UserWarning, match="has 1 points in 'node 0', which are no cloud"),
        pytest.raises(InputError, match=r"a\.gltf': it has no triangles"),
    ):
        load_scene(tmp_path / "a.gltf")


def test_directions_are_no_colours(tmp_path):
    normals = np.abs(POINTS + 0.1) / np.linalg.norm(POINTS + 0.1, axis=1, keepdims=True)
    (tmp_path / "a.xyz").write_text(rows(np.c_[POINTS, normals]))
    with pytest.warns(UserWarning, match="3 columns beyond places and colours"):
        assert (load_scene(tmp_path / "a.xyz")[0].geometry.colours == 1).all()
    (tmp_path / "a.xyz").write_text(rows(np.c_[POINTS, np.eye(3)[[0, 1, 2, 0]]]))
    assert_allclose(load_scene(tmp_path / "a.xyz")[0].geometry.colours, np.eye(3)[[0, 1, 2, 0]])


def test_clouds_of_surveys_are_moved_to_the_origin(tmp_path):
    (tmp_path / "a.xyz").write_text("".join(f"{x} {y} {z}\n" for x, y, z in POINTS + (4e6, 5e6, 200)))
    with pytest.warns(UserWarning, match=r"\[4000000\.0, 5000000\.0, 201\.0\] was taken from its places"):
        (node,) = load_scene(tmp_path / "a.xyz")
    assert_allclose(node.geometry.points, POINTS - (0, 0, 1), atol=1e-6)


@pytest.mark.parametrize(
    "name, text, what",
    [
        ("a.xyz", "0 0 0\n", "has 1 points, and a cloud has two or more"),
        ("a.xyz", "", "has no points"),
        ("a.xyz", "0 0 0\n1e39 0 0\n", "beyond single precision"),
        ("a.xyz", "0 0 0\n1 nan 0\n", "point 1 is"),
        ("a.xyz", "0 0 0\n1 2\n", "no table of numbers"),
        ("a.xyz", "0 0\n1 2\n", "has 2 numbers a line"),
        ("a.xyz", "0 0 0 1 2 700\n0 0 1 1 2 3\n", r"colours outside \[0, 255\]"),
        ("a.ply", PLY + rows(np.c_[POINTS, COLOURS])[:-20], "truncated"),
        ("a.gltf", gltf([3, 9]), "index 9 is out of range"),
        ("a.obj", "v 0 0 0\nv 0 0 1\np 1 4\n", "point refers to number 4 of 2 vertices"),
        ("a.obj", "v 0 0 0\nv 0 0 1\nl 1 2\n", "point cloud of 2 vertices without faces"),
    ],
)
def test_damaged_clouds_are_refused(tmp_path, name, text, what):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=rf"{name}': .*{what}"):
        load_scene(tmp_path / name)


def test_a_mesh_is_no_cloud(tmp_path, monkeypatch):
    (tmp_path / "a.xyz").write_text(rows(POINTS))
    with pytest.raises(
        InputError, match="holds points without faces; load_scene draws clouds of points, and MeshLab"
    ):
        load_mesh(tmp_path / "a.xyz")
    monkeypatch.setitem(sys.modules, "laspy", None)
    (tmp_path / "a.laz").write_bytes(b"LASF")
    with pytest.raises(InputError, match=r"needs the library laspy: pip install 'dressi\[clouds\]'"):
        load_scene(tmp_path / "a.laz")


def test_las_has_places_and_colours(tmp_path):
    laspy = pytest.importorskip("laspy")
    file = laspy.create(point_format=3, file_version="1.2")
    file.header.scales = [1e-3] * 3
    file.x, file.y, file.z = POINTS.T
    file.red, file.green, file.blue = (COLOURS * 257).T
    file.write(tmp_path / "a.las")
    (node,) = load_scene(tmp_path / "a.las")
    assert_allclose(node.geometry.points, POINTS, atol=1e-3)
    assert_allclose(node.geometry.colours, srgb_to_linear(COLOURS / 255), atol=1e-5)
    (tmp_path / "b.las").write_bytes((tmp_path / "a.las").read_bytes()[:250])
    with pytest.raises(InputError, match=r"b\.las'"):
        load_scene(tmp_path / "b.las")
    counted = bytearray((tmp_path / "a.las").read_bytes())
    counted[100:104] = b"\xff" * 4
    (tmp_path / "c.las").write_bytes(counted)
    with pytest.raises(InputError, match="counts 4,294,967,295 records"):
        load_scene(tmp_path / "c.las")
