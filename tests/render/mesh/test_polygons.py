"""Polygons as triangles: they cover the polygon, whatever its shape, and never take long."""

import numpy as np
import pytest
from hostile_files.known import shoelace, simple

from dressi.errors import InputError
from dressi.render.formats import load_mesh
from dressi.render.mesh import triangulate

pytestmark = pytest.mark.one_driver
HEXAGON = np.array([[-1, -1], [0, -0.2], [1, -1], [1, 0], [0, 0.8], [-1, 0]])


def covered(points: np.ndarray, faces: np.ndarray) -> float:
    a, b, c = (points[faces[:, k]] for k in range(3))
    return float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2)


@pytest.mark.parametrize("ending", ["obj", "ply", "off"])
def test_concave_polygons_of_files(tmp_path, ending):
    rows = "".join(f"{x} {y} 0\n" for x, y in HEXAGON)
    text = {
        "obj": "".join(f"v {row}\n" for row in rows.splitlines()) + "f 1 2 3 4 5 6\n",
        "ply": "ply\nformat ascii 1.0\nelement vertex 6\nproperty float x\nproperty float y\nproperty float z\nelement face 1\n"
        f"property list uchar int vertex_indices\nend_header\n{rows}6 0 1 2 3 4 5\n",
        "off": f"OFF\n6 1 0\n{rows}6 0 1 2 3 4 5\n",
    }[ending]
    (tmp_path / f"a.{ending}").write_text(text)
    mesh = load_mesh(tmp_path / f"a.{ending}")
    assert covered(mesh.positions, mesh.faces) == pytest.approx(shoelace(HEXAGON)) == pytest.approx(2.0)
    assert (mesh.face_normals()[:, 2] > 0.99).all()


def test_random_polygons_in_space():
    random = np.random.default_rng(0)
    polygons = [simple(random, int(random.integers(4, 16))) for _ in range(40)]
    turn, _ = np.linalg.qr(random.normal(size=(3, 3)))
    points = np.concatenate([np.c_[p, np.zeros(len(p))] for p in polygons]) @ turn.T + (5, 6, 7)
    polygon, faces = triangulate(points, np.array([len(p) for p in polygons]))
    assert (np.diff(polygon) >= 0).all()
    for k, flat in enumerate(polygons):
        own = faces[polygon == k]
        assert covered(points, own) == pytest.approx(abs(shoelace(flat)), rel=1e-9)
        # Each keeps the orientation of the polygon.
        a, b, c = (points[own[:, i]] for i in range(3))
        assert (np.sign(np.cross(b - a, c - a) @ turn[:, 2]) * np.sign(shoelace(flat)) >= 0).all()


def test_a_fan_stays_a_fan():
    octagon = np.exp(2j * np.pi * np.arange(8) / 8)
    faces = triangulate(np.c_[octagon.real, octagon.imag, np.zeros(8)], np.array([8]))[1]
    np.testing.assert_array_equal(faces, [[0, k, k + 1] for k in range(1, 7)])


def test_bridges_to_holes_are_followed():
    outer = [[0, 0], [4, 0], [4, 4], [0, 4], [0, 0]]
    inner = [[1, 1], [1, 3], [2.5, 2.2], [3, 1.5], [1, 1]]
    ring = np.array(outer + inner, float)
    faces = triangulate(np.c_[ring, np.zeros(10)], np.array([10]))[1]
    assert covered(np.c_[ring, np.zeros(10)], faces) == pytest.approx(shoelace(ring))
    # A corner on one side of a bridge, which lies on the other but for rounding, and corners that are twice in a row.
    inner = [[1.46, 2.97], [1.4624824487131751, 1.9135855013906466], [2.1965558289943616, 0.7637972094349612]]
    inner += [
        [0.2672433897881803, 0.09292718749315965],
        [0, 0],
        [0, 4],
        [0, 4],
        [4, 4],
        [4, 4],
        [4, 0],
        [4, 0],
        [0, 0],
    ]
    ring = np.array([*inner, inner[2], [3.4158236525193266, 2.2], [2.3712258256743914, 2.9240124322476246]])
    for start in range(len(ring)):
        turned = np.c_[np.roll(ring, start, axis=0), np.zeros(len(ring))]
        faces = triangulate(turned, np.array([len(ring)]))[1]
        assert covered(turned, faces) == pytest.approx(abs(shoelace(ring))) and len(faces) == len(ring) - 2


@pytest.mark.parametrize(
    "points",
    [
        [[0, 0, 0], [1, 1, 0], [1, 0, 0], [0, 1, 0]],  # crosses itself, without area
        [[0, 0, 0], [3, 3, 0], [3, 0, 0], [0, 1, 0], [2, -2, 1]],
        [[0, 0, 0]] * 7,
        [[k, k, k] for k in range(6)],
        [[0, 0, 0], [np.nan, 1, 0], [1, 1, 0], [1e308, 0, 0], [-1e308, 0, 0]],
        [[0, 0, 0], [1, 0, 0], [1, 0, 0], [0.5, 0.1, 0], [0.5, 0.1, 0], [0, 1, 0], [0, 0, 0]],
    ],
)
def test_degenerate_polygons_have_their_triangles(points):
    polygon, faces = triangulate(np.array(points, float), np.array([0, len(points), 2, 1]) * [0, 1, 0, 0])
    assert len(faces) == len(points) - 2 and (polygon == 1).all()
    assert 0 <= faces.min() <= faces.max() < len(points)


def test_many_and_large_polygons_end():
    comb = np.array([[0, 0], [3, 0], [3, 3], [2, 3], [2, 1], [1, 1], [1, 3], [0, 3]], float)
    points = np.c_[np.tile(comb, (2000, 1)), np.zeros(16000)]
    assert covered(points, triangulate(points, np.full(2000, 8))[1]) == pytest.approx(2000 * shoelace(comb))
    around = np.exp(2j * np.pi * np.arange(400) / 400) * np.random.default_rng(0).uniform(0.5, 1, 400)
    star = np.c_[around.real, around.imag, np.zeros(400)]
    assert covered(star, triangulate(star, np.array([400]))[1]) == pytest.approx(shoelace(star[:, :2]))


def test_a_polygon_that_would_take_minutes_is_refused(monkeypatch):
    monkeypatch.setattr("dressi.render.mesh.polygons.MOST_VISITS", 100_000)
    around = np.exp(2j * np.pi * np.arange(999) / 999) * np.random.default_rng(0).uniform(0.5, 1, 999)
    with pytest.raises(InputError, match=r"polygons of up to 999 corners are too jagged.*triangulate"):
        triangulate(np.c_[around.real, around.imag, np.zeros(999)], np.array([999]))
