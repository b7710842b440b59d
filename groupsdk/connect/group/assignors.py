"""Kafka Connect's assignors: eager, and incremental cooperative with a delay (KIP-415)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapreplace
from itertools import cycle
from random import Random
from typing import Final

from groupsdk.connect.group.allocation import Allocation, ItemT, TaskAllocation
from groupsdk.connect.group.work import ClusterAssignment, Work
from groupsdk.errors import ConfigError
from groupsdk.settings.backoff import ExponentialBackoff
from groupsdk.utf16 import utf16_sorted
from groupsdk.wire.connect_protocol import ConnectorTaskId


class EagerAssignor:
    """Assigns connectors, then tasks, round-robin to members; keeps no state between rounds."""

    def assign(
        self,
        configured: Work,
        member_ids: Iterable[str],
        weights: Mapping[ConnectorTaskId, int] | None = None,
    ) -> ClusterAssignment:
        """Assign all work of a group; with `weights` each task goes to the least loaded member, the heaviest first."""
        members = utf16_sorted(member_ids)
        connectors: dict[str, list[str]] = {each: [] for each in members}
        tasks: dict[str, list[ConnectorTaskId]] = {each: [] for each in members}
        # one turn for both: the tasks go on where the connectors ended
        turn = cycle(members)
        for connector in configured.connectors:
            connectors[next(turn)].append(connector)
        if weights:
            lightest = [(0, place, member) for place, member in enumerate(members)]
            for task in sorted(configured.tasks, key=lambda each: -weights[each]):
                load, place, member = lightest[0]
                tasks[member].append(task)
                heapreplace(lightest, (load + weights[task], place, member))
        else:
            for task in configured.tasks:
                tasks[next(turn)].append(task)
        held = {each: Work(tuple(connectors[each]), tuple(tasks[each])) for each in members}
        return ClusterAssignment(assigned=held, revoked={}, held=held)


_SOMEBODY: Final = frozenset(("",))  # who is gone, but nobody knows by which id


class IncrementalCooperativeAssignor:
    """The stateful assignor of a leader; a new leader starts without the previous assignments.

    Kafka: `IncrementalCooperativeAssignor` (KIP-415), with the same results where no weights, standbys or earlier
    assignments are given.

    Args:
        max_delay_ms: how long the work of a lost worker is held back for it, and the longest pause between rounds that
            revoke: `scheduled.rebalance.max.delay.ms`.
        order: sorts the new workers of a round, which get lost work in this order; by default by their ids.
    """

    def __init__(
        self,
        max_delay_ms: int = 300_000,
        order: Callable[[Iterable[str]], list[str]] = utf16_sorted,
    ) -> None:
        if max_delay_ms < 0:
            raise ConfigError(
                f"scheduled.rebalance.max.delay.ms must not be negative, but is {max_delay_ms}"
            )
        self._max_delay_ms = max_delay_ms
        self._order = order
        self._backoff = ExponentialBackoff(min(1, max_delay_ms), max_delay_ms, 40, 0.0)
        self._connectors: Allocation[str] = Allocation(utf16_sorted)
        self._tasks = TaskAllocation()
        self._generation = -1
        self._members: frozenset[str] = frozenset()
        self._candidates: dict[str, None] = {}
        self._scheduled_ms = 0
        self._delay_ms = 0
        self._revoked_in_previous = False
        self._successive_revocations = 0

    def assign(
        self,
        configured: Work,
        members: Mapping[str, Work],
        *,
        last_completed_generation: int,
        generation: int,
        now_ms: int,
        before: Work | None = None,
        weights: Mapping[ConnectorTaskId, int] | None = None,
        standbys: Mapping[ConnectorTaskId, Sequence[str]] | None = None,
    ) -> ClusterAssignment:
        """Compute the assignment of one round.

        Args:
            configured: all connectors and tasks, sorted.
            members: the work that each member reports. Their order decides from whom work is taken first.
            last_completed_generation: the last generation whose assignment this leader took up itself.
            before: the work that the previous leader had assigned, for the first round of a new one. Kafka's class has no such
                argument: there, work that is lost along with the leader is reassigned at once.
            standbys: the members with a standby of a task, the best first. They get lost tasks at once.
        """
        allocations: tuple[Allocation[str], Allocation[ConnectorTaskId]] = (
            self._connectors,
            self._tasks,
        )
        self._tasks.weights = weights or {}
        known = self._generation == last_completed_generation
        self._connectors.begin(configured.connectors, _reported(members, "connectors"), known)
        self._tasks.begin(configured.tasks, _reported(members, "tasks"), known)
        if before is not None and self.is_new and self._anything_active:
            # if nobody holds anything, the whole group starts over, and nobody is waited for
            self._connectors.previous = set(before.connectors)
            self._tasks.previous = set(before.tasks)
            self._members = _SOMEBODY
        # one item that came back speaks for both kinds: the revocation as a whole was not carried out
        if any(allocation.revocation_failed for allocation in allocations):
            for allocation in allocations:
                allocation.start_from_reports()
        for allocation in allocations:
            allocation.compare()
        if standbys:
            self._tasks.promote(standbys)
        reassigned = self._lost_is_due(members, now_ms)
        if self._delay_ms == 0:
            self._balance(reassigned, len(members), now_ms)
        else:
            self._revoked_in_previous = False
        for allocation in allocations:
            allocation.assign_new(reassigned)
            allocation.finish()
        self._generation = generation
        self._members = frozenset(members)
        return self._result(members)

    @property
    def is_new(self) -> bool:
        """Whether it has assigned nothing yet: only then `assign` uses `before`."""
        return self._generation == -1

    @property
    def _anything_active(self) -> bool:
        return bool(self._connectors.active or self._tasks.active)

    def _lost_is_due(self, members: Mapping[str, Work], now_ms: int) -> bool:
        """Handle lost work. Return whether to reassign it like new work."""
        lost = bool(self._connectors.lost or self._tasks.lost)
        if not lost and not self._revoked_in_previous:
            self._reset_delay()
            return False
        # all are there: it was not lost with a worker, but an assignment did not get through
        all_here = self._scheduled_ms <= 0 and self._members.issubset(members)
        if all_here or self._max_delay_ms == 0:
            return True
        if 0 < self._scheduled_ms <= now_ms:
            candidates = [each for each in self._candidates if each in members]
            if candidates:
                self._connectors.assign_lost(candidates)
                self._tasks.assign_lost(candidates)
            self._reset_delay()
            self._revoked_in_previous = False
            return not candidates
        newcomers = [
            each
            for each in members
            if not (self._connectors.all_assigned[each] or self._tasks.all_assigned[each])
        ]
        self._candidates.update(dict.fromkeys(self._order(newcomers)))
        left_ms = self._scheduled_ms - now_ms
        self._delay_ms = min(left_ms, self._max_delay_ms) if left_ms > 0 else self._max_delay_ms
        self._scheduled_ms = now_ms + self._delay_ms
        return False

    def _reset_delay(self) -> None:
        self._candidates.clear()
        self._scheduled_ms = 0
        self._delay_ms = 0

    def _balance(self, reassigned: bool, member_count: int, now_ms: int) -> None:
        """Revoke from overloaded members, unless the previous round did so as well."""
        allocations = (self._connectors, self._tasks)
        anything_held = any(
            load for allocation in allocations for load in allocation.all_assigned.values()
        )
        anything_configured = any(allocation.configured for allocation in allocations)
        if not (anything_held and anything_configured):
            revoking = False
        else:
            connectors = self._connectors.find_surplus(member_count, reassigned)
            revoking = self._tasks.find_surplus(member_count, reassigned) or connectors
        if not revoking:
            if self._revoked_in_previous:
                self._revoked_in_previous = False
                self._successive_revocations = 0
        elif not self._revoked_in_previous:
            self._revoke_surplus()
            self._revoked_in_previous = True
        else:
            self._successive_revocations += 1
            self._delay_ms = self._backoff.backoff_ms(self._successive_revocations, Random(0))
            if self._delay_ms:
                self._scheduled_ms = now_ms + self._delay_ms
            else:
                self._revoke_surplus()

    def _revoke_surplus(self) -> None:
        self._connectors.revoke_surplus()
        self._tasks.revoke_surplus()

    def _result(self, members: Mapping[str, Work]) -> ClusterAssignment:
        connectors, tasks = self._connectors, self._tasks
        assigned, revoked, held = {}, {}, {}
        for member in members:
            assigned[member] = Work(
                tuple(connectors.newly_assigned[member]), tuple(tasks.newly_assigned[member])
            )
            taken = Work(
                tuple(connectors.revoked.get(member, ())), tuple(tasks.revoked.get(member, ()))
            )
            if taken:
                revoked[member] = taken
            held[member] = Work(
                tuple(connectors.all_assigned[member]), tuple(tasks.all_assigned[member])
            )
        return ClusterAssignment(assigned, revoked, held, self._delay_ms)


def _reported(members: Mapping[str, Work], kind: str) -> dict[str, Sequence[ItemT]]:
    """Return the items of one kind that each member holds, without duplicates."""
    return {member: tuple(dict.fromkeys(getattr(work, kind))) for member, work in members.items()}
