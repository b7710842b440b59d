"""Show and set the levels of loggers while a worker runs, under Kafka's names for levels (KIP-495, KIP-976)."""

import logging
from dataclasses import dataclass
from typing import Any, Final

from groupsdk.clock import Clock, WallClock
from groupsdk.connect.errors import UnknownConnectorError


ROOT: Final = "root"
_NAMES: Final = {
    "TRACE": 1,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": logging.CRITICAL + 1,
}
"""Kafka's levels, each with the least of Python's that it lets through."""
_OURS: Final = {"WARNING": "WARN", "CRITICAL": "FATAL"}


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """What asks all workers of a group to set a level."""

    logger: str
    level: str


class Loggers:
    """The loggers of this process.

    Args:
        clock: the date, in milliseconds since 1970; for tests.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._date = clock or WallClock()
        self._modified_ms: dict[str, int] = {}

    def all(self) -> dict[str, dict[str, Any]]:
        """Return the loggers that have a level of their own, and the root."""
        found = [name for name in _known() if logging.getLogger(name).level]
        return {name: self.show(name) for name in [*found, ROOT]}

    def show(self, name: str) -> dict[str, Any]:
        """Return the level of a logger, and when it was set here, in milliseconds since 1970.

        Raises:
            UnknownConnectorError: there is no such logger.
        """
        if name != ROOT and name not in _known():
            raise UnknownConnectorError(f"there is no logger {name!r}")
        level = _logger(name).getEffectiveLevel()
        shown = next(key for key, least in reversed(_NAMES.items()) if level >= least or least == 1)
        return {"level": shown, "last_modified": self._modified_ms.get(name)}

    def set(self, name: str, level: str) -> list[str]:
        """Set the level of a logger and of all below it; returns their names, sorted.

        Raises:
            UnknownConnectorError: there is no such level.
        """
        number = _NAMES[level_name(level)]
        names = [name]
        if name != ROOT:
            names += [each for each in _known() if each.startswith(f"{name}.")]
        for each in names:
            _logger(each).setLevel(number)
            self._modified_ms[each] = self._date.now_ms()
        return sorted(names)


def level_name(level: str) -> str:
    """Return Kafka's name of a level that is written in any way.

    Raises:
        UnknownConnectorError: there is none.
    """
    name = _OURS.get(level.upper(), level.upper())
    if name not in _NAMES:
        # 404, as Kafka's worker answers
        raise UnknownConnectorError(f"there is no level {level!r}, only: {', '.join(_NAMES)}")
    return name


def _known() -> list[str]:
    # what only stands for a part of other loggers' names is none
    known = logging.root.manager.loggerDict
    return sorted(name for name in list(known) if isinstance(known[name], logging.Logger))


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)
