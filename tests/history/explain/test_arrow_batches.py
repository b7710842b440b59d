"""Batches of the tables, out of batches of records."""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from examples.history_log import Pair, Seat, commit, deletion, generation
from groupsdk.history.explain.arrow_batches import (
    GROUP_TABLES,
    LOG_ENTRY_PARTITION,
    entries,
    tables_of,
    to_batches,
)
from groupsdk.history.explain.causes import LoggedReason
from groupsdk.history.explain.departures import LoggedDeparture
from groupsdk.history.explain.explaining import Context, TableRows
from groupsdk.history.read.batches import read_batches
from groupsdk.history.read.reading import Reader
from groupsdk.history.tables.schemas import TABLES
from groupsdk.history.tables.stages import RECORD_ROWS, RECORDS
from groupsdk.wire.records.record import Record, build_batch


ONE = Seat("one", {"t": [0, 1]}, instance_id="i")


def batches_of(*pairs: Pair) -> list[Any]:
    """Read records, of one group."""
    (records,) = read_batches(
        build_batch([Record(n, 1000 + n, *pair) for n, pair in enumerate(pairs)])
    )
    made = [batch for name, batch in Reader().take(records, 4, "") if name == RECORDS]
    ordered: list[Any] = pa.Table.from_batches(made).sort_by("src_offset").to_batches()
    return ordered


def rows_of(name: str, *pairs: Pair) -> list[dict[str, Any]]:
    """Follow some records; gives the rows of one table."""
    made = tables_of(batches_of(*pairs), Context(assignors=("range",)))
    return [row for each, batch in made if each == name for row in batch.to_pylist()]


def test_every_table_comes_out_in_its_columns() -> None:
    flaps = [generation("g", number, {f"m{number}": ONE}, ts_ms=number) for number in range(1, 9)]
    batches = batches_of(
        *flaps,
        commit("g", "t", 0, 7),
        # an eager group that rebalances for nothing
        *(
            generation("g", number, {"a": ONE, "b": Seat("two", {"t": [2]})})
            for number in range(9, 14)
        ),
        generation("g", 14, {}),
        deletion("g"),
        (b"\0\x63\0\1g", None),
    )
    made = list(tables_of(batches, Context(assignors=("range", "cooperative-sticky"))))
    # groups of consumers have no payloads, and all of this happens within milliseconds
    assert {name for name, _ in made} - {"tally"} == set(GROUP_TABLES) - {"payloads", "standstills"}
    for name, batch in made:
        if name != "tally":
            assert batch.schema == TABLES[name].arrow_schema


def test_arrow_batch_has_the_rows_of_python() -> None:
    pairs = [generation("g", 1, {"m": ONE}, ts_ms=500), generation("g", 2, {"n": ONE}, ts_ms=900)]
    first, _ = rows_of("generations", *pairs)
    assert (first["group_id"], first["causes"]) == ("g", ["join"])
    assert first["state_ts"].microsecond == 500_000
    assert (first["src_partition"], first["src_offset"]) == (4, 0)
    gone, _ = rows_of("memberships", *pairs)
    assert (gone["member_id"], gone["instance_id"], gone["topics"]) == ("m", "i", ["t"])
    moved = rows_of("moves", *pairs)
    assert [(row["partition"], row["from_member"], row["to_member"]) for row in moved] == [
        (0, "m", "n"),
        (1, "m", "n"),
    ]


def test_each_partition_has_a_row() -> None:
    seats = {
        "a": Seat("one", {"t": [0, 2], "u": [5]}),
        "b": Seat("two", {}),
        "c": Seat("three", {"t": [1]}),
    }
    found = rows_of("assignments", generation("g", 1, seats))
    assert [(row["member_id"], row["topic"], row["partition"]) for row in found] == [
        ("a", "t", 0),
        ("a", "t", 2),
        ("a", "u", 5),
        ("c", "t", 1),
    ]
    assert {(row["phase"], row["protocol"], row["topic_id"]) for row in found} == {
        ("final", "classic", None)
    }
    assert rows_of("assignments", generation("g", 1, {"a": Seat("one", {})})) == []


def test_rows_come_in_batches_of_a_size() -> None:
    rows: TableRows = defaultdict(list)

    def made() -> Iterator[TableRows]:
        for n in range(5):
            rows["replay_summary"].append(("g", "range", n, 0, 0, 0.0, 0, 0, 1))
            yield rows

    assert [batch.num_rows for _, batch in to_batches(made(), size=2)] == [2, 2, 1]


def test_broker_log_entries_of_a_group_come_before_its_records() -> None:
    said = [
        {"ts_ms": 5, "generation": 3, "reason": "r", "compatible": ["join"]},
        {"ts_ms": 6, "member_id": "m", "reason": "leave"},
    ]
    rows = [
        {
            "group_id": "g",
            "src_partition": LOG_ENTRY_PARTITION,
            "src_offset": 0,
            "value": json.dumps(each).encode(),
        }
        for each in said
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=RECORD_ROWS)
    reason, end = entries([batch])
    assert reason == LoggedReason("g", 3, 5, "r", None, ["join"])
    assert end == LoggedDeparture("g", "m", 6, "leave")
