"""Tangents: against the derivative of the UVs, a plain loop over the rules, and the tangents of a file."""

from dataclasses import replace

import numpy as np
import pytest

from dressi.errors import InputError
from dressi.render.formats import load_mesh
from dressi.render.mesh import Mesh, weld_values
from dressi.render.mesh.primitives import cube, pear

SQUARE = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])


def square(uvs):
    faces = [[0, 1, 2], [0, 2, 3]]
    return Mesh(SQUARE, faces, np.asarray(uvs, dtype=float), faces)


def corners(mesh):
    values, faces = mesh.tangents()
    assert values.shape[1] == 4 and faces.shape == mesh.faces.shape and len(np.unique(faces)) == len(values)
    return values[faces]


@pytest.mark.parametrize(
    ("uvs", "expected"),
    [
        ([[0, 1], [1, 1], [1, 0], [0, 0]], [1, 0, 0, 1]),  # v down, as pictures are seen: +Y of normals is up
        ([[0, 0], [1, 0], [1, 1], [0, 1]], [1, 0, 0, -1]),  # mirrored
        ([[0, 0], [0, 2], [2, 2], [2, 0]], [0, 1, 0, 1]),  # turned by a quarter
    ],
)
def test_a_plane(uvs, expected):
    np.testing.assert_allclose(corners(square(uvs)), np.broadcast_to(expected, (2, 3, 4)), atol=1e-12)


def test_the_bitangent_goes_against_v():
    mesh = pear(24, 12, 8)
    found = corners(mesh)
    n = mesh.vertex_normals()[mesh.faces]
    bitangent = found[..., 3:] * np.cross(n, found[..., :3])
    assert np.abs((found[..., :3] * n).sum(-1)).max() < 1e-12
    np.testing.assert_allclose(np.linalg.norm(found[..., :3], axis=-1), 1)
    edge = mesh.positions[mesh.faces[:, 1]] - mesh.positions[mesh.faces[:, 0]]
    du, dv = (mesh.uvs[mesh.uv_faces[:, 1]] - mesh.uvs[mesh.uv_faces[:, 0]]).T
    along_u, along_v = ((edge * vectors[:, 0, :3]).sum(-1) for vectors in (found, bitangent))
    clear_u, clear_v = np.abs(du) > 2 * np.abs(dv), np.abs(dv) > 2 * np.abs(du)
    assert (along_u[clear_u] * du[clear_u] > 0).all() and (along_v[clear_v] * dv[clear_v] < 0).all()


def plain(mesh):
    """(F, 3, 4) by loops over corners, for meshes whose points have one fan of faces each."""
    normals = mesh.vertex_normals()
    total, sign = {}, {}
    for pass_ in (0, 1):
        for face, uv_face in zip(mesh.faces, mesh.uv_faces, strict=True):
            p, t = mesh.positions[face], mesh.uvs[uv_face] * (1, -1)
            edges, steps = np.stack([p[1] - p[0], p[2] - p[0]]), np.stack([t[1] - t[0], t[2] - t[0]])
            along = np.linalg.solve(steps, edges)[0]
            orientation = np.sign(np.linalg.det(steps))
            for k in range(3):
                key, n = (face[k], uv_face[k], orientation), normals[face[k]]

                def flat(vector, n=n):
                    vector = vector - n * (n @ vector)
                    return vector / np.linalg.norm(vector)

                cosine = flat(p[(k + 1) % 3] - p[k]) @ flat(p[(k + 2) % 3] - p[k])
                if pass_ == 0:
                    total[key] = total.get(key, 0) + flat(along) * np.arccos(np.clip(cosine, -1, 1))
                else:
                    vector = total[key] / np.linalg.norm(total[key])
                    sign.setdefault((tuple(face), k), [*vector, orientation])
    return np.array([[sign[tuple(face), k] for k in range(3)] for face in mesh.faces])


