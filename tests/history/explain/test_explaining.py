"""The tables of a group, out of one walk over its records and the sums of its commits."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from pytest_mock import MockerFixture

from examples.history_log import Pair, Seat, deletion, generation
from groupsdk.history.explain import explaining
from groupsdk.history.explain.causes import LoggedReason
from groupsdk.history.explain.commit_spans import REMOVED, CommitPart, CommitSpans, median
from groupsdk.history.explain.departures import LoggedDeparture
from groupsdk.history.explain.explaining import (
    Context,
    Entry,
    TableRows,
    explain,
)
from groupsdk.history.explain.timeline.rows import GroupRecord
from groupsdk.history.tables.schemas import TABLES


def record(
    offset: int, pair: Pair, *, group: str = "g", second: float | None = None
) -> GroupRecord:
    """Place a record in the log."""
    ts_ms = int(1000 * (offset if second is None else second))
    return GroupRecord(group, 3, offset, ts_ms, 0, *pair)


def part(
    offset: int,
    partition: int,
    first: float,
    last: float,
    end: int | None,
    many: int = 1,
    group: str = "g",
) -> CommitPart:
    """Sum commits up."""
    return CommitPart(
        group, 3, offset, 0, "t", partition, int(1000 * first), int(1000 * last), end, many
    )


def tables(*entries: Entry, context: Context | None = None) -> dict[str, list[dict[str, Any]]]:
    """Make the tables."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name, rows in made(entries, Counter(), context).items():
        if rows and name not in ("assignments", "replay"):
            columns = TABLES[name].arrow_schema.names
            found[name] = [dict(zip(columns, row, strict=True)) for row in rows]
    return found


def made(
    entries: Iterable[Entry], tally: Counter[tuple[int, str]], context: Context | None = None
) -> TableRows:
    """Make the rows of all tables."""
    *_, rows = explain(entries, context or Context(), tally)
    return rows


ONE = {"a1": Seat("a", {"t": [0]}), "b1": Seat("b", {"t": [1]})}


def test_commits_are_summed_up_between_generations() -> None:
    found = tables(
        part(9, 0, 1, 1, 5),
        record(10, generation("g", 1, ONE)),
        part(12, 0, 2, 3, 8, 2),
        part(13, 1, 3, 3, 1),
        # the end of a chunk, in the same generation
        part(15, 0, 4, 4, 9),
        # an aborted transaction
        part(16, 0, 4, 4, None, 0),
        record(20, generation("g", 2, ONE)),
        part(21, 0, 5, 5, 10),
        part(15, 0, 5, 5, 9, group="other"),
    )
    spans = [
        (row["group_id"], row["seq"], row["partition"], row["last_offset"], row["commits"])
        for row in found["commit_spans"]
    ]
    assert sorted(spans) == [
        ("g", -1, 0, 5, 1),
        ("g", 0, 0, 9, 3),
        ("g", 0, 1, 1, 1),
        ("g", 1, 0, 10, 1),
        ("other", -1, 0, 9, 1),
    ]


def test_a_topic_that_all_lose_with_its_offsets_was_deleted() -> None:
    # librdkafka subscribes to what exists of the topics in its list
    lost = [
        record(1, generation("g", 1, {"a1": Seat("a", {"t": [0], "u": [0]})})),
        record(9, generation("g", 2, {"a1": Seat("a", {"u": [0]})})),
    ]
    removed = part(5, 0, 5, 5, None, REMOVED)
    found = tables(lost[0], part(4, 0, 1, 4, 7, 4), removed, lost[1])
    assert [row["causes"] for row in found["generations"]] == [["join"], ["topic_deleted"]]
    ((place, offset),) = {
        (row["topic"], row["partition"]): row["committed_offset"] for row in found["progress"]
    }.items()
    assert (place, offset) == (("t", 0), None)
    assert [row["committed"] for row in found["groups"]] == [0]
    # without its offsets being removed it may exist, and other topics may be wanted as well
    found = tables(lost[0], part(4, 0, 1, 4, 7, 4), lost[1])
    assert found["generations"][1]["causes"] == ["subscription_change"]
    changed = record(9, generation("g", 2, {"a1": Seat("a", {"v": [0]})}))
    found = tables(lost[0], part(4, 0, 1, 4, 7, 4), removed, changed)
    assert found["generations"][1]["causes"] == ["subscription_change"]


def test_commits_after_a_groups_tombstone_are_still_of_its_last_generation() -> None:
    found = tables(
        record(1, generation("g", 1, ONE)),
        record(2, generation("g", 2, {})),
        record(3, deletion("g")),
        part(4, 0, 4, 4, 7),
        record(5, generation("g", 1, ONE)),
    )
    assert [row["seq"] for row in found["commit_spans"]] == [1]
    assert [row["incarnation"] for row in found["generations"]] == [0, 0, 1]


