"""Cameras and punctual lights of a glTF file."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from dressi.errors import InputError
from dressi.render.cameras import Camera
from dressi.render.formats.gltf.document import Document
from dressi.render.formats.gltf.nodes import Nodes, Placed
from dressi.render.io.files import shown
from dressi.render.shading.lights import DirectionalLight, LightSource, PointLight, SpotLight

LIGHTS = "KHR_lights_punctual"
HEIGHT = 512
"""Rows of the pictures of cameras, of which files know the shape alone."""
FARTHEST = 1e5
"""Times the near plane: the far plane of cameras without one."""


def _axes(node: Placed) -> tuple[np.ndarray, np.ndarray]:
    """Unit right, up and back (rows), and the place."""
    matrix = np.eye(4) if node.matrix is None else node.matrix
    u, _, v = np.linalg.svd(matrix[:3, :3])
    turn = u @ v
    return (turn if np.linalg.det(turn) > 0 else -turn).T, matrix[:3, 3]


class Stage:
    """Where pictures are taken from, and what shines."""

    def __init__(self, document: Document):
        self.document, self.path, self.nodes = document, document.path, Nodes(document)

    def camera(self, node: Placed, name: str) -> Camera | None:
        """The camera of a node; None with a warning for a parallel projection."""
        entry = self.document.item("cameras", node.entry["camera"])
        if entry.get("type") != "perspective":
            warnings.warn(
                f"'{self.path}': camera '{name}' is {shown(entry.get('type'))}, which is not read here and was left out",
                stacklevel=6,
            )
            return None
        lens = entry.get("perspective", {})
        fov, near = self.document.number(lens, "yfov", 1.0), self.document.number(lens, "znear", 0.01)
        aspect = self.document.number(lens, "aspectRatio", 1.0)
        far = self.document.number(lens, "zfar", near * FARTHEST)
        if not (0 < fov < np.pi and 0 < near < far and 1e-3 < aspect < 1e3):
            raise InputError(
                f"'{self.path}': camera '{name}' has yfov {fov:.4g}, aspectRatio {aspect:.4g}, znear {near:.4g} and zfar"
                f" {far:.4g}, which is no view; export it again"
            )
        (_, up, back), place = _axes(node)
        size = (max(round(HEIGHT * aspect), 1), HEIGHT)
        camera = Camera.perspective(
            np.degrees(fov), size, place, place - back, up=up, near=near, far=far, name=name
        )
        # The view has the shape of the file, not that of whole pixels.
        exact = np.diag([size[0] / (HEIGHT * aspect), 1.0, 1.0])
        exact[0, 2] = camera.intrinsics[0, 2] * (1 - exact[0, 0])
        return replace(camera, intrinsics=exact @ camera.intrinsics)

    def light(self, node: Placed) -> LightSource | None:
        """The light of a node, if it has one."""
        extension = node.entry.get("extensions", {}).get(LIGHTS)
        if extension is None:
            return None
        lights = self.document.json.get("extensions", {}).get(LIGHTS, {}).get("lights", [])
        number = self.document.whole(extension, "light")
        if number >= len(lights):
            raise InputError(
                f"'{self.path}': {self.nodes.name(node.index)} refers to light {number} of {len(lights)}; export it again"
            )
        entry = lights[number]
        colour = self.document.numbers(entry, "color", (1.0, 1.0, 1.0))
        colour = colour * self.document.number(entry, "intensity", 1.0)
        if colour.min() < 0:
            raise InputError(f"'{self.path}': light {number} is darker than black; export it again")
        if "range" in entry:
            warnings.warn(
                f"'{self.path}': light {number} has a range, which is not read here; its light falls off without an end",
                stacklevel=6,
            )
        (_, _, back), place = _axes(node)
        if entry.get("type") == "directional":
            return DirectionalLight(tuple(back.tolist()), tuple(colour.tolist()))
        if entry.get("type") == "spot":
            cone = entry.get("spot", {})
            inner = self.document.number(cone, "innerConeAngle", 0.0)
            outer = self.document.number(cone, "outerConeAngle", np.pi / 4)
            if not 0 <= inner < outer <= np.pi / 2:
                raise InputError(
                    f"'{self.path}': light {number} has a cone from {inner:.4g} to {outer:.4g}, which is none; export it again"
                )
            return SpotLight(
                tuple(place.tolist()), tuple((-back).tolist()), tuple(colour.tolist()), inner, outer
            )
        if entry.get("type") != "point":
            raise InputError(
                f"'{self.path}': light {number} is {shown(entry.get('type'))}, which glTF lacks; export it again"
            )
        return PointLight(tuple(place.tolist()), tuple(colour.tolist()))
