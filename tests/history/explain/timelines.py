"""Take records that are written by hand through `follow_groups`, and look at what comes out."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from examples.history_log import Pair
from groupsdk.assignment import AssignorLike
from groupsdk.history.explain.assignor_replay import (
    Candidate,
    GroupReplay,
    PastGeneration,
    ReplayRow,
)
from groupsdk.history.explain.timeline.group_timeline import GroupTimeline
from groupsdk.history.explain.timeline.rows import (
    DepartureRow,
    GenerationRow,
    GroupRecord,
    MemberRow,
    MembershipRow,
    RejectRow,
    Row,
)


def records(
    pairs: Iterable[Pair], group: str = "g", epochs: Iterable[int] = ()
) -> list[GroupRecord]:
    """Place records in a log, a second apart."""
    leader_epochs = list(epochs)
    return [
        GroupRecord(
            group,
            7,
            place,
            1000 * place,
            leader_epochs[place] if leader_epochs else 0,
            key,
            value,
        )
        for place, (key, value) in enumerate(pairs)
    ]


def follow_groups(records: Iterable[GroupRecord]) -> Iterator[Row]:
    """Replay groups, one after the other; a record that stands in the log twice counts once."""
    group: GroupTimeline | None = None
    last: GroupRecord | None = None
    for record in records:
        if group is None or last is None or record.group_id != last.group_id:
            if group is not None:
                yield from group.close()
            group = GroupTimeline()
        elif (record.partition, record.offset) == (last.partition, last.offset):
            continue
        last = record
        yield from group.take(record)
    if group is not None:
        yield from group.close()


def replay(
    generations: Iterable[PastGeneration], assignors: Sequence[AssignorLike]
) -> Iterator[ReplayRow]:
    """Replay assignors over the generations of groups, one group after the other."""
    candidates = [Candidate(assignor) for assignor in assignors]
    group: GroupReplay | None = None
    for generation in generations:
        if group is None or group.group_id != generation.group_id:
            group = GroupReplay(generation.group_id, candidates)
        yield from group.take(generation)


def generation_row(**fields: Any) -> GenerationRow:
    """Make a generation of a classic group of one member."""
    row = GenerationRow(
        group_id="g",
        protocol="classic",
        protocol_type="consumer",
        incarnation=0,
        seq=5,
        generation=5,
        ts_ms=0,
        state_ts_ms=-1,
        assignor="range",
        leader="a",
        n_members=1,
        n_partitions=1,
        joined=0,
        gone=0,
        changed=0,
        causes=(),
        missing_before=0,
        coordinator_changed=False,
        balance_stddev=0.0,
        is_empty=False,
        converged_ms=-1,
        partition=0,
        offset=100,
        leader_epoch=0,
    )
    return row._replace(**fields)


def walked(*pairs: Pair, epochs: Iterable[int] = ()) -> list[Row]:
    """Follow one group through its records."""
    return list(follow_groups(records(pairs, epochs=epochs)))


def generations(rows: Iterable[Row]) -> list[GenerationRow]:
    """Take the generations."""
    return [row for row in rows if isinstance(row, GenerationRow)]


def causes(rows: Iterable[Row]) -> list[list[str]]:
    """Take the causes of each generation."""
    return [[str(cause) for cause in row.causes] for row in generations(rows)]


def members(rows: Iterable[Row]) -> list[MemberRow]:
    """Take the members of each generation."""
    return [row for row in rows if isinstance(row, MemberRow)]


def memberships(rows: Iterable[Row]) -> list[MembershipRow]:
    """Take the stays."""
    return [row for row in rows if isinstance(row, MembershipRow)]


def departures(rows: Iterable[Row]) -> list[DepartureRow]:
    """Take the members that are gone without a successor."""
    return [row for row in rows if isinstance(row, DepartureRow)]


def rejects(rows: Iterable[Row]) -> list[RejectRow]:
    """Take what could not be decoded."""
    return [row for row in rows if isinstance(row, RejectRow)]
