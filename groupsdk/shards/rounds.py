"""Decide when the members of a group join again, so that shards that change hands stand still as briefly as possible."""

from collections.abc import Mapping
from dataclasses import dataclass

from groupsdk.wire.shards.protocol import MemberState


AFTER_TAKING_MS = 10
"""When members join again after shards were taken, which stand still until all have joined. Not at once: until another has
joined, the coordinator gives the slowest member its assignment."""
AFTER_GIVING_MS = 50
"""The same after shards were given: nothing stands still."""
LATEST_MS = 1_000
ROUNDS_IN_A_ROW = 40
"""After so many rounds without any news they come ever more slowly; the waves of a drain are over before."""
_GREATEST_SHIFT = 16


@dataclass(frozen=True, slots=True)
class Rounds:
    """What a leader remembers of the rounds in which it had all members come back."""

    in_a_row: int = 0
    """How many there were since shards were at rest, or since members or the list changed."""
    missed: int = 0
    """In how many of the last ones in a row a member had not fetched its assignment when others joined again."""

    def next(self, *, at_rest: bool, news: bool, missed: bool) -> "Rounds":
        """Return the same after one more generation.

        Args:
            at_rest: whether no shard waits for its next owner.
            news: whether members or the list have changed since the last generation.
            missed: whether a member did not fetch its last assignment.
        """
        return Rounds(
            0 if at_rest or news else self.in_a_row + 1,
            self.missed + 1 if missed else 0,
        )

    def again_ms(self, *, gives: bool) -> int:
        """Return after how many milliseconds members join again, after a generation that gave shards, or took some.

        The time doubles with each generation that a member has missed, and with each beyond `ROUNDS_IN_A_ROW`: a
        group never rebalances in a loop.
        """
        first_ms = AFTER_GIVING_MS if gives else AFTER_TAKING_MS
        doublings = self.missed + max(self.in_a_row - ROUNDS_IN_A_ROW, 0)
        return min(first_ms << min(doublings, _GREATEST_SHIFT), LATEST_MS)


def was_missed(
    members: Mapping[str, MemberState], before: Mapping[str, object], generation: int
) -> bool:
    """Return whether a member did not fetch its assignment of the last generation."""
    return any(
        member in before and state.progress.generation < generation - 1
        for member, state in members.items()
    )
