"""Differentiable rendering of JAX arrays: the operations of nvdiffrast, and graphs of your own, under ``grad`` and ``jit``.

    import dressi.jax as dj

    def loss(positions):
        rast, _ = dj.rasterize(positions, triangles, (256, 256))
        colour, _ = dj.interpolate(colours, rast, triangles)
        return ((dj.antialias(colour, rast, positions, triangles) - target) ** 2).mean()

    slope = jax.grad(loss)(positions)

operations: shapes and conventions of nvdiffrast
    rasterize, interpolate, texture, texture_mips, antialias

graphs: a function of Variables as a function of arrays
    wrap

Each call leaves XLA (``jax.pure_callback``) and is computed on the device of DRESSI_DEVICE, or the best one; gradients are
in reverse mode (``jax.custom_vjp``). Under ``vmap`` calls run one after the other; use the batch axis instead.
"""

from .operations import antialias, interpolate, rasterize, texture, texture_mips, wrap

__all__ = ["antialias", "interpolate", "rasterize", "texture", "texture_mips", "wrap"]
