"""Plans kept on disk: a program is planned once for a device, by the first process that builds it.

The name of an entry is a digest of all that a plan is made from: the structure of the program, the limits and
the model of the device, the options, and the version of dressi's sources. An entry that is damaged, or that
this version cannot read, is made again. With DRESSI_CHECK, and with DRESSI_DEBUG=2, which shows the passes,
every plan is made anew and none is kept; DRESSI_CHECK also compares each with what its text gives back.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from ....ad.graph import Variable
from ....ad.graph.program import Program
from ....config import config, shader_path, shader_text
from ....errors import PlanError
from ...plan.core.limits import DeviceLimits
from ...plan.core.options import PlanOptions
from ...plan.execution.plan import Plan
from ...plan.execution.text import NotRead, NotWritten, Writer, read
from ...plan.model.device import DeviceModel
from ..host import cache as disk

FOLDER = "plans"
Given = tuple[Program, DeviceLimits, PlanOptions, DeviceModel, frozenset[Variable], bool, bool]
"""What a plan is made from: with the model of the device, the leaves that change, and whether there are gates and
whether every value is kept, as in ``build_plan``."""
MOST = 64 << 20
"""Bytes of all plans together; those that were used last are kept."""
LARGEST = 8 << 20
"""Bytes of one."""


def anew(*given: *Given) -> Plan:
    """``build_plan`` of the same. Its module is slow to import, and kept plans do not need it."""
    from ...plan.compiler import build_plan

    program, limits, options, cost, changing, gated, every = given
    plan = build_plan(program, limits, shader_text, options, cost, changing, gated=gated, every=every)
    if config.check:
        _check(plan, given)
    return plan


def planned(*given: *Given) -> Plan:
    """The plan that ``anew`` makes, from the cache if it is there. Raises PlanErrors."""
    if config.cache is None or config.debug >= 2 or config.check:
        return anew(*given)
    writer = Writer()
    try:
        name = f"{writer.digest(*given, sources())}.json"
    except NotWritten:
        return anew(*given)
    plan = _kept(name, tuple(writer.objects))
    if plan is None:
        plan = anew(*given)
        with suppress(NotWritten):
            text = writer.text(plan).encode()
            if len(text) <= LARGEST:
                disk.save(FOLDER, name, text, durable=False)
                disk.shrink(FOLDER, MOST)
    return plan


def _kept(name: str, objects: Sequence[Any]) -> Plan | None:
    """The plan in the cache; None where there is none."""
    data = disk.load(FOLDER, name)
    if data is None:
        return None
    try:
        plan = read(data.decode(), objects)
    except (NotRead, UnicodeDecodeError):
        return None
    disk.touch(FOLDER, name)
    return plan if isinstance(plan, Plan) else None


def _check(plan: Plan, given: Sequence[Any]) -> None:
    """Raises PlanError if what the text of a plan gives back is another plan."""
    first, second = Writer(), Writer()
    try:
        first.digest(*given)
        objects = tuple(first.objects)
        text = first.text(plan)
    except NotWritten:
        return
    second.digest(*given)
    if second.text(read(text, objects)) != text:
        raise PlanError("a plan that was read from its text differs from it; please report the program")


@cache
def sources() -> str:
    """A digest of all that decides about plans: the versions of Python and dressi, and dressi's files, which
    change in a checkout while the version stays."""
    package = sys.modules[__name__.partition(".")[0]]
    root = Path(package.__file__ or "").parent
    lines = [sys.version, package.__version__]
    for folder in (root / "ad", root / "render", root / "vk" / "plan", shader_path("face.glsl").parent):
        lines += _files(str(folder))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _files(folder: str) -> Iterator[str]:
    """Path, length and time of each file of Python or GLSL, in the order of their names."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name.endswith((".py", ".glsl")):
            status = entry.stat()
            yield f"{entry.path} {status.st_size} {status.st_mtime_ns}"
        elif entry.is_dir() and entry.name != "__pycache__":
            yield from _files(entry.path)
