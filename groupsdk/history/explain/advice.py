"""Advise on changes that would have avoided rebalances of a group, by replaying its timeline with the change made.

Each piece of advice has two sides in the same units: what the change spares and what it costs. A member that keeps its place while
it is away spares two rebalances, and nobody reads its partitions meanwhile.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import accumulate
from math import inf
from typing import Any, Final, NamedTuple

from groupsdk.history.explain.changes import Cause
from groupsdk.history.explain.commit_spans import allowance_ms
from groupsdk.history.explain.timeline.member import CLASSIC
from groupsdk.history.explain.timeline.rows import TimelineGeneration, TimelineMembership


STATIC_MEMBERSHIP: Final = "static_membership"
LONGER_SESSION: Final = "longer_session"
POLL_INTERVAL: Final = "poll_interval"
INITIAL_DELAY: Final = "initial_delay"
RESTART_TOGETHER: Final = "restart_together"
OTHER_ASSIGNOR: Final = "other_assignor"
COOPERATIVE: Final = "cooperative"

SESSIONS_MS: Final = (10_000, 30_000, 45_000, 60_000, 120_000, 300_000, 600_000, 1_800_000)
"""The session timeouts to try; the last one is the default maximum of Kafka's brokers."""
POLL_INTERVALS_MS: Final = (300_000, 600_000, 1_200_000, 1_800_000, 3_600_000)
"""The values of max.poll.interval.ms to try, from its default."""
DELAYS_MS: Final = (3_000, 6_000, 10_000, 30_000, 60_000)
"""The values of group.initial.rebalance.delay.ms to try."""
_MOST: Final = 0.9
"""The smallest value that spares this share of what the largest would is advised."""
_ROLL_MS: Final = 120_000
"""Restarts no further apart than this belong to one deployment."""
_ROLLED: Final = 3
"""This many clients that restart one after the other are a deployment."""
_WITH_STATIC_MEMBERS: Final = frozenset({CLASSIC, "consumer"})
_BROKER_DELAY_MS: Final = 3_000
"""Kafka's default of group.initial.rebalance.delay.ms: for how long a group that was empty waits for more members."""
_FEW: Final = 2
_LEAST_SHARE: Final = 0.1
"""Advice that spares less than this share is dropped."""


class Habits(NamedTuple):
    """How a group commits, which tells what an absence costs."""

    interval_ms: float = 0.0
    """The usual time between two commits of a partition."""
    records_per_ms: float = 0.0
    """How many records of one partition it reads in a millisecond."""

    def standstill_ms(self, away_ms: float) -> int:
        """Return for how long a partition stands still while its member is away, measured as `CommitSpans.stalled_ms` does."""
        # the last commit is at the member's end, the next one up to an interval after it is back
        gap_ms = away_ms + self.interval_ms
        return max(0, round(gap_ms - allowance_ms(self.interval_ms)))


UNKNOWN_HABITS: Final = Habits()


class Price(NamedTuple):
    """What a change would have cost."""

    added_ms: int = 0
    """For how long partitions would have stood still because of it, in partition-milliseconds."""
    back: int = 0
    """How many absences it would have bridged."""
    gone: int = 0
    """How many members went for good whose partitions nobody would have had until their sessions ended."""


class Advice(NamedTuple):
    """What a change would have spared and cost, partitions that members got back included."""

    advice: str
    """One of the constants of this module."""
    setting: str
    rebalances: int
    moves: int
    revoked: int
    spared_ms: int
    """For how long partitions stood still because of those rebalances, in partition-milliseconds."""
    added_ms: int
    """For how long partitions would have stood still because of the change, in partition-milliseconds."""
    late_spared: int
    """How many records were read late because of those rebalances."""
    late_added: int
    """How many records would have been read late because of the change."""
    back: int
    """How many absences of members it would have bridged."""
    gone: int
    """How many members went for good whose partitions would have waited for the end of their sessions."""
    evidence: tuple[int, ...]
    """The `seq` of the generations."""

    @property
    def pays(self) -> bool:
        """Whether partitions would have stood still for no longer than they did."""
        return self.added_ms <= self.spared_ms


