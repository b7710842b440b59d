"""Smooth what members measure, and decide when it is worth moving work."""

from math import exp


class SmoothedLoad:
    """The load of one shard: a mean in which a report counts less the older it is.

    Args:
        time_constant_ms: after so long a report counts 1/e of what it did.
    """

    __slots__ = ("_time_constant_ms", "_updated_ms", "value")

    def __init__(self, time_constant_ms: int = 60_000) -> None:
        self._time_constant_ms = time_constant_ms
        self._updated_ms: int | None = None
        self.value = 0.0

    def report(self, value: float, now_ms: int) -> None:
        """Take in what was measured; the first report counts in full."""
        if self._updated_ms is None:
            self.value = value
        else:
            age = max(now_ms - self._updated_ms, 0)
            self.value = value + (self.value - value) * exp(-age / self._time_constant_ms)
        self._updated_ms = now_ms
