"""Explain a group: every table of it, in one pass over its records and the sums of its commits."""

import statistics
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from groupsdk.assignment import AssignorLike
from groupsdk.history.explain import SIZES
from groupsdk.history.explain.advice import (
    Advice,
    AssignorTotals,
    Habits,
    advice_row,
    advise,
)
from groupsdk.history.explain.assignments import GroupAssignments, MoveRow
from groupsdk.history.explain.assignor_replay import ACTUAL, Candidate, ReplaySums
from groupsdk.history.explain.causes import (
    LoggedReason,
    decide_cause,
    logged_reason,
    lost_coordinator,
    with_reason,
)
from groupsdk.history.explain.changes import Cause
from groupsdk.history.explain.commit_spans import (
    BEFORE,
    CommitPart,
    CommitSpans,
    Progress,
    Span,
    Standstill,
    TopicPartition,
    median,
)
from groupsdk.history.explain.departures import (
    Departure,
    LoggedDeparture,
    Silence,
    classify_departure,
    silence_of,
    silence_size,
    with_logged_departure,
)
from groupsdk.history.explain.storms import Storm, storm_row, storms
from groupsdk.history.explain.timeline.classic import is_cooperative
from groupsdk.history.explain.timeline.group_timeline import KNOWN_TYPES, GroupTimeline
from groupsdk.history.explain.timeline.member import CLASSIC, CONSUMER
from groupsdk.history.explain.timeline.rows import (
    DepartureRow,
    GenerationRow,
    GroupRecord,
    MemberRow,
    MembershipRow,
    RejectRow,
    Row,
    TimelineGeneration,
    TimelineMembership,
)
from groupsdk.history.times import micros, valid_ms


STORM_GENERATIONS: Final = 5
"""This many generations..."""
STORM_WINDOW_MS: Final = 300_000
"""...within this time are a storm."""
KEPT_PER_GROUP: Final = 50_000
"""How many generations and memberships of one group are held at a time: storms are found within them, and advice is
based on the last ones."""
RECENT: Final = 100
"""How many of a group's last rebalances the table `groups` has the times of."""
_OF_MEMBERS: Final = frozenset(
    str(cause)
    for cause in (
        *(Cause.CLIENT_RESTART, Cause.LEAVE, Cause.EXPIRY, Cause.POLL_TIMEOUT, Cause.JOIN),
        *(Cause.STATIC_REPLACED, Cause.REJOIN, Cause.COOPERATIVE_FOLLOWUP),
    )
)
"""The causes that are members joining or leaving, or follow from it."""
_USUAL: Final = 1_000
"""So many usual times between commits are kept, the last ones..."""
_EACH: Final = 16
"""...of the first generations, and then of every one in so many."""
UNDECODABLE: Final = "undecodable"
MISSING: Final = "missing_generations"
UNKNOWN: Final = "type "
"""The prefix of a tally of an unknown record type."""


LogEntry = LoggedReason | LoggedDeparture
"""An entry of brokers' logs."""
Entry = GroupRecord | CommitPart | LogEntry
"""An input of `explain`: each group's entries together, those of brokers' logs first, the others in log order."""


