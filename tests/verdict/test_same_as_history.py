"""Holds the verdict's prices to the tables that the history makes of the same logs, in partition-milliseconds."""

from collections import Counter
from pathlib import Path

import pytest

from groupsdk.history.pipeline import Options
from groupsdk.verdict.group_log import GroupLog, Leaders, group_of
from groupsdk.verdict.log_reader import records_from
from tests.history.expected_tables import explained


def prices_by_verdict(segments: Path) -> dict[tuple[str, str], tuple[int, int, str]]:
    """What `doctor` reads out of the records, group by group."""
    leaders, logs = Leaders(), dict[str, GroupLog]()
    for segment in sorted(segments.glob("*/*.log")):
        number = int(segment.parent.name.rpartition("-")[2])
        for record, leader_epoch in records_from(segment.read_bytes(), 0):
            leaders.take(record, number, leader_epoch)
            name = group_of(record.key or b"").decode()
            log = logs.setdefault(name, GroupLog(name, 0, leaders=leaders))
            log.take(record, number, leader_epoch)
    return {
        (name, each.advice): (each.spared_ms, each.added_ms, each.setting)
        for name, log in logs.items()
        for each in log.close()[0].advice
    }


@pytest.mark.parametrize("name", ["recorded", "polling", "scenes", "priced/without"])
def test_prices_are_those_of_the_tables(name: str, tmp_path: Path) -> None:
    tables = explained(name, tmp_path, ("advice", "generations"), Options(assignors=()))
    # what a session of the newer protocols lasts is learned from the whole log
    newer = {row["group_id"] for row in tables["generations"] if row["protocol"] != "classic"}
    by_table = {
        (row["group_id"], row["advice"]): (row["spared_ms"], row["added_ms"], row["setting"])
        for row in tables["advice"]
        if row["group_id"] not in newer
    }
    by_verdict = prices_by_verdict(tmp_path / "segments")
    assert by_table
    assert {key: each for key, each in by_verdict.items() if key[0] not in newer} == by_table


@pytest.mark.parametrize("name", ["recorded", "newer", "priced/without"])
def test_all_tables_have_lost_as_much(name: str, tmp_path: Path) -> None:
    names = ("standstills", "groups", "progress")
    lost: dict[str, Counter[str]] = {}
    for table, rows in explained(name, tmp_path, names, Options(assignors=())).items():
        lost[table] = Counter()
        for row in rows:
            lost[table][row["group_id"]] += row["stalled_ms"]
    assert sum(lost["standstills"].values()) > 1_000
    for group_id, stalled_ms in lost["groups"].items():
        # each row is rounded to a millisecond
        assert lost["standstills"][group_id] == pytest.approx(stalled_ms, abs=500), group_id
        assert lost["progress"][group_id] == pytest.approx(stalled_ms, abs=500), group_id
