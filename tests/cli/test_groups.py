"""Tests `groupsdk groups` on the embedded broker, with groups of other clients in it."""

import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from groupsdk.admin.descriptions import (
    Assignment,
    GroupDescription,
    GroupType,
    Member,
    Subscription,
)
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.cli.groups import _write_members
from groupsdk.connect import Task, Worker
from tests.cli.conftest import Run
from tests.cli.peers import kafka_python, librdkafka, own_protocol, produce
from tests.support.cases import each_case
from tests.support.workers import eventually


pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def topic(broker: EmbeddedBroker, group_id: str) -> str:
    """A topic of two partitions with ten records in each."""
    name = f"t-{group_id}"
    broker.create_topic(name, 2)
    produce(broker.bootstrap_servers, name, {0: 10, 1: 10})
    return name


@pytest.fixture
def servers(broker: EmbeddedBroker) -> tuple[str, str]:
    """The option that every command needs."""
    return "--bootstrap-servers", broker.bootstrap_servers


@pytest.fixture
def committed(broker: EmbeddedBroker, topic: str, group_id: str) -> str:
    """A group without members that has read everything."""
    with librdkafka(broker.bootstrap_servers, group_id, topic) as consumer:
        offsets = [TopicPartition(topic, each, 10) for each in (0, 1)]
        consumer.commit(offsets=offsets, asynchronous=False)
    return group_id


def test_groups_of_every_kind_are_described(
    broker: EmbeddedBroker, servers: tuple[str, str], topic: str, group_id: str, run: Run
) -> None:
    address = broker.bootstrap_servers
    names = [f"{group_id}-{each}" for each in ("classic", "new", "python", "own")]
    with (
        librdkafka(address, names[0], topic, group_instance_id="i-1", client_id="rd"),
        librdkafka(address, names[1], topic, group_protocol="consumer", client_id="new-client"),
        kafka_python(address, names[2], topic),
        own_protocol(address, names[3]),
    ):
        listed = run("groups", "list", f"{group_id}-*", "--json", *servers).json
        assert {each["group_id"]: each["type"] for each in listed} == {
            names[0]: "classic",
            names[1]: "consumer",
            names[2]: "classic",
            names[3]: "classic",
        }
        assert {each["state"] for each in listed} == {"Stable"}
        found = run("groups", "describe", *names, "--json", *servers).json
        parts = [{"topic": topic, "partition": each} for each in (0, 1)]
        classic, new, python, own = (each["members"][0] for each in found)
        assert classic["assignment"]["partitions"] == parts
        assert (classic["instance_id"], classic["client_id"]) == ("i-1", "rd")
        assert classic["subscription"]["topics"] == [topic]
        assert new["assignment"]["partitions"] == new["target"]["partitions"] == parts
        assert (new["protocol"], found[1]["assignor"]) == ("consumer", "uniform")
        assert found[1]["epoch"] == new["epoch"]
        assert python["assignment"]["partitions"] == parts
        assert own["assignment"]["other"] == {"shards": [1, 2]}
        assert own["subscription"]["other"] == {"weight": 2}
        assert [each["lag"] for each in found[0]["lag"]] == [None, None]
        shown = run("groups", "describe", *names, *servers).out
        assert f"{topic}(0-1)" in shown
        assert '{"shards": [1, 2]}' in shown
        shown = run("groups", "members", names[1], *servers).out
        assert f"Members of {names[1]}" in shown
        assert {"CLIENT", "HOST", "new-client"} <= set(shown.split())
    states = run("groups", "list", "--state", "empty", "--type", "consumer", "--json", *servers)
    assert [each["group_id"] for each in states.json] == [names[1]]


def test_a_group_of_connect_is_decoded(
    broker: EmbeddedBroker, servers: tuple[str, str], group_id: str, run: Run
) -> None:
    app = Worker(offset_storage_partitions=1)

    @app.tasks
    def plan() -> list[Task]:
        return [Task("a"), Task("b")]

    begun = threading.Barrier(3)

    @app.task
    def work(task: Task, context: Any) -> None:
        begun.wait(60)
        context.stop.wait()

    worker = app.start(bootstrap_servers=broker.bootstrap_servers, group_id=group_id)
    try:
        begun.wait(60)
        # while the group rebalances it has no assignments to show
        found = eventually(
            lambda: [
                each
                for each in run("groups", "members", group_id, "--json", *servers).json[0][
                    "members"
                ]
                if each["assignment"]["tasks"]
            ]
        )
        assert len(found[0]["assignment"]["tasks"]) == 2
        (described,) = run("groups", "describe", group_id, "--json", *servers).json
        assert described["protocol_type"] == "connect"
        assert (
            found[0]["assignment"]["tasks"][0] in run("groups", "members", group_id, *servers).out
        )
    finally:
        worker.stop(60)


