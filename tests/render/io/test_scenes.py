"""glTF scenes: what is written comes back, files are drawn, and what they cannot say is one sentence."""

import base64
import json
import shutil
import struct
import subprocess
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.transform import Rotation, Slerp

from dressi import MAT4, InputError, Variable
from dressi.render import Camera, MorphGeometry, Node, Scene, Skeleton, SkinnedGeometry, primitives, render
from dressi.render.core.materials import Placement
from dressi.render.formats import load_mesh, load_scene, save_mesh, save_scene
from dressi.render.mesh import Material, Mesh
from dressi.render.shading.lights import DirectionalLight, PointLight, SpotLight

RANDOM = np.random.default_rng(11)
BALL = replace(primitives.icosphere(1), name="ball", color=(0.5, 0.25, 1.0))
CAMERA = Camera.perspective(40, (48, 32), (1, 2, 6), (0, 0, 0), near=0.5, far=50, name="eye")
CODES = np.round(RANDOM.random((4, 4, 3)) * 255) / 255


def textured() -> Mesh:
    linear = np.where(CODES <= 0.04045, CODES / 12.92, ((CODES + 0.055) / 1.055) ** 2.4)
    both = np.round(RANDOM.random((4, 4, 2)) * 255) / 255
    material = Material(metallic_roughness=both, metallic=0.5, roughness=0.75, name="painted")
    return replace(primitives.cube(), name="box", texture=linear, material=material)


def turned(x: float, angle: float, scale: float = 1.0) -> np.ndarray:
    matrix = np.eye(4)
    c, s = np.cos(angle), np.sin(angle)
    matrix[:3, :3] = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]]) * scale
    matrix[:3, 3] = (x, 0.25, -0.5)
    return matrix


def rig(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, Skeleton]:
    """Joints, weights, inverse bind matrices and a skeleton of a fork."""
    joints = RANDOM.integers(0, 4, (count, 4))
    weights = RANDOM.dirichlet(np.ones(4), count)
    local = np.stack([turned(0.2 * k, 0.3 * k) for k in range(4)])
    bind = np.stack([np.linalg.inv(turned(0.1 * k, -0.2 * k)) for k in range(4)])
    return joints, weights, bind, Skeleton([-1, 0, 1, 0], local, ("hip", "spine", "head", "arm"))


def everything() -> Scene:
    box, modes = textured(), RANDOM.normal(size=(3, len(BALL.positions), 3)) * 0.1
    morph = MorphGeometry(BALL, modes, [0.2, -0.5, 1.0], names=("smile", "frown", "blink"))
    skin = SkinnedGeometry(primitives.octasphere(2), *rig(len(primitives.octasphere(2).positions)))
    left = Node(box, to_world=turned(-2, 0.5), name="left")
    nodes = [
        left,
        Node(left.geometry, to_world=turned(2, -0.5, 0.5), name="right"),
        Node(BALL, Material(metallic=1.0, roughness=0.25, name="metal"), name="ball"),
        Node(morph, to_world=turned(0, 0.25), name="face"),
        Node(skin, name="figure"),
    ]
    sun, lamp = DirectionalLight((1, 2, 2), (1.0, 2.0, 4.0)), PointLight((0, 3, 0), 5.0)
    spot = SpotLight((1, 3, 2), (-1, -3, -2), 8.0, inner=0.25, outer=0.5)
    return Scene(nodes, {"eye": CAMERA}, [sun, lamp, spot])


def save(tmp_path: Path, scene: Scene) -> Path:
    save_scene(tmp_path / "scene.glb", scene)
    return tmp_path / "scene.glb"


