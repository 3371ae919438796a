"""A spatial transformer and a U-Net beside PyTorch on the CPU: values, gradients, times in turns, and weights both ways.

    python apps/peers/pipelines_torch.py --json out/pipelines_torch.json

The transformer warps 4 images of 16 channels by a homography each; a step has the gradients by images and matrices. The U-Net has a
million weights in three levels and takes one image; a step is one of SGD. Its weights go to PyTorch in a .safetensors file, and
come back in one. The ratio is that of the least processor times of --rounds turns (below 1: dressi is faster); times on GPUs are predicted,
from the records of ``dressi bench model``. Threads are those of LP_NUM_THREADS and OMP_NUM_THREADS.
Needs PyTorch and safetensors.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional as T

from dressi import FLOAT, INT, MAT3, VEC4, DressiAD, F, Variable, gradient, networks, sgd
from dressi.config import shader_text
from dressi.vk.plan.core.limits import PROFILES
from dressi.vk.plan.model.records import RECORDS, profile_of
from dressi.vk.plan.predict.stages import predict
from dressi.vk.planning import PlanningEngine

RNG = np.random.default_rng(0)
RATE, STILL = 1e-3, 1e-12  # noise has large gradients: the transformer stays where it is
LAYERS = {"down0": (3, 48), "down1": (48, 96), "down2": (96, 192), "up1": (288, 96), "up0": (144, 48)}


def in_turns(ours: Callable[[], None], theirs: Callable[[], None], rounds: int) -> dict[str, float]:
    """Least seconds of the processor of each, and their ratio: both run on it, and other programs may run too."""
    times: dict[str, list[float]] = {"dressi": [], "torch": []}
    for _ in range(rounds + 1):
        for name, step in (("dressi", ours), ("torch", theirs)):
            begin = time.process_time()
            step()
            times[name].append(time.process_time() - begin)
    least = {f"{name} s": min(values[1:]) for name, values in times.items()}
    return {**least, "ratio": least["dressi s"] / least["torch s"]}


def predicted(loss: Variable, parameters: list[Variable]) -> dict[str, float]:
    """Seconds of a step of SGD on GPUs, by the records of their classes."""
    found = {}
    for name in ("integrated", "desktop", "data_centre"):
        model = RECORDS[name]
        engine = PlanningEngine(PROFILES[profile_of(model)], model, shader_text)
        engine.set_loss(loss)
        engine.set_optimizer(sgd(RATE), parameters)
        found[f"{name} s, predicted"] = predict(engine.plan, model).totals["seconds"]
    return found


def transformer(device: str | None, n: int, rounds: int) -> dict[str, float]:
    """4 x 16 x n x n by four homographies."""
    images = RNG.random((4, 16, n, n), np.float32)
    matrices = np.eye(3) + RNG.normal(size=(4, 3, 3)) * np.array(
        [[0.02, 0.02, 3], [0.02, 0.02, 3], [0, 0, 0]]
    )
    # Four channels are the components of a texel, and one image of a batch: the matrices repeat.
    apart = images.reshape(4, 4, 4, n, n).transpose(0, 1, 3, 4, 2).reshape(16, n, n, 4)
    image = Variable(VEC4, (n, n), 16, data=apart, name="images")
    matrix = Variable.of(matrices, MAT3, batched=True, name="matrix")
    each = F.take(matrix, Variable.of(np.arange(16).reshape(16, 1, 1) // 4, INT, batched=True))
    loss = F.sum(F.mean(F.sum_components(F.square(F.warp_homography(image, each))), "xy"))
    tensors = [torch.tensor(a, dtype=torch.float32, requires_grad=True) for a in (images, matrices)]
    descent = torch.optim.SGD(tensors, lr=STILL)
    place = torch.stack(torch.meshgrid(torch.arange(n) + 0.5, torch.arange(n) + 0.5, indexing="xy"), -1)
    place = torch.cat([place, torch.ones(n, n, 1)], -1)

    def theirs():
        descent.zero_grad()
        at = torch.einsum("bij,hwj->bhwi", tensors[1], place)
        grid = at[..., :2] / at[..., 2:] * (2 / n) - 1
        warped = T.grid_sample(tensors[0], grid, padding_mode="border", align_corners=False)
        found = warped.square().mean((2, 3)).sum()
        found.backward()
        descent.step()

    theirs()
    wanted = tensors[1].grad.numpy().copy()
    with DressiAD(device) as ad:
        mine = ad.evaluate(gradient(loss, [matrix]))[0].reshape(wanted.shape)
        ad.set_loss(loss)
        ad.set_optimizer(sgd(STILL), [image, matrix])
        found = in_turns(lambda: (ad.step(), ad.wait()), theirs, rounds)
    found |= predicted(loss, [image, matrix])
    return {**found, "gradient difference": float(np.abs(mine - wanted).max() / np.abs(wanted).max())}


def block(layer, x: Variable) -> Variable:
    return F.relu(networks.convolution(layer["b"], F.relu(networks.convolution(layer["a"], x))))


def doubled(x: Variable) -> Variable:
    return F.resize(x, (2 * x.size[0], 2 * x.size[1]), "nearest")


def unet(p, x: Variable) -> Variable:
    fine = block(p["down0"], x)
    middle = block(p["down1"], F.max_pool(fine, 2))
    coarse = block(p["down2"], F.max_pool(middle, 2))
    x = block(p["up1"], F.concatenate_channels(doubled(coarse), middle))
    return networks.convolution(p["last"], block(p["up0"], F.concatenate_channels(doubled(x), fine)))


class Block(torch.nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.a, self.b = (
            torch.nn.Conv2d(inputs, outputs, 3, padding=1),
            torch.nn.Conv2d(outputs, outputs, 3, padding=1),
        )

    def forward(self, x):
        return T.relu(self.b(T.relu(self.a(x))))


class UNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        for name, sizes in LAYERS.items():
            setattr(self, name, Block(*sizes))
        self.last = torch.nn.Conv2d(48, 3, 1)

    def forward(self, x):
        fine = self.down0(x)
        middle = self.down1(T.max_pool2d(fine, 2))
        x = self.up1(
            torch.cat([T.interpolate(self.down2(T.max_pool2d(middle, 2)), scale_factor=2), middle], 1)
        )
        return self.last(self.up0(torch.cat([T.interpolate(x, scale_factor=2), fine], 1)))


def trained(device: str | None, n: int, rounds: int) -> dict[str, float]:
    """The U-Net: times of a step, and outputs of weights that went through files."""
    image, target = (RNG.random((1, 3, n, n), np.float32) for _ in range(2))
    peer = UNet()
    descent = torch.optim.SGD(peer.parameters(), lr=RATE)
    pictures = [torch.tensor(a) for a in (image, target)]
    held = [Variable(FLOAT, (n, n), channels=3, data=a) for a in (image, target)]

    def theirs():
        descent.zero_grad()
        (peer(pictures[0]) - pictures[1]).square().mean().backward()
        descent.step()

    with tempfile.TemporaryDirectory() as folder, DressiAD(device) as ad, torch.no_grad():
        save_file(peer.state_dict(), f"{folder}/theirs.safetensors")
        p = networks.parameters(networks.nested(networks.load_safetensors(f"{folder}/theirs.safetensors")))
        y = unet(p, held[0])
        first = np.abs(ad.evaluate(y).reshape(3, n, n) - peer(pictures[0])[0].numpy()).max()
        loss = F.mean(F.square(y - held[1]))
        ad.set_loss(loss)
        ad.set_optimizer(sgd(RATE), networks.variables(p))
        with torch.enable_grad():
            found = in_turns(lambda: (ad.step(), ad.wait()), theirs, rounds)
        trained = peer(pictures[0])[0].numpy()
        networks.save_safetensors(f"{folder}/ours.safetensors", networks.flat(networks.arrays(p, ad)))
        peer.load_state_dict(load_file(f"{folder}/ours.safetensors"))
        own, back = ad.evaluate(y).reshape(3, n, n), peer(pictures[0])[0].numpy()
    found |= predicted(loss, networks.variables(p))
    return {
        **found, "weights": sum(t.numel() for t in peer.parameters()), "theirs here": float(first),
        "ours there": float(np.abs(own - back).max()), "after training": float(np.abs(own - trained).max()),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--sizes", type=int, nargs=2, default=(512, 256), help="of the transformer, of the U-Net"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    report = {}
    for name, measure, size in zip(
        ("spatial transformer", "U-Net"), (transformer, trained), arguments.sizes, strict=True
    ):
        found = measure(arguments.device, size, arguments.rounds)
        report[f"{name} {size}"] = {k: float(f"{v:.4g}") for k, v in found.items()}
        print(name, report[f"{name} {size}"], flush=True)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