def test_offsets_and_lag(servers: tuple[str, str], topic: str, committed: str, run: Run) -> None:
    found = run("groups", "offsets", committed, "--json", *servers).json
    assert [(each["partition"], each["offset"]) for each in found] == [(0, 10), (1, 10)]
    (lag,) = run("groups", "lag", committed, "--json", *servers).json
    assert lag["total"] == 0
    moved = run(
        *("groups", "reset", committed, "--topic", f"{topic}:1", "--to-offset", "4"),
        *("--execute", *servers),
    )
    assert moved.err == "done\n"
    (lag,) = run("groups", "lag", committed, "--json", *servers).json
    assert [each["lag"] for each in lag["partitions"]] == [0, 6]
    assert run("groups", "lag", committed, "--total", *servers).out.split()[-2:] == ["2", "6"]
    assert topic in run("groups", "offsets", committed, *servers).out


def test_groups_are_chosen_by_pattern_and_the_furthest_behind_comes_first(
    broker: EmbeddedBroker, servers: tuple[str, str], topic: str, group_id: str, run: Run
) -> None:
    for name, offset in ((f"{group_id}-a", 9), (f"{group_id}-b", 2)):
        with librdkafka(broker.bootstrap_servers, name, topic) as consumer:
            consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    chosen = ("groups", "lag", f"{group_id}-*", "--total", *servers)
    rows = [line.split() for line in run(*chosen).out.splitlines() if group_id in line]
    assert [(row[0], row[-1]) for row in rows] == [(f"{group_id}-b", "8"), (f"{group_id}-a", "1")]
    everything = run("groups", "lag", "--all-groups", "--json", *servers).json
    assert {f"{group_id}-a", f"{group_id}-b"} <= {each["group_id"] for each in everything}
    found = run("groups", "members", f"{group_id}-[ab]", "--json", *servers).json
    assert [each["group_id"] for each in found] == [f"{group_id}-a", f"{group_id}-b"]
    offsets = run("groups", "offsets", f"{group_id}-*", "--json", *servers).json
    assert [(each["group_id"], each["offset"]) for each in offsets] == [
        (f"{group_id}-a", 9),
        (f"{group_id}-b", 2),
    ]
    assert len(run("groups", "offsets", "--all", "--json", *servers).json) >= len(offsets)
    nobody = run("groups", "describe", "nobody-*", *servers, code=2)
    assert "no group matches 'nobody-*'" in nobody.err
    assert "Give one GROUP" in run("groups", "lag", *servers, code=2).err


@each_case(
    ("words", "expected"),
    [
        (("--all-topics", "--to-earliest"), {0: 0, 1: 0}),
        (("--all-topics", "--to-latest"), {0: 10, 1: 10}),
        (("--all-topics", "--to-current"), {0: 10, 1: 10}),
        (("--all-topics", "--shift-by", "-3"), {0: 7, 1: 7}),
        (("--all-topics", "--shift-by", "5"), {0: 10, 1: 10}),
        (("--topic", "{topic}:1", "--to-offset", "2"), {1: 2}),
        (("--topic", "{topic}", "--to-datetime", "2000-01-01T00:00:00"), {0: 0, 1: 0}),
        (("--topic", "{topic}", "--to-datetime", "2999-01-01T00:00:00+01:00"), {0: 10, 1: 10}),
        (("--all-topics", "--by-duration", "P1D"), {0: 0, 1: 0}),
    ],
)
def test_a_reset_shows_its_plan_and_changes_nothing(
    words: tuple[str, ...],
    expected: dict[int, int],
    servers: tuple[str, str],
    topic: str,
    committed: str,
    run: Run,
) -> None:
    given = [each.format(topic=topic) for each in words]
    ran = run("groups", "reset", committed, *given, "--json", *servers)
    assert {each["partition"]: each["new"] for each in ran.json["partitions"]} == expected
    assert ran.json["executed"] is False
    assert "nothing was changed" in ran.err
    found = run("groups", "offsets", committed, "--json", *servers).json
    assert [each["offset"] for each in found] == [10, 10]


