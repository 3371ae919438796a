"""Plans on disk: a second process plans nothing, and nothing else than an equal plan is ever read."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from random_graphs.programs import random_derivatives, random_program

from dressi import F, PixelFunction, PlanOptions, Variable, adam
from dressi.ad.graph.program import Program
from dressi.ad.least_squares.objective import Objective
from dressi.ad.transform.simplify import simplify
from dressi.config import config
from dressi.render import primitives, render, ring
from dressi.vk.plan.core.limits import PROFILES
from dressi.vk.plan.core.options import DEFAULT
from dressi.vk.plan.execution.plan import Plan
from dressi.vk.plan.execution.text import NotRead, NotWritten, Writer, read
from dressi.vk.plan.model.records import CPU
from dressi.vk.run.execution import executor
from dressi.vk.run.execution.executor import planned

LIMITS = PROFILES["desktop"]
NONE = frozenset[Variable]()


def silhouettes() -> Program:
    """A step of a mesh: draws, sums over fragments, gathers by inverse lists, sparse blocks, updates."""
    mesh, target = primitives.octasphere(2), np.zeros((1, 32, 32), np.float32)
    target[:, 8:24, 4:20] = 1
    positions = Variable.of(mesh.positions)
    picture = render(mesh, ring(np.zeros(3), 1.0, 1, (32, 32)), positions=positions)
    objective = Objective()
    objective.set_loss(F.mean(F.square(picture.mask - picture.soft_target(target))), True)
    objective.set_optimizer(adam(0.01), [positions], False)
    return objective.program()


def products() -> Program:
    """Contractions by register tiles, with schedules."""
    x, y = (Variable(size=(256, 256), name=name) for name in "xy")
    return simplify(Program({"product": F.matmul(x, y)}))


def scatter(indices: np.ndarray, factor: float = 2.0) -> Program:
    index, values = Variable.of(indices), Variable(size=(8, 1), name="values")
    return simplify(Program({"sums": F.scatter_add(values * factor, index, (4, 1))}))


def how(program: Program, options: PlanOptions = DEFAULT, limits=LIMITS) -> tuple:
    return program, limits, options, CPU, NONE, False, False


PROGRAMS = {
    "silhouettes": silhouettes,
    "products": products,
    "lists": lambda: scatter(np.arange(8) % 4),
    **{f"random {k}": lambda k=k: random_program(k)[0] for k in range(3)},
    "derivatives": lambda: random_derivatives(5)[0],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_text_gives_back_its_plan_in_a_process_with_an_equal_graph(name):
    program, equal = PROGRAMS[name](), PROGRAMS[name]()
    plan, writer, other = executor.anew(*how(program)), Writer(), Writer()
    assert writer.digest(*how(program)) == other.digest(*how(equal))
    objects = tuple(other.objects)
    text = writer.text(plan)
    found = read(text, objects)
    assert isinstance(found, Plan) and other.text(found) == text
    assert {v for v in found.program.leaves if type(v) is Variable} <= {*equal.leaves}
    assert found.key == plan.key and found.counts == plan.counts
    assert [str(level.barrier) for level in found.levels] == [str(level.barrier) for level in plan.levels]


def test_keys_tell_apart_all_that_a_plan_is_made_from():
    few, many = np.arange(8) % 4, np.zeros(8, int)
    ways = [
        how(scatter(few)), how(scatter(many)), how(scatter(few, 3.0)),
        how(scatter(few), PlanOptions(adapt=False)), how(scatter(few), limits=PROFILES["mali_g76"]),
    ]  # fmt: skip
    assert len({Writer().digest(*way) for way in ways}) == len(ways)
    assert Writer().digest(*how(scatter(few))) == Writer().digest(*ways[0])


class Twice(PixelFunction):
    glsl = "2.0 * $0"

    def infer(self):
        return self.inputs[0].vtype, self.broadcast()

    def eval(self, x):
        return 2.0 * x


def test_plans_of_classes_that_users_write_are_not_kept():
    """Their code may change between two processes."""
    with pytest.raises(NotWritten, match="Twice"):
        Writer().digest(*how(Program({"y": F.apply(Twice, Variable(size=(4, 3)))})))


@pytest.mark.parametrize(
    "text",
    [
        "", "null", "[[], [], [0]]", '[["os:system"], [], ["c", 0]]', '[["dressi.ad.graph.types:np"], [], null]',
        '[["dressi.config:Config"], [["R", 0]], [0]]', '[["dressi.ad.graph.types:VType"], [["F", 0]], [0]]',
        '[["dressi.vk.plan.core.substage:Stage"], [["R", 0]], [0]]', "[" * 100_000,
    ],
)  # fmt: skip
def test_other_texts_are_refused(text: str):
    with pytest.raises(NotRead):
        read(text, ())


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A folder for plans, and the programs that are planned anew."""
    made = []
    plan = executor.anew
    monkeypatch.setattr(executor, "anew", lambda *given: made.append(given[0]) or plan(*given))
    with config(cache=tmp_path, check=False, debug=0):
        yield tmp_path / "plans", made


