"""Track the owner of each partition of a group, and find the partitions that moved between members."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from groupsdk.history.groups.member import Partitions
from groupsdk.history.groups.row_types import MemberRow


OWNED: Final = ("final", "target")
"""The phases that name the owner of a partition; each generation has one of them."""
CLASSIC: Final = "classic"
SHARE: Final = "share"


class AssignmentRow(NamedTuple):
    """The assignment of one member in one phase of a generation."""

    of: MemberRow
    assigned: Partitions
    """The assignment of `of`, with topic ids replaced by names where they are known."""


class MoveRow(NamedTuple):
    """A partition that moved from one member to another."""

    of: MemberRow
    """Its new owner."""
    topic: str
    partition: int
    from_member: str
    from_client: str
    from_seq: int
    """The last generation in which the previous owner had it."""


def named(assigned: Partitions, protocol: str, names: Mapping[str, str]) -> Partitions:
    """Replace topic ids by names; records of classic groups have names already."""
    if protocol == CLASSIC or not names:
        return assigned
    return tuple((names.get(topic, topic), numbers) for topic, numbers in assigned)


class _Holding:
    """A member's assignment over generations in which it did not change."""

    __slots__ = ("assigned", "client_id", "disputed", "member_id", "seq")

    def __init__(self, row: AssignmentRow) -> None:
        self.member_id = row.of.member.member_id
        self.client_id = row.of.member.client_id
        self.assigned = row.assigned
        self.seq = row.of.seq
        """The last generation with this assignment."""
        self.disputed = False
        """Another member has part of it at the same time."""


class PartitionOwners:
    """The last owner of each partition of one group; memory is bounded by the partitions.

    A partition without an owner for some generations, as between the two rounds of a cooperative rebalance,
    moves from its last owner. The partitions of share groups have no owner.
    """

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[int, _Holding]] = {}
        self._now: dict[str, _Holding] = {}
        self._before: dict[str, _Holding] = {}
        self._seq = -1

    def take(self, row: AssignmentRow, moves: list[MoveRow]) -> None:
        """Set a member's assignment in the newest generation, and append the partitions that moved to it to `moves`."""
        of = row.of
        if of.phase not in OWNED or of.protocol == SHARE:
            return
        if of.seq != self._seq:
            self._before, self._now, self._seq = self._now, {}, of.seq
        member = of.member
        last = self._before.get(member.member_id)
        if last is not None and not last.disputed and last.assigned == row.assigned:
            # most members keep their assignment, so nothing of it has moved
            last.seq = of.seq
            last.client_id = member.client_id
            self._now[member.member_id] = last
            return
        mine = self._now[member.member_id] = _Holding(row)
        for topic, numbers in row.assigned:
            owners = self._by_topic.setdefault(topic, {})
            for number in numbers:
                before = owners.get(number)
                owners[number] = mine
                if before is None or before.member_id == mine.member_id:
                    continue
                if before.seq == of.seq:
                    before.disputed = mine.disputed = True
                moves.append(
                    MoveRow(of, topic, number, before.member_id, before.client_id, before.seq)
                )
