"""A program of Qt with a pane of dressi's beside its own widgets, run by a test; prints what it saw as JSON."""

import importlib
import json
import os
import sys
import warnings

import numpy as np
from PIL import ImageGrab

from dressi import Device, DeviceError, DressiAD, F, Variable, adam

BINDING, DEVICE = sys.argv[1:3]
FAULT = sys.argv[3:]
QtCore, QtGui, QtWidgets = (
    importlib.import_module(f"{BINDING}.{part}") for part in ("QtCore", "QtGui", "QtWidgets")
)
CODES = np.random.default_rng(6).integers(0, 256, (48, 64, 3)).astype(np.uint8)


def main() -> dict:
    from dressi.viewer.presenter import Layer, SwapchainPresenter
    from dressi.viewer.windows.qt import QtCanvas

    if FAULT:

        def refuse(self, device):
            raise DeviceError("no swapchain here")

        SwapchainPresenter.prepare = refuse
    app = QtWidgets.QApplication([])
    first, second = QtWidgets.QWidget(), QtWidgets.QWidget()
    for window in (first, second):
        row = QtWidgets.QHBoxLayout(window)
        row.setContentsMargins(8, 8, 8, 8)
    pane = QtCanvas(first, (64, 48))
    pane.setFixedSize(64, 48)
    first.layout().addWidget(QtWidgets.QPushButton("Pause"))
    first.layout().addWidget(pane)
    first.setGeometry(20, 20, 240, 120)
    second.setGeometry(300, 200, 160, 120)
    first.show()

    direct = app.platformName() != "offscreen" and not FAULT
    found: dict = {"copies": [], "same": [], "events": [], "windows": []}
    for kind in ("resize", "close"):
        pane.listen(kind, lambda event: found["events"].append(event["event_type"]))
    image = Variable.of(CODES / np.float32(255), name="image")
    moved = Variable.of(np.ones((4, 4, 3), np.float32), name="moved")
    engine = DressiAD(Device(DEVICE, validation="VK_LAYER_PATH" in os.environ))
    engine.set_loss(F.mean(F.square(F.length(moved))))
    engine.set_optimizer(adam(0.1), [moved])

    def seen() -> bool:
        """Whether the screen shows the picture where the pane is."""
        if direct:
            corner = pane.mapToGlobal(QtCore.QPoint(0, 0))
            box = corner.x(), corner.y(), corner.x() + 64, corner.y() + 48
            shown = np.asarray(ImageGrab.grab().convert("RGB").crop(box))
        else:
            picture = pane.grab().toImage().convertToFormat(QtGui.QImage.Format.Format_RGB888)
            rows = np.frombuffer(bytes(picture.constBits()), np.uint8).reshape(48, picture.bytesPerLine())
            shown = rows[:, : 3 * 64].reshape(48, 64, 3)
        return np.array_equal(shown, CODES)

    tries = 0

    def frame() -> None:
        nonlocal tries
        pane.poll()
        engine.step()
        if pane.presenter.present(engine, [Layer(image, (0, 0, 64, 48))]):
            tries += 1
            if seen() or tries > 200:
                found["same"].append(tries <= 200)
                found["copies"].append(pane.presenter.copies)
                found["windows"].append(int(pane.winId()))
                following()
                tries = 0

    def following() -> None:
        if len(found["same"]) == 1:  # the pane moves into another window
            second.layout().addWidget(pane)
            second.show()
        else:
            second.close()
            first.close()
            app.quit()

    timer = QtCore.QTimer()
    timer.timeout.connect(frame)
    timer.start(10)
    app.exec()
    pane.close()
    found["closed"] = pane.closed
    found["fell"] = bool(engine.losses()[-1] < engine.losses()[0])
    device = engine.device
    engine.close()
    found["alive"], found["messages"] = device.live_objects(), device.messages
    device.close()
    return found


with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always", RuntimeWarning)
    result = main()
result["warnings"] = [str(w.message) for w in said if w.category is RuntimeWarning]
print(json.dumps(result))
