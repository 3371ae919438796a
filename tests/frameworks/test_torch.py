"""PyTorch tensors: nvdiffrast's names and arguments, autograd, and tensors that do not fit. Needs the extra ``torch``."""

import importlib
from contextlib import nullcontext
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from clip_scenes import octahedron, perspective
from fake_cuda import Library

from dressi import F, InputError
from dressi.frameworks import crossing as cuda
from dressi.frameworks.engine import close_engines, on_worker

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'dressi[torch]'")
dr = importlib.import_module("dressi.torch")


def scene(images: int = 1):
    points, triangles = octahedron()
    pos = np.stack([perspective(points - [0.1 * k, 0.05, 3.0]) for k in range(images)])
    return torch.from_numpy(pos), torch.from_numpy(triangles)


@pytest.mark.vk
def test_a_step_of_an_optimisation(on_device):
    """The whole pipeline under autograd: colours and a translation are found again."""
    torch.manual_seed(0)
    context = dr.RasterizeCudaContext()
    pos, tri = scene()
    colours = torch.rand(1, 6, 3)

    def render(shift, colours):
        moved = pos + torch.cat([shift, torch.zeros(2)])
        rast, _ = dr.rasterize(context, moved, tri, resolution=[32, 32])
        colour, _ = dr.interpolate(colours, rast, tri)
        return dr.antialias(colour, rast, moved, tri)

    target = render(torch.tensor([0.2, -0.1]), colours)
    shift, found = torch.zeros(2, requires_grad=True), torch.full((1, 6, 3), 0.5, requires_grad=True)
    optimizer = torch.optim.Adam([{"params": [shift], "lr": 0.01}, {"params": [found], "lr": 0.03}])
    losses = []
    for _ in range(60):
        loss = ((render(shift, found) - target) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.02 * losses[0]
    assert torch.allclose(shift, torch.tensor([0.2, -0.1]), atol=0.02)


@pytest.mark.vk
def test_outputs_and_gradients_are_those_of_numpy(on_device):
    import dressi.numpy as dn

    pos, tri = scene(2)
    pos.requires_grad_()
    rast, db = dr.rasterize(dr.RasterizeGLContext(), pos, tri, (16, 24))
    (expected, expected_db), pull = dn.rasterize(pos.detach(), tri, (16, 24))
    assert np.array_equal(rast.detach(), expected) and np.array_equal(db.detach(), expected_db)
    (rast[..., :3].sum() + 3 * db.sum()).backward()
    seed = np.ones_like(expected) * [1, 1, 1, 0]
    assert np.allclose(pos.grad, pull(seed, 3 * np.ones_like(expected_db))["pos"], rtol=1e-5, atol=1e-4)
    attr = torch.rand(2, 6, 5, requires_grad=True)
    value, none = dr.interpolate(attr, rast.detach(), tri)
    assert none.shape == (2, 16, 24, 0)
    value.sum().backward()
    assert np.allclose(
        attr.grad, dn.interpolate(attr.detach(), expected, tri)[1](np.ones((2, 16, 24, 5)))["attr"]
    )


@pytest.mark.vk
def test_contexts_without_derivatives_and_peeling(on_device):
    pos, tri = scene()
    context = dr.RasterizeGLContext(output_db=False)
    rast, none = dr.rasterize(context, pos, tri, [16, 16])
    assert none.shape == (1, 16, 16, 0)
    with dr.DepthPeeler(context, pos.requires_grad_(), tri, [16, 16]) as peeler:
        first, _ = peeler.rasterize_next_layer()
        second, _ = peeler.rasterize_next_layer()
        with pytest.raises(InputError, match="peeling depth layers"):
            dr.rasterize(context, pos, tri, [16, 16])
        with (
            pytest.raises(InputError, match="another DepthPeeler"),
            dr.DepthPeeler(context, pos, tri, [16, 16]),
        ):
            pass
    assert (
        torch.equal(first[..., 3], rast[..., 3])
        and (second[..., 3] != first[..., 3])[first[..., 3] > 0].all()
    )
    second[..., :2].sum().backward()
    assert pos.grad.abs().max() > 0
    with pytest.raises(InputError, match="inside of the DepthPeeler"):
        peeler.rasterize_next_layer()


@pytest.mark.vk
def test_learned_textures_pass_their_gradient_through_a_mip_stack(on_device):
    torch.manual_seed(1)
    tex, uv, level = torch.rand(1, 8, 8, 3), torch.rand(1, 5, 5, 2), torch.rand(1, 5, 5) * 3
    stack = dr.texture_construct_mip(tex)
    plain = dr.texture(tex, uv, mip_level_bias=level)
    assert torch.allclose(dr.texture(tex, uv, mip_level_bias=level, mip=stack), plain, atol=1e-6)
    tex.requires_grad_()
    grads = []
    for mip in (None, stack):
        tex.grad = None
        dr.texture(tex, uv, mip_level_bias=level, mip=mip).square().sum().backward()
        grads.append(tex.grad)
    assert torch.equal(*grads) and grads[0].abs().max() > 0
    levels = [level.clone().requires_grad_() for level in stack.levels]
    dr.texture(tex, uv, mip_level_bias=level, mip=levels).sum().backward()
    assert all(level.grad.abs().max() > 0 for level in levels)
    with pytest.raises(InputError, match="mip was made of another texture"):
        dr.texture(tex[:, :4], uv, mip_level_bias=level, mip=stack)


@pytest.mark.vk
def test_the_gradient_of_positions_can_be_boosted(on_device):
    pos, tri = scene()
    rast, _ = dr.rasterize(dr.RasterizeCudaContext(), pos, tri, [16, 16])
    colour = (rast[..., 3:] > 0).float()
    grads = []
    for boost in (1.0, 3.0):
        own = pos.clone().requires_grad_()
        hash = dr.antialias_construct_topology_hash(tri)
        dr.antialias(colour, rast, own, tri, hash, pos_gradient_boost=boost).sum().backward()
        grads.append(own.grad)
    assert torch.allclose(grads[1], 3 * grads[0]) and grads[0].abs().max() > 0


@pytest.mark.vk
def test_wrapped_graphs_pass_gradcheck(on_device):
    energy = dr.wrap(lambda image, gain: (F.square(image) * gain, F.to_int(image)))
    image, gain = torch.rand(4, 6, requires_grad=True), torch.rand(4, 6, requires_grad=True)
    value, number = energy(image, gain)
    assert not number.requires_grad and number.dtype == torch.int32
    (value * torch.arange(24.0).reshape(1, 4, 6)).sum().backward()
    weight = torch.arange(24.0).reshape(4, 6)
    assert torch.allclose(image.grad, 2 * image * gain * weight, rtol=1e-4)
    assert torch.allclose(gain.grad, image**2 * weight, rtol=1e-4)


@pytest.mark.vk
def test_views_are_taken_as_they_are(on_device):
    pos, tri = scene()
    turned = pos.transpose(1, 2).contiguous().transpose(1, 2)
    assert not turned.is_contiguous()
    context = dr.RasterizeCudaContext()
    assert torch.equal(
        dr.rasterize(context, turned, tri, [8, 8])[0], dr.rasterize(context, pos, tri, [8, 8])[0]
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch finds no device of CUDA")
@pytest.mark.vk
def test_tensors_of_cuda_and_of_the_cpu_give_the_same():
    pos, tri = scene(2)
    found = []
    for place in ("cpu", "cuda:0"):
        moved, faces = pos.to(place).requires_grad_(), tri.to(place)
        rast, db = dr.rasterize(dr.RasterizeCudaContext(device=place), moved, faces, [24, 32])
        uv, uv_da = dr.interpolate(moved[..., :2], rast, faces, db, diff_attrs="all")
        tex = torch.linspace(0, 1, 192, device=place).reshape(1, 8, 8, 3)
        picture = dr.antialias(dr.texture(tex, uv, uv_da), rast, moved, faces)
        picture.square().sum().backward()
        assert picture.device == moved.grad.device == moved.device
        found.append((picture.detach().cpu(), moved.grad.cpu()))
    assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(*found, strict=True))


class OnCuda(NamedTuple):
    """A tensor of the CPU that says that it lies on CUDA."""

    tensor: torch.Tensor
    device = SimpleNamespace(type="cuda", index=0)


@pytest.mark.vk
@pytest.mark.parametrize("reached", [True, False])
def test_tensors_of_cuda(device, reached, monkeypatch):
    """The whole pipeline with autograd, peeling and a mip stack: as tensors of the CPU. With CUDA out of reach
    through the host, with one warning."""
    library = Library(device)
    monkeypatch.setenv("DRESSI_DEVICE", device.name)
    monkeypatch.setattr(cuda, "driver", lambda: library)
    if not reached:
        library.refuses.add("cuInit")
    stream = SimpleNamespace(cuda_stream=9)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    for name in ("device", "stream"):
        monkeypatch.setattr(torch.cuda, name, lambda _: nullcontext())
    monkeypatch.setattr(torch, "as_tensor", lambda view, device: torch.from_numpy(library.texels(None, view)))
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, device: tensor)
    plain = dr.on_device_of
    pos, tri = scene(2)
    tex, context = torch.rand(1, 8, 8, 3), dr.RasterizeCudaContext(device="cuda:0")

    def run(moved):
        peeled = []
        with dr.DepthPeeler(context, moved, tri, [16, 24]) as peeler:
            for _ in range(2):
                rast, db = peeler.rasterize_next_layer()
                uv, uv_da = dr.interpolate(moved[..., :2], rast, tri, db, diff_attrs="all")
                colour = dr.texture(tex, uv, uv_da, mip=dr.texture_construct_mip(tex))
                peeled.append(dr.antialias(colour, rast, moved, tri))
        total = sum((p**2).sum() for p in peeled)
        total.backward()
        return *peeled, moved.grad

    expected = run(pos.clone().requires_grad_())
    monkeypatch.setattr(dr, "on_device_of", lambda tensors, task: plain([OnCuda(t) for t in tensors], task))
    if reached:
        found = run(pos.clone().requires_grad_())
        waits = "stream 9 signals" if library.other else "wait for stream 9"
        assert library.log.count(waits) == len(library.log) // (2 if library.other else 1) > 8
    else:
        with pytest.warns(RuntimeWarning, match="go through the memory of the host") as told:
            found = run(pos.clone().requires_grad_())
        assert len(told) == 1
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    on_worker(close_engines)


