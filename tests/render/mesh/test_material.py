"""Materials: what is refused, and what meshes do with them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dressi
from dressi.errors import InputError
from dressi.render.materials import GLTF, Placement
from dressi.render.mesh import Material, Mesh
from dressi.render.mesh.primitives import cube


def normals(size=(8, 8), tilt=0.6, seed=0):
    """(H, W, 3) unit vectors around +Z, as they come out of 8 bits."""
    random = np.random.default_rng(seed)
    xy = random.uniform(-tilt, tilt, (*size, 2))
    vectors = np.concatenate([xy, np.sqrt(1 - (xy**2).sum(-1, keepdims=True))], axis=-1)
    return np.round((vectors * 0.5 + 0.5) * 255) / 255 * 2 - 1


REFUSED = [
    ({"roughness": 3.0}, r"roughness is 3, which is not in \[0, 1\]"),
    ({"metallic": -0.5}, "metallic is -0.5"),
    ({"roughness": float("nan")}, "roughness is nan"),
    ({"metallic": (1.0, 0.0)}, "metallic must be one number"),
    ({"emission": (0.0, -1.0, 0.0)}, r"emission is -1, which is not in \[0, infinity\)"),
    ({"normal_scale": np.inf}, "normal_scale is inf, which is not in"),
    ({"alpha_mode": "glass"}, "alpha_mode is 'glass'; give one of opaque, mask, blend"),
    ({"placements": {"dirt": Placement()}}, "placements name 'dirt'; give some of texture"),
    ({"placements": {"alpha": Placement(uv_set=2)}}, "the placement of alpha: uv_set is 2; give 0 or 1"),
    ({"wrap": ("repeat", "border")}, "give two of repeat, clamp, mirror"),
    ({"sheen_color": (0.0, 0.0, 2.0)}, "sheen_color is 2"),
    ({"metallic_roughness": np.full((4, 4, 2), 1.5)}, r"metallic_roughness is 1.5 \(32 such values\)"),
    ({"occlusion": np.array([[np.nan, 1.0]])}, "occlusion is nan"),
    ({"normal": np.full((4, 4, 3), np.nan)}, "normal map has 16 texels that are NaN"),
    ({"normal": np.zeros((4, 4, 3))}, "normal map is all grey"),
    ({"normal": normals() * 0.5 + 0.5}, r"code values in \[0, 1\]; decode it"),
    ({"normal": normals() * 127}, r"not in \[-1, 1\]; decode it"),
    ({"normal": normals() * 0.5}, r"mean length 0.50\); is it a colour picture"),
    ({"normal": -normals()}, "point outward"),
    ({"normal": np.random.default_rng(0).uniform(-1, 1, (32, 32, 3))}, "is it a colour picture"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "words"), REFUSED)
def test_refused(fields, words):
    with pytest.raises(InputError, match=f"material 'oak': .*{words}"):
        Material(**fields, name="oak").validate()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"normal": np.zeros((4, 4))}, r"normal must be \(H, W, 3\), not \(4, 4\)"),
        ({"metallic_roughness": np.zeros((4, 4, 3))}, r"metallic_roughness must be \(H, W, 2\)"),
        ({"occlusion": np.zeros((0, 4))}, r"occlusion must be \(H, W\), not \(0, 4\)"),
        ({"occlusion": np.full((4, 4), 255, np.uint8)}, "occlusion must hold floats, not uint8; divide"),
        ({"emission": 1.0}, "emission must be 3 numbers, not 1.0"),
    ],
)
def test_wrong_shapes_are_refused_at_once(fields, words):
    with pytest.raises(InputError, match=words):
        Material(**fields)


def test_normal_maps_of_real_files_pass():
    """Maps that were filtered down are shorter than 1; atlases are padded with black."""
    filtered = normals((16, 16)).reshape(8, 2, 8, 2, 3).mean((1, 3))
    padded = np.concatenate([normals(), np.full((24, 8, 3), -1.0)])
    for normal in (normals(), filtered, padded, np.array([[[0.0, 0.0, 1.0]]])):
        assert Material(normal=normal).validate().maps() == ("normal",)


def test_planes_take_one_channel():
    assert Material(occlusion=np.ones((2, 3, 1))).occlusion.shape == (2, 3)


def test_a_mesh_keeps_its_material():
    material = Material(metallic=1.0, roughness=0.5, metallic_roughness=np.full((2, 2, 2), 0.5), wrap="clamp")
    mesh = replace(cube(), material=material)
    assert mesh.validate().material is material and material.wrap == ("clamp", "clamp")
    for other in (mesh.moved(mesh.positions * 2), mesh.subdivide(), mesh.with_faces([0]), mesh.clean()):
        assert other.material is material
    bare = replace(mesh, uvs=None, uv_faces=None)
    with pytest.raises(InputError, match=r"maps \(metallic_roughness\) and the mesh has no UVs"):
        bare.validate()
    with pytest.warns(UserWarning, match="xatlas"):
        unwrapped = mesh.unwrap(64)
    assert unwrapped.material.maps() == () and unwrapped.validate().material.roughness == 0.25
    with pytest.raises(InputError, match="roughness is 2"):
        Mesh(np.eye(3), [[0, 1, 2]], material=Material(roughness=2.0)).validate()


def test_without_maps_keeps_what_the_maps_are_on_average():
    material = Material(
        emission=(2.0, 2.0, 2.0),
        emission_map=np.array([[[1.0, 0.5, 0.0], [0.0, 0.5, 0.0]]]),
        alpha=np.zeros((1, 1)),
        alpha_mode="mask",
        clearcoat=1.0,
        clearcoat_map=np.array([[0.25]]),
    ).without_maps()
    assert material.emission == (1.0, 1.0, 0.0) and material.clearcoat == 0.25
    assert (material.maps(), material.alpha_mode) == ((), "opaque")
    assert repr(material) == "Material(emission=(1.0, 1.0, 0.0), clearcoat=0.25)"


def test_the_guide_shows_the_table():
    guide = Path(dressi.__file__).parent / "docs" / "guides" / "materials.md"
    assert GLTF.table() in guide.read_text(encoding="utf-8")
