"""Recordings of heads for ``face_textures.py``: faces with textures finer than the vertices of the model, in four views of
a colour and a depth camera, drawn by Mitsuba 3 (``dressi[peers]``) or by our renderer.

Mitsuba has what the fit has not: shadows, light between surfaces, and the diffuse lobe of Disney's BSDF. The sensor adds
shot and read noise, gamma and 8 bits to colours. Depths have noise and steps that grow with the square of the
distance, and holes at edges.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from face_data import random_face
from scipy.ndimage import gaussian_filter, maximum_filter, minimum_filter
from scipy.spatial import KDTree

from dressi import DressiAD, F
from dressi.ad.graph.types import IVEC3, VEC2, VEC3
from dressi.errors import InputError
from dressi.render import Camera, Cameras, Environment, Mesh, linear_to_srgb, render, srgb_to_linear
from dressi.render.core.lists import as_list
from dressi.render.faces import Face, FaceData, FaceModel
from dressi.render.io import load_environment
from dressi.render.io.files import data_file
from dressi.render.io.images import resize
from dressi.render.surface.screen import Surface, barycentric, corners, rasterize_hard

TURNS, UNSEEN = (-50.0, -18.0, 18.0, 50.0), 0.0
DISTANCE, FIELD = 62.0, 32.0
"""Of the cameras: in centimetres from the middle of the head, and in degrees of the height."""
LIGHTS = ("adams_place_bridge_1k", "empty_warehouse_01_1k", "potsdamer_platz_1k")
OTHER = "pedestrian_overpass_1k"
SKY, KEY, EXPOSURE = 64, 40.0, 1.0
"""Texels across a map; turn of the key in degrees; the colour of white that faces the key."""
FILL, RIM = 0.35, 0.8
"""The photographed surroundings and the rim light, relative to the key."""
ELECTRONS, READ = 4000.0, 8.0
"""At colour 1, and the deviation of reading."""
DEPTH_NOISE, DEPTH_STEP = 1.5, 1.0
"""Millimetres at a metre."""
DEPTH = 3
"""Surfaces and light on a path: once reflected between surfaces."""
SHUT = {"eyeBlink_L", "eyeBlink_R"}
OPEN = (
    "jaw",
    "mouthUpperUp",
    "mouthLowerDown",
    "mouthFunnel",
    "eyeWide",
    "eyeSquint",
    "eyeLook",
    "mouthStretch",
)
"""Expressions that are left out, because the model has neither eyes nor teeth."""


@dataclass(eq=False)
class Textures:
    """albedo: (H, W, 3), linear.  normal: (H, W, 3), units.  roughness: (H, W)."""

    albedo: np.ndarray
    normal: np.ndarray
    roughness: np.ndarray

    def on(self, mesh: Mesh) -> dict[str, Any]:
        """Arguments of ``render`` for a face without colours of its own."""
        material = {"normal": self.normal, "roughness": self.roughness, "metallic": 0.0}
        return {
            "mesh": replace(mesh, colors=None, color_faces=None),
            "texture": self.albedo,
            "material": material,
        }


@dataclass(eq=False)
class Recording:
    """data: four views of the sensor.  unseen, relit: pictures (H, W, 3) without noise of a view that is not among
    them, the second in another light.  inside: (H, W), where they show the face.  light, other: the maps of light."""

    data: FaceData
    unseen: np.ndarray
    relit: np.ndarray
    inside: np.ndarray
    light: np.ndarray
    other: np.ndarray


def camera_at(turn: float, size: tuple[int, int]) -> Camera:
    angle = np.radians(turn)
    eye = DISTANCE * np.array([np.sin(angle), 0.05, np.cos(angle)]) + (0.0, -1.0, 0.0)
    return Camera.perspective(FIELD, size, eye, (0.0, -1.0, 0.0), near=10.0, far=200.0)


def tiled(model: FaceModel) -> FaceModel:
    """The model with its two squares of UVs, the face and the rest, beside each other in [0, 1]."""
    mesh = model.mesh
    if mesh.uvs is None:
        raise InputError("this face model has no UVs, which textures need; ICT-FaceKit has some")
    wide = np.ceil(mesh.uvs[:, 0].max())
    return replace(model, mesh=replace(mesh, uvs=mesh.uvs / (wide, 1.0)))


def texel_values(mesh: Mesh, values: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """(H, W, 3): values of vertices at the texels; texels beside the charts have those of the nearest one inside."""
    assert mesh.uvs is not None and mesh.uv_faces is not None
    clip = F.vec4(as_list("uvs", VEC2, mesh.uvs) * 2.0 - 1.0, 0.5, 1.0)
    index = as_list("uv_faces", IVEC3, mesh.uv_faces)
    face = rasterize_hard(clip, index, size=size, face_count=len(mesh.faces))
    own = as_list("faces", IVEC3, mesh.faces)
    surface = Surface(own, face, barycentric(clip, corners(face, index), size))
    with DressiAD() as ad:
        found, faces = (
            x[0] for x in ad.evaluate([surface.interpolate(as_list("values", VEC3, values)), face])
        )
    inside = faces >= 0
    known, beside = np.argwhere(inside), np.argwhere(~inside)
    found = found.astype(np.float64)
    if len(beside):
        found[~inside] = found[tuple(known[KDTree(known).query(beside)[1]].T)]
    return found


def scanned(file: Path, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """The colours and normals of the scan in ``head`` at the texels of the model, kept in a file."""
    if not file.exists():
        from head import fitted

        head = fitted(size[0])
        assert head.mesh.texture is not None
        np.savez(file, albedo=head.mesh.texture, normal=head.normal_map)
    with np.load(file) as kept:
        albedo, normal = resize(kept["albedo"], size), resize(kept["normal"], size)
    return albedo, normal / np.linalg.norm(normal, axis=-1, keepdims=True)


def true_textures(
    face: Face, scan: tuple[np.ndarray, np.ndarray], size: tuple[int, int], seed: int
) -> Textures:
    """The scan's, changed by the albedo weights of the face, with brows of hairs and freckles; pores and
    wrinkles of the brow beside the scan's; a nose, forehead and lips that shine."""
    model, rng = face.model, np.random.default_rng([seed, 7])
    assert model.albedo is not None and model.landmarks is not None
    width, height = size
    tone = texel_values(model.mesh, model.colours(face.albedo) / np.maximum(model.albedo, 1e-3), size)
    points = texel_values(model.mesh, model.mesh.positions, size)
    marks = model.mesh.positions[model.landmarks]

    def near(places: np.ndarray, reach: float) -> np.ndarray:
        """1 at the places, 0 a few times ``reach`` (centimetres) away."""
        return np.exp(-np.square(KDTree(places).query(points.reshape(-1, 3))[0] / reach)).reshape(
            height, width
        )

    def noise(texels: float) -> np.ndarray:
        field = gaussian_filter(rng.normal(size=(height, width)), texels * width / 1024, mode="wrap")
        return field / field.std()

    albedo = scan[0] * tone.clip(0.3, 2.0)
    front = points[..., 2] > 3.0
    spots = np.clip((noise(2.5) - 1.9) * 2, 0, 1) * near(marks[[1, 15, 28, 31, 35, 40, 47]], 2.5) * front
    albedo *= np.exp(-(0.9 * rng.uniform(0.3, 1.5)) * spots[..., None] * (0.6, 1.0, 1.3))
    brow = np.concatenate(
        [
            np.linspace(marks[a], marks[b], 12)
            for a, b in zip((17, 18, 19, 20, 22, 23, 24, 25), (18, 19, 20, 21, 23, 24, 25, 26), strict=True)
        ]
    )
    hairs = np.clip(near(brow, 0.42) * (1.5 + 0.5 * gaussian_filter(noise(1.0), (2, 0.4))), 0, 1)[..., None]
    albedo = albedo * (1 - 0.75 * hairs) + 0.75 * hairs * (0.05, 0.03, 0.02)
    # Heights become slopes: pores everywhere on the face, wrinkles across the brow.
    forehead = near((marks[[19, 24]] + marks[[21, 22]]).mean(0, keepdims=True) / 2 + (0.0, 2.5, 0.0), 2.6)
    wrinkles = 0.9 * forehead * np.sin(points[..., 1] * 9.0 + 0.8 * noise(20.0))
    height_field = 0.12 * np.minimum(noise(1.6), 0.5) * front + rng.uniform(0.3, 1.2) * wrinkles
    slopes = np.stack([-np.gradient(height_field, axis=1), np.gradient(height_field, axis=0)], axis=-1)
    normal = scan[1].copy()
    normal[..., :2] += np.clip(slopes, -0.6, 0.6)
    normal /= np.linalg.norm(normal, axis=-1, keepdims=True)
    shine = np.maximum.reduce([near(marks[27:36], 0.8), 0.8 * forehead, near(marks[48:], 0.5)])
    rough = np.clip(0.62 - 0.3 * shine + 0.04 * noise(6.0), 0.2, 0.9)
    return Textures(albedo.clip(0.01, 0.95), normal, rough)