def test_a_scene_comes_back(tmp_path: Path):
    scene = everything()
    found = load_scene(save(tmp_path, scene))
    assert [node.name for node in found] == ["left", "right", "ball", "face", "figure"]
    assert found["left"].geometry is found["right"].geometry
    for name in ("left", "right", "face"):
        assert_allclose(found[name].to_world, scene[name].to_world, atol=1e-12)
    assert found["figure"].to_world is None
    left = found["left"].geometry.mesh
    assert_allclose(left.texture, scene["left"].geometry.mesh.texture, atol=1e-6)
    assert left.material.metallic_roughness.shape == (4, 4, 2) and left.material.name == "painted"
    metal = found["ball"].geometry.mesh
    assert (metal.material.metallic, metal.material.roughness, metal.color) == (1.0, 0.25, BALL.color)
    face, figure = found["face"].geometry, found["figure"].geometry
    assert face.names == ("smile", "frown", "blink") and face.weights.tolist() == [0.2, -0.5, 1.0]
    assert figure.skeleton.names == ("hip", "spine", "head", "arm")
    assert figure.skeleton.parents.tolist() == [-1, 0, 1, 0]
    sun, lamp, spot = found.lights
    assert_allclose(sun.direction, np.array([1, 2, 2]) / 3, atol=1e-6)
    assert_allclose((*sun.colour, *lamp.intensity, *lamp.position), (1, 2, 4, 5, 5, 5, 0, 3, 0), atol=1e-6)
    assert_allclose(spot.direction, -np.array((1, 3, 2)) / 14**0.5, atol=1e-6)
    assert_allclose((*spot.position, spot.inner, spot.outer), (1, 3, 2, 0.25, 0.5), atol=1e-6)
    eye = found.cameras["eye"]
    assert eye.size == (768, 512)
    narrow = replace(scene, cameras={"eye": CAMERA.resized((48, 31))})
    other = load_scene(save(tmp_path, narrow)).cameras["eye"].resized((48, 31))
    assert_allclose(other.world_to_clip, CAMERA.resized((48, 31)).world_to_clip, atol=1e-9)
    assert_allclose(eye.resized((48, 32)).world_to_clip, CAMERA.world_to_clip, atol=1e-9)


@pytest.mark.vk
def test_it_looks_the_same(tmp_path: Path):
    scene = everything()
    found = load_scene(save(tmp_path, scene))
    again = load_scene(save(tmp_path, found))
    outputs = ("colour", "node")
    pictures = [render(s, CAMERA, light=list(s.lights), outputs=outputs) for s in (scene, found, again)]
    assert len(np.unique(pictures[0].node)) == 6
    # Files hold normals in the pose of the binding; without a file they are those of the moved shape.
    still = pictures[0].node < 4
    for one, other, where in ((*pictures[:2], still), (*pictures[1:], still | True)):
        assert (np.abs(other.colour - one.colour)[where] > 0.02).mean() < 0.005
        assert (other.node != one.node).mean() < 0.005


VALIDATE = """
const fs = require("fs"), validator = require("gltf-validator");
validator.validateBytes(new Uint8Array(fs.readFileSync(process.argv[1]))).then(report => {
  const errors = report.issues.messages.filter(message => message.severity === 0);
  console.log(JSON.stringify(errors));
  process.exit(errors.length ? 2 : 0);
});
"""


def test_the_validator_of_khronos_finds_no_errors(tmp_path: Path):
    """Needs node and its package gltf-validator, in a folder that NODE_PATH names."""
    node = shutil.which("node")
    probe = [node or "", "-e", "require('gltf-validator')"]
    if node is None or subprocess.run(probe, capture_output=True).returncode:
        pytest.skip("the package gltf-validator of node is not installed")
    command = [node, "-e", VALIDATE, str(save(tmp_path, everything()))]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def edited(path: Path, change) -> Path:
    """The file with another JSON."""
    data = path.read_bytes()
    length = struct.unpack_from("<I", data, 12)[0]
    entries = json.loads(data[20 : 20 + length])
    change(entries)
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 4)
    rest = data[20 + length :]
    head = struct.pack("<5I", 0x46546C67, 2, 20 + len(text) + len(rest), len(text), 0x4E4F534A)
    path.write_bytes(head + text + rest)
    return path


def number(entries: dict, name: str) -> int:
    return next(k for k, node in enumerate(entries["nodes"]) if node.get("name") == name)