class AssignorTotals(NamedTuple):
    """The moves and revocations of an assignor; `is_cooperative`: members keep partitions that do not move."""

    assignor: str
    moves: int
    revoked: int
    is_cooperative: bool


@dataclass(frozen=True, slots=True)
class _Return:
    membership: TimelineMembership
    again: TimelineMembership
    away_ms: int
    """From its last sign of life until it rejoined."""


def advise(
    timeline: Sequence[TimelineGeneration],
    memberships: Sequence[TimelineMembership],
    *,
    protocol: str = CLASSIC,
    habits: Habits = UNKNOWN_HABITS,
    actual: AssignorTotals | None = None,
    choices: Sequence[AssignorTotals] = (),
) -> Iterator[Advice]:
    """Yield the changes that would have avoided rebalances, moves or revocations of one group: those that pay first, then the most.

    Each piece of advice stands alone: several may spare the same rebalances, so their numbers do not add up. In the newer protocols
    the broker sets the session timeout; only classic groups wait for their first members, and share and streams groups have no
    static members. `actual` has the moves and revocations that happened; None: not replayed.
    """
    returns = list(returns_of(memberships))
    classic = protocol == CLASSIC
    session = "session.timeout.ms" if classic else f"group.{protocol}.session.timeout.ms"
    group = _Group(timeline, memberships, returns, habits)
    changes = {
        STATIC_MEMBERSHIP: _static(group, session) if protocol in _WITH_STATIC_MEMBERS else None,
        LONGER_SESSION: _longer(group, session),
        POLL_INTERVAL: _polling(group),
        INITIAL_DELAY: _delayed(group) if classic else None,
        RESTART_TOGETHER: _together(group),
    }
    found = [_spared(name, group, each) for name, each in changes.items() if each is not None]
    helpful = [each for each in found if each is not None]
    helpful += _of_assignors(group, actual, choices)
    yield from sorted(
        helpful, key=lambda each: (not each.pays, -each.rebalances, -each.revoked - each.moves)
    )


@dataclass(frozen=True, slots=True)
class _Group:
    timeline: Sequence[TimelineGeneration]
    memberships: Sequence[TimelineMembership]
    returns: Sequence[_Return]
    habits: Habits

    def stalled_ms(self, seqs: Set[int]) -> int:
        """Sum up for how long partitions stood still around these generations."""
        return sum(each.stalled_ms for each in self.timeline if each.seq in seqs)

    def absence_ms(self, each: _Return) -> int:
        """Return for how long partitions of a member that came back would have stood still, had nobody taken over."""
        return each.membership.n_partitions * self.habits.standstill_ms(each.away_ms)

    def late(self, stalled_ms: int) -> int:
        return round(stalled_ms * self.habits.records_per_ms)


@dataclass(frozen=True, slots=True)
class _Change:
    setting: str
    spared: frozenset[int]
    """The `seq` of generations that would not have been."""
    price: Price


def _spared(advice: str, group: _Group, change: _Change) -> Advice | None:
    if len(change.spared) < _FEW or len(change.spared) < _LEAST_SHARE * len(group.timeline):
        return None
    mine = [generation for generation in group.timeline if generation.seq in change.spared]
    spared_ms, price = group.stalled_ms(change.spared), change.price
    return Advice(
        advice,
        change.setting,
        rebalances=len(mine),
        moves=sum(generation.moved for generation in mine),
        revoked=0,
        spared_ms=spared_ms,
        added_ms=price.added_ms,
        late_spared=group.late(spared_ms),
        late_added=group.late(price.added_ms),
        back=price.back,
        gone=price.gone,
        evidence=tuple(generation.seq for generation in mine),
    )


