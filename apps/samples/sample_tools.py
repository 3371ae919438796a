"""Shared by the samples: their options and the output of results."""

import argparse
import json
from pathlib import Path

import numpy as np

from dressi.render.io import save_png

RESULTS = Path(__file__).resolve().parents[1] / "results" / "samples.json"


def options(doc: str | None, *, steps: int, size: int, seed: int | None = None) -> argparse.Namespace:
    """--steps, --size (as a pair), --device, --out, --headless, --record, and --seed, if the sample reads it: its default
    declares it."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--size", type=int, default=size, help="pixels along each side of a picture")
    if seed is not None:
        parser.add_argument("--seed", type=int, default=seed)
    parser.add_argument("--device", help="Vulkan device, by name or index")
    parser.add_argument("--out", type=Path, default=Path("out/samples"))
    parser.add_argument("--headless", action="store_true", help="open no window (there is none)")
    parser.add_argument("--record", action="store_true", help=f"write the figures into {RESULTS.name}")
    given = parser.parse_args()
    given.size = (given.size, given.size)
    return given


def report(given: argparse.Namespace, name: str, figures: dict[str, float], *pictures: np.ndarray) -> None:
    """Print the figures as JSON; write pictures (H, W, 3), or batches of them, side by side into NAME.png."""
    figures = {key: round(np.asarray(value).item(), 6) for key, value in figures.items()}
    print(json.dumps({name: figures}))
    given.out.mkdir(parents=True, exist_ok=True)
    rows = [np.concatenate(p.reshape(-1, *p.shape[-3:])[:6], axis=1) for p in map(np.asarray, pictures)]
    width = max(row.shape[1] for row in rows)
    rows = [np.pad(row, ((0, 2), (0, width - row.shape[1]), (0, 0))) for row in rows]
    save_png(given.out / f"{name}.png", np.concatenate(rows))
    if given.record:
        known = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
        known[name] = {"steps": given.steps, "size": given.size[0], **figures}
        RESULTS.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")
