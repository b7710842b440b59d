"""Keep one deadline for each of many keys, and tell which have passed."""

import heapq


class Deadlines:
    """Deadlines in milliseconds, at most one a key; the clock is the caller's."""

    def __init__(self) -> None:
        self._at: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []

    def __contains__(self, key: str) -> bool:
        return key in self._at

    def __len__(self) -> int:
        return len(self._at)

    def arm(self, key: str, at_ms: int) -> None:
        """Set the deadline of a key, in place of an earlier one."""
        if self._at.get(key) == at_ms:
            return
        self._at[key] = at_ms
        heapq.heappush(self._heap, (at_ms, key))
        # Dropped and moved deadlines stay in the heap until they come up, unless they are the most of it.
        if len(self._heap) > 2 * len(self._at) + 64:
            self._heap = [(at, each) for each, at in self._at.items()]
            heapq.heapify(self._heap)

    def drop(self, key: str) -> None:
        """Forget the deadline of a key, if it has one."""
        self._at.pop(key, None)

    def clear(self) -> None:
        """Forget all deadlines."""
        self._at.clear()
        self._heap.clear()

    def pop(self, now_ms: int) -> str | None:
        """Take out the key whose deadline passed first; None: no deadline has passed."""
        next_ms = self.next_ms
        if next_ms is None or next_ms > now_ms:
            return None
        key = heapq.heappop(self._heap)[1]
        del self._at[key]
        return key

    @property
    def next_ms(self) -> int | None:
        """The earliest deadline; None: there is none."""
        while self._heap and self._at.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
