"""Meshes to fields on a regular grid and back, for changes of topology, which moving vertices cannot make."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import map_coordinates, maximum_filter

from ..compiled import compiled
from ..mesh import Mesh
from ..queries import SurfaceDistance, crossings, sample_surface
from .remesh import decimate_closed, remesh

SAMPLES = 8
"""Surface points per area of a cell's side: they are about a third of a cell apart."""
KEPT = 0.96
"""Least area of a surface with few faces relative to that of the field. Thin parts that too few faces cannot
follow shrink."""
LOSS = 2 / 3
"""Power of the lost area with which the faces that are wanted grow: between that of smooth surfaces, 1, and of thin parts."""
_OFF = np.array([0.000271, 0.000433])
"""Offset of the columns from the grid points, in cells, so that they hardly ever hit an edge."""


@dataclass(frozen=True)
class Grid:
    """Points origin + step * (i, j, k) for i, j, k below shape.

    >>> Grid.around(np.array([[0.0, 0, 0], [1, 1, 2]]), 4).shape
    (7, 7, 9)
    """

    origin: np.ndarray
    step: float
    shape: tuple[int, int, int]

    @classmethod
    def around(cls, bounds: np.ndarray, cells: int) -> Grid:
        """A grid with this many cells along the longest side of a box (2, 3), and two more on every side."""
        step = float((bounds[1] - bounds[0]).max()) / cells
        counts = np.ceil((bounds[1] - bounds[0]) / step).astype(int) + 5
        return cls(bounds[0] - 2 * step, step, (int(counts[0]), int(counts[1]), int(counts[2])))

    def points(self) -> np.ndarray:
        """(X, Y, Z, 3)."""
        return self.origin + self.step * np.moveaxis(np.indices(self.shape), 0, -1)


def winding_numbers(mesh: Mesh, grid: Grid) -> np.ndarray:
    """(X, Y, Z) int: winding numbers of a closed mesh at the points of a grid; 0 is outside. Counted along
    columns.

    >>> from dressi.render.mesh.primitives import cube
    >>> winding_numbers(cube(), Grid(np.array([-2.0, 0, 0]), 2.0, (3, 1, 1))).reshape(-1).tolist()
    [0, 1, 0]
    """
    corners = (mesh.positions[mesh.faces] - grid.origin) / grid.step
    columns = np.moveaxis(np.indices(grid.shape[:2]), 0, -1).reshape(-1, 2)
    line, _, height, turn = crossings(columns + _OFF, corners)
    below = np.zeros((len(columns), grid.shape[2] + 1), dtype=np.int64)
    # Counted from above: a face whose normal points up starts the inside.
    place = np.clip(np.ceil(height).astype(int), 0, grid.shape[2])
    np.add.at(below, (line, place), turn)
    above = below.sum(1, keepdims=True) - np.cumsum(below, axis=1)[:, :-1]
    return above.reshape(grid.shape)


def signed_distances(mesh: Mesh, grid: Grid, reach: float = 3.0, *, inverted: bool = False) -> np.ndarray:
    """(X, Y, Z) distances to the surface of a closed mesh, positive inside; at most ``reach`` cells either
    way.

    Distances are to the faces of the nearest of many surface points, accurate to a tenth of a cell. A point
    is inside if its winding number is positive, so overlapping parts are one and inverted parts are left out.
    inverted: whether they count as well: a point is inside then if its winding number is not 0.

    >>> from dressi.render.mesh.primitives import cube
    >>> field = signed_distances(cube(), Grid(np.array([-2.0, 0, 0]), 2.0, (3, 1, 1)))
    >>> field.reshape(-1).round(1).tolist()
    [-1.0, 1.0, -1.0]
    """
    count = sample_count(mesh, grid)
    near = near_surface(mesh, grid, count, reach)
    distance = np.full(grid.shape, reach * grid.step)
    points = grid.origin + grid.step * np.argwhere(near)
    distance[near] = SurfaceDistance(mesh, count).distances(points, most=reach * grid.step)
    winding = winding_numbers(mesh, grid)
    return np.where(winding != 0 if inverted else winding > 0, 1, -1) * distance


def sample_count(mesh: Mesh, grid: Grid) -> int:
    """Points of a surface that are about a third of a cell apart."""
    return max(int(SAMPLES * mesh.face_areas().sum() / grid.step**2), 1)


