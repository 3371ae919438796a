"""Visual hulls against shapes whose hull is known, and against the figures measured for real masks."""

import numpy as np
import pytest
from reference import masks_of

from dressi.errors import InputError
from dressi.render.cameras import Camera, Cameras, views
from dressi.render.formats import load_mesh
from dressi.render.io import load_photos
from dressi.render.mesh import primitives
from dressi.render.objectives.hull import check_cameras, estimate_bounds, hull_iou, hull_masks, inside_masks
from dressi.render.objectives.metrics import iou

SIZE = (64, 64)


def views_of(mesh, size=SIZE):
    center, radius = mesh.bounding_sphere()
    train, held_out = views.ring(center, radius, 6, size), views.held_out_ring(center, radius, size)
    masks = [masks_of(mesh.positions, mesh.faces, cameras.matrices, size) for cameras in (train, held_out)]
    return train, held_out, *masks, np.stack([center - radius, center + radius])


def test_hull_holds_the_shape_and_fits_the_masks_it_is_made_of():
    mesh = primitives.bumpy_ellipsoid(2)
    train, held_out, train_masks, held_out_masks, bounds = views_of(mesh)
    found = hull_masks(train_masks, train, held_out, bounds)
    missing = (held_out_masks > found).sum() / held_out_masks.sum()
    assert missing < 2e-3
    # A pixel's ray reaches a mask's pixels, not their centres: the border may differ there.
    assert hull_iou(train_masks, train, train_masks, train, bounds) > 0.98
    assert 0.8 < iou(found, held_out_masks) < 0.99


def test_what_is_not_known_carves_nothing():
    mesh = primitives.bumpy_ellipsoid(1)
    train, held_out, masks, targets, bounds = views_of(mesh, (16, 16))
    known = np.ones(masks.shape, bool)
    known[2], masks[2] = False, 0
    others, view = [0, 1, 3, 4, 5], held_out[:1]
    found = hull_masks(masks, train, view, bounds, known=known, step=2.0)
    expected = hull_masks(masks[others], train[others], view, bounds, step=2.0)
    np.testing.assert_array_equal(found, expected)
    assert hull_masks(masks, train, view, bounds, step=2.0).sum() < 0.2 * found.sum()
    points = np.array([[0.0, 0.0, 0.0], [50.0, 0.0, 0.0]]) + mesh.bounds().mean(0)
    np.testing.assert_array_equal(inside_masks(masks >= 0.5, train, points, 5, known), [True, False])
    assert not inside_masks(masks >= 0.5, train, points, 6, known).any()
    some = np.ones(found.shape, bool)
    some[:, :8] = False
    assert iou(found, targets[:1], some) == iou(found, np.where(some, targets[:1], 1), some)


def test_hull_of_a_sphere_from_all_sides_is_the_sphere():
    mesh = primitives.icosphere(3)
    center, radius = mesh.bounding_sphere()
    _, held_out, _, held_out_masks, bounds = views_of(mesh)
    held_out, held_out_masks = held_out[::4], held_out_masks[::4]
    rng = np.random.default_rng(0)
    train = views.orbit(
        center, radius, rng.uniform(0, 360, 24), np.degrees(np.arcsin(rng.uniform(-1, 1, 24))), SIZE
    )
    masks = masks_of(mesh.positions, mesh.faces, train.matrices, SIZE)
    assert hull_iou(masks, train, held_out_masks, held_out, bounds) > 0.96


def test_skipping_by_the_grid_changes_nothing(monkeypatch):
    from dressi.render.objectives import hull

    train, held_out, masks, _, bounds = views_of(primitives.torus(24, 12))
    skipped = hull_masks(masks, train, held_out[:2], bounds, largest=False)
    monkeypatch.setattr(hull, "_grid", lambda *_: np.ones((hull._CELLS,) * 3, dtype=bool))
    np.testing.assert_array_equal(skipped, hull_masks(masks, train, held_out[:2], bounds))


def test_the_largest_part_alone_hardly_depends_on_the_bounds():
    mesh = primitives.torus(32, 16, 1.0, 0.4)
    train, held_out, masks, targets, bounds = views_of(mesh)
    values = [hull_iou(masks, train, targets, held_out, b) for b in (bounds, bounds * 1.3)]
    assert max(values) - min(values) < 0.02


def test_bounds_are_estimated_from_masks():
    mesh = primitives.bumpy_ellipsoid(2)
    mesh.positions = mesh.positions * 0.3 + (4, -2, 1)
    train, _, masks, _, _ = views_of(mesh)
    bounds, true = estimate_bounds(masks, train), mesh.bounds()
    size = true[1] - true[0]
    assert (bounds[0] <= true[0] + 0.05 * size).all() and (bounds[1] >= true[1] - 0.05 * size).all()
    assert ((bounds[1] - bounds[0]) < 2 * size).all()


def test_cameras_that_cannot_see_the_object_are_named():
    train, *_, bounds = views_of(primitives.icosphere(1))
    good = train[0]

    def moved(eye, target):
        return Camera.perspective(45, SIZE, eye, target, name="odd.png")

    for odd, words in (
        (moved((0.1, 0, 0), (5, 0, 0)), "inside"),
        (moved((4, 0, 0), (9, 0, 0)), "behind"),
        (moved((4, 0, 0), (4, 0.1, 4)), "does not see|behind"),
    ):
        with pytest.raises(InputError, match=f"'odd.png'.*({words})"):
            check_cameras(Cameras([good, odd]), bounds)


def test_dino_has_the_hull_that_was_measured_elsewhere(data):
    photos = load_photos(data / "photos" / "dino", (320, 240))
    train, held_out = photos.train, photos.held_out
    value = hull_iou(
        photos.masks[train],
        photos.cameras[train],
        photos.masks[held_out],
        photos.cameras[held_out],
        photos.bounds,
    )
    assert value == pytest.approx(0.964, abs=0.003)


@pytest.mark.release
@pytest.mark.parametrize(
    ("name", "expected"),
    [("Avocado_512.glb", 0.93), ("spot_bob/spot.obj", 0.90), ("spot_bob/bob_tri.obj", 0.90)],
)
@pytest.mark.filterwarnings("ignore")
def test_hulls_of_six_real_silhouettes(data, name, expected):
    train, held_out, masks, targets, bounds = views_of(load_mesh(data / "meshes" / name), (128, 128))
    value = iou(hull_masks(masks, train, held_out, bounds, step=1.0), targets)
    print(f"{name}: hull of six masks at 128x128, held-out IoU {value:.4f}")
    assert value == pytest.approx(expected, abs=0.01)
