"""Differentiable rendering of PyTorch tensors: nvdiffrast's operations and Functions of your own.

    import dressi.torch as dr  # instead of: import nvdiffrast.torch as dr

    context = dr.RasterizeCudaContext()
    rast, rast_db = dr.rasterize(context, positions, triangles, resolution=[256, 256])
    colour, _ = dr.interpolate(colours, rast, triangles)
    colour = dr.antialias(colour, rast, positions, triangles)

operations: signatures, shapes and conventions of nvdiffrast, on tensors of float32 and int32
    rasterize, DepthPeeler, interpolate, texture, texture_construct_mip, antialias,
    antialias_construct_topology_hash, RasterizeCudaContext, RasterizeGLContext

graphs: a function of Variables as a function of tensors
    wrap

The device is that of DRESSI_DEVICE, or the best one. Tensors lie on the CPU or on one device of CUDA, and
results where they do. On the same GPU as dressi they do not pass through the host; elsewhere they do, with a
warning. Where nvdiffrast differs: z/w has a gradient, too; any resolution will do; ``antialias`` walks
over the mesh to its silhouette, and so finds that of thin triangles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

from .ad.graph.types import VType
from .errors import InputError
from .frameworks.crossing import Cuda, CudaCrossing, CudaView
from .frameworks.engine import Engine, engine, on_worker
from .frameworks.operation import WRAP, Operation, library, spec_of, wrapped
from .frameworks.raster import (
    ANTIALIAS,
    INTERPOLATE,
    RASTERIZE,
    antialias_call,
    interpolate_call,
    rasterize_call,
    topology,
)
from .frameworks.texture import TEXTURE, mips_call, texture_call

__all__ = [
    "DepthPeeler", "RasterizeCudaContext", "RasterizeGLContext", "antialias",
    "antialias_construct_topology_hash", "interpolate", "rasterize", "texture", "texture_construct_mip",
    "wrap",
]  # fmt: skip


torch = library("torch", "torch")

Tensor = Any
"""torch.Tensor, which is not known where PyTorch is not installed."""
DTYPES = (torch.float32, torch.int32)


def plain(name: str, tensor: Tensor) -> Tensor:
    """A dense tensor of float32 or int32 without a gradient. Raises InputError for anything else."""
    if not isinstance(tensor, torch.Tensor):
        raise InputError(f"{name} is a torch.Tensor, not {type(tensor).__name__}")
    if tensor.device.type not in ("cpu", "cuda"):
        raise InputError(
            f"{name} lies on {tensor.device}; dressi.torch takes tensors of the CPU and of CUDA: call "
            f"{name}.cpu()"
        )
    if tensor.layout != torch.strided:
        raise InputError(
            f"{name} is {tensor.layout}; dressi.torch takes dense tensors: call {name}.to_dense()"
        )
    if tensor.dtype not in DTYPES:
        raise InputError(
            f"{name} holds {tensor.dtype}; dressi.torch takes float32 and int32: call {name}.float() or "
            ".int()"
        )
    # Itself where possible: the edges of triangles are kept by the tensor.
    return (tensor.detach() if tensor.requires_grad else tensor).resolve_conj().resolve_neg()


def tensor_at(cuda: Cuda, view: CudaView) -> Tensor:
    """The tensor that lies there."""
    return torch.as_tensor(view, device=f"cuda:{cuda.index}")


Task = Callable[[Engine, Callable[[Tensor], Any]], Sequence[Any]]
"""Gives arrays, by an engine and a function that makes arrays for it of tensors."""


def on_device_of(tensors: Sequence[Tensor], task: Task) -> tuple[Tensor, ...]:
    """What a task gives, as tensors where these ones lie."""
    device = tensors[0].device
    if device.type == "cpu":
        return tuple(map(torch.from_numpy, task(engine(), torch.Tensor.numpy)))
    stream = torch.cuda.current_stream(device)

    def there() -> tuple[Tensor, ...]:
        with torch.cuda.device(device), torch.cuda.stream(stream):
            found = engine(device.index, tensor_at)
            if not isinstance(found.crossing, CudaCrossing):
                values = task(found, lambda tensor: tensor.cpu().numpy())
                return tuple(torch.from_numpy(value).to(device) for value in values)
            found.crossing.use(stream.cuda_stream)
            return tuple(task(found, lambda tensor: tensor))

    return on_worker(there)


class Applied(torch.autograd.Function):
    """An operation on tensors."""

    @staticmethod
    def forward(ctx: Any, operation: Operation, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.operation = operation
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)

        def task(engine: Engine, array_of: Callable[[Tensor], Any]) -> Sequence[Any]:
            values, ctx.ticket = engine.forward(operation, [array_of(t) for t in given])
            return values

        given = [plain(name, t) for name, t in zip(operation.names, tensors, strict=True)]
        found = on_device_of(given, task)
        ctx.mark_non_differentiable(*(t for t in found if not t.is_floating_point()))
        return found

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        wanted = ctx.needs_input_grad[1:]
        if not any(wanted) or all(g is None for g in gradients):
            return (None, *(None for _ in wanted))

        def task(engine: Engine, array_of: Callable[[Tensor], Any]) -> Sequence[Any]:
            arrays, seeds = ([x if x is None else array_of(x) for x in some] for some in (given, gradients))
            return engine.backward(ctx.operation, arrays, seeds, wanted, ctx.ticket)

        given = [plain("an input", t) for t in ctx.saved_tensors]
        found = iter(on_device_of(given, task))
        return (None, *(next(found) if want else None for want in wanted))


def apply(operation: Operation, *tensors: Tensor) -> tuple[Tensor, ...]:
    """The outputs of an operation, with its gradient. Raises InputError before the device sees anything."""
    checked = [plain(name, t) for name, t in zip(operation.names, tensors, strict=True)]
    operation.outputs(*map(spec_of, checked))
    first = checked[0].device
    for name, tensor in zip(operation.names, checked, strict=True):
        if tensor.device != first:
            raise InputError(
                f"{name} lies on {tensor.device}, and {operation.names[0]} on {first}; put them on one device"
            )
    return Applied.apply(operation, *tensors)


class Boosted(torch.autograd.Function):
    """A tensor whose gradient is multiplied by a number."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.factor, None


