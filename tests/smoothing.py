"""A small energy with a known solution, for tests of least squares."""

import numpy as np

from dressi import F, Variable


def smoothing(size: int = 24, batch: int = 1) -> tuple[list, Variable, Variable]:
    """Residuals that keep an image near another one and its differences small, the image, and that other one."""
    y, x = np.mgrid[:size, :size]
    values = np.stack([np.sin(0.37 * x + k) * np.cos(0.21 * y) for k in range(batch)])
    data = Variable.of(values, batched=True, name="data")
    image = Variable.of(0 * values, batched=True, name="image")
    right = F.crop(image, 1, 0, (size - 1, size)) - F.crop(image, 0, 0, (size - 1, size))
    down = F.crop(image, 0, 1, (size, size - 1)) - F.crop(image, 0, 0, (size, size - 1))
    return [image - data, 2.0 * right, 2.0 * down], image, data


def smoothed(values: np.ndarray) -> np.ndarray:
    """The minimiser, by a dense solve."""
    size = values.shape[-1]
    one = np.eye(size)[1:] - np.eye(size)[:-1]
    across, down = np.kron(np.eye(size), one), np.kron(one, np.eye(size))
    system = np.eye(size**2) + 4.0 * (across.T @ across + down.T @ down)
    return np.linalg.solve(system, values.reshape(-1, size**2).T).T.reshape(values.shape)
