"""Inputs of the mesh energies: meshes, their edges as lists of indices, markers, sqrt(3) subdivision; and their pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from problem import Problem, options, run_program

from dressi import Variable
from dressi.ad.graph.types import INT, list_size
from dressi.errors import InputError
from dressi.render import Mesh, frame, load_mesh, render, save_mesh
from dressi.render.io.files import data_file, write_files
from dressi.render.io.images import encode_png

SOLVES: dict[str, Any] = {"iterations": 300, "forcing": 0.1}
"""Of the linear solves of a deformed mesh: each need not be solved far, but smooth errors take many iterations."""


def half_edges(mesh: Mesh) -> np.ndarray:
    """(H, 3) int64: every edge in both directions, (from, to, third vertex of the face to its left); -1 if there is no face.

    Sorted by (from, to). Raises InputError if an edge runs the same way in two faces.
    """
    a, b, c = mesh.faces.T
    inner = np.concatenate([np.stack(rows, 1) for rows in ((a, b, c), (b, c, a), (c, a, b))])
    number = len(mesh.positions)
    known = inner[:, 0] * number + inner[:, 1]
    if len(np.unique(known)) < len(known):
        raise InputError(
            "an edge of the mesh runs the same way in two faces; orient the faces, and remove double ones"
        )
    outer = inner[~np.isin(inner[:, 1] * number + inner[:, 0], known)]
    both = np.concatenate([inner, np.stack([outer[:, 1], outer[:, 0], np.full(len(outer), -1)], 1)])
    return both[np.lexsort((both[:, 1], both[:, 0]))]


def wedges(mesh: Mesh) -> np.ndarray:
    """(E, 4) int64: every edge once, (from, to, third vertex of the face to its left, of the face to its right).

    An edge of one face has it on its left, and -1 on its right. Raises InputError as ``half_edges``.
    """
    both = half_edges(mesh)
    twin = both[np.lexsort((both[:, 0], both[:, 1]))]  # row k runs back along row k
    found = np.concatenate([both, twin[:, 2:]], 1)[both[:, 0] < both[:, 1]]
    return np.where(found[:, 2:3] < 0, found[:, [1, 0, 3, 2]], found)


def sqrt3(mesh: Mesh, times: int = 1) -> Mesh:
    """The mesh after sqrt(3) subdivisions (Kobbelt 2000), as Opt's example refines its armadillo.

    Each face f gets a vertex V + f in its middle, the old edges are flipped, and an old vertex of valence n moves towards
    the mean of its neighbours by alpha = (4 - 2 cos(2 pi / n)) / 9. Positions are rounded to float32, as in the example.
    Raises InputError if the mesh is not closed.
    """
    for _ in range(times):
        if not mesh.is_closed():
            raise InputError("sqrt(3) subdivision takes a closed mesh; fill its holes first")
        old, faces = mesh.positions, mesh.faces
        valence = np.diff(mesh.neighbours()[0])
        alpha = ((4 - 2 * np.cos(2 * np.pi / np.maximum(valence, 1))) / 9)[:, None]
        relaxed = (1 - alpha) * old + alpha * (mesh.averaging() @ old)
        positions = np.concatenate([relaxed, old[faces].mean(1)]).astype(np.float32).astype(np.float64)
        # Across each half-edge lie the middles of its face and of the face beside it.
        start, end = (np.roll(faces, -k, axis=1).ravel() for k in (0, 1))
        face = len(old) + np.repeat(np.arange(len(faces)), 3)
        here = np.argsort(start * len(old) + end)
        there = np.argsort(end * len(old) + start)
        beside = np.empty_like(face)
        beside[here] = face[there]
        mesh = Mesh(positions, np.stack([start, beside, face], 1))
    return mesh


def load_markers(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """(M,) vertices and (M, 3) float32 targets of a marker file: a count, then a row "x y z radius vertex" for each.

    Raises InputError if the file does not hold that.
    """
    try:
        words = Path(path).read_text(encoding="ascii").split()
        rows = np.array(words[1:], dtype=np.float64).reshape(int(words[0]), 5)
    except (OSError, ValueError, IndexError) as error:
        raise InputError(
            f"'{path}' is no list of markers: a count, then x y z radius vertex for each ({error})"
        ) from None
    return rows[:, 4].astype(np.int64), rows[:, :3].astype(np.float32)


def index_list(name: str, indices: np.ndarray) -> Variable:
    """(E,) indices as an INT list. The rest of its last row is -1, where ``lookup`` gives 0 and its transpose adds nothing."""
    width, height = list_size(len(indices))
    image = np.full(width * height, -1, dtype=np.int64)
    image[: len(indices)] = indices
    return Variable(INT, (width, height), name=name, data=image.reshape(1, height, width))


def neighbour_list(mesh: Mesh) -> Variable:
    """The neighbours of all vertices as an INT list (V) with as many tiles as a vertex has neighbours at most, in ascending
    order; -1 where there are fewer. So a vertex and its edges are at the same texel, and only the other ends are looked up."""
    offsets, ends = mesh.neighbours()
    counts = np.diff(offsets)
    width, height = list_size(len(counts))
    tiles = np.full((counts.max(), width * height), -1, dtype=np.int64)
    start = np.repeat(np.arange(len(counts)), counts)
    tiles[np.arange(len(ends)) - offsets[start], start] = ends
    return Variable(
        INT, (width, height), len(tiles), name="neighbours", data=tiles.reshape(-1, height, width)
    )


def armadillo(times: int = 1) -> tuple[Mesh, np.ndarray, np.ndarray]:
    """The mesh of Opt's deformation, subdivided so many times, vertices (M,) that are dragged, and their targets (M, 3).

    One subdivision makes the mesh of the example. Raises InputError if DRESSI_DATA does not have it.
    """
    mesh = sqrt3(load_mesh(data_file("least_squares", "small_armadillo.ply")), times)
    vertices, targets = load_markers(data_file("least_squares", "small_armadillo.mrk"))
    if vertices.max() >= len(mesh.positions):
        raise InputError(
            f"marker {vertices.max()} is no vertex of the armadillo; subdivide it once or more often"
        )
    return mesh, vertices, targets


def dragged(
    goal: Variable, start: np.ndarray, end: np.ndarray, frames: int, steps: int
) -> Callable[[int], dict[Variable, np.ndarray]] | None:
    """What is sent before each step, as ``solve`` takes it: markers go from start to end (M, 3) in equal parts, with so many
    steps for each. None for one frame: the markers are at the end from the beginning."""
    if frames == 1:
        return None
    return lambda k: {goal: start + (k // steps + 1) / frames * (end - start)}


def deform_armadillo(
    name: str,
    posed: Callable[[Mesh, np.ndarray, np.ndarray], tuple[Problem, Variable]],
    doc: str,
    *,
    frames: int,
    **defaults: Any,
) -> None:
    """The program of an energy that deforms the armadillo: options, steps, files. posed: the problem of a mesh with markers,
    and the leaf with their targets. frames: of Opt's example. defaults: of ``options``."""
    parser = options(doc, name, **SOLVES, **defaults)
    parser.add_argument("--subdivisions", type=int, default=1, help="each makes three times as many faces")
    parts = f"parts of the way of the markers; the example has {frames}"
    parser.add_argument("--frames", type=int, default=1, help=parts)
    given = parser.parse_args()
    mesh, vertices, targets = armadillo(given.subdivisions)
    found, goal = posed(mesh, vertices, targets)
    path = dragged(goal, mesh.positions[vertices], targets, given.frames, given.steps)
    given.steps *= given.frames
    run = run_program(found, given, path)
    save_result(given.out, name, mesh, mesh.moved(run.unknowns[0]))


def save_result(folder: Path, name: str, before: Mesh, after: Mesh, size: int = 480) -> None:
    """Writes <name>.ply, and <name>.png: before and after from the front, then from the side, by the same cameras."""
    save_mesh(folder / f"{name}.ply", after)
    both = np.concatenate([before.positions, after.positions])
    pictures = []
    for azimuth in (200.0, 290.0):
        camera = frame(both.min(0), both.max(0), (size, size), azimuth=azimuth)
        pictures += [
            render(mesh, camera, samples=4, background=(1.0, 1.0, 1.0)).colour for mesh in (before, after)
        ]
    write_files({folder / f"{name}.png": encode_png(np.concatenate(pictures, 1))})