class RasterizeGLContext:
    """What rasterize gives. All contexts draw on the same device, and none holds anything.

    output_db: whether rasterize gives the derivatives of u and v by pixels.  mode: "automatic" or "manual";
    neither activates anything.  device: where the tensors are: the CPU or CUDA, or None. Raises InputError.

    >>> import dressi.torch as dr
    >>> dr.RasterizeGLContext(output_db=False).output_db
    False
    """

    def __init__(self, output_db: bool = True, mode: str = "automatic", device: Any = None):
        if not isinstance(output_db, bool):
            raise InputError(f"output_db is True or False, not {output_db!r}")
        if mode not in ("automatic", "manual"):
            raise InputError(f"mode is 'automatic' or 'manual', not {mode!r}")
        if device is not None and not str(device).startswith(("cpu", "cuda")):
            raise InputError(
                f"a context for tensors on {device}: dressi.torch takes tensors of the CPU and of CUDA; "
                "leave device out, and choose the Vulkan device with DRESSI_DEVICE"
            )
        self.output_db, self.mode = output_db, mode
        self.active_depth_peeler: Any = None

    def set_context(self) -> None:
        """Does nothing: there is nothing to activate."""

    def release_context(self) -> None:
        """Does nothing: there is nothing to deactivate."""


class RasterizeCudaContext(RasterizeGLContext):
    """The same, with the name and the arguments of nvdiffrast's CUDA rasterizer.

    device: where the tensors are: the CPU or CUDA, or None. Raises InputError.

    >>> import dressi.torch as dr
    >>> dr.RasterizeCudaContext().output_db
    True
    """

    def __init__(self, device: Any = None):
        super().__init__(device=device)