def returns_of(memberships: Sequence[TimelineMembership]) -> Iterator[_Return]:
    """Yield the clients that came back: each ended membership with the next one of the same client and host."""
    of_client: defaultdict[tuple[str, str], list[TimelineMembership]] = defaultdict(list)
    for membership in memberships:
        of_client[membership.client_id, membership.client_host].append(membership)
    for mine in of_client.values():
        begun = sorted(mine, key=lambda each: each.first_seq)
        numbers = [each.first_seq for each in begun]
        latest = list(accumulate((each.start_ms for each in begun), max))
        # for each place, the next free one, or one nearer to it
        free = list(range(len(begun) + 1))
        for membership in sorted(
            (each for each in mine if each.end_ms >= 0), key=lambda v: v.end_seq
        ):
            heard_ms = membership.end_ms - membership.silent_ms
            # a crashed client may be back before its session expires
            place = max(bisect_right(numbers, membership.first_seq), bisect_left(latest, heard_ms))
            place = _next_free(free, place)
            while place < len(begun) and begun[place].start_ms < heard_ms:
                place = _next_free(free, place + 1)
            if place < len(begun):
                free[place] = place + 1
                again = begun[place]
                yield _Return(membership, again, max(0, again.start_ms - heard_ms))


def _next_free(free: list[int], place: int) -> int:
    while free[place] != place:
        # halves the path for later look-ups
        free[place] = free[free[place]]
        place = free[place]
    return place


def _untouched(
    timeline: Sequence[TimelineGeneration],
    memberships: Sequence[TimelineMembership],
    returns: Iterable[_Return],
) -> frozenset[int]:
    """Return the generations without any other change than these clients' absence, and their follow-up rebalances."""
    joined: defaultdict[int, int] = defaultdict(int)
    gone: defaultdict[int, int] = defaultdict(int)
    for membership in memberships:
        joined[membership.first_seq] += 1
        if membership.end_seq >= 0:
            gone[membership.end_seq] += 1
    for each in returns:
        gone[each.membership.end_seq] -= 1
        joined[each.again.first_seq] -= 1
    touched = {
        seq
        for each in returns
        for seq in (each.membership.end_seq, each.again.first_seq)
        if not joined[seq] and not gone[seq]
    }
    found: set[int] = set()
    last_spared = False
    for generation in timeline:
        follows = generation.cause in (Cause.COOPERATIVE_FOLLOWUP, Cause.REJOIN) and last_spared
        last_spared = not generation.is_other and (generation.seq in touched or follows)
        if last_spared:
            found.add(generation.seq)
    return frozenset(found)


def _best_of(group: _Group, changes: Sequence[_Change]) -> _Change | None:
    """Choose the change with which partitions stand still for the least time, if one pays; else the least that spares the most."""
    most = max((len(each.spared) for each in changes), default=0)
    if not most:
        return None
    gains = [group.stalled_ms(each.spared) - each.price.added_ms for each in changes]
    helpful = [gain for gain, each in zip(gains, changes, strict=True) if len(each.spared) >= _FEW]
    best = max(helpful, default=-1)
    if best >= 0:
        changes = [
            each
            for gain, each in zip(gains, changes, strict=True)
            if gain == best and len(each.spared) >= _FEW
        ]
        most = max(len(each.spared) for each in changes)
    return next(each for each in changes if len(each.spared) >= _MOST * most)


def _static(group: _Group, session: str) -> _Change | None:
    """Replay with group.instance.id: a client back within its session keeps its assignment without a rebalance."""
    mine = [each for each in group.returns if not each.membership.instance_id]
    ended = [each for each in group.memberships if each.end_seq >= 0 and not each.instance_id]
    setting = f"group.instance.id, one for each client; {session}="
    return _best_of(group, _by_value(group, SESSIONS_MS, mine, ended, setting))


def _longer(group: _Group, session: str) -> _Change | None:
    """Replay with a session that outlasts the silence of members that expired and came back."""
    mine = [each for each in group.returns if each.membership.end_reason == Cause.EXPIRY]
    ended = [each for each in group.memberships if each.end_reason == Cause.EXPIRY]
    return _best_of(group, _by_value(group, SESSIONS_MS, mine, ended, f"{session}="))


def _polling(group: _Group) -> _Change | None:
    """Replay with a longer max.poll.interval.ms, which outlasts the work of members that left for it and came back."""
    mine = [each for each in group.returns if each.membership.end_reason == Cause.POLL_TIMEOUT]
    ended = [each for each in group.memberships if each.end_reason == Cause.POLL_TIMEOUT]
    setting = "max.poll.records smaller, or max.poll.interval.ms="
    return _best_of(group, _by_value(group, POLL_INTERVALS_MS, mine, ended, setting))


