"""Name what Connect shares out: connectors and their tasks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

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
