"""The assignments of a group: who owned each partition, which ones moved between members, and the replays of assignors."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from groupsdk.history.explain.assignor_replay import (
    Candidate,
    GroupReplay,
    PastGeneration,
    ReplayedMember,
    ReplayRow,
)
from groupsdk.history.explain.timeline.member import (
    CLASSIC,
    CONSUMER,
    STREAMS_ASSIGNOR,
    Partitions,
)
from groupsdk.history.explain.timeline.rows import GenerationRow, MemberRow


OWNED: Final = ("final", "target")
"""The phases that name the owner of a partition; each generation has one of them."""
SHARE: Final = "share"
_COOPERATIVE: Final = "cooperative"


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


class GroupAssignments:
    """The assignments of one group; holds one generation, and the last owner of each partition."""

    def __init__(
        self, group_id: str, names: Mapping[str, str], candidates: Sequence[Candidate]
    ) -> None:
        self.group_id = group_id
        self._names = names
        self._candidates = candidates
        self._owners = PartitionOwners()
        self._replay: GroupReplay | None = None
        self._generation: GenerationRow | None = None
        self._joined: list[ReplayedMember] = []
        self._alike: dict[tuple[str, ...], tuple[str, ...]] = {}

    def begin(self, generation: GenerationRow) -> None:
        self._generation = generation
        self._joined = []

    def take(self, row: MemberRow, moves: list[MoveRow]) -> AssignmentRow:
        """Add a member of the generation, `row`. Return its assignment, and append the partitions that moved to it to `moves`."""
        share = AssignmentRow(row, named(row.member.assigned, row.protocol, self._names))
        if row.phase in OWNED:
            self._owners.take(share, moves)
            generation = self._generation
            assert generation is not None
            of_consumers = generation.protocol_type == CONSUMER or (
                generation.protocol == CLASSIC and row.member.payload is None
            )
            if of_consumers and generation.assignor != STREAMS_ASSIGNOR:
                self._joined.append(self._member(row, share.assigned))
        return share

    def close(self) -> Iterator[ReplayRow]:
        """End the generation, and yield its replays."""
        generation, self._generation = self._generation, None
        if generation is None or not self._joined:
            return
        if self._replay is None:
            self._replay = GroupReplay(self.group_id, self._candidates)
        cooperative = generation.protocol != CLASSIC or _COOPERATIVE in (generation.assignor or "")
        self._joined.sort(key=lambda member: member.member_id)
        yield from self._replay.take(
            PastGeneration(
                *(self.group_id, generation.seq, generation.generation),
                cooperative,
                self._joined,
            )
        )

    def _member(self, row: MemberRow, assigned: Partitions) -> ReplayedMember:
        member = row.member
        # assignors process members with the same topics object once
        topics = self._alike.setdefault(member.topics, member.topics)
        return ReplayedMember(
            member.member_id, member.instance_id, topics, member.rack_id, assigned
        )
