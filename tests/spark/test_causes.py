"""Causes held against what the coordinator said itself: on a log of a real broker, and on made-up groups in number."""

import gzip
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from groupsdk.history.groups.causes import Cause
from groupsdk.history.schemas import TABLES
from groupsdk.history.sources.broker_log import read_broker_log, read_ends
from groupsdk.history.tables import causes, departures
from groupsdk.history.tables.commits import commit_parts, commit_spans, offset_commits
from groupsdk.history.tables.following import GENERATION, events, of_kind
from groupsdk.history.tables.topics import topics
from groupsdk.history.tables.transactions import outcomes
from tests.history.sample import DATA
from tests.history.simulated import write_groups
from tests.history.truth import Truths
from tests.spark.reading import read_segments


RECORDED = DATA / "recorded"
SESSION_MS = 4_000
"""Of the recorded groups of KIP-848: the broker's setting."""
ENOUGH = 0.95


@dataclass(frozen=True)
class Told:
    """What was told of a log, without the brokers' log and with it."""

    alone: list[Any]
    with_reasons: list[Any]
    departed: list[Any]
    departed_with_reasons: list[Any]
    made_up: dict[tuple[str, int], frozenset[Cause]]
    truths: Truths


@pytest.fixture(scope="module")
def told(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Both logs, as one, through the steps that tell causes."""
    root = tmp_path_factory.mktemp("logs")
    made_up = dict(write_groups(root / "segments", 5))
    for packed in RECORDED.rglob("*.log.gz"):
        file = root / "segments" / packed.parent.name / packed.name.removesuffix(".gz")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(gzip.decompress(packed.read_bytes()))
    said = root / "coordinator-log.txt"
    said.write_bytes(gzip.decompress((RECORDED / "coordinator-log.txt.gz").read_bytes()))
    rest = read_segments(spark, root / "segments", "rest").localCheckpoint()
    followed = rest.transform(events).localCheckpoint()
    counted = followed.transform(of_kind(GENERATION))
    commits = read_segments(spark, root / "segments", "commits").transform(
        offset_commits(outcomes(rest))
    )
    spans = commit_parts(commits).transform(commit_spans(counted)).localCheckpoint()
    names = topics(followed, commits, None).localCheckpoint()
    moves = spark.createDataFrame([], TABLES["moves"].ddl)

    def judge(ends: Any, reasons: Any) -> tuple[list[Any], list[Any]]:
        gone = followed.transform(
            departures.departures(names, spans, counted, session_timeout_ms=SESSION_MS, told=ends)
        ).localCheckpoint()
        made = followed.transform(causes.generations(gone, moves, spans, reasons))
        return made.collect(), gone.collect()

    alone, departed = judge(None, None)
    exact, departed_exact = judge(
        read_ends(spark, str(said)), read_broker_log(spark, str(said)).localCheckpoint()
    )
    return Told(alone, exact, departed, departed_exact, made_up, Truths(said))


def share(right: Iterable[bool]) -> float:
    """Take the share of those that hold."""
    found = list(right)
    return sum(found) / len(found)


def test_causes_told_from_the_log_alone_agree_with_what_the_coordinator_said(told: Told) -> None:
    judged = told.truths.judge(told.alone)
    assert len(judged) > 150
    wrong = [each for each in judged if not each.is_right]
    assert share(each.is_right for each in judged) >= ENOUGH, wrong
    # no cause is right by being said always
    assert len({each.said for each in judged}) >= 7


def test_those_that_are_said_to_be_certain_are_right_more_often(told: Told) -> None:
    judged = told.truths.judge(told.alone)
    certain = [each for each in judged if each.confidence >= 0.7]
    assert len(certain) > len(judged) / 2
    assert share(each.is_right for each in certain) >= 0.97


def test_who_left_and_who_died_is_told_apart(told: Told) -> None:
    known = [row for row in told.departed if row.member_id in told.truths.ends]
    assert len(known) > 50
    assert share(row.reason == told.truths.ends[row.member_id] for row in known) >= 0.9


def test_the_brokers_log_makes_them_exact(told: Told) -> None:
    judged = told.truths.judge(told.with_reasons)
    assert all(each.is_right for each in judged), [each for each in judged if not each.is_right]
    known = [row for row in told.departed_with_reasons if row.member_id in told.truths.ends]
    assert all(row.reason == told.truths.ends[row.member_id] for row in known)
    protocols = {row.protocol for row in told.with_reasons if row.evidence == causes.BROKER_LOG}
    assert protocols == {"classic", "consumer"}


def test_the_newer_protocols_have_reasons_as_well(told: Told) -> None:
    reasons = {
        row.primary_cause: row.reason
        for row in told.with_reasons
        if row.protocol == "consumer" and row.reason is not None
    }
    assert "joins the consumer group" in reasons[Cause.JOIN]
    assert "left the consumer group" in reasons[Cause.LEAVE]
    assert "fenced from the group because the member session expired" in reasons[Cause.EXPIRY]


def test_causes_of_made_up_groups_are_what_was_made_up(told: Told) -> None:
    rows = {
        (row.group_id, row.generation): row
        for row in told.alone
        if row.group_id.startswith("made-up")
    }
    assert rows.keys() == told.made_up.keys()
    right = {key: rows[key].primary_cause in causes for key, causes in told.made_up.items()}
    wrong = [(rows[key], told.made_up[key]) for key, fine in right.items() if not fine]
    assert len(right) == 1_600
    assert share(right.values()) >= ENOUGH, wrong[:10]
    sure = [right[key] for key, row in rows.items() if row.confidence >= 0.7]
    assert len(sure) > 1_300
    assert share(sure) >= 0.98
