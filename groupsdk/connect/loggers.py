"""Levels of loggers that are changed while a worker runs (KIP-495, KIP-976), and the connector that a record is about (KIP-449)."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from groupsdk.clock import Clock, WallClock
from groupsdk.connect.errors import UnknownConnectorError
from groupsdk.lazy_imports import override


FIELD: Final = "connector_context"
"""The field of log records, for formats: `%(connector_context)s`. Kafka Connect's is `connector.context`."""
_CONTEXT: Final[ContextVar[str]] = ContextVar(FIELD, default="")


@contextmanager
def connector_context(name: str, task: int | None = None, scope: str = "") -> Iterator[None]:
    """Add the context to all log records of this block, by this thread or coroutine.

    `task` is None for the connector itself, on a worker; `scope`: what of the task, "" for the task itself.
    """
    parts = [name, "worker" if task is None else f"task-{task}", *([scope] if scope else [])]
    token = _CONTEXT.set(f"[{'|'.join(parts)}] ")
    try:
        yield
    finally:
        _CONTEXT.reset(token)


class ConnectorContextFilter(logging.Filter):
    """Gives log records the field `connector_context`: `[logs|task-0] `, or "" outside connectors.

    Add it to handlers whose format has `%(connector_context)s`, as the command does. Threads that a task starts do
    not inherit its context; run them with `contextvars.copy_context().run` where they are to have it.
    """

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        """Add the field; keeps all records."""
        setattr(record, FIELD, _CONTEXT.get())
        return True


ROOT: Final = "root"
_NAMES: Final = {
    "ALL": 1,
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": logging.CRITICAL + 1,
}
"""Kafka's levels, each with the least of Python's that it lets through."""
_OURS: Final = {"WARNING": "WARN", "CRITICAL": "FATAL"}


class Loggers:
    def __init__(self, clock: Clock | None = None) -> None:
        self._date = clock or WallClock()
        self._modified_ms: dict[str, int] = {}

    def all(self) -> dict[str, dict[str, Any]]:
        return {name: self.show(name) for name in [*_known(), ROOT]}

    def show(self, name: str) -> dict[str, Any]:
        """Return the `level` of a logger, by Kafka's name, and `last_modified` here, in milliseconds since 1970, None if it was not.

        Raises UnknownConnectorError if there is no such logger.
        """
        if name != ROOT and name not in _known():
            raise UnknownConnectorError(f"there is no logger {name!r}")
        level = _logger(name).getEffectiveLevel()
        shown = next(key for key, least in reversed(_NAMES.items()) if level >= least or least == 1)
        return {"level": shown, "last_modified": self._modified_ms.get(name)}

    def set(self, name: str, level: str) -> list[str]:
        """Set the level of a logger and of all loggers below it; for "root", of all loggers. An unknown logger is created.

        Returns the names of those that had another level before, sorted.
        """
        number = _NAMES[level_name(level)]
        below = [each for each in _known() if name == ROOT or each.startswith(f"{name}.")]
        names = sorted({name, *below})
        before = {each: _logger(each).getEffectiveLevel() for each in names}
        _logger(name).setLevel(number)
        for logger_name in below:
            # those that follow the one above them go on doing so
            if _logger(logger_name).getEffectiveLevel() != number:
                _logger(logger_name).setLevel(number)
        changed = [each for each in names if before[each] != number]
        self._modified_ms |= dict.fromkeys(changed, self._date.now_ms())
        return changed


def level_name(level: str) -> str:
    """Return Kafka's name of a level: Kafka's or Python's, in any case.

    Raises UnknownConnectorError if there is no such level; the REST API answers 404.
    """
    name = _OURS.get(level.upper(), level.upper())
    if name not in _NAMES:
        # 404, as Kafka's worker answers
        raise UnknownConnectorError(f"unknown level {level!r}; the known ones: {', '.join(_NAMES)}")
    return name


def _known() -> list[str]:
    # what only stands for a part of other loggers' names is none
    known = logging.root.manager.loggerDict
    return sorted(name for name in list(known) if isinstance(known[name], logging.Logger))


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)
