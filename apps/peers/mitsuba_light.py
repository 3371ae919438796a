"""Lights, cameras and pictures of parts of glTF files in Mitsuba 3, without light that surfaces reflect to each other."""

import math
from typing import Any

import drjit as dr
import mitsuba as mi
import numpy as np
from gltf_reader import File, Part
from mitsuba_gltf import shape

LAYERS = 6
"""Surfaces along a ray that are looked at, where those in front are blended or cut out."""


def direct_light(
    scene: Any, lights: list[tuple[Any, Any]], sampler: Any, ray: Any, active: Any, shadows: bool, layers: int
) -> tuple[Any, Any]:
    """Light that arrives without a reflection before, and what surfaces emit, of all layers; and opacity.

    lights: emitters, each with a function of the direction from it that gives the share that shines there, or None.
    shadows: without them nothing hides a light, as in a rasteriser without shadow maps.
    """
    context, total, passes = mi.BSDFContext(), mi.Color3f(0), mi.Color3f(1)
    for layer in range(layers):
        si = scene.ray_intersect(ray, active)
        hit = active & si.is_valid()
        bsdf = si.bsdf(ray)
        value = bsdf.eval_attribute_3("emission", si, hit)
        for emitter, cone in lights:
            light, weight = emitter.sample_direction(si, sampler.next_2d(hit), hit)
            seen = hit & (light.pdf > 0)
            if shadows:
                seen &= ~scene.ray_test(si.spawn_ray_to(light.p), seen)
            if cone is not None:
                weight = weight * cone(-light.d)
            reflected, density = bsdf.eval_pdf(context, si, si.to_local(light.d), seen)
            value += (reflected * weight * dr.select(light.delta, 1, balance(light.pdf, density))) & seen
        sky = scene.environment()
        if sky is not None:
            chosen, weight = bsdf.sample(context, si, sampler.next_1d(hit), sampler.next_2d(hit), hit)
            away = si.spawn_ray(si.to_world(chosen.wo))
            free = hit & (chosen.pdf > 0)
            if shadows:
                free &= ~scene.ray_test(away, free)
            there = dr.zeros(mi.SurfaceInteraction3f)
            there.wi = -away.d
            seen = dr.zeros(mi.DirectionSample3f)
            seen.d = away.d
            value += (
                weight * sky.eval(there, free) * balance(chosen.pdf, sky.pdf_direction(si, seen, free))
            ) & free
        total += (passes * value) & hit
        passes = dr.select(hit, passes * bsdf.eval_null_transmission(si, hit), passes)
        if layer + 1 < layers:
            ray = si.spawn_ray(ray.d)
            active = hit & (dr.max(passes) > 0)
            dr.eval(total, passes, ray, active)
    return total, 1 - passes


def balance(a: Any, b: Any) -> Any:
    """Weight of a sample of density a where another way of sampling has density b."""
    return dr.select(a > 0, a / (a + b), 0)


class DirectLight(mi.SamplingIntegrator):
    """``direct_light`` of all emitters."""

    def __init__(self, properties: mi.Properties):
        mi.SamplingIntegrator.__init__(self, properties)
        self.shadows, self.layers = properties.get("shadows", True), properties.get("layers", 1)

    def sample(self, scene: Any, sampler: Any, ray: Any, medium: Any = None, active: Any = True) -> tuple:
        lights = [(emitter, None) for emitter in scene.emitters()]
        colour, opacity = direct_light(
            scene, lights, sampler, ray, mi.Bool(active), self.shadows, self.layers
        )
        return colour, opacity.x > 0, []

    def to_string(self) -> str:
        return "DirectLight[]"


mi.register_integrator("direct_light", DirectLight)


def sun(towards: np.ndarray, irradiance: Any) -> dict[str, Any]:
    return {
        "type": "directional",
        "direction": [-float(x) for x in towards],
        "irradiance": {"type": "rgb", "value": np.broadcast_to(irradiance, 3).tolist()},
    }


def sky(light: np.ndarray) -> dict[str, Any]:
    """An equirectangular map whose centre is -Z; in Mitsuba the left border is there. Its first and last rows are the poles,
    while those of the map are half a texel away."""
    height = len(light)
    rows = np.clip(np.linspace(-0.5, height - 0.5, height), 0, height - 1)
    low, part = np.floor(rows).astype(int), (rows % 1)[:, None, None]
    light = light[low] * (1 - part) + light[np.minimum(low + 1, height - 1)] * part
    half = mi.ScalarTransform4f().rotate([0, 1, 0], 180)
    return {"type": "envmap", "bitmap": mi.Bitmap(np.ascontiguousarray(light, np.float32)), "to_world": half}