def _by_value(
    group: _Group,
    values_ms: Sequence[int],
    returns: Sequence[_Return],
    ended: Sequence[TimelineMembership],
    setting: str,
) -> list[_Change]:
    """Replay with each value of a timeout, which spares the generations of clients back within it.

    Those of `ended` that are not would have had their partitions until it was over.
    """
    found: list[_Change] = []
    waits = _waits(group, ended)
    absences = [(each, group.absence_ms(each)) for each in returns]
    # a value that covers no more clients spares the same as the one before
    by_count: dict[int, frozenset[int]] = {0: frozenset()}
    for value_ms in values_ms:
        bridging = [each for each in absences if each[0].away_ms < value_ms]
        back = [each for each, _ in bridging]
        if len(back) not in by_count:
            by_count[len(back)] = _untouched(group.timeline, group.memberships, back)
        bridged = {id(each.membership) for each in back}
        added_ms = sum(absence_ms for _, absence_ms in bridging)
        gone = 0
        for membership, alone_ms in waits:
            longer_ms = min(value_ms, alone_ms) - membership.silent_ms
            if id(membership) not in bridged and longer_ms > 0 and membership.n_partitions:
                added_ms += membership.n_partitions * group.habits.standstill_ms(longer_ms)
                gone += 1
        found.append(
            _Change(f"{setting}{value_ms}", by_count[len(back)], Price(added_ms, len(back), gone))
        )
    return found


def _waits(
    group: _Group, ended: Sequence[TimelineMembership]
) -> list[tuple[TimelineMembership, float]]:
    """Return members that went, each with the time for which the group went on without it, in milliseconds.

    Nobody waits for the partitions of a member of a group that stops.
    """
    empty = [each for each in group.timeline if not each.n_members]
    seqs = [each.seq for each in empty]
    found = []
    for membership in ended:
        place = bisect_left(seqs, membership.end_seq)
        alone_ms = inf if place == len(empty) else empty[place].ts_ms - membership.end_ms
        found.append((membership, alone_ms + membership.silent_ms))
    return found


def _delayed(group: _Group) -> _Change | None:
    """Replay with a longer delay of a group's first rebalance, which is extended while members join."""
    timeline = group.timeline
    gone = {each.end_seq for each in group.memberships if each.end_seq >= 0}
    found: list[_Change] = []
    for delay_ms in DELAYS_MS:
        seqs: set[int] = set()
        added_ms = 0
        for burst in _bursts(timeline, gone, delay_ms):
            # the ones before the last would not have happened: their members would have waited for it
            seqs |= {each.seq for each in burst[:-1]}
            waited_ms = burst[-1].ts_ms - burst[0].ts_ms + delay_ms
            added_ms += burst[-1].n_partitions * group.habits.standstill_ms(waited_ms)
        found.append(
            _Change(
                f"group.initial.rebalance.delay.ms={delay_ms}", frozenset(seqs), Price(added_ms)
            )
        )
    return _best_of(group, found)


def _bursts(
    timeline: Sequence[TimelineGeneration], gone: Set[int], delay_ms: int
) -> Iterator[list[TimelineGeneration]]:
    """Yield the generations with which a group starts, each no later than the delay after the one before."""
    burst: list[TimelineGeneration] = []
    was_empty = True  # the first generation of the log may be the group's first
    for generation in timeline:
        is_join = (
            generation.cause == Cause.JOIN
            and not generation.is_other
            and generation.seq not in gone
        )
        if burst and is_join and generation.ts_ms - burst[-1].ts_ms <= delay_ms:
            burst.append(generation)
            continue
        if len(burst) > 1:
            yield burst
        burst = [generation] if was_empty and is_join and generation.n_members else []
        was_empty = not generation.n_members
    if len(burst) > 1:
        yield burst


