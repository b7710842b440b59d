"""Keep the state of a group that outlives its incarnations and protocols: sequence numbers, memberships, coordinator."""

from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

from groupsdk.history.explain.timeline.member import Member
from groupsdk.history.explain.timeline.memberships import LastSeen, Memberships
from groupsdk.history.explain.timeline.rows import GenerationRow, GroupRecord, Row


GROUP_DELETED: Final = "group_deleted"
"""The end reason of a membership whose group was deleted."""


class Handover(NamedTuple):
    """The state of a group as it changes from one protocol to another (KIP-848's online migration)."""

    members: Mapping[str, Member]
    """The members of its last generation, by id."""
    generation: int
    row: GenerationRow
    last_seen: Mapping[str, LastSeen]
    """The last signs of life of its members, as far as the log shows them."""


class Incarnations:
    """The state of one group that continues when it is deleted and recreated, or changes its protocol."""

    def __init__(self) -> None:
        self.memberships = Memberships()
        self.incarnation = 0
        self.generations = 0
        self._leader_epoch = -1

    def next_seq(self) -> int:
        """Return the sequence number of the next generation, and count it."""
        self.generations += 1
        return self.generations - 1

    def moved(self, record: GroupRecord) -> bool:
        """Return whether the coordinator changed before `record`: the log's partition has a newer leader epoch."""
        moved = 0 <= self._leader_epoch < record.leader_epoch
        self._leader_epoch = max(self._leader_epoch, record.leader_epoch)
        return moved


class ProtocolPhase(Protocol):
    """A group while it uses one protocol."""

    def take(self, record: GroupRecord, record_type: int, key: Any, value: Any) -> Iterator[Row]:
        """Process the next record, tombstones of members included, and yield the rows it completes."""

    def give_up(self) -> Generator[Row, Any, Handover | None]:
        """End the phase: yield the remaining rows, and return the state for the next protocol (None without members)."""

    def flush(self) -> Iterable[Row]:
        """End the pending generation: its rows were held back until the next one begins."""
