"""Share with other processes until when a worker's tasks may go on."""

from multiprocessing.sharedctypes import RawArray

from groupsdk.clock import Clock, SystemClock
from groupsdk.limits import MAX_INT64


class SharedLease:
    """Two times in memory that the worker writes and the processes of its tasks read.

    So they know that the session is over while the worker is suspended, and can tell them nothing. Times are
    milliseconds of `SystemClock`, which is one for all processes of a machine. It can be given to a process only
    when that is spawned.

    Args:
        clock: the time; for tests.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        # each is written whole: 8 bytes at an address that is a multiple of 8
        self._times = RawArray("q", [MAX_INT64, MAX_INT64])

    def renew(self, stop_ms: int, end_ms: int) -> None:
        """Say until when tasks may go on, and until when they must have ended."""
        self._times[0] = stop_ms
        self._times[1] = end_ms

    def holds(self) -> bool:
        """Tell whether tasks may go on."""
        return self._clock.now_ms() < int(self._times[0])

    def is_over(self) -> bool:
        """Tell whether tasks must have ended: others may run them."""
        return self._clock.now_ms() >= int(self._times[1])