@dataclass(frozen=True, slots=True)
class Context:
    """The facts about the whole log and the user's options that groups are explained with.

    `took_over`: when the leader of a partition of the log took over, in milliseconds, by partition and leader epoch.
    `session_timeout_ms`: for members whose records do not have it; None: the one learned from the log, if any.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    took_over: Mapping[tuple[int, int], int] = field(default_factory=dict)
    assignors: Sequence[AssignorLike] = ()
    session_timeout_ms: int | None = None
    learned_session_timeout_ms: int | None = None
    storm_generations: int = STORM_GENERATIONS
    storm_window_ms: int = STORM_WINDOW_MS


TableRows = defaultdict[str, list[Any]]
"""Rows by table: tuples in the order of the columns; `assignments` has an `AssignmentRow` for each."""


def explain(
    entries: Iterable[Entry], context: Context, tally: Counter[tuple[int, str]]
) -> Iterator[TableRows]:
    """Make the rows of all tables that describe single groups, in the same lists each time: clear those that you have consumed.

    Holds one group at a time: one generation of it, when each of its partitions was last committed, and a few numbers
    for each of its last `KEPT_PER_GROUP` generations and stays, which storms are found in and advice is drawn from. `tally` counts by
    partition of the log what is missing or cannot be decoded.
    """
    return _follow(entries, context, tally, learning=False)


def silence_sizes(entries: Iterable[Entry], context: Context) -> Iterator[TableRows]:
    """Yield the sizes of members' silences in a group's `entries`, for `departures.learned_session_timeout`."""
    return _follow(entries, context, Counter(), learning=True)


def _follow(
    entries: Iterable[Entry],
    context: Context,
    tally: Counter[tuple[int, str]],
    *,
    learning: bool,
) -> Iterator[TableRows]:
    tables: TableRows = defaultdict(list)
    group: ExplainedGroup | None = None
    candidates = [Candidate(each) for each in context.assignors]
    for entry in entries:
        if group is None or entry.group_id != group.group_id:
            if group is not None:
                group.close()
                yield tables
            group = ExplainedGroup(
                entry.group_id, context, tables, tally, candidates, learning=learning
            )
        if group.take(entry):
            yield tables
    if group is not None:
        group.close()
        yield tables


class ExplainedGroup:
    """One group on its way through the log; `tally` is filled in place, and `learning` makes the rows of `SIZES` alone."""

    def __init__(
        self,
        group_id: str,
        context: Context,
        tables: TableRows,
        tally: Counter[tuple[int, str]],
        candidates: Sequence[Candidate] = (),
        *,
        learning: bool = False,
    ) -> None:
        self.group_id = group_id
        self._context = context
        self._tables = tables
        self._cooperative = {each.name for each in candidates if each.is_cooperative}
        self._tally = tally
        self._learning = learning
        self._group = GroupTimeline()
        self._spans = CommitSpans()
        self._assignments = GroupAssignments(group_id, context.names, candidates)
        self._sums = ReplaySums(group_id)
        self._reasons: defaultdict[int, list[LoggedReason]] = defaultdict(list)
        self._ends: defaultdict[str, list[LoggedDeparture]] = defaultdict(list)
        self._rows: list[Row] = []
        self._seq = BEFORE
        self._place = (-1, -1)
        self._previous_ms: int | None = None
        self._began_ms: int | None = None
        self._timeline: list[TimelineGeneration] = []
        self._memberships: list[TimelineMembership] = []
        self._usual: deque[float] = deque(maxlen=_USUAL)
        self._protocol = CLASSIC
        self._is_cooperative = False
        self._newest: GenerationRow | None = None
        self._cause: str | None = None
        self._topics: set[str] = set()
        self._recent: deque[int] = deque(maxlen=RECENT)
        self._rebalances = self._moved = self._stalled_ms = 0
        self._storm: Storm | None = None

    def take(self, entry: Entry) -> bool:
        """Process the next entry; returns whether it made rows."""
        if isinstance(entry, CommitPart):
            return self._take_commits(entry)
        if isinstance(entry, LoggedReason):
            self._reasons[entry.generation].append(entry)
        elif isinstance(entry, LoggedDeparture):
            self._ends[entry.member_id].append(entry)
        elif (entry.partition, entry.offset) != self._place:
            # a record that is read twice, as from two copies of a segment, counts once
            self._place = entry.partition, entry.offset
            for row in self._group.take(entry):
                if isinstance(row, RejectRow):
                    self._reject(row, entry)
                else:
                    self._rows.append(row)
            if self._group.generations > self._seq + 1:
                if len(self._timeline) + len(self._memberships) >= KEPT_PER_GROUP:
                    self._find_storms()
                    self._timeline.clear()
                    self._memberships.clear()
                self._finish()
                self._seq += 1
                return True
        return False

    def _take_commits(self, part: CommitPart) -> bool:
        found = self._spans.take(part)
        if found is None or self._learning:
            return False
        self._stalled_ms += round(found.stalled_ms)
        row = _standstill_row(self.group_id, self._seq, found, None, None)
        self._tables["standstills"].append(row)
        return True

    def close(self) -> None:
        self._rows += self._group.close()
        self._finish()
        if self._learning:
            return
        tables = self._tables
        tables["replay_summary"] += self._sums.rows()
        self._find_storms()
        counted = sum(step.cause != Cause.CREATED for step in self._timeline)
        tables["advice"] += [advice_row(self.group_id, each, counted) for each in self._advice()]
        tables["progress"] += [
            _progress_row(self.group_id, place, each)
            for place, each in self._spans.partitions.items()
        ]
        tables["groups"].append(self._group_row())

    def _find_storms(self) -> None:
        for storm in self._storms():
            self._storm = storm
            self._tables["storms"].append(storm_row(self.group_id, storm))

    def _storms(self) -> Iterator[Storm]:
        options = self._context
        if len(self._timeline) < options.storm_generations:
            return iter(())
        return storms(
            self._timeline,
            self._memberships,
            generations=options.storm_generations,
            window_ms=options.storm_window_ms,
        )

    def _advice(self) -> Iterator[Advice]:
        totals = {name: (moves, revoked) for name, moves, revoked in self._sums.totals()}
        actual = totals.pop(ACTUAL, None)
        return advise(
            self._timeline,
            self._memberships,
            protocol=self._protocol,
            habits=Habits(
                statistics.median(self._usual) if self._usual else 0.0,
                self._spans.records_per_ms(),
            ),
            actual=None
            if actual is None
            else AssignorTotals(ACTUAL, *actual, is_cooperative=self._is_cooperative),
            choices=[
                AssignorTotals(name, *each, is_cooperative=name in self._cooperative)
                for name, each in totals.items()
            ],
        )

    def _finish(self) -> None:
        """Make the rows of a generation, as the next one begins and all its commits are known."""
        tables = self._tables
        rows, self._rows = self._rows, []
        generation = next((row for row in rows if isinstance(row, GenerationRow)), None)
        silences = list(self._silences(rows, generation))
        if self._learning:
            tables[SIZES] += [size for size in map(silence_size, silences) if size is not None]
            self._end(generation)
            return
        departures = [self._departure(each) for each in silences]
        tables["departures"] += [
            _departure_row(each.row, departure)
            for each, departure in zip(silences, departures, strict=True)
        ]
        lost = None
        if generation is not None:
            lost = lost_coordinator(generation, self._context.took_over, self._spans.working)
        ended = {each.member_id: each for each in departures}
        tables["memberships"] += [
            self._membership(row, ended, lost) for row in rows if isinstance(row, MembershipRow)
        ]
        if generation is not None:
            moved = self._followed(rows, generation)
            generation = self._with_deleted_topics(generation, rows)
            tables["generations"].append(self._generation(generation, departures, moved, lost))
        group_id, seq = self.group_id, self._seq
        tables["commit_spans"] += [
            _span_row(group_id, seq, place, span) for place, span in self._end(generation)
        ]

    def _with_deleted_topics(self, generation: GenerationRow, rows: Sequence[Row]) -> GenerationRow:
        """Tell a deleted topic from a changed subscription: some clients subscribe only to topics that exist.

        With a topic its brokers remove the offsets that were committed of it.
        """
        topics = {each for row in rows if isinstance(row, MemberRow) for each in row.member.topics}
        gone, is_new = self._topics - topics, not topics <= self._topics
        self._topics = topics
        if is_new or not gone or not gone <= self._spans.removed:
            return generation
        causes = tuple(
            Cause.TOPIC_DELETED if each == Cause.SUBSCRIPTION_CHANGE else each
            for each in generation.causes
        )
        return generation._replace(causes=causes)

    def _followed(self, rows: Sequence[Row], generation: GenerationRow) -> int:
        """Make the rows of assignments, moves and assignor replays; returns how many partitions moved."""
        tables, take = self._tables, self._assignments.take
        moves: list[MoveRow] = []
        self._assignments.begin(generation)
        tables["assignments"] += [take(row, moves) for row in rows if isinstance(row, MemberRow)]
        ts = micros(generation.ts_ms)
        tables["moves"] += [self._move(each, ts) for each in moves]
        if generation.protocol_type != CONSUMER:
            tables["payloads"] += [
                _payload_row(generation, row)
                for row in rows
                if isinstance(row, MemberRow) and row.member.payload is not None
            ]
        replayed = list(self._assignments.close())
        for each in replayed:
            self._sums.add(each)
        tables["replay"] += [(*each, ts) for each in replayed]
        return len(moves)

    def _end(self, generation: GenerationRow | None) -> Iterable[tuple[TopicPartition, Span]]:
        if generation is not None:
            self._previous_ms = valid_ms(generation.ts_ms)
            state_ms = valid_ms(generation.state_ts_ms)
            times = [each for each in (state_ms, self._previous_ms) if each is not None]
            # session timers run since all members had joined, a little before the record was written
            self._began_ms = min(times, default=None)
        return self._spans.close(self._seq)

    def _silences(self, rows: Sequence[Row], generation: GenerationRow | None) -> Iterator[Silence]:
        interrupted = generation is not None and generation.coordinator_changed
        for row in rows:
            if isinstance(row, DepartureRow):
                yield silence_of(
                    row,
                    self._spans.before,
                    self._context.names,
                    before_ms=self._began_ms,
                    interrupted=interrupted,
                )

    def _departure(self, silence: Silence) -> Departure:
        departure = classify_departure(
            silence,
            session_timeout_ms=self._context.session_timeout_ms,
            learned_session_timeout_ms=self._context.learned_session_timeout_ms,
        )
        return with_logged_departure(departure, silence, self._ends.get(departure.member_id, ()))

    def _membership(
        self, row: MembershipRow, ended: Mapping[str, Departure], lost: float | None
    ) -> tuple[Any, ...]:
        member = row.member
        reason = row.end_reason
        departure = ended.get(member.member_id) if reason is None and row.end_seq >= 0 else None
        if departure is not None:
            reason = departure.reason
        if reason == Cause.CLIENT_RESTART and lost is not None:
            reason = str(Cause.COORDINATOR_RESTART)
        start_ms, end_ms = valid_ms(row.start_ms), valid_ms(row.end_ms)
        stay_ms = None if start_ms is None or end_ms is None else end_ms - start_ms
        silent_ms = 0
        if departure is not None and departure.reason != Cause.LEAVE:
            silent_ms = departure.silence_ms or 0
        self._memberships.append(
            TimelineMembership(
                client_id=member.client_id,
                client_host=member.client_host,
                instance_id=member.instance_id,
                first_seq=row.first_seq,
                last_seq=row.last_seq,
                end_seq=row.end_seq,
                start_ms=-1 if start_ms is None else start_ms,
                end_ms=-1 if end_ms is None else end_ms,
                silent_ms=silent_ms,
                end_reason=reason or ("" if end_ms is None else str(Cause.UNKNOWN)),
                n_partitions=member.n_partitions,
            )
        )
        return (
            row.group_id,
            row.protocol,
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            row.first_seq,
            row.last_seq,
            row.first_generation,
            row.last_generation,
            micros(row.start_ms),
            micros(row.end_ms),
            stay_ms,
            reason,
            member.session_timeout_ms,
            member.rebalance_timeout_ms,
            member.topics,
            member.assignor_offered,
            row.partition,
            row.offset,
        )

    def _move(self, row: MoveRow, ts: int | None) -> tuple[Any, ...]:
        of = row.of
        place = row.topic, row.partition
        span = self._spans.now.get(place)
        first_ms = None if span is None else span.first_ms
        last_ms = self._spans.last_commit(place, row.from_seq)
        if row.from_seq == of.seq and span is not None:
            # two members had it at the same time
            last_ms = span.last_ms
        return (
            of.group_id,
            of.seq,
            of.generation,
            ts,
            row.topic,
            row.partition,
            row.from_member,
            of.member.member_id,
            row.from_client,
            of.member.client_id,
            of.seq - row.from_seq - 1,
            None if first_ms is None or last_ms is None else first_ms - last_ms,
            row.from_client == of.member.client_id,
            of.partition,
            of.offset,
        )

    def _generation(
        self,
        row: GenerationRow,
        departures: Sequence[Departure],
        moved: int,
        lost: float | None,
    ) -> tuple[Any, ...]:
        ts_ms = valid_ms(row.ts_ms)
        causes = {
            Cause.COORDINATOR_RESTART
            if lost is not None and cause == Cause.CLIENT_RESTART
            else cause
            for cause in row.causes
        }
        causes |= {Cause(each.reason) for each in departures}
        logged = None
        if ts_ms is not None:
            logged = logged_reason(
                self._reasons.get(row.generation, ()), row.generation, ts_ms, self._previous_ms
            )
        verdict = decide_cause(causes, departures, lost, has_hole=row.missing_before > 0)
        if logged is not None:
            verdict = with_reason(verdict, logged)
        stood = list(self._spans.standstills())
        self._tables["standstills"] += [
            _standstill_row(row.group_id, row.seq, each, verdict.primary, verdict.confidence)
            for each in stood
        ]
        stalled_ms = round(sum(each.stalled_ms for each in stood))
        self._sum_up(row, verdict.primary, moved, stalled_ms)
        gaps = self._spans.gaps()
        gap_ms = median(gaps)
        since_ms = None
        if ts_ms is not None and self._previous_ms is not None:
            since_ms = ts_ms - self._previous_ms
        if row.seq < _EACH or row.seq % _EACH == 0:
            usual_ms = self._spans.usual_ms()
            if usual_ms:
                self._usual.append(usual_ms)
        if row.missing_before:
            self._tally[row.partition, MISSING] += row.missing_before
        if ts_ms is not None:
            self._timeline.append(
                TimelineGeneration(
                    seq=row.seq,
                    ts_ms=ts_ms,
                    cause=verdict.primary,
                    moved=moved,
                    gap_ms=gap_ms or 0,
                    n_members=row.n_members,
                    is_other=not _OF_MEMBERS.issuperset(verdict.causes),
                    n_partitions=row.n_partitions,
                    stalled_ms=stalled_ms,
                )
            )
        self._protocol = row.protocol
        self._is_cooperative = row.protocol != CLASSIC or is_cooperative(
            row.protocol_type, row.assignor
        )
        return (
            row.group_id,
            row.protocol,
            row.protocol_type,
            row.incarnation,
            row.seq,
            row.generation,
            micros(row.ts_ms),
            micros(row.state_ts_ms),
            micros(row.converged_ms),
            row.assignor,
            row.leader,
            row.n_members,
            row.n_partitions,
            verdict.primary,
            verdict.causes,
            verdict.evidence,
            verdict.confidence,
            None if logged is None else logged.reason,
            row.joined,
            row.gone,
            row.changed,
            row.missing_before,
            row.coordinator_changed,
            moved,
            row.balance_stddev,
            since_ms,
            gap_ms,
            max(gaps, default=None),
            row.is_empty,
            stalled_ms,
            row.partition,
            row.offset,
        )

    def _sum_up(self, row: GenerationRow, cause: str, moved: int, stalled_ms: int) -> None:
        self._newest, self._cause = row, cause
        self._moved += moved
        self._stalled_ms += stalled_ms
        # the record written before the first join is not a rebalance
        if cause != Cause.CREATED:
            self._rebalances += 1
            if valid_ms(row.ts_ms) is not None:
                self._recent.append(row.ts_ms)

    def _group_row(self) -> tuple[Any, ...]:
        row, storm = self._newest, self._storm
        return (
            self.group_id,
            *(
                (None, None, BEFORE, None, None, None, None)
                if row is None
                else (
                    *(row.protocol, row.protocol_type, row.seq, row.generation, micros(row.ts_ms)),
                    *(row.n_members, row.n_partitions),
                )
            ),
            self._cause,
            sum(not each.is_removed for each in self._spans.partitions.values()),
            *(self._rebalances, self._moved, self._stalled_ms),
            list(map(micros, self._recent)),
            *(
                (None, None, None, None)
                if storm is None
                else (
                    *(micros(storm.end_ms), storm.generations, storm.culprit_client),
                    storm.stalled_ms,
                )
            ),
        )

    def _reject(self, row: RejectRow, record: GroupRecord) -> None:
        known = row.record_type in KNOWN_TYPES
        what = UNDECODABLE if known else f"{UNKNOWN}{row.record_type}"
        self._tally[row.partition, what] += 1
        self._tables["rejects"].append(
            (
                *(row.partition, row.offset, row.group_id, row.record_type, row.reason),
                *(None, 1, record.key, record.value),
            )
        )


def _departure_row(row: DepartureRow, departure: Departure) -> tuple[Any, ...]:
    return (
        *(row.group_id, row.seq, row.generation, micros(row.ts_ms)),
        *(departure.member_id, departure.client_id),
        *(departure.reason, departure.confidence, departure.silence_ms),
    )


def _payload_row(generation: GenerationRow, row: MemberRow) -> tuple[Any, ...]:
    return (
        *(row.group_id, row.seq, row.generation, micros(row.ts_ms), generation.protocol_type),
        *(row.member.member_id, row.member.client_id),
        *(row.member.payload or ()),
        *(row.partition, row.offset),
    )


def _span_row(group_id: str, seq: int, place: TopicPartition, span: Span) -> tuple[Any, ...]:
    return (
        group_id,
        seq,
        *place,
        None if span.first_ms is None else 1000 * span.first_ms,
        None if span.last_ms is None else 1000 * span.last_ms,
        span.last_offset,
        span.commits,
        span.src_partition,
        span.src_offset,
    )


def _standstill_row(
    group_id: str, seq: int, found: Standstill, cause: str | None, confidence: float | None
) -> tuple[Any, ...]:
    return (
        *(group_id, seq, found.topic, found.partition),
        *(micros(found.start_ms), micros(found.end_ms)),
        *(round(found.usual_ms), round(found.stalled_ms), cause, confidence),
    )


def _progress_row(group_id: str, place: TopicPartition, found: Progress) -> tuple[Any, ...]:
    last, usual_ms = found.newest, found.usual_ms
    return (
        *(group_id, *place),
        None if found.first_ms is None else micros(found.first_ms),
        None if last.last_ms is None else micros(last.last_ms),
        *(found.commits, None if found.is_removed else last.last_offset),
        None if usual_ms is None else round(usual_ms),
        round(found.stalled_ms),
    )
