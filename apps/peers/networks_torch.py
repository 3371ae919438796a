"""Layers and similarities beside PyTorch on the CPU: the same values and gradients, and times in turns.

    python apps/peers/networks_torch.py --json out/networks_torch.json

A step computes the output of a case, the gradients by all of its inputs, and their descent. The two take turns in one
process, and the ratio is that of the medians (below 1: dressi is faster). Needs PyTorch: pip install 'dressi[torch]'.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as T

from dressi import FLOAT, DressiAD, F, Variable, gradient, networks, sgd
from dressi.render import structural_similarity

RNG = np.random.default_rng(0)
TAPS = np.exp(-0.5 * (np.arange(-5, 6) / 1.5) ** 2)


def torch_ssim(a, b):
    window = torch.tensor(np.outer(TAPS, TAPS) / TAPS.sum() ** 2, dtype=torch.float32)[None, None].repeat(
        a.shape[1], 1, 1, 1
    )

    def blurred(x):
        return T.conv2d(x, window, groups=x.shape[1])

    p, q = blurred(a), blurred(b)
    covariance, spread = blurred(a * b) - p * q, blurred(a * a + b * b) - p * p - q * q
    return ((2 * p * q + 1e-4) / (p * p + q * q + 1e-4) * (2 * covariance + 9e-4) / (spread + 9e-4)).mean()


def torch_attention(x, query, key, value):
    tokens = x[:, :, 0].transpose(1, 2)
    q, k, v = (T.linear(tokens, w).unflatten(-1, (2, -1)).transpose(1, 2) for w in (query, key, value))
    return T.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2).transpose(1, 2)[:, :, None]


def dressi_attention(x, query, key, value):
    return networks.attention(*(networks.linear({"weight": w}, x) for w in (query, key, value)), heads=2)


def cases(n: int) -> dict[str, tuple[list[tuple[int, ...]], Callable, Callable]]:
    """By name: shapes of the inputs, and the function in dressi and in PyTorch."""
    image, kernel = (2, 16, n, n), (16, 16, 3, 3)
    return {
        "convolution": (
            [image, kernel, (16,)],
            lambda x, w, b: networks.convolution({"weight": w, "bias": b}, x),
            lambda x, w, b: T.conv2d(x, w, b, padding=1),
        ),
        "linear": (
            [image, (32, 16), (32,)],
            lambda x, w, b: networks.linear({"weight": w, "bias": b}, x),
            lambda x, w, b: T.linear(x.movedim(1, -1), w, b).movedim(-1, 1),
        ),
        "group norm": (
            [image, (16,), (16,)],
            lambda x, w, b: networks.group_norm({"weight": w, "bias": b}, x, 4),
            lambda x, w, b: T.group_norm(x, 4, w, b),
        ),
        "layer norm": (
            [image, (16,), (16,)],
            lambda x, w, b: networks.layer_norm({"weight": w, "bias": b}, x),
            lambda x, w, b: T.layer_norm(x.movedim(1, -1), (16,), w, b).movedim(-1, 1),
        ),
        "gelu": ([image], F.gelu, T.gelu),
        "attention": ([(n // 8, 16, 1, 64), (16, 16), (16, 16), (16, 16)], dressi_attention, torch_attention),
        "ssim": ([(2, 3, n, n)] * 2, structural_similarity, torch_ssim),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--device")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    report = {}
    for name, (shapes, ours, theirs) in cases(arguments.size).items():
        if arguments.only and name not in arguments.only:
            continue
        arrays = {f"x{k}": RNG.uniform(0.1, 0.9, shape).astype(np.float32) for k, shape in enumerate(shapes)}
        leaves = networks.variables(networks.parameters(arrays))
        y = ours(*leaves)
        seed = RNG.uniform(-1, 1, y.shape).astype(np.float32)
        held = Variable(FLOAT, y.size, y.batch, channels=y.channels, name="seed", data=seed)
        tensors = [torch.tensor(a, requires_grad=True) for a in arrays.values()]
        descent, factor = torch.optim.SGD(tensors, lr=1e-9), torch.tensor(seed)

        def in_torch(theirs=theirs, tensors=tensors, factor=factor, descent=descent):
            descent.zero_grad()
            found = theirs(*tensors)
            (found * factor.reshape(found.shape)).sum().backward()
            descent.step()
            return found

        times: dict[str, list[float]] = {"dressi": [], "torch": []}
        with DressiAD(arguments.device) as ad:
            found = ad.evaluate([y, *gradient(y, leaves, held)])
            expected = [in_torch(), *(t.grad for t in tensors)]
            wrong = max(
                float(np.abs(a.ravel() - (e := b.detach().numpy()).ravel()).max() / np.abs(e).max())
                for a, b in zip(found, expected, strict=True)
            )
            ad.set_loss(F.sum(y * held))
            ad.set_optimizer(sgd(1e-9), leaves)
            for _ in range(arguments.rounds + 2):
                for key, step in (("dressi", lambda: (ad.step(), ad.wait())), ("torch", in_torch)):
                    begin = time.perf_counter()
                    step()
                    times[key].append(time.perf_counter() - begin)
        medians = {key: 1e3 * float(np.median(values[2:])) for key, values in times.items()}
        ratio = medians["dressi"] / medians["torch"]
        report[name] = {
            "error": wrong,
            **{f"{k} ms": round(v, 2) for k, v in medians.items()},
            "ratio": round(ratio, 2),
        }
        print(name, report[name], flush=True)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
