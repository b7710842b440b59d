"""Groups of Java's Connect workers, as recorded: who ran which connectors and tasks, what moved, and why."""

import gzip
import json
from typing import Any

import pytest

from groupsdk.history.explain.changes import Cause
from tests.history.expected_tables import explained
from tests.history.sample import DATA
from tests.history.truth import Truths


LOG = DATA / "connect"
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Rows]:
    """The tables of the log, told without what the coordinator said."""
    names = ("generations", "assignments", "payloads", "moves", "rejects", "replay")
    found = explained("connect", tmp_path_factory.mktemp("connect"), names)
    judged = Truths.of("connect").judge(found["generations"])
    found["judged"] = [{"judged": each} for each in judged]
    return found


def test_the_tables_say_what_the_workers_said_that_they_run(tables: dict[str, Rows]) -> None:
    urls = {(row["group_id"], row["member_id"]): row["url"] for row in tables["payloads"]}
    lines = gzip.decompress((LOG / "runs.jsonl.gz").read_bytes()).decode().splitlines()
    assert len(lines) > 15
    for said in map(json.loads, lines):
        group = said["group"]
        last = max(
            row["seq"]
            for row in tables["generations"]
            if row["group_id"] == group and row["ts"].timestamp() * 1000 <= said["ts_ms"]
        )
        runs = {
            f"{row['topic']}/{row['partition']}": urls[group, row["member_id"]]
            .removeprefix("http://")
            .rstrip("/")
            for row in tables["assignments"]
            if (row["group_id"], row["seq"]) == (group, last)
        }
        assert runs == said["runs"], (group, last)


def test_work_moves_and_is_held_back_for_workers_that_are_gone(tables: dict[str, Rows]) -> None:
    assert tables["rejects"] == []
    groups = {"workers-cooperative", "workers-eager"}
    assert not groups & {row["group_id"] for row in tables["replay"]}
    assert groups <= {row["group_id"] for row in tables["moves"]}
    delays = {
        group: max(row["delay_ms"] for row in tables["payloads"] if row["group_id"] == group)
        for group in groups
    }
    assert 0 < delays["workers-cooperative"] <= 3_000
    assert delays["workers-eager"] == 0
    kinds = {
        (row["protocol_type"], row["assignor"])
        for row in tables["generations"]
        if row["group_id"] in groups and row["assignor"]
    }
    assert kinds == {("connect", "sessioned"), ("connect", "default")}


def test_causes_are_those_that_the_coordinator_gave(tables: dict[str, Rows]) -> None:
    judged = [row["judged"] for row in tables["judged"]]
    assert len(judged) > 20
    # workers do not commit: of one that was silent for long the log does not say why it went
    wrong = [each for each in judged if not each.is_right]
    assert [each for each in wrong if each.confidence >= 0.7] == []
    assert len(wrong) < len(judged) / 10
    workers = [row for row in tables["generations"] if row["protocol_type"] == "connect"]
    assert {row["primary_cause"] for row in workers} >= {Cause.JOIN, Cause.WORK_CHANGE}
