"""A sentence in a window while there is no picture yet."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

from ..ad.graph import Variable
from ..ad.types import VEC3
from ..vk.run.engine import DressiAD
from .canvas import Canvas
from .panel.widgets import FAINT, PAPER, Pen
from .presenter import Layer


def show_notice(canvas: Canvas, engine: DressiAD, text: str) -> bool:
    """Show a sentence in the middle of the window; whether it could be shown. Raises DeviceErrors.

    >>> from dressi.viewer import open_canvas
    >>> from dressi.viewer.notice import show_notice
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
