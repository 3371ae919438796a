"""Figures of the paper (Takimoto et al., "Dressi", Computer Graphics Forum 41(2), 2022), for comparison."""

from __future__ import annotations

from dataclasses import dataclass

CITATION = (
    "Takimoto et al., Dressi: A Hardware-Agnostic Differentiable Renderer with Reactive Shader Packing and Soft"
    " Rasterization, 2022"
)
DESKTOP = "GeForce RTX 2080"


@dataclass(frozen=True)
class Platform:
    """A row of table 2. attachments: input attachments, None where the paper has no number.  geometry, texture: SubStages
    and Stages before and after the cache.  ms: of a step of geometry and of texture."""

    name: str
    attachments: int | None
    geometry: tuple[int, int, int, int]
    texture: tuple[int, int, int, int]
    ms: tuple[float, float]


TABLE2 = (
    Platform("NVIDIA RTX 2080", 1048576, (218, 129, 206, 122), (187, 160, 86, 69), (3.0, 2.0)),
    Platform("NVIDIA Tesla T4", 1048576, (220, 131, 207, 124), (186, 160, 88, 70), (6.1, 4.1)),
    Platform("AMD Radeon R9 M360", None, (219, 129, 206, 122), (187, 160, 86, 69), (51.4, 28.8)),
    Platform("Intel UHD Graphics 620", 8, (348, 134, 336, 128), (212, 181, 111, 84), (38.3, 23.5)),
    Platform("Arm Mali-G76", 4, (687, 142, 670, 132), (278, 187, 192, 86), (420.0, 189.5)),
)

TABLE3 = {
    "full": (58.441, 30.874),
    "no stage packing": (110.686, 47.462),
    "no reactive cache": (317.814, 306.594),
    "neither": (364.524, 315.741),
    "one function a pass": (1780.90, 1652.14),
}
"""Milliseconds of a step of geometry and of texture on an Arm Mali-G76, by what is switched off."""

TABLE4 = {
    682: {256: (0.304, 1.060, 8.054), 512: (0.442, 1.305, 12.570), 1024: (1.034, 2.371, 32.136), 2048: (3.301, 5.403, 105.823)},
    14208: {256: (0.308, 0.480, 10.272), 512: (0.480, 0.929, 15.354), 1024: (1.106, 2.523, 39.034), 2048: (3.545, 8.010, 134.795)},
    51414: {256: (0.364, 0.646, 9.393), 512: (0.502, 0.853, 14.919), 1024: (1.104, 2.086, 36.382), 2048: (3.469, 5.518, 121.624)},
}  # fmt: skip
"""Milliseconds forward and backward by triangles and pixels a side: Dressi, nvdiffrast and PyTorch3D on an RTX 2080."""

TABLE5 = {
    55704: {1024: (2.929, 6.584, 137.681), 2048: (3.965, 8.922, 143.237), 4096: (8.148, 18.676, 141.667)},
    14217: {1024: (2.893, 6.254, 118.184), 2048: (3.953, 8.653, 119.267), 4096: (8.045, 18.635, 120.017)},
}
"""The same by triangles and texels a side, pictures of 2048x2048."""

FIGURE9 = (
    "Figure 9 of the paper shows the distance from the true shape, which settles after about 150 steps, and the colour loss,"
    " which settles after about 50, on five platforms: all end at almost the same values."
)
