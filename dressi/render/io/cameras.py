"""Cameras written as the ``cameras.json`` that photographs are read with."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from dressi.render.cameras import Camera
from dressi.render.io.lens import Lens

NAME = "cameras.json"


def encode_cameras(views: Sequence[tuple[str, Camera, Lens]], bounds: np.ndarray | None = None) -> bytes:
    """The text of a ``cameras.json``: of each view the name of its image, its camera in pixels of that image, and its
    lens. bounds: (2, 3) box of the object."""
    document: dict = {} if bounds is None else {"bbox": np.asarray(bounds).tolist()}
    document |= {"convention": "x_camera = R x + t, x right, y down, z forward", "pixel_center": 0.5}
    document["views"] = [
        {
            "file": name,
            "width": camera.size[0],
            "height": camera.size[1],
            "K": camera.intrinsics.tolist(),
            "R": camera.rotation.tolist(),
            "t": camera.translation.tolist(),
            **{key: value for key, value in asdict(lens).items() if value},
        }
        for name, camera, lens in views
    ]
    return (json.dumps(document, indent=1) + "\n").encode()
