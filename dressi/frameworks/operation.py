"""What an operation on arrays is: its signature, its graph, and the outputs that it promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from .layout import Layout, Parts, Spec


class Operation(ABC):
    """One operation with its options. Subclasses are frozen dataclasses: equal operations share a program.

    Its inputs are arrays of float32 or int32. Those of integers have no gradient.
    """

    names: tuple[str, ...]
    """Of the inputs, for messages and debuggers."""

    @abstractmethod
    def outputs(self, *given: Spec) -> tuple[tuple[int, ...], ...]:
        """The shapes of the outputs. Raises InputError where the inputs do not fit each other."""

    def output_types(self, *given: Spec) -> tuple[str, ...]:
        """The types of the outputs."""
        return ("float32",) * len(self.outputs(*given))

    def complete(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The inputs, lists ``with_room``, and behind them what else the graph needs and is computed from their values on the
        host."""
        return list(arrays)

    @abstractmethod
    def layouts(self, *given: Spec) -> tuple[Layout, ...]:
        """How each of the ``complete`` inputs lies in Variables."""

    @abstractmethod
    def graph(self, *inputs: Parts) -> tuple[Parts, ...]:
        """The outputs, each as Variables whose components are its channels."""
