"""Other differentiable rasterizers at the same task: deodr on one thread of the processor, nvdiffrast on CUDA."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np

from ...errors import DeviceError
from ...render import clip_to_opengl
from ...render.mesh import Mesh
from .stencils import imported

DEODR = "deodr==0.2.3"
NVDIFFRAST = "git+https://github.com/NVlabs/nvdiffrast"


@dataclass(frozen=True)
class DeodrLoss:
    """Means over pictures of |mask - goal|^2 + weight |colour - goal|^2, and their gradients, by deodr (de La Gorce
    et al. 2011), whose edges are antialiased and differentiable. The projection is NumPy here, in float64.

    faces: (F, 3), counter-clockwise from outside.  matrices: (views, 4, 4), from positions to clip space.
    pictures, masks: (views, H, W, 3) linear and (views, H, W).  absolute: |colour - goal| instead of its square.
    Without pictures only masks are drawn. Raises DeviceError where deodr is not installed.
    """

    faces: np.ndarray
    matrices: np.ndarray
    pictures: np.ndarray | None
    masks: np.ndarray
    weight: float = 0.0
    absolute: bool = False

    @cached_property
    def edges(self) -> np.ndarray:
        return edge_numbers(self.faces)

    @cached_property
    def goals(self) -> np.ndarray:
        """(views, H, W, channels), the mask last."""
        masks = self.masks[..., None].astype(np.float64)
        return masks if self.pictures is None else np.concatenate([self.pictures, masks], axis=-1)

    def __call__(
        self, views: Sequence[int], positions: np.ndarray, colours: np.ndarray | None = None
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """The loss, and its gradients by positions (V, 3) and colours (V, 3), linear, which pictures need."""
        shades = np.ones((len(positions), 1))
        shades = shades if colours is None else np.concatenate([colours, shades], axis=1)
        height, width = self.masks.shape[1:]
        half, scale = np.array([width, height]) / 2, 1 / (len(views) * width * height)
        weights = scale * np.array([self.weight] * (shades.shape[1] - 1) + [1.0])
        loss, by_shade, found = 0.0, np.zeros_like(shades), np.zeros_like(positions)
        for view in views:
            matrix = self.matrices[view]
            clip = positions @ matrix[:, :3].T + matrix[:, 3]
            plane = clip[:, :2] / clip[:, 3:]
            scene = self.scene((plane + 1) * half - 0.5, clip[:, 3], shades, height, width)
            away = scene.render(1.0)[0] - self.goals[view]
            terms, slope = np.square(away), 2 * away
            if self.absolute:
                terms[..., :-1], slope[..., :-1] = np.abs(away[..., :-1]), np.sign(away[..., :-1])
            loss += float((weights * terms).sum())
            scene.render_backward(weights * slope, make_copies=False)
            by_shade += scene.colors_b
            by_plane = scene.ij_b * half
            by_clip = np.concatenate([by_plane, -(by_plane * plane).sum(1, keepdims=True)], axis=1)
            found += by_clip / clip[:, 3:] @ matrix[[0, 1, 3], :3]
        return loss, found, by_shade[:, :-1]

    def scene(
        self, plane: np.ndarray, depths: np.ndarray, shades: np.ndarray, height: int, width: int
    ) -> Any:
        """What deodr draws. plane: (V, 2) in pixels, centres at integers."""
        faces, channels = self.faces.astype(np.uint32), shades.shape[1]
        a, b, c = (plane[self.faces[:, k]] for k in range(3))
        front = (b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0] < 0
        return imported("deodr", "deodr.differentiable_renderer", DEODR).Scene2D(
            faces=faces, faces_uv=faces, ij=plane, depths=depths, textured=np.zeros(len(faces), bool),
            uv=np.zeros((len(plane), 2)), shade=np.zeros(len(plane)), colors=shades,
            shaded=np.zeros(len(faces), bool), edgeflags=outlines(self.edges, front), height=height, width=width,
            nb_colors=channels, texture=np.zeros((2, 2, channels)), background_color=np.zeros(channels),
            clockwise=False, backface_culling=True,
        )  # fmt: skip


def edge_numbers(faces: np.ndarray) -> np.ndarray:
    """(F, 3): which edge of the mesh leads from each corner of a face to the next."""
    ends = np.stack([faces, np.roll(faces, -1, axis=1)], axis=-1)
    _, edge = np.unique(np.sort(ends.reshape(-1, 2), axis=1), axis=0, return_inverse=True)
    return edge.reshape(-1, 3)


def outlines(edges: np.ndarray, front: np.ndarray) -> np.ndarray:
    """(F, 3) bool: the edges of faces that look at the camera whose other face does not, or is not there.

    edges: of ``edge_numbers``.  front: (F,), which faces do."""
    fronts = np.bincount(edges.ravel(), weights=np.repeat(front, 3))
    return (fronts[edges] == 1) & front[:, None]


class Adam:
    """Moves of Adam.  uniform: by the largest second moment of all entries (Nicolet et al. 2021)."""

    def __init__(self, like: np.ndarray, uniform: bool = False):
        self.mean, self.square = np.zeros_like(like), np.zeros_like(like)
        self.uniform, self.steps = uniform, 0

    def move(self, gradient: np.ndarray) -> np.ndarray:
        self.steps += 1
        self.mean = 0.9 * self.mean + 0.1 * gradient
        self.square = 0.999 * self.square + 0.001 * gradient**2
        square = self.square / (1 - 0.999**self.steps)
        size = np.sqrt(square.max() if self.uniform else square)
        return self.mean / (1 - 0.9**self.steps) / (size + 1e-8)


class Deodr:
    """Steps of deodr: silhouettes against masks (N, H, W), Adam on the positions.

    matrices: (N, 4, 4) to clip space.  rates: from the first to the ``steps``-th step, by a cosine. Raises
    DeviceError where deodr is not installed.
    """

    def __init__(
        self, mesh: Mesh, matrices: np.ndarray, masks: np.ndarray, rates: tuple[float, float], steps: int
    ):
        imported("deodr", "deodr.differentiable_renderer", DEODR)
        self.facts: dict[str, Any] = {"name": "deodr", "version": version("deodr")}
        self._loss, self._position = DeodrLoss(mesh.faces, matrices, None, masks), mesh.positions.copy()
        self._adam, self._rates, self._steps = Adam(self._position), rates, steps

    def positions(self) -> np.ndarray:
        return self._position

    def run(self, steps: int) -> None:
        for _ in range(steps):
            rate = falling(self._rates, self._adam.steps, self._steps)
            _, gradient, _ = self._loss(range(len(self._loss.masks)), self._position)
            self._position = self._position - rate * self._adam.move(gradient * self._loss.masks.size)


def falling(rates: tuple[float, float], step: int, steps: int) -> float:
    """A rate that falls by a cosine."""
    start, end = rates
    return end + 0.5 * (start - end) * (1 + np.cos(np.pi * min(step, steps) / steps))


class Nvdiffrast:
    """Steps of nvdiffrast on CUDA: Adam on the positions of silhouettes, whose edges ``antialias`` blends, or on
    the ``texels`` x ``texels`` of a texture with mipmaps, against masks (N, H, W) or colours (N, H, W, 3).

    mesh: of a texture with UVs.  rates: as those of Deodr.  module: with nvdiffrast's names, on CUDA or the
    CPU; without one nvdiffrast. Raises DeviceError where it, PyTorch or CUDA is missing.
    """

    def __init__(
        self, mesh: Mesh, matrices: np.ndarray, goals: np.ndarray, rates: tuple[float, float], steps: int, *,
        texels: int | None = None, module: Any = None,
    ):  # fmt: skip
        self._torch = torch = imported("nvdiffrast", "torch", f"torch {NVDIFFRAST}")
        cuda = torch.cuda.is_available()
        if module is None and not cuda:
            raise DeviceError(
                f"nvdiffrast needs a device of CUDA; where there is one, `pip install {NVDIFFRAST}`"
            )
        self._dr = dr = imported("nvdiffrast", "nvdiffrast.torch", NVDIFFRAST) if module is None else module
        name = dr.__name__.removesuffix(".torch") if module is None else dr.__name__
        self.facts: dict[str, Any] = {"name": name, "version": version(name.partition(".")[0])}
        place = self.place = "cuda:0" if cuda else "cpu"

        def tensor(values: Any, kind: Any = torch.float32) -> Any:
            return torch.tensor(np.ascontiguousarray(values), dtype=kind, device=place)

        self._context = dr.RasterizeCudaContext(**({"device": place} if cuda else {}))
        self._matrices = tensor(clip_to_opengl(matrices).swapaxes(-1, -2))
        self._position, self._one = tensor(mesh.positions), tensor(np.ones((len(mesh.positions), 1)))
        self._faces, self._size = tensor(mesh.faces, torch.int32), list(goals.shape[1:3])
        # The first row of nvdiffrast's pictures is the bottom.
        self._goals = tensor(goals[:, ::-1] if texels else goals[:, ::-1, :, None])
        self._texture = tensor(np.full((1, texels, texels, 3), 0.5)) if texels else None
        if texels:
            self._uvs, self._uv_faces = tensor(mesh.uvs), tensor(mesh.uv_faces, torch.int32)
        parameter = (self._position if self._texture is None else self._texture).requires_grad_()
        self._optimizer, self._rates = torch.optim.Adam([parameter], lr=rates[0]), rates
        self._step, self._steps = 0, steps

    def positions(self) -> np.ndarray:
        return self._position.detach().cpu().numpy().astype(np.float64)

    def loss(self) -> Any:
        dr, clip = self._dr, self._torch.cat([self._position, self._one], 1) @ self._matrices
        rast, rast_db = dr.rasterize(self._context, clip, self._faces, resolution=self._size)
        found = (rast[..., 3:] > 0).float()
        if self._texture is None:
            found = dr.antialias(found, rast, clip, self._faces)
        else:
            uv, uv_da = dr.interpolate(self._uvs, rast, self._uv_faces, rast_db=rast_db, diff_attrs="all")
            found = found * dr.texture(self._texture, uv, uv_da, filter_mode="linear-mipmap-linear")
        return (found - self._goals).square().sum()

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self._optimizer.param_groups[0]["lr"] = falling(self._rates, self._step, self._steps)
            self._optimizer.zero_grad()
            self.loss().backward()
            self._optimizer.step()
            self._step += 1
        if self.place != "cpu":
            self._torch.cuda.synchronize()
