"""Pipelines and layouts that the graphs of a device share."""

from collections import Counter

import numpy as np
import pytest

from dressi import FLOAT, Device, F, Variable
from dressi.ad.program import Program
from dressi.vk.run import shared
from dressi.vk.run.executor import VulkanExecutor


@pytest.fixture
def own(device):
    with Device(device.physical, validation=device.instance.validation) as found:
        yield found


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
        monkeypatch.setattr("dressi.vk.run.shaders.pipeline_cache.compile_many", lambda *_: 1 / 0)
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
