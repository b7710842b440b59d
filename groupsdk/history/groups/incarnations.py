"""Keep what a group has in common over its incarnations and protocols: its numbers, its stays, its coordinator."""

from collections.abc import Generator, Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

from groupsdk.history.groups.member import Member
from groupsdk.history.groups.memberships import LastSeen, Memberships
from groupsdk.history.groups.row_types import GenerationRow, GroupRecord, Row


GROUP_DELETED: Final = "group_deleted"
"""How a stay ends when its group does."""


class Handover(NamedTuple):
    """A group that goes from one protocol to another with its members in it (KIP-848's online migration)."""

    members: Mapping[str, Member]
    """Of its last generation, by their ids."""
    generation: int
    row: GenerationRow
    """What is said of that generation."""
    last_seen: Mapping[str, LastSeen]
    """Of members, as far as the log tells."""


class Incarnations:
    """One group's incarnations: what goes on when it is deleted and made again, or changes its protocol."""

    def __init__(self) -> None:
        self.memberships = Memberships()
        self.incarnation = 0
        self._seq = 0
        self._leader_epoch = -1

    @property
    def generations(self) -> int:
        """How many generations have begun."""
        return self._seq

    def next_seq(self) -> int:
        """Return the place of the next generation."""
        self._seq += 1
        return self._seq - 1

    def moved(self, record: GroupRecord) -> bool:
        """Tell whether the coordinator changed since the generation before: its partition has another leader."""
        moved = 0 <= self._leader_epoch < record.leader_epoch
        self._leader_epoch = max(self._leader_epoch, record.leader_epoch)
        return moved


class ProtocolPhase(Protocol):
    """A group under one protocol."""

    def take(self, record: GroupRecord, record_type: int, key: Any, value: Any) -> Iterator[Row]:
        """Take the next record, of a member also where it is a tombstone; gives what it completes."""

    def give_up(self) -> Generator[Row, Any, Handover | None]:
        """End; gives what is left to tell, and returns what the next protocol begins with: None without members."""

    def flush(self) -> Iterator[Row]:
        """Give what waits for the next generation."""
