"""The viewer: an optimisation that runs, its picture, and a person who turns, pauses and steers it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from PIL import Image, ImageDraw

from ..ad.graph import Variable
from ..ad.graph.traversal import leaves
from ..ad.graph.types import VEC3
from ..render.cameras import Cameras
from ..render.cameras.pose import send_matrices
from ..vk.run.engine import DressiAD
from .canvas import Canvas, Event
from .handles import NEAR, TRANSFORMS, Axes, Handle, OnScreen
from .panel import FAINT, PAPER, WIDTH, Panel, Pen
from .pictures import APART, COLOURED, MODES, Mode, Orbit, Pictures
from .presenter import Layer
from .session import Scene, Session, Slider

INTERVALS = (1 / 30, 1 / 10)
"""Shortest and longest time between pictures, in seconds; drawing takes about a tenth of the time."""
PANEL_INTERVAL = 0.15
"""Seconds between two paintings of the panel while nothing is pressed."""
CPU_PIXELS = 96 * 1024
"""Most pixels that are drawn on a CPU device; the window scales them."""
GRID = 32
"""Sizes of pictures are multiples of this, so that dragging a corner of the window builds few graphs."""


class Viewer:
    """Drives a session and shows it on a canvas: ``run`` until the window is closed, or call ``tick`` from a
    loop of your own.

    keys: space pauses, n takes a step, r rewinds, s saves, 1 to 6 choose what is shown, arrows turn, + and -
    zoom, Home looks from the start, h hides the panel, q closes the window. The mouse turns, with the right
    button or Shift shifts, and the wheel zooms. Of a scene with handles (``Handle``) it moves, turns or scales by
    the axes of one; g chooses which of these, Tab the next handle. Raises what the session raises, and DeviceErrors.

    >>> from dressi.viewer import EngineSession, Viewer, open_canvas
    >>> image = Variable.of(np.zeros((4, 6, 3)), name="image")
    >>> with DressiAD() as ad, open_canvas("offscreen", (64, 48)) as canvas:
    ...     ad.set_loss(F.mean(F.square(F.length(image - 0.5))))
    ...     ad.set_optimizer(adam(0.05), [image])
    ...     viewer = Viewer(EngineSession(ad, image=image, steps=20), canvas, panel=False)
    ...     while viewer.tick() and not viewer.session.status.finished:
    ...         pass
    ...     shown = viewer.draw()
    ...     canvas.presenter.frame.shape
    (48, 64, 4)
    """

    def __init__(self, session: Session, canvas: Canvas, *, panel: bool = True):
        self.session, self.canvas, self.orbit = session, canvas, Orbit(up=session.up)
        self.paused = False
        views = session.views is not None
        scene = session.scene
        subject = scene is None or scene.subject is not None
        self.modes: Sequence[Mode] = [mode for mode in MODES if subject and (views or not mode.photograph)]
        shown = [] if scene is None else [one for one in (scene.subject, scene.against) if one is not None]
        if shown and not any(one.face_count for one in shown):
            self.modes = [mode for mode in self.modes if mode is COLOURED]
        compared = scene is not None and scene.against is not None
        self.modes += [APART] * compared
        self.names = [mode.name for mode in self.modes]
        self.mode: Mode | None = self.modes[0] if self.modes else None
        self.panel = Panel(session, self.names, self.choose, self.toggle, self.step)
        self.panel_shown = panel
        self.frames = 0
        """Pictures shown so far."""
        self._pictures: Pictures | None = None
        self._scene: Scene | None = None
        self._panels: dict[tuple[int, int], Variable] = {}
        self._sent: tuple[object, int] | None = None
        self.handle, self.transform = 0, TRANSFORMS[0]
        """The number of the handle whose axes are shown, and what a drag along them does."""
        self._axes: OnScreen | None = None
        self._axis = 0
        self.wiper = 0.5
        """The share of the width at which the other one of two that are compared begins."""
        self._held: str | None = None
        self._at = (0.0, 0.0)
        self._asked: list[Callable[[], None]] = []
        self._dirty, self._cost = True, 0.0
        self._last = self._painted = -1e9
        self._ticked = time.perf_counter()
        for kind, handler in (
            ("pointer_down", self._down), ("pointer_move", self._move), ("pointer_up", self._up), ("wheel", self._wheel),
            ("key_down", self._key), ("resize", self._redraw), ("before_draw", self._redraw),
        ):  # fmt: skip
            canvas.on(kind, handler)

    # ---- running
    def run(self, *, stay: bool = True) -> None:
        """Until the window is closed; with ``stay`` False also until the session is finished. A session that
        is closed early is stopped."""
        while self.tick():
            if not stay and self.session.status.finished:
                self.draw()
                return

    async def live(self, *, stay: bool = True) -> None:
        """``run`` for notebooks and other programs with a loop of asyncio, which gets its turn after every
        tick: ``task = asyncio.create_task(viewer.live())``."""
        while self.tick(rest=False):
            if not stay and self.session.status.finished:
                self.draw()
                return
            await asyncio.sleep(INTERVALS[0] if self.waiting else 0)

    @property
    def resting(self) -> bool:
        """Whether nothing is to do but to wait for the user."""
        return self.paused or self.session.status.finished

    @property
    def waiting(self) -> bool:
        """Whether there is nothing to do before the next picture."""
        return self.resting or self.session.status.plays

    def tick(self, *, rest: bool = True) -> bool:
        """Take the events, advance until the next picture is due, draw it. Whether the window is still open.
        rest: sleep while nothing is to do; not in a program with an event loop."""
        self.canvas.process_events()
        asked, self._asked = self._asked, []
        for action in asked:
            action()
        if self.canvas.closed:
            self.session.stop()
            return False
        now = time.perf_counter()
        self.session.status.running += 0.0 if self.resting else now - self._ticked
        self._ticked, due = now, self._last + self.interval
        left = max(due - now, 0.0)
        if self.waiting:
            time.sleep(min(left, INTERVALS[0]) if rest else 0)
        if not self.resting and not (self.waiting and time.perf_counter() < due):
            self.session.advance(0.0 if self.waiting else max(left, 0.002))
            self._dirty = True
        if self._dirty and time.perf_counter() >= due:
            self.draw()
        return True

    @property
    def interval(self) -> float:
        """Seconds between two pictures."""
        least, most = INTERVALS
        return min(max(9 * self._cost, least), most)

    # ---- requests, also of the panel and of keys
    def toggle(self) -> None:
        """Pause, or go on."""
        self.paused, self._dirty = not self.paused, True

    def step(self) -> None:
        """Pause, and take one step."""
        self.paused, self._dirty = True, True
        if not self.session.status.finished:
            self._asked.append(lambda: self.session.advance(0.0, steps=1))

    def act(self, name: str) -> None:
        """ "rewind" or "save", where the session can."""
        action = self.session.actions.get(name)
        if action is not None:
            self._asked.append(action)
            self._dirty = True

    def choose(self, mode: str) -> None:
        """Show another mode, by its name."""
        self.mode = next((m for m in self.modes if m.name == mode), self.mode)
        self._dirty = True

    def next_transform(self) -> None:
        """Let drags along axes do the next of ``TRANSFORMS``."""
        self.take(self.handle, TRANSFORMS[(TRANSFORMS.index(self.transform) + 1) % len(TRANSFORMS)])

    def take(self, handle: int, transform: str | None = None) -> None:
        """Show the axes of a handle of the scene, by its number; with what a drag along them does."""
        handles = self.handles
        if handles:
            self.handle, self._dirty = handle % len(handles), True
            transforms, wanted = handles[self.handle].transforms, transform or self.transform
            self.transform = wanted if wanted in transforms else transforms[0]

    @property
    def handles(self) -> Sequence[Handle]:
        """Those of the scene that is shown."""
        return () if self.session.scene is None else self.session.scene.handles

    def wipe(self, share: float) -> None:
        """Let the other one of two that are compared begin at a share of the width."""
        self.wiper, self._dirty = float(np.clip(share, 0.0, 1.0)), True

    def hide(self) -> None:
        """Hide the panel, or show it."""
        self.panel_shown, self._dirty = not self.panel_shown, True

    # ---- drawing
    def draw(self) -> bool:
        """Show the present state; whether it could be shown."""
        scene, (width, height) = self.session.scene, self.canvas.presenter.size
        self._last, self._dirty = time.perf_counter(), False
        if scene is None or min(width, height) <= 0:
            return False
        if scene is not self._scene:
            self._enter(scene)
        begin = time.perf_counter()
        scale = self.canvas.pixel_ratio
        beside = min(round(WIDTH * scale), width - 1) if self.panel_shown else 0
        layers = [self._picture(scene, (width - beside, height))]
        if beside:
            place = (width - beside, 0, beside, height)
            layers.append(Layer(self._panel(scene, beside, height, scale), place))
        shown = self.canvas.presenter.present(scene.engine, layers)
        scene.engine.device.wait()
        # The first picture of a kind is built, which says nothing about the next one.
        cost = time.perf_counter() - begin
        self._cost = cost if not self._cost else min(0.7 * self._cost + 0.3 * cost, 2 * self._cost)
        self.frames += shown
        self._last = time.perf_counter()
        return shown

    def _enter(self, scene: Scene) -> None:
        """Another engine, or another thing to draw."""
        self._scene, self._panels, self._sent, self._painted = scene, {}, None, -1e9
        axes, self._axes = Axes() if scene.handles else None, None
        self._pictures = None if scene.subject is None else Pictures(scene.subject, axes, scene.against)
        self.take(self.handle)

    def _picture(self, scene: Scene, room: tuple[int, int]) -> Layer:
        if scene.image is not None:
            return Layer(scene.image, _inside(scene.image.size, room))
        assert self._pictures is not None and self.mode is not None
        if self.mode.photograph:
            return self._compared(scene.engine, room)
        size = _raster(room, scene.engine)
        picture, _ = self._pictures.picture(self.mode, size)
        # The raster is not quite as wide as the room; the matrix of the room keeps proportions.
        camera = self.orbit.camera(room)
        self._look(scene.engine, picture, Cameras([camera]).matrices)
        if scene.against is not None and self.mode is not APART:
            scene.engine.send(self._pictures.wiper, self.wiper)
        if (axes := self._pictures.axes) is not None:
            width, height = (side / self.canvas.pixel_ratio for side in room)
            self._axes = OnScreen.of(scene.handles[self.handle], camera, (width, height))
            values = zip(axes.ends, self._axes.values, strict=True)
            scene.engine.send_many({leaf: value[None, None, None] for leaf, value in values})
        return Layer(picture, (0, 0, *room))

    def _compared(self, engine: DressiAD, room: tuple[int, int]) -> Layer:
        """Over the photograph whose camera is nearest."""
        views = self.session.views
        assert views is not None and self._pictures is not None and self.mode is not None
        away = self.orbit.camera((64, 64)).center - self.orbit.center
        nearest = int(np.argmax(views.directions @ away))
        picture, photograph = self._pictures.picture(self.mode, views.size)
        assert photograph is not None
        self._look(engine, picture, views.matrices[nearest : nearest + 1])
        if self._sent != (photograph, nearest):
            self._sent = photograph, nearest
            values = {photograph.codes: views.codes[nearest], photograph.mask: views.masks[nearest]}
            read = set(leaves([picture]))
            engine.send_many({leaf: value[None] for leaf, value in values.items() if leaf in read})
        return Layer(picture, _inside(views.size, room))

    def _look(self, engine: DressiAD, picture: Variable, matrices: np.ndarray) -> None:
        """Send the camera; an engine knows it once it has computed the picture."""
        assert self._pictures is not None
        engine.export(picture)
        send_matrices(engine, self._pictures.camera, matrices)

    def _panel(self, scene: Scene, width: int, height: int, scale: float) -> Variable:
        """The leaf of the panel's picture, painted anew when it is time."""
        size, now = (width, height), time.perf_counter()
        known = size in self._panels
        if known and not self._dirty and now - self._painted < PANEL_INTERVAL:
            return self._panels[size]
        mode = "" if self.mode is None else self.mode.name
        transforms = self.handles[self.handle].transforms if self.handles else ()
        codes = self.panel.paint(
            height, scale, mode=mode, paused=self.paused, sliders=self._sliders, transform=self.transform,
            transforms={transform: partial(self.take, self.handle, transform) for transform in transforms},
        )[None, :, :width]  # fmt: skip
        self._painted = now
        if known:
            scene.engine.send(self._panels[size], codes)
        else:
            self._panels[size] = Variable(VEC3, size, name="panel", data=codes)
        return self._panels[size]

    @property
    def _sliders(self) -> Sequence[Slider]:
        """What the viewer itself lets choose."""
        names = [handle.name for handle in self.handles]
        if self._pictures is not None and self._pictures.against is not None:
            return (Slider("wiper", 0, 1, lambda: self.wiper, self.wipe, linear=True),)
        if len(names) < 2:
            return ()
        ends, choose = (0, len(names) - 1), lambda number: self.take(round(number))
        return (Slider("handle", *ends, lambda: self.handle, choose, linear=True, names=names),)

    # ---- events
    def _redraw(self, event: Event) -> None:
        self._dirty = True

    def _down(self, event: Event) -> None:
        x, y = float(event["x"]), float(event["y"])
        self._at, self._dirty, self._painted = (x, y), True, -1e9
        if self.panel_shown and x >= self._panel_left:
            self._held = "panel" if self.panel.down(x - self._panel_left, y) else None
            return
        axis = None if self._axes is None else self._axes.axis_at(x, y)
        if axis is not None and event.get("button") == 1:
            self._held, self._axis = "axis", axis
            return
        if self._pictures and self._pictures.against and abs(x - self.wiper * self._panel_left) <= NEAR:
            self._held = "wiper"
            return
        shifted = event.get("button") != 1 or "Shift" in event.get("modifiers", ())
        self._held = "shift" if shifted else "turn"

    @property
    def _panel_left(self) -> float:
        """Where the panel begins, or the window ends."""
        return self.canvas.presenter.size[0] / self.canvas.pixel_ratio - WIDTH * self.panel_shown

    def _move(self, event: Event) -> None:
        if self._held is None:
            return
        x, y = float(event["x"]), float(event["y"])
        right, down = x - self._at[0], y - self._at[1]
        self._at, self._dirty = (x, y), True
        height = max(self.canvas.presenter.size[1] / self.canvas.pixel_ratio, 1.0)
        if self._held == "panel":
            self._painted = -1e9
            self.panel.drag(x - self._panel_left, y)
        elif self._held == "wiper":
            self.wipe(x / max(self._panel_left, 1.0))
        elif self._held == "axis":
            assert self._axes is not None
            self._axes.drag(self.handles[self.handle], self.transform, self._axis, right, down)
        elif self._held == "turn":
            self.orbit.turn(220 * right / height, 180 * down / height)
        else:
            self.orbit.pan(right / height, down / height)

    def _up(self, event: Event) -> None:
        self._held, self._dirty = None, True
        self.panel.up()

    def _wheel(self, event: Event) -> None:
        self.orbit.zoom(1.1 ** float(np.clip(-float(event.get("dy", 0.0)) / 100, -5, 5)))
        self._dirty = True

    def _key(self, event: Event) -> None:
        action = KEYS.get(event.get("key", ""))
        if action is not None:
            action(self)
            self._dirty, self._painted = True, -1e9


