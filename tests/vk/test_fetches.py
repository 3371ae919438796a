"""Every fetch of every shader is guarded: no driver may fold a constant of its index into the instruction. NVIDIA's does, and
then tests the rest of the index against the image; none of the drivers that run here do."""

import re
import struct
from pathlib import Path

import pytest
from graphs import masked_program
from random_graphs.operations import OPERATIONS
from random_graphs.programs import EVERY, random_program
from random_graphs.rasters import SUMS

import dressi
from dressi.ad import functional as F
from dressi.ad.graph import Variable
from dressi.ad.program import Program
from dressi.ad.transform.simplify import simplify
from dressi.ad.types import VEC3
from dressi.config import shader_text
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.glsl.generate import _SHADERS
from dressi.vk.plan.glsl.text.shaders import stage_of
from dressi.vk.plan.limits import PROFILES
from dressi.vk.plan.model.records import CPU, DESKTOP
from dressi.vk.plan.options import BASELINE, DEFAULT
from dressi.vk.run import gate
from dressi.vk.run.shaders.pyglslang import compile_many

LEAST = -2147483647
TYPE_IMAGE, CONSTANT, COMPOSITE, LOAD, EXTENDED = 25, 43, 44, 61, 12
FETCH, READ = 95, 98
SMAX, SUBPASS = 42, 6


def unguarded(spirv: bytes) -> list[int]:
    """Places of the fetches whose coordinates are no maximum with the guard; input attachments are read at no index."""
    words = struct.unpack(f"<{len(spirv) // 4}I", spirv)
    made: dict[int, tuple[int, ...]] = {}
    types: dict[int, int] = {}
    found, place = [], 5
    while place < len(words):
        length, code = words[place] >> 16, words[place] & 0xFFFF
        at = words[place + 1 : place + length]
        if code == TYPE_IMAGE:
            made[at[0]] = (code, at[2])
        elif code in (CONSTANT, COMPOSITE, LOAD, EXTENDED):
            made[at[1]], types[at[1]] = (code, *at[2:]), at[0]
        elif code in (FETCH, READ):
            image, coordinate = at[2], at[3]
            dimension = made[types[image]][1] if types.get(image) in made else None
            if not (code == READ and dimension == SUBPASS) and not _guarded(made, coordinate):
                found.append(place)
        place += length
    return found


def _guarded(made: dict[int, tuple[int, ...]], coordinate: int) -> bool:
    code, *at = made.get(coordinate, (0,))
    if code == COMPOSITE:  # a constant, from which there is nothing to be moved
        return True
    if code != EXTENDED or at[1] != SMAX:
        return False
    code, *parts = made.get(at[3], (0,))
    return code == COMPOSITE and all(made[k] == (CONSTANT, LEAST & 0xFFFFFFFF) for k in parts)


def programs():
    """Programs whose shaders read in every way: mirrored, at computed indices, by snippets, by vertices, in draws."""
    x = Variable(VEC3, (5, 4), name="x")
    column = F.linear_index((5, 4))
    flipped = F.flip(x, "x")
    yield Program({"lookup": F.lookup(x, 7 - column / 3), "sum": F.sum(flipped * x)})
    for seed, operations in ((1, EVERY), (2, SUMS), (3, EVERY), (4, SUMS), (12, SUMS)):
        drawn = EVERY if operations is EVERY else (*OPERATIONS[::9], *SUMS, *SUMS)
        yield simplify(random_program(seed, 8, drawn)[0])
    for seed in (0, 1):
        yield masked_program(seed)


def shaders():
    """(shader, its stage) of the programs, planned for devices that fetch from textures, images and buffers, as whole plans and
    with a pass for each Function; the kinds of work are all there."""
    free = CPU.weighing(lanes=1, fetch=0.0, store=0.0, stage=0.0)
    found, kinds = {}, set()
    for k, program in enumerate(programs()):
        for options, cost in ((DEFAULT, CPU), (DEFAULT, free), (BASELINE if k == 0 else DEFAULT, DESKTOP)):
            plan = build_plan(program, PROFILES["desktop"], shader_text, options, cost=cost)
            kinds |= {type(s.work) for s in plan.sub_stages}
            for made in plan.shaders.values():
                found |= {source: stage_of(part) for part, source in made.sources.items()}
    assert kinds == set(_SHADERS)
    return [*found.items(), (gate.SOURCE, "compute")]


def test_every_fetch_is_guarded():
    found = shaders()
    text = "\n".join(source for source, _ in found)
    ways = (
        "texelFetch(",
        "imageLoad(",
        "subpassLoad(",
        "dressi_fetch",
        "dressi_make",
        "dressi_part",
        "dressi_range",
    )
    assert all(way in text for way in ways)
    reading = [
        (s, stage, f"shader {k}") for k, (s, stage) in enumerate(found) if re.search(r"Fetch\(|Load\(", s)
    ]
    for (source, *_), spirv in zip(reading, compile_many(reading), strict=True):
        assert unguarded(spirv) == [], source


@pytest.mark.parametrize("index", ["4 - pixel.x", "clamp(4 - pixel.x, 0, 4)", "pixel.x - 3 + 4"])
def test_the_test_sees_fetches_without_the_guard(index):
    source = """#version 450
#extension GL_EXT_samplerless_texture_functions : require
layout(local_size_x = 1) in;
layout(set = 0, binding = 0) uniform texture2D image;
layout(set = 0, binding = 1, r32f) uniform image2D stored;
void main() {
  ivec2 pixel = ivec2(gl_GlobalInvocationID.xy);
  imageStore(stored, pixel, texelFetch(image, INDEX, 0) + imageLoad(stored, INDEX));
}
"""
    plain, guarded = f"ivec2({index}, 0)", f"max(ivec2({index}, 0), ivec2({LEAST}))"
    jobs = [(source.replace("INDEX", text), "compute", "probe") for text in (plain, guarded)]
    assert [len(unguarded(spirv)) for spirv in compile_many(jobs)] == [2, 0]


def test_fetches_are_written_in_one_place():
    """Snippets call the functions that the writer makes. A new place has to guard its index, and to be compiled above."""
    package = Path(dressi.__file__).parent
    files = [*package.rglob("*.py"), *(package.parent / "shaders").rglob("*.glsl")]
    found = {
        f.name for f in files if re.search(r"(texelFetch|imageLoad)\w*\(", f.read_text(encoding="utf-8"))
    }
    assert found == {"writer.py", "gate.py"}
