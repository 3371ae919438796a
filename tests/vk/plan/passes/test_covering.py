"""Rasters of which nothing counts but what they cover: which they are, and that they cover the same without depths."""

import numpy as np

from dressi import IVEC3, VEC4, F
from dressi.ad.evaluate import evaluate
from dressi.ad.graph import RasterFunction, Variable
from dressi.ad.program import Program
from dressi.ad.transform.simplify import simplify
from dressi.vk.run.executor import VulkanExecutor

SIZE = (40, 24)


def drawn() -> Variable:
    """Random triangles, some cut by the near or the far plane; at the right two that lie in the far plane, or as near to
    it as a number says."""
    rng = np.random.default_rng(5)
    clip = np.ones((12, 3, 4), np.float32)
    clip[:, :, :2] = rng.uniform(-1, 0.4, (12, 3, 2))
    clip[:, :, 2] = rng.uniform(-0.4, 1.4, (12, 3))
    clip[-2:, :, :2] = [[(0.5, -0.9), (0.9, -0.9), (0.5, -0.1)], [(0.5, 0.1), (0.9, 0.1), (0.5, 0.9)]]
    clip[-2:, :, 2] = [[1.0], [np.nextafter(np.float32(1), np.float32(0))]]
    position = Variable(VEC4, (36, 1), data=clip.reshape(1, 1, 36, 4))
    faces = Variable(IVEC3, (12, 1), data=np.arange(36).reshape(1, 1, 12, 3))
    return F.rasterize(position, faces, size=SIZE)


def covering(program: Program) -> list[bool]:
    return [f.covering for f in program.functions if isinstance(f, RasterFunction)]


def test_rasters_of_which_only_the_cover_counts_are_found():
    face = drawn()
    cover = F.greater_equal(face, 0)

    def fragment(number):
        away = F.select(F.greater_equal(face, 0), 2.0, F.to_float(number) * 0.1)
        return away * 0.5, F.less(away, 0.2)

    near = F.rasterize(
        Variable(VEC4, (3, 1), data=np.ones((1, 1, 3, 4))), size=SIZE, triangles=1, fragment=fragment
    )
    both = simplify(Program({"cover": cover, "missed": F.less(face, 0), "near": near}))
    assert covering(both) == [True, False]
    for more in (face, F.to_float(face) * 2.0, F.greater(face, 0), F.less(face, 1)):
        assert covering(simplify(Program({"cover": cover, "more": more}))) == [False]


def test_what_is_covered_is_the_same():
    face = drawn()
    program = simplify(Program({"cover": F.greater_equal(face, 0)}))
    found, truth = evaluate([program.outputs["cover"], face])
    assert covering(program) == [True] and np.array_equal(found, truth >= 0)


def test_what_is_covered_is_the_same_without_depths(device):
    face = drawn()
    images = {}
    for name, more in (("covering", {}), ("nearest", {"face": face})):
        program = simplify(Program({"cover": F.greater_equal(face, 0), **more}))
        with VulkanExecutor(program, device) as executor:
            executor.run()
            images[name] = executor.recv(program.outputs["cover"])
            depths = executor.plan.images.depths
        assert len(depths) == (name == "nearest")
    assert np.array_equal(images["covering"], images["nearest"])
    # The one in the far plane is the background's.
    assert not images["covering"][0, :11, 30:].any() and images["covering"][0, 14:16, 31:33].all()