def _raster(room: tuple[int, int], engine: DressiAD) -> tuple[int, int]:
    """The size of the picture for a room of the window."""
    share = 1.0
    if engine.device.physical.type == "cpu":
        share = min(1.0, (CPU_PIXELS / (room[0] * room[1])) ** 0.5)
    width, height = (max(round(share * side / GRID), 1) * GRID for side in room)
    return width, height


def _inside(size: tuple[int, int], room: tuple[int, int]) -> tuple[int, int, int, int]:
    """The largest place of a picture's proportions in a room."""
    scale = min(room[0] / size[0], room[1] / size[1])
    width, height = max(round(scale * size[0]), 1), max(round(scale * size[1]), 1)
    return (room[0] - width) // 2, (room[1] - height) // 2, width, height


# What the keys of the viewer do. Names of keys are those of the DOM, as rendercanvas gives them.


TURN, ZOOM = 8.0, 1.15
"""Degrees and factor of one press."""


KEYS: dict[str, Callable[[Viewer], None]] = {
    " ": lambda viewer: viewer.toggle(),
    "n": lambda viewer: viewer.step(),
    "r": lambda viewer: viewer.act("rewind"),
    "s": lambda viewer: viewer.act("save"),
    "h": lambda viewer: viewer.hide(),
    "g": lambda viewer: viewer.next_transform(),
    "Tab": lambda viewer: viewer.take(viewer.handle + 1),
    "q": lambda viewer: viewer.canvas.close(),
    "ArrowLeft": lambda viewer: viewer.orbit.turn(-TURN, 0),
    "ArrowRight": lambda viewer: viewer.orbit.turn(TURN, 0),
    "ArrowUp": lambda viewer: viewer.orbit.turn(0, -TURN),
    "ArrowDown": lambda viewer: viewer.orbit.turn(0, TURN),
    "+": lambda viewer: viewer.orbit.zoom(ZOOM),
    "=": lambda viewer: viewer.orbit.zoom(ZOOM),
    "-": lambda viewer: viewer.orbit.zoom(1 / ZOOM),
    "Home": lambda viewer: viewer.orbit.home(),
    **{str(k + 1): lambda viewer, k=k: viewer.choose("".join(viewer.names[k : k + 1])) for k in range(6)},
}


# A sentence in a window while there is no picture yet.


def show_notice(canvas: Canvas, engine: DressiAD, text: str) -> bool:
    """Show a sentence in the middle of the window; whether it could be shown. Raises DeviceErrors.

    >>> from dressi.viewer import open_canvas
    >>> from dressi.viewer.viewer import show_notice
    >>> with DressiAD() as ad, open_canvas("offscreen", (64, 48)) as canvas:
    ...     show_notice(canvas, ad, "preparing"), canvas.presenter.frame.shape
    (True, (48, 64, 4))
    """
    canvas.process_events()
    size = canvas.presenter.size
    if min(size) <= 0:
        return False
    image = Image.new("RGB", size, PAPER)
    scale = canvas.pixel_ratio
    pen = Pen(ImageDraw.Draw(image), scale)
    pen.text((size[0] / scale / 2, size[1] / scale / 2), text, FAINT, 14.0, anchor="mm")
    codes = Variable(VEC3, size, name="notice", data=np.asarray(image, np.float32)[None] / 255)
    shown = canvas.presenter.present(engine, [Layer(codes, (0, 0, *size))])
    engine.device.wait()
    return shown
