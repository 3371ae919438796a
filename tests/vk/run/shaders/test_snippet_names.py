"""Names of a user's snippet do not meet those of the shader around it."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dressi import FLOAT, Access, DressiAD, F, GraphError, PixelFunction, Variable
from dressi.ad.program import Program
from dressi.vk.run.executor import VulkanExecutor


class Squared(PixelFunction):
    glsl = "float x0 = $0; float x1 = x0; float x2 = x1; float x3 = x2; $y = x1 * x3;"

    def infer(self):
        return self.inputs[0].vtype, self.broadcast()

    def eval(self, x):
        return x * x


class Reserved(Squared):
    glsl = "float dressi_x1 = $0; $y = dressi_x1;"


def test_names_of_a_snippet_are_its_own(device):
    x = Variable.of(np.arange(5.0))
    with DressiAD(device) as ad:
        found = ad.evaluate(F.apply(Squared, F.apply(Squared, x + 1.0)))
    assert_array_equal(found, (x.data.reshape(-1) + 1) ** 4)


def test_names_of_the_shader_are_refused():
    with pytest.raises(GraphError, match="uses the name dressi_x1"):
        F.apply(Reserved, Variable.of(np.arange(5.0)))


NAMES = (
    "own first step count busy value results texels segment_first segment_texel place texel number "
    "fetch_image0 fetch0 make0 part0 sample0 image0 passed0 drawn_face total slot lost"
)
LOCALS = " ".join(f"float {name} = 7.0;" for name in NAMES.split())


class Fetched(PixelFunction):
    access = (Access.FETCH,)
    glsl = LOCALS + "$y = $0(ivec2(0), 0) + $0(ivec2(1, 0), 0);"

    def infer(self):
        return FLOAT, ((1, 1), 1)

    def eval(self, x):
        return x[:, :, :1] + x[:, :, 1:2]


@pytest.mark.parametrize("stored", [True, False])
def test_locals_do_not_hide_what_reads_an_input(device, stored):
    x = Variable(FLOAT, (5, 1), data=np.arange(5.0, dtype=np.float32).reshape(1, 1, 5))
    with DressiAD(device) as ad:
        assert ad.evaluate(F.apply(Fetched, x if stored else x * 3.0)).item() == (1.0 if stored else 3.0)


def test_names_are_refused_however_a_class_is_applied(device):
    direct = Reserved(Variable.of(np.arange(5.0))).output
    with DressiAD(device) as ad, pytest.raises(GraphError, match="uses the name dressi_x1"):
        ad.evaluate(direct)


def test_comments_and_members_name_no_place():
    class Commented(Squared):
        glsl = "$0 /* of this pixel */ * $0 // in its tile"

    class Placed(Squared):
        glsl = "$0 * float(pixel.x)"

    x = Variable.of(np.arange(5.0))
    assert not Commented(x).places and Placed(x).places == {"pixel"}


def test_names_of_a_users_file_are_its_own(device, tmp_path):
    """Functions like those of the shader of a scatter, global variables like its buffers."""
    file = tmp_path / "own.glsl"
    file.write_text(
        "float total(int slot) { return 2.0; }\nvoid put(int slot, float value, float bound) {}\n"
        "float last_bit(float value) { return value; }\n"
        # With values: what is not set may be NaN, which no factor of 0 takes away.
        "float totals = 1.0, saturated = 1.0, list, blocks, range0, flat0, color0, first;\n"
    )

    class Own(Squared):
        includes = (str(file),)
        glsl = "$0 * total(1) + 0.0 * last_bit(totals)"

        def eval(self, x):
            return 2 * x

    x = Variable(FLOAT, (5, 3), name="x", data=np.arange(15.0).reshape(1, 3, 5))
    value = F.apply(Own, x * 1.0)
    added = F.scatter_add(value, F.linear_index((5, 3)) % 4, (2, 2), bound=100.0)
    program = Program({"value": value, "added": F.apply(Own, added)}, ((x, value),))
    with VulkanExecutor(program, device) as run:
        run.run(1)
        values = 2 * np.arange(15.0)
        sums = np.bincount(np.arange(15) % 4, values).reshape(1, 2, 2)
        assert_array_equal(run.recv(program.outputs["added"]), 2 * sums)
        assert_array_equal(run.recv(x).ravel(), values)
