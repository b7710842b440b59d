"""`groupsdk groups` beside kafka-consumer-groups of 4.3.1 on one real Kafka: what both say and do is the same."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from groupsdk.testing import LocalKafka
from tests.cli.conftest import Run
from tests.cli.peers import crew, franz_go, kafka_python, librdkafka, own_protocol, produce
from tests.support.go import built_go
from tests.support.java import JavaProgram
from tests.support.old_kafka import OldKafka
from tests.support.topics import create_topic
from tests.support.workers import eventually


_SOURCE = Path(__file__).parents[1] / "clients" / "java" / "Tools.java"
_JARS = [f"org.apache.kafka:{name}:4.3.1" for name in ("kafka-tools", "kafka_2.13")]
_PEER = Path(__file__).parents[1] / "kafka" / "java" / "NewProtocolPeer.java"
_GO = Path(__file__).parents[1] / "kafka" / "go"
_CLIENTS = ["org.apache.kafka:kafka-clients:4.3.1"]
_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_RECORDS = 10

pytestmark = pytest.mark.timeout(300)
Tool = Callable[..., str]


@pytest.fixture(scope="module")
def program(kafka_installed: None) -> Iterator[JavaProgram]:
    """One Java process that runs one tool after the other."""
    with JavaProgram(_SOURCE, _JARS) as running:
        yield running


@pytest.fixture
def tool(program: JavaProgram, kafka: LocalKafka) -> Tool:
    """Runs kafka-consumer-groups; returns what it wrote."""

    def run(*words: str) -> str:
        command = [_TOOL, "", "--bootstrap-server", kafka.bootstrap_servers, *words]
        answer = program.ask("\t".join(command), 60_000)
        return answer.partition("\t")[2].replace("\f", "\n")

    return run


@pytest.fixture
def ours(run: Run, kafka: LocalKafka) -> Callable[..., Any]:
    """Runs our command; returns its JSON."""

    def command(*words: str, code: int = 0) -> Any:
        servers = ("--bootstrap-servers", kafka.bootstrap_servers)
        return run("groups", *words, "--json", *servers, code=code).json

    return command


@pytest.fixture
def topic(kafka: LocalKafka, group_id: str) -> str:
    """A topic of three partitions with records."""
    name = f"t-{group_id}"[:200]
    create_topic(kafka.bootstrap_servers, name, 3)
    produce(kafka.bootstrap_servers, name, {0: _RECORDS, 1: _RECORDS, 2: _RECORDS})
    return name


def rows(written: str, group_id: str) -> list[list[str]]:
    """Reads the rows of a table of the tool that begin with a group."""
    return [words for line in written.splitlines() if (words := line.split())[:1] == [group_id]]


def text(value: Any) -> str:
    """Writes a value as the tool's tables do."""
    return "-" if value is None or value == "" else str(value)


def commit(kafka: LocalKafka, group_id: str, topic: str, offsets: dict[int, int]) -> None:
    """Commits offsets as a consumer that leaves."""
    with librdkafka(kafka.bootstrap_servers, group_id, topic) as consumer:
        parts = [TopicPartition(topic, *each) for each in offsets.items()]
        consumer.commit(offsets=parts, asynchronous=False)


def assigned(ours: Callable[..., Any], group_id: str) -> bool:
    """Tells whether a group is stable and its members have all three partitions."""
    if group_id not in {each["group_id"] for each in ours("list")}:
        return False
    (found,) = ours("describe", group_id)
    count = sum(len(each["assignment"]["partitions"]) for each in found["members"])
    return bool(found["state"] == "Stable" and count == 3)


def at_rest(ask: Callable[[], list[Any]], tell: Callable[[], str]) -> tuple[Any, str]:
    """Describe a group by both, again where it has changed meanwhile: some clients commit every few seconds."""

    def both() -> tuple[Any, str] | None:
        (before,), wrote, (after,) = ask(), tell(), ask()
        return (before, wrote) if before == after else None

    return eventually(both)


