"""Profiles of luminaires: files, pictures beside the formula, gradients."""

import numpy as np
import pytest

from dressi import VEC3, DressiAD, F, InputError, Variable, evaluate
from dressi.ad.check import check_gradient
from dressi.render.io.photometry import load_ies
from dressi.render.shading.bsdf import GltfBsdf
from dressi.render.shading.lights import Fragment, IesLight

FILE = "IESNA:LM-63-2002\n[TEST] none\nTILT=NONE\n1 -1 2 3 {columns} 1 2 0 0 0\n1 1 50\n0 45 90\n{angles}\n{candela}\n"
HALF = FILE.format(columns=3, angles="0 90 180", candela="200 100 0\n200 50 0\n200 20 10")


def written(tmp_path, text: str):
    (tmp_path / "lamp.ies").write_text(text)
    return tmp_path / "lamp.ies"


def test_a_file_is_completed_by_its_symmetry(tmp_path):
    profile = load_ies(written(tmp_path, HALF))
    assert np.allclose(profile[0], 400) and np.allclose(profile[90:, 16], 0)
    # At 44 degrees, near 45.
    at = profile[44, [0, 16, 32, 48]]
    assert np.allclose(at, [200 + 200 / 45, 100 + 300 / 45, 40 + 360 / 45, 100 + 300 / 45], rtol=1e-5)
    assert np.allclose(profile[:, 1:], profile[:, :0:-1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HALF[:-12], "cut off in its candela"),
        (HALF[:50], "cut off in its first"),
        ("a lamp", "no line TILT="),
        (HALF.replace("0 45 90", "0 90 45"), "angles do not grow"),
        (HALF.replace("200 50", "-200 50"), "negative"),
        (HALF.replace("200 50", "200 fifty"), "cannot be used"),
        (HALF.replace("3 3 1 2", "3 3 2 2"), "type C"),
        (HALF.replace("2 3 3 1", "2 3 1e9 1"), "where there is a count"),
    ],
)
def test_files_that_are_refused(tmp_path, text, message):
    with pytest.raises(InputError, match=rf"lamp.ies.*{message}"):
        load_ies(written(tmp_path, text))


def fragment(points: Variable) -> Fragment:
    up, surface = F.constant((0.0, 1.0, 0.0)), GltfBsdf.of((0.8, 0.8, 0.8), 0.0, 1.0)
    return Fragment(points, up, F.normalize(F.constant((0.1, 1.0, 0.2))), surface)


def test_intensity_follows_the_direction(tmp_path):
    profile = load_ies(written(tmp_path, HALF))
    points = np.array([[(1.0, 0, 0), (0, 0, 1.0), (-1.0, 0, 0), (0, 0, -1.0), (0, 0, 0)]])
    light = IesLight(F.constant((0.0, 1.0, 0.0)), np.repeat(profile[..., None], 3, axis=2))
    (found,) = evaluate([light.arriving(fragment(Variable.of(points, VEC3))).irradiance])
    assert np.allclose(found[0, 0, :, 0], [100, 50, 20, 50, 400], rtol=0.03)


def test_gradients_are_central_differences(device):
    rng = np.random.default_rng(1)
    points = Variable.of(rng.uniform(-1, 1, (1, 5, 3)) * (1, 0.1, 1), VEC3, name="points")
    profile = Variable.of(rng.uniform(0.5, 1, (7, 8, 3)), VEC3, name="profile")
    given = (0.1, 1.5, 0.2), (0.1, -1.0, 0.05), (1.0, 0.2, 0.1), (1.0, 2.0, 3.0)
    place, direction, side, intensity = (Variable.of([[x]], VEC3) for x in given)
    value = IesLight(place, profile, direction, side, intensity).reflected(fragment(points))
    assert check_gradient(value, [points, profile, place, direction, side, intensity]) < 1e-4
    with DressiAD(device) as ad:
        np.testing.assert_allclose(ad.evaluate([value])[0], evaluate([value])[0], rtol=5e-3, atol=1e-3)


def test_a_profile_that_is_no_image_is_refused():
    with pytest.raises(InputError, match="profile of an IesLight is an image"):
        IesLight((0, 1, 0), np.ones(3)).prepared()
