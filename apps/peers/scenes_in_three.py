"""Scenes of several materials in three.js: do files that we write pass Khronos's validator, and open there alike?

    npm install three gltf-validator
    DRESSI_DATA=data python apps/peers/scenes_in_three.py --modules node_modules --out out/scenes_in_three

Needs node, and Chromium or Chrome (`apt-get install chromium`), which draws by software. Each scene of `sample_scenes.py` is saved as a .glb. gltf-validator
checks it, and a page that is served on this machine alone draws it by the camera and the lights of the file. Writes a
picture for each scene (ours, three.js, eight times the difference of sRGB values as it is and plain), one of all, and scenes_in_three.json with the errors and warnings of the validator and, in dB of sRGB values:

    covered   share of the pixels whose coverage differs by less than 1 / 64
    base      base colours under no light, inside: shapes, skins, morph targets, texture coordinates
    lit       lit, inside: three.js as it is
    plain     lit, inside: without what three.js adds to glTF 2.0: light of several reflections between microfacets, roughness where
              normals change, and another border of cones of light
    nodes     of each node alone, plain

Inside are the pixels that one node covers wholly.
"""

import argparse
import json
import shutil
import subprocess
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

import numpy as np
from sample_scenes import SCENES, SIZE, add_options, data_of
from scenes_in_mitsuba import decibel, drawn, is_blended, owners, shown_difference

from dressi.errors import InputError
from dressi.render import Scene, load_scene, save_scene
from dressi.render.io import save_png, write_json

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
SWITCHES = (
    "--headless", "--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
    "--ignore-gpu-blocklist", "--no-first-run", "--disable-dev-shm-usage",
)  # fmt: skip
TYPES = {
    ".js": "text/javascript",
    ".html": "text/html",
    ".glb": "model/gltf-binary",
    ".json": "application/json",
}
PATIENCE = 900
"""Seconds for all pictures of the page."""
VALIDATE = """
const fs = require("fs"), validator = require("gltf-validator");
validator.validateBytes(new Uint8Array(fs.readFileSync(process.argv[1]))).then(report => {
  console.log(JSON.stringify(report.issues));
});
"""


class Page(ThreadingHTTPServer):
    """Serves the page, the files and the modules to this machine, and collects what the page posts."""

    def __init__(self, files: Path, modules: Path):
        super().__init__(("127.0.0.1", 0), Handler)
        self.folders = {"files": files, "modules": modules}
        self.results: dict[str, bytes] = {}
        self.done = threading.Event()


class Handler(BaseHTTPRequestHandler):
    server: Page  # type: ignore[assignment]

    def do_GET(self) -> None:
        first, _, rest = unquote(urlsplit(self.path).path).lstrip("/").partition("/")
        path = Path(__file__).with_name("three_page.html")
        if first != "page":
            folder = self.server.folders.get(first)
            path = None if folder is None else (folder / rest).resolve()
            if (
                path is None
                or folder is None
                or not path.is_relative_to(folder.resolve())
                or not path.is_file()
            ):
                self.send_error(404)
                return
        data = path.read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", TYPES.get(path.suffix, "application/octet-stream"))
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self) -> None:
        name = unquote(self.path).removeprefix("/result/")
        self.server.results[name] = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()
        if name in ("end", "failure"):
            self.server.done.set()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def posted(files: Path, modules: Path, names: list[str], samples: int) -> dict[str, bytes]:
    """What the page draws, by scene and kind. Raises InputError."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        raise InputError("no Chromium or Chrome was found; install one, as by `apt-get install chromium`")
    server = Page(files, modules)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    query = urlencode({"scenes": ",".join(names), "width": SIZE[0], "height": SIZE[1], "samples": samples})
    address = f"http://127.0.0.1:{server.server_port}/page?{query}"
    with tempfile.TemporaryDirectory(prefix="dressi-three-") as profile:
        command = [browser, *SWITCHES, f"--user-data-dir={profile}", address]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            finished = server.done.wait(PATIENCE)
        finally:
            process.terminate()
            process.wait(30)
            server.shutdown()
            server.server_close()
    if "failure" in server.results:
        raise InputError(f"three.js could not draw the scenes: {server.results['failure'].decode()}")
    if not finished:
        raise InputError(
            f"{Path(browser).name} drew no pictures within {PATIENCE} s; does it open with software WebGL?"
        )
    return server.results


def validated(path: Path, modules: Path) -> dict[str, Any]:
    """What Khronos's validator says of a file. Raises InputError."""
    done = subprocess.run(
        [shutil.which("node") or "node", "-e", VALIDATE, str(path.resolve())],
        capture_output=True,
        text=True,
        cwd=modules.parent,
    )
    if done.returncode:
        raise InputError(f"gltf-validator could not read '{path}': {done.stderr.strip().splitlines()[-1:]}")
    issues = json.loads(done.stdout)
    messages = [f"{m['code']} {m.get('pointer', '')}" for m in issues["messages"] if m["severity"] < 2]
    return {"errors": issues["numErrors"], "warnings": issues["numWarnings"], "messages": messages}


