"""Carry log records from the child process to the loggers of the member's process."""

import logging
from collections.abc import Callable
from typing import Final

from typing_extensions import override

from groupsdk.drivers.hosts.frames import Logged


_OURS: Final = "groupsdk"
_formatter = logging.Formatter()


def lowest_level() -> int:
    """Return the level below which no logger of ours takes anything at present."""
    levels = [logging.getLogger(_OURS).getEffectiveLevel()]
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger) and name.startswith(f"{_OURS}."):
            levels.append(logger.getEffectiveLevel())
    return max(min(levels), logging.root.manager.disable + 1)


class ForwardingHandler(logging.Handler):
    """Hands every record on as plain values; in the child."""

    def __init__(self, forward: Callable[[Logged], None]) -> None:
        super().__init__()
        self._forward = forward

    @override
    def emit(self, record: logging.LogRecord) -> None:
        try:
            trace = record.exc_text
            if trace is None and record.exc_info and record.exc_info[0] is not None:
                trace = _formatter.formatException(record.exc_info)
            self._forward(
                Logged(
                    name=record.name,
                    level=record.levelno,
                    message=record.getMessage(),
                    created=record.created,
                    thread=record.threadName or "",
                    path=record.pathname,
                    line=record.lineno,
                    function=record.funcName or "",
                    trace=trace,
                )
            )
        except Exception:  # noqa: BLE001  # as every handler: a bad record is reported, not raised
            self.handleError(record)


def log_here(logged: Logged, pid: int) -> None:
    """Log a record of the child with process id `pid` as if it were ours."""
    logger = logging.getLogger(logged.name)
    if not logger.isEnabledFor(logged.level):
        return
    record = logger.makeRecord(
        logged.name,
        logged.level,
        logged.path,
        logged.line,
        logged.message,  # whole already, and taken as it is where there are no arguments
        (),
        None,
        logged.function,
    )
    record.created = logged.created
    record.msecs = logged.created % 1 * 1000
    record.exc_text = logged.trace
    record.process = pid
    record.processName = "groupsdk"
    record.threadName = logged.thread
    logger.handle(record)