def cycle(entries: dict) -> None:
    left, right = number(entries, "left"), number(entries, "right")
    entries["nodes"][left]["children"], entries["nodes"][right]["children"] = [right], [left]
    entries["scenes"][0]["nodes"] = [left]


def cycle_outside(entries: dict) -> None:
    cycle(entries)
    del entries["scenes"], entries["scene"]


def no_joints(entries: dict) -> None:
    entries["skins"][0]["joints"] = []


def mesh_of(entries: dict, name: str) -> dict:
    return entries["meshes"][entries["nodes"][number(entries, name)]["mesh"]]


def no_attributes(entries: dict) -> None:
    del mesh_of(entries, "figure")["primitives"][0]["attributes"]["JOINTS_0"]


def wrong_weights(entries: dict) -> None:
    attributes = mesh_of(entries, "figure")["primitives"][0]["attributes"]
    joints, weights = (entries["accessors"][attributes[name]] for name in ("JOINTS_0", "WEIGHTS_0"))
    weights |= {"bufferView": joints["bufferView"], "componentType": 5121}


def few_targets(entries: dict) -> None:
    mesh_of(entries, "face")["weights"] = [1.0]


def outside_joint(entries: dict) -> None:
    entries["scenes"][0]["nodes"] = [number(entries, "figure")]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (cycle, "node '(left|right)' is its own ancestor"),
        (cycle_outside, "node '(left|right)' is its own ancestor"),
        (no_joints, "node 'figure' has a skin without joints"),
        (no_attributes, "node 'figure' has a skin, and its mesh has no JOINTS_0"),
        (wrong_weights, "node 'figure': skin of mesh 'figure': the weights of vertex .* add up to"),
        (few_targets, "weights must be 3 finite numbers"),
        (outside_joint, "node 'figure' has a joint, node 'hip', that is not in its scene"),
    ],
)
def test_broken_files_are_one_sentence_with_the_node(tmp_path: Path, change, words: str):
    path = edited(save(tmp_path, everything()), change)
    with pytest.raises(InputError, match=words) as found:
        load_scene(path)
    assert str(path) in str(found.value) and "\n" not in str(found.value)


def test_normals_follow_morph_targets_as_far_as_the_file_says(tmp_path: Path):
    modes = RANDOM.normal(size=(2, len(BALL.positions), 3)) * 0.2
    path = save(tmp_path, Scene([Node(MorphGeometry(BALL, modes, [1.0, 0.0]), name="face")]))

    def corners(geometry) -> np.ndarray:
        lists = geometry.lists()
        return lists["normals"][lists["normal_faces"]]

    face = load_scene(path)["face"].geometry
    moved = face.mesh.moved(face.moved)
    assert_allclose(corners(face), moved.vertex_normals()[moved.faces], atol=1e-5)

    def bare(entries: dict) -> None:
        for target in entries["meshes"][0]["primitives"][0]["targets"]:
            del target["NORMAL"]

    face = load_scene(edited(path, bare))["face"].geometry
    assert_allclose(corners(face), face.mesh.normals[face.mesh.normal_faces], atol=1e-12)


def test_tangents_of_a_file_stay_with_normals_of_the_clear_layer(tmp_path: Path):
    coat = Material(clearcoat=1.0, clearcoat_normal=np.tile([0.0, 0.6, 0.8], (2, 2, 1)))
    cube = replace(primitives.cube(), material=coat)
    assert load_scene(save(tmp_path, Scene([Node(cube)]))).nodes[0].geometry.mesh.file_tangents is None
    own, faces = cube.tangents()
    cube = replace(cube, file_tangents=own, file_tangent_faces=faces)
    mesh = load_scene(save(tmp_path, Scene([Node(cube)]))).nodes[0].geometry.mesh
    found = mesh.file_tangents[mesh.file_tangent_faces]
    assert_allclose(np.sort(found.reshape(-1, 4), 0), np.sort(own[faces].reshape(-1, 4), 0), atol=1e-6)