@pytest.mark.parametrize("mirror", [False, True])
def test_against_a_plain_loop(mirror):
    mesh = pear(12, 8, 8)
    uvs = mesh.uvs + 0.01 * np.random.default_rng(0).normal(size=mesh.uvs.shape)
    if mirror:  # one half has the picture of the other
        uvs = np.abs(mesh.uvs - (0.5, 0))
    np.testing.assert_allclose(corners(replace(mesh, uvs=uvs)), plain(replace(mesh, uvs=uvs)), atol=1e-9)


def test_normals_and_uvs_part_what_shares_a_tangent():
    assert len(cube().tangents().values) == 24
    assert len(square([[0, 0], [1, 0], [1, 1], [0, 1]]).tangents().values) == 4
    # A fold: the second face has the mirrored UVs of the first.
    assert len(square([[0, 0], [1, 0], [1, 1], [1, 0]]).tangents().values) == 6
    flat = square([[0, 0], [1, 0], [1, 1], [0, 1]])
    hard = replace(
        flat, normals=np.array([[0, 0, 1.0], [0, 0.6, 0.8]]), normal_faces=np.array([[0] * 3, [1] * 3])
    )
    assert len(hard.tangents().values) == 6


def test_faces_without_area_in_the_uvs():
    """They take their neighbour's; alone they take a direction in the surface."""
    half = square([[0, 0], [1, 0], [1, 1], [0.5, 0.5]])
    np.testing.assert_allclose(corners(half), np.broadcast_to([1, 0, 0, -1], (2, 3, 4)), atol=1e-12)
    mesh = pear(12, 8, 8)
    mesh = replace(mesh, uvs=np.zeros((1, 2)), uv_faces=np.zeros_like(mesh.uv_faces))
    found = corners(mesh)
    n = mesh.vertex_normals()[mesh.faces]
    assert np.abs((found[..., :3] * n).sum(-1)).max() < 1e-12 and (np.abs(found[..., 3]) == 1).all()
    np.testing.assert_allclose(np.linalg.norm(found[..., :3], axis=-1), 1)


def test_those_of_the_file_are_taken_while_they_hold():
    mesh = square([[0, 0], [1, 0], [1, 1], [0, 1]])
    given = replace(mesh, file_tangents=[[0, 1, 0, -1]], file_tangent_faces=np.zeros((2, 3), int))
    np.testing.assert_array_equal(given.validate().tangents().values, [[0, 1, 0, -1]])
    np.testing.assert_array_equal(given.split_at_seams(tangents=True).tangents, [[0, 1, 0, -1]] * 4)
    for other in (given.moved(given.positions), given.subdivide()):
        assert other.file_tangents is None and (other.tangents().values[:, 0] > 0.9).all()
    assert given.with_faces([1]).tangents().faces.shape == (1, 3)
    with pytest.raises(InputError, match="come in pairs"):
        replace(mesh, file_tangents=[[0, 1, 0, -1]])
    with pytest.raises(InputError, match="tangent 0 of file_tangents is NaN"):
        replace(given, file_tangents=[[0, np.nan, 0, 1]]).validate()
    with pytest.raises(InputError, match="has no UVs, which tangents go along"):
        Mesh(SQUARE, [[0, 1, 2]]).tangents()


def test_a_fish_has_the_tangents_of_its_file(data):
    """Its exporter used MikkTSpace."""
    mesh = load_mesh(data / "meshes" / "BarramundiFish_512.glb")
    found = replace(mesh, file_tangents=None, file_tangent_faces=None).tangents()
    values, given = found.values[found.faces], mesh.file_tangents[mesh.file_tangent_faces]
    assert ((values[..., :3] * given[..., :3]).sum(-1) > np.cos(np.radians(1))).all()
    assert (values[..., 3] == given[..., 3]).all()
    joined, _ = weld_values(given.reshape(-1, 4), np.arange(given.size // 4))
    assert len(joined) <= len(found.values) * 1.01
