"""JAX arrays under grad, jit and vmap. Needs the extra ``jax``."""

import gc
import importlib
from contextlib import nullcontext
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from clip_scenes import octahedron, perspective
from fake_cuda import Library

from dressi import Device, F, InputError
from dressi.frameworks import crossing as cuda
from dressi.frameworks import raster
from dressi.frameworks.engine import close_engines, on_worker

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'dressi[jax]'")
jnp = jax.numpy
dj = importlib.import_module("dressi.jax")


@pytest.fixture(autouse=True)
def driver(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls run on a thread of their own, which opens the device by its name."""
    monkeypatch.setenv("DRESSI_DEVICE", device.name)


POINTS, TRIANGLES = octahedron()
POS = perspective(POINTS - [0.1, 0.05, 3.0])[None]


def render(shift, colours):
    pos = POS + jnp.concatenate([shift, jnp.zeros(2)])
    rast, _ = dj.rasterize(pos, TRIANGLES, (24, 24))
    colour, _ = dj.interpolate(colours, rast, TRIANGLES)
    return dj.antialias(colour, rast, pos, TRIANGLES)


@pytest.mark.vk
def test_a_pipeline_under_jit_and_grad(on_device):
    import dressi.numpy as dn

    colours = jnp.asarray(np.random.default_rng(0).random((6, 3)))
    target = render(jnp.array([0.1, 0.0]), colours)
    loss = jax.jit(jax.value_and_grad(lambda s, c: ((render(s, c) - target) ** 2).sum(), argnums=(0, 1)))
    shift = jnp.zeros(2)
    first, _ = loss(shift, colours)
    for _ in range(30):
        value, (by_shift, by_colour) = loss(shift, colours)
        shift = shift - 0.0005 * by_shift
    assert value < 0.5 * first and by_colour.shape == colours.shape
    (rast, _), _ = dn.rasterize(POS, TRIANGLES, (24, 24))
    assert np.array_equal(np.asarray(dj.rasterize(POS, TRIANGLES, (24, 24))[0]), rast)


class OnCuda(NamedTuple):
    """A buffer of the CPU that says that it lies on CUDA."""

    buffer: object

    @property
    def __cuda_array_interface__(self):
        return np.asarray(self.buffer).__array_interface__


@pytest.mark.vk
@pytest.mark.parametrize("reached", [True, False])
def test_arrays_of_cuda(device, reached, monkeypatch):
    """The pipeline with its gradients where XLA gives addresses: only triangles go through the host. With dressi
    on another device everything does, with a warning."""
    grad = jax.value_and_grad(lambda s, c: (render(s, c)[..., :2] ** 2).sum(), argnums=(0, 1))
    given = jnp.array([0.02, 0.0]), jnp.asarray(np.random.default_rng(0).random((6, 5)), jnp.float32)
    expected = grad(*given)
    library, real = Library(device), dj.buffer_callback
    monkeypatch.setattr(cuda, "driver", lambda: library)

    def on_cuda(called, results, **options):
        def adapted(context, out, *values):
            called(SimpleNamespace(stream=4), [OnCuda(o) for o in out], *map(OnCuda, values))

        return real(adapted, results, **options)

    monkeypatch.setattr(dj, "buffer_callback", on_cuda)
    monkeypatch.setattr(dj, "_reaches_cuda", lambda: True)
    monkeypatch.setattr(jax.lax, "platform_dependent", lambda *given, cuda, default: cuda(*given))
    dj._function.cache_clear()
    if not reached:
        library.uuid = bytes(16)
    for run in (grad, jax.jit(grad)):
        with (
            nullcontext() if reached or run is not grad else pytest.warns(RuntimeWarning, match="another GPU")
        ):
            found = run(*given)
        assert all(
            np.array_equal(a, b)
            for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
        )
    moved = {line for line in library.log if "bytes to the host" in line}
    assert (moved == {f"{TRIANGLES.nbytes} bytes to the host"}) == reached
    dj._function.cache_clear()
    on_worker(close_engines)
    raster._kept.clear()
    gc.collect()
    assert not library.allocated and not library.mapped


@pytest.mark.vk
def test_textures_and_graphs_of_ones_own():
    tex, uv = jnp.arange(32.0).reshape(1, 4, 4, 2), jnp.full((1, 2, 2, 2), 0.4)
    slope = jax.grad(lambda t: dj.texture(t, uv, mip_level_bias=jnp.ones((1, 2, 2))).sum())(tex)
    assert abs(slope.sum() - 8) < 1e-4
    double = dj.wrap(lambda image: image * 2.0)
    many = jax.vmap(double)(jnp.ones((3, 4, 6)))
    assert many.shape == (3, 1, 4, 6) and many.max() == 2
    both = dj.wrap(lambda image: (F.square(image), F.to_int(image)))
    assert jax.grad(lambda x: both(x)[0].sum())(jnp.full((4, 6), 3.0)).max() == 6


@pytest.mark.vk
@pytest.mark.one_driver
def test_bad_input_ends_in_one_sentence_while_it_is_traced():
    with pytest.raises(InputError, match="tri has the shape"):
        jax.jit(lambda pos: dj.rasterize(pos, [[0, 1]], (8, 8)))(POS)
    with pytest.raises(InputError, match="no array that JAX can read"):
        dj.rasterize("pos", TRIANGLES, (8, 8))


@pytest.mark.vk
@pytest.mark.one_driver
def test_examples_run(examples):
    result = examples(dj)
    assert result.failed == 0 and result.attempted > 10
