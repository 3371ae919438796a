"""Rasterize tensors, in one layer or in several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import InputError
from ..frameworks.checks import resolution_of
from ..frameworks.operations.rasterize import Rasterize
from .context import RasterizeGLContext
from .tensors import Tensor, apply, torch


def rasterize(
    glctx: RasterizeGLContext,
    pos: Tensor,
    tri: Tensor,
    resolution: Sequence[int],
    ranges: Tensor | None = None,
    grad_db: bool = True,
) -> tuple[Tensor, Tensor]:
    """The nearest triangle at every pixel, and the place in it.

    glctx: a context.  pos: float32 (N, V, 4), vertices in the clip space of OpenGL for each of N images; or (V, 4) with
    ``ranges``.  tri: int32 (T, 3), numbers of vertices.  resolution: (height, width).  ranges: int32 (N, 2): image n draws
    the triangles from ``ranges[n, 0]`` on, ``ranges[n, 1]`` of them.  grad_db: whether the second output passes gradients.

    Returns two float32 (N, height, width, 4), 0 where there is no triangle. The first: (u, v, z/w, triangle + 1); u and v
    are the perspective-correct weights of the first and the second vertex. The second, (N, height, width, 0) if the context
    gives none: (du/dX, du/dY, dv/dX, dv/dY) by pixels. The first row is the bottom of the image. Both are differentiable
    in pos, z/w included. Raises InputError.

    >>> import torch, dressi.torch as dr
    >>> pos = torch.tensor([[[-1.0, -1, 0, 1], [1, -1, 0, 1], [-1, 1, 0, 1]]])
    >>> tri = torch.tensor([[0, 1, 2]], dtype=torch.int32)
    >>> rast, rast_db = dr.rasterize(dr.RasterizeCudaContext(), pos, tri, resolution=[2, 4])
    >>> rast[0, 0, :, 3].tolist()
    [1.0, 1.0, 1.0, 0.0]
    """
    _check_context(glctx)
    if glctx.active_depth_peeler is not None:
        raise InputError(
            "this context is peeling depth layers: call rasterize_next_layer, or leave the DepthPeeler's block first"
        )
    return _rasterized(glctx, pos, tri, resolution, ranges, grad_db)


def _check_context(glctx: object) -> None:
    if not isinstance(glctx, RasterizeGLContext):
        raise InputError(
            f"glctx is a RasterizeCudaContext or a RasterizeGLContext of dressi.torch, not {glctx!r}"
        )


def _rasterized(
    glctx: RasterizeGLContext,
    pos: Tensor,
    tri: Tensor,
    resolution: Sequence[int],
    ranges: Tensor | None,
    grad_db: bool,
    before: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    # As in nvdiffrast, ranges are ignored where every image has vertices of its own.
    ranged = ranges is not None and isinstance(pos, torch.Tensor) and pos.dim() == 2
    operation = Rasterize(
        resolution_of(resolution), ranged, before is not None, glctx.output_db, bool(grad_db)
    )
    rest = [ranges] * ranged + ([] if before is None else [before])
    main, *db = apply(operation, pos, tri, *rest)
    return main, db[0] if db else torch.empty((*main.shape[:3], 0))


class DepthPeeler:
    """Layer after layer of a mesh, from front to back, in a ``with`` block. Arguments as for ``rasterize``.

    While the block runs, ``rasterize`` does not take the context. Raises InputError.

    >>> import torch, dressi.torch as dr
    >>> pos = torch.tensor([[-1.0, -1, 0, 1], [3, -1, 0, 1], [-1, 3, 0, 1]])
    >>> pos = torch.cat([pos, pos + torch.tensor([0.0, 0, 0.5, 0])])[None]
    >>> tri = torch.tensor([[3, 4, 5], [0, 1, 2]], dtype=torch.int32)
    >>> with dr.DepthPeeler(dr.RasterizeCudaContext(), pos, tri, [2, 2]) as peeler:
    ...     [peeler.rasterize_next_layer()[0][0, 0, 0, 3].item() for _ in range(3)]
    [2.0, 1.0, 0.0]
    """

    def __init__(
        self,
        glctx: RasterizeGLContext,
        pos: Tensor,
        tri: Tensor,
        resolution: Sequence[int],
        ranges: Tensor | None = None,
        grad_db: bool = True,
    ):
        _check_context(glctx)
        self._glctx = glctx
        self._arguments: tuple[Any, ...] | None = (pos, tri, resolution, ranges, grad_db)
        self._before: Tensor | None = None

    def __enter__(self) -> DepthPeeler:
        if self._arguments is None:
            raise InputError("this DepthPeeler's block has ended; make another one")
        if self._glctx.active_depth_peeler is not None:
            raise InputError("another DepthPeeler uses this context; leave its block first")
        self._glctx.active_depth_peeler = self
        return self

    def __exit__(self, *_: object) -> None:
        self._glctx.active_depth_peeler = None
        self._arguments = self._before = None

    def rasterize_next_layer(self) -> tuple[Tensor, Tensor]:
        """The next layer behind those so far, as from ``rasterize``. Raises InputError outside of the block."""
        if self._arguments is None or self._glctx.active_depth_peeler is not self:
            raise InputError("layers are peeled inside of the DepthPeeler's with block")
        result = _rasterized(self._glctx, *self._arguments, before=self._before)
        self._before = result[0].detach()
        return result
