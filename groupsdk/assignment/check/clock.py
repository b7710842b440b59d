"""Let code see another time, to find out whether its result depends on the clock."""

import datetime as datetime_module
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any
from unittest.mock import patch

from groupsdk.lazy_imports import override


_SECONDS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
_CALENDARS = ("localtime", "gmtime", "ctime")
LATER_S = (1, 3_600, 43 * 86_400)
"""Odd numbers of seconds, hours and days, as results often depend on parity."""


def package_of(assignor: object) -> str:
    """Return the package, or the module outside of packages, of an object's class."""
    module = type(assignor).__module__
    return module.rpartition(".")[0] or module


@contextmanager
def shifted_clock(seconds: int, package: str) -> Iterator[None]:
    """Let the modules of one package see another time within the block, by `time` and `datetime`.

    Only global names of these modules are replaced: other code in the process sees the true time.
    """
    replaced = _replacements(seconds)
    shown = [
        module
        for name, module in list(sys.modules.items())
        if name == package or name.startswith(f"{package}.")
    ]
    with ExitStack() as stack:
        for module in shown:
            for name, value in list(vars(module).items()):
                if id(value) in replaced:
                    stack.enter_context(patch.object(module, name, replaced[id(value)]))
        yield


def _replacements(seconds: int) -> dict[int, Any]:
    """Return what stands for clocks, and for the modules with clocks, by the identity of each."""
    clocks: dict[str, Any] = {}
    for name in _SECONDS:
        clocks[name] = _ahead(getattr(time, name), seconds)
        clocks[f"{name}_ns"] = _ahead(getattr(time, f"{name}_ns"), seconds * 10**9)
    for name in _CALENDARS:
        clocks[name] = _at_time(getattr(time, name), clocks["time"])
    ahead = datetime_module.timedelta(seconds=seconds)
    dates = {"datetime": _datetime_ahead(ahead), "date": _date_ahead(ahead)}
    replaced: dict[int, Any] = {}
    for module, those in ((time, clocks), (datetime_module, dates)):
        copied = ModuleType(module.__name__)
        vars(copied).update({**vars(module), **those})
        replaced[id(module)] = copied
        replaced.update({id(getattr(module, name)): other for name, other in those.items()})
    return replaced


def _ahead(clock: Callable[[], Any], by: int) -> Callable[[], Any]:
    return lambda: clock() + by


def _at_time(calendar: Callable[..., Any], clock: Callable[[], float]) -> Callable[..., Any]:
    return lambda at=None: calendar(clock() if at is None else at)


def _datetime_ahead(ahead: datetime_module.timedelta) -> type[datetime_module.datetime]:
    class Ahead(datetime_module.datetime):
        @classmethod
        @override
        def now(cls, tz: datetime_module.tzinfo | None = None) -> Any:
            return super().now(tz) + ahead

        @classmethod
        @override
        def utcnow(cls) -> Any:
            return super().now(datetime_module.UTC).replace(tzinfo=None) + ahead

        @classmethod
        @override
        def today(cls) -> Any:
            return super().now() + ahead

    return Ahead


def _date_ahead(ahead: datetime_module.timedelta) -> type[datetime_module.date]:
    class Ahead(datetime_module.date):
        @classmethod
        @override
        def today(cls) -> Any:
            return super().today() + ahead

    return Ahead
