"""Keep who has which partition of a group, and tell which went from one member to another."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from groupsdk.history.groups.member import Partitions
from groupsdk.history.groups.row_types import MemberRow


OWNED: Final = ("final", "target")
"""The phases that tell who is to have a partition: one of them for every generation."""
CLASSIC: Final = "classic"
SHARE: Final = "share"


class AssignmentRow(NamedTuple):
    """What one member has in one phase of a generation."""

    of: MemberRow
    assigned: Partitions
    """As `of` has it, with the names of topics in the place of their ids as far as they are known."""


class MoveRow(NamedTuple):
    """A partition that went from one member to another."""

    of: MemberRow
    """Who has it now."""
    topic: str
    partition: int
    from_member: str
    from_client: str
    from_seq: int
    """The last generation in which that one had it."""


def named(assigned: Partitions, protocol: str, names: Mapping[str, str]) -> Partitions:
    """Put names in the place of topic ids; a topic of a classic group has its name already."""
    if protocol == CLASSIC or not names:
        return assigned
    return tuple((names.get(topic, topic), numbers) for topic, numbers in assigned)


class _Holding:
    """What a member had from one generation on, in which it did not change."""

    __slots__ = ("assigned", "client_id", "disputed", "member_id", "seq")

    def __init__(self, row: AssignmentRow) -> None:
        self.member_id = row.of.member.member_id
        self.client_id = row.of.member.client_id
        self.assigned = row.assigned
        self.seq = row.of.seq
        """The last generation in which it had it."""
        self.disputed = False
        """Another member has some of it at the same time."""


class PartitionOwners:
    """Who had each partition of one group last; holds as much as the group has partitions.

    A partition that nobody had for some generations, as between the two rounds of a cooperative rebalance,
    moves from who had it last. The partitions of share groups have no owner.
    """

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[int, _Holding]] = {}
        self._now: dict[str, _Holding] = {}
        self._before: dict[str, _Holding] = {}
        self._seq = -1

    def take(self, row: AssignmentRow, moves: list[MoveRow]) -> None:
        """Take what a member has in the newest generation; adds to `moves` what has moved to it."""
        of = row.of
        if of.phase not in OWNED or of.protocol == SHARE:
            return
        if of.seq != self._seq:
            self._before, self._now, self._seq = self._now, {}, of.seq
        member = of.member
        last = self._before.get(member.member_id)
        if last is not None and not last.disputed and last.assigned == row.assigned:
            # most members keep what they have, and so nobody else has had it
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