def test_a_move_tells_for_how_long_nobody_committed() -> None:
    both = {"a1": Seat("a", {"t": [0, 1]})}
    found = tables(
        record(1, generation("g", 1, both)),
        part(2, 1, 0, 2, 5),
        # nobody has the second one for a generation
        record(3, generation("g", 2, {"a1": Seat("a", {"t": [0]})})),
        record(4, generation("g", 3, {"a1": Seat("a", {"t": [0]}), "b1": Seat("b", {"t": [1]})})),
        part(5, 1, 9.5, 10, 6),
        record(6, generation("g", 4, {"a2": Seat("a", {"t": [0]}), "b1": Seat("b", {"t": [1]})})),
    )
    columns = ("partition", "from_member", "to_member", "idle_generations", "gap_ms", "same_client")
    assert [tuple(row[each] for each in columns) for row in found["moves"]] == [
        (1, "a1", "b1", 1, 7_500, False),
        (0, "a1", "a2", 0, None, True),
    ]
    third = found["generations"][2]
    assert (third["moved"], third["commit_gap_ms"], third["commit_gap_max_ms"]) == (1, 7_500, 7_500)


def test_a_reason_is_that_of_the_generation_it_was_given_for() -> None:
    log: list[Entry] = [
        # of the first time that the group was there; the log of the second one is lost
        LoggedReason("g", 1, 500, "of n", "join", ["join"]),
        LoggedReason("g", 2, 5_500, "of m", "expiry", ["expiry"]),
        LoggedDeparture("g", "m", 5_500, "expiry"),
    ]
    for start in (1, 900):
        seats = {"m": Seat("c", {"t": [0]})}
        log += [
            record(start, generation("g", 1, seats, ts_ms=1000 * start)),
            record(start + 5, generation("g", 2, {}, ts_ms=1000 * (start + 5))),
            record(start + 6, deletion("g")),
        ]
    found = tables(*log)
    columns = ("seq", "evidence", "primary_cause", "reason")
    assert [tuple(row[each] for each in columns) for row in found["generations"]] == [
        (0, "broker_log", "join", "of n"),
        (1, "broker_log", "expiry", "of m"),
        (2, "log", "join", None),
        (3, "log", "leave", None),
    ]
    assert [(row["seq"], row["reason"], row["confidence"]) for row in found["departures"]] == [
        (1, "expiry", 1.0),
        (3, "leave", 0.9),
    ]


def test_a_reason_that_is_not_known_is_told_and_changes_no_cause() -> None:
    found = tables(
        LoggedReason("g", 1, 500, "the moon", None, []),
        LoggedReason("g", 2, 1_500, "topics", "topic_growth", ["topic_growth"]),
        record(1, generation("g", 1, ONE)),
        record(2, generation("g", 2, {**ONE, "c": Seat("c", {"t": []})})),
    )
    first, second = found["generations"]
    assert (first["primary_cause"], first["evidence"], first["reason"]) == (
        "join",
        "log",
        "the moon",
    )
    # the broker began the rebalance for another reason than the records show
    assert (second["primary_cause"], second["confidence"]) == ("topic_growth", 1.0)
    assert second["causes"] == ["join", "topic_growth"]


def test_record_that_cannot_be_decoded_is_kept_and_counted() -> None:
    tally: Counter[tuple[int, str]] = Counter()
    pair = (b"\0\x63\0\1g", b"\0\0")
    damaged = (b"\0\2\0\1g", b"\0\x63")
    rows = made([record(1, pair), record(2, damaged), record(2, damaged)], tally)
    assert [(row[1], row[3], row[7], row[8]) for row in rows["rejects"]] == [
        (1, 99, *pair),
        (2, 2, *damaged),
    ]
    assert tally == {(3, "type 99"): 1, (3, "undecodable"): 1}


def test_generations_that_are_missing_are_counted() -> None:
    tally: Counter[tuple[int, str]] = Counter()
    made([record(1, generation("g", 1, ONE)), record(2, generation("g", 5, ONE))], tally)
    assert tally == {(3, "missing_generations"): 3}


def test_the_gap_in_the_middle_is_a_whole_number_towards_zero() -> None:
    assert [median(each) for each in ([], [3], [1, 4], [-4, -1], [1, 2, 9])] == [None, 3, 2, -2, 2]


def test_the_last_commit_of_a_partition_is_known_for_some_generations() -> None:
    spans = CommitSpans()
    for seq in range(3):
        spans.take(part(seq, 0, seq, seq, seq))
        spans.close(seq)
    assert [spans.last_commit(("t", 0), seq) for seq in (0, 1, 5)] == [0, 1_000, None]
    assert spans.last_commit(("t", 9), 0) is None


def test_a_long_history_is_held_in_pieces(mocker: MockerFixture) -> None:
    mocker.patch.object(explaining, "KEPT_PER_GROUP", 40)
    flaps = [
        record(n, generation("g", n, {f"m{n}": Seat("c", {"t": [0]})}), second=n)
        for n in range(1, 101)
    ]
    group = explaining.ExplainedGroup("g", Context(), defaultdict(list), Counter())
    held = 0
    for each in flaps:
        group.take(each)
        held = max(held, len(group._timeline) + len(group._memberships))
    assert held <= 42
    found = tables(*flaps)
    assert [row["seq"] for row in found["generations"]] == [*range(100)]
    # each piece has a storm, and together they leave none of it out
    spans = [(row["first_seq"], row["last_seq"]) for row in found["storms"]]
    assert spans[0][0] == 0
    assert spans[-1][1] == 99
    assert all(after[0] == before[1] + 1 for before, after in pairwise(spans))
