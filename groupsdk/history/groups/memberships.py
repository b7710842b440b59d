"""Keep who is in a group since when, and give a row for each stay that ends."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from groupsdk.history.groups.causes import Changes
from groupsdk.history.groups.member import Member, Partitions
from groupsdk.history.groups.row_types import DepartureRow, GenerationRow, MembershipRow


class LastSeen(NamedTuple):
    """What the log tells of a member up to its end, beside what it was to get."""

    at_ms: int = -1
    """When it last answered; -1 where the log does not tell."""
    behind: bool = False
    """It had not come to the epoch before yet."""
    held: Partitions | None = None
    """What it had, and so could commit; None: what it was assigned."""
    gone_ms: int = -1
    """When it went, where that is told apart from the generation without it; -1 where not."""


_UNSEEN: Final = LastSeen()


class Memberships:
    """The stays of one group's members; holds as much as the group has members."""

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
        """Take a generation's members over; gives the rows of those that are gone.

        Args:
            members: of the generation, by their ids.
            changes: since the one before.
            generation: what is said of it.
            last_seen: of members that are gone, where the log tells.
        """
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
        """Find those whose client was there twice, and who are the older ones of the two."""
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
        """End every stay, as the group is deleted."""
        for member_id in tuple(self._last):
            _, last = self._last[member_id]
            yield self._ended(member_id, last._replace(ts_ms=ts_ms), reason)

    def open(self) -> Iterator[MembershipRow]:
        """Give the stays that go on at the end of the log."""
        for member_id in self._last:
            yield self._row(member_id, None, None)

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
