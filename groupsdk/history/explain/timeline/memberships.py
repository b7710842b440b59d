"""Keep the state of a group that outlives its generations, incarnations and protocols, first of all its memberships."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from groupsdk.history.explain.changes import Changes
from groupsdk.history.explain.timeline.member import Member, Partitions
from groupsdk.history.explain.timeline.rows import (
    DepartureRow,
    GenerationRow,
    GroupRecord,
    MembershipRow,
)


class LastSeen(NamedTuple):
    """The last signs of life of a member in the log, and what it owned."""

    at_ms: int = -1
    """When it last answered the coordinator; -1: unknown."""
    behind: bool = False
    """It had not reached the previous epoch."""
    held: Partitions | None = None
    """The partitions it owned and could commit; None: those it was assigned."""
    gone_ms: int = -1
    """When it left, if the log shows that apart from the next generation; -1 otherwise."""


_UNSEEN: Final = LastSeen()


class Memberships:
    """The memberships of one group that have not ended; memory is bounded by the members."""

    def __init__(self) -> None:
        self._first: dict[str, GenerationRow] = {}
        self._last: dict[str, tuple[Member, GenerationRow]] = {}

    def update(
        self,
        members: Mapping[str, Member],
        changes: Changes,
        generation: GenerationRow,
        last_seen: Mapping[str, LastSeen] | None = None,
    ) -> Iterator[MembershipRow | DepartureRow]:
        """Replace the members by those of a new generation, and yield the rows of those that are gone; `last_seen` has these."""
        superseded = self._superseded(changes.departed)
        for member_id in changes.gone:
            member, _ = self._last[member_id]
            cause = changes.replaced.get(member_id)
            seen = (last_seen or {}).get(member_id, _UNSEEN)
            end_ms = generation.ts_ms if seen.gone_ms < 0 else seen.gone_ms
            end = generation._replace(ts_ms=end_ms)
            yield self._ended(member_id, end, None if cause is None else str(cause))
            if cause is None:
                yield DepartureRow(
                    generation.group_id,
                    generation.protocol,
                    generation.seq,
                    generation.generation,
                    end_ms,
                    member if seen.held is None else replace(member, assigned=seen.held),
                    member_id in superseded,
                    seen.at_ms,
                    seen.behind,
                )
        for member_id, member in members.items():
            self._first.setdefault(member_id, generation)
            self._last[member_id] = member, generation

    def _superseded(self, departed: Sequence[str]) -> set[str]:
        """Return the departed members whose client had two members, if they are the older one."""
        if not departed:
            return set()
        namesakes: dict[str, list[str]] = {}
        for member_id, (member, _) in self._last.items():
            namesakes.setdefault(member.client_id, []).append(member_id)
        found = set()
        for member_id in departed:
            pair = namesakes[self._last[member_id][0].client_id]
            since = {each: self._first[each].seq for each in pair}
            if len(pair) == 2 and since[member_id] < max(since.values()):
                found.add(member_id)
        return found

    def end(self, reason: str, ts_ms: int) -> Iterator[MembershipRow]:
        for member_id in tuple(self._last):
            _, last = self._last[member_id]
            yield self._ended(member_id, last._replace(ts_ms=ts_ms), reason)

    def open(self) -> list[MembershipRow]:
        """Return the memberships that have not ended at the end of the log."""
        return [self._row(member_id, None, None) for member_id in self._last]

    def _ended(self, member_id: str, end: GenerationRow, reason: str | None) -> MembershipRow:
        row = self._row(member_id, end, reason)
        del self._first[member_id], self._last[member_id]
        return row

    def _row(self, member_id: str, end: GenerationRow | None, reason: str | None) -> MembershipRow:
        first = self._first[member_id]
        member, last = self._last[member_id]
        return MembershipRow(
            first.group_id,
            first.protocol,
            member,
            first.seq,
            last.seq,
            first.generation,
            last.generation,
            first.ts_ms,
            -1 if end is None else end.ts_ms,
            reason,
            -1 if end is None else end.seq,
            first.partition,
            first.offset,
        )


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
