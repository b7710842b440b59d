"""What stands still at the end of a log, and what has nothing to do."""

from pathlib import Path

import pytest

from examples.history_log import LogWriter, Seat, commit, generation
from groupsdk.history.local import run
from groupsdk.history.report.tables import ParquetTables
from groupsdk.history.sources.segment_files import segment_tasks
from groupsdk.history.standing import BEHIND, SILENT, log_end_ms, standing
from groupsdk.history.tables.sampled_lag import read_end_offsets
from tests.history.fleet.fleets import LENGTH_S, START_MS, STOPPED_S, write_cluster


END_MS = START_MS + 1_000 * LENGTH_S


def tables_of(log: Path, out: Path, ends: str = "") -> ParquetTables:
    sampled = None
    if ends:
        file = out.with_suffix(".jsonl")
        file.write_text(ends, encoding="utf-8")
        sampled = read_end_offsets(str(file))
    run(segment_tasks(str(log)), str(out), end_offsets=sampled)
    return ParquetTables(str(out))


def end(partition: int, offset: int) -> str:
    ts = "2026-10-02T00:05:00Z"
    return f'{{"topic": "sales", "partition": {partition}, "ts": "{ts}", "end_offset": {offset}}}\n'


def test_a_member_that_stopped_is_named_with_its_host(tmp_path: Path) -> None:
    tables = tables_of(write_cluster(tmp_path / "log", stopped=True), tmp_path / "out")
    assert log_end_ms(tables) == END_MS
    (found,) = standing(tables, END_MS)
    assert (found.group_id, found.topic, found.partitions) == ("orders", "sales", (0, 1, 2))
    assert (found.client_id, found.client_host) == ("a", "/10.0.0.1")
    assert found.since_ms == END_MS - 1_000 * STOPPED_S
    assert (found.last_cause, found.evidence) in {("join", SILENT), ("join", BEHIND)}


def test_nothing_stands_still_where_all_commit_or_are_done(tmp_path: Path) -> None:
    tables = tables_of(write_cluster(tmp_path / "log", stopped=False), tmp_path / "out")
    assert list(standing(tables, END_MS)) == []


def test_a_group_that_has_read_everything_does_not_stand_still(tmp_path: Path) -> None:
    log = write_cluster(tmp_path / "log", stopped=True)
    read = LENGTH_S - STOPPED_S
    ends = end(0, read) + end(1, read) + end(2, read + 7)
    nightly, found = standing(tables_of(log, tmp_path / "out", ends), END_MS)
    assert (found.partitions, found.evidence, found.lag) == ((2,), BEHIND, 7)
    # it went before these were written
    assert (nightly.group_id, nightly.client_id, nightly.lag) == ("nightly", "", read - 2)


@pytest.mark.parametrize(("least_s", "some"), [(60, True), (200, False)])
def test_how_long_is_too_long_can_be_said(tmp_path: Path, least_s: int, some: bool) -> None:
    tables = tables_of(write_cluster(tmp_path / "log", stopped=True), tmp_path / "out")
    assert bool(list(standing(tables, END_MS, least_ms=1_000 * least_s))) == some


def test_records_that_nobody_reads_stand_still_for_nobody(tmp_path: Path) -> None:
    with LogWriter(tmp_path / "log", 0) as log:
        log.append(START_MS, generation("left", 1, {"m": Seat("c", {"sales": [0]})}))
        log.append(START_MS, *(commit("left", "sales", 0, n, START_MS) for n in (1, 2)))
        log.append(START_MS + 1_000, generation("left", 2, {}))
        log.append(END_MS, commit("other", "sales", 0, 9, END_MS))
    (found,) = standing(tables_of(tmp_path / "log", tmp_path / "out", end(0, 9)), END_MS)
    assert (found.group_id, found.client_id, found.lag) == ("left", "", 7)
