"""Put off an import until a name of a package is used (PEP 562), and do without one that runs nothing: `override`."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from typing_extensions import override as override
else:

    def override(method: Any) -> Any:  # as theirs, which takes 5 ms to import
        return method


def lazy_attributes(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package whose names stand in modules (`homes`) that are imported on first use."""

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, found)  # so that it is looked up once
        return found

    return find
