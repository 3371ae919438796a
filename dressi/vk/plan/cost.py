"""What work costs: the estimates by which a plan stores a value or recomputes it.

Everything is counted in *operations*: what one invocation does in one cycle or so. Only ratios matter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import lru_cache

from ...ad.graph import Function, ReduceFunction, Variable
from .model.records import CPU as CPU

_CALLS = re.compile(r"(?<![\w$])([a-z]\w*)\(")
_SIGNS = re.compile(r"[-+*/%<>?]")
_CHEAP = frozenset(
    "if for return int uint float bool vec2 vec3 vec4 ivec2 ivec3 ivec4 mat2 mat3 mat4 "
    "abs sign floor ceil trunc round min max clamp mix step any all not dot cross fract transpose "
    "lessThan lessThanEqual greaterThan greaterThanEqual equal notEqual isnan isinf".split()
)
_BUILT_IN = frozenset(
    "sqrt inversesqrt length distance normalize exp exp2 log log2 pow atan asin acos sin cos tan".split()
)
CHEAP, BUILT_IN, OWN = 1, 8, 30
"""Operations of a call: of the cheap ones, of roots and transcendental functions, of GLSL functions of ours."""


@lru_cache(maxsize=4096)
def _snippet_operations(glsl: str) -> int:
    calls = _CALLS.findall(glsl)
    costs = [CHEAP if name in _CHEAP else BUILT_IN if name in _BUILT_IN else OWN for name in calls]
    return 1 + len(_SIGNS.findall(glsl)) + sum(costs)


def operations(f: Function) -> float:
    """Of one invocation of a Function, without its reads; from its snippet, by components of the output."""
    loop = fetches(f, 0) if isinstance(f, ReduceFunction) else 1
    return _snippet_operations(f.glsl) * f.output.vtype.components * loop


def planes(variables: Iterable[Variable]) -> int:
    """Images that hold the Variables: what is fetched of each texel, or stored."""
    return sum(len(v.vtype.planes) for v in variables)


def fetches(f: Function, k: int) -> float:
    """How many texels of input ``k``, a FETCH, an invocation reads; infinite where a loop decides.

    Tiles of a batch count once: plans do not depend on the number of views.
    """
    if isinstance(f, ReduceFunction):
        (width, height), _ = f.inputs[0].domain
        return {"x": width, "y": height, "n": 1}[f.axis]
    text = f.glsl
    return math.inf if "for (" in text else text.count(f"${k}(")
