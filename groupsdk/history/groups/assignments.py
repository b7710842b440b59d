"""Derive assignments, moves and assignor replays from the generations and members of a group."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from groupsdk.history.groups.assignor_replay import (
    Candidate,
    GroupReplay,
    PastGeneration,
    ReplayedMember,
    ReplayRow,
)
from groupsdk.history.groups.member import CONSUMER, STREAMS_ASSIGNOR, Partitions
from groupsdk.history.groups.moves import OWNED, AssignmentRow, MoveRow, PartitionOwners, named
from groupsdk.history.groups.row_types import GenerationRow, MemberRow


_COOPERATIVE: Final = "cooperative"


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
        """Begin the next generation; its members follow."""
        self._generation = generation
        self._joined = []

    def take(self, row: MemberRow, moves: list[MoveRow]) -> AssignmentRow:
        """Add a member of the generation; returns its assignment, and appends the partitions that moved to it to `moves`."""
        share = AssignmentRow(row, named(row.member.assigned, row.protocol, self._names))
        if row.phase in OWNED:
            self._owners.take(share, moves)
            generation = self._generation
            assert generation is not None
            if generation.protocol_type == CONSUMER and generation.assignor != STREAMS_ASSIGNOR:
                self._joined.append(self._member(row, share.assigned))
        return share

    def close(self) -> Iterator[ReplayRow]:
        """End the generation, and yield its replays."""
        generation, self._generation = self._generation, None
        if generation is None or not self._joined:
            return
        if self._replay is None:
            self._replay = GroupReplay(self.group_id, self._candidates)
        cooperative = generation.protocol != "classic" or _COOPERATIVE in (
            generation.assignor or ""
        )
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
