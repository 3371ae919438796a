"""The names by which NumPy, PyTorch and JAX call what F does, for the errors that meet them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from difflib import get_close_matches
from types import FunctionType, ModuleType
from typing import Any

operations: set[str] = set()
"""The names in F, which registers them."""

# fmt: off
_ELSEWHERE = {
    "F.abs(x)": "absolute fabs",
    "F.acos(x)": "arccos",
    "F.asin(x)": "arcsin",
    "F.atan(x)": "arctan",
    "F.atan2(y, x)": "arctan2",
    "F.sub(a, b)": "subtract",
    "F.mul(a, b)": "multiply",
    "F.div(a, b)": "divide true_divide",
    "F.floor(a / b)": "floor_divide",
    "F.mod(a, b)": "remainder fmod",
    "F.pow(a, b)": "power float_power",
    "F.neg(x)": "negative",
    "F.sign(x)": "sgn",
    "F.round(x)": "rint around",
    "F.inversesqrt(x)": "rsqrt",
    "F.log(1.0 + x)": "log1p",
    "F.exp(x) - 1.0": "expm1",
    "F.log(x) / 2.302585": "log10",
    "1.0 / x": "reciprocal",
    "F.clamp(x, low, high)": "clip clamp_min clamp_max hardtanh",
    "F.silu(x)": "swish",
    "(F.exp(x) + F.exp(-x)) / 2.0": "cosh",
    "(F.exp(x) - F.exp(-x)) / 2.0": "sinh",
    "F.max(x), over all texels, or F.maximum(a, b)": "amax fmax",
    "F.min(x), over all texels, or F.minimum(a, b)": "amin fmin",
    "F.max(F.abs(x)) > 0.0": "any",
    "F.min(F.abs(x)) > 0.0": "all",
    "F.not_equal(F.logical_not(a), F.logical_not(b))": "logical_xor bitwise_xor",
    "F.logical_and(a, b)": "bitwise_and",
    "F.logical_or(a, b)": "bitwise_or",
    "F.logical_not(x)": "invert bitwise_not",
    "F.greater_equal(a, b)": "ge",
    "F.greater(a, b)": "gt",
    "F.less_equal(a, b)": "le",
    "F.less(a, b)": "lt",
    "F.equal(a, b)": "eq",
    "F.not_equal(a, b)": "ne",
    "F.length(x), for the length of each vector": "norm",
    "F.mean(F.square(a - b))": "mse_loss",
    "F.mean(F.abs(a - b))": "l1_loss",
    "F.square(x - F.mean(x)), of which F.mean is the variance": "var std",
    "F.contract('out[y, x] = a[y, k] * b[k, x]', a=a, b=b)": "einsum",
    "F.correlate(image, weight)": "conv1d conv2d conv correlate2d filter2D cross_correlation Conv2d",
    "F.contract('out[z, y, x] = v[z + k - 1, y + j - 1, x + i - 1] * w[k, j, i]', border='zero', v=v, w=w)":
        "conv3d Conv3d",
    "F.convolve(image, weight)": "convolve2d",
    "F.correlate_transposed(image, weight, like)": "conv_transpose2d conv_transpose ConvTranspose2d",
    "F.average_pool(x, window)": "avg_pool1d avg_pool2d avg_pool AvgPool2d adaptive_avg_pool2d",
    "F.max_pool(x, window)": "max_pool1d max_pool2d MaxPool2d adaptive_max_pool2d",
    "x @ weight + bias, or dressi.networks": "linear Linear dense Dense",
    "F.max_pool_index(x, x.size)": "argmax",
    "F.max_pool_index(-x, x.size)": "argmin",
    "F.recurrence(x, 1.0)": "cumsum",
    "NumPy on what evaluate(x) gives: no order of texels is computed in a graph":
        "topk quantile percentile unique nonzero",
    "F.sort_index(x, axis)": "argsort",
    "F.median(x, radius), of windows": "median_filter medfilt medianBlur",
    "F.depth_to_space(x, factor)": "pixel_shuffle",
    "F.space_to_depth(x, factor)": "pixel_unshuffle",
    "F.mean(x, axes)": "average",
    "F.histogram(...)": "histc bincount",
    "F.mix(a, b, t)": "lerp",
    "F.normalize(x), of vectors": "unit_vector l2_normalize",
    "F.softmax(x, axes)": "Softmax softmin",
    "F.sigmoid(x)": "expit logistic",
    "F.dot(a, b), of two vectors, or a @ b": "inner vdot tensordot",
    "F.matmul(a, b)": "bmm mm",
    "F.transpose(x), of matrices, or F.swap_axes(x), of images": "T mT swapaxes permute moveaxis",
    "F.flip(x, axes)": "fliplr flipud",
    "F.repeat(x, times)": "repeat_interleave",
    "F.inverse(x)": "inv pinv",
    "F.determinant(x)": "det",
    "F.lookup(table, index)": "gather index_select take_along_axis",
    "F.scatter_add(...)": "index_add scatter",
    "F.shift(x, dx, dy)": "roll",
    "F.expand(x, size, batch)": "broadcast_to tile expand_as",
    "F.vec2, F.vec3 or F.vec4, for components": "stack concatenate cat hstack vstack",
    "F.resize(x, size)": "interpolate upsample",
    "F.sample(texture, uv)": "grid_sample texture",
    "F.constant(...) or Variable.of(array)": "array asarray tensor ones full ones_like full_like",
    "F.stop_gradient(x)": "detach stop_grad",
    "F.to_float(x)": "float double half",
    "F.to_int(x)": "int long astype",
    "x.vtype": "dtype",
    "x.size, x.batch and x.vtype": "ndim",
    "gradient(loss, [x]); ad.set_loss and ad.step do so for an optimisation":
        "backward grad requires_grad requires_grad_ zero_grad value_and_grad",
    "dressi.gradient(loss, [x])": "gradient",
    "dressi.jvp(outputs, inputs, tangents)": "jvp",
    "dressi.vjp(outputs, inputs, seeds)": "vjp",
    "dressi.hvp(loss, [x], along)": "hvp",
    "F.jacobian(outputs, inputs)": "jacfwd jacrev",
    "evaluate(x), or ad.recv(x) during an optimisation": "item numpy cpu tolist eval data_ptr",
    "Variable.of(array)": "cuda to from_numpy reshape flatten ravel squeeze unsqueeze",
}
# fmt: on
_CURES = {name: cure for cure, names in _ELSEWHERE.items() for name in names.split()}


def gather(scope: dict[str, Any]) -> tuple[ModuleType, ...]:
    """The families of a public module: the modules below it whose functions and classes it imports with a
    star, in that order. Sets its ``__all__`` to all names of theirs, and lists these at the end of its
    docstring.

    scope: the ``globals()`` of the module, with an underscore before the names of whatever else it has
    imported.
    """
    below = f"{scope['__package__']}."
    members = [v for k, v in scope.items() if isinstance(v, FunctionType | type) and k[0] != "_"]
    names = dict.fromkeys(v.__module__ for v in members if v.__module__.startswith(below))
    families = tuple(sys.modules[name] for name in names)
    scope["__all__"] = [name for family in families for name in family.__all__]
    for family in families:
        title = (family.__doc__ or "").partition("\n")[0]
        file = family.__name__.partition(".ad.")[2].replace(".", "/")
        listed = ", ".join(family.__all__)
        scope["__doc__"] = f"{scope['__doc__'] or ''}\n{title} ({file}.py)\n    {listed}\n"
    return families


def register(names: Iterable[str]) -> None:
    operations.update(names)


def cure(name: str) -> str:
    """The end of a sentence that names what to write instead, as "; use F.sum". Empty if nothing is near."""
    if name in _CURES:
        return f"; use {_CURES[name]}"
    near = [name] if name in operations else get_close_matches(name, sorted(operations), 1, 0.75)
    return f"; use F.{near[0]}" if near else ""
