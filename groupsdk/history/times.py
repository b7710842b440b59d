"""Check times from a log, where they are numbers that anybody may have written."""

from typing import Final


LAST_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999: later values are not valid times, and Spark cannot show them."""


def valid_ms(milliseconds: int) -> int | None:
    """Return a time in milliseconds, or None if it is missing (-1) or out of range."""
    return milliseconds if 0 <= milliseconds <= LAST_MS else None


def micros(milliseconds: int) -> int | None:
    """Return a time in microseconds, as the tables have it; None as in `valid_ms`."""
    return 1000 * milliseconds if 0 <= milliseconds <= LAST_MS else None