def punctual(light: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """A light of a file as a dictionary, and the share by direction of its cone (KHR_lights_punctual); None: all around."""
    if light["type"] == "directional":
        return sun(-light["towards"], light["colour"]), None
    entry = {
        "type": "point", "position": light["position"].tolist(),
        "intensity": {"type": "rgb", "value": light["colour"].tolist()},
    }  # fmt: skip
    if light["type"] == "point":
        return entry, None
    inner, outer = math.cos(light["inner"]), math.cos(light["outer"])
    axis = mi.Vector3f(*light["towards"].tolist())
    return entry, lambda way: dr.square(
        dr.clip((dr.dot(axis, way) - outer) / max(inner - outer, 0.001), 0, 1)
    )


def sensor(camera: dict[str, Any], width: int, height: int) -> dict[str, Any]:
    """A perspective camera: ``matrix`` to the world looking along -z, ``yfov`` in radians, ``znear``."""
    matrix = np.asarray(camera["matrix"]) @ np.diag([-1.0, 1, -1, 1])
    film = {
        "type": "hdrfilm",
        "width": width,
        "height": height,
        "rfilter": {"type": "box"},
        "pixel_format": "rgba",
    }
    return {
        "type": "perspective", "fov": math.degrees(camera["yfov"]), "fov_axis": "y", "near_clip": camera["znear"],
        "to_world": mi.ScalarTransform4f(matrix), "far_clip": 50, "film": film, "sampler": {"type": "independent"},
    }  # fmt: skip


def picture(
    parts: list[Part], light: dict[str, Any], integrator: dict[str, Any], camera: dict[str, Any], size: int, samples: int,
    bsdf: dict[str, Any] | None = None,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """(H, W, 4) linear, and the standard error of each value by the halves of the samples. bsdf: another than glTF's."""
    shapes = {f"shape {k}": shape(part, k, bsdf) for k, part in enumerate(parts)}
    scene = mi.load_dict(
        {"type": "scene", "light": light, "integrator": integrator, "sensor": sensor(camera, size, size)}
        | shapes
    )
    # Parts keep the memory of a wavefront small.
    runs = 2 * math.ceil(samples * size * size / 2**22)
    drawn = [np.array(mi.render(scene, spp=max(1, samples // runs), seed=i), np.float64) for i in range(runs)]
    first, second = (sum(drawn[k::2]) / (runs // 2) for k in range(2))
    return (first + second) / 2, np.abs(first - second) / 2


def grid_picture(
    file: File,
    size: tuple[int, int],
    samples: int,
    environment: np.ndarray | None = None,
    directions: int = 1,
    seed: int = 0,
) -> np.ndarray:
    """(H, W, 4) linear: the first camera of a file, and no shadows. Each pixel is the mean of samples x samples rays through the
    centres of its cells, as a rasteriser takes them.

    environment: a map that shines instead of the lights of the file, integrated by so many directions a ray.
    """
    width, height = size
    lights = [punctual(light) for light in file.lights] if environment is None else [(sky(environment), None)]
    emitters = [mi.load_dict(entry) for entry, _ in lights]
    shapes = {f"shape {k}": shape(part, k) for k, part in enumerate(file.parts)}
    found = {f"light {k}": emitter for k, emitter in enumerate(emitters)}
    scene = mi.load_dict({"type": "scene", "sensor": sensor(file.cameras[0], width, height)} | shapes | found)
    view, sampler = scene.sensors()[0], mi.load_dict({"type": "independent"})
    blended = sum(part.material.get("alphaMode", "OPAQUE") != "OPAQUE" for part in file.parts)
    across, down = width * samples, height * samples
    total = np.zeros((height, width, 4))
    for run in range(directions):
        sampler.seed(seed + run, across * down)
        number = dr.arange(mi.UInt32, across * down)
        x, y = number % across, number // across
        place = mi.Point2f((mi.Float(x) + 0.5) / across, (mi.Float(y) + 0.5) / down)
        ray, _ = view.sample_ray(0.0, 0.5, place, mi.Point2f(0.5))
        colour, opacity = direct_light(
            scene, [(e, cone) for e, (_, cone) in zip(emitters, lights, strict=True)], sampler, ray,
            mi.Bool(True), False, min(LAYERS, 1 + 2 * blended),
        )  # fmt: skip
        rows = np.stack([np.array(c, np.float64) for c in (*colour, dr.mean(opacity))], axis=-1)
        total += rows.reshape(height, samples, width, samples, 4).mean((1, 3)) / directions
    return total
