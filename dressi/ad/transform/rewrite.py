"""The driver of all rewrites: applies a set of rules to a graph, producers first, until none fires."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import GraphError
from ..graph import Function, Variable
from ..graph.program import Program
from ..graph.traversal import topological_order

Rule = Callable[[Function], Variable | None]
"""Returns a Variable equal to the output of the Function, of the same type and domain, or None if the rule
does not apply. The inputs of the Function are already rewritten. Every application must make the graph
smaller or bring it nearer to a normal form; otherwise the driver stops with an error."""

Pass = Callable[[Program], Program]


def on(*kinds: type[Function]) -> Callable[[Rule], Rule]:
    """Marks a rule that applies only to Functions of these classes."""

    def mark(rule: Rule) -> Rule:
        rule.kinds = kinds  # type: ignore[attr-defined]
        return rule

    return mark


def alike(x: Variable, function: Function) -> bool:
    """Whether x has the type and domain of the output of the Function, so that it can replace it."""
    return x.vtype is function.output.vtype and x.domain == function.output.domain


def if_alike(x: Variable, function: Function) -> Variable | None:
    return x if alike(x, function) else None


@dataclass
class Rewriting:
    """The new Variable of each old one, and how often each rule fired, by name."""

    mapping: dict[Variable, Variable] = field(default_factory=dict)
    fired: Counter[str] = field(default_factory=Counter)

    def __getitem__(self, variable: Variable) -> Variable:
        return self.mapping.get(variable, variable)


def rewrite(
    roots: Iterable[Variable],
    rules: Sequence[Rule] = (),
    replace: Mapping[Variable, Variable] | None = None,
    commutative: frozenset[type[Function]] = frozenset(),
) -> Rewriting:
    """Rewrites everything that the roots depend on. Equal Functions (class, attributes, inputs) become one.

    replace: Variables to replace by others of the same type and domain, before the rules apply. A replacement
    must not depend on the Variable that it replaces. commutative: classes for which f(a, b) equals f(b, a).
    Leaves stay the same objects. Iterative, and linear in the number of Functions. Raises GraphError if rules
    run in circles.
    """
    done: dict[Variable, Variable] = {}
    forward: dict[Variable, Variable] = dict(replace or {})
    table: dict[type[Function], list[Rule]] = {}
    unique: dict[tuple[Any, ...], Variable] = {}
    result = Rewriting(done)
    roots = list(roots)
    fuel, refuelled = 1000, False
    stack = list(reversed(roots))
    waiting: set[Variable] = set()
    while stack:
        v = stack[-1]
        if v in done:
            stack.pop()
            continue
        if v in forward:
            target = forward[v]
            if target in done:
                done[v] = done[target]
            elif v in waiting:
                raise GraphError(f"{v} is replaced by {target}, which depends on it")
            else:
                waiting.add(v)
                stack.append(target)
            continue
        function = v.creator
        if function is None:
            done[v] = v
            continue
        missing = [x for x in function.inputs if x not in done]
        if missing:
            stack.extend(reversed(missing))
            continue
        inputs = tuple(done[x] for x in function.inputs)
        kind = type(function)
        keyed = sorted(inputs, key=lambda x: x.id) if kind in commutative else inputs
        key = (*function.identity, *keyed)
        same = unique.get(key)
        if same is not None:
            if same is not v:
                result.fired["duplicate"] += 1
            done[v] = same
            continue
        if inputs != function.inputs:  # Variables are equal when they are the same
            function = function.rebuild(*inputs)
        if kind not in table:
            table[kind] = [r for r in rules if issubclass(kind, getattr(r, "kinds", Function))]
        new = _first(table[kind], function, result.fired)
        if new is None:
            done[v] = done[function.output] = unique[key] = function.output
            continue
        if (new.vtype, new.domain) != (v.vtype, v.domain):
            raise GraphError(f"a rewrite turned {v} into {new}, which has another type or domain")
        fuel -= 1
        if fuel < 0 and not refuelled:
            fuel, refuelled = 20 * len(topological_order([*roots, *(replace or {}).values()])), True
        if fuel < 0:
            raise GraphError(f"rewrites run in circles at {v}: {dict(result.fired)}")
        forward[v] = new
    return result


def _first(rules: Sequence[Rule], function: Function, fired: Counter[str]) -> Variable | None:
    for rule in rules:
        new = rule(function)
        if new is not None and new is not function.output:
            fired[getattr(rule, "__name__", "rule")] += 1
            return new
    return None


def substitute(roots: Sequence[Variable], replace: Mapping[Variable, Variable]) -> list[Variable]:
    """The roots with some Variables replaced by others of the same type and domain."""
    for old, new in replace.items():
        if (old.vtype, old.domain) != (new.vtype, new.domain):
            raise GraphError(f"{new} cannot stand for {old}: types, sizes and batches must be equal")
    mapping = rewrite(roots, (), replace)
    return [mapping[r] for r in roots]


def replaced(program: Program, by: Mapping[Variable, Variable]) -> Program:
    """The program with some Variables replaced by others of the same type and domain."""
    return mapped(program, rewrite(program.roots, (), by)) if by else program


def mapped(program: Program, rewriting: Rewriting) -> Program:
    """The program over the rewritten Variables. It updates the same leaves."""
    return Program(
        {name: rewriting[v] for name, v in program.outputs.items()},
        tuple((leaf, rewriting[new]) for leaf, new in program.updates),
    )
