"""Light that a material fit uses, and finds if it is asked to."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ....ad import functional as F
from ....ad.graph import Variable
from ...drawing.images.inputs import Values
from ...drawing.images.lights import light_given
from ...shading.lights import LightSource
from ..phases.texture import roughness as squared_steps

RATE = 0.02
"""Learning rate of Adam for the parameters of a light at the first step."""
LIGHT = "light "
"""What names of values of a light begin with."""
LEAST = 1e-3
"""What radiance of 0 starts from: a logarithm has no value at 0."""
EVENNESS = 1e-6
"""Weight of the sum of squared differences of the logarithms of neighbouring texels of a learned map."""


class LearnedLight:
    """A light as Variables. learned: whether its ``learned`` fields are parameters; those that are ``positive`` are
    exponentials of theirs.

    ``light`` is for the graph, ``rates`` are the parameters with their learning rates, ``values`` what is read at the end,
    ``penalty`` a FLOAT 1x1 term of the loss.
    """

    def __init__(self, light: LightSource, learned: bool):
        light = light.prepared()
        parts, (recipe,) = light_given(light)
        names = set(light.learned) if learned else set()
        images: dict[str, Variable] = {}
        self.rates: dict[Variable, float] = {}
        self.values: dict[str, Variable] = {}
        self.penalty: Variable = F.constant(0.0)
        for field in recipe.parameters:
            name = recipe.name(field)
            values = parts[name]
            leaf = values if isinstance(values, Variable) else values.leaf(name)
            if field in names and isinstance(values, Values):
                positive = field in light.positive
                start = np.log(np.maximum(values.array, LEAST)) if positive else values.array
                leaf = Values(values.vtype, start).leaf(name)
                self.rates[leaf] = RATE
                if field in light.images:
                    self.penalty = self.penalty + squared_steps(leaf) * EVENNESS
                leaf = F.exp(leaf) if positive else leaf
                self.values[LIGHT + field] = leaf
            images[name] = leaf
        self.light = recipe.light(images)


def with_light(light: LightSource, values: Mapping[str, np.ndarray]) -> LightSource:
    """The light with what was found. values: those of ``LearnedLight.values``."""
    light = light.prepared()
    fields = dict(vars(light))
    for name, array in values.items():
        found = np.asarray(array, np.float64)
        field = name.removeprefix(LIGHT)
        if field in light.lists:
            found = found.reshape(-1, *found.shape[3:])
        elif field in light.images:
            found = found[0]
        else:
            found = found[:, 0, 0]
        fields[field] = found
    return type(light)(**fields)
