"""Interpolate, texture and antialias tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ..frameworks.operations.antialias import Antialias, edges_of
from ..frameworks.operations.interpolate import Interpolate, chosen_attributes
from ..frameworks.operations.texture import Mipmaps, level_limit, texture_operation
from .tensors import Boosted, Tensor, apply, array_of, length, torch


def interpolate(
    attr: Tensor,
    rast: Tensor,
    tri: Tensor,
    rast_db: Tensor | None = None,
    diff_attrs: str | Sequence[int] | None = None,
) -> tuple[Tensor, Tensor]:
    """Attributes of vertices at every pixel.

    attr: float32 (V, A), or (N, V, A), or (1, V, A) for all images.  rast: the first output of ``rasterize``.  tri: int32
    (T, 3), the entries of attr at the corners; another tensor than that of the positions will do.  rast_db: its second
    output.  diff_attrs: "all" or a list: the attributes whose derivatives by pixels are wanted, which needs rast_db.

    Returns float32 (N, height, width, A), 0 where there is no triangle, and (N, height, width, 2 x chosen attributes):
    dA/dX, dA/dY of each. Differentiable in attr, rast and rast_db. Raises InputError.

    >>> import torch, dressi.torch as dr
    >>> rast = torch.tensor([[[[0.25, 0.5, 0.0, 1.0]]]])
    >>> tri = torch.tensor([[0, 1, 2]], dtype=torch.int32)
    >>> dr.interpolate(torch.tensor([[1.0], [2.0], [4.0]]), rast, tri)[0].item()
    2.25
    """
    chosen = chosen_attributes(diff_attrs, length("attr", attr, -1), rast_db is not None)
    main, *da = apply(Interpolate(chosen), attr, rast, tri, *([rast_db] if chosen else []))
    return main, da[0] if da else torch.empty((*main.shape[:3], 0))


@dataclass(frozen=True, eq=False)
class MipStack:
    """The levels above a texture that stays as it is, made by ``texture_construct_mip``."""

    levels: tuple[Tensor, ...]
    shape: tuple[int, ...]
    most: int | None
    cube: bool


def texture(
    tex: Tensor,
    uv: Tensor,
    uv_da: Tensor | None = None,
    mip_level_bias: Tensor | None = None,
    mip: MipStack | list[Tensor] | None = None,
    filter_mode: str = "auto",
    boundary_mode: str = "wrap",
    max_mip_level: int | None = None,
) -> Tensor:
    """A filtered texture at every pixel.

    tex: float32 (N or 1, H, W, C); cube maps (N or 1, 6, W, W, C), the faces +X, -X, +Y, -Y, +Z, -Z turned as in OpenGL.
    uv: float32 (N, height, width, 2), (0, 0) is the corner of the first texel; of cube maps (N, height, width, 3), directions
    of any length, where (0, 0, 0) gives 0.  uv_da: its derivatives by pixels, from ``interpolate``.  mip_level_bias: float32
    (N, height, width), added to the level, or the level itself without uv_da.  mip: levels from ``texture_construct_mip``,
    or a list of tensors, which then get gradients of their own; by default they are made.  filter_mode: "nearest", "linear",
    "linear-mipmap-nearest", "linear-mipmap-linear", or "auto": the last one if uv_da or mip_level_bias is given, else
    "linear".  boundary_mode: "wrap", "clamp", "zero" (outside is 0) or "cube".  max_mip_level: the highest level used.

    Returns float32 (N, height, width, C). Differentiable in tex, uv, uv_da, mip_level_bias and a list of levels, where the
    filter depends on them smoothly. Raises InputError.

    >>> import torch, dressi.torch as dr
    >>> tex = torch.arange(4.0).reshape(1, 1, 4, 1)
    >>> dr.texture(tex, torch.tensor([[[[0.25, 0.5]]]])).item()
    0.5
    """
    levels, most = _levels(tex, mip, boundary_mode == "cube")
    operation = texture_operation(
        has_da=uv_da is not None,
        has_bias=mip_level_bias is not None,
        mips=None if levels is None else len(levels),
        filter_mode=filter_mode,
        boundary_mode=boundary_mode,
        max_mip_level=max_mip_level if most is None else most,
    )
    given = [uv_da] * operation.with_da + [mip_level_bias] * operation.with_bias
    given += (levels or []) if operation.mips is not None else []
    return apply(operation, tex, uv, *given)[0]


def _levels(tex: Tensor, mip: object, cube: bool) -> tuple[list[Tensor] | None, int | None]:
    """The levels above the texture that are given, None where they are to be made; and a limit for those that are."""
    if mip is None:
        return None, None
    if isinstance(mip, list):
        return mip, None
    if not isinstance(mip, MipStack):
        raise InputError(
            f"mip is made by texture_construct_mip, or a list of tensors, not {type(mip).__name__}"
        )
    shape = array_of("tex", tex).shape
    if (shape, cube) != (mip.shape, mip.cube):
        raise InputError(
            f"mip was made of another texture: tex has the shape {shape}, and that had {mip.shape}"
        )
    # A texture that learns passes its gradient through the levels, so that they are made again.
    return (None, len(mip.levels)) if tex.requires_grad else (list(mip.levels), None)


def texture_construct_mip(tex: Tensor, max_mip_level: int | None = None, cube_mode: bool = False) -> MipStack:
    """The mip levels of a texture that does not change, for ``texture(mip=...)``, which then does not make them again.

    tex: as for ``texture``.  max_mip_level: the highest level that is made.  cube_mode: whether it is a cube map. A texture
    that requires a gradient gets it. Raises InputError.

    >>> import torch, dressi.torch as dr
    >>> [level.shape for level in dr.texture_construct_mip(torch.zeros(1, 4, 8, 3)).levels]
    [torch.Size([1, 2, 4, 3]), torch.Size([1, 1, 2, 3]), torch.Size([1, 1, 1, 3])]
    """
    operation = Mipmaps(bool(cube_mode), level_limit(max_mip_level))
    levels = apply(operation, tex.detach() if isinstance(tex, torch.Tensor) else tex)
    return MipStack(levels, tuple(tex.shape), operation.most, operation.is_cube)


@dataclass(frozen=True, eq=False)
class TopologyHash:
    """The edges of triangles, made by ``antialias_construct_topology_hash``."""

    tri: Tensor
    edges: int


def antialias(
    color: Tensor,
    rast: Tensor,
    pos: Tensor,
    tri: Tensor,
    topology_hash: TopologyHash | None = None,
    pos_gradient_boost: float = 1.0,
) -> Tensor:
    """A picture with its silhouettes blended between neighbouring pixels, which gives visibility a gradient.

    color: float32 (N, height, width, C).  rast: the first output of ``rasterize``.  pos, tri: as for ``rasterize``.
    topology_hash: from ``antialias_construct_topology_hash``; the edges of the last few tri are kept without it, too.
    pos_gradient_boost: the gradient of pos is multiplied by it.

    Where an edge passes between two pixels, one takes some of the colour of the other, as a whole. The gradient is exact as
    long as no edge passes the centre of a pixel. There the picture jumps by half of the difference of two neighbouring
    colours of one surface, which no gradient of whole colours has: over the rim of a shaded object the gradient of a loss is
    0.95 to 1.22 of its change with smooth colours, 0.54 to 1.32 with a fine texture. ``wrap`` of
    ``hard_soft_ras(form="antialias")`` takes the colours at the edge, does not jump, and gives 0.99 to 1.01.

    Returns a tensor like color. Differentiable in color and pos. Raises InputError.

    >>> import torch, dressi.torch as dr
    >>> pos = torch.tensor([[[-1.0, -1, 0, 1], [0.1, -1, 0, 1], [0.1, 9, 0, 1]]])  # ends just right of the second centre
    >>> tri = torch.tensor([[0, 1, 2]], dtype=torch.int32)
    >>> rast, _ = dr.rasterize(dr.RasterizeCudaContext(), pos, tri, [4, 4])
    >>> dr.antialias((rast[..., 3:] > 0).float(), rast, pos, tri)[0, 0, :, 0]
    tensor([1.0000, 1.0000, 0.2000, 0.0000])
    """
    if topology_hash is not None and not isinstance(topology_hash, TopologyHash):
        raise InputError(
            f"topology_hash is made by antialias_construct_topology_hash, not {type(topology_hash).__name__}"
        )
    if pos_gradient_boost != 1.0:
        pos = Boosted.apply(pos, float(pos_gradient_boost))
    ranged = len(array_of("pos", pos).shape) == 2
    return apply(Antialias(ranged), color, rast, pos, tri)[0]


def antialias_construct_topology_hash(tri: Tensor) -> TopologyHash:
    """The edges of triangles that do not change, for ``antialias``. tri: int32 (T, 3). Raises InputError.

    >>> import torch, dressi.torch as dr
    >>> dr.antialias_construct_topology_hash(torch.tensor([[0, 1, 2]], dtype=torch.int32)).edges
    3
    """
    array: Any = array_of("tri", tri)
    if array.ndim != 2 or array.shape[1] != 3 or array.dtype.kind != "i":
        raise InputError(f"tri holds int32 and has the shape (T, 3), not {array.dtype} {array.shape}")
    return TopologyHash(tri, len(edges_of(array)[0]))
