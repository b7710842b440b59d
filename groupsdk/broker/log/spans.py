"""Keep which parts of a file have been looked at."""

from bisect import bisect_left, bisect_right


class Spans:
    """Hold ranges of positions, joined where they touch."""

    __slots__ = ("_starts", "_stops")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []

    def __len__(self) -> int:
        return len(self._starts)

    def add(self, start: int, stop: int) -> None:
        """Add the positions from `start` to before `stop`."""
        if stop <= start:
            return
        first = bisect_left(self._stops, start)
        behind = bisect_right(self._starts, stop)
        if first < behind:
            start = min(start, self._starts[first])
            stop = max(stop, self._stops[behind - 1])
        self._starts[first:behind] = [start]
        self._stops[first:behind] = [stop]

    def covers(self, start: int, stop: int) -> bool:
        """Tell whether all positions from `start` to before `stop` are there."""
        if stop <= start:
            return True
        found = bisect_right(self._starts, start) - 1
        return found >= 0 and self._stops[found] >= stop