def animated(path: Path, *tracks: tuple) -> Path:
    """The file with one animation: (node, path, interpolation, times, values) each."""

    def change(entries: dict) -> None:
        data, channels, samplers = b"", [], []
        for name, what, kind, times, values in tracks:
            node = entries["nodes"][number(entries, name)]
            if what != "weights" and "matrix" in node:  # a rotation and a place
                matrix = np.reshape(node.pop("matrix"), (4, 4)).T
                node["rotation"] = Rotation.from_matrix(matrix[:3, :3]).as_quat().tolist()
                node["translation"] = matrix[:3, 3].tolist()
            for rows in (np.float32(times)[:, None], np.float32(values)):
                rows = rows.reshape(-1, 1) if what == "weights" else rows.reshape(-1, rows.shape[-1])
                part = {"buffer": len(entries["buffers"]), "byteOffset": len(data), "byteLength": rows.nbytes}
                entries["bufferViews"].append(part)
                form = {1: "SCALAR", 3: "VEC3", 4: "VEC4"}[rows.shape[1]]
                view = {"bufferView": len(entries["bufferViews"]) - 1, "componentType": 5126}
                entries["accessors"].append({**view, "count": len(rows), "type": form})
                data += rows.tobytes()
            last = len(entries["accessors"]) - 1
            channels.append(
                {"sampler": len(samplers), "target": {"node": number(entries, name), "path": what}}
            )
            samplers.append({"input": last - 1, "output": last, "interpolation": kind})
        uri = "data:application/octet-stream;base64," + base64.b64encode(data).decode()
        entries["buffers"].append({"byteLength": len(data), "uri": uri})
        entries["animations"] = [{"name": "walk", "channels": channels, "samplers": samplers}]

    return edited(path, change)


def test_clips_move_nodes_joints_and_weights(tmp_path: Path):
    times = np.array([0.5, 1.0, 2.5])
    turns = Rotation.from_rotvec(RANDOM.normal(size=(3, 3))).as_quat()
    turns[1] *= -1  # the same rotation, so that the shorter way is not that of the numbers
    moves, bends = RANDOM.normal(size=(3, 3)), RANDOM.normal(size=(3, 3, 4))
    shares = RANDOM.normal(size=(3, 3, 3))
    path = animated(
        save(tmp_path, everything()),
        ("left", "rotation", "LINEAR", times, turns),
        ("left", "translation", "STEP", times, moves),
        ("head", "rotation", "CUBICSPLINE", times, bends),
        ("face", "weights", "CUBICSPLINE", times, shares),
    )
    scene = load_scene(path)
    assert repr(scene.clips) == "(Clip('walk': 0.5 to 2.5 s),)"
    skin = next(node.geometry for node in scene if isinstance(node.geometry, SkinnedGeometry))
    for t in (-1.0, 0.5, 0.7, 1.0, 1.9, 2.5, 9.0):
        u, now = np.clip(t, 0.5, 2.5), scene.at(t, "walk")
        left = np.eye(4)
        left[:3, :3] = Slerp(times, Rotation.from_quat(turns))(u).as_matrix()
        left[:3, 3] = moves[np.flatnonzero(times <= u)[-1]]
        assert_allclose(now["left"].to_world, left, atol=1e-6)
        # Hermite's polynomial through two values with two slopes, by its four conditions.
        k = min(np.flatnonzero(times <= u)[-1], 1)
        a, b = times[k : k + 2]
        system = [[1, a, a**2, a**3], [1, b, b**2, b**3], [0, 1, 2 * a, 3 * a**2], [0, 1, 2 * b, 3 * b**2]]

        def spline(keys: np.ndarray, k: int = k, u: float = u, system: list = system) -> np.ndarray:
            ends = [keys[k, 1], keys[k + 1, 1], keys[k, 2], keys[k + 1, 0]]
            return u ** np.arange(4) @ np.linalg.solve(system, ends)

        assert_allclose(now["face"].geometry.weights, spline(shares), atol=1e-5)
        moved = next(node.geometry for node in now if isinstance(node.geometry, SkinnedGeometry))
        local = skin.skeleton.local.copy()
        head = skin.skeleton.names.index("head")
        local[head, :3, :3] = Rotation.from_quat(spline(bends)).as_matrix()
        assert_allclose(moved.skeleton.local, local, atol=1e-5)
        assert_array_equal(now["right"].to_world, scene["right"].to_world)
    # What is written plays the same, and stands in the pose.
    saved = tmp_path / "again.glb"
    save_scene(saved, scene.at(0.7))
    again = load_scene(saved)
    for now, then in ((again, scene.at(0.7)), *((again.at(t), scene.at(t)) for t in (-1.0, 1.2, 1.9, 9.0))):
        for node in then:
            places = [np.eye(4) if one.to_world is None else one.to_world for one in (now[node.name], node)]
            assert_allclose(*places, atol=1e-6)
            rows = [np.sort(one.geometry.lists()["positions"], axis=0) for one in (now[node.name], node)]
            assert_allclose(*rows, atol=1e-5)
    for bad, text in ((lambda: scene.at(np.nan), "finite number"), (lambda: scene.at(0, "wlak"), "walk")):
        with pytest.raises(InputError, match=text):
            bad()


