"""The head of figure 15: the face model fitted to a scan, with the colours and normals of the scan; eyes, teeth and hair placed by it.

The scan (LeePerrySmith, CC-BY) has closed eyes and lips. The model (ICT-FaceKit, MIT) can open both: it is aligned to the
scan by four landmarks, then by iterated closest points over its pose and identity. What was found is read off at each
texel of the model's texture coordinates.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from dressi import DressiAD, F
from dressi.ad.types import IVEC3, VEC2, VEC3
from dressi.render import Mesh, StrandGeometry, load_mesh, load_strands
from dressi.render.io.files import data_file
from dressi.render.io.images import load_image
from dressi.render.lists import as_list
from dressi.render.mesh.primitives import icosphere
from dressi.render.shading.bsdf.eye import CORNEA
from dressi.render.shading.normal_map import vertex_tangents
from dressi.render.shading.skin.diffusion import UvSurface
from dressi.render.surface.screen import Surface, barycentric, corners, rasterize_hard

LANDMARKS = {
    "right eye": ((170 / 400, 119 / 400), (-3.17, 3.48, 9.4)),
    "left eye": ((228 / 400, 119 / 400), (3.17, 3.48, 9.4)),
    "nose": ((200 / 400, 157 / 400), (0.0, -0.2, 13.0)),
    "mouth": ((201 / 400, 187 / 400), (0.0, -3.36, 10.9)),
}
"""Places in the colour map of the scan, and of the model in centimetres."""
EXPRESSION = {"jawOpen": 0.22, "mouthSmile_L": 0.5, "mouthSmile_R": 0.5, "mouthUpperUp_L": 0.35, "mouthUpperUp_R": 0.35, "eyeWide_L": 0.15, "eyeWide_R": 0.15}  # fmt: skip
BALL = 1.22
"""Radius of an eye ball, in centimetres."""
IDENTITIES, RIDGE = 60, 0.02


@dataclass
class Scan:
    """Points of the scan, in centimetres of the model."""

    points: np.ndarray
    normals: np.ndarray
    mapped: np.ndarray
    """Unit normals of the normal map."""
    colours: np.ndarray


def unit(v: np.ndarray) -> np.ndarray:
    return v / np.maximum(np.linalg.norm(v, axis=-1, keepdims=True), 1e-12)


def similarity(source: np.ndarray, target: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Scale, rotation and shift that move points to others best (Umeyama 1991)."""
    a, b = source - source.mean(0), target - target.mean(0)
    u, s, vt = np.linalg.svd(b.T @ a)
    d = np.diag([1.0, 1.0, np.sign(np.linalg.det(u @ vt))])
    rotation = u @ d @ vt
    scale = float(np.trace(np.diag(s) @ d) / (a**2).sum())
    return scale, rotation, target.mean(0) - scale * rotation @ source.mean(0)


def load_scan(count: int = 400_000) -> Scan:
    """Points all over the scan. Its texture coordinates have v upward."""
    mesh = load_mesh(data_file("head/LeePerrySmith.glb"))
    assert mesh.uvs is not None and mesh.uv_faces is not None
    uvs = mesh.uvs * (1, -1) + (0, 1)
    rng = np.random.default_rng(0)
    corners = mesh.positions[mesh.faces]
    cross = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    area = np.linalg.norm(cross, axis=1)
    face = rng.choice(len(area), count, p=area / area.sum())
    w = rng.dirichlet((1, 1, 1), count)[..., None]
    vertex_normals = np.zeros_like(mesh.positions)
    for k in range(3):
        np.add.at(vertex_normals, mesh.faces[:, k], cross)
    normals = unit((unit(vertex_normals)[mesh.faces[face]] * w).sum(1))
    uv = (uvs[mesh.uv_faces[face]] * w).sum(1)
    points = (corners[face] * w).sum(1)
    e, q = corners[face], uvs[mesh.uv_faces[face]]
    along, beside = q[:, 1] - q[:, 0], q[:, 2] - q[:, 0]
    turn = along[:, 0] * beside[:, 1] - along[:, 1] * beside[:, 0]
    tangent = (e[:, 1] - e[:, 0]) * beside[:, 1:] - (e[:, 2] - e[:, 0]) * along[:, 1:]
    tangent = unit(tangent * np.sign(turn)[:, None])
    tangent = unit(tangent - normals * (tangent * normals).sum(1, keepdims=True))
    texel = sampled(load_image(data_file("head/normal.jpg"), linear=False) * 2 - 1, uv)
    # The map has its green channel upward.
    bitangent = np.cross(normals, tangent)
    mapped = unit(tangent * texel[:, :1] + bitangent * texel[:, 1:2] + normals * texel[:, 2:])
    colours = sampled(load_image(data_file("head/color.jpg")), uv)
    tree = cKDTree(uv)
    source = np.array([points[tree.query(place)[1]] for place, _ in LANDMARKS.values()])
    scale, rotation, shift = similarity(source, np.array([at for _, at in LANDMARKS.values()]))
    return Scan(scale * points @ rotation.T + shift, normals @ rotation.T, mapped @ rotation.T, colours)


