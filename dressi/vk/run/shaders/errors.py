"""Errors of GLSL compilers in terms of what the user wrote: the Function, its snippet and the line in it."""

import inspect
import re
from typing import NamedTuple

from dressi.ad.graph import Function
from dressi.ad.graph.includes import is_own
from dressi.errors import ShaderError
from dressi.vk.plan.glsl.shaders import ShaderSource

# "ERROR: 0:12: 'x' : undeclared identifier" of glslang, "name:12: error: 'x' : undeclared identifier" of
# shaderc
_LINE = re.compile(r"^(?:ERROR: [^:\s]*:(\d+): |.*?:(\d+): error: )(.*)$", re.MULTILINE)
_AROUND = 3  # lines of the generated source shown before and after the one with the error


class Shader(NamedTuple):
    """One job of a compiler: GLSL, "vertex" | "fragment" | "compute", a name for messages, whether subgroups
    multiply matrices."""

    source: str
    stage: str
    name: str
    matrices: bool = False


class _Part(NamedTuple):
    """Consecutive lines of a shader from one source: the snippet of a Function, or an included file."""

    first: int  # from 1
    last: int
    owner: Function | str
    offset: int  # from ``first`` to the first line of the snippet or file


def shader_error(shader: Shader, log: str | bytes) -> ShaderError:
    """The error for a compiler's log: the user's text, then the log and the generated source."""
    log = log if isinstance(log, str) else log.decode(errors="replace")
    head = f"shader {shader.name!r} ({shader.stage}) does not compile:\n{log.strip()}"
    errors = [(int(a or b), message.strip()) for a, b, message in _LINE.findall(log)]
    for line, message in errors:
        if (written := _written(shader.source, line, message)) is not None:
            return ShaderError(f"{written}\n\n{head}\n{_numbered(shader.source, line)}")
    return ShaderError(f"{head}\n{_numbered(shader.source)}")


def _numbered(source: str, line: int | None = None) -> str:
    """The source with line numbers; with ``line``, only the lines around it."""
    lines = source.splitlines()
    first, last = (1, len(lines)) if line is None else (max(line - _AROUND, 1), line + _AROUND)
    return "\n".join(f"{k:4d} | {lines[k - 1]}" for k in range(first, min(last, len(lines)) + 1))


def _written(source: str, line: int, message: str) -> str | None:
    """The message about the user's text at a line of the shader; None if the line is generated."""
    parts = _parts(source)
    part = next((part for part in parts if part.first <= line <= part.last), None)
    if part is None or _is_own(part):
        # The compiler reports a missing brace or semicolon after the snippet that lacks it.
        part = next((p for p in reversed(parts) if p.first <= line and _unfinished(p)), part)
    if part is None:
        return None
    number = min(line, part.last) - part.first - part.offset
    if isinstance(part.owner, str):
        return f"the included file '{part.owner}' does not compile, line {number + 1}: {message}"
    f, snippet = part.owner, inspect.cleandoc(part.owner.glsl).splitlines()
    number = min(max(number, 0), len(snippet) - 1)
    marked = "\n".join(f"{'>' if k == number else ' '} {k + 1:3d} | {text}" for k, text in enumerate(snippet))
    return (
        f"the GLSL of {type(f).__name__} does not compile, line {number + 1}: {message}\n{marked}\n"
        f"{_place(type(f), snippet[number])}applied at {f.where}"
    )


def _parts(source: str) -> list[_Part]:
    """The parts of a shader whose source is known, from top to bottom."""
    if not isinstance(source, ShaderSource):
        return []
    parts = []
    texts = [(text, f, text.partition("\n")[2].startswith("  {")) for text, f in source.statements.items()]
    texts += [(text.rstrip("\n"), name, False) for name, text in source.included.items()]
    for text, owner, declared in texts:
        if text and (place := source.find(text)) >= 0:
            first = 1 + source.count("\n", 0, place)
            parts.append(_Part(first, first + text.count("\n"), owner, int(declared)))
    return sorted(parts, key=lambda part: part.first)


def _is_own(part: _Part) -> bool:
    return isinstance(part.owner, Function) and is_own(type(part.owner))


def _unfinished(part: _Part) -> bool:
    """Whether the brackets of a user's snippet do not match, or its last statement lacks a semicolon."""
    if isinstance(part.owner, str) or _is_own(part):
        return False
    text = str(part.owner.glsl)
    pairs = any(text.count(left) != text.count(right) for left, right in ("()", "[]", "{}"))
    return pairs or (bool(part.offset) and not text.rstrip().endswith((";", "}")))


def _place(kind: type, text: str) -> str:
    """The file and line of a line of a snippet; empty if Python does not know it."""
    try:
        lines, first = inspect.getsourcelines(kind)
        file = inspect.getsourcefile(kind)
    except (OSError, TypeError):  # typed into a console
        return ""
    inside = next((k for k, line in enumerate(lines) if text.strip() in line), 0)
    return f"{kind.__name__} at {file}:{first + inside}, "