def near_surface(mesh: Mesh, grid: Grid, count: int, reach: float) -> np.ndarray:
    """(X, Y, Z) bool: at least the points that are nearer to the surface than ``reach`` cells, by ``count``
    samples of it."""
    near = np.zeros(grid.shape, bool)
    place = np.rint((sample_surface(mesh, count) - grid.origin) / grid.step).astype(int)
    inside = ((place >= 0) & (place < grid.shape)).all(1)
    near[tuple(place[inside].T)] = True
    return np.asarray(maximum_filter(near, 2 * int(np.ceil(reach) + 1) + 1), dtype=bool)


def level_set(field: np.ndarray, grid: Grid, *, least: float = 0.01) -> Mesh:
    """The closed surface on which a field (X, Y, Z), positive inside, is zero: marching cubes, by PyMCubes.

    least: parts whose volume is less than this share of the largest one's are left out, and so are hollows.
    The field has to be negative on the sides of the grid. Raises InputError without the package PyMCubes.

    >>> grid = Grid(np.full(3, -1.5), 0.5, (7, 7, 7))
    >>> ball = level_set(1 - np.linalg.norm(grid.points(), axis=-1), grid)
    >>> ball.is_closed(), 3.0 < ball.signed_volume() < 4.2
    (True, True)
    """
    marching_cubes = compiled("mcubes", "PyMCubes", "a mesh of a volume").marching_cubes
    # A value of exactly zero at a grid point would give faces without area.
    small = 1e-4 * grid.step
    field = np.where(np.abs(field) < small, np.where(field < 0, -small, small), field)
    points, faces = marching_cubes(field, 0.0)
    mesh = Mesh(points * grid.step + grid.origin, faces)
    if mesh.signed_volume() < 0:
        mesh.faces = mesh.faces[:, ::-1]
    part = mesh.parts()
    volumes = np.array([mesh.with_faces(part == k).signed_volume() for k in range(part.max() + 1)])
    return mesh.with_faces((volumes >= least * volumes.max())[part]).clean()


def surface_of(
    field: np.ndarray, grid: Grid, faces: int, *, least: float = 1e-3, kept: float = KEPT, level: bool = False
) -> Mesh | None:
    """The ``level_set``, with parts of at least ``least``, with about so many faces of even size, up to four
    times as many where less than ``kept`` of the area would be left, as thin parts need them; None if that is
    no closed surface. Hardly any face cuts another.  level: whether faces lie on the surface in the mean, not their corners,
    so that thin parts keep their width."""
    whole = level_set(field, grid, least=least)
    if not whole.is_closed():
        return None
    slopes = [np.gradient(field, grid.step, axis=k) for k in range(3)]
    # Marching cubes leave slivers, which decimation would collapse to tiny faces.
    points = 0.5 * (whole.positions + whole.averaging() @ whole.positions)
    whole = _settled(whole.moved(points), field, slopes, grid, level)
    whole, most = decimate_closed(whole, 4 * faces, handles=False), faces
    while True:
        mesh = whole
        for _ in range(2):
            mesh = remesh(mesh, faces=int(1.1 * most), most_faces=most, rounds=2).mesh
            mesh = _settled(mesh, field, slopes, grid, level)
        lost = (1 - mesh.face_areas().sum() / whole.face_areas().sum()) / (1 - kept)
        if lost <= 1 or most > faces:
            return mesh
        most = int(faces * min(lost**LOSS, 4))


def _settled(
    mesh: Mesh, field: np.ndarray, slopes: list[np.ndarray], grid: Grid, level: bool, times: int = 2
) -> Mesh:
    """The mesh with its vertices moved, by steps of at most a cell, to the surface where the field is zero. level: so that it is
    zero in the mean over the faces around each: with corners on it, faces lie inside of all that bulges."""
    points, corners = mesh.positions, mesh.faces.ravel()
    count = np.maximum(np.bincount(corners, minlength=len(points)), 1)

    def at(part: np.ndarray, places: np.ndarray) -> np.ndarray:
        return map_coordinates(part, ((places - grid.origin) / grid.step).T, order=1, mode="nearest")

    for _ in range(times):
        slope, value = np.stack([at(part, points) for part in slopes], axis=1), at(field, points)
        if level:
            middle = np.repeat(at(field, points[mesh.faces].mean(1)), 3)
            # The mean of a quadratic over a triangle: three quarters of the middle, a twelfth of each corner.
            value = 0.25 * value + 0.75 * np.bincount(corners, middle, len(points)) / count
        step = np.clip(value / np.maximum((slope**2).sum(1), 0.25), -grid.step, grid.step)
        points = points - step[:, None] * slope
    return mesh.moved(points)
