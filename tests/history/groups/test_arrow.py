"""The rows of followed groups as record batches."""

from typing import Any

import pyarrow as pa
from hypothesis import given, settings, strategies as st

from examples.history_log import Pair, Seat, deletion, generation
from groupsdk.history.groups.arrow import (
    ASSIGNED,
    EVENTS,
    KINDS,
    as_event,
    follow,
    partition_arrays,
    to_batches,
)
from groupsdk.history.groups.derived import derive
from groupsdk.history.groups.member import Partitions
from groupsdk.history.kernel.batches import read_batches
from groupsdk.history.kernel.commits import read_commits
from groupsdk.history.kernel.rows import rest_rows
from groupsdk.wire.records.record import Record, build_batch
from tests.history.groups.walking import walked


ONE = Seat("one", {"t": [0, 1]}, instance_id="i")


def test_every_row_comes_out_in_the_columns_of_its_kind() -> None:
    rows = walked(
        generation("g", 1, {"m": ONE}),
        generation("g", 2, {"n": Seat("two", {"t": [1]})}),
        generation("g", 3, {}),
        deletion("g"),
        (b"\0\x63\0\1g", None),
    )
    batches = list(to_batches(derive(rows, {}, ["range"]), size=1))
    declared = {name: pa.schema(list(kind)) for name, kind in KINDS.values()}
    assert all(batch.schema == declared[kind] for kind, batch in batches)
    assert {kind for kind, _ in batches} == {
        *("generation", "assignment", "move", "replay", "membership", "departure", "reject"),
    }
    whole = pa.Table.from_batches([as_event(*each) for each in batches])
    assert whole.schema == EVENTS
    for kind in declared:
        marked = [each == kind for each in whole.column("kind").to_pylist()]
        assert [each is not None for each in whole.column(kind).to_pylist()] == marked


def rows_of(kind: str, pairs: list[Pair]) -> list[dict[str, Any]]:
    """Follow some records; gives the rows of one kind."""
    batches = to_batches(derive(walked(*pairs), {}, []))
    return [row for name, batch in batches if name == kind for row in batch.to_pylist()]


def test_rows_say_in_arrow_what_they_say_in_python() -> None:
    pairs = [generation("g", 1, {"m": ONE}, ts_ms=500), generation("g", 2, {"n": ONE}, ts_ms=900)]
    first, _ = rows_of("generation", pairs)
    assert (first["group_id"], first["causes"]) == ("g", ["join"])
    assert first["state_ts"].microsecond == 500_000
    assert (first["src_partition"], first["src_offset"]) == (7, 0)
    gone, _ = rows_of("membership", pairs)
    assert (gone["member_id"], gone["instance_id"]) == ("m", "i")
    assert gone["assigned"] == [{"topic": "t", "partitions": [0, 1]}]
    moved = rows_of("move", pairs)
    assert [(row["partition"], row["from_member"], row["to_member"]) for row in moved] == [
        (0, "m", "n"),
        (1, "m", "n"),
    ]
    assert {(row["seq"], row["from_seq"], row["src_offset"]) for row in moved} == {(1, 0, 1)}


def test_each_partition_has_a_row() -> None:
    seats = {
        "a": Seat("one", {"t": [0, 2], "u": [5]}),
        "b": Seat("two", {}),
        "c": Seat("three", {"t": [1]}),
    }
    found = rows_of("assignment", [generation("g", 1, seats)])
    assert [(row["member_id"], row["topic"], row["partition"]) for row in found] == [
        ("a", "t", 0),
        ("a", "t", 2),
        ("a", "u", 5),
        ("c", "t", 1),
    ]
    assert {(row["phase"], row["protocol"], row["topic_id"]) for row in found} == {
        ("final", "classic", None)
    }
    assert rows_of("assignment", [generation("g", 1, {"a": Seat("one", {})})]) == []


def test_records_of_the_rest_are_followed_in_a_worker() -> None:
    pairs = [generation("g", 1, {"m": ONE}), generation("g", 2, {})]
    (records,) = read_batches(
        build_batch([Record(n, 1000 + n, *pair) for n, pair in enumerate(pairs)])
    )
    rest = rest_rows(records, read_commits(records), 4, "")
    rows = [
        row for kind, batch in follow([rest]) if kind == "generation" for row in batch.to_pylist()
    ]
    assert [(row["generation"], row["src_partition"], row["src_offset"]) for row in rows] == [
        (1, 4, 0),
        (2, 4, 1),
    ]
    assert rows[1]["ts"].microsecond == 1000
    assert list(follow([])) == []


PARTITIONS = st.lists(
    st.tuples(st.text(max_size=3), st.lists(st.integers(0, 2**31 - 1), max_size=4).map(tuple)),
    max_size=3,
).map(tuple)


@settings(deadline=None)
@given(st.lists(PARTITIONS, max_size=6))
def test_partitions_go_into_arrays(every: list[Partitions]) -> None:
    array = partition_arrays(every)
    assert array.type == ASSIGNED
    assert array == pa.array(
        [[{"topic": topic, "partitions": found} for topic, found in each] for each in every],
        type=ASSIGNED,
    )
