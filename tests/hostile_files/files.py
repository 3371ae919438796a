"""Whole files of every kind that dressi reads."""

import base64
import io
import json
import struct
import tempfile
from pathlib import Path

import numpy as np
from material_cases import full_material
from PIL import Image

from dressi import networks
from dressi.render import Mesh, primitives, save_mesh
from dressi.render.cameras import views
from dressi.render.faces.files import save_face_model
from dressi.render.faces.model import FaceModel
from dressi.render.fit.disk.checkpoint import Checkpoint
from dressi.render.io import save_png
from dressi.render.io.calibration import encode_cameras
from dressi.render.io.lens import Lens
from dressi.render.io.pixels import encode_exr


def ball() -> Mesh:
    """A small mesh with everything that files keep."""
    mesh = primitives.octasphere(1)
    mesh.texture = np.random.default_rng(0).random((4, 4, 3))
    mesh.colors, mesh.color_faces = np.random.default_rng(1).random((len(mesh.positions), 3)), mesh.faces
    mesh.normals, mesh.normal_faces = mesh.vertex_normals(), mesh.faces
    mesh.material = full_material()
    return mesh


def whole_files(folder: Path) -> dict[str, bytes]:
    """Files that load, by their names; those that others need lie in the folder."""
    folder.mkdir(exist_ok=True)
    for ending in ("glb", "obj", "ply", "stl"):
        save_mesh(folder / f"a.{ending}", ball())
    found = {
        name: (folder / name).read_bytes() for name in ("a.glb", "a.obj", "a.mtl", "a.ply", "a.stl", "a.png")
    }
    found["t.ply"] = text_ply(ball()).encode()
    found["t.stl"] = text_stl(primitives.tetrahedron()).encode()
    found["t.off"] = (
        b"COFF\n4 2 0\n0 0 0 255 0 0\n1 0 0 0 255 0\n1 1 0 0 0 255\n0 1 1 9 9 9\n3 0 1 2\n3 0 2 3\n"
    )
    found["t.gltf"] = text_gltf().encode()
    picture = np.random.default_rng(2).integers(0, 255, (12, 16, 3)).astype(np.uint8)
    for kind, ending in (
        ("PNG", "png"),
        ("JPEG", "jpg"),
        ("TIFF", "tif"),
        ("BMP", "bmp"),
        ("GIF", "gif"),
        ("WEBP", "webp"),
    ):
        stream = io.BytesIO()
        Image.fromarray(picture).save(stream, kind)
        found[f"i.{ending}"] = stream.getvalue()
    found["deep.png"] = deep_png()
    found["i.hdr"] = radiance(16, 12)
    found["i.exr"] = encode_exr(picture / 255.0, half=True)
    found |= several_materials() | {"r.gltf": text_rig().encode(), "p.obj": POLYGONS}
    for name, model in (("face.npz", whole_face()), ("net.safetensors", _network())):
        found[name] = model
    for name, data in found.items():
        (folder / name).write_bytes(data)
    return found


POLYGONS = b"""v 0 0 0
v 2 1 0
v 0 2 0
v 1 1 0
v 4 0 1
v 4 4 1
v 0 4 1
f 1 2 3 4
f 4 3 2 1 5 6 7
f 1 1 2 2 3
l 1 2
"""


def several_materials() -> dict[str, bytes]:
    """An OBJ with two textured materials and one of a colour, and a PLY with two textures."""
    random = np.random.default_rng(5)
    found = {}
    for name in ("m0.png", "m1.png"):
        stream = io.BytesIO()
        Image.fromarray(random.integers(0, 255, (3, 5, 3)).astype(np.uint8)).save(stream, "PNG")
        found[name] = stream.getvalue()
    found["m.mtl"] = (
        b"newmtl a\nKd 1 1 1\nmap_Kd m0.png\nPr 0.5\nnewmtl b\nmap_Kd -s 1 1 1 m1.png\nPm 1\nd 0.5\nnewmtl c\nKd 0 1 0.5\nKe 1 0 0\n"
    )
    found["m.obj"] = (
        b"mtllib m.mtl\nv 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv 0 0 1\nvt 0 0\nvt 2 0\nvt 2 3\nusemtl a\nf 1/1 2/2 3/3 4/1\nusemtl b\n"
        b"f 1/1 2/2 5/3\nusemtl c\nf 2 3 5\nf 3 4 5\n"
    )
    found["m.ply"] = (
        b"ply\nformat ascii 1.0\ncomment TextureFile m0.png\ncomment TextureFile m1.png\nelement vertex 4\nproperty float x\n"
        b"property float y\nproperty float z\nelement face 2\nproperty list uchar int vertex_indices\n"
        b"property list uchar float texcoord\nproperty int texnumber\nend_header\n0 0 0\n1 0 0\n1 1 0\n0 1 0\n"
        b"3 0 1 2 6 0 0 1 0 1 1 1\n3 0 2 3 6 0 0 1 1 0 1 0\n"
    )
    return found


