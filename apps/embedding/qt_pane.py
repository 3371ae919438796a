"""A program of Qt with dressi in one pane, beside widgets of its own (PySide6; PyQt6 is the same).

python apps/embedding/qt_pane.py [--device NAME] [--steps 400]
"""

from PySide6 import QtCore, QtWidgets
from shape import fitting, options

from dressi.viewer import qt_pane

given = options(__doc__)
app = QtWidgets.QApplication([])
engine, session = fitting(given.device, given.steps)

window = QtWidgets.QMainWindow(windowTitle="dressi in a pane")
pane = qt_pane(session, window, size=(400, 400), panel=False)
window.setCentralWidget(pane)

dock, box = QtWidgets.QDockWidget("Optimisation"), QtWidgets.QWidget()
column = QtWidgets.QVBoxLayout(box)
shown = QtWidgets.QComboBox()
shown.addItems([mode.name for mode in pane.viewer.modes])
shown.currentTextChanged.connect(pane.viewer.choose)
pause, step = QtWidgets.QPushButton("Pause"), QtWidgets.QPushButton("Step")
pause.clicked.connect(pane.viewer.toggle)
step.clicked.connect(pane.viewer.step)
done, loss = QtWidgets.QProgressBar(maximum=given.steps), QtWidgets.QLabel()
for widget in (shown, pause, step, done, loss):
    column.addWidget(widget)
column.addStretch()
dock.setWidget(box)
window.addDockWidget(QtCore.Qt.DockWidgetArea.LeftDockWidgetArea, dock)


def tell() -> None:
    pause.setText("Go on" if pane.viewer.paused else "Pause")
    done.setValue(session.status.done)
    if session.status.done:
        loss.setText(f"loss {engine.losses()[-1]:.4f}")


clock = QtCore.QTimer(window)
clock.timeout.connect(tell)
clock.start(200)
window.show()
app.exec()
pane.close()
print(f"closed with loss {engine.losses()[-1]:.4f}")
engine.close()
