"""Say how much a stream reads at once, to Spark versions that ask and to those that do not (before 4.2)."""

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
        """What Spark 4.2 asks of a source that ends where the log ended as it started."""

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
            """Take note of where to end."""


def limit_of(most: int | None) -> Any:
    """Return the limit that a source reads by unless Spark says otherwise; None: all there is."""
    if ReadMaxRows is None:
        return None
    return ReadAllAvailable() if most is None else ReadMaxRows(most)


def is_limited(limit: Any) -> bool:
    """Tell whether Spark lets a source read by its own limit."""
    return ReadMaxRows is not None and isinstance(limit, ReadMaxRows)


__all__ = ["SupportsTriggerAvailableNow", "is_limited", "limit_of"]