def test_groups_of_other_clients_are_told_alike(
    kafka: LocalKafka,
    tool: Tool,
    ours: Callable[..., Any],
    topic: str,
    group_id: str,
    tmp_path: Path,
) -> None:
    servers = kafka.bootstrap_servers
    classic, new, python, own, empty, java, go, new_go = (
        f"{each}-{group_id}" for each in "abcdefgh"
    )
    commit(kafka, empty, topic, {0: 3, 1: _RECORDS})
    with ExitStack() as stack:
        static = {"group.instance.id": "i", "client.id": "x"}
        stack.enter_context(crew(servers, classic, topic, static, {}))
        stack.enter_context(librdkafka(servers, new, topic, group_protocol="consumer"))
        stack.enter_context(kafka_python(servers, python, topic))
        stack.enter_context(own_protocol(servers, own))
        peer = stack.enter_context(JavaProgram(_PEER, _CLIENTS, arguments=[servers, java, topic]))
        for group, name, *words in ((go, "grouppeer", "cooperative-sticky"), (new_go, "nextpeer")):
            program = built_go(_GO / name, tmp_path)
            stack.enter_context(franz_go(program, servers, group, topic, *words))
            eventually(partial(assigned, ours, group))
        while not peer.receive(60_000).startswith("owns"):
            """It says what it reads, too."""

        # list; the tool leaves out what is no consumer's
        listed = [each for each in ours("list") if group_id in each["group_id"]]
        consumers = {each["group_id"] for each in listed if each["protocol_type"] == "consumer"}
        assert {each["group_id"] for each in listed} - consumers == {own}
        assert {line for line in tool("--list").splitlines() if group_id in line} == consumers
        states = {
            each["group_id"]: (each["type"].title(), each["state"])
            for each in listed
            if each["group_id"] in consumers
        }
        for each, (kind, state) in states.items():
            (row,) = rows(tool("--list", "--state", "--type"), each)
            assert row == [each, kind, state]

        for group in (classic, new, python, empty, java, go, new_go):
            # --describe
            found, wrote = at_rest(
                partial(ours, "describe", group), partial(tool, "--describe", "--group", group)
            )
            written = {tuple(row) for row in rows(wrote, group)}
            expected = {
                (
                    *(group, each["topic"], str(each["partition"]), text(each["committed"])),
                    *(text(each["end"]), text(each["lag"]), text(each["member_id"])),
                    *(text(each["host"]), text(each["client_id"])),
                )
                for each in found["lag"]
            }
            assert {tuple(row) for row in written} == expected
            # --describe --state
            (state,) = rows(tool("--describe", "--group", group, "--state"), group)
            assert state[-2:] == [found["state"], str(len(found["members"]))]
            assert f"({found['coordinator']})" in state
            assert text(found["assignor"]) in state
            # --describe --members --verbose
            shown = rows(tool("--describe", "--group", group, "--members"), group)
            assert sorted(row[1] for row in shown) == sorted(
                m["member_id"] for m in found["members"]
            )
            assert sorted(int(row[-1]) for row in shown) == sorted(
                len(each["assignment"]["partitions"]) for each in found["members"]
            )


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_resets_are_the_same(
    kafka: LocalKafka,
    tool: Tool,
    ours: Callable[..., Any],
    topic: str,
    group_id: str,
    tmp_path: Path,
    protocol: str,
) -> None:
    groups = f"tool-{group_id}", f"ours-{group_id}"
    for each in groups:
        with librdkafka(kafka.bootstrap_servers, each, topic, group_protocol=protocol) as consumer:
            parts = [TopicPartition(topic, 0, 4), TopicPartition(topic, 1, 9)]
            consumer.commit(offsets=parts, asynchronous=False)
    file = tmp_path / "offsets.csv"
    file.write_text(f"{topic},0,2\n{topic},1,400\n")
    scenarios: list[tuple[str, ...]] = [
        ("--all-topics", "--to-earliest"),
        ("--all-topics", "--shift-by", "3"),
        ("--all-topics", "--shift-by", "2"),
        ("--all-topics", "--shift-by", "-100"),
        ("--topic", f"{topic}:0,2", "--to-offset", "5"),
        ("--topic", topic, "--to-current"),
        ("--topic", topic, "--to-datetime", "2001-01-01T00:00:00.000"),
        ("--topic", topic, "--to-datetime", "2999-01-01T00:00:00.000"),
        ("--topic", topic, "--to-latest"),
        ("--all-topics", "--by-duration", "P1D"),
        ("--from-file", str(file)),
        ("--topic", f"{topic}:1", "--to-offset", "1000"),
    ]
    for words, execute in itertools.product(scenarios, (False, True)):
        mode = "--execute" if execute else "--dry-run"
        wrote = tool("--reset-offsets", "--group", groups[0], *words, mode)
        theirs = {(row[1], int(row[2])): int(row[3]) for row in rows(wrote, groups[0])}
        answer = ours("reset", groups[1], *words, mode)
        mine = {(each["topic"], each["partition"]): each["new"] for each in answer["partitions"]}
        assert mine == theirs, (words, wrote)
        assert answer["executed"] is execute
        left = [
            {row[1] + row[2]: row[3] for row in rows(tool("--describe", "--group", each), each)}
            for each in groups
        ]
        assert left[0] == left[1]
        assert left[1] == {
            f"{each['topic']}{each['partition']}": str(each["offset"])
            for each in ours("offsets", groups[1])
        }