POS, TRI = scene()
CONTEXT = dr.RasterizeCudaContext()
BAD = {
    "pos is a torch.Tensor, not ndarray": lambda: dr.rasterize(CONTEXT, POS.numpy(), TRI, [8, 8]),
    "pos holds torch.float64": lambda: dr.rasterize(CONTEXT, POS.double(), TRI, [8, 8]),
    "tri holds torch.int64": lambda: dr.rasterize(CONTEXT, POS, TRI.long(), [8, 8]),
    "pos lies on meta": lambda: dr.rasterize(CONTEXT, POS.to("meta"), TRI, [8, 8]),
    "pos is torch.sparse": lambda: dr.rasterize(CONTEXT, POS.to_sparse(), TRI, [8, 8]),
    "glctx is a RasterizeCudaContext": lambda: dr.rasterize(None, POS, TRI, [8, 8]),
    "a context for tensors on meta": lambda: dr.RasterizeCudaContext(device="meta"),
    "output_db is True or False": lambda: dr.RasterizeGLContext(output_db=1),
    "mode is 'automatic' or 'manual'": lambda: dr.RasterizeGLContext(mode="some"),
    "mip is made by": lambda: dr.texture(torch.zeros(1, 4, 4, 1), torch.zeros(1, 2, 2, 2), mip=3),
    "topology_hash is made by": lambda: dr.antialias(POS, POS, POS, TRI, topology_hash=3),
    "tri holds int32 and has": lambda: dr.antialias_construct_topology_hash(POS),
    "takes image, not 2 tensors": lambda: dr.wrap(lambda image: image)(POS, POS),
}


@pytest.mark.parametrize("sentence", BAD)
def test_bad_input_ends_in_one_sentence(sentence):
    with pytest.raises(InputError, match=sentence) as caught:
        BAD[sentence]()
    assert "\n" not in str(caught.value)


@pytest.mark.vk
@pytest.mark.one_driver
def test_examples_run(on_device, examples):
    result = examples(dr)
    assert result.failed == 0 and result.attempted > 0