@INTERPOLATE.of(interpolate_call)
def interpolate(operation: Operation, values: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Attributes of vertices at every pixel.

    Without diff_attrs the second output is (N, height, width, 0).

    >>> import torch, dressi.torch as dr
    >>> rast = torch.tensor([[[[0.25, 0.5, 0.0, 1.0]]]])
    >>> tri = torch.tensor([[0, 1, 2]], dtype=torch.int32)
    >>> dr.interpolate(torch.tensor([[1.0], [2.0], [4.0]]), rast, tri)[0].item()
    2.25
    """
    main, *da = apply(operation, *values)
    return main, da[0] if da else main.new_empty((*main.shape[:3], 0))


@dataclass(frozen=True, eq=False)
class MipStack:
    """The levels above a texture that stays as it is, made by ``texture_construct_mip``."""

    levels: tuple[Tensor, ...]
    shape: tuple[int, ...]
    most: int | None
    cube: bool


@TEXTURE.describe()
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

    mip may also be what ``texture_construct_mip`` has made, which gets no gradient.

    >>> import torch, dressi.torch as dr
    >>> tex = torch.arange(4.0).reshape(1, 1, 4, 1)
    >>> dr.texture(tex, torch.tensor([[[[0.25, 0.5]]]])).item()
    0.5
    """
    levels, most = _levels(tex, mip, boundary_mode == "cube")
    limit = max_mip_level if most is None else most
    operation, values = texture_call(
        tex, uv, uv_da, mip_level_bias, levels, filter_mode, boundary_mode, limit
    )
    return apply(operation, *values)[0]


def _levels(tex: Tensor, mip: object, cube: bool) -> tuple[list[Tensor] | None, int | None]:
    """The given levels above the texture, None where they are made, and a limit for those."""
    if mip is None:
        return None, None
    if isinstance(mip, list):
        return mip, None
    if not isinstance(mip, MipStack):
        raise InputError(
            f"mip is made by texture_construct_mip, or a list of tensors, not {type(mip).__name__}"
        )
    shape = tuple(plain("tex", tex).shape)
    if (shape, cube) != (mip.shape, mip.cube):
        raise InputError(
            f"mip was made of another texture: tex has the shape {shape}, and that had {mip.shape}"
        )
    # A texture that learns passes its gradient through the levels, so that they are made again.
    return (None, len(mip.levels)) if tex.requires_grad else (list(mip.levels), None)


def texture_construct_mip(tex: Tensor, max_mip_level: int | None = None, cube_mode: bool = False) -> MipStack:
    """The mip levels of a texture that does not change, for ``texture(mip=...)``.

    tex: as for ``texture``.  max_mip_level: the highest level that is made.  cube_mode: whether it is a cube
    map. A texture that requires a gradient gets it. Raises InputError.

    >>> import torch, dressi.torch as dr
    >>> [level.shape for level in dr.texture_construct_mip(torch.zeros(1, 4, 8, 3)).levels]
    [torch.Size([1, 2, 4, 3]), torch.Size([1, 1, 2, 3]), torch.Size([1, 1, 1, 3])]
    """
    operation, _ = mips_call(tex, max_mip_level, cube_mode)
    levels = apply(operation, tex.detach() if isinstance(tex, torch.Tensor) else tex)
    return MipStack(levels, tuple(tex.shape), operation.most, operation.is_cube)


@dataclass(frozen=True, eq=False)
class TopologyHash:
    """The edges of triangles, made by ``antialias_construct_topology_hash``."""

    tri: Tensor
    edges: int


@ANTIALIAS.describe()
def antialias(
    color: Tensor,
    rast: Tensor,
    pos: Tensor,
    tri: Tensor,
    topology_hash: TopologyHash | None = None,
    pos_gradient_boost: float = 1.0,
) -> Tensor:
    """A picture with its silhouettes blended between neighbouring pixels, which gives visibility a gradient.

    topology_hash: from ``antialias_construct_topology_hash``; the last few are kept without it, too.
    pos_gradient_boost: the gradient of pos is multiplied by it.

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
    operation, values = antialias_call(color, rast, pos, tri)
    return apply(operation, *values)[0]


def antialias_construct_topology_hash(tri: Tensor) -> TopologyHash:
    """The edges of triangles that do not change, for ``antialias``. tri: int32 (T, 3). Raises InputError.

    >>> import torch, dressi.torch as dr
    >>> dr.antialias_construct_topology_hash(torch.tensor([[0, 1, 2]], dtype=torch.int32)).edges
    3
    """
    found = plain("tri", tri)
    if found.dim() != 2 or found.shape[1] != 3 or found.dtype != torch.int32:
        given = spec_of(found)
        raise InputError(f"tri holds int32 and has the shape (T, 3), not {given.dtype} {given.shape}")
    beside = topology(found if found.is_cuda else found.numpy())[0]
    shared = int((beside >= 0).sum())
    return TopologyHash(tri, 3 * len(found) - shared // 2)


@RASTERIZE.describe()
def rasterize(
    glctx: RasterizeGLContext,
    pos: Tensor,
    tri: Tensor,
    resolution: Sequence[int],
    ranges: Tensor | None = None,
    grad_db: bool = True,
) -> tuple[Tensor, Tensor]:
    """The nearest triangle at every pixel, and the place in it.

    glctx: a context, which says whether the second output is given; it is (N, height, width, 0) if not.

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
            "this context is peeling depth layers: call rasterize_next_layer, or leave the DepthPeeler's "
            "block first"
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
    if not (isinstance(pos, torch.Tensor) and pos.dim() == 2):
        ranges = None
    elif ranges is not None and isinstance(ranges, torch.Tensor):
        ranges = ranges.to(pos.device)  # nvdiffrast wants them on the CPU
    operation, values = rasterize_call(pos, tri, resolution, ranges, before=before, grad_db=grad_db)
    main, *db = apply(replace(operation, with_db=glctx.output_db), *values)
    return main, db[0] if db else main.new_empty((*main.shape[:3], 0))


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
        """The next layer, as from ``rasterize``. Raises InputError outside of the block."""
        if self._arguments is None or self._glctx.active_depth_peeler is not self:
            raise InputError("layers are peeled inside of the DepthPeeler's with block")
        result = _rasterized(self._glctx, *self._arguments, before=self._before)
        self._before = result[0].detach()
        return result


@WRAP.describe()
def wrap(
    function: Callable[..., Any], *, types: dict[str, VType] | None = None, batched: Sequence[str] | bool = ()
) -> Callable[..., Any]:
    """A function from Variables to Variables as a function of tensors, with its gradient.

    >>> import torch, dressi.torch as dr
    >>> energy = dr.wrap(lambda image: F.mean(F.square(image)))
    >>> image = torch.full((4, 6), 0.5, requires_grad=True)
    >>> energy(image).backward()
    >>> round(image.grad[0, 0].item(), 6)
    0.041667
    """
    operation = wrapped(function, types, batched)

    @wraps(function)
    def call(*tensors: Tensor) -> Any:
        operation.check_count(len(tensors), "tensors")
        found = apply(operation, *tensors)
        return found[0] if len(found) == 1 else found

    return call