def _together(group: _Group) -> _Change | None:
    """Replay rolling deployments as one restart of all clients at once."""
    mine = _untouched(group.timeline, group.memberships, group.returns)
    clients: defaultdict[int, set[tuple[str, str]]] = defaultdict(set)
    away: defaultdict[int, int] = defaultdict(int)
    for each in group.returns:
        who = each.membership.client_id, each.membership.client_host
        clients[each.membership.end_seq].add(who)
        clients[each.again.first_seq].add(who)
        away[each.again.first_seq] = max(away[each.again.first_seq], each.away_ms)
    spared: set[int] = set()
    largest = added_ms = 0
    for run in _runs([generation for generation in group.timeline if generation.seq in mine]):
        restarted = {who for generation in run for who in clients[generation.seq]}
        if len(restarted) >= _ROLLED and len(run) > _FEW:
            # one rebalance as they stop, and one as they are back
            spared |= {generation.seq for generation in run[1:-1]}
            largest = max(largest, len(restarted))
            # members that stay take over, as they did
            if len(restarted) >= max(each.n_members for each in run):
                absent_ms = max(away[each.seq] for each in run) + _BROKER_DELAY_MS
                partitions = max(each.n_partitions for each in run)
                added_ms += partitions * group.habits.standstill_ms(absent_ms)
    if not spared:
        return None
    return _Change(
        f"stop all clients of a deployment, then start them (up to {largest} at once)",
        frozenset(spared),
        Price(added_ms, back=largest),
    )


def _runs(timeline: Sequence[TimelineGeneration]) -> Iterator[list[TimelineGeneration]]:
    run: list[TimelineGeneration] = []
    for generation in timeline:
        if run and generation.ts_ms - run[-1].ts_ms > _ROLL_MS:
            yield run
            run = []
        run.append(generation)
    if run:
        yield run


def _of_assignors(
    group: _Group, actual: AssignorTotals | None, choices: Sequence[AssignorTotals]
) -> Iterator[Advice]:
    if actual is None:
        return
    # the assignors that members can switch to without changing the protocol
    alike = [each for each in choices if each.is_cooperative == actual.is_cooperative]
    best = min(alike, key=lambda each: (each.moves, each.revoked), default=actual)
    if actual.moves - best.moves > _LEAST_SHARE * actual.moves:
        yield _instead(OTHER_ASSIGNOR, group, actual, best)
    if actual.is_cooperative:
        return
    cooperative = (each for each in choices if each.is_cooperative)
    kept = min(cooperative, key=lambda each: (each.revoked, each.moves), default=actual)
    if actual.revoked - kept.revoked > _LEAST_SHARE * actual.revoked:
        yield _instead(COOPERATIVE, group, actual, kept)


def _instead(advice: str, group: _Group, actual: AssignorTotals, other: AssignorTotals) -> Advice:
    revoked = max(0, actual.revoked - other.revoked)
    # a partition that is not revoked does not stand still; one that moves in the cooperative protocol waits for a second round
    each_ms = sum(each.stalled_ms for each in group.timeline) / max(1, actual.revoked)
    rounds = other.moves if advice == COOPERATIVE else 0
    spared_ms, added_ms = round(revoked * each_ms), round(rounds * each_ms)
    return Advice(
        advice,
        f"partition.assignment.strategy={other.assignor}",
        rebalances=0,
        moves=max(0, actual.moves - other.moves),
        revoked=revoked,
        spared_ms=spared_ms,
        added_ms=added_ms,
        late_spared=group.late(spared_ms),
        late_added=group.late(added_ms),
        back=0,
        gone=0,
        evidence=tuple(generation.seq for generation in group.timeline if generation.n_members),
    )


def advice_row(group_id: str, advice: Advice, counted: int) -> tuple[Any, ...]:
    """Lay advice out as a row of its table; `counted` is how many rebalances there were."""
    return (
        *(group_id, advice.advice, advice.setting, advice.pays),
        *(advice.rebalances, advice.moves, advice.revoked),
        *(advice.spared_ms, advice.added_ms, advice.late_spared, advice.late_added),
        *(advice.back, advice.gone, counted, advice.evidence),
    )
