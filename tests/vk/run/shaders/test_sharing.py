"""Shaders that equal graphs share, and the names of snippets."""

import threading
from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dressi import FLOAT, Access, Device, DeviceError, DressiAD, F, GraphError, PixelFunction, Variable
from dressi.ad.graph.program import Program
from dressi.vk.run.device import shared
from dressi.vk.run.execution.executor import VulkanExecutor


def started(own: Device, factor: float = 3.0, size: tuple[int, int] = (6, 5)) -> VulkanExecutor:
    """A graph with a raster, a dispatch and a reduction over its face numbers."""
    corners = np.array([[-1.0, -1, 0, 1], [3, -1, 0, 1], [-1, 3, 0, 1]])
    position = Variable.of(corners, name="position")
    covered = F.to_float(F.rasterize(position, size=size)) + factor
    return VulkanExecutor(Program({"covered": covered, "mean": F.mean(covered)}), own)


def values(run: VulkanExecutor) -> list[np.ndarray]:
    run.run()
    return [run.recv(v) for v in run.program.outputs.values()]


def pipelines(own: Device) -> int:
    return own.live_objects().count("Pipeline")


def test_equal_graphs_share_and_outlive_each_other(own):
    with started(own) as first:
        expected, alone = values(first), Counter(own.live_objects())
        second = started(own)
        both = Counter(own.live_objects())
        for kind in ("Pipeline", "PipelineLayout", "DescriptorSetLayout"):
            assert both[kind] == alone[kind] > 0
        assert both["Image"] > alone["Image"]
    for mine, theirs in zip(values(second), expected, strict=True):
        assert (mine == theirs).all()
    assert pipelines(own) == alone["Pipeline"]
    second.close()
    assert own.live_objects() == []


def test_a_graph_that_is_built_again_makes_no_pipeline(own, monkeypatch):
    with started(own) as run:
        expected = values(run)
    assert own.live_objects() == [] and own.shared.idle
    made = []
    call = type(own.vk).call
    monkeypatch.setattr(type(own.vk), "call", lambda self, *a: (made.append(a[0]), call(self, *a))[1])
    with started(own) as run:
        assert all((a == b).all() for a, b in zip(values(run), expected, strict=True))
    assert made and not {n for n in made if "Pipelines" in n or "ShaderModule" in n or "Layout" in n}
    # Another shader, and another size of the picture, are other pipelines.
    with started(own, factor=4.0) as run:
        assert all((a == b + 1).all() for a, b in zip(values(run), expected, strict=True))
    assert any("Pipelines" in name for name in made)


def test_what_nobody_uses_goes_when_there_is_too_much_of_it(own, monkeypatch):
    monkeypatch.setattr("dressi.vk.run.device.device.KEPT", 4)
    with started(own) as used:
        for k in range(5):
            with started(own, factor=5.0 + k) as run:
                values(run)
            assert len(own.shared.idle) <= 4
        assert values(used)[0].max() == 3
    own.trim()
    assert own.shared.idle == set() == own.shared.handles and own.live_objects() == []
    with started(own) as run:
        assert values(run)[0].max() == 3


