"""Meshes that the project makes: spheres to start a fit from, shapes for tests, the pear of the demo.

All are closed (but for `random_mesh`), turned outward, and y is up.
"""

from __future__ import annotations

import numpy as np

from dressi.render.mesh import Mesh, weld
from dressi.render.surface.color import srgb_to_linear

_MARGIN = 0.5 / 256
"""Half a texel of a 256 texture."""


def octasphere(
    level: int = 4, radius: float = 1.0, center: tuple[float, float, float] = (0.0, 0.0, 0.0)
) -> Mesh:
    """A sphere of 8 * 4**level faces whose texture is one square without gaps: to start a fit with texture.

    An octahedron is subdivided, and its upper half is the inner diamond of the square, its lower half the
    four corners. UVs are cut along four edges from the equator to the south pole only, all of which lie on
    the border of the square; they keep half a texel of a 256 texture away from it, so that wrapping does not
    mix sides. level: 0 or more.  radius and center: in units of the mesh.

    >>> octasphere(2).faces.shape
    (128, 3)
    """
    corners = np.array([[1.0, 0, 0], [0, 0, 1], [-1, 0, 0], [0, 0, -1], [0, 1, 0], [0, -1, 0]])
    faces = [[4, 1, 0], [4, 2, 1], [4, 3, 2], [4, 0, 3], [5, 0, 1], [5, 1, 2], [5, 2, 3], [5, 3, 0]]
    # East, south, west and north of the square's middle, the middle, and its corners: all the south pole.
    uvs = np.array([[2, 1], [1, 2], [0, 1], [1, 0], [1, 1], [2, 2], [0, 2], [0, 0], [2, 0]]) / 2
    uv_faces = [*faces[:4], [5, 0, 1], [6, 1, 2], [7, 2, 3], [8, 3, 0]]
    mesh = Mesh(
        corners, np.array(faces), uvs * (1 - 2 * _MARGIN) + _MARGIN, np.array(uv_faces), name="sphere"
    )
    return _rounded(mesh, level, radius, center)


