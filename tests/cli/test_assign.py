"""Tests `groupsdk assign`: by hand, from a file, of a live group, with assignors of one's own."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest
from typing_extensions import override

from assignors.range import RangeAssignor
from assignors.registry import known_assignors
from groupsdk.assignment import Cluster, GroupAssignment, GroupSubscription
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.cli.assign import read_situation, run_assignor, typed_situation
from groupsdk.errors import ConfigError
from tests.cli.conftest import Run
from tests.cli.peers import librdkafka
from tests.support.cases import each_case


class OwnAssignor(RangeAssignor):
    """An assignor of a user's own."""

    name = "mine"
    calls: ClassVar[list[frozenset[str]]] = []
    """The topics of each call."""

    @override
    def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
        self.calls.append(frozenset(cluster.partition_counts))
        return super().assign(cluster, subscriptions)


def test_every_assignor_is_tried_on_a_typed_situation(run: Run) -> None:
    found = run("assign", "--topic", "t:7", "--members", "3", "--json").json
    assert {each["assignor"] for each in found} == set(known_assignors())
    for each in found:
        assert each["quality"]["most"] == 3
        assert each["quality"]["is_fairest"] is True
        assert sum(len(parts.get("t", [])) for parts in each["assignment"].values()) == 7
    shown = run("assign", "--topic", "t:7", "--members", "3", "--plan").out
    assert "FAIREST" in shown
    assert "t(0-2)" in shown


def test_assign_command_keeps_owned_partitions_and_explains_a_move(run: Run) -> None:
    words = ("--topic", "t:6", "--member", "a", "--member", "b:t", "--owns", "a:t:0-5")
    names = ("--assignor", "sticky", "--assignor", "cooperative-sticky")
    for found in run("assign", *words, *names, "--json", "--explain", "all").json:
        assert (found["quality"]["moves"], found["quality"]["problems"]) == (3, [])
        assert found["rebalances"] == (2 if found["assignor"] == "cooperative-sticky" else 1)
        assert len(found["explanations"]) == 6
        moved = [each for each in found["explanations"] if each["member_id"] == "b"]
        assert "It moved from 'a', which owned it." in moved[0]["reasons"]
    shown = run("assign", *words, "--assignor", "sticky", "--explain", "t-0").out
    assert "sticky: t-0 is with" in shown


@each_case("name", ["sticky", "cooperative-sticky"])
def test_assign_command_moves_no_more_than_necessary(name: str, run: Run) -> None:
    words = ("--topic", "t:6", "--member", "a", "--member", "b", "--owns", "a:t:3-5")
    (found,) = run("assign", *words, "--assignor", name, "--json").json
    assert found["quality"]["moves"] == 0
    assert found["assignment"]["a"] == {"t": [3, 4, 5]}


def test_assign_command_shows_members_joining_and_leaving(run: Run) -> None:
    words = (
        "assign",
        "--topic",
        "t:4",
        "--member",
        "a",
        "--member",
        "b",
        "--assignor",
        "range",
        "--json",
    )
    (found,) = run(*words, "--leave", "a", "--join", "c").json
    assert found["assignment"] == {"b": {"t": [0, 1]}, "c": {"t": [2, 3]}}


def test_a_file_is_read(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "group.json"
    members: Mapping[str, object] = {
        "a": {"topics": ["t"], "owned": {"t": [0, 1]}, "rack": "r"},
        "b": {},
    }
    path.write_text(json.dumps({"topics": {"t": 2, "u": 1}, "members": members}))
    situation = read_situation(path.read_text(), str(path))
    assert situation.subscriptions["b"].topics == ["t", "u"]
    assert situation.subscriptions["a"].generation_id == 1
    (found,) = run("assign", "--file", str(path), "--assignor", "sticky", "--json").json
    assert found["assignment"]["a"] == {"t": [0, 1]}
    for text in ("", "[]", '{"topics": {}}', '{"topics": {"t": "x"}, "members": {}}'):
        with pytest.raises(ConfigError, match="f is not of the form"):
            read_situation(text, "f")


def test_an_assignor_of_ones_own(run: Run) -> None:
    place = f"{__name__}:OwnAssignor"
    (found,) = run("assign", "--topic", "t:2", "--members", "1", "--assignor", place, "--json").json
    assert found["assignor"] == "mine"
    OwnAssignor.calls.clear()
    run_assignor(place, typed_situation(["orders:2"], ["a"], None, []))
    first, measured = OwnAssignor.calls
    assert "orders" in measured
    assert "orders" not in first  # which pays for imports
    outcome = run_assignor("range", typed_situation(["t:2"], ["a"], None, []))
    assert outcome.plan.holders() == {("t", 0): "a", ("t", 1): "a"}


def test_a_live_group(broker: EmbeddedBroker, group_id: str, run: Run) -> None:
    topic = f"t-{group_id}"
    broker.create_topic(topic, 4)
    servers = ("--bootstrap-servers", broker.bootstrap_servers)
    with librdkafka(broker.bootstrap_servers, group_id, topic):
        words = ("assign", "--group", group_id, "--assignor", "sticky", "--json", *servers)
        (found,) = run(*words).json
        assert found["quality"]["moves"] == 0
        (found,) = run(*words, "--join", "newcomer").json
        assert found["quality"]["moves"] == 2
    told = run("assign", "--group", group_id, *servers, code=2).err
    assert "has no members that read topics; it is Empty" in told


@each_case(
    ("words", "text"),
    [
        ((), "Give --group NAME, --file FILE"),
        (("--topic", "t:2"), "there are no members"),
        (("--topic", "t", "--members", "1"), "'t' is not NAME:COUNT"),
        (("--topic", "t:2", "--members", "1", "--assignor", "rang"), "did you mean 'range'"),
        (("--topic", "t:2", "--members", "1", "--owns", "x:t:0"), "there is no member x"),
        (("--topic", "t:2", "--member", "a", "--owns", "a:t:0-"), "is not NAME:TOPIC:0-3,5"),
        (("--topic", "t:2", "--members", "1", "--explain", "t"), "'t' is not TOPIC-PARTITION"),
        (("--topic", "t:2", "--members", "1", "--leave", "x"), "there is no member 'x'"),
    ],
)
def test_wrong_use_of_assign_is_explained(words: tuple[str, ...], text: str, run: Run) -> None:
    assert text in " ".join(run("assign", *words, code=2).err.split())
