"""Calibrated photographs for plane-sweep stereo: their cameras, and where depths of several views agree."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image


class Views:
    """Views of a folder with cameras.json, image/ and mask/, at a width.

    K, R, t: a pixel is K (R x + t), centres of texels at halves. centres: of the cameras; the scene lies in the unit sphere.
    """

    def __init__(self, folder: Path, width: int):
        self.folder, self.width, self.height = folder, width, width * 3 // 4
        self.cameras = json.loads((folder / "cameras.json").read_text())["views"]
        to_size = np.diag([width / 800, width / 800, 1.0]) @ np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]])
        self.K = [to_size @ np.array(c["K"]) for c in self.cameras]
        self.R, t = ([np.array(c[name], float) for c in self.cameras] for name in "Rt")
        self.t = [x.ravel() for x in t]
        self.centres = np.stack([-r.T @ x for r, x in zip(self.R, self.t, strict=True)])

    def plane(self, name: str, k: int) -> np.ndarray:
        """(H, W) from 0 to 1: view k of the folder ``name``, grey."""
        image = Image.open(self.folder / name / self.cameras[k]["file"]).convert("L")
        image = image.resize((self.width, self.height), Image.Resampling.BOX)
        return np.asarray(image, np.float32) / 255

    def beside(self, k: int, count: int) -> list[int]:
        """The views whose directions to the middle of the scene differ least."""
        towards = self.centres / np.linalg.norm(self.centres, axis=1, keepdims=True)
        return np.argsort(-towards @ towards[k])[1 : count + 1].tolist()

    def depths(self, k: int, count: int) -> np.ndarray:
        """Of planes through the unit sphere, equally far apart in the picture."""
        distance = np.linalg.norm(self.centres[k])
        return 1 / np.linspace(1 / (distance - 1.0), 1 / (distance + 1.0), count)

    def homographies(self, k: int, other: int, depths: np.ndarray) -> np.ndarray:
        """From pixels of view k through planes that face it to pixels of another view."""
        turn = self.R[other] @ self.R[k].T
        move = self.t[other] - turn @ self.t[k]
        through = turn + move[:, None] * np.array([0, 0, 1.0]) / depths[:, None, None]
        return (self.K[other] @ through @ np.linalg.inv(self.K[k])).reshape(-1, 1, 1, 3, 3)

    def votes(
        self, k: int, maps: Mapping[int, np.ndarray], sure: Mapping[int, np.ndarray], count: int
    ) -> np.ndarray:
        """(H, W): how many of the views beside view k have a sure depth that differs by less than 1 % there."""
        column, row = np.meshgrid(np.arange(self.width) + 0.5, np.arange(self.height) + 0.5)
        pixels = np.stack([column, row, np.ones_like(row)], -1)
        points = (pixels @ np.linalg.inv(self.K[k]).T * maps[k][..., None] - self.t[k]) @ self.R[k]
        votes = np.zeros(maps[k].shape, int)
        for other in (j for j in self.beside(k, count) if j in maps):
            q = points @ self.R[other].T + self.t[other]
            x, y = np.floor((q @ self.K[other].T)[..., :2] / q[..., 2:]).astype(int).transpose(2, 0, 1)
            seen = (x >= 0) & (x < self.width) & (y >= 0) & (y < self.height)
            x, y = np.clip(x, 0, self.width - 1), np.clip(y, 0, self.height - 1)
            votes += seen & sure[other][y, x] & (np.abs(maps[other][y, x] / q[..., 2] - 1) < 0.01)
        return votes
