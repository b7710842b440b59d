"""The cells of one block: how many of each row each member has, and what one more or one less would cost."""

from collections.abc import Sequence
from dataclasses import dataclass

from assignors.sticky.bits import bitset, transpose
from assignors.sticky.rows import Counts


@dataclass(frozen=True, slots=True)
class Prices:
    """What a partition costs.

    Attributes:
        move: where its member has more of its row than it owns.
        off_rack: where all its replicas are in other racks than its member.
    """

    move: int = 1
    off_rack: int = 0


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps of one price between rows and members, as sets in both directions.

    Attributes:
        price: of one partition that takes such a step.
        by_row: the members at the other end.
        by_member: the rows at the other end.
    """

    price: int
    by_row: list[int]
    by_member: list[int]

    def toggle(self, row: int, member: int) -> None:
        """Open a step that is closed, or close one that is open."""
        self.by_row[row] ^= 1 << member
        self.by_member[member] ^= 1 << row


class Transport:
    """Rows with partitions, members with room for `level` each, and what lies where.

    One more partition of a row costs `move` where the member then has more of the row than it owned, and
    `off_rack` where it is far from its replicas; one less brings the same back. The more of a row a member
    has, the dearer the next one is, so that what is cheapest can be found by single steps.

    Members and rows have numbers of their own in here, from 0. The last row is made up: a member without it
    has one real partition more. Every member owns one of it, and can have no second; so a member with
    `level - 1` partitions and one with `level` are both full, and the difference needs no rule of its own.

    Attributes:
        ups: from a row to its readers: a member gets one more.
        downs: from a member to rows that it has: it gives one away; the prices are what that brings back.
        supply: by row: partitions that nobody has yet.
        excess: by member: what it has above its room; negative where it has room left.
    """

    __slots__ = ("_far", "_owned", "_shares", "downs", "excess", "supply", "ups")

    def __init__(
        self,
        readers: Sequence[int],
        far: Sequence[int],
        sizes: Sequence[int],
        owned: Sequence[Counts],
        level: int,
        longer: int,
        prices: Prices,
    ) -> None:
        """Start with everything where its owner is, but for what is off rack there.

        Then no step down brings anything back, which makes it a start for a search for cheapest paths.
        """
        members, dummy = len(owned), len(readers)
        self._owned = [{**own, dummy: 1} for own in owned]
        self._far = [*far, 0]
        near = [each & ~away for each, away in zip(readers, far, strict=True)]
        with_racks = any(far)
        far_of = transpose(far, members) if with_racks else [0] * members
        self._shares = [
            {row: count for row, count in own.items() if not away >> row & 1} if away else dict(own)
            for own, away in zip(owned, far_of, strict=True)
        ]
        self.supply = [*sizes, 0]
        for share in self._shares:
            for row, count in share.items():
                self.supply[row] -= count
        loads = [sum(share.values()) for share in self._shares]
        # Whoever has most is first to have one more.
        order = sorted(range(members), key=lambda member: (-loads[member], member))
        for member in order[longer:]:
            self._shares[member][dummy] = 1
            loads[member] += 1
        self.excess = [load - level for load in loads]

        rows = dummy + 1
        held_of = list(map(bitset, self._shares))
        below_of = [0] * members
        for member in order[:longer]:
            below_of[member] = 1 << dummy
        self.ups = [
            Steps(prices.move, [*near, 0], transpose([*near, 0], members)),
            Steps(0, transpose(below_of, rows), below_of),
        ]
        self.downs = [
            Steps(prices.move, [0] * rows, [0] * members),
            Steps(0, transpose(held_of, rows), held_of),
        ]
        if with_racks:
            lost_of = [
                bitset(row for row in own if away >> row & 1)
                for own, away in zip(owned, far_of, strict=True)
            ]
            self.ups += [
                Steps(prices.move + prices.off_rack, list(self._far), far_of),
                Steps(prices.off_rack, transpose(lost_of, rows), lost_of),
            ]
            self.downs += [
                Steps(prices.move + prices.off_rack, [0] * rows, [0] * members),
                Steps(prices.off_rack, [0] * rows, [0] * members),
            ]

    def room(self, row: int, member: int) -> int | None:
        """Return how many the member can get at the present price; None for any number."""
        missing = self._owned[member].get(row, 0) - self._shares[member].get(row, 0)
        return missing if missing > 0 else None

    def limit(self, row: int, taker: int, giver: int | None) -> int | None:
        """Return how many one member can get, and another give, at the present price; None for any number.

        Args:
            row: of which.
            taker: gets them.
            giver: had them; None where nobody had.
        """
        room = self.room(row, taker)
        if giver is None:
            return room
        share = self._shares[giver].get(row, 0)
        own = self._owned[giver].get(row, 0)
        stock = share - own if share > own else share
        return stock if room is None else min(room, stock)

    def change(self, row: int, member: int, by: int) -> None:
        """Let a member have more or less of a row; within what `room` and `limit` say."""
        shares = self._shares[member]
        own = self._owned[member].get(row, 0)
        before = shares.get(row, 0)
        after = before + by
        if after:
            shares[row] = after
        else:
            del shares[row]
        side = 2 * (self._far[row] >> member & 1)
        if (before < own) != (after < own):
            self.ups[side + 1].toggle(row, member)
        if (before > own) != (after > own):
            self.downs[side].toggle(row, member)
        if (0 < before <= own) != (0 < after <= own):
            self.downs[side + 1].toggle(row, member)

    def result(self) -> list[Counts]:
        """Return by member how many it has of each row."""
        dummy = len(self.supply) - 1
        found = list(map(dict, self._shares))
        for share in found:
            share.pop(dummy, None)
        return found
