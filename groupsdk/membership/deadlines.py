"""The deadline loop that the state machines of both protocols share."""

from collections.abc import Callable, Sequence
from typing import Final

from groupsdk.membership.actions import Action


_MOST_STEPS: Final = 20
"""More than can be due at once."""

Step = Callable[[], list[Action]]
"""Does something that is due, after which it is not due any more."""

Deadline = tuple[int, Step]
"""When something is due, and what to do then."""


def do_what_is_due(
    deadlines: Callable[[], Sequence[Deadline]], now_ms: int
) -> tuple[list[Action], int | None]:
    """Do all work that is due; return the actions and the next deadline.

    Args:
        deadlines: lists what is due when, the most urgent first. It is called once for each thing that is
            done, since each may change what is due.
        now_ms: the time.
    """
    actions: list[Action] = []
    for _ in range(_MOST_STEPS):
        next_ms: int | None = None
        for at_ms, step in deadlines():
            if at_ms <= now_ms:
                actions += step()
                break
            if next_ms is None or at_ms < next_ms:
                next_ms = at_ms
        else:
            return actions, next_ms
    raise AssertionError("the machine spins: something stays due whatever is done about it")
