"""Lights as images: their parameters become leaves, and lights are made again around these."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ....ad.graph import Variable
from ....errors import InputError
from ...shading.lights import Light, LightSource
from .inputs import Given, Values, per_view, picture_of, vertex_list


class LightRecipe(NamedTuple):
    """Everything of a light that is not an image; equal recipes make equal graphs."""

    number: int
    kind: type[LightSource]
    fixed: tuple[tuple[str, Any], ...]
    """Fields that are no parameters, and parameters that are named ways ("headlight") or None."""
    parameters: tuple[str, ...]

    def name(self, field: str) -> str:
        """Of the image of a parameter."""
        return f"light {self.number} {field}"

    def light(self, parts: Mapping[str, Variable]) -> LightSource:
        """The light whose parameters are these Variables."""
        return self.kind(**dict(self.fixed), **{field: parts[self.name(field)] for field in self.parameters})


def lights_of(light: Any) -> tuple[LightSource, ...]:
    """The lights that an argument ``light`` means: None, "headlight", a direction, a light or several. Raises InputError."""
    if light is None:
        return ()
    if isinstance(light, LightSource):
        return (light,)
    if isinstance(light, Sequence) and any(isinstance(one, LightSource) for one in light):
        wrong = [one for one in light if not isinstance(one, LightSource)]
        if wrong:
            raise InputError(f"several lights are a list of lights, which {wrong[0]!r} is not")
        return tuple(light)
    return (Light(light),)


def light_given(light: Any) -> tuple[dict[str, Given], tuple[LightRecipe, ...]]:
    """The images of the parameters of all lights, and how lights are made of them. Raises InputError."""
    given: dict[str, Given] = {}
    recipes = []
    for number, given_light in enumerate(lights_of(light)):
        one = given_light.prepared()
        fixed, parameters = {}, []
        for field in dataclasses.fields(one):
            value = getattr(one, field.name)
            if field.name not in one.parameters or value is None or isinstance(value, str):
                fixed[field.name] = value
            else:
                parameters.append(field.name)
        recipe = LightRecipe(number, type(one), tuple(fixed.items()), tuple(parameters))
        for field in dataclasses.fields(one):
            if field.name in parameters:
                given[recipe.name(field.name)] = _parameter(one, field.name)
        _check(one, fixed)
        recipes.append(recipe)
    return given, tuple(recipes)


def _parameter(light: LightSource, name: str) -> Given:
    value, what = getattr(light, name), f"{name} of {type(light).__name__}"
    if name in light.images:
        return picture_of(what, value, radiance=True)
    if name in light.lists:
        return vertex_list(what, light.parameters[name], value)
    found = per_view(what, light.parameters[name], value)
    if name in light.positive and isinstance(found, Values) and found.array.min() < 0:
        raise InputError(f"{what} is {found.array.min():.4g}; light is not negative: give numbers from 0")
    if name == "direction" and isinstance(found, Values) and not np.abs(found.array).max(-1).min() > 0:
        raise InputError("the direction of the light is zero; point it towards the light")
    return found


def _check(light: LightSource, fixed: Mapping[str, Any]) -> None:
    direction = fixed.get("direction")
    if isinstance(direction, str) and (direction != "headlight" or not isinstance(light, Light)):
        raise InputError(f"light is 'headlight', a direction, a light or None, not {direction!r}")


__all__ = ["LightRecipe", "light_given", "lights_of"]
