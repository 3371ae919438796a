"""Parameters and optimizer state by name."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ....ad.graph import Variable
from ....errors import GraphError
from ..workspace import Workspace


def read_state(tree: Mapping[str, Variable], workspace: Workspace) -> dict[str, np.ndarray]:
    """The present values of leaves by name."""
    workspace.hold(tree.values())
    return {name: workspace.read(v).result() for name, v in tree.items()}


def by_leaf(
    state: Mapping[str, np.ndarray], tree: Mapping[str, Variable], partial: bool
) -> dict[Variable, np.ndarray]:
    """The arrays of a state by leaf. Raises GraphError when it has other names than the tree; partial: when it has
    more."""
    odd = set(state) - set(tree) if partial else set(state) ^ set(tree)
    if odd:
        raise GraphError(
            f"the state does not belong to this optimisation; it differs in: {', '.join(sorted(odd))}"
            + ("" if partial else "; partial=True sets what there is")
        )
    return {tree[name]: array for name, array in state.items()}
