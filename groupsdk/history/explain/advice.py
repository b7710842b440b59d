"""Advise on changes that would have avoided rebalances of a group, by replaying its timeline with the change made."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final, NamedTuple

from groupsdk.history.explain.assignments import CLASSIC
from groupsdk.history.explain.changes import Cause


STATIC_MEMBERSHIP: Final = "static_membership"
LONGER_SESSION: Final = "longer_session"
INITIAL_DELAY: Final = "initial_delay"
RESTART_TOGETHER: Final = "restart_together"
OTHER_ASSIGNOR: Final = "other_assignor"
COOPERATIVE: Final = "cooperative"

SESSIONS_MS: Final = (10_000, 30_000, 45_000, 60_000, 120_000, 300_000, 600_000, 1_800_000)
"""The session timeouts to try; the last one is the default maximum of Kafka's brokers."""
DELAYS_MS: Final = (3_000, 6_000, 10_000, 30_000, 60_000)
"""The values of group.initial.rebalance.delay.ms to try."""
_MOST: Final = 0.9
"""The smallest value that spares this share of what the largest would is advised."""
_ROLL_MS: Final = 120_000
"""Restarts no further apart than this belong to one deployment."""
_ROLLED: Final = 3
"""This many clients that restart one after the other are a deployment."""
_WITH_STATIC_MEMBERS: Final = frozenset({CLASSIC, "consumer"})
_FEW: Final = 2
_LEAST_SHARE: Final = 0.1
"""Advice that spares less than this share is dropped."""


class TimelineGeneration(NamedTuple):
    """One generation on a group's timeline; `gap_ms` is the median gap between commits around it, over all partitions."""

    seq: int
    ts_ms: int
    cause: str
    moved: int
    gap_ms: int
    n_members: int
    is_other: bool
    """Whether it has a cause besides members joining and leaving."""


class TimelineMembership(NamedTuple):
    """One membership on a group's timeline."""

    client_id: str
    client_host: str
    instance_id: str | None
    first_seq: int
    last_seq: int
    end_seq: int
    """The first generation without the member; -1: it has not ended."""
    start_ms: int
    """-1: unknown."""
    end_ms: int
    """-1: it has not ended, or the time is unknown."""
    silent_ms: int
    """How long it had been silent at its end; 0 if it left."""
    end_reason: str


class Advice(NamedTuple):
    """The rebalances, moves and revocations that a change would have avoided, partitions that members got back included."""

    advice: str
    """One of the constants of this module."""
    setting: str
    rebalances: int
    moves: int
    revoked: int
    downtime_ms: int
    """The sum of the typical commit gaps around those rebalances."""
    evidence: tuple[int, ...]
    """The `seq` of the generations."""


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
    actual: AssignorTotals | None = None,
    choices: Sequence[AssignorTotals] = (),
) -> Iterator[Advice]:
    """Yield the changes that would have avoided rebalances, moves or revocations of one group, the most first.

    Each piece of advice stands alone: several may spare the same rebalances, so their numbers do not add up. In the newer protocols
    the broker sets the session timeout; only classic groups wait for their first members, and share and streams groups have no
    static members. `actual` has the moves and revocations that happened; None: not replayed.
    """
    returns = list(returns_of(memberships))
    classic = protocol == CLASSIC
    session = "session.timeout.ms" if classic else f"group.{protocol}.session.timeout.ms"
    static = None
    if protocol in _WITH_STATIC_MEMBERS:
        static = _static(timeline, memberships, returns, session)
    found = [
        _spared(STATIC_MEMBERSHIP, timeline, static),
        _spared(LONGER_SESSION, timeline, _longer(timeline, memberships, returns, session)),
        _spared(INITIAL_DELAY, timeline, _delayed(timeline, memberships) if classic else None),
        _spared(RESTART_TOGETHER, timeline, _together(timeline, memberships, returns)),
    ]
    helpful = [each for each in found if each is not None]
    helpful += _of_assignors(timeline, actual, choices)
    yield from sorted(helpful, key=lambda each: (-each.rebalances, -each.revoked - each.moves))


