"""Keep deadlines in buckets, so that postponing one costs no more than an assignment.

A member's session is postponed by every heartbeat and rarely ends. So its holder stays in the bucket where it was
first filed; when that bucket is due, holders whose deadline was postponed are moved to a new one: once per session
timeout instead of once per heartbeat.
"""

from heapq import heappop, heappush
from typing import Final, Generic, TypeVar


NEVER: Final = 2**63 - 1
"""The deadline of a holder that has none."""


class Deadline:
    """Base class of objects with one deadline that `DeadlineBuckets` tracks.

    Attributes:
        deadline_ms: when it is due; NEVER if it has none. Read it; set it by `DeadlineBuckets.set`.
        filed_ms: the bucket that holds it; NEVER if in none. Private to the buckets.
    """

    __slots__ = ("deadline_ms", "filed_ms")

    def __init__(self) -> None:
        self.deadline_ms = NEVER
        self.filed_ms = NEVER


D = TypeVar("D", bound=Deadline)


class DeadlineBuckets(Generic[D]):
    """Tracks many deadlines; none is reported early, and none late by `width_ms` or more.

    A holder belongs to one `DeadlineBuckets` only.

    Args:
        width_ms: the width of a bucket in milliseconds; 1 or more.
    """

    __slots__ = ("_buckets", "_times", "_width_ms", "next_ms")

    def __init__(self, width_ms: int) -> None:
        self._width_ms = width_ms
        self._buckets: dict[int, list[D]] = {}
        self._times: list[int] = []
        self.next_ms = NEVER
        """When something may be due, at the earliest; NEVER if nothing will be. Not to be set."""

    def set(self, holder: D, deadline_ms: int) -> None:
        """Set the deadline of a holder, replacing an earlier or later one."""
        holder.deadline_ms = deadline_ms
        # a bucket that is due too early only costs filing it again; one that is due too late would miss the deadline
        if deadline_ms < holder.filed_ms:
            self._file(holder)

    def clear(self, holder: D) -> None:
        """Clear the deadline of a holder, which stays referenced until its bucket is due."""
        holder.deadline_ms = NEVER

    def pop_due(self, now_ms: int) -> list[D]:
        """Remove the earliest due bucket. Return its holders that are due.

        They have no deadline afterwards. Call it again while `next_ms` is not after `now_ms`.
        """
        if not self._times or self._times[0] > now_ms:
            return []
        at_ms = heappop(self._times)
        self.next_ms = self._times[0] if self._times else NEVER
        due = []
        for holder in self._buckets.pop(at_ms):
            if holder.filed_ms != at_ms:
                continue  # refiled into an earlier bucket since
            holder.filed_ms = NEVER
            if holder.deadline_ms <= at_ms:
                holder.deadline_ms = NEVER
                due.append(holder)
            elif holder.deadline_ms != NEVER:
                self._file(holder)
        return due

    def _file(self, holder: D) -> None:
        width_ms = self._width_ms
        at_ms = -(-holder.deadline_ms // width_ms) * width_ms
        holder.filed_ms = at_ms
        bucket = self._buckets.get(at_ms)
        if bucket is None:
            self._buckets[at_ms] = [holder]
            heappush(self._times, at_ms)
            self.next_ms = self._times[0]
        else:
            bucket.append(holder)