def averaged(data: bytes, samples: int) -> np.ndarray:
    """(H, W, 4) linear, row 0 on top; colours as they are added to black."""
    rows = np.frombuffer(data, np.float32).reshape(SIZE[1], samples, SIZE[0], samples, 4).astype(np.float64)
    return rows.mean((1, 3))[::-1]


def compared(
    scene: Scene, pictures: dict[str, np.ndarray], samples: int
) -> tuple[dict[str, Any], list[np.ndarray]]:
    lights = list(scene.lights)
    lit, base = (drawn(scene, light, samples, filter="trilinear") for light in (lights, None))
    node = owners(scene, samples)
    solid = [one for one in scene if not is_blended(one)]
    behind = node if len(solid) == len(scene) else owners(Scene(solid, scene.cameras), samples)
    where = (node >= 0) & (behind >= 0)
    plain = pictures["plain"]
    found = {
        "covered": float((np.abs(lit[..., 3] - plain[..., 3]) < 1 / 64).mean()),
        "base": decibel(base[..., :3], pictures["base"][..., :3], where),
        "lit": decibel(lit[..., :3], pictures["lit"][..., :3], where),
        "plain": decibel(lit[..., :3], plain[..., :3], where),
        "nodes": {
            one.name: decibel(lit[..., :3], plain[..., :3], where & (node == k))
            for k, one in enumerate(scene)
        },
    }
    return found, [
        lit[..., :3],
        pictures["lit"][..., :3],
        *(shown_difference(lit, pictures[kind]) for kind in ("lit", "plain")),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser, "scenes_in_three", "'meshes' and 'face'")
    parser.add_argument(
        "--modules", type=Path, default=Path("node_modules"), help="with three and gltf-validator"
    )
    parser.add_argument("--quick", action="store_true", help="two samples along each axis")
    given = parser.parse_args()
    if given.quick:  # other defaults, so that what is given still counts
        parser.set_defaults(samples=2)
        given = parser.parse_args()
    data = data_of(given, "'meshes' and 'face'")
    modules = given.modules.resolve()
    missing = [name for name in ("three", "gltf-validator") if not (modules / name).is_dir()]
    if missing:
        raise InputError(
            f"'{modules}' has no {' and no '.join(missing)}; run `npm install three gltf-validator`, and give --modules node_modules"
        )
    samples = given.samples
    given.out.mkdir(parents=True, exist_ok=True)
    for name in given.scenes:
        save_scene(given.out / f"{name}.glb", SCENES[name](data))
    results = posted(given.out, modules, given.scenes, samples)
    figures: dict[str, Any] = {"three": results["end"].decode()}
    rows = []
    for name in given.scenes:
        path = given.out / f"{name}.glb"
        pictures = {kind: averaged(results[f"{name}/{kind}"], samples) for kind in ("base", "lit", "plain")}
        found, row = compared(load_scene(path), pictures, samples)
        figures[name] = {"validator": validated(path, modules)} | found
        rows.append(np.concatenate(row, axis=1))
        save_png(given.out / f"{name}.png", rows[-1])
        brief = " ".join(f"{key} {value:.4g}" for key, value in found.items() if isinstance(value, float))
        print(f"{name} {figures[name]['validator']['errors']} errors {brief}", flush=True)
    save_png(given.out / "scenes_in_three.png", np.concatenate(rows))
    write_json(given.json or given.out / "scenes_in_three.json", figures)


if __name__ == "__main__":
    main()
