"""Make a group's past of rows of the history's tables, whether they were just made or are read from a run. Pure."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, Final

from groupsdk.verdict.observation import Past, PastAdvice, PastGeneration, PastMembership


Row = Mapping[str, Any]
"""A row by the names of its columns; times are in microseconds since 1970, None if they are unknown."""

MEMBERSHIPS: Final = (
    *("group_id", "protocol", "member_id", "instance_id", "client_id", "client_host"),
    *("first_seq", "last_seq", "first_generation", "last_generation", "start_ts", "end_ts"),
    *("stay_ms", "end_reason", "session_timeout_ms", "rebalance_timeout_ms"),
)
DEPARTURES: Final = (
    *("group_id", "seq", "generation", "ts", "member_id", "client_id"),
    *("reason", "confidence", "silence_ms"),
)
GENERATIONS: Final = (
    *("group_id", "protocol", "protocol_type", "incarnation", "seq", "generation", "ts"),
    *("state_ts", "converged_ts", "assignor", "leader", "n_members", "n_partitions"),
    *("primary_cause", "causes", "evidence", "confidence", "reason", "joined", "gone", "changed"),
    *("missing_before", "coordinator_changed", "moved", "balance_stddev", "since_previous_ms"),
    *("commit_gap_ms", "commit_gap_max_ms", "is_empty"),
)
ADVICE: Final = (
    *("group_id", "advice", "setting", "pays", "rebalances", "moves", "revoked"),
    *("spared_ms", "added_ms"),
)
"""The first columns of the history's tables of these names, whose rows `ExplainedGroup` makes in this order."""


def past_of(
    since_ms: int,
    *,
    generations: Iterable[Row],
    memberships: Iterable[Row],
    departures: Iterable[Row],
    advice: Iterable[Row],
) -> Past:
    """Return the past of one group from its rows, known from `since_ms` on."""
    silences = {row["member_id"]: row for row in departures}
    ordered = sorted(generations, key=lambda row: int(row["seq"]))
    found = [_membership(row, silences.get(row["member_id"], {})) for row in memberships]
    return Past(
        since_ms=since_ms,
        generations=tuple(_generation(row) for row in ordered),
        memberships=tuple(sorted(found, key=lambda each: (each.start_ms or 0, each.first_seq))),
        absences=tuple(
            (one["ts"] // 1000, other["ts"] // 1000)
            for one, other in pairwise(row for row in ordered if row["ts"] is not None)
            if one["is_empty"] and not other["is_empty"]
        ),
        advice=tuple(
            PastAdvice(
                advice=row["advice"],
                setting=row["setting"],
                rebalances=row["rebalances"],
                spared_ms=row["spared_ms"],
                added_ms=row["added_ms"],
            )
            for row in advice
        ),
    )


def _generation(row: Row) -> PastGeneration:
    return PastGeneration(
        seq=row["seq"],
        at_ms=0 if row["ts"] is None else row["ts"] // 1000,
        cause=row["primary_cause"],
        members=row["n_members"],
        assignor=row["assignor"] or "",
        moved=row["moved"],
        gap_ms=row["commit_gap_ms"] or 0,
    )


def _membership(row: Row, departure: Row) -> PastMembership:
    # a member of the first generation was there before it
    is_older = row["first_seq"] == 0 and row["first_generation"] > 1
    return PastMembership(
        client_id=row["client_id"],
        client_host=row["client_host"],
        instance_id=row["instance_id"],
        first_seq=row["first_seq"],
        last_seq=row["last_seq"],
        start_ms=None if row["start_ts"] is None or is_older else row["start_ts"] // 1000,
        end_ms=None if row["end_ts"] is None else row["end_ts"] // 1000,
        reason=row["end_reason"] or "",
        confidence=departure.get("confidence"),
        silence_ms=departure.get("silence_ms"),
        session_ms=_timeout(row["session_timeout_ms"]),
        poll_ms=_timeout(row["rebalance_timeout_ms"]),
    )


def _timeout(value: int | None) -> int | None:
    return None if value is None or value <= 0 else value
