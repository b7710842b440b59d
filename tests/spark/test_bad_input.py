"""A log with everything that can be wrong with one: the tables are made all the same, and say what is missing."""

from pathlib import Path
from typing import Any

import pytest

from groupsdk.history import local
from groupsdk.history.job import Inputs, Options, run
from groupsdk.history.sources.segment_files import segment_tasks
from groupsdk.history.sources.spark_segments import read_segments
from tests.history.expected_tables import digests
from tests.history.made_logs import write_bad_input, write_damaged
from tests.spark.reading import plain


@pytest.fixture(scope="module")
def tables(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the job makes of it."""
    root = tmp_path_factory.mktemp("bad")
    write_bad_input(root / "data")
    inputs = Inputs(read_segments(spark, str(root / "data")))
    return dict(run(spark, inputs, str(root / "tables"), Options(assignors=("range",))))


def test_the_quality_says_for_each_partition_what_is_missing(tables: dict[str, Any]) -> None:
    rows = {row.src_partition: row for row in tables["quality"].collect()}
    holes = rows[0]
    assert (holes.first_offset, holes.last_offset, holes.offset_gaps) == (0, 20, 10)
    assert (holes.bad_batches, holes.missing_generations) == (0, 3)
    # -1: a record whose key is too short to have a type
    assert holes.unknown_types == {99: 1, -1: 1}
    # a value of a version that is not known
    assert holes.undecodable == 1
    torn = rows[1]
    assert torn.bad_batches == 2
    assert (torn.first_offset, torn.last_offset, torn.offset_gaps) == (0, 2, 1)
    assert torn.missing_generations == 1
    foreign = rows[2]
    assert foreign.bad_batches == 1
    assert (foreign.records, foreign.first_offset) == (0, None)
    assert 3 not in rows


def test_each_thing_that_was_not_read_is_named_with_its_place(tables: dict[str, Any]) -> None:
    rows = tables["rejects"].collect()
    places: dict[int, list[tuple[str, str]]] = {row.src_partition: [] for row in rows}
    for row in rows:
        places[row.src_partition].append((row.place or "", row.reason))
    assert any("checksum" in reason.lower() or "crc" in reason.lower() for _, reason in places[1])
    assert any("ends within a batch" in reason for _, reason in places[1])
    assert all(f"{0:020}.log" in place for place, _ in places[1] + places[2])
    undecoded = {row.record_type: row.reason for row in rows if row.src_partition == 0}
    assert "99" in undecoded[99]
    assert "77" in undecoded[2]
    assert {row.src_offset for row in rows if row.src_partition == 0} == {1, 2, 3}


def test_readable_records_of_a_damaged_log_are_in_the_tables(tables: dict[str, Any]) -> None:
    found = tables["generations"]
    columns = ("group_id", "incarnation", "generation", "n_members", "missing_before")
    assert plain(found, *columns) == [
        ("again", 0, 1, 1, 0),
        ("again", 1, 1, 1, 0),
        ("back", 0, 1, 1, 0),
        ("back", 0, 2, 2, 0),
        ("holes", 0, 1, 1, 0),
        ("holes", 0, 5, 2, 3),
        ("torn", 0, 1, 1, 0),
        ("torn", 0, 3, 1, 1),
    ]
    # the log's order counts, not the clock's
    back = {row.generation: row for row in found.filter("group_id = 'back'").collect()}
    assert back[2].primary_cause == "join"
    assert back[2].ts is None
    again = tables["memberships"].filter("group_id = 'again'")
    assert plain(again, "member_id", "end_reason") == [("a", "group_deleted"), ("b", None)]


def test_over_a_hole_a_cause_is_trusted_less(tables: dict[str, Any]) -> None:
    holes = {
        row.generation: row for row in tables["generations"].filter("group_id = 'holes'").collect()
    }
    assert (holes[5].primary_cause, holes[5].confidence) == ("join", pytest.approx(0.475))


def test_a_damaged_log_makes_the_tables_of_the_local_engine(spark: Any, tmp_path: Path) -> None:
    log = str(write_damaged(tmp_path / "log"))
    run(spark, Inputs(read_segments(spark, log)), str(tmp_path / "spark"), Options())
    local.run(segment_tasks(log), str(tmp_path / "local"))
    assert digests(tmp_path / "spark") == digests(tmp_path / "local")
    assert digests(tmp_path / "local")["rejects"][0] == 5