def _spared(
    advice: str, timeline: Sequence[TimelineGeneration], found: tuple[str, frozenset[int]] | None
) -> Advice | None:
    if found is None:
        return None
    setting, seqs = found
    if len(seqs) < _FEW or len(seqs) < _LEAST_SHARE * len(timeline):
        return None
    mine = [generation for generation in timeline if generation.seq in seqs]
    return Advice(
        advice,
        setting,
        len(mine),
        sum(generation.moved for generation in mine),
        0,
        sum(generation.gap_ms for generation in mine),
        tuple(generation.seq for generation in mine),
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


def _least_of(
    values: Iterable[int], spared: Mapping[int, frozenset[int]]
) -> tuple[int, frozenset[int]] | None:
    most = max((len(each) for each in spared.values()), default=0)
    if not most:
        return None
    value = next(each for each in values if len(spared[each]) >= _MOST * most)
    return value, spared[value]


def _static(
    timeline: Sequence[TimelineGeneration],
    memberships: Sequence[TimelineMembership],
    returns: Sequence[_Return],
    session: str,
) -> tuple[str, frozenset[int]] | None:
    """Replay with group.instance.id: a client back within its session keeps its assignment without a rebalance."""
    mine = [each for each in returns if not each.membership.instance_id]
    found = _least_of(SESSIONS_MS, _by_session(timeline, memberships, mine))
    if found is None:
        return None
    return f"group.instance.id, one for each client; {session}={found[0]}", found[1]


def _longer(
    timeline: Sequence[TimelineGeneration],
    memberships: Sequence[TimelineMembership],
    returns: Sequence[_Return],
    session: str,
) -> tuple[str, frozenset[int]] | None:
    """Replay with a session that outlasts the silence of members that expired and came back."""
    mine = [each for each in returns if each.membership.end_reason == Cause.EXPIRY]
    found = _least_of(SESSIONS_MS, _by_session(timeline, memberships, mine))
    return None if found is None else (f"{session}={found[0]}", found[1])


def _by_session(
    timeline: Sequence[TimelineGeneration],
    memberships: Sequence[TimelineMembership],
    returns: Sequence[_Return],
) -> dict[int, frozenset[int]]:
    """Return the spared generations for each session timeout: those of clients back within it."""
    spared: dict[int, frozenset[int]] = {}
    # a session that covers no more clients spares the same as the one before
    by_count: dict[int, frozenset[int]] = {0: frozenset()}
    for session_ms in SESSIONS_MS:
        back = [each for each in returns if each.away_ms < session_ms]
        if len(back) not in by_count:
            by_count[len(back)] = _untouched(timeline, memberships, back)
        spared[session_ms] = by_count[len(back)]
    return spared


def _delayed(
    timeline: Sequence[TimelineGeneration], memberships: Sequence[TimelineMembership]
) -> tuple[str, frozenset[int]] | None:
    """Replay with a longer delay of a group's first rebalance, which is extended while members join."""
    gone = {membership.end_seq for membership in memberships if membership.end_seq >= 0}
    spared: dict[int, frozenset[int]] = {}
    for delay_ms in DELAYS_MS:
        seqs: set[int] = set()
        starting = False
        for before, generation in pairwise(timeline):
            is_join = (
                generation.cause == Cause.JOIN
                and not generation.is_other
                and generation.seq not in gone
            )
            if before.n_members == 0:
                starting = is_join
            elif starting and is_join and generation.ts_ms - before.ts_ms <= delay_ms:
                # the one before it would not have happened: its members would have waited for these
                seqs.add(before.seq)
            else:
                starting = False
        if timeline and timeline[0].n_members and timeline[0].cause == Cause.JOIN:
            seqs |= _first_burst(timeline, gone, delay_ms)
        spared[delay_ms] = frozenset(seqs)
    found = _least_of(DELAYS_MS, spared)
    return None if found is None else (f"group.initial.rebalance.delay.ms={found[0]}", found[1])


def _first_burst(timeline: Sequence[TimelineGeneration], gone: set[int], delay_ms: int) -> set[int]:
    """Return the generations that a delay spares if the group's first generation is the first of the log."""
    seqs: set[int] = set()
    for before, generation in pairwise(timeline):
        is_join = (
            generation.cause == Cause.JOIN
            and not generation.is_other
            and generation.seq not in gone
        )
        if not is_join or generation.ts_ms - before.ts_ms > delay_ms:
            break
        seqs.add(before.seq)
    return seqs


def _together(
    timeline: Sequence[TimelineGeneration],
    memberships: Sequence[TimelineMembership],
    returns: Sequence[_Return],
) -> tuple[str, frozenset[int]] | None:
    """Replay rolling deployments as one restart of all clients at once."""
    mine = _untouched(timeline, memberships, returns)
    clients: defaultdict[int, set[tuple[str, str]]] = defaultdict(set)
    for each in returns:
        who = each.membership.client_id, each.membership.client_host
        clients[each.membership.end_seq].add(who)
        clients[each.again.first_seq].add(who)
    spared: set[int] = set()
    largest = 0
    for run in _runs([generation for generation in timeline if generation.seq in mine]):
        restarted = {who for generation in run for who in clients[generation.seq]}
        if len(restarted) >= _ROLLED and len(run) > _FEW:
            # one rebalance as they stop, and one as they are back
            spared |= {generation.seq for generation in run[1:-1]}
            largest = max(largest, len(restarted))
    if not spared:
        return None
    return (
        f"stop all clients of a deployment, then start them (up to {largest} at once)",
        frozenset(spared),
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
    timeline: Sequence[TimelineGeneration],
    actual: AssignorTotals | None,
    choices: Sequence[AssignorTotals],
) -> Iterator[Advice]:
    if actual is None:
        return
    # the assignors that members can switch to without changing the protocol
    alike = [each for each in choices if each.is_cooperative == actual.is_cooperative]
    best = min(alike, key=lambda each: (each.moves, each.revoked), default=actual)
    if actual.moves - best.moves > _LEAST_SHARE * actual.moves:
        yield _instead(OTHER_ASSIGNOR, timeline, actual, best)
    if actual.is_cooperative:
        return
    cooperative = (each for each in choices if each.is_cooperative)
    kept = min(cooperative, key=lambda each: (each.revoked, each.moves), default=actual)
    if actual.revoked - kept.revoked > _LEAST_SHARE * actual.revoked:
        yield _instead(COOPERATIVE, timeline, actual, kept)


def _instead(
    advice: str,
    timeline: Sequence[TimelineGeneration],
    actual: AssignorTotals,
    other: AssignorTotals,
) -> Advice:
    return Advice(
        advice,
        f"partition.assignment.strategy={other.assignor}",
        0,
        max(0, actual.moves - other.moves),
        max(0, actual.revoked - other.revoked),
        0,
        tuple(generation.seq for generation in timeline if generation.n_members),
    )


def advice_row(group_id: str, advice: Advice, counted: int) -> tuple[Any, ...]:
    """Lay advice out as a row of its table; `counted` is how many rebalances there were."""
    return (
        group_id,
        advice.advice,
        advice.setting,
        advice.rebalances,
        advice.moves,
        advice.revoked,
        advice.downtime_ms,
        counted,
        advice.evidence,
    )