def test_refusals_and_deletions_are_the_same(
    kafka: LocalKafka, tool: Tool, ours: Callable[..., Any], topic: str, group_id: str
) -> None:
    theirs, mine = f"tool-{group_id}", f"ours-{group_id}"
    for each in (theirs, mine):
        commit(kafka, each, topic, {0: 3, 1: 5})
    with (
        librdkafka(kafka.bootstrap_servers, theirs, topic),
        librdkafka(kafka.bootstrap_servers, mine, topic),
    ):
        assert "is inactive, but the current state is Stable" in tool(
            *("--reset-offsets", "--group", theirs, "--topic", topic, "--to-earliest", "--execute")
        )
        words = ("reset", mine, "--topic", topic, "--to-earliest", "--execute")
        assert ours(*words, code=1)["executed"] is False
        assert "GroupNotEmptyException" in tool("--delete", "--group", theirs)
        assert ours("delete", mine, code=1) == [{"group": mine, "error": "NON_EMPTY_GROUP"}]
        refused = tool("--delete-offsets", "--group", theirs, "--topic", topic)
        assert "GroupSubscribedToTopicException" in refused
        answers = ours("delete", mine, "--topic", topic, code=1)
        assert {each["error"] for each in answers} == {"GROUP_SUBSCRIBED_TO_TOPIC"}
    tool("--delete-offsets", "--group", theirs, "--topic", f"{topic}:0")
    ours("delete", mine, "--topic", f"{topic}:0")
    left = [[row[1:4] for row in rows(tool("--describe", "--group", e), e)] for e in (theirs, mine)]
    assert left[0] == left[1] == [[topic, "1", "5"]]
    assert "was successful" in tool("--delete", "--group", theirs)
    ours("delete", mine)
    listed = tool("--list").splitlines()
    assert theirs not in listed
    assert mine not in listed
    assert "GroupIdNotFoundException" in tool("--delete", "--group", theirs)
    assert ours("delete", mine, code=1) == [{"group": mine, "error": "GROUP_ID_NOT_FOUND"}]


def test_members_are_removed_from_groups_of_both_protocols(
    kafka: LocalKafka, ours: Callable[..., Any], topic: str, group_id: str
) -> None:
    for protocol in ("classic", "consumer"):
        group = f"{protocol}-{group_id}"
        settings = {"group_protocol": protocol, "group_instance_id": "i-1"}
        with librdkafka(kafka.bootstrap_servers, group, topic, **settings) as consumer:
            assert ours("remove", group, "--instance", "i-1")[0]["error"] is None
            assert ours("describe", group)[0]["members"] == []
            consumer.unsubscribe()


@pytest.mark.slow
def test_a_kafka_of_2018_is_understood(kafka_installed: None, run: Run) -> None:
    with OldKafka("2.1.1") as kafka:
        servers = ("--bootstrap-servers", kafka.bootstrap_servers)
        create_topic(kafka.bootstrap_servers, "t", 2)
        produce(kafka.bootstrap_servers, "t", {0: 5, 1: 5})
        with librdkafka(kafka.bootstrap_servers, "g", "t") as consumer:
            consumer.commit(offsets=[TopicPartition("t", 0, 3)], asynchronous=False)
            (found,) = run("groups", "describe", "g", "--json", *servers).json
            assert [each["lag"] for each in found["lag"]] == [2, None]
            assert len(found["members"][0]["assignment"]["partitions"]) == 2
            assert run("doctor", "--group", "g", "--topic", "t", *servers).code == 0
        run("groups", "reset", "g", "--all-topics", "--to-latest", "--execute", *servers)
        assert "g t-0 = 5" in {each["text"] for each in run("log", "--json", *servers).lines}
        told = run("groups", "delete", "g", "--topic", "t", *servers, code=1).err
        assert "Apache Kafka has it from 2.4 on" in told
        run("groups", "delete", "g", *servers)