def test_what_is_damaged_or_of_another_version_is_made_again(kept, monkeypatch):
    folder, made = kept
    first = planned(*how(products()))
    (entry,) = folder.iterdir()
    whole = entry.read_bytes()
    for content in (whole[:-20], b"", whole.replace(b"Stage", b"Spage")):
        entry.write_bytes(content)
        assert planned(*how(products())).key == first.key
        assert entry.read_bytes() == whole
    assert len(made) == 4
    assert planned(*how(products())).key == first.key and len(made) == 4
    executor.disk.save("plans", entry.name, json.dumps([["dressi.ad:gone"], [], None]).encode())
    planned(*how(products()))
    assert len(made) == 5 and entry.read_bytes() == whole
    monkeypatch.setattr(executor, "sources", lambda: "another version")
    planned(*how(products()))
    assert len(made) == 6 and len([*folder.iterdir()]) == 2


def test_plans_that_were_used_last_are_kept(kept, monkeypatch):
    folder, made = kept
    planned(*how(scatter(np.arange(8) % 4)))
    (first,) = folder.iterdir()
    monkeypatch.setattr(executor, "MOST", int(2.5 * first.stat().st_size))
    planned(*how(scatter(np.arange(8) % 4, 3.0)))
    for entry in folder.iterdir():
        os.utime(entry, (1, 1))
    planned(*how(scatter(np.arange(8) % 4)))  # read, and so newer than the second one
    planned(*how(scatter(np.arange(8) % 4, 4.0)))
    assert first.exists() and len([*folder.iterdir()]) == 2 and len(made) == 3


SECOND = """
import sys
import numpy as np
from dressi import DressiAD, F, Variable, adam
from dressi.vk.run.shaders import pyglslang

image = Variable(size=(4, 3), data=np.linspace(0, 1, 12).reshape(1, 3, 4))
with DressiAD(sys.argv[1]) as ad:
    ad.set_loss(F.mean(F.square(F.sin(image) - F.shift(image, 1, 0))))
    ad.set_optimizer(adam(0.1), [image])
    ad.step(3)
    print(ad.recv(image).tobytes().hex(), len(ad.losses()))
print("dressi.vk.plan.compiler" in sys.modules, pyglslang.compiler.cache_info().currsize)
"""


def test_a_second_process_plans_nothing_and_loads_no_compiler(device, tmp_path):
    def run() -> list[str]:
        command = [sys.executable, "-c", SECOND, device.name.split(" (")[0]]
        env = {**os.environ, "DRESSI_CACHE": str(tmp_path), "DRESSI_CHECK": ""}
        return subprocess.run(
            command, env=env, capture_output=True, text=True, check=True
        ).stdout.splitlines()

    first, second = run(), run()
    assert first == [second[0], "True 1"] and second[1] == "False 0"
