"""A fit that is watched in a real window, with the validation layer: modes, sizes, minimised, closed."""

import pytest
from screen import Screen, until

from dressi.render.fit import FitJob
from dressi.viewer import FitSession, Viewer, open_canvas

pytestmark = [pytest.mark.vk, pytest.mark.release]


@pytest.mark.one_driver
def test_a_watched_fit_in_a_window_that_changes(tiny_fits, screen: Screen):
    glfw = pytest.importorskip("glfw")
    screen.managed()
    job = FitJob(tiny_fits.scene, tiny_fits.options, tiny_fits.make_engine)
    with open_canvas("glfw", (400, 240), "fit") as canvas:
        viewer = Viewer(FitSession(job), canvas)
        window = canvas.widget._window
        viewer.session.advance(0.0, steps=3)
        viewer.toggle()  # a fit this small would be finished before the window is
        for size, mode in (((400, 240), "shaded"), ((520, 300), "silhouettes"), ((330, 200), "normals")):
            glfw.set_window_size(window, *size)
            viewer.choose(mode)
            viewer.step()
            assert until(lambda size=size: viewer.tick() and canvas.presenter.size == size and viewer.draw())
        glfw.iconify_window(window)
        assert until(lambda: viewer.tick() and not viewer.draw())
        glfw.restore_window(window)
        assert until(lambda: viewer.tick() and viewer.draw())
        assert not canvas.presenter.copies
        viewer.canvas.close()
        assert not viewer.tick()
    # It is kept to the end of a chunk, or finished.
    assert viewer.session.status.finished and viewer.session.result().losses
