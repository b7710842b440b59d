"""Limit how much a stream reads at once, for Spark versions with and without (before 4.2) support for it."""

from typing import Any


try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:
    ReadAllAvailable = ReadMaxRows = None  # type: ignore[assignment,misc] # Spark 4.0 and 4.1

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef] # Spark 4.0 and 4.1
        """The interface of Spark 4.2 for sources that stop at the end of the log as of their start."""

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
            """Note the offsets at which to end."""


def limit_of(most: int | None) -> Any:
    """Return a source's own read limit unless Spark sets one; None for no limit."""
    if ReadMaxRows is None:
        return None
    return ReadAllAvailable() if most is None else ReadMaxRows(most)


def is_limited(limit: Any) -> bool:
    """Return whether Spark leaves a source to its own read limit."""
    return ReadMaxRows is not None and isinstance(limit, ReadMaxRows)


__all__ = ["SupportsTriggerAvailableNow", "is_limited", "limit_of"]
