"""The contexts of nvdiffrast's rasterizers. Here they only say what rasterize gives: there is one device."""

from __future__ import annotations

from typing import Any

from ..errors import InputError


class RasterizeGLContext:
    """What rasterize gives. All contexts draw on the same Vulkan device, and none holds anything.

    output_db: whether rasterize gives the derivatives of u and v by pixels.  mode: "automatic" or "manual"; in neither
    is there anything to activate.  device: where the tensors are: the CPU, or None. Raises InputError.

    >>> import dressi.torch as dr
    >>> dr.RasterizeGLContext(output_db=False).output_db
    False
    """

    def __init__(self, output_db: bool = True, mode: str = "automatic", device: Any = None):
        if not isinstance(output_db, bool):
            raise InputError(f"output_db is True or False, not {output_db!r}")
        if mode not in ("automatic", "manual"):
            raise InputError(f"mode is 'automatic' or 'manual', not {mode!r}")
        if device is not None and not str(device).startswith("cpu"):
            raise InputError(
                f"a context for tensors on {device}: dressi.torch takes CPU tensors; leave device out, and choose the "
                "Vulkan device with DRESSI_DEVICE"
            )
        self.output_db, self.mode = output_db, mode
        self.active_depth_peeler: Any = None

    def set_context(self) -> None:
        """Does nothing: there is nothing to activate."""

    def release_context(self) -> None:
        """Does nothing: there is nothing to deactivate."""


class RasterizeCudaContext(RasterizeGLContext):
    """The same, with the name and the arguments of nvdiffrast's CUDA rasterizer.

    device: where the tensors are: the CPU, or None. Raises InputError.

    >>> import dressi.torch as dr
    >>> dr.RasterizeCudaContext().output_db
    True
    """

    def __init__(self, device: Any = None):
        super().__init__(device=device)