def test_what_animations_lack_is_named(tmp_path: Path):
    still = save(tmp_path, Scene([Node(BALL)]))
    with pytest.raises(InputError, match="has no clips"):
        load_scene(still).at(0.0)
    path = animated(still, ("ball", "translation", "LINEAR", [0, 1], np.eye(3)[:2]))
    with pytest.warns(UserWarning, match="animations, which load_scene reads"):
        load_mesh(path)
    edited(path, lambda entries: entries["animations"][0]["samplers"][0].pop("input"))
    with pytest.raises(InputError, match="translation of node 'ball': its sampler has no input accessor"):
        load_scene(path)
    edited(path, lambda entries: entries["animations"][0]["channels"][0]["target"].update(path="pointer"))
    with pytest.warns(UserWarning, match="moves pointer in animation 'walk', which is not read"):
        assert not load_scene(path).clips


def instanced(path: Path, **columns: np.ndarray) -> Path:
    """The file with instances of its first node."""

    def change(entries: dict) -> None:
        attributes, data = {}, b""
        for name, rows in columns.items():
            part = {"buffer": len(entries["buffers"]), "byteOffset": len(data), "byteLength": rows.nbytes}
            entries["bufferViews"].append(part)
            attributes[name] = len(entries["accessors"])
            form = {3: "VEC3", 4: "VEC4"}[rows.shape[1]]
            view = {"bufferView": len(entries["bufferViews"]) - 1, "count": len(rows), "type": form}
            kind = {"f": 5126, "i": 5122}[rows.dtype.kind]
            entries["accessors"].append(view | {"componentType": kind, "normalized": kind == 5122})
            data += rows.tobytes()
        uri = "data:application/octet-stream;base64," + base64.b64encode(data).decode()
        entries["buffers"].append({"byteLength": len(data), "uri": uri})
        name = "EXT_mesh_gpu_instancing"
        entries["nodes"][0]["extensions"] = {name: {"attributes": attributes}}
        entries["extensionsRequired"] = [name]

    return edited(path, change)


def test_instances_are_nodes_that_share_a_shape(tmp_path: Path):
    places, scales = RANDOM.normal(size=(2, 5, 3)).astype(np.float32)
    turns = Rotation.from_rotvec(RANDOM.normal(size=(5, 3)))
    codes = np.round(turns.as_quat() * 32767).astype(np.int16)
    above = turned(1, 0.5)
    path = instanced(
        save(tmp_path, Scene([Node(BALL, to_world=above)])), TRANSLATION=places, ROTATION=codes, SCALE=scales
    )
    scene = load_scene(path)
    assert [node.name for node in scene] == [f"ball {k}" for k in range(5)]
    assert len({id(node.geometry) for node in scene}) == 1
    for node, place, turn, scale in zip(scene, places, turns, scales, strict=True):
        own = np.eye(4)
        own[:3] = np.c_[turn.as_matrix() * scale, place]
        assert_allclose(node.to_world, above @ own, atol=1e-4)
    assert len(load_mesh(path).positions) == 5 * len(BALL.positions)
    walk = np.float32([(0, 0, 0), (2, 4, 6)])
    scene = load_scene(animated(path, ("ball", "translation", "LINEAR", [0, 1], walk)))
    moved = scene.at(0.5)[4].to_world - scene.at(0.0)[4].to_world
    assert_allclose(moved[:3, 3], (1, 2, 3), atol=1e-6)
    edited(path, lambda entries: entries["accessors"][-3 - 2].update(count=2))
    with pytest.raises(InputError, match=r"node 'ball' has instances with \[2, 5\] places"):
        load_scene(path)


