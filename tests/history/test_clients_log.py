"""Groups of sarama, of franz-go and of a Kafka Streams application, as recorded: causes, ends of stays, and advice."""

from typing import Any

import pytest

from tests.history.expected_tables import explained
from tests.history.truth import Truths


Rows = list[dict[str, Any]]

JOINED_TWICE = ["created", "join", "join", "join", "expiry", "join", "expiry"]
"""Two members join the first one; one leaves while the other one dies; that comes back; then all die."""
IN_TWO_ROUNDS = [
    *("created", "join", "join", "cooperative_followup", "join", "cooperative_followup"),
    *("expiry", "join", "cooperative_followup", "expiry"),
]
CAUSES = {
    "kgo-coop": IN_TWO_ROUNDS,
    "kgo-range": JOINED_TWICE,
    "kgo-static": IN_TWO_ROUNDS,
    "mixed": ["created", "join", "expiry"],
    "sarama-range": JOINED_TWICE,
    "sarama-static": JOINED_TWICE,
    "sarama-sticky": JOINED_TWICE,
    # of the second one the coordinator says that the leader's metadata changed: topics of its own were made
    "words": ["created", "join", "rejoin", "join", "cooperative_followup", "expiry", "expiry"],
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Rows]:
    """The tables of the log, made without what the coordinator said."""
    names = ("generations", "departures", "rejects", "replay", "advice", "quality")
    return explained("clients", tmp_path_factory.mktemp("clients"), names)


def test_each_rebalance_has_its_cause(tables: dict[str, Rows]) -> None:
    rows = sorted(tables["generations"], key=lambda row: (row["group_id"], row["seq"]))
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["group_id"], []).append(row["primary_cause"])
    assert found == CAUSES


def test_causes_of_the_clients_log_are_the_coordinators(tables: dict[str, Rows]) -> None:
    judged = Truths.of("clients").judge(tables["generations"])
    assert len(judged) > 40
    assert [each for each in judged if not each.is_right] == []


def test_departures_in_the_clients_log_are_leaves_or_expiries_as_they_were(
    tables: dict[str, Rows],
) -> None:
    # a static member leaves without a word
    left = {"kgo-coop", "kgo-range", "sarama-range", "sarama-sticky"}
    for row in tables["departures"]:
        is_leaving = row["client_id"] == "c1" and row["group_id"] in left
        assert row["reason"] == ("leave" if is_leaving else "expiry"), row
    assert len(tables["departures"]) == 28


def test_clients_log_is_read_whole(tables: dict[str, Rows]) -> None:
    assert tables["rejects"] == []
    assert sum(row["records"] for row in tables["quality"]) == 3_240
    for row in tables["quality"]:
        counts = ("offset_gaps", "bad_batches", "undecodable", "missing_generations")
        assert [row[name] for name in counts] == [0, 0, 0, 0], row
        assert not row["unknown_types"], row


def test_a_streams_application_is_not_advised_to_take_another_assignor(
    tables: dict[str, Rows],
) -> None:
    replayed = {row["group_id"] for row in tables["replay"]}
    assert replayed == CAUSES.keys() - {"words"}
    advised = {(row["group_id"], row["advice"]) for row in tables["advice"]}
    assert "words" not in {group for group, _ in advised}
    assert {("sarama-range", "cooperative"), ("kgo-coop", "static_membership")} <= advised
    assert ("kgo-static", "static_membership") not in advised
