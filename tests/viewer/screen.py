"""A screen of its own for tests of windows: an X server without hardware, its contents, and a user's hands."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress

import numpy as np
from PIL import ImageGrab

SIZE = (640, 480)
TOOLS = ("Xvfb", "xdotool", "openbox")
MISSING = [tool for tool in TOOLS if shutil.which(tool) is None]


class Screen:
    """An Xvfb. ``name``: what DISPLAY has to be."""

    def __init__(self) -> None:
        read, write = os.pipe()
        arguments = ["-displayfd", str(write), "-screen", "0", f"{SIZE[0]}x{SIZE[1]}x24", "-nolisten", "tcp"]
        self._server = subprocess.Popen(["Xvfb", *arguments], pass_fds=[write], stderr=subprocess.DEVNULL)
        os.close(write)
        with os.fdopen(read) as pipe:
            number = pipe.readline().strip()
        assert number, "Xvfb did not start"
        self.name = f":{number}"
        self._manager: subprocess.Popen | None = None

    def picture(self) -> np.ndarray:
        """What is on the screen: uint8 (height, width, 3)."""
        return np.asarray(ImageGrab.grab(xdisplay=self.name).convert("RGB"))

    def user(self, *does: str) -> str:
        """What a user does, in the words of xdotool; returns what it prints."""
        environment = {**os.environ, "DISPLAY": self.name}
        return subprocess.run(
            ["xdotool", *does], env=environment, capture_output=True, text=True, check=True, timeout=20
        ).stdout.strip()

    def managed(self) -> None:
        """Start a window manager, without which nothing is minimised or closed by a key, and wait until it serves the
        screen. One that is started just after another one has ended may find the screen still taken, and ends."""
        environment, quiet = {**os.environ, "DISPLAY": self.name}, subprocess.DEVNULL

        def serves() -> bool:
            if self._manager is None or self._manager.poll() is not None:
                self._manager = subprocess.Popen(["openbox"], env=environment, stdout=quiet, stderr=quiet)
            time.sleep(0.1)
            # Only window managers of the EWMH answer this, and they end what they say with their own process.
            asked = subprocess.run(["xdotool", "get_num_desktops"], env=environment, capture_output=True)
            return asked.returncode == 0 and self._manager.poll() is None

        assert until(serves), "openbox did not start"

    def alone(self) -> None:
        """End the window manager."""
        if self._manager is not None:
            self._manager.terminate()
            self._manager.wait()
            self._manager = None

    def close(self) -> None:
        self.alone()
        self._server.terminate()
        self._server.wait()


def until(reached: Callable[[], bool], seconds: float = 10.0, pause: float = 0.005) -> bool:
    """Call ``reached`` until it is true, for so long at most. pause: seconds between two calls."""
    end = time.monotonic() + seconds
    while not reached():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
    return True


def steady(screen: Screen, wanted: Callable[[np.ndarray], bool], show: Callable[[], object]) -> np.ndarray:
    """The screen's picture, once it is as wanted or ten seconds have passed; ``show`` is called before each look."""
    found = [screen.picture()]

    def look() -> bool:
        show()
        found[0] = screen.picture()
        return wanted(found[0])

    with suppress(AssertionError):
        until(look)
    return found[0]
