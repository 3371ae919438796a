"""Sample scenes of three to ten materials: what glTF files hold, for comparisons with other renderers.

``SCENES`` has a function for each, which takes the folder of the data: ``layers`` (every lobe of the material table),
``panes`` (alpha blended and cut out), ``arm`` (a skin), ``head`` (morph targets) and ``models`` (nine meshes of the data).
"""

import argparse
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from dressi.config import config
from dressi.errors import InputError
from dressi.render import (
    Camera,
    DirectionalLight,
    MorphGeometry,
    Node,
    PointLight,
    Scene,
    Skeleton,
    SkinnedGeometry,
    SpotLight,
    load_mesh,
    primitives,
)
from dressi.render.core.materials import Placement
from dressi.render.mesh import Material, Mesh

EXPRESSIONS = ("jawOpen", "mouthSmile_L", "browInnerUp_L", "mouthPucker")
SIZE = (256, 192)
"""Width and height, whose ratio the camera of a file keeps."""


def placed(x: float, y: float, z: float, scale: float = 1.0, turn: float = 0.0) -> np.ndarray:
    """(4, 4): scaled, turned about y by so many degrees, and moved."""
    c, s = math.cos(math.radians(turn)), math.sin(math.radians(turn))
    return np.array(
        [[c * scale, 0, s * scale, x], [0, scale, 0, y], [-s * scale, 0, c * scale, z], [0, 0, 0, 1.0]]
    )


def pattern(size: int, cells: int, low: float, high: float) -> np.ndarray:
    """(size, size): squares of two values with soft borders, so that no texel is a step."""
    wave = np.sin((np.arange(size) + 0.5) / size * math.pi * cells)
    product = np.clip(wave[:, None] * wave * 3, -1, 1) * 0.5 + 0.5
    return low + (high - low) * product


def bumps(size: int, cells: int, slope: float) -> np.ndarray:
    """(size, size, 3): a normal map of round bumps."""
    wave = slope * np.sin((np.arange(size) + 0.5) / size * 2 * math.pi * cells)
    normal = np.stack([*np.broadcast_arrays(wave, wave[:, None]), np.ones((size, size))], axis=-1)
    return normal / np.linalg.norm(normal, axis=-1, keepdims=True)


def sheet(half: float, texture: np.ndarray | None = None, repeat: float = 1.0, **material) -> Mesh:
    """A square in the plane of x and z that faces up, with texture coordinates."""
    corners = np.array([[-1, -1], [-1, 1], [1, 1], [1, -1.0]])
    positions = np.stack([corners[:, 0], np.zeros(4), corners[:, 1]], axis=1) * half
    faces = np.array([[0, 1, 2], [0, 2, 3]])
    uvs = (corners * 0.5 + 0.5) * repeat
    own = Material(**{"double_sided": True, "name": "sheet"} | material)
    return Mesh(positions, faces, uvs=uvs, uv_faces=faces, texture=texture, material=own, name="sheet")


def floor(half: float = 6.0) -> Node:
    grey = pattern(64, 8, 0.25, 0.6)
    return Node(
        sheet(half, np.stack([grey, grey, grey * 0.9], axis=-1), 3.0, roughness=0.7, name="tiles"),
        name="floor",
    )


def ball(colour=(0.8, 0.8, 0.8), **material) -> Mesh:
    """A sphere of radius 1 with texture coordinates by longitude and latitude, whose seam is behind."""
    around, along = 64, 32
    turn, tilt = np.meshgrid(np.linspace(0, 2, around + 1) * math.pi, np.linspace(0, 1, along + 1) * math.pi)
    points = np.stack([-np.sin(tilt) * np.sin(turn), np.cos(tilt), -np.sin(tilt) * np.cos(turn)], axis=-1)
    uvs = np.stack([turn / (2 * math.pi), tilt / math.pi], axis=-1).reshape(-1, 2)
    a = (np.arange(along)[:, None] * (around + 1) + np.arange(around)).reshape(-1)
    below = a + around + 1
    faces = np.concatenate([np.stack([a, below, a + 1], 1), np.stack([a + 1, below, below + 1], 1)])
    # One vertex at each pole and along the seam, so that the surface is closed.
    rows, inverse = np.unique(points.reshape(-1, 3).round(12), axis=0, return_inverse=True)
    welded = inverse.reshape(-1)[faces]
    keep = (welded != np.roll(welded, 1, axis=1)).all(1)
    mesh = Mesh(
        rows, welded[keep], uvs=uvs, uv_faces=faces[keep], color=colour, material=Material(**material)
    )
    return replace(mesh, name="ball")