def icosphere(
    subdivisions: int = 3, radius: float = 1.0, center: tuple[float, float, float] = (0.0, 0.0, 0.0)
) -> Mesh:
    """The most even sphere, of 20 * 4**subdivisions faces: for tests and silhouettes.

    Each side of the icosahedron has its own half of one of twelve cells of the texture, apart from its
    neighbours: no two faces share a texel, but there are many seams. `octasphere` has few.

    >>> icosphere(1).is_closed()
    True
    """
    golden = (1 + 5**0.5) / 2
    corners = np.array(
        [[-1, golden, 0], [1, golden, 0], [-1, -golden, 0], [1, -golden, 0],
         [0, -1, golden], [0, 1, golden], [0, -1, -golden], [0, 1, -golden],
         [golden, 0, -1], [golden, 0, 1], [-golden, 0, -1], [-golden, 0, 1]]
    )  # fmt: skip
    faces = [
        [0, 11, 5], [0, 5, 1], [0, 1, 7], [0, 7, 10], [0, 10, 11],
        [1, 5, 9], [5, 11, 4], [11, 10, 2], [10, 7, 6], [7, 1, 8],
        [3, 9, 4], [3, 4, 2], [3, 2, 6], [3, 6, 8], [3, 8, 9],
        [4, 9, 5], [2, 4, 11], [6, 2, 10], [8, 6, 7], [9, 8, 1],
    ]  # fmt: skip
    gap = 4 * _MARGIN
    half = np.array([[gap, 2.5 * gap], [gap, 1 - gap], [1 - 2.5 * gap, 1 - gap]])
    uvs = []
    for side in range(20):
        row, column = divmod(side // 2, 4)
        uvs.append(((half if side % 2 == 0 else 1 - half) + (column, row)) / (4, 3))
    corners = corners / np.linalg.norm(corners[0])
    mesh = Mesh(corners, np.array(faces), np.concatenate(uvs), np.arange(60).reshape(20, 3), name="icosphere")
    return _rounded(mesh, subdivisions, radius, center)


def torus(
    around: int = 32, across: int = 16, radius: float = 1.0, tube: float = 0.35, name: str = "torus"
) -> Mesh:
    """A ring in the xz plane with `around` by `across` quads, two faces each; u runs around, v across.

    radius: of the circle in the middle of the tube, whose own radius is tube.

    >>> torus(8, 6).euler_characteristic()
    0
    """
    u, v = np.meshgrid(np.arange(around + 1) / around, np.arange(across + 1) / across, indexing="ij")
    a, b = 2 * np.pi * u, 2 * np.pi * v
    wide = radius + tube * np.cos(b)
    positions = np.stack([wide * np.sin(a), tube * np.sin(b), wide * np.cos(a)], axis=-1)
    # The last row and column are the first again, so that welding closes the surface exactly.
    positions[-1], positions[:, -1] = positions[0], positions[:, 0]
    return _grid_mesh(positions, np.stack([u, v], axis=-1), name)


def tetrahedron() -> Mesh:
    """Four faces, edge length 2 sqrt 2, centred.

    >>> round(tetrahedron().signed_volume(), 3)
    2.667
    """
    positions = np.array([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    return Mesh(positions, np.array([[0, 1, 2], [0, 3, 1], [0, 2, 3], [1, 3, 2]]), name="tetrahedron")


def cube(half: float = 1.0) -> Mesh:
    """A cube of side 2 * half: twelve faces; each side has its own third by half of the texture.

    >>> cube(0.5).signed_volume()
    1.0
    """
    positions, uvs, faces = [], [], []
    axes = np.eye(3)
    for side in range(6):
        axis, sign = side // 2, 1 - 2 * (side % 2)
        normal, right = axes[axis] * sign, axes[(axis + 1) % 3]
        top = np.cross(normal, right)
        base = len(positions)
        for x, y in ((-1, -1), (1, -1), (1, 1), (-1, 1)):
            positions.append(half * (normal + x * right + y * top))
            uvs.append([(side % 3 + 0.5 + 0.49 * x) / 3, (side // 3 + 0.5 - 0.49 * y) / 2])
        faces += [[base, base + 1, base + 2], [base, base + 2, base + 3]]
    corners = np.array(faces)
    return Mesh(*weld(np.array(positions), corners), *weld(np.array(uvs), corners), name="cube")


def bumpy_ellipsoid(subdivisions: int = 3, seed: int = 0) -> Mesh:
    """A closed smooth shape without symmetry, about 1 in radius: for gradients of silhouettes.

    >>> bumpy_ellipsoid(1).component_count()
    1
    """
    mesh = icosphere(subdivisions)
    random = np.random.default_rng(seed)
    height = np.zeros(len(mesh.positions))
    for _ in range(6):
        direction = random.normal(size=3)
        direction *= random.uniform(2.0, 5.0) / np.linalg.norm(direction)
        height += 0.04 * np.sin(mesh.positions @ direction + random.uniform(0, 2 * np.pi))
    mesh.positions = mesh.positions * (1 + height[:, None]) * (1.0, 0.75, 0.6)
    mesh.name = "bumpy ellipsoid"
    return mesh


def bowl(level: int = 4) -> Mesh:
    """A closed bowl, 1.8 wide: a sphere with the upper half turned in. Outlines do not show how deep it is.

    >>> bowl(3).bounds().round(2).tolist()
    [[-0.9, -0.5, -0.9], [0.9, 0.4, 0.9]]
    """
    ball = octasphere(level, 0.9)
    inside = ball.positions * (0.8, -0.75, 0.8)
    positions = np.where(ball.positions[:, 1:2] > 0, inside, ball.positions)
    return Mesh(positions + (0.0, 0.4, 0.0), ball.faces, name="bowl")


def random_mesh(faces: int = 20, seed: int = 0, size: float = 0.5) -> Mesh:
    """Triangles of about `size` strewn over [-1, 1]^3, which share no vertex: for rasterizers.

    >>> random_mesh(5).positions.shape
    (15, 3)
    """
    random = np.random.default_rng(seed)
    middle = random.uniform(-1, 1, size=(faces, 1, 3))
    positions = (middle + size * random.normal(size=(faces, 3, 3)) / 2).reshape(-1, 3)
    return Mesh(positions, np.arange(3 * faces).reshape(-1, 3), name="random mesh")


def pear(around: int = 64, along: int = 48, texture_size: int = 512) -> Mesh:
    """A textured pear about 2 high with a stem, for the demo. u runs around it, v from top to bottom.

    around, along: quads in these directions.  texture_size: side in texels of the albedo, linear light.

    >>> pear(12, 10, 32).texture.shape
    (32, 32, 3)
    """
    profile = _pear_profile(along)
    u, v = np.meshgrid(np.arange(around + 1) / around, _arc_length(profile), indexing="ij")
    angle = 2 * np.pi * u
    # Pears are a little crooked: the axis bends, and the section is not quite a circle.
    wide = profile[:, 0] * (1 + 0.03 * np.cos(2 * angle + 0.7) * (profile[:, 0] > 0.06))
    bend = 0.09 * np.maximum(profile[:, 1], 0) ** 2
    height = np.broadcast_to(profile[:, 1], u.shape)
    positions = np.stack([wide * np.sin(angle) + bend, height, wide * np.cos(angle)], axis=-1)
    positions[-1] = positions[0]
    mesh = _grid_mesh(positions, np.stack([u, v], axis=-1), "pear")
    mesh.texture = _pear_texture(texture_size, profile)
    return mesh


def _pear_profile(count: int) -> np.ndarray:
    """(count + 1, 2) radius and height from the tip of the stem to the bottom; zero radius at both ends."""
    knots = np.array(
        [[0.0, 1.18], [0.032, 1.175], [0.03, 1.05], [0.034, 0.94], [0.09, 0.905], [0.19, 0.88], [0.27, 0.78],
         [0.32, 0.62], [0.36, 0.42], [0.44, 0.18], [0.56, -0.08], [0.64, -0.32], [0.63, -0.56], [0.5, -0.77],
         [0.3, -0.875], [0.12, -0.885], [0.05, -0.86], [0.0, -0.85]]
    )  # fmt: skip
    from scipy.interpolate import PchipInterpolator

    place = _arc_length(knots)
    # Even steps along the curve, but never a long one over the sharp turns of the stem.
    steps = np.linspace(0, 1, count + 1)
    points = PchipInterpolator(place, knots)(steps)
    points[0], points[-1] = knots[0], knots[-1]
    points[1:-1, 0] = np.maximum(points[1:-1, 0], 0.012)
    return points


def _arc_length(points: np.ndarray) -> np.ndarray:
    """(n,) 0 to 1 along a polyline (n, 2)."""
    lengths = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1))])
    return lengths / lengths[-1]


def _pear_texture(size: int, profile: np.ndarray) -> np.ndarray:
    """(size, size, 3) linear: green to yellow skin with a blush, brown spots, and a brown stem; u repeats."""
    random = np.random.default_rng(8)
    v, u = np.meshgrid((np.arange(size) + 0.5) / size, (np.arange(size) + 0.5) / size, indexing="ij")
    place = _arc_length(profile)
    height, wide = np.interp(v, place, profile[:, 1]), np.interp(v, place, profile[:, 0])
    angle = 2 * np.pi * u
    # Everything is a function of the point in space, so nothing shows where u wraps around.
    x, y, z = wide * np.sin(angle), height, wide * np.cos(angle)
    waves = np.zeros_like(x)
    for _ in range(8):
        a, b, c = random.normal(size=3) * 5
        waves += np.sin(a * x + b * y + c * z + random.uniform(0, 2 * np.pi)) / 8
    ripe = np.clip(0.5 - 0.45 * y + 0.6 * waves, 0, 1)[..., None]
    color = (1 - ripe) * np.array([0.55, 0.68, 0.16]) + ripe * np.array([0.90, 0.80, 0.25])
    blush = np.clip(1.3 * np.sin(angle + 0.4) - 0.35 + waves, 0, 1)[..., None] * (wide / 0.64)[..., None] ** 2
    color = (1 - 0.7 * blush) * color + 0.7 * blush * np.array([0.80, 0.25, 0.13])
    points = np.stack([x, y, z], axis=-1)
    for _ in range(150):
        row, column = random.integers(size), random.integers(size)
        if wide[row, column] < 0.12:
            continue
        radius = random.uniform(0.012, 0.03)
        # Heights belong to rows, so that a spot reaches few of them.
        rows = np.abs(height[:, 0] - height[row, 0]) < 1.5 * radius
        distance = np.linalg.norm(points[rows] - points[row, column], axis=-1)
        spot = np.clip(1.5 - distance / radius, 0, 1)[..., None]
        color[rows] = (1 - 0.6 * spot) * color[rows] + 0.6 * spot * np.array([0.42, 0.28, 0.10])
    stem = np.clip((height - 0.9) / 0.03, 0, 1)[..., None]
    flower = np.clip((0.14 - wide) / 0.05, 0, 1)[..., None] * (height < 0)[..., None]
    brown = np.array([0.33, 0.22, 0.10]) * (1 + 0.25 * waves[..., None])
    dark = np.maximum(stem, 0.8 * flower)
    return srgb_to_linear(np.clip((1 - dark) * color + dark * brown, 0, 1))


def _grid_mesh(positions: np.ndarray, uvs: np.ndarray, name: str) -> Mesh:
    """Faces over a grid (A + 1, B + 1) that wraps where its border positions agree, without those at poles
    that have no area. Seen from outside, a step in A goes right and a step in B goes down or up, whatever is
    outward."""
    rows, columns = positions.shape[:2]
    index = np.arange(rows * columns).reshape(rows, columns)
    a, b, c, d = index[:-1, :-1], index[1:, :-1], index[1:, 1:], index[:-1, 1:]
    corners = np.stack([a, b, c, a, c, d], axis=-1).reshape(-1, 3)
    welded, faces = weld(positions.reshape(-1, 3), corners)
    joined, uv_faces = weld(uvs.reshape(-1, 2), corners)
    whole = (faces[:, 0] != faces[:, 1]) & (faces[:, 1] != faces[:, 2]) & (faces[:, 2] != faces[:, 0])
    mesh = Mesh(welded, faces[whole], joined, uv_faces[whole], name=name)
    if mesh.signed_volume() < 0:
        mesh.faces, mesh.uv_faces = mesh.faces[:, ::-1], uv_faces[whole][:, ::-1]
    return mesh


def _rounded(mesh: Mesh, times: int, radius: float, center: tuple[float, float, float]) -> Mesh:
    """Subdivide and push out to the unit sphere each time: edges differ by a factor of 1.6 at most."""
    for _ in range(times):
        mesh = mesh.subdivide()
        mesh.positions /= np.linalg.norm(mesh.positions, axis=1, keepdims=True)
    mesh.positions = mesh.positions * radius + center
    return mesh
