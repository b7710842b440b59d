"""Find rebalance storms in one group's history: many rebalances in a short time that stand out, and who is behind them."""

import re
from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import lru_cache
from itertools import pairwise
from math import ceil
from typing import Any, Final, NamedTuple

from groupsdk.history.explain.changes import Cause
from groupsdk.history.explain.timeline.rows import TimelineGeneration, TimelineMembership
from groupsdk.history.times import micros


_HABIT: Final = 4
"""A history of at least this many windows has a usual rate to compare with."""
_UNUSUAL: Final = 5
"""Rebalancing this many times as often as otherwise is unusual."""
_SHORT: Final = 4
"""A membership is short if the history is at least this many times as long."""
_QUIET: Final = 3
"""A pause this many times the usual one ends a storm."""
_USUAL: Final = 0.9
_NOT_THEIRS: Final = frozenset(
    {str(Cause.COORDINATOR_RESTART), str(Cause.STATIC_REPLACED), "group_deleted"}
)
"""Ends of memberships that the client did not cause."""
_SEPARATORS: Final = re.compile(r"([-._:@/ ]+)")
_NUMBERED: Final = re.compile(r"([a-zA-Z]*[aeiouyAEIOUY][a-zA-Z]*)\d{1,3}")
_SHORT_NAME: Final = re.compile(r"([a-zA-Z]+)\d{1,3}")
_RUN: Final = re.compile(r"\*(?:[-._:@/ ]+\*)+")
_ANY: Final = "*"


class Storm(NamedTuple):
    """Many rebalances within a short time, from the first to the last; `causes` counts them by cause."""

    start_ms: int
    end_ms: int
    first_seq: int
    last_seq: int
    generations: int
    moves: int
    causes: dict[str, int]
    culprit_client: str | None
    """The client id, or if it changes each time, its pattern with `*` for the part that changes."""
    culprit_changes: int | None
    culprit_clients: int | None
    """How often the members of so many client ids joined and left."""
    culprit_host: str | None
    downtime_ms: int
    stalled_ms: int = 0


def storms(
    rebalances: Sequence[TimelineGeneration],
    memberships: Sequence[TimelineMembership],
    *,
    generations: int,
    window_ms: int,
) -> Iterator[Storm]:
    """Find the storms of one group.

    Rebalances are dense if there are `generations` of them within `window_ms`; a pause much longer than usual ends
    one run and begins the next. A run is a storm if most of its rebalances were caused by short memberships or by
    rejoins without a change, or if the group rebalances far more often in it than otherwise. A group that starts or
    stops within a log not much longer than that is not a storm.
    """
    # the record written before the first join is not a rebalance
    counted = [each for each in rebalances if each.cause != str(Cause.CREATED)]
    if len(counted) < generations:
        return
    life_ms = counted[-1].ts_ms - counted[0].ts_ms
    short_ms = min(window_ms, life_ms / _SHORT)
    short = [each for each in memberships if 0 <= each.stay_ms < short_ms]
    restless = {seq for each in short for seq in _changes(each)}
    restless |= {each.seq for each in counted if each.cause == str(Cause.REJOIN)}
    of_short, of_all = _Changes(short), _Changes(memberships)
    for run in _dense(counted, generations, window_ms):
        lasted_ms = max(run[-1].ts_ms - run[0].ts_ms, 1)
        others, others_ms = len(counted) - len(run), life_ms - lasted_ms
        unusual = (
            life_ms >= _HABIT * window_ms
            and len(run) * others_ms > _UNUSUAL * others * lasted_ms
            and others_ms > 0
        )
        if unusual or 2 * sum(each.seq in restless for each in run) > len(run):
            yield _storm(run, of_all, of_short)


def _changes(membership: TimelineMembership) -> tuple[int, ...]:
    """Return the generations that a member caused by joining and leaving."""
    if membership.stay_ms < 0 and not membership.end_reason:
        return (membership.first_seq,)
    return (membership.first_seq, membership.last_seq + 1)


def _dense(
    counted: Sequence[TimelineGeneration], many: int, window_ms: int
) -> Iterator[Sequence[TimelineGeneration]]:
    """Yield the runs of dense rebalances, split where they pause."""
    last = -1
    start = 0
    for place in range(len(counted) - many + 1):
        if counted[place + many - 1].ts_ms - counted[place].ts_ms > window_ms:
            continue
        if place > last:
            if last >= 0:
                yield from _cut(counted[start : last + 1], many, window_ms)
            start = place
        last = place + many - 1
    if last >= 0:
        yield from _cut(counted[start : last + 1], many, window_ms)


def _cut(
    run: Sequence[TimelineGeneration], many: int, window_ms: int
) -> Iterator[Sequence[TimelineGeneration]]:
    pauses = [after.ts_ms - before.ts_ms for before, after in pairwise(run)]
    usual = sorted(pauses)[ceil(_USUAL * len(pauses)) - 1] if pauses else 0
    quiet_ms = max(window_ms / many, _QUIET * usual)
    start = 0
    for place, pause in enumerate([*pauses, quiet_ms + 1], 1):
        if pause > quiet_ms:
            if place - start >= many:
                yield run[start:place]
            start = place


