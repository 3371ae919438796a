"""Pictures of scenes of several nodes and materials, as targets of a fit."""

from __future__ import annotations

import numpy as np

from ....ad import traversal
from ...cameras import Cameras
from ...drawing.entry import render
from ...engine import MakeEngine
from ...scene.scene import Scene
from ...shading.lights import LightSource


def draw_scene(
    scene: Scene, cameras: Cameras, make_engine: MakeEngine, samples: int, light: LightSource | None
) -> tuple[np.ndarray, np.ndarray]:
    """Coverage (N, H, W) and linear colours on black (N, H, W, 3) of all nodes, one camera after the other on one engine.

    samples: of a pixel, on a grid of about so many.  light: None for the colours as they are. Raises InputError.
    """
    side = max(round(samples**0.5), 1)
    width, height = cameras.size
    masks, colours = np.zeros((len(cameras), height, width)), np.zeros((len(cameras), height, width, 3))
    engine, leaves, sent = make_engine(), {}, {}
    try:
        for k, camera in enumerate(cameras):
            drawn = render(scene, camera, light=light, filter="trilinear", samples=side)
            values = drawn.recipe.values
            if not leaves:
                own = {name: value.leaf(name) for name, value in values.items()}
                picture = drawn.recipe.picture(own)
                engine.set_output("mask", picture.mask)
                engine.set_output("colour", picture.colour)
                read = set(traversal.leaves([picture.mask, picture.colour]))
                leaves = {name: leaf for name, leaf in own.items() if leaf in read}
                sent = {name: values[name].array for name in leaves}
            for name, leaf in leaves.items():
                if not np.array_equal(sent[name], values[name].array):
                    engine.send(leaf, values[name].array)
                    sent[name] = values[name].array
            engine.step()
            masks[k], colours[k] = engine.recv("mask")[0], engine.recv("colour")[0]
    finally:
        engine.close()
    return masks, colours
