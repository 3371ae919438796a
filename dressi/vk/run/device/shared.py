"""Objects of a Device that several owners use at once: one of each key, with a count of references."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from typing import Any

KEPT = 256
"""Objects without references that a Device keeps, the last released. A pipeline of lavapipe takes .4 MiB."""


class Reference:
    """A use of a shared object, until ``release``."""

    __slots__ = ("handle", "key")

    def __init__(self, key: Hashable, handle: Any):
        self.key, self.handle = key, handle


class SharedObjects:
    """Finds objects by a key that says all that they are made from, and counts who uses them.

    An object without references stays for the next user of its key: a graph that is built again finds its
    pipelines. At most ``KEPT`` of those stay. This only keeps the books; a Device makes and destroys the
    objects.
    """

    def __init__(self) -> None:
        self._handles: dict[Hashable, Any] = {}
        self._counts: dict[Hashable, int] = {}  # of the keys with references
        self._idle: OrderedDict[Hashable, None] = OrderedDict()  # the other keys, the last one released last
        self._references: dict[Reference, None] = {}

    def acquire(self, key: Hashable, make: Callable[[], Any]) -> Reference:
        """A reference to the object of this key, which ``make`` makes if there is none."""
        if key not in self._handles:
            self._handles[key] = make()
        self._idle.pop(key, None)
        self._counts[key] = self._counts.get(key, 0) + 1
        reference = Reference(key, self._handles[key])
        self._references[reference] = None
        return reference

    def release(self, reference: Reference) -> None:
        """Give up a reference. A reference that was given up already is ignored."""
        if reference not in self._references:
            return
        del self._references[reference]
        key = reference.key
        self._counts[key] -= 1
        if not self._counts[key]:
            del self._counts[key]
            self._idle[key] = None

    def forget_idle(self, kept: int) -> list[Any]:
        """Forget objects without references until so many remain. Returns the others, to be destroyed."""
        keys = [self._idle.popitem(last=False)[0] for _ in range(len(self._idle) - kept)]
        return [self._handles.pop(key) for key in keys]

    @property
    def keys(self) -> Collection[Hashable]:
        """Keys of all objects, with references or without."""
        return self._handles.keys()

    @property
    def references(self) -> Collection[Reference]:
        """All references that were not given up."""
        return self._references.keys()

    @property
    def handles(self) -> set[Any]:
        """All objects, with references or without."""
        return set(self._handles.values())

    @property
    def idle(self) -> set[Any]:
        """The objects without references."""
        return {self._handles[key] for key in self._idle}