class _Changes:
    """Index of the memberships that begin or end in a run of generations."""

    def __init__(self, memberships: Sequence[TimelineMembership]) -> None:
        self._memberships = memberships
        self._seqs: array[int] | None = None
        self._order: list[int] = []

    def within(self, seqs: Set[int]) -> Iterator[TimelineMembership]:
        """Yield the membership of each join or leave caused by the client; a membership may be yielded twice."""
        if self._seqs is None:
            changes = [
                (seq, place)
                for place, each in enumerate(self._memberships)
                for seq in (
                    _changes(each) if each.end_reason not in _NOT_THEIRS else (each.first_seq,)
                )
            ]
            changes.sort()
            self._seqs = array("q", [seq for seq, _ in changes])
            self._order = [place for _, place in changes]
        first = bisect_left(self._seqs, min(seqs))
        last = bisect_left(self._seqs, max(seqs) + 1)
        for seq, place in zip(self._seqs[first:last], self._order[first:last], strict=True):
            if seq in seqs:
                yield self._memberships[place]


def _storm(run: Sequence[TimelineGeneration], memberships: _Changes, short: _Changes) -> Storm:
    within = {each.seq for each in run}
    name, changes, clients, host = (
        _culprit(short.within(within)) or _culprit(memberships.within(within)) or _NOBODY
    )
    return Storm(
        run[0].ts_ms,
        run[-1].ts_ms,
        run[0].seq,
        run[-1].seq,
        len(run),
        sum(each.moved for each in run),
        dict(Counter(each.cause for each in run)),
        name,
        changes,
        clients,
        host,
        sum(each.gap_ms for each in run),
        sum(each.stalled_ms for each in run),
    )


_Culprit = tuple[str | None, int | None, int | None, str | None]
_NOBODY: Final[_Culprit] = (None, None, None, None)


def _culprit(changing: Iterable[TimelineMembership]) -> _Culprit | None:
    found: defaultdict[tuple[str, str], list[TimelineMembership]] = defaultdict(list)
    for each in changing:
        pattern = pattern_of(each.client_id)
        # ids that have nothing in common are distinguished by host
        found[pattern, each.client_host if pattern == _ANY else ""].append(each)
    if not found:
        return None
    # the name breaks ties, so that a second run returns the same client
    (pattern, _), changes = max(found.items(), key=lambda each: (len(each[1]), each[0]))
    if pattern == _ANY:
        pattern, changes = _numbered(changes)
    ids = Counter(each.client_id for each in changes)
    commonest, times = max(ids.items(), key=lambda each: (each[1], each[0]))
    hosts = {each.client_host for each in changes}
    host = hosts.pop() if len(hosts) == 1 else None
    if 2 * times >= len(changes):
        return commonest, times, 1, host
    return pattern, len(changes), len(ids), host


def _numbered(changes: list[TimelineMembership]) -> tuple[str, list[TimelineMembership]]:
    """Distinguish numbered clients ("m1", "m2") from those whose ids have nothing in common: one such id might be random."""
    alike: defaultdict[str, list[TimelineMembership]] = defaultdict(list)
    for each in changes:
        match = _SHORT_NAME.fullmatch(each.client_id)
        if match is not None:
            alike[match[1]].append(each)
    for letters, mine in alike.items():
        if 2 * len(mine) > len(changes) and len({each.client_id for each in mine}) > 1:
            return f"{letters}{_ANY}", mine
    return _ANY, changes


def storm_row(group_id: str, storm: Storm) -> tuple[Any, ...]:
    return (
        group_id,
        micros(storm.start_ms),
        micros(storm.end_ms),
        storm.first_seq,
        storm.last_seq,
        storm.generations,
        storm.moves,
        list(storm.causes.items()),
        storm.culprit_client,
        storm.culprit_changes,
        storm.culprit_clients,
        storm.culprit_host,
        storm.downtime_ms,
        storm.stalled_ms,
    )


@lru_cache(maxsize=4096)
def pattern_of(client_id: str) -> str:
    """Return the constant part of a client id that changes with each start, with `*` for numbers, hexadecimal digits and the random
    letters of pod names.
    """
    parts = [
        part if place % 2 else _part(part)
        for place, part in enumerate(_SEPARATORS.split(client_id))
    ]
    return _RUN.sub(_ANY, "".join(parts))


def _part(part: str) -> str:
    if any(each.isdigit() for each in part):
        numbered = _NUMBERED.fullmatch(part)
        return f"{numbered[1]}*" if numbered is not None and len(numbered[1]) > 2 else _ANY
    if len(part) > 3 and not set(part.lower()) & set("aeiouy"):
        return _ANY
    return _ANY if len(part) > 7 and set(part.lower()) <= set("abcdef") else part
