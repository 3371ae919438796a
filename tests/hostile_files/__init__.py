"""Hostile files for every reader: damaged ones, crafted ones, and a driver that loads them in processes of their own.

PYTHONPATH=.:tests python -m hostile_files --minutes 30 --seed 1 --json out.json
"""

import sys
from pathlib import Path

_TESTS = Path(__file__).resolve().parent.parent
sys.path += [
    str(_TESTS / part) for part in ("render/io", "report", "cli/many") if str(_TESTS / part) not in sys.path
]

from hostile_files.files import (  # noqa: E402
    ball,
    chunk,
    deep_png,
    png,
    radiance,
    text_gltf,
    text_ply,
    text_stl,
    whole_files,
    whole_folders,
)  # fmt: skip

__all__ = [
    "ball", "chunk", "deep_png", "png", "radiance", "text_gltf", "text_ply", "text_stl", "whole_files", "whole_folders",
]  # fmt: skip
