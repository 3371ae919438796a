"""The head of figure 15: the face model fitted to a scan, with the colours and normals of the scan.

The scan (``scan``; LeePerrySmith, CC-BY, by default) has closed eyes and lips. The model (ICT-FaceKit, MIT) can open both: it is
fitted to the scan by iterated closest points over its pose and identity. What was found is read off at each texel of the model's
texture coordinates.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scan import Place, Scan, load_scan, similarity, unit
from scipy.ndimage import gaussian_filter
from scipy.sparse import csr_array, diags_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import spsolve
from scipy.spatial import KDTree

from dressi import DressiAD, F
from dressi.ad.graph.types import IVEC3, VEC2, VEC3
from dressi.errors import InputError
from dressi.render import Mesh
from dressi.render.core.lists import as_list
from dressi.render.io.files import data_file
from dressi.render.mesh.rows import midpoints
from dressi.render.shading.normal_map import vertex_tangents
from dressi.render.shading.skin import UvSurface
from dressi.render.surface.screen import Surface, barycentric, corners, rasterize_hard

EXPRESSION = {"jawOpen": 0.18, "mouthSmile_L": 0.8, "mouthSmile_R": 0.8, "mouthUpperUp_L": 0.45, "mouthUpperUp_R": 0.45}  # fmt: skip
BALL = 1.3
"""Radius of an eye ball, in centimetres."""
AROUND, DARK, RED = 3.6, 0.8, 1.25
"""What is mended of the colours: centimetres around an eye, and the share of the light and the redness of skin there."""
PALE = (0.0, 0.37, 0.33)
"""The least green and blue of skin, relative to red: between closed lips light has become redder than lips are."""
IDENTITIES, RIDGE = 60, 0.02
FAR = 5.0
"""Millimetres: a scan that is farther from the model than this is none of a head, or lies otherwise."""
BASE, RIM = -21.0, 3.5
"""Centimetres: the height of the base of the bust, below the picture, and how far from the border the bust is drawn out to it."""


@dataclass
class Head:
    """The fitted model: an open face, its texture and normal map, and what is placed by it."""

    mesh: Mesh
    normal_map: np.ndarray
    eyes: list[np.ndarray]
    """Centres of the eye balls."""
    lids: list[np.ndarray]
    """(L, 3): the border of each eye's opening."""
    mouth: np.ndarray
    """(4, 3): centre of the opening, its half axes to the right and down, and the direction out of it."""
    points: np.ndarray
    """(T, T, 3): the place of each texel, with closed lips."""
    scan: Scan
    error: float
    """Mean distance between scan and model, in millimetres."""


def fitted(texture: int, file: Path | None = None, rounds: int = 12) -> Head:
    """The head of a scan (``scan.load_scan``). texture: texels of a side."""
    scan, model = load_scan(file), np.load(data_file("face/ict_facekit_head_f16.npz"))
    neutral, modes = model["neutral"].astype(float), model["identity"][:IDENTITIES].astype(float)
    quads, uv_quads = model["quads"], model["quads_uv"]
    faces, uv_faces = (np.concatenate([q[:, [0, 1, 2]], q[:, [0, 2, 3]]]) for q in (quads, uv_quads))
    kept = (faces[:, 0] != faces[:, 2]) & (faces[:, 1] != faces[:, 2]) & (faces[:, 0] != faces[:, 1])
    faces, uv_faces = faces[kept], uv_faces[kept]
    # The face has u from 0 to 1, the rest from 1 to 2.
    uvs = model["uv"].astype(float) * (0.5, -1) + (0, 1)
    tree = KDTree(scan.points)
    # Lids and lips are open in the model, ears and the end of the neck differ most.
    used = (neutral[:, 1] > -9) & (np.abs(neutral[:, 0]) < 7.5)
    for x, y in ((3.17, 3.48), (-3.17, 3.48), (0.0, -3.36)):
        used &= np.hypot((neutral[:, 0] - x) / 1.6, neutral[:, 1] - y) > 1.0
    scale, rotation, shift, weights = 1.0, np.eye(3), np.zeros(3), np.zeros(IDENTITIES)
    shape, distance = neutral, np.zeros(1)
    for k in range(rounds):
        placed = scale * shape @ rotation.T + shift
        distance, nearest = tree.query(placed)
        normals = unit(normals_of(placed, faces))
        good = used & (distance < max(1.2, 3.0 - 0.6 * k)) & ((normals * scan.normals[nearest]).sum(1) > 0.6)
        n, target = scan.normals[nearest][good], scan.points[nearest][good]
        if len(n) < IDENTITIES:
            break
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
    error = float(distance[used].mean() * 10 / scale)
    if error > FAR:
        raise InputError(
            f"'{scan.name}' is {error:.0f} mm from the model of a head on average: a scan has y up, looks along z, and shows head"
            " and neck without hair that hides their shape"
        )
    names = list(model["expression_names"])
    moved = sum(x * model["expression"][names.index(k)].astype(float) for k, x in EXPRESSION.items())
    # From here on the scan lies on the model, which stands upright.
    scan = scan.moved(Place(1 / scale, rotation.T, -shift @ rotation / scale))
    loops = boundary_loops(faces)
    drawn_out = on_base(neutral, faces, min(loops, key=lambda x: neutral[x, 1].mean()))
    opened = shape + moved + drawn_out
    eye_loops = sorted((x for x in loops if len(x) == 42), key=lambda x: opened[x, 0].mean())
    lips = next(x for x in loops if len(x) == 74)
    eyes = [ball_behind(opened[x]) for x in eye_loops]
    colour, normal_map, points = baked(shape, faces, uvs, uv_faces, scan, texture, eyes)
    mesh = rounded(Mesh(opened, faces, uvs=uvs, uv_faces=uv_faces, texture=colour, name="head"))
    p = opened[lips]
    low, high = p.min(0), p.max(0)
    across, middle = (high - low) / 2, (low + high) / 2
    # The border of the mesh lies behind the lips.
    near = (np.abs(opened[:, 0]) < 0.3) & (np.abs(opened[:, 1] - middle[1]) < 1.5)
    middle[2] = opened[near, 2].max() - 0.4
    mouth = np.array([middle, (across[0], 0, 0), (0, -across[1], 0), (0, 0, 1.0)])
    return Head(mesh, normal_map, eyes, [opened[x] for x in eye_loops], mouth, points, scan, error)