def test_a_reset_from_a_file_that_was_exported(
    servers: tuple[str, str], committed: str, run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "offsets.csv"
    run(
        "groups",
        "reset",
        committed,
        "--all-topics",
        "--shift-by",
        "-4",
        "--export",
        str(path),
        *servers,
    )
    ran = run("groups", "reset", committed, "--from-file", str(path), "--execute", *servers)
    assert "6" in ran.out
    found = run("groups", "offsets", committed, "--json", *servers).json
    assert [each["offset"] for each in found] == [6, 6]


def test_a_group_with_members_is_left_alone(
    broker: EmbeddedBroker, servers: tuple[str, str], topic: str, group_id: str, run: Run
) -> None:
    with librdkafka(broker.bootstrap_servers, group_id, topic) as consumer:
        words = ("groups", "reset", group_id, "--topic", topic, "--to-earliest")
        assert "only while it has no members; it is Stable with 1" in run(*words, *servers).err
        ran = run(*words, "--execute", "--json", *servers, code=1)
        assert ran.json["executed"] is False
        assert "NON_EMPTY_GROUP" in run("groups", "delete", group_id, *servers, code=1).err
        subscribed = run("groups", "delete", group_id, "--topic", topic, *servers, code=1)
        assert "GROUP_SUBSCRIBED_TO_TOPIC" in subscribed.err
        (member,) = run("groups", "members", group_id, "--json", *servers).json[0]["members"]
        assert (
            "nobody"
            in run("groups", "remove", group_id, "--member", "nobody", *servers, code=1).err
        )
        removed = run("groups", "remove", group_id, "--member", member["member_id"], *servers)
        assert removed.out == f"{member['member_id']}: done\n"
        assert not run("groups", "members", group_id, "--json", *servers).json[0]["members"]
        consumer.unsubscribe()


def test_groups_and_offsets_are_deleted(
    servers: tuple[str, str], topic: str, committed: str, run: Run
) -> None:
    ran = run("groups", "delete", committed, "--topic", f"{topic}:0", "--json", *servers)
    assert ran.json == [{"offset": f"{committed} {topic}-0", "error": None}]
    assert len(run("groups", "offsets", committed, "--json", *servers).json) == 1
    ran = run("groups", "delete", committed, "no-such-group", *servers, code=1)
    assert ran.out == f"{committed}: done\n"
    assert "no-such-group: GROUP_ID_NOT_FOUND" in ran.err
    assert "GROUP_ID_NOT_FOUND" in run("groups", "describe", committed, *servers, code=1).err


def test_nobody_is_removed_from_a_group_that_is_not_there(
    servers: tuple[str, str], group_id: str, run: Run
) -> None:
    told = run("groups", "remove", group_id, "--all", *servers, code=1).err
    assert "GROUP_ID_NOT_FOUND" in told


def test_offsets_of_a_group_that_is_not_there_are_an_error(
    servers: tuple[str, str], group_id: str, run: Run
) -> None:
    told = run("groups", "offsets", group_id, *servers, code=1).err
    assert "GROUP_ID_NOT_FOUND" in told


@each_case(
    ("words", "text"),
    [
        (("reset", "g", "--topic", "t"), "Give exactly one of --to-earliest"),
        (("reset", "g", "--topic", "t", "--to-earliest", "--to-latest"), "exactly one"),
        (("reset", "g", "--to-earliest"), "--topic NAME"),
        (("reset", "g", "--topic", "t:x", "--to-latest"), "'t:x' is not NAME or NAME:0,1"),
        (("reset", "g", "--all-topics", "--by-duration", "soon"), "PT1H30M or 90m"),
        (("remove", "g"), "--member ID"),
        (("describe",), "one GROUP or more"),
        (("list", "--type", "new"), "'new' is not one of 'classic', 'consumer'"),
    ],
)
def test_wrong_use_of_groups_is_explained(
    words: tuple[str, ...], text: str, servers: tuple[str, str], run: Run
) -> None:
    assert text in " ".join(run("groups", *words, *servers, code=2).err.split())


def test_members_with_loads_or_weights_are_shown_with_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def member(name: str, loads: dict[str, float], weight: float | None = None) -> Member:
        shard = f"{name}-1"
        return Member(
            name,
            "c",
            "/h",
            subscription=Subscription(loads=loads),
            assignment=Assignment(
                shards={shard: 5}, weights={} if weight is None else {shard: weight}
            ),
        )

    def shown(*members: Member) -> list[list[str]]:
        kind = GroupType.CLASSIC
        _write_members(GroupDescription("g", kind, "Stable", "crawl", "shards", 0, members))
        return [line.split() for line in capsys.readouterr().out.splitlines()]

    assert not any("LOAD" in line for line in shown(member("a", {})))
    lines = shown(member("a", {"a-1": 2.5}), member("b", {}))
    assert any("LOAD" in line for line in lines)
    assert any({"a", "2.5"} <= {*line} for line in lines)
    assert not any("WEIGHT" in line for line in lines)
    lines = shown(member("a", {"a-1": 2.5}, 7.5), member("b", {}))
    assert any("WEIGHT LOAD ASSIGNMENT" in " ".join(line) for line in lines)
    assert any({"a", "7.5", "2.5"} <= {*line} for line in lines)
    assert any({"b", "1"} <= {*line} for line in lines)
