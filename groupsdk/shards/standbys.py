"""Choose who stands by for each shard: never its owner, in another zone if there is one, evenly, and mostly as before."""

from collections.abc import Collection, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace

from groupsdk.shards.work import NOBODY, Work


def place_standbys(
    work: Work,
    targets: Sequence[int],
    current: Mapping[int, Sequence[int]],
    claimed: Mapping[int, Collection[int]],
    count: int,
) -> dict[int, list[int]]:
    """Return the members that stand by, by shard; shards without any are left out.

    Args:
        targets: by shard: who should own it, or `NOBODY`.
        current: shard to who stands by for it, the best first.
        claimed: shard to the members that hold or are releasing it.
        count: how many are wanted for each shard.
    """
    wanted = sum(
        min(count, max(len(work.able[work.kinds[shard]]) - 1, 0))
        for shard, target in enumerate(targets)
        if target != NOBODY
    )
    if not wanted:
        return {}
    chooser = _Chooser(work, -(-wanted // len(work.members)))
    chosen: dict[int, list[int]] = {}
    for shard, members in current.items():
        if targets[shard] != NOBODY:
            barred = {targets[shard], *claimed.get(shard, ())}
            chosen[shard] = chooser.kept(shard, targets[shard], members, barred, count)
    for shard, target in enumerate(targets):
        if target == NOBODY:
            continue
        mine = chosen.setdefault(shard, [])
        barred = {target, *claimed.get(shard, ()), *mine}
        while len(mine) < count:
            member = chooser.pick(shard, [target, *mine], barred)
            if member == NOBODY:
                break
            mine.append(member)
            barred.add(member)
    return {shard: members for shard, members in chosen.items() if members}


_STEPS = 8

_Entry = tuple[int, int, int, int]
"""How many shards of one owner a member stands by for, how many in all in steps, its turn, and the member."""


class _Chooser:
    """Gives the next standby to the member that has fewest of the same owner, and fewest in all."""

    def __init__(self, work: Work, quota: int) -> None:
        self._work = work
        self._quota = quota
        self._step = max(1, quota // _STEPS)
        self._zones = [state.zone for state in work.states]
        self._loads = [0] * len(work.members)
        # by owner: how many of its shards each member stands by for, so that they are spread when it dies
        self._pairs: dict[int, list[int]] = {}
        # by those that are able, and owner: by zone: a heap, in part outdated
        self._heaps: dict[tuple[int, int], dict[str | None, list[_Entry]]] = {}

    def kept(
        self, shard: int, owner: int, members: Sequence[int], barred: Collection[int], count: int
    ) -> list[int]:
        """Return those of the present standbys that stay."""
        able = self._work.able[self._work.kinds[shard]]
        elsewhere = [zone for zone in self._by_zone(shard, owner) if zone != self._zones[owner]]
        kept: list[int] = []
        for member in members:
            is_near = bool(elsewhere) and self._zones[member] == self._zones[owner]
            if (
                len(kept) < count
                and member not in barred
                and member in able
                and not is_near
                and self._loads[member] < self._quota
            ):
                self._count(member, owner)
                kept.append(member)
        return kept

    def pick(self, shard: int, near: Sequence[int], barred: Collection[int]) -> int:
        """Return the member to stand by for a shard: not barred, and far from its owner and other standbys.

        Args:
            near: its owner, and those that stand by for it.
            barred: who may not stand by for it.
        """
        zones = [self._zones[member] for member in near if self._zones[member] is not None]
        for avoided in (zones, zones[:1], []):
            found = [
                top
                for zone, heap in self._by_zone(shard, near[0]).items()
                if zone not in avoided and (top := self._top(heap, near[0], barred)) is not None
            ]
            if found:
                member = min(found)[-1]
                self._count(member, near[0])
                return member
        return NOBODY

    def _count(self, member: int, owner: int) -> None:
        self._loads[member] += 1
        self._pairs_of(owner)[member] += 1

    def _pairs_of(self, owner: int) -> list[int]:
        if owner not in self._pairs:
            self._pairs[owner] = [0] * len(self._loads)
        return self._pairs[owner]

    def _entry(self, member: int, owner: int) -> _Entry:
        # in steps, so that not every entry is outdated all the time; in turns, so that ties do not add up
        turn = (member - owner) % len(self._loads)
        return self._pairs_of(owner)[member], self._loads[member] // self._step, turn, member

    def _by_zone(self, shard: int, owner: int) -> dict[str | None, list[_Entry]]:
        able = self._work.able[self._work.kinds[shard]]
        if (id(able), owner) not in self._heaps:
            heaps: dict[str | None, list[_Entry]] = {}
            for member in able:
                heaps.setdefault(self._zones[member], []).append(self._entry(member, owner))
            for heap in heaps.values():
                heapify(heap)
            self._heaps[id(able), owner] = heaps
        return self._heaps[id(able), owner]

    def _top(self, heap: list[_Entry], owner: int, barred: Collection[int]) -> _Entry | None:
        """Return the first entry of a heap that is not barred; brings outdated entries up to date."""
        aside = []
        found = None
        while heap:
            member = heap[0][-1]
            if heap[0] != (entry := self._entry(member, owner)):
                heapreplace(heap, entry)
            elif member in barred:
                aside.append(heappop(heap))
            else:
                found = heap[0]
                break
        for entry in aside:
            heappush(heap, entry)
        return found
