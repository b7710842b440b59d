"""Share and streams groups and one that commits in transactions only, as recorded: causes, ends, names and advice."""

from typing import Any

import pytest

from tests.history.expected_tables import explained
from tests.history.truth import Truths


Rows = list[dict[str, Any]]

COUNTING = [
    # its repartition topic and changelog are made after the first epoch
    *("join", "topic_growth", "join", "join", "leave", "expiry"),
    *("join", "leave", "join", "expiry", "join", "leave", "leave"),
]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Rows]:
    """The tables of the log, made without what the coordinator said."""
    names = ("generations", "departures", "rejects", "advice", "quality", "topics", "payloads")
    return explained("newer", tmp_path_factory.mktemp("newer"), names)


@pytest.fixture(scope="module")
def truths() -> Truths:
    """What the coordinator said."""
    return Truths.of("newer")


def causes(tables: dict[str, Rows], group: str) -> list[str]:
    """Return the causes of a group's generations."""
    rows = sorted(tables["generations"], key=lambda row: row["seq"])
    return [row["primary_cause"] for row in rows if row["group_id"] == group]


def test_streams_groups_have_the_causes_of_the_scene(tables: dict[str, Rows]) -> None:
    assert causes(tables, "counting") == COUNTING
    assert causes(tables, "counting-once") == COUNTING


def test_a_share_group_is_assigned_partitions_once_they_have_a_state(
    tables: dict[str, Rows],
) -> None:
    found = causes(tables, "sharing")
    # the first epoch assigns nothing; that is no unknown cause
    assert found[:3] == ["join", "work_change", "join"]
    assert "unknown" not in found + causes(tables, "sharing-more")


def test_causes_of_the_newer_groups_log_are_the_coordinators(
    tables: dict[str, Rows], truths: Truths
) -> None:
    judged = truths.judge(tables["generations"])
    assert len(judged) > 60
    assert [each for each in judged if not each.is_right] == []


def test_departures_in_the_newer_groups_log_are_leaves_or_expiries_as_they_were(
    tables: dict[str, Rows], truths: Truths
) -> None:
    generations = {(row["group_id"], row["seq"]): row for row in tables["generations"]}
    known = 0
    for row in tables["departures"]:
        of = generations[row["group_id"], row["seq"]]
        end = truths.end(row["group_id"], row["member_id"], of["generation"], of["missing_before"])
        assert not end or row["reason"] in end, row
        known += bool(end)
        # their commits tell, under the topics that a part of the topology reads, and in transactions as well
        if not row["group_id"].startswith("sharing"):
            assert row["confidence"] >= 0.7, row
    assert known > 20


def test_share_groups_name_their_topics(tables: dict[str, Rows]) -> None:
    assert {"orders", "events"} <= {row["topic"] for row in tables["topics"]}


def test_advice_names_settings_that_the_groups_have(tables: dict[str, Rows]) -> None:
    protocols = {"counting": "streams", "counting-once": "streams", "paying-modern": "consumer"}
    assert tables["advice"]
    for row in tables["advice"]:
        protocol = protocols.get(row["group_id"], "share")
        assert f"group.{protocol}.session.timeout.ms" in row["setting"]
        # KIP-932 and KIP-1071 have no static members
        assert protocol == "consumer" or row["advice"] != "static_membership"


def test_newer_groups_log_is_read_whole(tables: dict[str, Rows]) -> None:
    assert tables["rejects"] == []
    for row in tables["quality"]:
        counts = ("offset_gaps", "bad_batches", "undecodable", "missing_generations")
        assert [row[name] for name in counts] == [0, 0, 0, 0], row
