"""Arguments and structures of Vulkan calls as C values.

The helpers of the package ``vulkan`` look every field up in the C declarations again, in each call; that took a third of
the time of building a plan. ``quicken`` exchanges them for these, which do the same and remember the declarations.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary


def quicken(vulkan: ModuleType) -> ModuleType:
    """The module with quicker helpers for structures and calls; as it is if its version has others. May be called again."""
    module: Any = vulkan._vulkan
    if (
        not all(hasattr(module, name) for name in ("ffi", "_new", "_callApi"))
        or module._new.__module__ == __name__
    ):
        return vulkan
    ffi, new, lives_with = module.ffi, module._new, WeakKeyDictionary()
    data, null, address, kind_of = ffi.CData, ffi.NULL, ffi.addressof, ffi.typeof

    @cache
    def fields(name: str) -> tuple[Any, dict[str, Any]]:
        """The type of a pointer to a structure, and the types of its fields that are pointers, None for others."""
        found = {k: f.type for k, f in kind_of(name).fields}
        return kind_of(f"{name}*"), {k: t if t.kind == "pointer" else None for k, t in found.items()}

    @cache
    def arguments(function: Any) -> tuple[Any, ...]:
        """The types of a function's arguments that are pointers, None for others."""
        return tuple(t if t.kind == "pointer" else None for t in function.args)

    @cache
    def items(kind: Any) -> tuple[Any, Any]:
        """The type that a pointer points to if that is a pointer, too, else None; the type of arrays of it."""
        item = kind.item
        return (item if item.kind == "pointer" else None), kind_of(f"{item.cname}[]")

    def pointer(x: Any, kind: Any, kept: list[Any]) -> Any:
        """A value as a pointer; what it points to is added to ``kept``."""
        if isinstance(x, data):
            found = kind_of(x)
            if found is not kind and found.kind in ("struct", "union"):
                kept.append(x)
                return address(x)
        elif isinstance(x, str | Iterable):
            inner, array = items(kind)
            if isinstance(x, str):
                x = x.encode()
            elif inner is not None:
                x = [pointer(each, inner, kept) for each in x]
            x = ffi.new(array, x)
        else:
            x = ffi.cast(kind, x)
        kept.append(x)
        return x

    def structure(ctype: str, **values: Any) -> Any:
        whole, kinds = fields(ctype)
        init, kept = {}, []
        for k, x in values.items():
            if not x:
                continue
            if k.startswith("pfn"):
                return new(ctype, **values)
            if k == "pCode":
                code = ffi.from_buffer(x)
                kept.append(code)
                x = ffi.cast("uint32_t*", code)
            elif (kind := kinds[k]) is not None:
                x = pointer(x, kind, kept)
            init[k] = x
        made = ffi.new(whole, init)[0]
        if kept:
            lives_with[made] = kept
        return made

    def call(function: Any, *given: Any) -> Any:
        kept: list[Any] = []
        return function(
            *[
                null if x is None else x if kind is None else pointer(x, kind, kept)
                for x, kind in zip(given, arguments(kind_of(function)), strict=False)
            ]
        )

    module._new, module._callApi = structure, call
    return vulkan
