"""The rows of followed groups as record batches."""

import pyarrow as pa
from hypothesis import given, settings, strategies as st

from examples.history_log import Seat, deletion, generation
from groupsdk.history.groups.arrow import (
    ASSIGNED,
    EVENTS,
    KINDS,
    follow,
    partition_arrays,
    partition_lists,
    to_batches,
)
from groupsdk.history.groups.member import Partitions
from groupsdk.history.kernel.batches import read_batches
from groupsdk.history.kernel.commits import read_commits
from groupsdk.history.kernel.rows import rest_rows
from groupsdk.wire.records.record import Record, build_batch
from tests.history.groups.walking import walked


ONE = Seat("one", {"t": [0, 1]}, instance_id="i")


def test_every_row_comes_out_in_the_column_of_its_kind() -> None:
    rows = walked(
        generation("g", 1, {"m": ONE}),
        generation("g", 2, {}),
        deletion("g"),
        (b"\0\x63\0\1g", None),
    )
    batches = list(to_batches(rows, size=1))
    assert len(batches) == len(rows)
    assert all(batch.schema == EVENTS for batch in batches)
    table = pa.Table.from_batches(batches)
    for kind, _ in KINDS.values():
        marked = [each == kind for each in table.column("kind").to_pylist()]
        assert [each is not None for each in table.column(kind).to_pylist()] == marked
    assert set(table.column("kind").to_pylist()) == {
        *("generation", "member", "membership", "departure", "reject"),
    }


def test_rows_say_in_arrow_what_they_say_in_python() -> None:
    (batch, *_) = to_batches(walked(generation("g", 1, {"m": ONE}, ts_ms=500)))
    row = batch.column("generation").to_pylist()[0]
    assert row["group_id"] == "g"
    assert row["causes"] == ["join"]
    assert row["state_ts"].microsecond == 500_000
    assert (row["src_partition"], row["src_offset"]) == (7, 0)
    batches = to_batches(walked(generation("g", 1, {"m": ONE})))
    members = next(b for b in batches if b.column("kind")[0].as_py() == "member")
    member = members.column("member").to_pylist()[0]
    assert member["assigned"] == [{"topic": "t", "partitions": [0, 1]}]
    assert (member["member_id"], member["instance_id"], member["phase"]) == ("m", "i", "final")


def test_records_of_the_rest_are_followed_in_a_worker() -> None:
    pairs = [generation("g", 1, {"m": ONE}), generation("g", 2, {})]
    (records,) = read_batches(
        build_batch([Record(n, 1000 + n, *pair) for n, pair in enumerate(pairs)])
    )
    rest = rest_rows(records, read_commits(records), 4, "")
    found = pa.Table.from_batches(follow([rest])).filter(pa.compute.field("kind") == "generation")
    rows = found.column("generation").to_pylist()
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
@given(st.lists(PARTITIONS, max_size=6), st.integers(0, 6))
def test_partitions_go_into_arrays_and_come_back(every: list[Partitions], start: int) -> None:
    array = partition_arrays(every)
    assert array.type == ASSIGNED
    assert array == pa.array(
        [[{"topic": topic, "partitions": found} for topic, found in each] for each in every],
        type=ASSIGNED,
    )
    assert list(partition_lists(array)) == every
    assert list(partition_lists(array.slice(start, 2))) == every[start : start + 2]
