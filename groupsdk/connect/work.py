"""Connectors and tasks, which workers share out, and what each task weighs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from groupsdk.connect.errors import ConnectorConfigError
from groupsdk.utf16 import utf16_key
from groupsdk.wire.connect_protocol import ConnectorTaskId


@dataclass(frozen=True, slots=True)
class Work:
    """Connectors and tasks, each in an order that means something to who made it."""

    connectors: Sequence[str] = ()
    tasks: Sequence[ConnectorTaskId] = ()

    def __bool__(self) -> bool:
        return bool(self.connectors or self.tasks)

    def __len__(self) -> int:
        return len(self.connectors) + len(self.tasks)

    def minus(self, other: "Work") -> "Work":
        """Return this without what is in `other`."""
        connectors, tasks = set(other.connectors), set(other.tasks)
        return Work(
            tuple(each for each in self.connectors if each not in connectors),
            tuple(each for each in self.tasks if each not in tasks),
        )

    def plus(self, other: "Work") -> "Work":
        """Return this and what of `other` is not in it, behind."""
        return Work(
            tuple(dict.fromkeys((*self.connectors, *other.connectors))),
            tuple(dict.fromkeys((*self.tasks, *other.tasks))),
        )


NO_WORK: Final = Work()
"""Nothing to do."""


@dataclass(frozen=True, slots=True)
class ClusterAssignment:
    """What a round of an assignor gives and takes, by member id."""

    assigned: Mapping[str, Work]
    """What each member gets besides what it has; with the eager assignor all that it has."""
    revoked: Mapping[str, Work]
    """What each member is to give up; members that give nothing up are left out."""
    held: Mapping[str, Work]
    """What each member has after the round."""
    delay_ms: int = 0
    """In how many milliseconds all are to join again; 0 for not at all."""


def tasks_sorted(tasks: Iterable[ConnectorTaskId]) -> list[ConnectorTaskId]:
    """Sort as Kafka does: connectors by UTF-16 code units, then by number."""
    listed = list(tasks)
    plain = all(map(str.isascii, {name for name, _ in listed}))
    return sorted(
        listed, key=None if plain else lambda each: (utf16_key(each.connector), each.task)
    )


WEIGHT_KEY: Final = "task.weight"
"""In a task's configuration its weight; in a connector's, that of its tasks which have none of their own."""
ONE: Final = 1_000
"""A weight of 1 as it is counted: in thousandths, so that sums are exact."""
LEAST: Final = 0.001
GREATEST: Final = 1_000_000


def weight_of(config: Mapping[str, str]) -> int | None:
    """Return the weight that a configuration names, in thousandths; None where it names none.

    Raises:
        ConnectorConfigError: it is no weight.
    """
    text = config.get(WEIGHT_KEY)
    return None if text is None else counted(text)


def counted(weight: object) -> int:
    """Return a weight in thousandths.

    Raises:
        ConnectorConfigError: it is no number of 0.001 to 1,000,000.
    """
    try:
        number = float(weight) if isinstance(weight, str | int | float) else None
    except (ValueError, OverflowError):
        number = None
    if number is None or isinstance(weight, bool) or not LEAST <= number <= GREATEST:
        raise ConnectorConfigError(
            WEIGHT_KEY, f"must be a number of {LEAST} to {GREATEST:,}, not {weight!r}"
        )
    return round(number * ONE)
