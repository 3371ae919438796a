"""Scenes and plain references for the operations: float64, pixel by pixel."""

import numpy as np

Q = np.array
TRIANGLE = Q([[0, 1, 2]], np.int32)


def perspective(points: np.ndarray) -> np.ndarray:
    """Points (..., 3) before a camera at the origin that looks along -z, in the clip space of OpenGL; float32."""
    n, f, x = 1.0, 20.0, 0.5
    projection = Q(
        [[n / x, 0, 0, 0], [0, n / x, 0, 0], [0, 0, -(f + n) / (f - n), -2 * f * n / (f - n)], [0, 0, -1, 0]]
    )
    homogeneous = np.concatenate([points, np.ones((*points.shape[:-1], 1))], -1)
    return (homogeneous @ projection.T).astype(np.float32)


def octahedron(scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Points (6, 3), slightly turned, around the origin, and triangles (8, 3), counter-clockwise from outside."""
    points = scale * Q([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]], float)
    a, b = 0.35, 0.2
    about_y = Q([[np.cos(a), 0, np.sin(a)], [0, 1, 0], [-np.sin(a), 0, np.cos(a)]])
    about_x = Q([[1, 0, 0], [0, np.cos(b), -np.sin(b)], [0, np.sin(b), np.cos(b)]])
    faces = [[0, 2, 4], [2, 1, 4], [1, 3, 4], [3, 0, 4], [2, 0, 5], [1, 2, 5], [3, 1, 5], [0, 3, 5]]
    return points @ (about_y @ about_x).T, Q(faces, np.int32)


def barycentrics(clip: np.ndarray, x: np.ndarray, y: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """(..., 3): perspective-correct weights of one triangle (3, 4) at pixels; size: (width, height)."""
    clip = clip.astype(np.float64)
    ndc = np.stack([(x + 0.5) * 2 / size[0] - 1, (y + 0.5) * 2 / size[1] - 1, np.ones_like(x, float)], -1)
    # Solves sum(weight * (x, y, w)) = k * (ndc x, ndc y, 1) with weights that add up to 1.
    weights = ndc @ np.linalg.inv(clip[:, [0, 1, 3]])
    return weights / weights.sum(-1, keepdims=True)


def rasterized(
    clip: np.ndarray, triangles: np.ndarray, size: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """(H, W, 4) rast, and (H, W) bool: pixels far enough from every edge that all drivers agree. No triangle may reach
    behind the viewer."""
    width, height = size
    y, x = np.mgrid[0:height, 0:width].astype(float)
    result, nearest, clear = (
        np.zeros((height, width, 4)),
        np.full((height, width), np.inf),
        np.ones((height, width), bool),
    )
    for k, triangle in enumerate(triangles):
        corners = clip[triangle]
        weights = barycentrics(corners, x, y, size)
        screen = corners[:, :2].astype(float) / corners[:, 3:] * 0.5 + 0.5
        screen = screen * Q(size) - 0.5
        away = np.stack([_distance(x, y, screen[i], screen[(i + 1) % 3]) for i in range(3)]).min(0)
        clear &= away > 0.2
        depth = (weights @ corners[:, 2]) / (weights @ corners[:, 3])
        front = (weights >= 0).all(-1) & (depth < nearest) & (np.abs(depth) <= 1)
        nearest[front] = depth[front]
        found = np.stack([weights[..., 0], weights[..., 1], depth, np.full_like(depth, k + 1)], -1)
        result[front] = found[front]
    return result, clear


def _distance(x: np.ndarray, y: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    u, p = b - a, np.stack([x, y], -1) - a
    t = np.clip((p @ u) / (u @ u), 0, 1)
    return np.hypot(*np.moveaxis(p - t[..., None] * u, -1, 0))


def texel_at(texture: np.ndarray, i: np.ndarray, j: np.ndarray, boundary: str) -> np.ndarray:
    """Texel (column i, row j) of (H, W, C) by the boundary mode."""
    height, width = texture.shape[:2]
    if boundary == "wrap":
        return texture[j % height, i % width]
    value = texture[np.clip(j, 0, height - 1), np.clip(i, 0, width - 1)]
    inside = (i >= 0) & (i < width) & (j >= 0) & (j < height)
    return value if boundary == "clamp" else np.where(inside[..., None], value, 0)


def bilinear(texture: np.ndarray, uv: np.ndarray, boundary: str) -> np.ndarray:
    """(..., C): a texture (H, W, C) at uv."""
    height, width = texture.shape[:2]
    x, y = uv[..., 0].astype(float) * width - 0.5, uv[..., 1].astype(float) * height - 0.5
    i, j = np.floor(x).astype(int), np.floor(y).astype(int)
    total = np.zeros((*uv.shape[:-1], texture.shape[-1]))
    for dx, dy in ((0, 0), (1, 0), (0, 1), (1, 1)):
        weight = (1 - np.abs(x - i - dx)) * (1 - np.abs(y - j - dy))
        total += weight[..., None] * texel_at(texture, i + dx, j + dy, boundary)
    return total


def halved(texture: np.ndarray) -> np.ndarray:
    """The next mip level of (H, W, C), for even sides."""
    h, w, c = texture.shape
    return texture.reshape(h // 2, 2, w // 2, 2, c).mean((1, 3))
