"""A convolution and a matrix product by shaders that were written by hand, in turns with what dressi plans for the same work.

    python apps/stencils/hand_written.py --json out/hand_written.json

3x3, 16 to 16 channels, 4 images of 256x256, zeros beyond the border; and a product of two matrices. The shaders of a case differ in
how many entries an invocation makes, and in whether operands are storage buffers or images: the fastest on the driver is the
hand-written one. Its operands are stored as it reads them best (the images with a margin of zeros); dressi's plan brings its own into
their form at every run. The figure is the median of --rounds turns, processor time of one run with all threads of the
driver (LP_NUM_THREADS). Drivers read buffers and images at very different rates, so both kinds are told.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from hand_shaders import PITCH, SIDE, C, HandWritten, N, convolutions, products

from dressi import FLOAT, Device, F, Variable
from dressi.ad.graph.program import Program
from dressi.vk.plan.core.options import PlanOptions
from dressi.vk.plan.execution.images import ImageSlot, Usage
from dressi.vk.run.device.commands import Commands
from dressi.vk.run.device.memory import DeviceBuffer, DeviceImage, make_image
from dressi.vk.run.execution.executor import VulkanExecutor
from dressi.vk.run.measure.calibration import model_of
from dressi.vk.run.shaders.pyglslang import compile_glsl

EACH = PlanOptions(cache_static=False)
Stored = DeviceBuffer | DeviceImage


class Kernel:
    """One compute shader with its operands, bound in order."""

    def __init__(
        self,
        device: Device,
        commands: Commands,
        stack: ExitStack,
        source: str,
        operands: Sequence[Stored],
        groups: tuple[int, int],
    ):
        vk = device.vk
        self.device, self.commands = device, commands
        buffers = [isinstance(x, DeviceBuffer) for x in operands]
        kinds = [
            vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER if b else vk.VK_DESCRIPTOR_TYPE_STORAGE_IMAGE
            for b in buffers
        ]

        def made(kind: str, **fields: Any) -> Any:
            handle = device.create(kind, getattr(vk, f"Vk{kind}CreateInfo")(**fields))
            stack.callback(device.destroy, handle)
            return handle

        compute = vk.VK_SHADER_STAGE_COMPUTE_BIT
        bindings = [vk.VkDescriptorSetLayoutBinding(k, kind, 1, compute) for k, kind in enumerate(kinds)]
        sets = made("DescriptorSetLayout", pBindings=bindings)
        layout = made("PipelineLayout", pSetLayouts=[sets])
        pool = made(
            "DescriptorPool", maxSets=1, pPoolSizes=[vk.VkDescriptorPoolSize(kind, 1) for kind in kinds]
        )
        allocation = vk.VkDescriptorSetAllocateInfo(descriptorPool=pool, pSetLayouts=[sets])
        bound = vk.vkAllocateDescriptorSets(device.handle, allocation)[0]
        for k, (x, kind) in enumerate(zip(operands, kinds, strict=True)):
            if isinstance(x, DeviceBuffer):
                what = {"pBufferInfo": [vk.VkDescriptorBufferInfo(x.handle, 0, x.size)]}
            else:
                what = {"pImageInfo": [vk.VkDescriptorImageInfo(None, x.view, vk.VK_IMAGE_LAYOUT_GENERAL)]}
            write = vk.VkWriteDescriptorSet(
                dstSet=bound, dstBinding=k, descriptorCount=1, descriptorType=kind, **what
            )
            vk.vkUpdateDescriptorSets(device.handle, 1, [write], 0, None)
        code = compile_glsl(source, "compute", "hand-written")
        module = made("ShaderModule", codeSize=len(code), pCode=code)
        stage = vk.VkPipelineShaderStageCreateInfo(stage=compute, module=module, pName="main")
        info = vk.VkComputePipelineCreateInfo(stage=stage, layout=layout, basePipelineIndex=-1)
        (pipeline,) = vk.vkCreateComputePipelines(device.handle, None, 1, [info], None)
        stack.callback(device.destroy, device.own("Pipeline", pipeline, "hand-written"))

        def write_commands(buffer: Any) -> None:
            point = vk.VK_PIPELINE_BIND_POINT_COMPUTE
            vk.vkCmdBindPipeline(buffer, point, pipeline)
            vk.vkCmdBindDescriptorSets(buffer, point, layout, 0, 1, [bound], 0, None)
            vk.vkCmdDispatch(buffer, *groups, 1)
            commands.to_host(buffer)

        self._buffer = commands.record(write_commands)

    def run(self) -> None:
        self.commands.submit(self._buffer)
        self.commands.wait()


class Machine:
    """Makes operands and kernels on a device."""

    def __init__(self, device: Device, stack: ExitStack):
        self.device, self.stack = device, stack
        self.commands = Commands(device)
        stack.callback(self.commands.destroy)

    def buffer(self, values: np.ndarray) -> DeviceBuffer:
        found = DeviceBuffer(self.device, values.nbytes, "operand", host=True)
        self.stack.callback(found.destroy)
        found.mapped.view(np.float32)[:] = values.ravel()
        return found

    def kernel(self, source: str, operands: Sequence[Stored], groups: tuple[int, int]) -> Kernel:
        return Kernel(self.device, self.commands, self.stack, source, operands, groups)

    def image(self, values: np.ndarray) -> DeviceImage:
        """Of (height, width, 4)."""
        height, width, _ = values.shape
        found = make_image(
            self.device, ImageSlot(4, False, width, height, Usage.STORAGE | Usage.TARGET), "operand"
        )
        self.stack.callback(found.destroy, self.device)
        self.commands.initialize([found], [found])
        fill = f"""#version 450