def layers(data: Path | None) -> Scene:
    """Nine balls and a floor: ten materials, one for each lobe and kind of map."""
    rough, bump = pattern(64, 12, 0.3, 1.0), bumps(128, 8, 0.5)
    both = np.stack([pattern(32, 6, 0, 1), pattern(32, 6, 0.8, 0.4)], axis=-1)
    print_ = np.stack([pattern(64, 6, 0.1, 0.9), pattern(64, 4, 0.8, 0.2), np.full((64, 64), 0.5)], axis=-1)
    turned = Placement(0, ((1.6, -1.2), (1.2, 1.6)), (0.3, 0.1), ("mirror", "mirror"))
    balls = [
        ("clay", replace(ball((0.8, 0.45, 0.3), roughness=1.0, name="clay"), texture=None)),
        ("gold", ball((1.0, 0.77, 0.34), metallic=1.0, roughness=0.35, name="gold")),
        ("patched", replace(ball(metallic=1.0, metallic_roughness=both, placements={"texture": turned}, name="patched"),
                            texture=print_)),
        ("dented", ball((0.7, 0.7, 0.75), metallic=1.0, roughness=0.4, normal=bump, normal_scale=0.8, name="dented")),
        ("lacquer", ball((0.1, 0.2, 0.6), roughness=0.6, clearcoat=1.0, clearcoat_roughness=0.15,
                         clearcoat_roughness_map=rough, name="lacquer")),
        ("orange", ball((0.9, 0.4, 0.05), roughness=0.5, clearcoat=0.8, clearcoat_roughness=0.2, clearcoat_normal=bump,
                        normal=bumps(128, 16, 0.2), name="orange")),
        ("velvet", ball((0.3, 0.05, 0.15), roughness=0.9, sheen_color=(0.9, 0.6, 0.8), sheen_roughness=0.45,
                        name="velvet")),
        ("gem", ball((0.05, 0.4, 0.2), roughness=0.25, ior=2.2, specular=0.8, specular_color=(0.6, 1.0, 0.9),
                     specular_map=pattern(32, 5, 0.2, 1.0), name="gem")),
        ("lamp", replace(ball((0.2, 0.2, 0.2), roughness=0.8, emission=(1.5, 1.0, 0.3), name="lamp",
                              emission_map=np.repeat(pattern(32, 6, 0.05, 1.0)[..., None], 3, axis=-1)))),
    ]  # fmt: skip
    nodes = [
        Node(mesh, None, placed(1.15 * (k % 3 - 1), 0.5 + (2 - k // 3) * 0.55, 1.1 * (k // 3 - 1), 0.5), name)
        for k, (name, mesh) in enumerate(balls)
    ]
    lights = [
        DirectionalLight((1, 2, 1.5), (2.0, 1.9, 1.7)),
        PointLight((-2.5, 2.5, 2.0), (3.0, 4.0, 6.0)),
        SpotLight((2.0, 3.5, 2.0), (-0.5, -0.75, -0.5), (12.0, 6.0, 5.0), 0.15, 0.45),
    ]
    camera = Camera.perspective(32, SIZE, (0.3, 3.6, 6.2), (0, 0.75, 0), near=0.5, far=50)
    return Scene([floor(), *nodes], {"front": camera}, lights)


def panes(data: Path | None) -> Scene:
    """Tinted panes in front of each other and of opaque things, a leaf that is cut out, and a flat unlit card."""
    lattice = pattern(64, 6, 0.15, 0.95)
    leaf = np.clip((1.0 - np.hypot(*np.meshgrid(*[np.linspace(-1, 1, 64)] * 2)[::-1])) * 3 + 0.5, 0, 1)
    stripes = np.stack([pattern(64, 3, 0.2, 0.9), pattern(64, 5, 0.9, 0.3), np.full((64, 64), 0.2)], axis=-1)
    upright = np.array([[1, 0, 0, 0], [0, 0, 1, 0], [0, -1, 0, 0], [0, 0, 0, 1.0]])
    veil = sheet(0.9, stripes, roughness=0.3, alpha=lattice, alpha_mode="blend", name="veil")
    tint = replace(sheet(0.8, None, roughness=0.2, alpha=np.full((1, 1), 0.35), alpha_mode="blend", name="tint"),
                   color=(0.1, 0.5, 0.9))  # fmt: skip
    cut = replace(sheet(0.5, None, roughness=0.6, alpha=leaf, alpha_mode="mask", alpha_cutoff=0.5, name="leaf"),
                  color=(0.15, 0.6, 0.1))  # fmt: skip
    card = sheet(0.4, stripes, 1.0, unlit=True, name="card")
    nodes = [
        floor(),
        Node(primitives.cube(0.5), {"roughness": 0.8}, placed(-0.6, 0.5, -1.0, 1, 30), "box"),
        Node(
            ball((0.95, 0.6, 0.5), metallic=1.0, roughness=0.4, name="copper"),
            None,
            placed(0.7, 0.6, -0.9, 0.6),
            "copper",
        ),
        Node(cut, None, placed(-1.5, 0.6, 0.1) @ upright, "leaf"),
        Node(card, None, placed(1.7, 0.5, -0.2, 1, -25) @ upright, "card"),
        Node(veil, None, placed(-0.3, 0.95, 0.5, 1, 12) @ upright, "veil"),
        Node(tint, None, placed(0.5, 0.9, 1.1, 1, -15) @ upright, "tint"),
    ]
    lights = [DirectionalLight((-1, 2, 1.5), (2.5, 2.4, 2.2)), PointLight((2.5, 2.0, 2.5), (4.0, 3.5, 3.0))]
    camera = Camera.perspective(30, SIZE, (0.5, 2.2, 6.5), (0, 0.7, 0), near=0.5, far=50)
    return Scene(nodes, {"front": camera}, lights)


def arm(data: Path | None) -> Scene:
    """A tube that three joints bend and twist, on a stand."""
    tube = ball((0.9, 0.9, 0.9))
    tall = np.sign(tube.positions[:, 1]) * np.abs(tube.positions[:, 1]) ** 0.8
    radius = np.sqrt(np.maximum(1 - tall**8, 0)) / np.maximum(
        np.linalg.norm(tube.positions[:, ::2], axis=1), 1e-9
    )
    points = np.stack(
        [tube.positions[:, 0] * radius * 0.3, tall * 1.2 + 1.2, tube.positions[:, 2] * radius * 0.3], 1
    )
    weave = np.stack(
        [pattern(128, 16, 0.2, 0.8), pattern(128, 16, 0.3, 0.5), pattern(128, 8, 0.6, 0.2)], axis=-1
    )
    cloth = Material(roughness=0.6, normal=bumps(128, 16, 0.3), name="weave")
    tube = replace(
        tube.moved(points), texture=weave, material=cloth, normals=None, normal_faces=None, name="tube"
    )
    shares = np.maximum(1 - np.abs(points[:, 1:2] / 0.8 - np.arange(3)), 0)
    shares = np.pad(shares / shares.sum(1, keepdims=True), ((0, 0), (0, 1)))
    bind = np.tile(np.eye(4), (3, 1, 1))
    bind[:, 1, 3] = -0.8 * np.arange(3)
    root, elbow, wrist = placed(0, 0.2, 0), placed(0, 0.8, 0), placed(0, 0.8, 0)
    for matrix, angle in ((elbow, 35), (wrist, 45)):
        c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        matrix[:3, :3] = placed(0, 0, 0, 1, 20)[:3, :3] @ [[c, -s, 0], [s, c, 0], [0, 0, 1]]
    skeleton = Skeleton([-1, 0, 1], np.stack([root, elbow, wrist]), ("root", "elbow", "wrist"))
    joints = np.tile([0, 1, 2, 0], (len(points), 1))
    skin = SkinnedGeometry(tube, joints, shares, bind, skeleton)
    stand = replace(primitives.cube(0.5), color=(0.4, 0.3, 0.25))
    nodes = [
        floor(),
        Node(skin, name="arm"),
        Node(stand, {"roughness": 0.5}, placed(0, 0.1, 0) @ np.diag([1.4, 0.4, 1.4, 1]), "stand"),
        Node(
            ball((0.9, 0.75, 0.4), metallic=1.0, roughness=0.3, name="brass"),
            None,
            placed(0.9, 0.35, 0.5, 0.35),
            "knob",
        ),
    ]
    lights = [DirectionalLight((1, 2, 1.5), (2.5, 2.4, 2.2)), PointLight((-2.5, 2.0, 2.0), (3.0, 4.0, 5.0))]
    camera = Camera.perspective(30, SIZE, (0.0, 2.4, 6.5), (-0.4, 1.1, 0), near=0.5, far=50)
    return Scene(nodes, {"front": camera}, lights)


def head(data: Path | None) -> Scene:
    """A head with morph targets, of the face that the data has, between two balls."""
    assert data is not None
    with np.load(data / "face" / "ict_facekit_head_f16.npz") as found:
        names = list(found["expression_names"])
        chosen = [names.index(name) for name in EXPRESSIONS]
        modes, neutral = found["expression"][chosen].astype(np.float64), found["neutral"].astype(np.float64)
        quads, quads_uv, uvs = (found[name] for name in ("quads", "quads_uv", "uv"))
    faces, uv_faces = (np.concatenate([q[:, [0, 1, 2]], q[:, [0, 2, 3]]]) for q in (quads, quads_uv))
    keep = (faces != np.roll(faces, 1, axis=1)).all(1)
    low, high = neutral.min(0), neutral.max(0)
    scale = 2.0 / (high - low)[1]
    skin = Material(roughness=0.5, specular_color=(1.0, 0.9, 0.85), double_sided=True, name="skin")
    blush = np.stack(
        [pattern(64, 8, 0.75, 0.9), pattern(64, 8, 0.5, 0.65), pattern(64, 8, 0.4, 0.5)], axis=-1
    )
    mesh = Mesh(
        (neutral - (low + high) / 2) * scale, faces[keep], uvs=uvs * (1, -1) + (0, 1), uv_faces=uv_faces[keep],
        texture=blush, material=skin, name="head",
    )  # fmt: skip
    shape = MorphGeometry(mesh, modes * scale, [0.8, 0.6, 0.7, 0.5], names=EXPRESSIONS)
    nodes = [
        floor(),
        Node(shape, None, placed(0, 1.05, 0, 1, 15), "head"),
        Node(ball((0.9, 0.9, 0.95), roughness=0.3, name="white"), None, placed(-1.5, 0.4, 0.4, 0.4), "white"),
        Node(
            ball((1.0, 0.8, 0.4), metallic=1.0, roughness=0.3, name="brass"),
            None,
            placed(1.5, 0.4, 0.4, 0.4),
            "brass",
        ),
    ]
    lights = [DirectionalLight((1, 1.5, 2), (2.5, 2.3, 2.1)), PointLight((-2.5, 2.0, 2.5), (3.0, 4.0, 5.0))]
    camera = Camera.perspective(30, SIZE, (0.0, 1.9, 5.6), (0, 0.95, 0), near=0.5, far=50)
    return Scene(nodes, {"front": camera}, lights)


def models(data: Path | None) -> Scene:
    """Nine meshes of the data, each with its own material, on a floor."""
    assert data is not None
    folder = data / "meshes"
    listed = [
        ("Avocado_512.glb", 1.0, 30, None), ("BoomBox_512.glb", 1.0, 150, None), ("spot_bob/spot.obj", 1.2, 215, None),
        ("Duck.glb", 1.0, -60, None), ("common/stanford-bunny.obj", 1.2, 10, "jade"), ("Suzanne_512.glb", 1.1, -25, None),
        ("spot_bob/bob_tri.obj", 0.9, 120, None), ("BarramundiFish_512.glb", 1.1, 80, None), ("common/teapot.obj", 1.0, 20, "chrome"),
    ]  # fmt: skip
    plain = {
        "jade": (
            (0.25, 0.55, 0.35),
            Material(roughness=0.45, clearcoat=0.7, clearcoat_roughness=0.2, name="jade"),
        ),
        "chrome": ((0.8, 0.8, 0.85), Material(metallic=1.0, roughness=0.3, double_sided=True, name="chrome")),
    }
    nodes = [floor()]
    for k, (file, tall, turn, name) in enumerate(listed):
        mesh = load_mesh(folder / file)
        if name is not None:
            colour, material = plain[name]
            mesh = replace(mesh, color=colour, material=material)
        low, high = mesh.positions.min(0), mesh.positions.max(0)
        scale = tall / (high - low).max()
        centre = np.eye(4)
        centre[:3, 3] = -(low + high) / 2 * (1, 0, 1) - low * (0, 1, 0)
        place = placed(1.4 * (k % 3 - 1), 0, 1.4 * (k // 3 - 1), scale, turn) @ centre
        nodes.append(Node(mesh, None, place, Path(file).stem))
    lights = [DirectionalLight((1, 2, 1.5), (2.4, 2.3, 2.1)), PointLight((-2.5, 3.0, 2.5), (4.0, 5.0, 6.0))]
    camera = Camera.perspective(32, SIZE, (0.3, 4.4, 6.4), (0, 0.3, 0), near=0.5, far=50)
    return Scene(nodes, {"front": camera}, lights)


SCENES: dict[str, Callable[[Path | None], Scene]] = {
    "layers": layers, "panes": panes, "arm": arm, "head": head, "models": models,
}  # fmt: skip


def add_options(parser: argparse.ArgumentParser, name: str, holds: str) -> None:
    """Options of every comparison. name: of the program. holds: what is in the folder of the data."""
    parser.add_argument("--scenes", nargs="+", choices=[*SCENES], default=[*SCENES])
    parser.add_argument("--data", type=Path, help=f"the folder with {holds}; DRESSI_DATA without it")
    parser.add_argument("--samples", type=int, default=4, help="along each axis of a pixel")
    parser.add_argument("--json", type=Path, help=f"the figures; {name}.json in --out by default")
    parser.add_argument("--out", type=Path, default=Path(f"out/{name}"))
    parser.add_argument("--headless", action="store_true", help="no window; there is none")


def data_of(given: argparse.Namespace, holds: str) -> Path | None:
    """The folder of the data. Raises InputError where a scene needs it and there is none."""
    data = given.data or config.data
    if data is None and {"head", "models"} & {*given.scenes}:
        raise InputError(
            f"set DRESSI_DATA to the folder that holds {holds}; --scenes layers panes arm need none"
        )
    return data