def on_base(points: np.ndarray, faces: np.ndarray, border: np.ndarray) -> np.ndarray:
    """(V, 3): the steps that bring the border of a bust down to a level base, and the skin above it smoothly along: those whose
    second differences vanish."""
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    count = len(points)
    linked = csr_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), (count, count))
    linked = ((linked + linked.T) > 0).astype(float)
    laplace = diags_array(linked.sum(1)) - linked
    free = KDTree(points[border]).query(points)[0] < RIM
    free[border] = False
    wanted = np.zeros_like(points)
    wanted[border, 1] = BASE - points[border, 1]
    rows = (laplace @ laplace).tocsr()[free]
    wanted[free] = spsolve(rows[:, free].tocsc(), -(rows @ wanted))
    return wanted


def rounded(mesh: Mesh, share: float = 0.75) -> Mesh:
    """The mesh with four faces for each, and new vertices between the edge and the tangent planes of its ends (Boubekeur and
    Alexa 2008, "Phong Tessellation"): large faces would hide the light of grazing lamps from each other."""
    n = unit(normals_of(mesh.positions, mesh.faces))
    projection = n[:, :, None] * n[:, None, :]
    offset = (projection @ mesh.positions[..., None])[..., 0]
    both, _ = midpoints(np.concatenate([projection.reshape(-1, 9), offset], axis=1), mesh.faces)
    fine = mesh.subdivide()
    away = (both[:, :9].reshape(-1, 3, 3) @ fine.positions[..., None])[..., 0] - both[:, 9:]
    return fine.moved(fine.positions - share * away)


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
    size: int,
    eyes: list[np.ndarray],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Colours of the scan without its brows, its normals in the tangent space of the model, and the points, at each texel."""
    at = UvSurface.of(points, faces, uvs, uv_faces, size)
    clip = F.vec4(as_list("uvs", VEC2, uvs) * 2.0 - 1.0, 0.5, 1.0)
    index = as_list("uv_faces", IVEC3, uv_faces)
    face = rasterize_hard(clip, index, size=(size, size), face_count=len(faces))
    surface = Surface(index, face, barycentric(clip, corners(face, index), (size, size)))
    lists = as_list("p", VEC3, points), as_list("faces", IVEC3, faces), as_list("uvs", VEC2, uvs), index
    tangent = surface.interpolate(vertex_tangents(*lists))
    with DressiAD() as ad:
        point, normal, inside, tangent = (
            x[0] for x in ad.evaluate([at.point, at.smooth, at.inside, tangent])
        )
    distance, nearest = KDTree(scan.points).query(point.reshape(-1, 3), k=4)
    weight = 1 / (distance + 0.01)
    weight /= weight.sum(1, keepdims=True)
    colour, bent = (
        (x[nearest] * weight[..., None]).sum(1).reshape(size, size, 3) for x in (scan.colours, scan.mapped)
    )
    colour = np.maximum(colour, colour[..., :1] * PALE)
    for eye in eyes:
        colour = even(colour, np.linalg.norm((point - eye) * (1, 1, 0.5), axis=-1) < AROUND, inside > 0)
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
    _, nearest = KDTree(known).query(beside)
    for image in (colour, texel := unit(texel)):
        image[tuple(beside.T)] = image[tuple(known[nearest].T)]
    return colour, texel, point


def even(colour: np.ndarray, chosen: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """The colours of skin, with what is chosen and much darker or redder than skin there filled from what is around it: painted
    brows, which strands replace, and the red of closed lids."""
    light, red = colour.mean(-1), colour[..., 0] / colour[..., 1]
    skin, tone = np.median(light[chosen & inside]), np.median(red[chosen & inside])
    texels = np.sqrt((chosen & inside).sum() / np.pi) / AROUND  # a centimetre, about
    wrong = chosen & ((light < DARK * skin) | (red > RED * tone))
    wrong = gaussian_filter(wrong.astype(float), 0.1 * texels) > 0.05
    good = (inside & ~wrong).astype(float)
    found = np.broadcast_to(colour[inside].mean(0), colour.shape).copy()
    # From near by if there is something, else from farther away.
    for wide in (2.4, 0.8, 0.4, 0.2):
        share = gaussian_filter(good, wide * texels)[..., None]
        near = gaussian_filter(colour * good[..., None], (wide * texels, wide * texels, 0))
        found += (near / np.maximum(share, 1e-9) - found) * np.clip(share / 0.2, 0, 1)
    soft = gaussian_filter(wrong.astype(float), 0.05 * texels)
    soft = np.where(wrong, np.maximum(soft, 0.9), soft)[..., None]
    return colour * (1 - soft) + found * soft


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