layout(local_size_x=64) in;
layout(binding=0) readonly buffer From {{ vec4 values[]; }};
layout(binding=1, rgba32f) uniform writeonly image2D to;
void main() {{
  ivec2 p = ivec2(gl_GlobalInvocationID.xy);
  if (p.x < {width}) imageStore(to, p, values[p.y * {width} + p.x]);
}}"""
        self.kernel(fill, [self.buffer(values), found], (-(-width // 64), height)).run()
        return found


def operands_of_the_convolution(machine: Machine, x: np.ndarray, w: np.ndarray) -> dict[str, Stored]:
    """By the names of ``hand_shaders.convolutions``."""
    padded = np.zeros((N, C, SIDE + 2, PITCH), np.float32)
    padded[:, :, 1:-1, 1 : SIDE + 1] = x
    texels = padded[..., : SIDE + 2].reshape(N, C // 4, 4, SIDE + 2, SIDE + 2).transpose(0, 1, 3, 4, 2)
    kernel = w.reshape(C, C // 4, 4, 3, 3).transpose(0, 1, 3, 4, 2)
    return {
        "padded": machine.buffer(padded),
        "weights": machine.buffer(w.transpose(1, 2, 3, 0)),
        "texels": machine.image(texels.reshape(N * (C // 4) * (SIDE + 2), SIDE + 2, 4)),
        "kernel": machine.image(kernel.reshape(C, C // 4 * 9, 4)),
        "result": machine.buffer(np.zeros((N, C, SIDE, SIDE), np.float32)),
    }


def operands_of_the_product(machine: Machine, a: np.ndarray, b: np.ndarray) -> dict[str, Stored]:
    """By the names of ``hand_shaders.products``."""
    size = len(a)
    return {
        "left": machine.buffer(a),
        "right": machine.buffer(b),
        "left texels": machine.image(a.reshape(size, size // 4, 4)),
        "right texels": machine.image(b.reshape(size, size // 4, 4)),
        "result": machine.buffer(np.zeros_like(a)),
    }


# ---- in turns
def cpu_ms(run: Callable[[], None]) -> float:
    start = time.process_time()
    run()
    return 1e3 * (time.process_time() - start)


def compare(
    machine: Machine,
    y: Variable,
    expected: np.ndarray,
    operands: dict[str, Stored],
    shaders: Iterable[HandWritten],
    rounds: int,
) -> dict[str, Any]:
    """Values of all against NumPy; the fastest shader of each kind of storage, and dressi, in turns."""
    scale, device, result = np.abs(expected).max(), machine.device, operands["result"]
    assert isinstance(result, DeviceBuffer)
    tried: dict[str, float] = {}
    kernels: dict[str, Kernel] = {}
    for shader in shaders:
        kernels[shader.name] = kernel = machine.kernel(
            shader.source, [operands[name] for name in shader.operands], shader.groups
        )
        kernel.run()
        found = result.mapped.view(np.float32).reshape(expected.shape)
        assert np.abs(found - expected).max() < 1e-5 * scale, shader.name
        tried[shader.name] = min(cpu_ms(kernel.run) for _ in range(3))
    best = {
        kind: min((name for name in tried if name.startswith(kind)), key=tried.__getitem__)
        for kind in ("buffers", "images")
    }
    with VulkanExecutor(Program({"y": y}), device, options=EACH, cost=model_of(device)) as run:

        def ours() -> None:
            run.run()
            run.wait()

        ours()
        error = float(np.abs(run.recv(y).reshape(expected.shape) - expected).max() / scale)
        assert error < 1e-5, error
        runs = {"dressi": ours, **{kind: kernels[name].run for kind, name in best.items()}}
        times = [{name: cpu_ms(each) for name, each in runs.items()} for _ in range(rounds + 1)][1:]
        stages = len(run.plan.stages)
    return {
        "ms": {name: median(t[name] for t in times) for name in runs},
        "times as long as by hand": {kind: median(t["dressi"] / t[kind] for t in times) for kind in best},
        "fastest": best,
        "tried ms": {name: round(ms, 2) for name, ms in tried.items()},
        "dressi's stages": stages,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--size", type=int, default=1024, help="rows and columns of the matrices, a multiple of 256"
    )
    parser.add_argument("--rounds", type=int, default=11, help="turns that are measured")
    parser.add_argument(
        "--longest",
        type=int,
        default=2304,
        help="products of a block without loops; lavapipe 22 does not compile 2304 within 170 s",
    )
    parser.add_argument("--device", help="name or index of a Vulkan device")
    parser.add_argument("--json", type=Path, help="where the figures go")
    args = parser.parse_args()
    if args.size < 256 or args.size % 256:
        parser.error(f"--size {args.size} is no multiple of 256")
    random = np.random.default_rng(0)
    x = random.standard_normal((N, C, SIDE, SIDE), np.float32)
    w = random.standard_normal((C, C, 3, 3), np.float32)
    a, b = (random.standard_normal((args.size, args.size), np.float32) for _ in range(2))
    image = Variable(FLOAT, (SIDE, SIDE), N, channels=C, data=x)
    weight = Variable(FLOAT, (3, 3), C, channels=C, data=w)
    padded = np.pad(x.astype(float), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    convolved = np.einsum("ncyxij,ocij->noyx", windows, w.astype(float), optimize=True)
    with Device.open(args.device) as device:
        physical = device.physical
        results: dict[str, Any] = {
            "device": device.name,
            "driver": f"{physical.driver} {physical.driver_version}",
        }
        with ExitStack() as stack:
            machine = Machine(device, stack)
            operands = operands_of_the_convolution(machine, x, w)
            y = F.correlate(image, weight)
            results["convolution"] = compare(
                machine, y, convolved, operands, convolutions(args.longest), args.rounds
            )
        with ExitStack() as stack:
            machine = Machine(device, stack)
            operands = operands_of_the_product(machine, a, b)
            y, expected = (
                F.matmul(Variable.of(a, FLOAT), Variable.of(b, FLOAT)),
                a.astype(float) @ b.astype(float),
            )
            results[f"product {args.size}"] = compare(
                machine, y, expected, operands, products(args.size), args.rounds
            )
    print(json.dumps(results, indent=1))
    if args.json is not None:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
