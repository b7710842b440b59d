"""Count the lines of Python that code executes: stop what runs away, and find what grows faster than its group."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, Self

from groupsdk.assignment import Cluster, Subscription
from groupsdk.assignment.check.cases import GENERATION_ID, Case
from groupsdk.lazy_imports import override


class TooManySteps(BaseException):
    """The code executed more lines than the limit.

    Not an Exception, so that code that catches those does not go on.
    """


class StepLimit:
    """Count the lines of Python that the block executes, and stop it at a limit by `TooManySteps`; a context manager.

    Lines and not seconds, so that it is the same on every machine. What C functions do within one line is
    not counted. Where a debugger or a coverage tool traces already, it is left in place and nothing is counted.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._left = limit
        self._is_counting = False

    @property
    def taken(self) -> int:
        return self._limit - self._left

    def __enter__(self) -> Self:
        if sys.gettrace() is None:
            self._is_counting = True
            sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_counting:
            sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise TooManySteps
        return self._trace


_FACTOR: Final = 4
_ALLOWED: Final = 2
"""Work may grow by this much more than the group: sorting and levels are no fault, a square is 4 times more."""

_SPARE_LINES: Final = 1000

_SMALL: Final = {
    "members": (32, 2, 2),
    "topics": (2, 32, 2),
    "partitions": (2, 2, 64),
}
"""Members, topics, and partitions of each topic; the key says which of these is multiplied.

Only one at a time: looking at all members for each partition is usual, and fast enough for most groups.
"""


class _MemberId(str):
    """A string of which every comparison executes a line, so that a search through a list of members counts as one.

    Topics are not: looking a topic up in the few that a member subscribes to is usual.
    """

    __slots__ = ()
    __hash__ = str.__hash__

    @override
    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other)


def growth_problem(prepare: Callable[[Case], Callable[[], object]]) -> str | None:
    """Return which growth of a group costs too much work; None if none does.

    Members own nothing at first, and then everything. What C functions do within one line is not counted, except for
    comparing member ids, and nothing is where another tool traces already.
    """
    for owned in (False, True):
        for kind, small in _SMALL.items():
            few = StepLimit(1 << 62)
            call = prepare(_group(*small, owned=owned))
            with few:
                call()
            call = prepare(_group(*_larger(kind, small), owned=owned))
            most = _ALLOWED * _FACTOR * few.taken + _SPARE_LINES
            try:
                with StepLimit(most):
                    call()
            except TooManySteps:
                return (
                    f"is not linear: {few.taken:,} lines of Python for a group{' that owns its partitions' * owned},"
                    f" and over {most:,} for one with {_FACTOR} times the {kind}"
                )
    return None


def _larger(kind: str, small: tuple[int, int, int]) -> tuple[int, int, int]:
    members, topics, partitions = (
        count * _FACTOR if name == kind else count
        for name, count in zip(("members", "topics", "partitions"), small, strict=True)
    )
    return members, topics, partitions


def _group(members: int, topics: int, partitions: int, *, owned: bool) -> Case:
    names = tuple(f"topic-{number}" for number in range(topics))
    return Case(
        Cluster(dict.fromkeys(names, partitions)),
        {
            _MemberId(f"consumer-{place}"): Subscription(
                names,
                owned_partitions={
                    topic: mine
                    for number, topic in enumerate(names)
                    if (mine := tuple(range((place - number) % members, partitions, members)))
                }
                if owned
                else {},
                generation_id=GENERATION_ID if owned else -1,
            )
            for place in range(members)
        },
    )