def text_rig() -> str:
    """Two triangles with two morph targets and a skin of two joints."""
    random = np.random.default_rng(6)
    arrays = [random.random((6, 3)).astype("<f4") for _ in range(4)]
    arrays += [
        np.zeros((6, 4), "<u2"),
        np.tile(np.array([1, 0, 0, 0], "<f4"), (6, 1)),
        np.tile(np.eye(4, dtype="<f4").reshape(1, 16), (2, 1)),
    ]
    data = b"".join(a.tobytes() for a in arrays)
    starts = np.cumsum([0, *(a.nbytes for a in arrays)])
    kinds = {3: "VEC3", 4: "VEC4", 16: "MAT4"}
    document = {
        "asset": {"version": "2.0"},
        "scenes": [{"nodes": [0, 1]}],
        "nodes": [{"mesh": 0, "skin": 0}, {"name": "hip", "translation": [0, 1, 0], "children": [2]}, {"name": "head"}],
        "skins": [{"joints": [1, 2], "inverseBindMatrices": 6}],
        "meshes": [
            {
                "weights": [0.5, 0],
                "primitives": [
                    {
                        "attributes": {"POSITION": 0, "NORMAL": 1, "JOINTS_0": 4, "WEIGHTS_0": 5},
                        "targets": [{"POSITION": 2, "NORMAL": 3}, {"POSITION": 3}],
                    }
                ],
            }
        ],
        "buffers": [{"byteLength": len(data), "uri": "data:;base64," + base64.b64encode(data).decode()}],
        "bufferViews": [{"buffer": 0, "byteOffset": int(at), "byteLength": a.nbytes} for at, a in zip(starts, arrays, strict=False)],
        "accessors": [
            {"bufferView": k, "componentType": 5123 if a.dtype.kind == "u" else 5126, "count": len(a), "type": kinds[a.shape[1]]}
            for k, a in enumerate(arrays)
        ],
    }  # fmt: skip
    return json.dumps(document)


