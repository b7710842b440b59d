"""Say in log records which connector and task they are about (KIP-449)."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from typing_extensions import override


FIELD: Final = "connector_context"
"""The field of log records, for formats: `%(connector_context)s`. Kafka Connect's is `connector.context`."""
_CONTEXT: Final[ContextVar[str]] = ContextVar(FIELD, default="")


@contextmanager
def connector_context(name: str, task: int | None = None, scope: str = "") -> Iterator[None]:
    """Have all that is logged within this block, by this thread or coroutine, carry the context.

    Args:
        name: the connector.
        task: the number of its task; None: the connector itself, on a worker.
        scope: what of the task, "" for the task itself.
    """
    parts = [name, "worker" if task is None else f"task-{task}", *([scope] if scope else [])]
    token = _CONTEXT.set(f"[{'|'.join(parts)}] ")
    try:
        yield
    finally:
        _CONTEXT.reset(token)


class ConnectorContextFilter(logging.Filter):
    """Gives log records the field `connector_context`: `[logs|task-0] `, or "" for what is about no connector.

    Add it to handlers whose format has `%(connector_context)s`, as the command does. Threads that a task starts do
    not inherit its context; run them with `contextvars.copy_context().run` where they are to have it.
    """

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        """Add the field; keeps all records."""
        setattr(record, FIELD, _CONTEXT.get())
        return True