def test_files_of_wavefront_name_the_placements_that_they_lose(tmp_path: Path):
    mesh = textured()
    mesh.material = replace(mesh.material, placements={"texture": Placement(offset=(0.5, 0.0))}, wrap="clamp")
    with pytest.warns(UserWarning, match="MTL cannot place maps, so texture, wrap of 'painted' was left out"):
        save_mesh(tmp_path / "box.obj", mesh)


def test_a_tree_of_nodes_is_flat_in_the_world(tmp_path: Path):
    def nest(entries: dict) -> None:
        left, right = number(entries, "left"), number(entries, "right")
        entries["nodes"][left]["children"] = [right]
        entries["scenes"][0]["nodes"].remove(right)

    scene = everything()
    found = load_scene(edited(save(tmp_path, scene), nest))
    assert_allclose(found["right"].to_world, scene["left"].to_world @ scene["right"].to_world, atol=1e-12)


@pytest.mark.vk
def test_one_material_without_a_tree_is_the_mesh_of_the_file(tmp_path: Path):
    path = save(tmp_path, Scene([Node(textured())]))
    mesh, scene = load_mesh(path), load_scene(path)
    one = scene.nodes[0].geometry.mesh
    assert_array_equal(mesh.positions, one.positions)
    assert_array_equal(mesh.faces, one.faces)
    assert_array_equal(render(mesh, CAMERA).colour, render(scene, CAMERA).colour)


def test_shear_is_applied_and_a_mirror_turns_faces(tmp_path: Path):
    shear = turned(1, 0.5)
    shear[0, 1], shear[2, 2] = 0.5, -1.0
    found = load_scene(save(tmp_path, Scene([Node(BALL, to_world=shear)])))
    mesh = found.nodes[0].geometry.mesh
    assert found.nodes[0].to_world is None
    wanted = BALL.positions @ shear[:3, :3].T + shear[:3, 3]
    for rows in (mesh.positions, wanted):
        rows[:] = rows[np.lexsort(rows.T.round(4))]
    assert_allclose(mesh.positions, wanted, atol=1e-5)
    corners = mesh.positions[mesh.faces]
    assert np.linalg.det(corners - corners.mean((0, 1))).sum() > 0


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (Node(BALL, to_world=Variable(MAT4, (1, 1), name="m"), name="moving"), "node 'moving': to_world is a Variable"),
        (Node((Variable.of(BALL.positions), BALL.faces), name="soft"), "node 'soft': positions are Variables"),
        (Node(BALL, {"roughness": Variable.of([[0.5]])}, name="learned"), "node 'learned': values of roughness are Variables"),
        (Node(MorphGeometry(BALL, BALL.positions[None], Variable.of([[0.5]])), name="face"), "node 'face': a file holds one list"),
    ],
)  # fmt: skip
def test_what_a_file_cannot_hold_is_named(tmp_path: Path, node: Node, words: str):
    with pytest.raises(InputError, match=words):
        save(tmp_path, Scene([node]))


def test_parts_of_a_material_are_written(tmp_path: Path):
    given = {"metallic": 1.0, "roughness": 0.5, "colour": (0.25, 0.5, 1.0)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = load_scene(save(tmp_path, Scene([Node(BALL, given)]))).nodes[0].geometry.mesh
    assert (found.material.metallic, found.material.roughness, found.color) == (1.0, 0.5, (0.25, 0.5, 1.0))
