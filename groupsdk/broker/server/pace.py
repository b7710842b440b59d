"""Requests that are handled in steps, so that others can run between them."""

from collections import Counter
from collections.abc import Generator, Hashable, Iterable
from itertools import islice
from types import GeneratorType
from typing import TYPE_CHECKING, Final, TypeVar, cast


if TYPE_CHECKING:
    from groupsdk.broker.log_manager import LogManager
    from groupsdk.wire.schema import Response


T = TypeVar("T", bound=Hashable)
Steps = Generator[None, None, "Response | None"]
"""A request being handled in steps of some milliseconds, between which other requests run; returns the
response.
"""
_PAUSE_AFTER: Final = 512
"""How many elements of a request are handled before a pause: some milliseconds' work."""
_COUNTED_AT_ONCE: Final = 1024
CHANGE_COSTS: Final = 64
"""The weight of a change in the catalogue or in a directory, in simple elements."""
OPENING_COSTS: Final = 128
"""The weight of opening the log of a partition, in simple elements."""


class Pace:
    """Decides after which elements of a request its handler pauses, so that other requests can run."""

    __slots__ = ("_done",)

    def __init__(self) -> None:
        self._done = 0

    def due(self, weight: int = 1) -> bool:
        """Count an element. Return whether to pause before it."""
        self._done += weight
        if self._done <= _PAUSE_AFTER:
            return False
        self._done = weight
        return True


def counted(elements: Iterable[T]) -> Generator[None, None, Counter[T]]:
    """Return how often each element occurs, in the order of their first occurrences; in steps, if they are many."""
    counts: Counter[T] = Counter()
    left = iter(elements)
    while some := tuple(islice(left, _COUNTED_AT_ONCE)):
        counts.update(some)
        if len(some) == _COUNTED_AT_ONCE:
            yield
    return counts


def log_costs(logs: "LogManager", topic: str, partition: int) -> int:
    """Return the weight of looking into the log of a partition, which may be opened for that."""
    return 1 if logs.is_open(topic, partition) else OPENING_COSTS


def at_once(answer: "Response | Steps | None") -> "Response | None":
    """Run a handler's steps without pauses, for callers without a loop; None if there is no response now."""
    if not isinstance(answer, GeneratorType):
        return cast("Response | None", answer)
    while True:
        try:
            next(answer)
        except StopIteration as done:
            return cast("Response | None", done.value)
