"""Tests a short storm of six libraries, and its judge; `make storm` plays longer ones on a real Kafka."""

import json
from pathlib import Path
from typing import Any

import pytest

from groupsdk.admin.coordinator_log import EntryKind, LogEntry
from groupsdk.broker.embedded import EmbeddedBroker
from tests.support.go import built_go
from tests.survival.storm.__main__ import play
from tests.survival.storm.playing import PROPERTIES
from tests.survival.storm.verdict import judge


_MEMBER = Path(__file__).parent / "storm" / "go" / "stormmember"


def entry(offset: int, record: str, key: dict[str, Any], value: Any) -> LogEntry:
    """Returns a record of the group g, a millisecond after the one before."""
    return LogEntry(
        partition=0,
        offset=offset,
        timestamp_ms=1_000 + offset,
        kind=EntryKind.GROUP,
        record=record,
        group="g",
        key=key,
        value=value,
    )


def commit(offset: int, committed: int, author: str, partition: int = 3) -> LogEntry:
    """Returns the record of a commit."""
    value = {"offset": committed, "metadata": author}
    return entry(offset, "OffsetCommit", {"partition": partition}, value)


def generation(offset: int, **parts: str) -> LogEntry:
    """Returns the record of a classic generation: the partition of each member."""
    members = [
        {"memberId": f"id-{name}", "clientId": name, "assignment": {"parts": [part]}}
        for name, part in parts.items()
    ]
    return entry(offset, "GroupMetadata", {}, {"members": members})


def test_offset_that_went_back_names_both_authors_and_the_owner(tmp_path: Path) -> None:
    step = {"at": 1_002, "what": "commit", "n": 9, "offsets": {"3": 546}}
    (tmp_path / "b.jsonl").write_text(json.dumps(step) + "\n")
    log = [
        generation(0, a="t-3", b="t-4"),
        commit(1, 549, "a/7"),
        commit(2, 1, "b/8", partition=4),
        generation(3, b="t-3"),
        commit(4, 546, "b/9"),
    ]
    verdict = judge(log, "g", tmp_path)
    assert not verdict.clean
    assert verdict.authors == {"a": 1, "b": 2}
    (found,) = verdict.regressions
    assert (found.before.author, found.before.owners) == ("a/7", ("a",))
    assert (found.after.author, found.after.owners) == ("b/9", ("b",))
    said = str(found)
    assert "549 by a/7" in said
    assert '"n": 9' in said
    assert "b/8" not in said


@pytest.mark.parametrize(("author", "explained"), [("aiokafka", True), ("ours-classic-0", False)])
def test_offset_that_went_back_is_explained_by_an_author_that_does_not_own_it(
    tmp_path: Path, author: str, *, explained: bool
) -> None:
    log = [generation(0, a="t-3"), commit(1, 549, "a/7"), commit(2, 91, f"{author}/27")]
    verdict = judge(log, "g", tmp_path)
    assert verdict.regressions[0].intruders == {author}
    assert verdict.clean is explained


def test_owners_of_a_consumer_group_follow_its_current_assignments(tmp_path: Path) -> None:
    def current(offset: int, assigned: list[int], pending: list[int]) -> LogEntry:
        value = {
            "assignedPartitions": [{"partitions": assigned}],
            "partitionsPendingRevocation": [{"partitions": pending}],
        }
        record = "ConsumerGroupCurrentMemberAssignment"
        return entry(offset, record, {"memberId": "id-a"}, value)

    log = [
        entry(0, "ConsumerGroupMemberMetadata", {"memberId": "id-a"}, {"clientId": "a"}),
        current(1, [1], [3]),
        commit(2, 5, "a/1"),
        current(3, [1], []),
        commit(4, 4, "b/1"),
    ]
    (found,) = judge(log, "g", tmp_path).regressions
    assert (found.before.owners, found.after.owners) == (("a",), ())


@pytest.mark.go
@pytest.mark.usefixtures("kafka_installed")
def test_no_committed_offset_goes_back_in_a_storm_of_six_libraries(tmp_path: Path) -> None:
    with EmbeddedBroker(PROPERTIES) as broker:
        member = built_go(_MEMBER, tmp_path)
        verdict = play(broker.bootstrap_servers, tmp_path / "storm", member, seed=3, seconds=8.0)
    # a short storm may pass before all members have got partitions
    assert len(verdict.authors) >= 3, verdict
    assert verdict.clean, verdict