def sampled(image: np.ndarray, uv: np.ndarray) -> np.ndarray:
    """The nearest texels."""
    height, width = image.shape[:2]
    x, y = (np.clip((uv[:, k] * n).astype(int), 0, n - 1) for k, n in ((0, width), (1, height)))
    return image[y, x]


@dataclass
class Head:
    """The fitted model: an open face, its texture and normal map, and what is placed by it."""

    mesh: Mesh
    normal_map: np.ndarray
    eyes: list[np.ndarray]
    """Centres of the eye balls."""
    mouth: np.ndarray
    """(4, 3): centre of the opening, its half axes to the right and down, and the direction out of it."""
    error: float
    """Mean distance between scan and model, in millimetres."""


def fitted(texture: int, rounds: int = 12) -> Head:
    scan, model = load_scan(), np.load(data_file("face/ict_facekit_head_f16.npz"))
    neutral, modes = model["neutral"].astype(float), model["identity"][:IDENTITIES].astype(float)
    quads, uv_quads = model["quads"], model["quads_uv"]
    faces, uv_faces = (np.concatenate([q[:, [0, 1, 2]], q[:, [0, 2, 3]]]) for q in (quads, uv_quads))
    kept = (faces[:, 0] != faces[:, 2]) & (faces[:, 1] != faces[:, 2]) & (faces[:, 0] != faces[:, 1])
    faces, uv_faces = faces[kept], uv_faces[kept]
    # The face has u from 0 to 1, the rest from 1 to 2.
    uvs = model["uv"].astype(float) * (0.5, -1) + (0, 1)
    tree = cKDTree(scan.points)
    # Lids and lips are open in the model, ears and the end of the neck differ most.
    used = (neutral[:, 1] > -9) & (np.abs(neutral[:, 0]) < 7.5)
    for x, y in ((3.17, 3.48), (-3.17, 3.48), (0.0, -3.36)):
        used &= np.hypot((neutral[:, 0] - x) / 1.6, neutral[:, 1] - y) > 1.0
    scale, rotation, shift, weights = 1.0, np.eye(3), np.zeros(3), np.zeros(IDENTITIES)
    shape, placed, distance = neutral, neutral, np.zeros(1)
    for _ in range(rounds):
        placed = scale * shape @ rotation.T + shift
        distance, nearest = tree.query(placed)
        normals = unit(normals_of(placed, faces))
        good = used & (distance < 1.2) & ((normals * scan.normals[nearest]).sum(1) > 0.6)
        n, target = scan.normals[nearest][good], scan.points[nearest][good]
        scale, rotation, shift = similarity(
            shape[good], placed[good] + n * (n * (target - placed[good])).sum(1, keepdims=True)
        )
        # The target in the frame of the model, along the normals.
        back = (target - shift) @ rotation / scale
        local = n @ rotation
        rows = np.einsum("vk,mvk->vm", local, modes[:, good])
        wanted = (local * (back - neutral[good])).sum(1)
        ridge = RIDGE * len(rows) * np.eye(IDENTITIES)
        weights = np.linalg.solve(rows.T @ rows + ridge, rows.T @ wanted)
        shape = neutral + np.tensordot(weights, modes, 1)
    placed = scale * shape @ rotation.T + shift
    names = list(model["expression_names"])
    moved = sum(x * model["expression"][names.index(k)].astype(float) for k, x in EXPRESSION.items())
    opened = scale * (shape + moved) @ rotation.T + shift
    colour, normal_map = baked(placed, faces, uvs, uv_faces, scan, tree, texture)
    mesh = Mesh(opened, faces, uvs=uvs, uv_faces=uv_faces, texture=colour, name="head")
    loops = boundary_loops(faces)
    eye_loops = sorted((x for x in loops if len(x) == 42), key=lambda x: opened[x, 0].mean())
    lips = next(x for x in loops if len(x) == 74)
    eyes = [ball_behind(opened[x]) for x in eye_loops]
    p = opened[lips]
    low, high = p.min(0), p.max(0)
    across = (high - low) / 2
    mouth = np.array([(low + high) / 2, (across[0], 0, 0), (0, -across[1], 0), (0, 0, 1.0)])
    return Head(mesh, normal_map, eyes, mouth, float(distance[used].mean() * 10))


