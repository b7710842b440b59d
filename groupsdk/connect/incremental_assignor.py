"""Share out by increments (KIP-415): move little, and hold the work of a lost worker back for it.

Decides what Kafka 4.1's `IncrementalCooperativeAssignor` decides, round by round. Connectors and tasks are
balanced apart, by the same rules: `_Share` is one of the two.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle
from random import Random
from typing import Generic, TypeVar

from groupsdk.backoff import ExponentialBackoff
from groupsdk.connect.work import ClusterAssignment, Work, tasks_sorted
from groupsdk.errors import ConfigError
from groupsdk.utf16 import utf16_key, utf16_sorted
from groupsdk.wire.connect_protocol import ConnectorTaskId


ItemT = TypeVar("ItemT", str, ConnectorTaskId)
Loads = dict[str, list[ItemT]]

_SOMEBODY = frozenset(("",))  # who is gone, but nobody knows by which id


class IncrementalCooperativeAssignor:
    """The assignor of a leader, which remembers what it gave out; another leader starts without that.

    Args:
        max_delay_ms: how long the work of a worker that is gone is held back for it, and how long rounds that
            revoke may be kept apart at most: `scheduled.rebalance.max.delay.ms`.
        order: how several newcomers of one round queue for work that was lost; by default by their ids.

    Raises:
        ConfigError: the delay is negative.
    """

    def __init__(
        self,
        max_delay_ms: int = 300_000,
        order: Callable[[Iterable[str]], list[str]] = utf16_sorted,
    ) -> None:
        if max_delay_ms < 0:
            raise ConfigError(
                f"scheduled.rebalance.max.delay.ms is {max_delay_ms}; it must not be negative"
            )
        self._max_delay_ms = max_delay_ms
        self._order = order
        self._backoff = ExponentialBackoff(min(1, max_delay_ms), max_delay_ms, 40, 0.0)
        self._connectors: _Share[str] = _Share(utf16_sorted)
        self._tasks: _Share[ConnectorTaskId] = _Share(tasks_sorted)
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
    ) -> ClusterAssignment:
        """Decide one round.

        Args:
            configured: all there is to do, sorted.
            members: what each member says that it holds. Their order decides from whom is taken first.
            last_completed_generation: the last generation whose assignment this leader took up itself.
            generation: the one that is being made.
            now_ms: the time.
            before: what was given out under the leader before, for the first round of a new one. Kafka's class
                knows no such thing: there, work that is lost along with the leader is given away at once.
        """
        shares = (self._connectors, self._tasks)
        known = self._generation == last_completed_generation
        self._connectors.begin(configured.connectors, _reported(members, "connectors"), known)
        self._tasks.begin(configured.tasks, _reported(members, "tasks"), known)
        if before is not None and self._generation == -1 and self._anything_active:
            # where nobody holds anything, the whole group begins anew, and nobody is waited for
            self._connectors.previous = set(before.connectors)
            self._tasks.previous = set(before.tasks)
            self._members = _SOMEBODY
        # one item that came back speaks for both kinds: the revocation as a whole was not carried out
        if any(share.revocation_failed for share in shares):
            for share in shares:
                share.start_from_reports()
        for share in shares:
            share.compare()
        reassigned = self._lost_is_due(members, now_ms)
        if self._delay_ms == 0:
            self._balance(len(members), now_ms)
        else:
            self._revoked_in_previous = False
        for share in shares:
            share.hand_out(reassigned)
            share.finish()
        self._generation = generation
        self._members = frozenset(members)
        return self._result(members)

    @property
    def _anything_active(self) -> bool:
        return bool(self._connectors.active or self._tasks.active)

    def _lost_is_due(self, members: Mapping[str, Work], now_ms: int) -> bool:
        """Decide about work that is lost; return whether it is to be shared out like new work."""
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
                self._connectors.return_lost(candidates)
                self._tasks.return_lost(candidates)
            self._reset_delay()
            self._revoked_in_previous = False
            return not candidates
        newcomers = [
            each for each in members if not (self._connectors.next[each] or self._tasks.next[each])
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

    def _balance(self, member_count: int, now_ms: int) -> None:
        """Take from those that have too much, unless that happened in the round before as well."""
        shares = (self._connectors, self._tasks)
        anything_held = any(load for share in shares for load in share.next.values())
        anything_configured = any(share.configured for share in shares)
        if not (anything_held and anything_configured):
            revoking = False
        else:
            revoking = self._connectors.level(member_count) | self._tasks.level(member_count)
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
        for each in members:
            assigned[each] = Work(tuple(connectors.given[each]), tuple(tasks.given[each]))
            taken = Work(
                tuple(connectors.revoked.get(each, ())), tuple(tasks.revoked.get(each, ()))
            )
            if taken:
                revoked[each] = taken
            held[each] = Work(tuple(connectors.next[each]), tuple(tasks.next[each]))
        return ClusterAssignment(assigned, revoked, held, self._delay_ms)


class _Share(Generic[ItemT]):
    """Connectors or tasks: what was, what is, and what is to be."""

    def __init__(self, in_order: Callable[[Iterable[ItemT]], list[ItemT]]) -> None:
        self.previous: set[ItemT] = set()
        """What the last round gave out or held back, whoever has it."""
        self.revocation_failed = False
        self.configured: Sequence[ItemT] = ()
        self.active: set[ItemT] = set()
        self.lost: list[ItemT] = []
        self.next: Loads[ItemT] = {}
        """What each member has when the round is over."""
        self.given: Loads[ItemT] = {}
        """What of it is new."""
        self.revoked: Loads[ItemT] = {}
        self._in_order: Callable[[Iterable[ItemT]], list[ItemT]] = in_order
        self._previously_revoked: set[ItemT] = set()
        self._reported: dict[str, Sequence[ItemT]] = {}
        self._created: list[ItemT] = []
        self._surplus: Loads[ItemT] = {}

    def begin(
        self, configured: Sequence[ItemT], reported: dict[str, Sequence[ItemT]], known: bool
    ) -> None:
        """Take the members' reports."""
        self.configured = configured
        self._reported = reported
        self.active = set().union(*reported.values())
        if not known:
            self.previous = set()
        self.revocation_failed = not self._previously_revoked.isdisjoint(self.active)
        self._previously_revoked = set()

    def start_from_reports(self) -> None:
        """Take what the members hold for what was given out."""
        self.previous = set(self.active)

    def compare(self) -> None:
        """Find what is deleted, doubly owned, lost and new, and begin the next round's loads."""
        configured, previous, active = set(self.configured), self.previous, self.active
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
        self.next = {
            member: [each for each in items if each not in gone]
            if member in self.revoked
            else list(items)
            for member, items in self._reported.items()
        }
        self.given = {member: [] for member in self._reported}
        self._surplus = {}

    def _duplicated(self) -> set[ItemT]:
        if sum(map(len, self._reported.values())) == len(self.active):
            return set()
        counts = Counter(each for items in self._reported.values() for each in items)
        return {each for each, count in counts.items() if count > 1}

    def return_lost(self, candidates: Sequence[str]) -> None:
        """Give what was lost to the candidates in turn."""
        for member, item in zip(cycle(candidates), self.lost, strict=False):
            self._give(member, item)

    def level(self, member_count: int) -> bool:
        """Find what members have above their share; return whether there is any."""
        least, extra = divmod(len(self.configured), member_count)
        sizes = Counter(map(len, self.next.values()))
        if sizes[least + 1] == extra and sizes[least] + sizes[least + 1] == member_count:
            return False
        granted = 0
        for member, items in self.next.items():
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
        """Take from each member the first of its items, down to its share."""
        for member, items in self._surplus.items():
            self.revoked.setdefault(member, []).extend(items)
            del self.next[member][: len(items)]
            if self.given[member]:  # of what was lost; it stays nowhere in this round
                gone = set(items)
                self.given[member] = [each for each in self.given[member] if each not in gone]

    def hand_out(self, reassigned: bool) -> None:
        """Give what is new, and what is to be treated like that, to those with the least."""
        items = self._created + self.lost if reassigned else self._created
        if not items:
            return
        loads = sorted((len(load), utf16_key(member), member) for member, load in self.next.items())
        upto, level, size, done = 0, loads[0][0], len(loads), 0
        while done < len(items):
            # the front of the queue: all with as little as the first
            while upto < size and loads[upto][0] <= level:
                upto += 1
            # as many as there are members in front, or fewer at the end
            part = items[done : done + upto]
            done += upto
            for (_, _, member), item in zip(loads, part, strict=False):
                self.next[member].append(item)
                self.given[member].append(item)
            level += 1

    def finish(self) -> None:
        """Remember what is out, for the next round."""
        self._previously_revoked = set().union(*self.revoked.values())
        self.previous = set().union(*self.next.values()) - self._previously_revoked
        self.previous.update(self.lost)

    def _give(self, member: str, item: ItemT) -> None:
        self.next[member].append(item)
        self.given[member].append(item)


def _reported(members: Mapping[str, Work], kind: str) -> dict[str, Sequence[ItemT]]:
    """Return what each member holds of one kind, each item once."""
    return {member: tuple(dict.fromkeys(getattr(work, kind))) for member, work in members.items()}
