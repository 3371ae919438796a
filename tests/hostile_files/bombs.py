"""Crafted files: small ones that ask for much, and pictures of every kind."""

import base64
import io
import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from dressi.render.io.pixels import encode_exr
from hostile_files.files import chunk, deep_png, png, radiance, text_gltf, text_rig, whole_folders

Random = np.random.Generator


def _sides(random: Random, most: int) -> tuple[int, int]:
    """From a few texels to far too many."""
    width, height = (min(int(10**x), most) for x in random.uniform(1, 5.5, 2))
    return width, height


def bmp(folder: Path, random: Random) -> bytes:
    """Runs, or rows, of a size that is not there; heights of both signs."""
    width, height = _sides(random, 2**31 - 1)
    runs = int(random.integers(2))
    rows = ((b"\xff\0" * -(-width // 255) + b"\0\0") * min(height, 999))[:2_000_000] if runs else bytes(3000)
    colours, bits = bytes(1024 * runs), 8 if runs else int(random.choice([1, 4, 16, 24, 32]))
    size = struct.pack("<Iii", 40, width, height * int(random.choice([-1, 1])))
    head = size + struct.pack("<HHIIiiII", 1, bits, runs, len(rows), 0, 0, 0, 0) + colours
    return struct.pack("<2sIHHI", b"BM", 14 + len(head) + len(rows), 0, 0, 14 + len(head)) + head + rows


def gif(folder: Path, random: Random) -> bytes:
    """Thousands of frames, each of a size of its own."""
    screen = struct.pack("<6sHHBBB", b"GIF89a", *_sides(random, 65535), 0x80, 0, 0) + bytes(6)
    frame = struct.pack("<sHHHHB", b",", 0, 0, *_sides(random, 65535), 0) + b"\2\2\x44\1\0"
    return screen + frame * int(10 ** random.uniform(0, 4.5)) + b";"


def webp(folder: Path, random: Random) -> bytes:
    """A lossless picture of up to 16384 x 16384, or a canvas of up to 2^24 on each side around a small one."""
    stream = io.BytesIO()
    Image.new("RGB", (16, 12), (9, 8, 7)).save(stream, "WEBP", lossless=True)
    whole = bytearray(stream.getvalue())
    if random.random() < 0.5:
        width, height = _sides(random, 16384)
        struct.pack_into("<I", whole, 21, (width - 1) | (height - 1) << 14)
        return bytes(whole)
    width, height = (side - 1 for side in _sides(random, 2**24))
    canvas = b"VP8X" + struct.pack("<II", 10, 0) + width.to_bytes(3, "little") + height.to_bytes(3, "little")
    inside = b"WEBP" + canvas + bytes(whole[12:])
    return b"RIFF" + struct.pack("<I", len(inside)) + inside


def tiff(folder: Path, random: Random) -> bytes:
    """Strips that unpack to hundreds of megabytes, or to nothing; pages that follow each other in a circle."""
    width, height = _sides(random, 2**31 - 1)
    packed = zlib.compress(bytes(int(10 ** random.uniform(3, 8.3))), 9)
    compression = int(random.choice([1, 5, 8, 32773]))
    strip = packed if compression == 8 else b"\x81\0" * 1000
    depth, channels = int(random.choice([1, 8, 16, 32])), int(random.choice([1, 3, 4, 300]))
    rows = int(random.choice([1, min(height, 65535), 2**31 - 1]))
    fields = [(256, width), (257, height), (258, depth), (259, compression), (262, 2 if channels > 1 else 1)]
    fields += [(273, 8), (277, channels), (278, rows), (279, len(strip))]
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in fields)
    at = 8 + len(strip)
    page = struct.pack("<H", len(fields)) + entries
    return b"II*\0" + struct.pack("<I", at) + strip + page + struct.pack("<I", int(random.choice([0, at])))


def bomb(folder: Path, random: Random) -> tuple[Path, bytes]:
    """A path below the folder and what is written to it."""
    name, make = _BOMBS[int(random.integers(len(_BOMBS)))]
    return folder / name, make(folder, random)


def _count(random: Random) -> int:
    """From a little to far too much."""
    return int(10 ** random.uniform(3, 11))


def _shared(folder: Path, random: Random) -> bytes:
    """Primitives, or nodes, that share an accessor which is long, with or without data."""
    document = json.loads(text_gltf())
    count = int(10 ** random.uniform(3, 7.5))
    accessor = document["accessors"][0]
    accessor["count"] = count
    if random.random() < 0.5:
        del accessor["bufferView"]
    else:
        rows = min(count, 200_000)
        data = np.random.default_rng(0).random((rows, 3)).astype("<f4").tobytes()
        document["buffers"].append(
            {"byteLength": len(data), "uri": "data:;base64," + base64.b64encode(data).decode()}
        )
        document["bufferViews"].append({"buffer": 1, "byteLength": len(data)})
        accessor.update(bufferView=len(document["bufferViews"]) - 1, count=rows)
    if random.random() < 0.7:
        accessor.pop("sparse")
    primitive = {"attributes": {"POSITION": 0}, "mode": int(random.choice([4, 5, 6]))}
    document["meshes"] = [{"primitives": [primitive] * int(10 ** random.uniform(0, 3.5))}]
    document["nodes"] = [{"mesh": 0}] * int(10 ** random.uniform(0, 3))
    document["scenes"] = [{"nodes": list(range(len(document["nodes"])))}]
    return json.dumps(document).encode()


def _nested(folder: Path, random: Random) -> bytes:
    depth = int(10 ** random.uniform(2, 6))
    left, right = (("[", "]"), ('{"a":', "}"))[int(random.integers(2))]
    return ('{"asset": {"version": "2.0"}, "nodes": ' + left * depth + "0" + right * depth + "}").encode()


def _ply(folder: Path, random: Random) -> bytes:
    vertices, faces = _count(random), _count(random)
    kind = ("ascii", "binary_little_endian", "binary_big_endian")[int(random.integers(3))]
    head = f"ply\nformat {kind} 1.0\nelement vertex {vertices}\n" + "".join(
        f"property float {c}\n" for c in "xyz"
    )
    head += f"element face {faces}\nproperty list {random.choice(['uchar', 'uint', 'double'])} int vertex_indices\nend_header\n"
    return head.encode() + random.bytes(int(10 ** random.uniform(1, 6)))


def _off(folder: Path, random: Random) -> bytes:
    return f"OFF\n{_count(random)} {_count(random)} 0\n".encode() + b"0 0 0\n" * int(
        10 ** random.uniform(1, 5)
    )


def _stl(folder: Path, random: Random) -> bytes:
    return (
        b"x" * 80 + struct.pack("<I", _count(random) % 2**32) + random.bytes(int(10 ** random.uniform(1, 6)))
    )


def _obj(folder: Path, random: Random) -> bytes:
    corners = int(10 ** random.uniform(2, 5.5))
    faces = int(10 ** random.uniform(0, 1))
    return b"v 0 0 0\nv 1 0 0\nv 0 1 0\n" + (b"f" + b" 1 2 3" * corners + b"\n") * faces


def _deflated(folder: Path, random: Random) -> bytes:
    """A small PNG whose rows unpack to far more than it has pixels."""
    more = int(10 ** random.uniform(4, 9))
    squeeze = zlib.compressobj(9)
    body = b"".join(squeeze.compress(bytes(min(1 << 22, more - at))) for at in range(0, more, 1 << 22))
    depth, colour = ((8, 2), (16, 2), (8, 6), (1, 0), (16, 0))[int(random.integers(5))]
    head = struct.pack(">IIBBBBB", 4, 4, depth, colour, 0, 0, int(random.integers(2)))
    chunks = [chunk(b"IHDR", head), chunk(b"IDAT", body + squeeze.flush())]
    return b"\x89PNG\r\n\x1a\n" + b"".join([*chunks, chunk(b"IEND", b"")])


def _text_chunk(folder: Path, random: Random) -> bytes:
    """A PNG with packed text, or a colour profile, of hundreds of megabytes."""
    packed = zlib.compress(bytes(int(10 ** random.uniform(6, 8.5))), 9)
    kind = (b"zTXt", b"iCCP", b"iTXt")[int(random.integers(3))]
    body = b"a\0\1\0\0\0" + packed if kind == b"iTXt" else b"a\0\0" + packed
    whole = deep_png() if random.random() < 0.5 else png(4, 4, 8, 2, bytes(4 * 13))
    return whole[:33] + chunk(kind, body) * int(10 ** random.uniform(0, 1)) + whole[33:]


def _large_png(folder: Path, random: Random) -> bytes:
    """Rows that are there, of a picture around the limit of megapixels, or of a size that is not."""
    side = int(10 ** random.uniform(3, 4.2))
    rows = bytes((1 + side * 3) * (side if random.random() < 0.5 else 3))
    return png(side, side, 8, 2, rows)


def _hdr(folder: Path, random: Random) -> bytes:
    """A head that two readers understand in two ways."""
    lie, true = f"-Y {_count(random)} +X {_count(random)}\n", "-Y 12 +X 16\n"
    first, second = (lie, true) if random.random() < 0.5 else (true, lie)
    gap = ("\n", " \n", "\t\n", "\n \n", "\r\n", "x" * 130 + "\n", " " * 127 + "\n")[int(random.integers(7))]
    head = f"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n{gap}{first}\n{second}"
    return head.encode() + radiance(16, 12)[-768:] * int(10 ** random.uniform(0, 3))


def _runs(folder: Path, random: Random) -> bytes:
    """Runs of a Radiance picture that say more texels than they have bytes."""
    width, height = int(10 ** random.uniform(1, 4.5)), int(10 ** random.uniform(1, 4.5))
    row = b"\2\2" + struct.pack(">H", width % 2**15) + (b"\xff\0" * -(-width // 127)) * 4
    head = f"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y {height} +X {width}\n".encode()
    return head + row * min(height, 2_000_000 // len(row))


def _exr(folder: Path, random: Random) -> bytes:
    """A window that is far larger than its pixels, or blocks that are noise."""
    whole = bytearray(encode_exr(np.random.default_rng(0).random((64, 64, 3)), half=True))
    if random.random() < 0.5:
        at = bytes(whole).index(b"dataWindow\0box2i\0") + 17 + 4
        struct.pack_into("<4i", whole, at, 0, 0, *(int(n) for n in 10 ** random.uniform(1, 6, 2)))
    for _ in range(int(random.integers(1, 40))):
        whole[int(random.integers(350, len(whole)))] ^= 1 << int(random.integers(8))
    return bytes(whole)


def _jpeg(folder: Path, random: Random) -> bytes:
    """A progressive picture with thousands of scans."""
    from io import BytesIO

    from PIL import Image

    stream = BytesIO()
    side = int(10 ** random.uniform(1, 3.5))
    Image.new("RGB", (side, side)).save(stream, "JPEG", progressive=True)
    data = stream.getvalue()
    at = data.rindex(b"\xff\xda")
    return data[:at] + data[at:-2] * int(10 ** random.uniform(1, 4)) + data[-2:]


def _cameras(folder: Path, random: Random) -> bytes:
    """A hundred thousand views of two photographs."""
    document = json.loads((whole_folders(folder)[0] / "cameras.json").read_text())
    views = document["views"]
    many = [dict(views[k % 2]) for k in range(int(10 ** random.uniform(1, 5)))]
    if random.random() < 0.5:
        for k, view in enumerate(many):
            view["file"] = "./" * (k % 50) + str(view["file"]) if random.random() < 0.5 else f"{k}.png"
    return json.dumps(document | {"views": many}).encode()


def _colmap(folder: Path, random: Random) -> bytes:
    whole_folders(folder)
    return struct.pack("<Q", _count(random)) + random.bytes(int(10 ** random.uniform(1, 5)))


def _depth(folder: Path, random: Random) -> bytes:
    """A .npy whose head says more, or other things, than it holds."""
    place = whole_folders(folder)[0]
    (place / "depth").mkdir(exist_ok=True)
    for name in ("0.npy", "1.npy"):
        np.save(place / "depth" / name, np.full((12, 16), 4.0, np.float32))
    shape = ("(12, 16)", f"({_count(random)}, {_count(random)})", "(-1, 16)", "(12, 16, 1)", "(1e9,)", "12")
    kind = ("<f4", "|O", "<f8", "<c16", ">i4", "<M8[s]", "V9999999999")
    head = (
        f"{{'descr': '{random.choice(kind)}', 'fortran_order': False, 'shape': {random.choice(shape)}, }}\n"
    )
    if random.random() < 0.1:
        head = "(" * int(10 ** random.uniform(2, 4.5)) + head
    head = head.ljust(118)[:65535]
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() + random.bytes(768)


def _table(folder: Path, random: Random) -> bytes:
    """Losses that no chart has room for."""
    from .files import whole_fit

    whole_fit(folder)
    value = ("1e308", "-1e308", "nan", "inf", "1e-320", "9" * 400, "x", "")
    rows = int(10 ** random.uniform(0, 4))
    lines = [
        f"{random.choice(value) if random.random() < 0.2 else k},p,{random.choice(value)}"
        for k in range(rows)
    ]
    return ("step,phase,loss\n" + "\n".join(lines)).encode()


def _polygons(folder: Path, random: Random) -> bytes:
    """Polygons of few places and many corners: they repeat and cross themselves, or are one jagged line."""
    places = int(random.integers(1, 40))
    scale = 10.0 ** random.choice([0, 0, -30, 30, 300])
    points = random.integers(-3, 4, (places, 3)) * random.choice([1.0, 0.1, scale], (places, 3))
    jagged = random.random() < 0.3
    if jagged:
        places = int(10 ** random.uniform(2, 4.7))
        angle = np.linspace(0, 2 * np.pi, places)
        points = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1) * random.uniform(
            0.1, 1, (places, 1)
        )
    text = "".join("v {!r} {!r} {!r}\n".format(*row) for row in points.tolist())
    for _ in range(1 if jagged else int(10 ** random.uniform(0, 3))):
        corners = (
            range(1, places + 1)
            if jagged
            else random.integers(1, places + 1, int(10 ** random.uniform(0.5, 2.5)))
        )
        text += "f " + " ".join(map(str, corners)) + "\n"
    return text.encode()


def _huge_list(folder: Path, random: Random) -> bytes:
    """Lists of corners that are longer than the file, or of numbers that no vertex has."""
    head = "ply\nformat binary_little_endian 1.0\nelement vertex 3\n" + "".join(
        f"property float {c}\n" for c in "xyz"
    )
    count = str(random.choice(["uchar", "int", "uint", "short"]))
    head += f"element face {int(10 ** random.uniform(0, 4))}\nproperty list {count} int vertex_indices\nend_header\n"
    kind = {"uchar": "B", "int": "i", "uint": "I", "short": "h"}[count]
    length = int(random.choice([-1, 3, 4, 255, 1000, 32767, 2**31 - 1]))
    with np.errstate(over="ignore"):
        first = np.array([length]).astype(kind).tobytes()
    return (
        head.encode()
        + np.eye(3, dtype="<f4").tobytes()
        + first
        + random.integers(-1, 4, 2000).astype("<i4").tobytes()
    )


def _soup(folder: Path, random: Random) -> bytes:
    """Triangles without order: corners at few places, far ones, and numbers that are none."""
    count = int(10 ** random.uniform(0, 4))
    corners = random.uniform(-1, 1, (count, 3, 3)).astype("<f4") * np.float32(
        10.0 ** random.choice([0, 0, -20, 20, 38])
    )
    if random.random() < 0.3:
        corners = np.round(corners)
    if random.random() < 0.2:
        corners[int(random.integers(count))] = random.choice([np.nan, np.inf, -np.inf])
    rows = np.zeros(count, [("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
    rows["corners"], rows["attribute"] = corners, random.integers(0, 65536)
    return b"soup".ljust(80) + struct.pack("<I", count) + rows.tobytes()


def _many_materials(folder: Path, random: Random) -> bytes:
    """An OBJ with materials of long names, as many as it has faces, whose textures repeat more than an atlas holds."""
    count = int(10 ** random.uniform(0, 4.2))
    name = "n" * int(10 ** random.uniform(0, 5 - np.log10(count)))
    far = 10.0 ** random.uniform(0, random.choice([3, 30]))
    text = f"mtllib {random.choice(['m.mtl', 'n' * 9000, 'b.mtl'])}\nv 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\nvt {far} 0\nvt 0 {far}\n"
    names = ["a", "b", "c", "m0.png"]
    for k in range(count):
        one = str(random.choice(names)) if random.random() < 0.5 else f"{name}{k}"
        text += f"usemtl {one}\nf 1/1 2/2 3/3\n"
    return text.encode()


def _morphs(folder: Path, random: Random) -> bytes:
    """Morph targets and joints that are too many, or no numbers of anything."""
    document = json.loads(text_rig())
    primitive = document["meshes"][0]["primitives"][0]
    many = int(10 ** random.uniform(0, 4.5))
    if random.random() < 0.5:
        primitive["targets"] = [{"POSITION": int(random.integers(0, 8))}] * many
        document["meshes"][0]["weights"] = [float(random.choice([0, 1, 1e30]))] * int(
            random.choice([many, 2])
        )
    else:
        document["nodes"] += [
            {"name": "x" * int(10 ** random.uniform(0, 4)), "children": [k + 4]} for k in range(many)
        ]
        document["nodes"].append({})
        document["nodes"][2]["children"] = [3]
        document["skins"][0] = {"joints": [1, *range(3, 3 + many)]}
    return json.dumps(document).encode()


def _weights(folder: Path, random: Random) -> bytes:
    """A safetensors file whose header says anything."""
    shapes = (
        [0, 2**62],
        [2**62, 0],
        [1] * 40,
        [0] * 33,
        [2**31, 2**31],
        [-1],
        [3, 3, 3, 3],
        [],
        [0] * 5000,
        [10**400],
    )
    names = (
        "features.0.weight",
        "features.0.bias",
        "lin0.weight",
        "a.b",
        "a",
        "",
        "n" * 100_000,
        "features." + "9" * 5000 + ".weight",
        "..",
    )
    header, at = {}, 0
    for _ in range(int(random.integers(1, 9))):
        shape = shapes[int(random.integers(len(shapes)))]
        size = (
            int(np.prod([float(n) for n in shape])) * 4
            if len(shape) < 9 and max(shape, default=0) < 100
            else 0
        )
        kind = str(random.choice(["F32", "F32", "F32", "BF16", "F" * 5000, "U8"]))
        header[names[int(random.integers(len(names)))]] = {
            "dtype": kind,
            "shape": shape,
            "data_offsets": [at, at + max(size, 0)],
        }
        at += max(size, 0)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(at)


def _archive(folder: Path, random: Random) -> bytes:
    """A face model whose arrays are of other shapes and kinds, or unpack to far more than they take."""
    from .files import whole_face

    arrays = dict(np.load(io.BytesIO(whole_face())))
    name = str(random.choice([*arrays, "n" * 9000]))
    structured = np.zeros(3, [(f"f{k}" * 20, "<f4") for k in range(200)])
    values = (
        np.zeros(0), np.zeros((1, 1)), np.full((5, 3), np.nan), np.arange(10_000), np.array(["x" * 9000] * 3), structured,
        np.zeros(int(10 ** random.uniform(6, 8)), np.uint8), np.full((5, 4), -1), np.full((66, 3), 1e308), np.array(2.0), np.array(None),
        np.zeros((2, 0, 3)), np.array([[2**63]], np.uint64), np.zeros((1,) * 32),
    )  # fmt: skip
    k = int(random.integers(len(values)))
    arrays[name] = values[k].astype(str) if values[k].dtype.hasobject else values[k]
    if random.random() < 0.2:
        del arrays[str(random.choice([*arrays]))]
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    data = bytearray(stream.getvalue())
    if random.random() < 0.3:
        entry = bytes(data).rindex(b"PK\1\2")
        data[entry + int(random.integers(0, 46))] ^= 1 << int(random.integers(8))
    return bytes(data)


_BOMBS: tuple[tuple[str, Callable[[Path, Random], bytes]], ...] = (
    ("b.gltf", _shared), ("b.gltf", _shared), ("b.gltf", _nested), ("b.ply", _ply), ("b.off", _off), ("b.stl", _stl), ("b.obj", _obj),
    ("b.png", _deflated), ("b.png", _text_chunk), ("b.png", _large_png), ("b.hdr", _hdr), ("b.hdr", _runs), ("b.exr", _exr),
    ("b.jpg", _jpeg), ("b.bmp", bmp), ("b.gif", gif), ("b.webp", webp), ("b.tif", tiff), ("b.tif", tiff), ("set0/cameras.json", _cameras), ("set3/sparse/images.bin", _colmap), ("set3/sparse/points3D.bin", _colmap),
    ("set0/depth/0.npy", _depth), ("fit/loss.csv", _table),
    ("b.obj", _polygons), ("b.obj", _polygons), ("b.ply", _huge_list), ("b.stl", _soup), ("b.obj", _many_materials), ("b.gltf", _morphs),
    ("b.safetensors", _weights), ("bface.npz", _archive),
)  # fmt: skip
