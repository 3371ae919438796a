"""Other renderers at the same task."""

from __future__ import annotations

import warnings
from importlib.metadata import version
from typing import Any

import numpy as np

from dressi.errors import DeviceError
from dressi.render.mesh import Mesh

VERSION = "0.2.3"


class Deodr:
    """deodr on one thread: antialiased silhouettes of all views, sum-L2 against the masks, Adam on the positions.

    mesh: where it starts.  matrices: (N, 4, 4) to clip space.  masks: (N, H, W).  rates: learning rates of Adam from
    the first to the ``steps``-th step, by a cosine. Raises DeviceError when deodr is not installed.
    """

    def __init__(
        self, mesh: Mesh, matrices: np.ndarray, masks: np.ndarray, rates: tuple[float, float], steps: int
    ):
        try:
            from deodr.differentiable_renderer import Scene2D  # type: ignore[import-not-found]
            from deodr.triangulated_mesh import TriMeshAdjacencies  # type: ignore[import-not-found]
        except ImportError as error:
            raise DeviceError(
                f"deodr cannot be imported ({error}); install it with `pip install deodr=={VERSION}`"
            ) from None
        self.facts: dict[str, Any] = {"name": "deodr", "version": version("deodr")}
        self._make_scene = Scene2D
        self._matrices, self._goals = matrices, masks.astype(np.float64)[..., None]
        self._faces = mesh.faces.astype(np.uint32)
        self._adjacency = TriMeshAdjacencies(mesh.faces, nb_vertices=len(mesh.positions))
        self._position = mesh.positions.copy()
        self._rates, self._steps, self._step = rates, steps, 0
        self._moments = np.zeros((2, *mesh.positions.shape))
        count, vertices = len(mesh.faces), len(mesh.positions)
        self._constant: dict[str, Any] = {
            "faces": self._faces,
            "faces_uv": self._faces,
            "textured": np.zeros(count, bool),
            "uv": np.zeros((vertices, 2)),
            "shade": np.zeros(vertices),
            "colors": np.ones((vertices, 1)),
            "shaded": np.zeros(count, bool),
            "height": masks.shape[1],
            "width": masks.shape[2],
            "nb_colors": 1,
            "texture": np.zeros((0, 0)),
            "background_color": np.zeros(1),
            "backface_culling": True,
            "integer_pixel_centers": False,
        }

    def positions(self) -> np.ndarray:
        return self._position

    def run(self, steps: int) -> None:
        """Forward, backward and Adam."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # two-dimensional cross products
            for _ in range(steps):
                gradient = np.zeros_like(self._position)
                for matrix, goal in zip(self._matrices, self._goals, strict=True):
                    gradient += self._gradient(matrix, goal)
                self._adam(gradient)

    def _gradient(self, matrix: np.ndarray, goal: np.ndarray) -> np.ndarray:
        clip = self._position @ matrix[:, :3].T + matrix[:, 3]
        w = clip[:, 3:]
        half = np.array([0.5 * self._constant["width"], 0.5 * self._constant["height"]])
        ndc = clip[:, :2] / w
        points = (ndc + 1.0) * half
        scene = self._make_scene(
            ij=points,
            depths=np.ascontiguousarray(w[:, 0]),
            edgeflags=self._adjacency.edge_on_silhouette(points),
            **self._constant,
        )
        scene.render_compare_and_backward(goal, sigma=1.0, make_copies=False)
        moved = scene.ij_b * half / w
        away = -(moved * ndc).sum(1, keepdims=True)
        return moved @ matrix[:2, :3] + away * matrix[3, :3]

    def _adam(self, gradient: np.ndarray) -> None:
        self._step += 1
        first, second = self._moments
        first += 0.1 * (gradient - first)
        second += 0.001 * (gradient**2 - second)
        mean, spread = first / (1 - 0.9**self._step), second / (1 - 0.999**self._step)
        start, end = self._rates
        place = min(self._step - 1, self._steps) / self._steps
        rate = end + 0.5 * (start - end) * (1 + np.cos(np.pi * place))
        self._position = self._position - rate * mean / (np.sqrt(spread) + 1e-8)
