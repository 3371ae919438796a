"""The order of imports never matters: every module of dressi can be the first that a program imports."""

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]

# One process for all: between two imports it forgets what belongs to dressi, and keeps NumPy and the like.
EACH_FIRST = """
import importlib, sys, traceback
failed = []
for name in sys.argv[1:]:
    for known in [m for m in sys.modules if m.split(".")[0] == "dressi"]:
        del sys.modules[known]
    try:
        importlib.import_module(name)
    except Exception as error:
        failed.append(f"{name}: {error!r}")
print("\\n".join(failed))
"""


def modules() -> list[str]:
    files = (REPOSITORY / "dressi").rglob("*.py")
    parts = (file.relative_to(REPOSITORY).with_suffix("").parts for file in files)
    names = (".".join(p[:-1] if p[-1] == "__init__" else p) for p in parts)
    return sorted(name for name in names if not name.endswith("__main__"))


def test_every_module_can_be_imported_first():
    found = modules()
    assert "dressi.render.turntable" in found and "dressi.ad.functional" in found
    result = subprocess.run(
        [sys.executable, "-c", EACH_FIRST, *found], capture_output=True, text=True, timeout=300, cwd=REPOSITORY, check=False
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == ""
