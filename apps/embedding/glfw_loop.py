"""A loop of one's own around a window of GLFW; it ends with the window, or by Q.

python apps/embedding/glfw_loop.py [--device NAME] [--steps 400]
"""

from shape import fitting, options

from dressi.viewer import Viewer, open_canvas

given = options(__doc__)
engine, session = fitting(given.device, given.steps)
with engine, open_canvas("glfw", (720, 480), "a sphere becomes a pear") as canvas:
    viewer = Viewer(session, canvas)
    said = 0
    while viewer.tick():
        # What else the program has to do.
        if session.status.done >= said + 100:
            said = session.status.done
            print(f"loss {engine.losses()[-1]:.4f} after {said} steps, {viewer.frames} pictures")
print(f"closed with loss {engine.losses()[-1]:.4f}")
