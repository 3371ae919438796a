"""Levels of commands and the barriers between them, as plain data."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from dressi import F, Variable
from dressi.ad.graph.program import Program
from dressi.config import shader_text
from dressi.vk.plan.compiler import build_plan
from dressi.vk.plan.core.limits import profile
from dressi.vk.plan.execution.sync import WRITES, Access, Barrier, Part, Pipe, Use, synchronize


@dataclass(frozen=True, eq=False)
class Step:
    uses: tuple[Use, ...]
    name: int = 0


READ = {
    Pipe.VERTEX: Access.SHADER_READ,
    Pipe.FRAGMENT: Access.INPUT_ATTACHMENT_READ,
    Pipe.COMPUTE: Access.SHADER_READ,
    Pipe.INDIRECT: Access.INDIRECT_READ,
}
WRITE = {
    Pipe.COLOR: Access.COLOR_WRITE,
    Pipe.COMPUTE: Access.SHADER_WRITE,
    Pipe.TRANSFER: Access.TRANSFER_WRITE,
}
KINDS = [*READ.items(), *WRITE.items()]
USES = st.builds(lambda resource, kind: Use(resource, *kind), st.integers(0, 5), st.sampled_from(KINDS))


def reads(resource: str) -> Use:
    return Use(resource, Pipe.FRAGMENT, Access.SHADER_READ)


def writes(resource: str) -> Use:
    return Use(resource, Pipe.COMPUTE, Access.SHADER_WRITE)


def test_independent_commands_share_a_barrier():
    steps = [
        Step((writes("a"),), 0),
        Step((reads("a"), writes("b")), 1),
        Step((writes("c"),), 2),
        Step((reads("b"), reads("c")), 3),
    ]
    levels = synchronize(steps)
    assert [[c.name for c in level.commands] for level in levels] == [[0, 2], [1], [3]]
    assert [level.barrier is None for level in levels] == [True, False, False]
    assert levels[1].barrier == Barrier(Pipe.COMPUTE, Pipe.FRAGMENT, Access.SHADER_WRITE, Access.SHADER_READ)
    in_order = synchronize(steps, in_order=True)
    assert [[c.name for c in level.commands] for level in in_order] == [[0], [1, 2], [3]]


def test_a_write_after_a_read_waits_and_sees_nothing():
    _, level = synchronize([Step((reads("a"),)), Step((writes("a"),))])
    assert level.barrier == Barrier(Pipe.FRAGMENT, Pipe.COMPUTE, Access(0), Access(0))
    assert str(level.barrier) == "fragment (-) -> compute (-)"


@given(st.lists(st.lists(USES, min_size=1, max_size=3), max_size=12), st.booleans())
def test_every_dependency_has_its_barrier_and_no_barrier_is_idle(uses, in_order):
    steps = [Step(tuple(own), k) for k, own in enumerate(uses)]
    levels = synchronize(steps, in_order=in_order)
    placed = {c.name: k for k, level in enumerate(levels) for c in level.commands}
    assert sorted(placed) == list(range(len(steps)))
    longest = [0] * len(steps)
    needed = [Barrier(Pipe(0), Pipe(0), Access(0), Access(0))] * len(levels)
    for j, later in enumerate(steps):
        for use in later.uses:
            others = [(i, u) for i in range(j) for u in steps[i].uses if u.resource == use.resource]
            last = max((i for i, u in others if u.writes), default=-1)
            for i, u in others:
                if not (u.writes or use.writes):
                    continue
                assert placed[i] < placed[j]
                longest[j] = max(longest[j], longest[i] + 1)
                # What was overwritten since, or read before a later write, is ordered through that write.
                if (i == last and u.writes) or (i >= last and use.writes):
                    barrier = levels[placed[j]].barrier
                    assert barrier is not None and u.stages in barrier.before and use.stages in barrier.after
                    if u.writes:
                        assert u.access & WRITES in barrier.written and use.access in barrier.seen
                    n = needed[placed[j]]
                    needed[placed[j]] = Barrier(
                        n.before | u.stages,
                        n.after | use.stages,
                        n.written | (u.access & WRITES if u.writes else Access(0)),
                        n.seen | (use.access if u.writes else Access(0)),
                    )
    assert [level.barrier for level in levels[1:]] == needed[1:]
    if not in_order and steps:
        assert len(levels) == 1 + max(longest)


def plan_of(program: Program, limits: str = "desktop"):
    return build_plan(program, profile(limits), shader_text)


def test_the_commands_of_a_step_do_what_they_do_in_the_order_of_the_plan():
    """Every command finds the same contents in the order of levels: its writers are the same."""
    x, y = (
        Variable.of([[0.1 * k + j for j in range(6)] for k in range(5)], name=n)
        for k, n in ((1, "x"), (2, "y"))
    )
    moved = F.scatter_add(F.square(x), F.to_int(F.clamp(y, 0.0, 3.0)), (4, 1))
    far = F.shift(x, 1, 0)
    program = Program(
        {"sum": F.sum(moved), "far": F.sum(far)}, ((x, far * 0.5), (y, F.shift(y, 0, 1) + F.sum(moved)))
    )
    for limits in ("desktop", "minimum", "mali_g76"):
        plan = plan_of(program, limits)
        everything = range(len(plan.stages))
        in_order = [c for k in everything for c in plan.commands[k]]
        levels = plan.synchronized(everything)
        assert len(levels) <= len(in_order) + len(plan.step.copies) + 1

        def writers(commands):
            last, found = {}, {}
            for c in commands:
                found[c.stage, c.part, c.band] = [last.get(use.resource) for use in c.uses]
                last.update({use.resource: (c.stage, c.part, c.band) for use in c.uses if use.writes})
            return found

        by_level = writers(c for level in levels for c in level.commands if c.stage >= 0)
        assert by_level == writers(in_order)


def test_a_part_of_a_step_has_its_own_barriers():
    """What runs again after a send depends on what runs with it alone."""
    x = Variable.of([[0.1, 0.2, 0.3]], name="x")
    y = Variable.of([[0.4, 0.5, 0.6]], name="y")
    first, second = F.sum(F.sin(x)), F.sum(F.cos(y))
    program = Program({"both": first + second}, ((y, F.shift(y, 1, 0) + first),))
    plan = plan_of(program)
    assert len(plan.static.stages) >= 1 and len(plan.step.stages) >= 1
    whole = plan.synchronized(range(len(plan.stages)))
    part = plan.synchronized(range(len(plan.static.stages), len(plan.stages)))
    assert [len(level.commands) for level in part] == [len(level.commands) for level in plan.levels]
    assert len(part) < len(whole)
    (copies,) = plan.synchronized([])
    assert [command.part for command in copies.commands] == [Part.COPY] * len(plan.step.copies)
    assert plan.step.copies and "order of a step" in str(plan)
