"""Differentiable rendering of NumPy arrays: each function returns its value, and a function that pulls gradients back.

    import dressi.numpy as dn

    (rast, rast_db), pull_rast = dn.rasterize(positions, triangles, (256, 256))
    colour, pull_colour = dn.interpolate(colours, rast, triangles)
    gradients = pull_colour(2 * (colour - target))  # by name: gradients["attr"], gradients["rast"]
    by_position = pull_rast(gradients["rast"])["pos"]

operations: shapes and conventions of nvdiffrast
    rasterize, interpolate, texture, texture_mips, antialias

graphs: a function of Variables as a function of arrays
    wrap

Arrays are anything that NumPy reads, or that has DLPack; floats become float32 and integers int32. The device is that of
DRESSI_DEVICE, or the best one.
"""

from .operations import antialias, interpolate, rasterize, texture, texture_mips, wrap

__all__ = ["antialias", "interpolate", "rasterize", "texture", "texture_mips", "wrap"]