def light_map(name: str, turn: float = KEY) -> np.ndarray:
    """(SKY / 2, SKY, 3): a map of ``hdri`` as the fill, with a key light and a rim light behind the other side.

    turn: of the key from the front, to the right, in degrees.
    """
    sky = resize(load_environment(data_file("hdri", f"{name}.hdr")).astype(np.float64), (SKY, SKY // 2))
    latitude = np.pi * (0.5 - (np.arange(SKY // 2) + 0.5) / (SKY // 2))[:, None]
    angle = 2 * np.pi * (np.arange(SKY) + 0.5) / SKY - np.pi  # from -Z to +X
    across = np.cos(latitude)
    ways = np.stack(
        np.broadcast_arrays(across * np.sin(angle), np.sin(latitude), -across * np.cos(angle)), -1
    )
    texel = 2 * np.pi**2 / SKY / (SKY // 2) * across

    def lamp(turned: float, raised: float, power: float) -> np.ndarray:
        turned, raised = np.radians(turned), np.radians(raised)
        to = np.array([np.cos(raised) * np.sin(turned), np.sin(raised), np.cos(raised) * np.cos(turned)])
        shape = np.exp(30 * (ways @ to - 1))
        return shape * power / (shape * texel).sum()

    # As means over all directions, in units of the white that the key makes.
    fill = sky / ((sky.mean(-1) * texel).sum() / (4 * np.pi)) * FILL
    lamps = lamp(turn, 30.0, np.pi)[..., None] * (1.0, 0.94, 0.86) + lamp(turn + 190, 20.0, RIM * np.pi)[
        ..., None
    ] * (0.85, 0.93, 1.0)
    return (fill + lamps) * EXPOSURE


def subject(model: FaceModel, seed: int) -> Face:
    """A random face with closed eyes and mouth."""
    face, names = random_face(model, seed), model.expression_names
    weights = face.expression.copy()
    for k, name in enumerate(names):
        weights[k] = 1.0 if name in SHUT else 0.0 if name.startswith(OPEN) else 0.6 * weights[k]
    return replace(face, expression=weights)


def record(
    face: Face, textures: Textures, size: tuple[int, int], seed: int, renderer: str, spp: int
) -> Recording:
    """Raises InputError without Mitsuba."""
    light, other = light_map(LIGHTS[seed % len(LIGHTS)]), light_map(OTHER, -KEY)
    draw = by_mitsuba if renderer == "mitsuba" else by_dressi
    mesh = face.mesh()
    mesh = replace(mesh, positions=face.world())
    views = [camera_at(turn, size) for turn in TURNS]
    drawn = [draw(mesh, textures, camera, light, spp) for camera in views]
    apart = camera_at(UNSEEN, size)
    unseen, relit = (draw(mesh, textures, apart, map, 2 * spp) for map in (light, other))
    rng = np.random.default_rng([seed, 3])
    pictures = np.stack([photographed(colour, rng) for colour, _, _ in drawn])
    measured = np.stack([sensed(depth, face.model.millimetres, rng) for _, _, depth in drawn])
    masks = np.stack([mask for _, mask, _ in drawn]).clip(0, 1)
    world, marks = face.world()[face.model.landmarks], []
    for camera, (_, _, depth) in zip(views, drawn, strict=True):
        places, along = camera.project(world)
        row = np.clip(places[:, 1].astype(int), 0, size[1] - 1)
        column = np.clip(places[:, 0].astype(int), 0, size[0] - 1)
        hidden = (depth[row, column] > 0) & (along > depth[row, column] + 1.5)
        places = places + size[1] / 256 * rng.normal(size=places.shape)
        marks.append(np.where(hidden[:, None], np.nan, places))
    data = FaceData(Cameras(views), pictures, np.stack(marks), measured, masks)
    return Recording(data, unseen[0], relit[0], unseen[1] > 0.99, light, other)


def photographed(colour: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Linear light as the sensor gives it."""
    electrons = rng.poisson(np.maximum(colour, 0) * ELECTRONS) + READ * rng.normal(size=colour.shape)
    codes = np.round(linear_to_srgb(np.clip(electrons / ELECTRONS, 0, 1)) * 255)
    return srgb_to_linear(codes / 255)


def sensed(depth: np.ndarray, millimetres: float, rng: np.random.Generator) -> np.ndarray:
    """Depths, 0 where there is none: where neighbours are three centimetres apart, and at a few random pixels."""
    metres = depth * millimetres / 1000
    noisy = metres + DEPTH_NOISE / 1000 * metres**2 * rng.normal(size=depth.shape)
    step = np.maximum(DEPTH_STEP / 1000 * metres**2, 1e-6)
    found = np.round(noisy / step) * step * 1000 / millimetres
    edge = maximum_filter(depth, 3) - minimum_filter(depth, 3) > 30 / millimetres
    return np.where((depth > 0) & ~edge & (rng.random(depth.shape) > 0.002), found, 0.0)


Drawn = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Colours (H, W, 3), coverage and depths along the axis (H, W), 0 where nothing is."""


def by_dressi(mesh: Mesh, textures: Textures, camera: Camera, light: np.ndarray, spp: int) -> Drawn:
    outputs = ("colour", "mask", "depth")
    picture = render(
        cameras=camera, **textures.on(mesh), light=Environment(light), samples=2, outputs=outputs
    )
    return np.asarray(picture.colour), np.asarray(picture.mask), np.asarray(picture.depth)


def by_mitsuba(mesh: Mesh, textures: Textures, camera: Camera, light: np.ndarray, spp: int) -> Drawn:
    """Raises InputError without Mitsuba."""
    try:
        import mitsuba as mi
    except ImportError:
        raise InputError(
            "no recording is kept and Mitsuba is missing: pip install 'dressi[peers]', or --renderer dressi,"
            " whose pictures are those of the renderer that fits"
        ) from None
    mi.set_variant("scalar_rgb")

    def texture(values: np.ndarray, keep: bool = True) -> dict[str, Any]:
        return {"type": "bitmap", "bitmap": mi.Bitmap(np.ascontiguousarray(values, np.float32)), "raw": keep}

    skin = {"type": "principled", "base_color": texture(textures.albedo), "specular": 0.5,
            "roughness": texture(textures.roughness[..., None])}  # fmt: skip
    bsdf = {"type": "normalmap", "normalmap": texture(textures.normal * 0.5 + 0.5), "bsdf": skin}
    width, height = camera.size
    inverse = np.linalg.inv(camera.view)
    # Mitsuba's cameras look along +Z and its maps have +Z in the middle.
    eye = inverse[:3, 3]
    ahead = np.array([0.0, -1.0, 0.0]) - eye
    to_world = mi.ScalarTransform4f().look_at(origin=list(eye), target=list(eye + ahead), up=[0, 1, 0])
    turned = mi.ScalarTransform4f(np.diag([-1.0, 1.0, -1.0, 1.0]))
    scene = mi.load_dict({
        "type": "scene",
        "integrator": {"type": "aov", "aovs": "far:depth", "path": {"type": "path", "max_depth": DEPTH, "hide_emitters": True}},
        "sensor": {"type": "perspective", "fov_axis": "y", "fov": FIELD, "to_world": to_world, "near_clip": 1e-3, "far_clip": 1e4,
            "film": {"type": "hdrfilm", "width": width, "height": height, "rfilter": {"type": "box"}, "pixel_format": "rgba"},
            "sampler": {"type": "multijitter", "sample_count": spp}},
        "sky": {"type": "envmap", "bitmap": mi.Bitmap(np.ascontiguousarray(light, np.float32)), "to_world": turned},
        "head": _mitsuba_mesh(mesh, bsdf, mi),
    })  # fmt: skip
    image = np.asarray(mi.render(scene, spp=spp), np.float64)
    mask, far = image[..., 3], image[..., 4]
    x, y = (np.arange(width) + 0.5 - width / 2) / height, (np.arange(height) + 0.5 - height / 2) / height
    slope = 2 * np.tan(np.radians(FIELD) / 2)
    along = far / np.sqrt(1 + np.square(slope * x)[None] + np.square(slope * y)[:, None])
    return image[..., :3], mask, np.where(mask > 0.99, along / np.maximum(mask, 1e-6), 0.0)


def _mitsuba_mesh(mesh: Mesh, bsdf: dict[str, Any], mi: Any) -> Any:
    """With a vertex for each pair of position and UV."""
    from head import normals_of

    assert mesh.uvs is not None and mesh.uv_faces is not None
    pairs = np.stack([mesh.faces.ravel(), mesh.uv_faces.ravel()], axis=1)
    used, faces = np.unique(pairs, axis=0, return_inverse=True)
    normals = normals_of(mesh.positions, mesh.faces)
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
    properties = mi.Properties()
    properties["bsdf"] = mi.load_dict(bsdf)
    count = len(used)
    shape = mi.Mesh(
        "head", count, len(mesh.faces), has_vertex_normals=True, has_vertex_texcoords=True, props=properties
    )
    values = mi.traverse(shape)
    values["vertex_positions"] = mesh.positions[used[:, 0]].astype(np.float32).ravel()
    values["vertex_normals"] = normals[used[:, 0]].astype(np.float32).ravel()
    values["vertex_texcoords"] = mesh.uvs[used[:, 1]].astype(np.float32).ravel()
    values["faces"] = faces.astype(np.uint32).ravel()
    values.update()
    return shape