def whole_face() -> bytes:
    """A face model with everything that files hold."""
    mesh = primitives.octasphere(1)
    count = len(mesh.positions)
    modes = np.stack([mesh.positions, mesh.positions[:, ::-1]])
    model = FaceModel(
        mesh, modes, modes, ("smile", "blink"), landmarks=np.arange(68) % count, regions={"face": np.arange(count) < 9},
        albedo=np.full((count, 3), 0.5), albedo_modes=modes * 0.1,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as place:
        save_face_model(Path(place) / "face.npz", model)
        return (Path(place) / "face.npz").read_bytes()


def _network() -> bytes:
    """Weights that are features of a network."""
    random = np.random.default_rng(7)
    tree = {
        "features": {
            "0": networks.convolution_init(random, 3, 4),
            "2": networks.convolution_init(random, 4, 4),
        }
    }
    with tempfile.TemporaryDirectory() as place:
        networks.save_safetensors(Path(place) / "net.safetensors", tree)
        return (Path(place) / "net.safetensors").read_bytes()


def text_ply(mesh: Mesh) -> str:
    head = ["ply", "format ascii 1.0", "comment TextureFile a.png", f"element vertex {len(mesh.positions)}"]
    head += [f"property float {name}" for name in ("x", "y", "z", "s", "t")]
    head += [f"property uchar {name}" for name in ("red", "green", "blue")]
    head += [f"element face {len(mesh.faces)}", "property list uchar int vertex_indices", "end_header"]
    rows = [f"{x:.6f} {y:.6f} {z:.6f} 0.5 0.5 10 20 30" for x, y, z in mesh.positions]
    return "\n".join(head + rows + [f"3 {a} {b} {c}" for a, b, c in mesh.faces]) + "\n"


def text_stl(mesh: Mesh) -> str:
    out = ["solid a"]
    for corners in mesh.positions[mesh.faces]:
        out += ["facet normal 0 0 1", "outer loop", *(f"vertex {x} {y} {z}" for x, y, z in corners)]
        out += ["endloop", "endfacet"]
    return "\n".join([*out, "endsolid a", ""])


def text_gltf() -> str:
    """Two nodes, normalised colours, a sparse accessor, strides and a texture."""
    points = np.concatenate([np.eye(3), np.zeros((3, 1))], axis=1).astype("<f4").tobytes()
    data = points + np.array([0, 1, 2, 0], "<u2").tobytes() + np.full((3, 4), 200, np.uint8).tobytes()
    data += np.zeros((3, 2), "<f4").tobytes() + struct.pack("<Hxx3f", 1, 0, 2, 0)
    png = io.BytesIO()
    Image.new("RGB", (2, 2), (9, 99, 199)).save(png, "PNG")
    uri = "data:image/png;base64," + base64.b64encode(png.getvalue()).decode()
    views_ = [(0, 48), (48, 6), (56, 12), (68, 24), (92, 4), (96, 12)]
    document = {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": [0, 1]}],
        "nodes": [{"mesh": 0, "scale": [1, 2, 3]}, {"children": [2], "rotation": [0, 0, 0, 1]}, {"mesh": 0, "translation": [1, 2, 3]}],
        "meshes": [
            {"primitives": [{"attributes": {"POSITION": 0, "COLOR_0": 2, "TEXCOORD_0": 3}, "indices": 1, "material": 0, "mode": 4}]}
        ],
        "materials": [{"pbrMetallicRoughness": {"baseColorFactor": [1, 0.5, 1, 1], "baseColorTexture": {"index": 0}}}],
        "textures": [{"source": 0}],
        "images": [{"uri": uri}],
        "buffers": [{"byteLength": len(data), "uri": "data:;base64," + base64.b64encode(data).decode()}],
        "bufferViews": [{"buffer": 0, "byteOffset": start, "byteLength": size} for start, size in views_],
        "accessors": [
            {
                "bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3",
                "sparse": {"count": 1, "indices": {"bufferView": 4, "componentType": 5123}, "values": {"bufferView": 5}},
            },
            {"bufferView": 1, "componentType": 5123, "count": 3, "type": "SCALAR"},
            {"bufferView": 2, "componentType": 5121, "count": 3, "type": "VEC4", "normalized": True},
            {"bufferView": 3, "componentType": 5126, "count": 3, "type": "VEC2"},
        ],
    }  # fmt: skip
    document["bufferViews"][0]["byteStride"] = 16
    return json.dumps(document)


def radiance(width: int, height: int) -> bytes:
    """A Radiance picture without run lengths."""
    pixels = np.random.default_rng(3).integers(1, 255, (height, width, 4)).astype(np.uint8)
    pixels[..., 3] = 128
    return f"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y {height} +X {width}\n".encode() + pixels.tobytes()


def chunk(kind: bytes, content: bytes) -> bytes:
    import zlib

    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width: int, height: int, depth: int, color: int, rows: bytes) -> bytes:
    """A PNG of raw filtered rows."""
    import zlib

    head = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows, 9))
        + chunk(b"IEND", b"")
    )


def deep_png(values: np.ndarray | None = None) -> bytes:
    """A 16-bit colour PNG of values (H, W, 3) uint16."""
    if values is None:
        values = np.random.default_rng(4).integers(0, 65536, (12, 16, 3)).astype(np.uint16)
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    return png(values.shape[1], values.shape[0], 16, 2, rows)


