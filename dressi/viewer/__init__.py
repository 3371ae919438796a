"""The viewer: pictures of an optimisation in a window, and a person who steers it.

    from dressi.viewer import EngineSession, Viewer, open_canvas

    with open_canvas("glfw") as canvas:
        Viewer(EngineSession(ad, positions=positions, faces=mesh.faces), canvas).run()

``Viewer`` drives a session: ``FitSession`` (a fit), ``EngineSession`` (any ``DressiAD``) or ``MeshSession``
(a mesh). ``open_canvas`` opens a window of GLFW, Qt or Jupyter; a program with a loop of its own calls
``Viewer.tick``, a notebook starts ``Viewer.live``. ``qt_pane`` is the viewer as a widget, ``host_canvas`` a
canvas in any window.
"""

from .canvas import Canvas, host_canvas, open_canvas, qt_pane
from .handles import Handle
from .pictures import Orbit
from .presenter import Layer, OffscreenPresenter, Presenter
from .scenes import EngineSession, FitSession, MeshSession
from .viewer import Viewer

__all__ = [
    "Canvas", "EngineSession", "FitSession", "Handle", "Layer", "MeshSession", "OffscreenPresenter", "Orbit",
    "Presenter", "Viewer", "host_canvas", "open_canvas", "qt_pane",
]  # fmt: skip
