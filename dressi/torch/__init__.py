"""Differentiable rendering of PyTorch tensors: the operations of nvdiffrast, and Functions of your own, on Vulkan.

    import dressi.torch as dr  # instead of: import nvdiffrast.torch as dr

    context = dr.RasterizeCudaContext()
    rast, rast_db = dr.rasterize(context, positions, triangles, resolution=[256, 256])
    colour, _ = dr.interpolate(colours, rast, triangles)
    colour = dr.antialias(colour, rast, positions, triangles)

operations: signatures, shapes and conventions of nvdiffrast, on CPU tensors of float32 and int32
    rasterize, DepthPeeler, interpolate, texture, texture_construct_mip, antialias,
    antialias_construct_topology_hash, RasterizeCudaContext, RasterizeGLContext

graphs: a function of Variables as a function of tensors
    wrap

The device is that of DRESSI_DEVICE, or the best one. Where nvdiffrast differs: z/w has a gradient, too; any resolution
will do; ``antialias`` draws the silhouette edges, and so finds those of triangles that are thinner than a pixel.
"""

from .context import RasterizeCudaContext, RasterizeGLContext
from .operations import (
    antialias,
    antialias_construct_topology_hash,
    interpolate,
    texture,
    texture_construct_mip,
)
from .raster import DepthPeeler, rasterize
from .wrapping import wrap

__all__ = [
    "DepthPeeler",
    "RasterizeCudaContext",
    "RasterizeGLContext",
    "antialias",
    "antialias_construct_topology_hash",
    "interpolate",
    "rasterize",
    "texture",
    "texture_construct_mip",
    "wrap",
]