def whole_folders(folder: Path) -> list[Path]:
    """Data sets of photographs that load: cameras.json, transforms.json, and COLMAP as text and binary."""
    mesh = primitives.bumpy_ellipsoid(1)
    cameras = views.ring(*mesh.bounding_sphere(), 2, (16, 12))
    names = [f"{k}.png" for k in range(2)]
    mask = np.zeros((12, 16))
    mask[3:9, 4:12] = 1
    k = cameras[0].intrinsics
    quaternion = "1 0 0 0 0 0 4"
    colmap_text = {
        "sparse/cameras.txt": f"1 PINHOLE 16 12 {k[0, 0]} {k[1, 1]} 8 6\n",
        "sparse/images.txt": "".join(f"{n + 1} {quaternion} 1 {name}\n\n" for n, name in enumerate(names)),
        "sparse/points3D.txt": "1 0 0 0 9 9 9 0.1\n",
    }
    pose = [1.0, 0, 0, 0, 0, 0, 4]
    colmap_binary = {
        "sparse/cameras.bin": struct.pack("<QIiQQ4d", 1, 1, 1, 16, 12, k[0, 0], k[1, 1], 8, 6),
        "sparse/images.bin": struct.pack("<Q", 2)
        + b"".join(struct.pack("<I7dI", n + 1, *pose, 1) + name.encode() + b"\0" + struct.pack("<Q", 0) for n, name in enumerate(names)),
        "sparse/points3D.bin": struct.pack("<QQ3d3BdQ", 1, 1, 0, 0, 0, 9, 9, 9, 0.1, 0),
    }  # fmt: skip
    bounds = np.array([[-1.0, -1, -1], [1, 1, 1]])
    plain = encode_cameras([(name, cameras[n], Lens()) for n, name in enumerate(names)], bounds)
    frames = [
        {"file_path": name, "transform_matrix": (np.linalg.inv(c.view) @ np.diag([1, -1, -1, 1])).tolist()}
        for name, c in zip(names, cameras, strict=True)
    ]
    transforms = {"camera_angle_x": 0.8, "frames": frames, "bbox": bounds.tolist()}
    kinds: list[dict] = [
        {"cameras.json": plain},
        {"transforms.json": json.dumps(transforms).encode()},
        {name: text.encode() for name, text in colmap_text.items()},
        colmap_binary,
    ]
    found = []
    for number, files in enumerate(kinds):
        place = folder / f"set{number}"
        for sub in ("", "mask", "sparse"):
            (place / sub).mkdir(parents=True, exist_ok=True)
        for name in names:
            save_png(place / name, np.full((12, 16, 3), 0.5))
            save_png(place / "mask" / name, mask)
        for name, content in files.items():
            (place / name).write_bytes(content)
        found.append(place)
    return found


def whole_fit(folder: Path) -> Path:
    """A folder as `dressi fit` writes it."""
    from folders import write_fit

    return write_fit(folder / "fit")


def whole_bench(folder: Path) -> Path:
    """A folder as `dressi bench --json` writes it."""
    result = {
        "case": "table4", "label": "", "device": "a", "driver": "d 1", "step_ms": 2.0, "plan": {"stages": 3}, "commit": "abc",
        "machine": {"system": "Linux", "cores": 2}, "stages": [{"name": "raster 8x8", "ms": 1.0, "bytes": 10}],
        "settings": {"views": 1, "form": "outer", "mesh": "small", "faces": 684, "size": [256, 256]},
        "quality": {"steps": 2, "iou": 0.9, "last_loss": 0.5}, "losses": [1.0, 0.5], "peers": {"deodr": {"step_ms": 3.0}},
    }  # fmt: skip
    (folder / "bench").mkdir(exist_ok=True)
    (folder / "bench" / "results.json").write_text(json.dumps([result, {**result, "device": "b"}]))
    return folder / "bench"


def whole_lists(folder: Path) -> Path:
    """A list of `dressi fit --many`, and the checkpoint of a fit."""
    place = folder / "lists"
    place.mkdir(exist_ok=True)
    (place / "many.csv").write_text(
        "target,name,size,views,form\n../a.obj,one,64,3,\n../t.off,two,32,,outer\n"
    )
    state = {"positions.mean": np.zeros((1, 1, 6, 3), np.float32), "count": np.ones((1, 1, 1), np.int32)}
    views, quality = np.stack([np.eye(4)] * 2), [(1, 0.5, float("nan"))]
    Checkpoint("key", 1, 2, state, ball(), [(0, 1.0), (1, 0.5)], 3.0, views, quality).save(place)
    return place


def whole(folder: Path) -> list[tuple[Path, bytes]]:
    """Files of every kind, which load: meshes, images, photographs with their calibrations, results of fits and of
    benchmarks, lists of fits, checkpoints."""
    files = [(folder / name, data) for name, data in whole_files(folder).items()]
    for place in (*whole_folders(folder), whole_fit(folder), whole_bench(folder), whole_lists(folder)):
        paths = [path for path in sorted(place.rglob("*")) if path.is_file()]
        # One set is enough for pictures and masks.
        files += [
            (path, path.read_bytes())
            for path in paths
            if path.suffix != ".png" or place.name in ("set0", "fit")
        ]
    return files
