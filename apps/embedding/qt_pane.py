"""A program of Qt with dressi in one pane, beside widgets of its own (PySide6 or PyQt6).

python apps/embedding/qt_pane.py [--device NAME] [--steps 200]
"""

from PySide6 import QtCore, QtWidgets
from shape import Shape, centred, options

from dressi.viewer.presenter import Layer
from dressi.viewer.windows.qt import QtCanvas

given = options(__doc__)
app = QtWidgets.QApplication([])
window = QtWidgets.QWidget(windowTitle="dressi in a pane")
row, column = QtWidgets.QHBoxLayout(window), QtWidgets.QVBoxLayout()
pane = QtCanvas(window, (384, 384))
run = QtWidgets.QPushButton("Run", checkable=True, checked=True)
turn = QtWidgets.QSlider(QtCore.Qt.Orientation.Horizontal, minimum=-314, maximum=314)
loss, list_of = QtWidgets.QLabel("loss"), QtWidgets.QListWidget()
list_of.addItems(["pear.glb", "bunny.glb", "teapot.glb"])
for widget in (QtWidgets.QLabel("Objects"), list_of, QtWidgets.QLabel("Turn"), turn, run, loss):
    column.addWidget(widget)
row.addLayout(column)
row.addWidget(pane, 1)

shape = Shape(given.device, (384, 384))
seen = steps = 0


def frame() -> None:
    global seen, steps
    pane.poll()
    if run.isChecked():
        shape.engine.step()
        steps += 1
        loss.setText(f"loss {shape.engine.losses()[-1]:.4f} after {steps} steps")
    shape.turn(0.01 * (turn.value() - seen), 0)
    seen = turn.value()
    pane.presenter.present(shape.engine, [Layer("view", centred(pane.presenter.size))])
    if steps >= given.steps:
        window.close()


timer = QtCore.QTimer(window)
timer.timeout.connect(frame)
timer.start(1000 // 30)
window.show()
app.exec()
print(loss.text())
pane.close()
shape.engine.close()
