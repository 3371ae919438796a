"""Ambient occlusion as a texture, and the maps of a light mesh that show a fine one."""

from dataclasses import replace

import numpy as np
import pytest

from dressi import InputError
from dressi.render import (
    Camera,
    Environment,
    Light,
    Material,
    Mesh,
    Shadow,
    bake_occlusion,
    load_mesh,
    primitives,
    render,
    save_mesh,
)
from dressi.render.drawing.detail import bake_maps, lighter

CORNERS = np.array([[-1.0, -1], [1, -1], [1, 1], [-1, 1]])
SIDES = np.array([[0, 1, 2], [0, 2, 3]])
TEXELS = (np.arange(16) + 0.5) / 8 - 1


def square(centre, across, up, name: str = "square") -> Mesh:
    """Its front is along cross(across, up)."""
    positions = np.add(centre, CORNERS @ np.array([across, up], float))
    return Mesh(positions, SIDES, uvs=(CORNERS + 1) / 2, uv_faces=SIDES, name=name)


FLOOR = square((0, 0, 0), (2, 0, 0), (0, 0, -2))
BAKED = {"rays": 128, "shadow": Shadow(512, 1)}


def test_a_wall_hides_what_its_form_factor_says(make_engine):
    wall = square((0, 1, 0), (2, 0, 0), (0, 1, 0))
    found = bake_occlusion(FLOOR, (16, 16), make_engine, among=[wall], **BAKED)
    x, y = np.meshgrid((np.arange(200) + 0.5) / 50 - 2, (np.arange(200) + 0.5) / 100)
    z = -2 * TEXELS[:, None, None, None]
    squared = (x - 2 * TEXELS[:, None, None]) ** 2 + y**2 + z**2
    hidden = (y * abs(z) / squared**2).sum((2, 3)) * 4 * 2 / x.size / np.pi
    assert hidden.max() > 0.4
    assert np.abs(found - (1 - hidden)).max() < 0.03 and np.sqrt(((found - (1 - hidden)) ** 2).mean()) < 0.012


@pytest.mark.one_driver
def test_a_ball_hides_what_its_solid_angle_says(make_engine):
    ball = primitives.icosphere(3, 1.0)
    ball.positions = ball.positions + [0, 1, 0]
    found = bake_occlusion(FLOOR, (16, 16), make_engine, among=[ball], **BAKED)
    exact = 1 - ((2 * TEXELS[:, None]) ** 2 + (2 * TEXELS) ** 2 + 1) ** -1.5
    assert np.abs(found - exact).max() < 0.06 and np.sqrt(((found - exact) ** 2).mean()) < 0.02


@pytest.mark.one_driver
def test_files_keep_it_and_pictures_show_it(engines, tmp_path):
    values = np.tile(np.linspace(0.2, 1, 16, dtype=np.float32), (16, 1))
    mesh = replace(FLOOR, material=Material(occlusion=values, specular=0.0, roughness=1.0))
    save_mesh(tmp_path / "floor.glb", mesh)
    again = load_mesh(tmp_path / "floor.glb")
    assert again.material is not None and again.material.occlusion is not None
    assert np.abs(np.asarray(again.material.occlusion).squeeze() - values).max() < 0.003
    camera = Camera.perspective(40, (32, 32), (0.01, 4, 0), (0, 0, 0))
    for light in (Environment(np.ones((8, 16, 3))), Light("headlight", colour=0.0, ambient=1.0)):
        plain, dark = (render(one, camera, light=light) for one in (FLOOR, again))
        inside = (plain.face >= 0) & (np.abs(plain.uv[..., 0] - 0.5) < 0.45)
        share = dark.colour[inside][:, 0] / plain.colour[inside][:, 0]
        place = plain.uv[inside][:, 0] * 16 - 0.5
        assert inside.sum() > 300
        assert np.abs(share - (0.2 + 0.8 / 15 * place)).max() < 0.05


@pytest.mark.parametrize(
    "wrong, options, text",
    [
        ({"uvs": None, "uv_faces": None}, {}, "no UVs"),
        ({"uvs": CORNERS}, {}, r"outside of \[0, 1\]"),
        ({"uvs": np.zeros((4, 2)) + 0.5}, {}, "no texel"),
        ({"uv_faces": SIDES[[0, 0]]}, {}, "overlap"),
        ({}, {"rays": 0}, "rays of a texel"),
    ],
)
def test_what_it_refuses(make_engine, wrong, options, text: str):
    with pytest.raises(InputError, match=text):
        bake_occlusion(
            replace(FLOOR, **wrong), (8, 8), make_engine, **{"rays": 1, "shadow": Shadow(16, 1)} | options
        )


def test_maps_of_a_light_ball_show_the_fine_one(make_engine, engines):
    """The line from a point p of the light mesh along its normal n meets the unit ball where |p + t n| = 1."""
    fine = primitives.icosphere(5)
    fine.colors = 0.5 + 0.4 * np.sin(5 * fine.positions)
    light = lighter(fine, 120, 256)
    light = light.moved(
        light.positions * np.random.default_rng(0).uniform(0.9, 1.1, (len(light.positions), 1))
    )
    baked = bake_maps(fine, light, (256, 256), make_engine, rays=0)
    camera = Camera.perspective(30, (96, 96), (2.0, 1.5, 3.0), (0, 0, 0))
    seen = render(
        baked, camera, shader=lambda p: p.shading_normal, outputs=("colour", "point", "normal", "mask")
    )
    # Beside the outline the line runs along the surface.
    toward = np.array([2.0, 1.5, 3.0]) - seen.point
    steep = (toward * seen.normal).sum(-1) > 0.3 * np.linalg.norm(toward, axis=-1)
    inside = (seen.mask > 0.5) & steep
    p, n = seen.point[inside], seen.normal[inside]
    b = (p * n).sum(-1)
    met = p + (np.sqrt(b * b - (p * p).sum(-1) + 1) - b)[:, None] * n
    degrees = np.degrees(np.arccos(np.clip((met * seen.colour[inside]).sum(-1), -1, 1)))
    plain = np.degrees(np.arccos(np.clip((met * n).sum(-1), -1, 1)))
    assert inside.sum() > 3000 and plain.mean() > 3.0
    assert np.median(degrees) < 0.25 and np.percentile(degrees, 99) < 1.5
    colours = render(baked, camera, light=None).colour[inside]
    assert np.sqrt(((colours - 0.5 - 0.4 * np.sin(5 * met)) ** 2).mean()) < 0.006


@pytest.mark.one_driver
def test_a_flat_floor_has_the_shade_of_the_wall_that_it_lacks(make_engine):
    wall, few = square((0, 1, 0), (2, 0, 0), (0, 1, 0)), {"rays": 16, "shadow": Shadow(256, 1)}
    alone = bake_occlusion(FLOOR, (16, 16), make_engine, among=[wall], **few)
    both = Mesh(np.concatenate([FLOOR.positions, wall.positions]), np.concatenate([SIDES, SIDES + 4]))
    x, z = np.meshgrid(2 * TEXELS, -2 * TEXELS)
    points, up = np.stack([x, 0 * x, z], -1), np.tile([0.0, 1.0, 0.0], (16, 16, 1))
    found = bake_occlusion(FLOOR, (16, 16), make_engine, fine=(both, points, up), **few)
    assert alone.min() < 0.8 and np.abs(found - alone).max() < 1e-3
