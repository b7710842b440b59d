"""Tests `groupsdk log`: live, followed, of a data directory; what Kafka's own tool prints of the same files."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from typing_extensions import override

from groupsdk.admin.cluster import ClusterClient
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.cli.log import read_live
from groupsdk.testing import LocalKafka
from groupsdk.wire.messages.fetch import PartitionData
from tests.cli.conftest import Run
from tests.cli.peers import librdkafka, produce
from tests.examples.process import ExampleProcess
from tests.support.brokers import STEADY
from tests.support.cases import each_case
from tests.support.topics import create_topic


pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A broker that keeps its data in a directory."""
    with EmbeddedBroker(data_dir=tmp_path / "data") as running:
        running.create_topic("t", 2)
        produce(running.bootstrap_servers, "t", {0: 3, 1: 3})
        yield running


def read_all(servers: str, group_id: str) -> None:
    with librdkafka(servers, group_id, "t") as consumer:
        consumer.commit(offsets=[TopicPartition("t", 0, 3)], asynchronous=False)


def commit_in_a_transaction(servers: str, group_id: str) -> None:
    """Commits an offset as part of a transaction."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": f"tx-{group_id}"})
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group_id})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("t", b"x")
    parts = [TopicPartition("t", 1, 2)]
    producer.send_offsets_to_transaction(parts, consumer.consumer_group_metadata(), 20)
    producer.commit_transaction(60)
    consumer.close()


def test_the_live_log_and_its_files_say_the_same(
    kept: EmbeddedBroker, tmp_path: Path, run: Run
) -> None:
    read_all(kept.bootstrap_servers, "a")
    commit_in_a_transaction(kept.bootstrap_servers, "b")
    servers = ("--bootstrap-servers", kept.bootstrap_servers)
    live = run("log", "--json", *servers).lines
    texts = [each["text"] for each in live]
    assert any(each.startswith("a generation 1, consumer range") for each in texts)
    assert "a t-0 = 3" in texts
    (part,) = (each for each in live if each["text"] == "b t-1 = 2")
    (marker,) = (each for each in live if each["record"] == "EndTxnMarker")
    assert part["producer_id"] == marker["producer_id"] >= 0
    files = run("log", "--json", "--segments", str(tmp_path / "data")).lines
    in_order = [(each["partition"], each["offset"], each["text"]) for each in files]
    assert sorted(in_order) == sorted((e["partition"], e["offset"], e["text"]) for e in live)

    only = run("log", "--offsets", "--group", "a*", "--json", *servers).lines
    assert {(each["kind"], each["group"]) for each in only} == {("offset", "a")}
    states = run("log", "--transactions", "--group", "tx-*", *servers).out
    assert "tx-b CompleteCommit" in states
    assert "wrote to __consumer_offsets(" in states
    assert len(run("log", "--last", "1", "--json", *servers).lines) <= len(
        {each["partition"] for each in live}
    )
    assert run("log", "--since", "2999-01-01T00:00:00", *servers).out == ""
    assert len(run("log", "--since", "1d", "--json", *servers).lines) == len(live)
    partition = str(part["partition"])
    some = run("log", "--partition", partition, "--json", *servers).lines
    assert {str(each["partition"]) for each in some} == {partition}


def test_groups_of_the_consumer_protocol_are_plain_lines_with_topic_names(
    kept: EmbeddedBroker, tmp_path: Path, run: Run
) -> None:
    servers = ("--bootstrap-servers", kept.bootstrap_servers)
    with librdkafka(
        kept.bootstrap_servers, "new", "t", group_protocol="consumer", client_id="rd"
    ) as consumer:
        consumer.commit(offsets=[TopicPartition("t", 0, 3)], asynchronous=False)
        live = run("log", "--groups", *servers).out
    for name, text in (
        ("ConsumerGroupMemberMetadata", "subscribed to t"),
        ("ConsumerGroupTargetAssignmentMember", "target [t(0-1)]"),
        ("ConsumerGroupCurrentMemberAssignment", "[t(0-1)]"),
    ):
        lines = [each for each in live.splitlines() if f" {name} new member " in each]
        assert any(text in each for each in lines), live
    assert "{" not in live
    files = run("log", "--groups", "--segments", str(tmp_path / "data")).out
    assert set(live.splitlines()) <= set(files.splitlines())


def test_the_log_as_kafkas_formatters_print_it(kept: EmbeddedBroker, run: Run) -> None:
    read_all(kept.bootstrap_servers, "a")
    commit_in_a_transaction(kept.bootstrap_servers, "b")
    servers = ("--bootstrap-servers", kept.bootstrap_servers)
    offsets = run("log", "--kafka", "--offsets", *servers).lines
    assert {each["key"]["data"]["group"] for each in offsets} == {"a", "b"}
    assert {each["key"]["type"] for each in offsets} == {1}
    groups = run("log", "--kafka", "--groups", *servers).lines
    assert {each["key"]["type"] for each in groups} == {2}
    states = run("log", "--kafka", "--transactions", *servers).lines
    assert {each["key"]["data"]["transactionalId"] for each in states} == {"tx-b"}


def test_the_log_is_followed(kept: EmbeddedBroker) -> None:
    read_all(kept.bootstrap_servers, "before")
    servers = ("--bootstrap-servers", kept.bootstrap_servers)
    command = ("-m", "groupsdk", "log", "-f", "--json", "--log-level", "debug", "--offsets")
    with ExampleProcess(*command, *servers) as process:
        # it says when it has begun to wait
        process.wait_for("following")
        read_all(kept.bootstrap_servers, "after")
        found = json.loads(process.wait_for(r"^\{").string)
        assert (found["group"], found["text"]) == ("after", "after t-0 = 3")


def test_following_goes_on_after_the_broker_was_away(kept: EmbeddedBroker) -> None:
    read_all(kept.bootstrap_servers, "before")
    servers = ("--bootstrap-servers", kept.bootstrap_servers, "--timeout", "1")
    command = ("-m", "groupsdk", "log", "-f", "--json", "--log-level", "debug", "--offsets")
    with ExampleProcess(*command, *servers) as process:
        process.wait_for("following")
        kept.stop()
        process.wait_for("^groupsdk: .*; trying again every 1 s$")
        kept.start()
        process.wait_for("^groupsdk: reading goes on$")
        read_all(kept.bootstrap_servers, "after")
        assert json.loads(process.wait_for(r"^\{").string)["group"] == "after"


def test_following_waits_for_no_partition_that_has_nothing_new() -> None:
    class Counting(ClusterClient):
        fetched = 0
        in_vain = 0

        @override
        async def fetch(self, *given: Any, **options: Any) -> PartitionData:
            data = await super().fetch(*given, **options)
            self.fetched += 1
            self.in_vain += not data.records
            return data

    async def follow(servers: str) -> Counting:
        async with Counting({"bootstrap.servers": servers}) as client:
            entries = read_live(client, "__consumer_offsets", follow=True)
            first = asyncio.ensure_future(anext(entries))
            number = 0
            while not first.done():  # until it has begun, too
                number += 1
                await asyncio.to_thread(read_all, servers, f"g{number}")
            assert (first.result().group or "").startswith("g")
            assert isinstance(entries, AsyncGenerator)
            await entries.aclose()
            return client

    with EmbeddedBroker(topics={"t": 1}) as broker:
        produce(broker.bootstrap_servers, "t", {0: 3})
        read_all(broker.bootstrap_servers, "before")
        client = asyncio.run(follow(broker.bootstrap_servers))
    assert client.fetched > 0
    assert client.in_vain == 0  # of the fifty partitions


def test_a_log_that_is_not_there_yet_is_said(broker: EmbeddedBroker, run: Run) -> None:
    servers = ("--bootstrap-servers", broker.bootstrap_servers)
    told = run("log", "--transactions", *servers, code=1).err
    assert "topic __transaction_state (Kafka creates it with the first transaction)" in told


@each_case(
    ("words", "text"),
    [
        (("--segments", "a", "--archive", "b"), "not both"),
        (("--segments", "a", "-f"), "--follow reads a live cluster"),
        (("--segments", "a", "--last", "1"), "--last reads a live cluster"),
        (("--archive", "a", "--last", "1"), "--last reads a live cluster"),
        (("--dump",), "give --segments PATH"),
        (("--kafka", "--json"), "Give --kafka, --dump or --json, not several"),
        (("--segments", "/no/such"), "there is no /no/such"),
        (("--archive", "/no/such"), "/no/such is no archive"),
        (
            ("--segments", "a", "--since", "soon"),
            "--since must be a duration such as 90m or a time",
        ),
    ],
)
def test_wrong_use_of_log_is_explained(words: tuple[str, ...], text: str, run: Run) -> None:
    assert text in " ".join(run("log", *words, code=2).err.split())


def test_files_are_dumped_as_kafkas_tool_does(own_kafka: object, tmp_path: Path, run: Run) -> None:
    assert callable(own_kafka)
    kafka: LocalKafka = own_kafka(data_dir=tmp_path / "kafka", properties=STEADY)
    create_topic(kafka.bootstrap_servers, "t", 2)
    produce(kafka.bootstrap_servers, "t", {0: 3})
    read_all(kafka.bootstrap_servers, "a")
    live = run("log", "--json", "--bootstrap-servers", kafka.bootstrap_servers).lines
    assert "a t-0 = 3" in [each["text"] for each in live]
    kafka.stop()
    dumped = run("log", "--dump", "--segments", str(tmp_path)).out
    lines = [line for line in dumped.splitlines() if line.startswith("| offset:")]
    assert len(lines) == len(live)
    assert "Log starting offset: 0" in dumped
    assert os.fspath(tmp_path) in dumped
