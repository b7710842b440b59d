"""Allocate connectors or tasks to workers, one round after the other.

Kafka: the bookkeeping of IncrementalCooperativeAssignor (KIP-415).
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from itertools import cycle
from typing import Generic, TypeVar

from groupsdk.connect.group.work import tasks_sorted
from groupsdk.lazy_imports import override
from groupsdk.utf16 import utf16_key
from groupsdk.wire.connect_protocol import ConnectorTaskId


ItemT = TypeVar("ItemT", str, ConnectorTaskId)
ItemsByMember = dict[str, list[ItemT]]
"""Items by member."""


class Allocation(Generic[ItemT]):
    """The allocation of connectors, or of tasks, balanced by their number as in Kafka's class.

    A round is `begin`, `compare`, perhaps `assign_lost`, `find_surplus` and `revoke_surplus`, then `assign_new` and
    `finish`. `in_order` sorts items: lost ones are assigned in this order.
    """

    def __init__(self, in_order: Callable[[Iterable[ItemT]], list[ItemT]]) -> None:
        self.previous: set[ItemT] = set()
        """The items that the last round assigned or held back, whichever member has them."""
        self.revocation_failed = False
        self.configured: Sequence[ItemT] = ()
        self.active: set[ItemT] = set()
        self.lost: list[ItemT] = []
        self.all_assigned: ItemsByMember[ItemT] = {}
        """All items of each member after the round."""
        self.newly_assigned: ItemsByMember[ItemT] = {}
        """Those of `all_assigned` that the member did not report."""
        self.revoked: ItemsByMember[ItemT] = {}
        self._in_order: Callable[[Iterable[ItemT]], list[ItemT]] = in_order
        self._previously_revoked: set[ItemT] = set()
        self._reported: dict[str, Sequence[ItemT]] = {}
        self._created: list[ItemT] = []
        self._surplus: ItemsByMember[ItemT] = {}

    def begin(
        self, configured: Sequence[ItemT], reported: dict[str, Sequence[ItemT]], known: bool
    ) -> None:
        """Begin a round with the members' reports, without duplicates.

        `known`: the last round's assignment was taken up by its leader; if not, it is forgotten.
        """
        self.configured = configured
        self._reported = reported
        self.active = set().union(*reported.values())
        if not known:
            self.previous = set()
        self.revocation_failed = not self._previously_revoked.isdisjoint(self.active)
        self._previously_revoked = set()

    def start_from_reports(self) -> None:
        self.previous = set(self.active)

    def compare(self) -> None:
        """Find the items that are deleted, owned twice, lost or new, and revoke the first two kinds."""
        previous, active = self.previous, self.active
        gone: set[ItemT] = set()
        if not previous and not active:
            self.lost, self._created = [], list(self.configured)
        else:
            configured = set(self.configured)
            deleted = previous - configured
            gone = deleted | self._duplicated()
            self.lost = self._in_order(previous - active - deleted)
            created = configured - previous - active
            self._created = [each for each in self.configured if each in created] if created else []
        self.revoked = {}
        if not gone.isdisjoint(active):
            for member, items in self._reported.items():
                taken = [each for each in items if each in gone]
                if taken:
                    self.revoked[member] = taken
        self.all_assigned = {
            member: [each for each in items if each not in gone]
            if member in self.revoked
            else list(items)
            for member, items in self._reported.items()
        }
        self.newly_assigned = {member: [] for member in self._reported}
        self._surplus = {}

    def _duplicated(self) -> set[ItemT]:
        if sum(map(len, self._reported.values())) == len(self.active):
            return set()
        counts = Counter(each for items in self._reported.values() for each in items)
        return {each for each, count in counts.items() if count > 1}

    def assign_lost(self, candidates: Sequence[str]) -> None:
        """Assign the lost items to the candidates, round robin; without candidates they stay unassigned."""
        for member, item in zip(cycle(candidates), self.lost, strict=False):
            self._give(member, item)

    def find_surplus(self, member_count: int, reassigned: bool) -> bool:
        """Find the items that members have above their share; `reassigned` is what `assign_new` will get in this round."""
        least, extra = divmod(len(self.configured), member_count)
        sizes = Counter(map(len, self.all_assigned.values()))
        if sizes[least + 1] == extra and sizes[least] + sizes[least + 1] == member_count:
            return False
        granted = 0
        for member, items in self.all_assigned.items():
            size = len(items)
            if size <= least:
                continue
            most = least
            if granted < extra:
                granted += 1
                most = least + 1
                if size == most:
                    continue
            self._surplus[member] = items[: size - most]
        return bool(self._surplus)

    def revoke_surplus(self) -> None:
        """Revoke the surplus: the first items of each member that has more than its share."""
        for member, items in self._surplus.items():
            self.revoked.setdefault(member, []).extend(items)
            del self.all_assigned[member][: len(items)]
            if self.newly_assigned[member]:  # of what was lost; it stays nowhere in this round
                gone = set(items)
                self.newly_assigned[member] = [
                    each for each in self.newly_assigned[member] if each not in gone
                ]

    def assign_new(self, reassigned: bool) -> None:
        """Assign new items, and if `reassigned` lost ones too, to the members with the fewest."""
        items = self._fresh(reassigned)
        if not items:
            return
        loads = sorted(
            (len(load), utf16_key(member), member) for member, load in self.all_assigned.items()
        )
        upto, level, size, done = 0, loads[0][0], len(loads), 0
        while done < len(items):
            # the front of the queue: all with as little as the first
            while upto < size and loads[upto][0] <= level:
                upto += 1
            if upto == size:
                # all of them, to the end
                for place, (_, _, member) in enumerate(loads):
                    part = items[done + place :: size]
                    self.all_assigned[member].extend(part)
                    self.newly_assigned[member].extend(part)
                return
            # as many as there are members in front, or fewer at the end
            part = items[done : done + upto]
            done += upto
            for (_, _, member), item in zip(loads, part, strict=False):
                self.all_assigned[member].append(item)
                self.newly_assigned[member].append(item)
            level += 1

    def _fresh(self, reassigned: bool) -> list[ItemT]:
        return self._created + self.lost if reassigned else self._created

    def finish(self) -> None:
        """End the round: remember its assignment for the next one."""
        self._previously_revoked = set().union(*self.revoked.values())
        self.previous = set().union(*self.all_assigned.values()) - self._previously_revoked
        self.previous.update(self.lost)

    def _give(self, member: str, item: ItemT) -> None:
        self.all_assigned[member].append(item)
        self.newly_assigned[member].append(item)


class TaskAllocation(Allocation[ConnectorTaskId]):
    """The allocation of tasks, by number or by weight.

    With weights, a stable group is balanced in this sense: moving any task would make the member that gets it at
    least as loaded as the one that gave it. So the loads of two members differ by at most the lightest task of the
    more loaded one. A task is revoked only if moving it to another member lowers the greater load of the two.
    """

    def __init__(self) -> None:
        super().__init__(tasks_sorted)
        self.weights: Mapping[ConnectorTaskId, int] = {}
        """The weight of each configured task; empty if all weigh the same."""
        self._promoted: set[ConnectorTaskId] = set()
        self._meant_for: dict[ConnectorTaskId, str] = {}
        """The members that the tasks revoked in the last round are meant for."""
        self._targets: dict[ConnectorTaskId, str] = {}
        """The members that get the tasks assigned in this round, if nothing is revoked."""
        self._targets_after: dict[ConnectorTaskId, str] = {}
        """Likewise, if `_surplus` is revoked."""
        self._moves: dict[ConnectorTaskId, str] = {}

    @override
    def compare(self) -> None:
        super().compare()
        self._promoted = set()
        self._targets, self._targets_after, self._moves = {}, {}, {}

    def promote(self, standbys: Mapping[ConnectorTaskId, Sequence[str]]) -> None:
        """Assign lost tasks to the first of their standbys that is a member; the best comes first."""
        left = []
        for task in self.lost:
            ready = next(
                (each for each in standbys.get(task, ()) if each in self.all_assigned), None
            )
            if ready is None:
                left.append(task)
            else:
                self._give(ready, task)
                self._promoted.add(task)
        self.lost = left

    @override
    def find_surplus(self, member_count: int, reassigned: bool) -> bool:
        if not self.weights:
            return super().find_surplus(member_count, reassigned)
        # what came back from a lost member has not begun anywhere: it can still go elsewhere
        wishes: dict[ConnectorTaskId, str] = {}
        for member, tasks in self.newly_assigned.items():
            back = [each for each in tasks if each not in self._promoted]
            if back:
                wishes.update(dict.fromkeys(back, member))
                self.newly_assigned[member] = [each for each in tasks if each in self._promoted]
                self.all_assigned[member] = [
                    each for each in self.all_assigned[member] if each not in wishes
                ]
        self._targets = self._placed([*wishes, *self._fresh(reassigned)], wishes)
        balance = _Balance(self.weights, self.all_assigned, self._targets, self._promoted)
        balance.improve()
        self._targets_after = {task: balance.owner_of(task) for task in self._targets}
        for member, tasks in self.all_assigned.items():
            taken = [each for each in tasks if balance.owner_of(each) != member]
            if taken:
                self._surplus[member] = taken
                self._moves.update({each: balance.owner_of(each) for each in taken})
        if not self._surplus:
            self._targets = self._targets_after
        return bool(self._surplus)

    @override
    def revoke_surplus(self) -> None:
        if not self.weights:
            super().revoke_surplus()
            return
        for member, tasks in self._surplus.items():
            self.revoked.setdefault(member, []).extend(tasks)
            gone = set(tasks)
            self.all_assigned[member] = [
                each for each in self.all_assigned[member] if each not in gone
            ]
        self._meant_for = self._moves
        self._targets = self._targets_after

    @override
    def assign_new(self, reassigned: bool) -> None:
        if not self.weights:
            self._meant_for = {}
            super().assign_new(reassigned)
            return
        places = self._targets or self._placed(self._fresh(reassigned), {})
        for task, member in places.items():
            self._give(member, task)
        if self._meant_for is not self._moves:
            self._meant_for = {}

    def _placed(
        self, tasks: Sequence[ConnectorTaskId], wishes: Mapping[ConnectorTaskId, str]
    ) -> dict[ConnectorTaskId, str]:
        """Choose a member for each task: the one it is meant for, or the least loaded; heaviest tasks first."""
        loads = {member: self._load(held) for member, held in self.all_assigned.items()}
        places: dict[ConnectorTaskId, str] = {}
        rest = []
        for task in tasks:
            meant = wishes.get(task) or self._meant_for.get(task)
            if meant is not None and meant in loads:
                places[task] = meant
                loads[meant] += self.weights[task]
            else:
                rest.append(task)
        lightest = [(load, utf16_key(member), member) for member, load in loads.items()]
        heapify(lightest)
        for task in sorted(rest, key=lambda each: -self.weights[each]):
            load, key, member = lightest[0]
            places[task] = member
            heapreplace(lightest, (load + self.weights[task], key, member))
        # in the order of the tasks, whatever they weigh
        return {task: places[task] for task in tasks}

    def _load(self, tasks: Iterable[ConnectorTaskId]) -> int:
        return sum(self.weights.get(each, 0) for each in tasks)


class _Balance:
    """Trial moves of tasks that balance the members' loads; nothing is assigned by them."""

    def __init__(
        self,
        weights: Mapping[ConnectorTaskId, int],
        held: Mapping[str, Sequence[ConnectorTaskId]],
        places: Mapping[ConnectorTaskId, str],
        fixed: set[ConnectorTaskId],
    ) -> None:
        self._loads = dict.fromkeys(held, 0)
        # of each member, what can be moved, the lightest first; of the same weight, what does not run yet
        self._movable: dict[str, list[tuple[int, bool, ConnectorTaskId]]] = {m: [] for m in held}
        self._owners: dict[ConnectorTaskId, str] = {}
        for member, tasks in held.items():
            for task in tasks:
                self._owners[task] = member
                # what is not configured is revoked by nobody: workers stop it by themselves
                self._loads[member] += weights.get(task, 0)
                if task in weights and task not in fixed:
                    self._movable[member].append((weights[task], True, task))
        for task, member in places.items():
            self._owners[task] = member
            self._loads[member] += weights[task]
            self._movable[member].append((weights[task], False, task))
        for movable in self._movable.values():
            movable.sort()

    def owner_of(self, task: ConnectorTaskId) -> str:
        return self._owners[task]

    def improve(self) -> None:
        """Move tasks to the least loaded member until no move lowers the greater load of the two.

        It ends: each move lowers the sum of the squares of all loads, which are integers.
        """
        keys = {member: utf16_key(member) for member in self._loads}
        least = [(load, keys[member], member) for member, load in self._loads.items()]
        most = [(-load, keys[member], member) for member, load in self._loads.items()]
        heapify(least)
        heapify(most)
        while most:
            load, _, giver = heappop(most)
            if -load != self._loads[giver]:
                continue  # an entry of before it gave or got something
            while self._loads[least[0][2]] != least[0][0]:
                heappop(least)
            taker = least[0][2]
            movable = self._movable[giver]
            place = _best(movable, -load - least[0][0])
            if place is None:
                # the least only grows: it can give nothing before it gets something
                continue
            weight, runs, task = movable.pop(place)
            insort(self._movable[taker], (weight, runs, task))
            self._owners[task] = taker
            self._loads[giver] -= weight
            self._loads[taker] += weight
            for member in (giver, taker):
                heappush(least, (self._loads[member], keys[member], member))
                heappush(most, (-self._loads[member], keys[member], member))


def _best(movable: Sequence[tuple[int, bool, ConnectorTaskId]], apart: int) -> int | None:
    """Return the index of the task, of the lightest first, whose move best balances two members; None if none does."""
    if not movable or movable[0][0] >= apart:
        return None
    above = bisect_left(movable, apart, key=lambda each: 2 * each[0])
    choices = {each for each in (above - 1, above) if 0 <= each < len(movable)}
    best = min(choices, key=lambda each: abs(apart - 2 * movable[each][0]))
    # the first of its weight
    return bisect_left(movable, movable[best][0], key=lambda each: each[0])
