"""Share tasks out by their weights, where they have any; by their number, as Kafka's class does, where not."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace

from typing_extensions import override

from groupsdk.connect.share import Share
from groupsdk.connect.work import tasks_sorted
from groupsdk.utf16 import utf16_key
from groupsdk.wire.connect_protocol import ConnectorTaskId


class TaskShare(Share[ConnectorTaskId]):
    """The tasks.

    With weights a group at rest is in balance in this sense: no task could go to another member without that one
    then having as much as the first, or more. So no member has more than any other by more than its own lightest
    task. A task is taken from a member only where that lowers the greater of two loads, and only to go to the other.
    """

    def __init__(self) -> None:
        super().__init__(tasks_sorted)
        self.weights: Mapping[ConnectorTaskId, int] = {}
        """Of all configured tasks; empty where all weigh the same."""
        self._promoted: set[ConnectorTaskId] = set()
        self._meant_for: dict[ConnectorTaskId, str] = {}
        """Where what the last round took away is to go."""
        self._places: dict[ConnectorTaskId, str] = {}
        """Where what is new in this round goes, if nobody gives anything up for it."""
        self._places_after: dict[ConnectorTaskId, str] = {}
        """Likewise, if `_surplus` is given up."""
        self._moves: dict[ConnectorTaskId, str] = {}

    @override
    def compare(self) -> None:
        super().compare()
        self._promoted = set()
        self._places, self._places_after, self._moves = {}, {}, {}

    def promote(self, standbys: Mapping[ConnectorTaskId, Sequence[str]]) -> None:
        """Give lost tasks to the first of their standbys that is there."""
        left = []
        for task in self.lost:
            ready = next((each for each in standbys.get(task, ()) if each in self.next), None)
            if ready is None:
                left.append(task)
            else:
                self._give(ready, task)
                self._promoted.add(task)
        self.lost = left

    @override
    def level(self, member_count: int, reassigned: bool) -> bool:
        if not self.weights:
            return super().level(member_count, reassigned)
        # what came back from a lost member has not begun anywhere: it can still go elsewhere
        wishes: dict[ConnectorTaskId, str] = {}
        for member, tasks in self.given.items():
            back = [each for each in tasks if each not in self._promoted]
            if back:
                wishes.update(dict.fromkeys(back, member))
                self.given[member] = [each for each in tasks if each in self._promoted]
                self.next[member] = [each for each in self.next[member] if each not in wishes]
        self._places = self._placed([*wishes, *self._fresh(reassigned)], wishes)
        balance = _Balance(self.weights, self.next, self._places, self._promoted)
        balance.improve()
        self._places_after = {task: balance.owner_of(task) for task in self._places}
        for member, tasks in self.next.items():
            taken = [each for each in tasks if balance.owner_of(each) != member]
            if taken:
                self._surplus[member] = taken
                self._moves.update({each: balance.owner_of(each) for each in taken})
        if not self._surplus:
            self._places = self._places_after
        return bool(self._surplus)

    @override
    def revoke_surplus(self) -> None:
        if not self.weights:
            super().revoke_surplus()
            return
        for member, tasks in self._surplus.items():
            self.revoked.setdefault(member, []).extend(tasks)
            gone = set(tasks)
            self.next[member] = [each for each in self.next[member] if each not in gone]
        self._meant_for = self._moves
        self._places = self._places_after

    @override
    def hand_out(self, reassigned: bool) -> None:
        if not self.weights:
            self._meant_for = {}
            super().hand_out(reassigned)
            return
        places = self._places or self._placed(self._fresh(reassigned), {})
        for task, member in places.items():
            self._give(member, task)
        if self._meant_for is not self._moves:
            self._meant_for = {}

    def _placed(
        self, tasks: Sequence[ConnectorTaskId], wishes: Mapping[ConnectorTaskId, str]
    ) -> dict[ConnectorTaskId, str]:
        """Find a place for each task: where it is meant to be, or with who has the least, the heaviest first."""
        loads = {member: self._load(held) for member, held in self.next.items()}
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
    """Who has how much, while tasks are moved in thought."""

    def __init__(
        self,
        weights: Mapping[ConnectorTaskId, int],
        held: Mapping[str, Sequence[ConnectorTaskId]],
        places: Mapping[ConnectorTaskId, str],
        fixed: set[ConnectorTaskId],
    ) -> None:
        self._weights = weights
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
        """Return who has a task."""
        return self._owners[task]

    def improve(self) -> None:
        """Move tasks to the member with the least until that lowers nothing more.

        Ends, as each move lowers the sum of the squares of all loads, which are whole numbers.
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
            for each in (giver, taker):
                heappush(least, (self._loads[each], keys[each], each))
                heappush(most, (-self._loads[each], keys[each], each))


def _best(movable: Sequence[tuple[int, bool, ConnectorTaskId]], apart: int) -> int | None:
    """Return which task brings two members that are so far apart nearest to each other; None: none does."""
    if not movable or movable[0][0] >= apart:
        return None
    above = bisect_left(movable, apart, key=lambda each: 2 * each[0])
    choices = {each for each in (above - 1, above) if 0 <= each < len(movable)}
    best = min(choices, key=lambda each: abs(apart - 2 * movable[each][0]))
    # the first of its weight
    return bisect_left(movable, movable[best][0], key=lambda each: each[0])
