"""Which operators, with which options, the random graphs use."""

from __future__ import annotations

import inspect
from collections import Counter
from functools import cache
from typing import Any

from dressi.ad import functional
from dressi.ad.graph import Variable

LEFT_OUT = {
    **dict.fromkeys(
        ("asin", "acos", "atan", "atan2", "tan", "sphere_uv", "sample_sphere"),
        "Vulkan lets drivers approximate arcs and tangents to a few digits; their own tests know by how much",
    ),
    **dict.fromkeys(
        (
            "box_blur", "gaussian_blur", "guided_filter", "histogram", "bilateral_filter", "slice_grid", "splat_grid",
            "bayer_filter", "bayer_mosaic", "demosaic", "depth_to_space", "space_to_depth", "collapse_pyramid",
            "gaussian_pyramid", "laplacian_pyramid", "local_laplacian", "recurrence", "recursive_blur",
            "transform_points", "warp", "warp_homography",
        ),
        "are composed of operators that are drawn",
    ),
    **dict.fromkeys(("checkpoint", "loop"), "take functions; their own tests compare them with unrolled graphs"),
    **dict.fromkeys(("derivative", "hessian", "jacobian"), "return rows; their own tests draw random graphs"),
    "source": "returns text",
    "constant_value": "returns an array",
    "Like": "is a type",
}  # fmt: skip
"""The names of F that no random graph uses, and why."""


@cache
def _signature(name: str) -> inspect.Signature:
    return inspect.signature(getattr(functional, name))


class Recorder:
    """Stands for F: counts the calls of every operator, and of each of its options that is a word or a switch."""

    def __init__(self) -> None:
        self.used: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        operator = getattr(functional, name)

        def recorded(*arguments: Any, **more: Any) -> Variable:
            found = operator(*arguments, **more)
            self.used[name] += 1
            for key, value in _signature(name).bind(*arguments, **more).arguments.items():
                if isinstance(value, str | bool):
                    self.used[f"{name} {key}={value}"] += 1
            return found

        return recorded


F = Recorder()


def missing(used: Counter[str] | set[str]) -> list[str]:
    """Operators that are not among those used, and not left out on purpose."""
    return [name for name in functional.__all__ if name not in used and name not in LEFT_OUT]
