"""Causes held against what the coordinator said itself: on a log of a real broker, and on made-up groups in number."""

from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Any

import pytest

from groupsdk.history.explain.causes import BROKER_LOG
from groupsdk.history.explain.changes import Cause
from groupsdk.history.job import Inputs, run
from groupsdk.history.pipeline import Options
from groupsdk.history.sources.spark_broker_log import read_broker_log, read_ends
from groupsdk.history.sources.spark_segments import read_segments
from tests.history.simulated import write_groups
from tests.history.truth import Truths
from tests.spark.logs import COORDINATOR_LOG, unpack


SCENES = (
    *("migrating", "migrating-static", "flapping", "flapping-modern", "parting", "parting-modern"),
    *("calm", "calm-unnamed", "calm-modern"),
)
"""The groups of which it is written down what was done to them."""
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

    def known(self, departed: Iterable[Any]) -> list[tuple[Any, Set[str]]]:
        """Take the members of whose ends the coordinator says why, with what it says."""
        numbers = {(row.group_id, row.seq): row for row in self.alone}
        found: list[tuple[Any, Set[str]]] = []
        for row in departed:
            made = numbers[row.group_id, row.seq]
            said = self.truths.end(
                row.group_id, row.member_id, made.generation, made.missing_before
            )
            if said:
                found.append((row, said))
        return found


@pytest.fixture(scope="module")
def told(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Both logs, as one, through the steps that tell causes."""
    root = tmp_path_factory.mktemp("logs")
    segments = unpack(("recorded", "scenes"), root)
    said = root / COORDINATOR_LOG
    made_up = dict(write_groups(segments, 5))
    records = read_segments(spark, str(segments))
    options = Options(assignors=())
    alone = run(spark, Inputs(records), str(root / "alone"), options)
    told = Inputs(
        records,
        reasons=read_broker_log(spark, str(said)),
        ends=read_ends(spark, str(said)),
    )
    exact = run(spark, told, str(root / "exact"), options)
    return Told(
        alone["generations"].collect(),
        exact["generations"].collect(),
        alone["departures"].collect(),
        exact["departures"].collect(),
        made_up,
        Truths(said),
    )


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


def test_leaves_and_expiries_are_told_apart(told: Told) -> None:
    right = [row.reason in said for row, said in told.known(told.departed)]
    assert len(right) > 80
    assert share(right) >= 0.9


def test_the_brokers_log_makes_them_exact(told: Told) -> None:
    judged = told.truths.judge(told.with_reasons)
    assert all(each.is_right for each in judged), [each for each in judged if not each.is_right]
    known = told.known(told.departed_with_reasons)
    assert [(row, said) for row, said in known if row.reason not in said] == []
    protocols = {row.protocol for row in told.with_reasons if row.evidence == BROKER_LOG}
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


def test_causes_of_what_was_done_by_hand_are_all_right(told: Told) -> None:
    for rows, departed in (
        (told.alone, told.departed),
        (told.with_reasons, told.departed_with_reasons),
    ):
        mine = [row for row in rows if row.group_id in SCENES]
        assert len(mine) > 90
        wrong = [each for each in told.truths.judge(mine) if not each.is_right]
        assert wrong == []
        gone = [row for row in departed if row.group_id in SCENES]
        assert len(gone) > 30
        known = told.known(gone)
        assert len(known) == len(gone)
        assert [(row, said) for row, said in known if row.reason not in said] == []


def test_the_brokers_log_takes_no_generation_away(told: Told) -> None:
    def places(rows: list[Any]) -> list[tuple[str, int]]:
        return sorted((row.group_id, row.seq) for row in rows)

    assert places(told.with_reasons) == places(told.alone)
    assert len(set(places(told.alone))) == len(told.alone)


def test_clients_that_had_no_coordinator_did_not_start_again(told: Told) -> None:
    lost = {
        (row.group_id, row.generation): row.confidence
        for row in told.alone
        if row.primary_cause == Cause.COORDINATOR_RESTART
    }
    scenes = {key for key in lost if key[0] in SCENES}
    # nobody started these again; the broker was away for longer than their sessions last
    assert scenes == {("calm", 4), ("calm-unnamed", 4), ("flapping", 9), ("parting", 9)}
    assert {lost[key] for key in scenes} == {0.8}
    restarted = {row.group_id for row in told.alone if row.primary_cause == Cause.CLIENT_RESTART}
    assert not restarted & set(SCENES)


def test_a_session_that_the_records_do_not_tell_is_learned(told: Told) -> None:
    # the broker let them last 6 s in the one log, and 4 s in the other; Kafka's own are 45 s
    ends = [
        row
        for row in told.departed
        if row.group_id in ("parting-modern", "flapping-modern") and row.reason == Cause.EXPIRY
    ]
    assert len(ends) >= 5
    assert all(row.confidence >= 0.7 and row.silence_ms < 10_000 for row in ends)
