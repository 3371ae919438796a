"""Headless Chromium, driven through a pair of pipes: the DevTools protocol without a socket and without a
library."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
    "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip


def chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """A page in a browser of its own. events: what the browser said without being asked."""

    def __init__(self, width: int, height: int):
        program = chromium()
        assert program is not None
        self._folder = tempfile.TemporaryDirectory(prefix="dressi-browser-", ignore_cleanup_errors=True)
        from_us, self._write = os.pipe()
        self._read, to_us = os.pipe()
        words = [
            program,
            *FLAGS,
            f"--user-data-dir={self._folder.name}",
            f"--window-size={width},{height}",
            "about:blank",
        ]
        # The protocol speaks on the file descriptors 3 and 4.
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{from_us} 4>&{to_us}', "bash", *words],
            pass_fds=(from_us, to_us), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(from_us)
        os.close(to_us)
        self.events: list[dict[str, Any]] = []
        self._pending, self._count, self._session = b"", 0, None
        target = self("Target.createTarget", url="about:blank")["targetId"]
        self._session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for part in ("Page", "Runtime", "Log", "Network"):
            self(f"{part}.enable")

    def __call__(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command of the protocol and its answer."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == self._count:
                assert "error" not in found, found
                return found["result"]
            self.events.append(found)

    def _next(self, seconds: float = 120) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while b"\0" not in self._pending:
            ready, _, _ = select.select([self._read], [], [], max(end - time.monotonic(), 0))
            assert ready, "the browser does not answer"
            data = os.read(self._read, 1 << 20)
            assert data, "the browser has ended"
            self._pending += data
        message, _, self._pending = self._pending.partition(b"\0")
        return json.loads(message)

    def open(self, file: Path) -> None:
        self("Page.navigate", url=file.resolve().as_uri())
        self.wait("document.readyState === 'complete'")

    def value(self, expression: str) -> Any:
        """Of JavaScript in the page."""
        found = self("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, expression: str, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not self.value(expression):
            assert time.monotonic() < end, f"never true: {expression}"
            time.sleep(0.1)

    def key(self, key: str) -> None:
        """Press one of the arrow keys."""
        code = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}[key]
        for kind in ("rawKeyDown", "keyUp"):
            self("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def picture(self, *, whole: bool = False, clip: dict[str, float] | None = None) -> bytes:
        """A PNG of the window, of the whole page, or of a part of it."""
        options: dict[str, Any] = {"format": "png", "captureBeyondViewport": whole or clip is not None}
        if clip is not None:
            options["clip"] = {**clip, "scale": 1}
        return base64.b64decode(self("Page.captureScreenshot", **options)["data"])

    def complaints(self) -> list[str]:
        """Errors and warnings of the console, exceptions, and requests that left the page."""
        found = []
        for event in self.events:
            method, said = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown" or (
                method == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning", "assert")
            ):
                found.append(json.dumps(said)[:500])
            elif method == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
                # Screenshots make the driver complain about their own reads.
                if "ReadPixels" not in said["entry"]["text"]:
                    found.append(said["entry"]["text"])
            elif method == "Network.requestWillBeSent":
                url = said["request"]["url"]
                if not url.startswith(("data:", "blob:", "file:", "about:")):
                    found.append(f"a request to {url}")
        return found

    def __enter__(self) -> "Browser":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._write)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        self._folder.cleanup()