def test_a_build_that_fails_releases_what_it_shares(own, monkeypatch):
    with started(own) as run:
        before, references = own.live_objects(), len(own.shared.references)
        graph = Program({"y": F.sin(Variable(FLOAT, (4, 4), data=np.zeros((4, 4)))), **run.program.outputs})
        monkeypatch.setattr("dressi.vk.run.shaders.pipeline.compile_many", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            VulkanExecutor(graph, own)
        assert own.live_objects() == before and len(own.shared.references) == references
        assert values(run)[0].max() == 3
    assert not own.shared.references


def test_references_are_counted():
    books = shared.SharedObjects()
    made = iter("ab")
    a, again = (books.acquire("key", lambda: next(made)) for _ in range(2))
    assert a.handle == again.handle == "a" and books.idle == set()
    books.release(a)
    books.release(a)  # is ignored
    assert books.idle == set() and books.forget_idle(0) == []
    books.release(again)
    assert books.idle == {"a"} and books.forget_idle(1) == [] and books.forget_idle(0) == ["a"]
    assert books.acquire("key", lambda: next(made)).handle == "b"


class Squared(PixelFunction):
    glsl = "float x0 = $0; float x1 = x0; float x2 = x1; float x3 = x2; $y = x1 * x3;"

    def infer(self):
        return self.inputs[0].vtype, self.broadcast()

    def eval(self, x):
        return x * x


class Reserved(Squared):
    glsl = "float dressi_x1 = $0; $y = dressi_x1;"


def test_names_of_a_snippet_are_its_own(device):
    x = Variable.of(np.arange(5.0))
    with DressiAD(device) as ad:
        found = ad.evaluate(F.apply(Squared, F.apply(Squared, x + 1.0)))
    assert_array_equal(found, (x.data.reshape(-1) + 1) ** 4)


def test_names_of_the_shader_are_refused():
    with pytest.raises(GraphError, match="uses the name dressi_x1"):
        F.apply(Reserved, Variable.of(np.arange(5.0)))


NAMES = (
    "own first step count busy value results texels segment_first segment_texel place texel number "
    "fetch_image0 fetch0 make0 part0 sample0 image0 passed0 drawn_face total slot lost"
)
LOCALS = " ".join(f"float {name} = 7.0;" for name in NAMES.split())


class Fetched(PixelFunction):
    access = (Access.FETCH,)
    glsl = LOCALS + "$y = $0(ivec2(0), 0) + $0(ivec2(1, 0), 0);"

    def infer(self):
        return FLOAT, ((1, 1), 1)

    def eval(self, x):
        return x[:, :, :1] + x[:, :, 1:2]


@pytest.mark.parametrize("stored", [True, False])
def test_locals_do_not_hide_what_reads_an_input(device, stored):
    x = Variable(FLOAT, (5, 1), data=np.arange(5.0, dtype=np.float32).reshape(1, 1, 5))
    with DressiAD(device) as ad:
        assert ad.evaluate(F.apply(Fetched, x if stored else x * 3.0)).item() == (1.0 if stored else 3.0)


def test_names_are_refused_however_a_class_is_applied(device):
    direct = Reserved(Variable.of(np.arange(5.0))).output
    with DressiAD(device) as ad, pytest.raises(GraphError, match="uses the name dressi_x1"):
        ad.evaluate(direct)


def test_comments_and_members_name_no_place():
    class Commented(Squared):
        glsl = "$0 /* of this pixel */ * $0 // in its tile"

    class Placed(Squared):
        glsl = "$0 * float(pixel.x)"

    x = Variable.of(np.arange(5.0))
    assert not Commented(x).places and Placed(x).places == {"pixel"}


def test_names_of_a_users_file_are_its_own(device, tmp_path):
    """Functions like those of the shader of a scatter, global variables like its buffers."""
    file = tmp_path / "own.glsl"
    file.write_text(
        "float total(int slot) { return 2.0; }\nvoid put(int slot, float value, float bound) {}\n"
        "float last_bit(float value) { return value; }\n"
        # With values: what is not set may be NaN, which no factor of 0 takes away.
        "float totals = 1.0, saturated = 1.0, list, blocks, range0, flat0, color0, first;\n"
    )

    class Own(Squared):
        includes = (str(file),)
        glsl = "$0 * total(1) + 0.0 * last_bit(totals)"

        def eval(self, x):
            return 2 * x

    x = Variable(FLOAT, (5, 3), name="x", data=np.arange(15.0).reshape(1, 3, 5))
    value = F.apply(Own, x * 1.0)
    added = F.scatter_add(value, F.linear_index((5, 3)) % 4, (2, 2), bound=100.0)
    program = Program({"value": value, "added": F.apply(Own, added)}, ((x, value),))
    with VulkanExecutor(program, device) as run:
        run.run(1)
        values = 2 * np.arange(15.0)
        sums = np.bincount(np.arange(15) % 4, values).reshape(1, 2, 2)
        assert_array_equal(run.recv(program.outputs["added"]), 2 * sums)
        assert_array_equal(run.recv(x).ravel(), values)


def test_drivers_that_compile_with_the_pipeline_are_asked_by_several_threads(own, monkeypatch):
    with started(own) as run:
        expected = values(run)
    own.trim()
    monkeypatch.setattr(type(own), "compiles_late", property(lambda self: False))
    threads, call = [], type(own.vk).call

    def noted(self, name, failed, *arguments):
        if "Pipelines" in name:
            threads.append(threading.current_thread())
        return call(self, name, failed, *arguments)

    monkeypatch.setattr(type(own.vk), "call", noted)
    with started(own) as run:
        assert all((a == b).all() for a, b in zip(values(run), expected, strict=True))
    assert len(threads) > 2 and threading.main_thread() not in threads

    def failing(self, name, failed, *arguments):
        if name == "vkCreateGraphicsPipelines":
            self.fail(-13, failed)
        return call(self, name, failed, *arguments)

    own.trim()
    monkeypatch.setattr(type(own.vk), "call", failing)
    with pytest.raises(DeviceError, match="could not make a pipeline"):
        started(own)
    own.trim()
    assert own.live_objects() == []