def normals_of(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
    a, b, c = (points[faces[:, k]] for k in range(3))
    found, cross = np.zeros_like(points), np.cross(b - a, c - a)
    for k in range(3):
        np.add.at(found, faces[:, k], cross)
    return found


def baked(
    points: np.ndarray,
    faces: np.ndarray,
    uvs: np.ndarray,
    uv_faces: np.ndarray,
    scan: Scan,
    tree: Any,
    size: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Colours of the scan, and its normals in the tangent space of the model, at each texel."""
    at = UvSurface.of(points, faces, uvs, uv_faces, size)
    clip = F.vec4(as_list("uvs", VEC2, uvs) * 2.0 - 1.0, 0.5, 1.0)
    index = as_list("uv_faces", IVEC3, uv_faces)
    face = rasterize_hard(clip, index, size=(size, size), face_count=len(faces))
    surface = Surface(index, face, barycentric(clip, corners(face, index), (size, size)))
    tangent = surface.interpolate(vertex_tangents(as_list("p", VEC3, points), faces, uvs, uv_faces))
    with DressiAD() as ad:
        point, normal, inside, tangent = (
            x[0] for x in ad.evaluate([at.point, at.smooth, at.inside, tangent])
        )
    distance, nearest = tree.query(point.reshape(-1, 3), k=4)
    weight = 1 / (distance + 0.01)
    weight /= weight.sum(1, keepdims=True)
    colour, bent = (
        (x[nearest] * weight[..., None]).sum(1).reshape(size, size, 3) for x in (scan.colours, scan.mapped)
    )
    t, sign = unit(tangent[..., :3]), np.where(tangent[..., 3:] < 0, -1.0, 1.0)
    t = unit(t - normal * (t * normal).sum(-1, keepdims=True))
    b = np.cross(normal, t) * sign
    # Where the scan is far, as inside the mouth, the model's own normals stay.
    near = np.clip(1.5 - distance[:, 0].reshape(size, size, 1) / 0.4, 0, 1)
    bent = unit(bent * near + normal * (1 - near) + 1e-9)
    texel = np.stack([(bent * x).sum(-1) for x in (t, b, normal)], axis=-1)
    texel[..., 2] = np.maximum(texel[..., 2], 0.3)
    # Texels beside the charts are those of the nearest one inside.
    known = np.argwhere(inside > 0)
    beside = np.argwhere(inside == 0)
    _, nearest = cKDTree(known).query(beside)
    for image in (colour, texel := unit(texel)):
        image[tuple(beside.T)] = image[tuple(known[nearest].T)]
    return colour, texel


def boundary_loops(faces: np.ndarray) -> list[np.ndarray]:
    """Vertices of each open border."""
    edges = np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    found, count = np.unique(edges, axis=0, return_counts=True)
    border = found[count == 1]
    size = int(faces.max()) + 1
    graph = csr_array((np.ones(len(border)), (border[:, 0], border[:, 1])), (size, size))
    _, label = connected_components(graph, directed=False)
    on = np.unique(border)
    return [on[label[on] == k] for k in np.unique(label[on])]


def ball_behind(loop: np.ndarray) -> np.ndarray:
    """The centre of the eye ball that lids lie on."""
    middle = loop.mean(0)
    aside = np.linalg.norm((loop - middle)[:, :2], axis=1)
    depth = np.sqrt(np.maximum((BALL + 0.05) ** 2 - aside**2, 0.0))
    return middle - (0, 0, float(depth.mean()))


# ---- what is placed


def eye_ball(centre: np.ndarray, around: int = 64, along: int = 48, iris: float = 0.5) -> Mesh:
    """A ball that looks along +z, with a cornea; texture coordinates are (place + 1) / 2."""
    polar = np.linspace(0, np.pi, along) ** 1.4 / np.pi**0.4
    turn = np.linspace(0, 2 * np.pi, around, endpoint=False)
    r, z = np.sin(polar), np.cos(polar)
    middle = np.sqrt(1 - iris**2) - np.sqrt(CORNEA**2 - iris**2)
    bulge = middle + np.sqrt(np.maximum(CORNEA**2 - r**2, 0))
    z = np.where((z > 0) & (r < iris), bulge, z)
    ring = np.stack(
        [r[:, None] * np.cos(turn), r[:, None] * np.sin(turn), np.repeat(z[:, None], around, 1)], -1
    )
    points = ring.reshape(-1, 3)
    k, j = np.meshgrid(np.arange(along - 1), np.arange(around), indexing="ij")
    a, b = k * around + j, k * around + (j + 1) % around
    faces = np.concatenate(
        [
            np.stack([a, a + around, b], -1).reshape(-1, 3),
            np.stack([b, a + around, b + around], -1).reshape(-1, 3),
        ]
    )
    # v grows downward, as y of the texture coordinates.
    uvs = np.stack([points[:, 0], -points[:, 1]], 1) * 0.5 + 0.5
    return Mesh(points * BALL + centre, faces, uvs=uvs, uv_faces=faces, color=(0.78, 0.74, 0.72), name="eye")


def eye_places(size: int = 64) -> np.ndarray:
    """(size, size, 2): the place on the ball at each texel, for ``EyeBsdf``."""
    axis = (np.arange(size) + 0.5) / size * 2 - 1
    return np.stack(np.meshgrid(axis, axis), -1)


WIDTHS = (0.42, 0.34, 0.4, 0.36, 0.38, 0.5)
"""Half widths of teeth from the middle to a side, in centimetres."""


TEETH_SPAN = (3.2, 1.6)
"""Half of what the texture coordinates of the teeth span, in centimetres."""


def teeth(mouth: np.ndarray, upper: bool) -> Mesh:
    """A row of rounded boxes on a parabola behind the lips."""
    middle, sign = mouth[0], 1.0 if upper else -1.0
    points, faces, place, count = [], [], 0.0, 0
    ball = icosphere(3)
    box = np.sign(ball.positions) * np.abs(ball.positions) ** 0.55
    for side in (1, -1):
        place = 0.0
        for width in WIDTHS:
            width = width * (1.0 if upper else 0.8)
            x = side * (place + width)
            place += 2 * width * 0.99
            slope = np.arctan(2 * 0.11 * x)
            size = np.array([width, 0.52 if upper else 0.45, 0.28])
            body = box * size
            # Crowns are wider at the edge than at the gums.
            body[:, 0] *= 1 - 0.12 * sign * body[:, 1] / size[1]
            c, s = np.cos(slope), np.sin(slope)
            body = body @ np.array([[c, 0, -s], [0, 1, 0], [s, 0, c]])
            at = middle + (
                x,
                sign * 0.42 + (0.08 if upper else -0.02),
                -0.95 - 0.11 * x * x - (0.0 if upper else 0.15),
            )
            points.append(body + at)
            faces.append(ball.faces + count)
            count += len(body)
    where = np.concatenate(points)
    uvs = (where - middle)[:, :2] / TEETH_SPAN * (0.5, -0.5) + 0.5
    index = np.concatenate(faces)
    return Mesh(where, index, uvs=uvs, uv_faces=index, color=(0.8, 0.74, 0.62), name="teeth")


def teeth_places(mouth: np.ndarray, width: int = 64, height: int = 32) -> np.ndarray:
    """(height, width, 3): points on the front of the teeth, at the texels of their texture coordinates."""
    x, y = np.meshgrid((np.arange(width) + 0.5) / width * 2 - 1, 1 - (np.arange(height) + 0.5) / height * 2)
    x, y = x * TEETH_SPAN[0], y * TEETH_SPAN[1]
    return mouth[0] + np.stack([x, y, -0.7 - 0.11 * x * x], axis=-1)


def mouth_bag(mouth: np.ndarray) -> Mesh:
    """The inside of the mouth: a bag that opens forward, with gums."""
    ball = icosphere(4)
    keep = ball.positions[ball.faces].mean(1)[:, 2] < 0.55
    points = ball.positions * (3.0, 1.9, 2.6) + mouth[0] - (0, 0, 2.3)
    return Mesh(points, ball.faces[keep][:, ::-1], color=(0.28, 0.05, 0.045), name="mouth")


NAPE, BROW = np.radians(205.0), np.radians(55.0)
"""Angles of the ends of the line of roots around the skull, from the front upward."""
GROWTH = 21.0
"""Centimetres that a unit of the strands is."""


def hair(head: Mesh, every: int = 1, copies: int = 5) -> StrandGeometry:
    """The strands of `hair/` on the scalp: the line of their roots is laid from the forehead over the skull to the neck, and copies
    beside it. Strands keep their shape in the frame of the line."""
    whole = load_strands(data_file("hair/Ratboy_mohawk.tfx"))
    strands = whole.taken(np.arange(0, whole.strands, every))
    points = strands.points.reshape(strands.strands, -1, 3)
    roots, count = points[:, 0], points.shape[1]
    low, high = roots.min(0), roots.max(0)
    # The place along the line, from the neck to the forehead, and its direction there.
    part = 0.75 * (roots[:, 1] - low[1]) / (high[1] - low[1]) + 0.25 * (roots[:, 2] - low[2]) / (
        high[2] - low[2]
    )
    curves = [np.polyfit(part, roots[:, k], 3) for k in (1, 2)]
    along = unit(np.stack([np.polyval(np.polyder(c), part) for c in curves], axis=1))
    own = points - roots[:, None]
    ahead = own[..., 1] * along[:, None, 0] + own[..., 2] * along[:, None, 1]
    out = own[..., 1] * along[:, None, 1] - own[..., 2] * along[:, None, 0]
    skull = head.positions[(np.abs(head.positions[:, 0]) < 1) & (head.positions[:, 1] > 2)]
    centre = np.array([0.0, skull[:, 1].max() - 8.5, (skull[:, 2].max() + skull[:, 2].min()) / 2])
    tree, normals = cKDTree(head.positions), unit(normals_of(head.positions, head.faces))
    angle = NAPE + (BROW - NAPE) * part
    found = []
    for k in range(copies):
        turn = (k + 1) // 2 * (1 if k % 2 else -1) * 0.42 + (roots[:, 0] - roots[:, 0].mean()) * GROWTH / 9
        side = np.sin(turn)
        towards = np.stack([side, np.cos(turn) * np.sin(angle), np.cos(turn) * np.cos(angle)], axis=1)
        _, nearest = tree.query(centre + towards * 9.5)
        normal = normals[nearest]
        forward = np.stack([0 * side, -np.cos(angle), np.sin(angle)], axis=1) * -np.sign(BROW - NAPE)
        forward = unit(forward - normal * (forward * normal).sum(1, keepdims=True))
        right = np.cross(forward, normal)
        body = [
            axis[:, None] * (GROWTH * x)[..., None]
            for axis, x in ((-right, own[..., 0]), (forward, ahead), (normal, out))
        ]
        found.append(head.positions[nearest][:, None] + normal[:, None] * 0.02 + sum(body))
    placed = np.concatenate(found)
    offsets = np.arange(0, len(placed) * count + 1, count)
    return StrandGeometry(placed.reshape(-1, 3), offsets, 0.009 * every**0.5, name="hair")
