"""What tests compare between the forms of a class for threads and for asyncio."""

import inspect
from collections.abc import Callable
from typing import Any


def public_names(owner: type) -> set[str]:
    """Return the names of the public methods and properties."""
    return {
        name
        for name, value in inspect.getmembers(owner)
        if not name.startswith("_") and (callable(value) or isinstance(value, property))
    }


def arguments(method: Callable[..., Any]) -> dict[str, tuple[Any, Any]]:
    """Return the kind and default of each parameter, in order."""
    return {
        name: (each.kind, each.default)
        for name, each in inspect.signature(method).parameters.items()
    }
