"""A loop of one's own around a window of GLFW: a drag turns the view, P pauses, Escape ends.

python apps/embedding/glfw_loop.py [--device NAME] [--steps 200]
"""

from shape import Shape, centred, options

from dressi.viewer.canvas import open_canvas
from dressi.viewer.presenter import Layer

given = options(__doc__)
shape, canvas = Shape(given.device, (384, 384)), open_canvas("glfw", (384, 384), "a sphere becomes a pear")
paused, last, steps, frames = False, (0.0, 0.0), 0, 0


def drag(event):
    global last
    if event["buttons"]:
        shape.turn(0.01 * (last[0] - event["x"]), 0.01 * (event["y"] - last[1]))
    last = event["x"], event["y"]


def press(event):
    global paused
    paused ^= event["key"] == "p"
    if event["key"] == "Escape":
        canvas.close()


canvas.on("pointer_move", drag)
canvas.on("key_down", press)
while not canvas.closed and steps < given.steps:
    canvas.process_events()
    if not paused:
        shape.engine.step()
        steps += 1
    frames += canvas.presenter.present(shape.engine, [Layer("view", centred(canvas.presenter.size))])
canvas.close()
print(f"{steps} steps, {frames} frames, loss {shape.engine.losses()[-1]:.4f}")
shape.engine.close()
