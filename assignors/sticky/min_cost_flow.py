"""Find the cheapest of all balanced assignments of a block.

A cheapest flow by the primal-dual method, in the cells of a block: how many of each row each member has, and
what one more or one less would cost. Every member and row has a potential. A step up leads from a row
to a member, which gets one more; a step down from a member to a row, of which it gives one away. The slack
of a step is its cost, plus the potential where it starts, less the one where it ends. Slack is never
negative, and paths of steps without slack are the cheapest there are. So partitions move along such paths
only; where no path is left the potentials of all that cannot be reached rise until one more step is
without slack.

Nodes with equal potential are kept as one set, so that the steps without slack from a node are found with
an AND or two, whatever the number of its neighbours.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from assignors.sticky.bitsets import bitset, lowest, positions, transpose
from assignors.sticky.partition_rows import Counts


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices of a partition where its member has more of its row than it owns (`move`), and where all its replicas are in other
    racks (`off_rack`).
    """

    move: int = 1
    off_rack: int = 0


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps of one price between rows and members, as sets in both directions."""

    price: int
    by_row: list[int]
    by_member: list[int]
    """The rows that each member has a step to or from."""

    def toggle(self, row: int, member: int) -> None:
        self.by_row[row] ^= 1 << member
        self.by_member[member] ^= 1 << row


class Transport:
    """Rows with partitions, members with room for `level` each, and the present distribution.

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
        """Start with everything where its owner is, except for what is off rack there.

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
        """Return how many more partitions of a row a member can get at the present price; None: any number."""
        missing = self._owned[member].get(row, 0) - self._shares[member].get(row, 0)
        return missing if missing > 0 else None

    def limit(self, row: int, receiver: int, donor: int | None) -> int | None:
        """Return how many one member can get, and another, if any, give, at the present price; None for any number."""
        room = self.room(row, receiver)
        if donor is None:
            return room
        share = self._shares[donor].get(row, 0)
        own = self._owned[donor].get(row, 0)
        stock = share - own if share > own else share
        return stock if room is None else min(room, stock)

    def change(self, row: int, member: int, by: int) -> None:
        """Give a member more or less of a row, within what `room` and `limit` allow."""
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
        dummy = len(self.supply) - 1
        found = list(map(dict, self._shares))
        for share in found:
            share.pop(dummy, None)
        return found


Groups = dict[int, int]
"""Potential to the set of members, or of rows, that have it."""


class MinCostFlow:
    __slots__ = (
        "_alive_members",
        "_alive_rows",
        "_before_member",
        "_before_row",
        "_member_potential",
        "_members",
        "_over",
        "_row_potential",
        "_rows",
        "_stocked",
        "_to_members",
        "_to_rows",
        "_transport",
    )

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        members, rows = len(transport.excess), len(transport.supply)
        self._members: Groups = {0: (1 << members) - 1}
        self._rows: Groups = {0: (1 << rows) - 1}
        self._member_potential = [0] * members
        self._row_potential = [0] * rows
        self._over = self._stocked = 0
        # What this search has reached, but for what has turned out to lead nowhere.
        self._alive_members = self._alive_rows = 0
        # For each node what was reached before it: paths are followed back through those only, and so
        # cannot run in a circle.
        self._before_member = [0] * members
        self._before_row = [0] * rows
        # Where there are steps to from what was reached, by the potential that makes them free of slack.
        self._to_members: Groups = {}
        self._to_rows: Groups = {}

    def run(self) -> None:
        """Place everything. Raises RuntimeError if there is no room for something, so that the block is not one."""
        transport = self._transport
        while True:
            self._over = bitset(m for m, excess in enumerate(transport.excess) if excess > 0)
            self._stocked = bitset(r for r, supply in enumerate(transport.supply) if supply > 0)
            if not self._over and not self._stocked:
                return
            under = bitset(m for m, excess in enumerate(transport.excess) if excess < 0)
            for member in positions(self._pour(self._search(under))):
                self._fill(member)

    # ---- search, from what has no place ------------------------------------------------------------

    def _search(self, under: int) -> int:
        """Reach members with room, raising potentials as far as that takes; returns those members."""
        self._alive_members = self._alive_rows = 0
        self._to_members, self._to_rows = {}, {}
        members = {p: found for p, group in self._members.items() if (found := group & self._over)}
        rows = {p: found for p, group in self._rows.items() if (found := group & self._stocked)}
        while True:
            while members or rows:
                self._reach(members, rows)
                members, rows = self._free_steps()
            sinks = self._alive_members & under
            if sinks:
                return sinks
            self._raise()
            members, rows = self._free_steps()

    def _reach(self, members: Groups, rows: Groups) -> None:
        """Take in nodes that were found, by potential, with all steps from them."""
        transport = self._transport
        members_before, rows_before = self._alive_members, self._alive_rows
        for potential, group in members.items():
            self._alive_members |= group
            nodes = positions(group)
            for member in nodes:
                self._before_member[member] = rows_before
                self._member_potential[member] = potential
            for steps in transport.downs:
                ends = 0
                for member in nodes:
                    ends |= steps.by_member[member]
                needed = potential - steps.price
                self._to_rows[needed] = self._to_rows.get(needed, 0) | ends
        for potential, group in rows.items():
            self._alive_rows |= group
            nodes = positions(group)
            for row in nodes:
                self._before_row[row] = members_before
                self._row_potential[row] = potential
            for steps in transport.ups:
                ends = 0
                for row in nodes:
                    ends |= steps.by_row[row]
                needed = potential + steps.price
                self._to_members[needed] = self._to_members.get(needed, 0) | ends

    def _free_steps(self) -> tuple[Groups, Groups]:
        """Find what is not yet reached but can be without slack."""
        members, rows = self._members, self._rows
        out_members, out_rows = ~self._alive_members, ~self._alive_rows
        return (
            {
                potential: found
                for potential, ends in self._to_members.items()
                if potential in members and (found := ends & members[potential] & out_members)
            },
            {
                potential: found
                for potential, ends in self._to_rows.items()
                if potential in rows and (found := ends & rows[potential] & out_rows)
            },
        )

    def _raise(self) -> None:
        """Raise the potentials of all that is not reached by the least slack of a step to any of it."""
        by = min(
            _slack(self._to_members, _without(self._members, self._alive_members)),
            _slack(self._to_rows, _without(self._rows, self._alive_rows)),
        )
        if by == _NO_STEP:
            raise RuntimeError("no room for all partitions of a block")
        self._members = _raised(self._members, self._alive_members, by)
        self._rows = _raised(self._rows, self._alive_rows, by)

    # ---- moving, back from members with room -------------------------------------------------------

    def _pour(self, sinks: int) -> int:
        """Place what nobody has with members that need no path, evenly; returns members that stay short.

        Following paths would come to the same cost, but give a member all of one row.
        """
        transport = self._transport
        for row in positions(self._stocked & self._alive_rows):
            potential = self._row_potential[row]
            for steps in transport.ups:
                receivers = (
                    steps.by_row[row] & self._members.get(potential + steps.price, 0) & sinks
                )
                while receivers and transport.supply[row]:
                    each = max(1, transport.supply[row] // receivers.bit_count())
                    for member in positions(receivers):
                        room = transport.room(row, member)
                        amount = min(each, transport.supply[row], -transport.excess[member])
                        if room is not None:
                            amount = min(amount, room)
                        transport.supply[row] -= amount
                        transport.excess[member] += amount
                        if amount:
                            transport.change(row, member, amount)
                        if not transport.excess[member]:
                            sinks ^= 1 << member
                            receivers ^= 1 << member
                        elif amount == room:
                            receivers ^= 1 << member
                        if not transport.supply[row]:
                            self._stocked ^= 1 << row
                            break
        return sinks

    def _fill(self, sink: int) -> None:
        """Follow paths back from a member until it is full, or no path is left."""
        excess = self._transport.excess
        path, via = [sink], list[int]()
        while excess[sink] < 0:
            member = path[-1]
            row = self._row_before(member)
            if row < 0:
                if not via:
                    return
                self._alive_members ^= 1 << member
                path.pop()
                via.pop()
                continue
            if self._stocked >> row & 1:
                via.append(row)
                self._move(path, via)
                continue
            donor = self._member_before(row)
            if donor < 0:
                self._alive_rows ^= 1 << row
                continue
            path.append(donor)
            via.append(row)
            if self._over >> donor & 1:
                self._move(path, via)

    def _row_before(self, member: int) -> int:
        """Return a row with a free step to the member, one with partitions to place first; -1 for none."""
        potential, rows, found = self._member_potential[member], self._rows, 0
        for steps in self._transport.ups:
            found |= steps.by_member[member] & rows.get(potential - steps.price, 0)
        found &= self._before_member[member] & self._alive_rows
        return lowest(found & self._stocked or found) if found else -1

    def _member_before(self, row: int) -> int:
        """Return a member with a free step to the row, one that has too much first; -1 for none."""
        potential, members, found = self._row_potential[row], self._members, 0
        for steps in self._transport.downs:
            found |= steps.by_row[row] & members.get(potential + steps.price, 0)
        found &= self._before_row[row] & self._alive_members
        return lowest(found & self._over or found) if found else -1

    def _move(self, path: list[int], via: list[int]) -> None:
        """Move along a path as much as goes, and cut it where nothing more does.

        The path has members, from the one with room; row `via[i]` leads from `path[i + 1]` to `path[i]`.
        """
        transport = self._transport
        excess, supply = transport.excess, transport.supply
        from_row = len(via) == len(path)
        amount = min(-excess[path[0]], supply[via[-1]] if from_row else excess[path[-1]])
        limits = list(map(transport.limit, via, path, [*path[1:], None]))
        amount = min([amount, *(limit for limit in limits if limit is not None)])
        for step, row in enumerate(via):
            transport.change(row, path[step], amount)
            if step + 1 < len(path):
                transport.change(row, path[step + 1], -amount)
        excess[path[0]] += amount
        if from_row:
            supply[via[-1]] -= amount
            if not supply[via[-1]]:
                self._stocked ^= 1 << via[-1]
            via.pop()
        else:
            excess[path[-1]] -= amount
            if not excess[path[-1]]:
                self._over ^= 1 << path[-1]
                del path[-1], via[-1]
        for step, limit in enumerate(limits[: len(path) - 1]):
            if limit == amount:
                del path[step + 1 :], via[step:]
                return


_NO_STEP = 1 << 62


def _without(groups: Groups, reached: int) -> Groups:
    return {p: rest for p, group in groups.items() if (rest := group & ~reached)}


def _slack(steps: Groups, groups: Groups) -> int:
    """Return the least slack of steps to nodes that are not reached."""
    # Mostly it is 1, which is found without comparing every potential with every other.
    for needed, ends in steps.items():
        if needed - 1 in groups and ends & groups[needed - 1]:
            return 1
    least = _NO_STEP
    for needed, ends in steps.items():
        for potential, group in groups.items():
            if potential < needed < potential + least and ends & group:
                least = needed - potential
    return least


def _raised(groups: Groups, reached: int, by: int) -> Groups:
    raised: Groups = {}
    for potential, group in groups.items():
        inside = group & reached
        if inside:
            raised[potential] = raised.get(potential, 0) | inside
        if group != inside:
            raised[potential + by] = raised.get(potential + by, 0) | group ^ inside
    return raised
