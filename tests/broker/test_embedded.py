"""Tests the embedded broker from outside: life, data, nodes and their leaders, a clock of one's own."""

import asyncio
import selectors
import threading
from pathlib import Path
from typing import Any

import pytest

from groupsdk.broker import coordinators
from groupsdk.broker.catalogue import OFFSETS_TOPIC
from groupsdk.broker.coordinator.group_status import GroupState
from groupsdk.broker.embedded import EmbeddedBroker, EmbeddedBrokerError
from groupsdk.broker.log.errors import DirectoryLockedError
from groupsdk.clock import ManualClock
from groupsdk.error_code import ErrorCode
from groupsdk.errors import ConfigError
from groupsdk.wire.messages.groups import HeartbeatRequest
from groupsdk.wire.messages.log_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from groupsdk.wire.messages.metadata import FindCoordinatorRequest, MetadataRequest
from groupsdk.wire.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from groupsdk.wire.messages.transactions import InitProducerIdRequest
from tests.broker.clients import (
    Client,
    batch,
    commit_request,
    connect,
    end_offset,
    fetch_request,
    join,
    produce,
)
from tests.support.workers import eventually


def commit(client: Client, group_id: str, generation: int, member_id: str, offset: int) -> int:
    """Commits an offset of t-0 and returns the error."""
    asked = commit_request(group_id, offset, generation, member_id)
    return client.ask(asked, 8).topics[0].partitions[0].error_code


def committed(client: Client, group_id: str) -> int:
    """Fetches the committed offset of t-0."""
    group = OffsetFetchRequestGroup(
        group_id, topics=(OffsetFetchRequestTopics("t", partition_indexes=(0,)),)
    )
    found = client.ask(OffsetFetchRequest(groups=(group,)), 8).groups[0]
    assert found.error_code == 0
    return found.topics[0].partitions[0].committed_offset


def test_embedded_broker_lives_and_ends_with_its_block() -> None:
    threads = set(threading.enumerate())
    with EmbeddedBroker(topics=["a", "b"]) as broker:
        with connect(broker) as client:
            names = {each.name for each in client.ask(MetadataRequest(None), 12).topics}
            assert names == {"a", "b"}
            assert "running" in repr(broker)
        assert broker.bootstrap_servers.startswith("127.0.0.1:")
    # those of other tests may end meanwhile, and the one that loaded code for a request has told so, and is about to
    eventually(lambda: set(threading.enumerate()) <= threads)
    with pytest.raises(EmbeddedBrokerError, match="not running"):
        _ = broker.bootstrap_servers


def test_embedded_broker_can_be_used_from_asyncio() -> None:
    async def use() -> int:
        async with EmbeddedBroker() as broker:
            host, port = broker.bootstrap_servers.split(":")
            _, writer = await asyncio.open_connection(host, int(port))
            writer.close()
            await writer.wait_closed()
            return int(port)

    assert asyncio.run(use()) > 0


def test_a_restart_in_memory_keeps_ports_records_groups_and_offsets() -> None:
    with EmbeddedBroker(topics={"t": 1}) as broker:
        address = broker.bootstrap_servers
        with connect(broker) as client:
            produce(client, "t", batch(b"one", b"two"))
            member = join(client, "g")
            assert commit(client, "g", member.generation_id, member.member_id, 2) == 0

        broker.restart()

        assert broker.bootstrap_servers == address
        with connect(broker) as client:
            assert end_offset(client, "t") == 2
            assert committed(client, "g") == 2
            beat = HeartbeatRequest("g", member.generation_id, member.member_id)
            assert client.ask(beat).error_code == 0
            assert commit(client, "g", member.generation_id, member.member_id, 1) == 0


def test_a_restart_elects_leaders_under_new_epochs_and_fences_the_old_ones() -> None:
    # As Kafka: a client that keeps the epoch it knew is told so, and must ask for the metadata again.
    with EmbeddedBroker(topics={"t": 2}) as broker:
        with connect(broker) as client:
            produce(client, "t", batch(b"one"))
            join(client, "g")
        before = _leader_epochs(broker)
        broker.restart()
        after = _leader_epochs(broker)
        assert {"t", OFFSETS_TOPIC} <= {name for name, _ in after}
        assert after == {place: epoch + 1 for place, epoch in before.items()}
        with connect(broker) as client:
            for epoch, code in ((0, ErrorCode.FENCED_LEADER_EPOCH), (1, 0), (-1, 0)):
                asked = ListOffsetsPartition(0, timestamp=-1, current_leader_epoch=epoch)
                request = ListOffsetsRequest(topics=(ListOffsetsTopic("t", (asked,)),))
                (topic,) = client.ask(request, 9).topics
                assert topic.partitions[0].error_code == code, epoch


def _leader_epochs(broker: EmbeddedBroker) -> dict[tuple[str, int], int]:
    return {
        (topic.name, partition): state.leader_epoch
        for topic in broker._running().cluster.catalogue.topics.values()
        for partition, state in enumerate(topic.partitions)
    }


def test_a_data_directory_is_used_again_by_the_next_broker(tmp_path: Path) -> None:
    with EmbeddedBroker(data_dir=tmp_path, topics={"t": 1}) as first, connect(first) as client:
        cluster_id = first.cluster_id
        produce(client, "t", batch(b"one", b"two"))
        member = join(client, "g")
        assert commit(client, "g", member.generation_id, member.member_id, 2) == 0
        ids = [client.ask(InitProducerIdRequest(None, 1000), 4).producer_id for _ in range(2)]

    with EmbeddedBroker(data_dir=tmp_path) as second, connect(second) as client:
        assert second.cluster_id == cluster_id
        assert second.groups["g"].state is GroupState.STABLE
        assert end_offset(client, "t") == 2
        assert committed(client, "g") == 2
        again = client.ask(InitProducerIdRequest(None, 1000), 4).producer_id
        assert again not in ids


def test_a_data_directory_belongs_to_one_broker(tmp_path: Path) -> None:
    with EmbeddedBroker(data_dir=tmp_path) as first:
        with pytest.raises(DirectoryLockedError, match="in use"):
            EmbeddedBroker(data_dir=tmp_path).start()
        with connect(first) as client:
            assert client.ask(MetadataRequest(()), 12).cluster_id == first.cluster_id


def test_topics_that_only_the_data_directory_knows_are_taken_over(tmp_path: Path) -> None:
    with EmbeddedBroker(data_dir=tmp_path, topics={"t": 2}) as first, connect(first) as client:
        produce(client, "t", batch(b"one"), partition=1)
        cluster_id = first.cluster_id
    (tmp_path / "catalogue.sqlite").unlink()

    with EmbeddedBroker(data_dir=tmp_path) as second, connect(second) as client:
        assert second.cluster_id == cluster_id
        assert end_offset(client, "t", 1) == 1


@pytest.mark.parametrize("topics", ["default", "offsets.topic", "transaction.state.log"])
def test_as_many_replicas_as_nodes_may_be_asked_for(topics: str) -> None:
    setting = f"{topics}.replication.factor"
    with EmbeddedBroker({setting: 2}, nodes=2) as broker:
        broker.create_topic("t", 1)
        with connect(broker) as client:
            assert produce(client, "t", batch(b"v")).error_code == 0
    with pytest.raises(
        ConfigError, match=f"{setting} must be from 1 to 2, the number of nodes, not 3"
    ):
        EmbeddedBroker({setting: 3}, nodes=2).start()


def test_nodes_share_the_partitions_and_answer_for_their_own() -> None:
    with EmbeddedBroker(nodes=3, topics={"t": 3}) as broker:
        assert len(broker.bootstrap_servers.split(",")) == 3
        leaders = [broker.leader("t", partition) for partition in range(3)]
        assert sorted(each for each in leaders if each) == [1, 2, 3]
        with connect(broker, 1) as one, connect(broker, 2) as two:
            clients = {1: one, 2: two}
            mine, other = leaders.index(1), leaders.index(2)
            assert produce(one, "t", batch(b"v"), partition=mine).error_code == 0
            wrong = produce(one, "t", batch(b"v"), partition=other)
            assert wrong.error_code == 6
            assert wrong.current_leader.leader_id == 2

            broker.move_leader("t", mine, 2)

            assert produce(one, "t", batch(b"v"), partition=mine).error_code == 6
            assert produce(clients[2], "t", batch(b"v"), partition=mine).base_offset == 1


def test_nodes_have_the_ids_that_are_asked_for(tmp_path: Path) -> None:
    with EmbeddedBroker(nodes=2, first_node_id=7, topics={"t": 2}, data_dir=tmp_path) as broker:
        assert {broker.leader("t", 0), broker.leader("t", 1)} == {7, 8}
        with connect(broker) as client:
            found = client.ask(MetadataRequest(()), 12)
            assert sorted(each.node_id for each in found.brokers) == [7, 8]
            assert found.controller_id == 7
        broker.stop_node(7)
        assert broker.leader("t", 0) == 8
    # in a directory of other ids each partition gets a leader that is there
    with EmbeddedBroker(first_node_id=0, data_dir=tmp_path) as broker:
        assert broker.leader("t", 0) == 0
    for wrong in (-1, 2**31 - 1):
        with pytest.raises(ConfigError, match=f"first_node_id must be from 0 to .*, not {wrong}"):
            EmbeddedBroker(first_node_id=wrong).start()


def test_a_coordinator_moves_with_its_groups() -> None:
    with (
        EmbeddedBroker(nodes=2, topics={"t": 1}) as broker,
        connect(broker, 1) as one,
        connect(broker, 2) as two,
    ):
        clients = {1: one, 2: two}
        old = broker.coordinator("g")
        new = 3 - old
        member = join(clients[old], "g")
        beat = HeartbeatRequest("g", member.generation_id, member.member_id)
        assert clients[old].ask(beat).error_code == 0
        assert clients[new].ask(beat).error_code == 16

        broker.move_coordinator("g", new)

        found = one.ask(FindCoordinatorRequest(coordinator_keys=("g",)), 4).coordinators[0]
        assert found.node_id == new
        assert clients[old].ask(beat).error_code == 16
        assert clients[new].ask(beat).error_code == 0
        assert list(broker.groups["g"].members) == [member.member_id]


def test_partitions_of_a_stopped_node_are_led_by_the_others() -> None:
    with EmbeddedBroker(nodes=2, topics={"t": 2}) as broker:
        address = broker.bootstrap_servers
        with connect(broker, 2) as lost:
            broker.stop_node(2)
            assert lost.is_closed()
        assert [broker.leader("t", partition) for partition in range(2)] == [1, 1]
        assert broker.coordinator("g") == 1
        with connect(broker) as client:
            brokers = client.ask(MetadataRequest(()), 12).brokers
            assert [each.node_id for each in brokers] == [1]
            assert produce(client, "t", batch(b"v"), partition=1).error_code == 0

            broker.start_node(2)

            assert len(client.ask(MetadataRequest(()), 12).brokers) == 2
        assert broker.bootstrap_servers == address
        with connect(broker, 2) as back:
            assert back.ask(MetadataRequest(()), 12).cluster_id == broker.cluster_id


def test_time_stands_still_until_it_is_moved() -> None:
    clock = ManualClock(1_000_000)
    with EmbeddedBroker(clock=clock, topics={"t": 1}) as broker, connect(broker) as client:
        member = join(client, "g").member_id
        assert list(broker.groups["g"].members) == [member]

        broker.advance(29_000)
        assert list(broker.groups["g"].members) == [member]
        broker.advance(2_000)

        assert not broker.groups["g"].members
        assert clock.now_ms() == 1_031_000
    with EmbeddedBroker() as real, pytest.raises(ConfigError, match="ManualClock"):
        real.advance(1)


def test_with_a_clock_of_ones_own_clients_need_no_push() -> None:
    with EmbeddedBroker(clock=ManualClock(), topics={"t": 1}) as broker, connect(broker) as client:
        # what is due at once is done at once: the first join of a group without an initial delay
        assert join(client, "g").generation_id == 1
        assert broker.groups["g"].state is GroupState.STABLE

        # a consumer with nothing to read is answered when its own time is up, or it could not go on
        asked = fetch_request(max_wait_ms=5, min_bytes=1)
        assert client.ask(asked, 12).responses[0].partitions[0].error_code == 0


def test_topics_are_created_and_deleted(broker: EmbeddedBroker, client: Client) -> None:
    broker.create_topic("more", 2, {"cleanup.policy": "compact"})
    assert {each.name for each in client.ask(MetadataRequest(None), 12).topics} == {"t", "more"}
    broker.delete_topic("more")
    assert {each.name for each in client.ask(MetadataRequest(None), 12).topics} == {"t"}
    for wrong in ("t", "a b"):
        with pytest.raises(ConfigError):
            broker.create_topic(wrong)
    with pytest.raises(ConfigError, match="topic more does not exist"):
        broker.delete_topic("more")
    with pytest.raises(ConfigError, match="partition t-9 does not exist"):
        broker.move_leader("t", 9, 1)
    with pytest.raises(ConfigError, match="node 7 does not exist"):
        broker.move_leader("t", 0, 7)


def test_bad_setting_of_an_embedded_broker_is_named() -> None:
    with pytest.raises(ConfigError, match=r"did you mean group.max.size"):
        EmbeddedBroker({"group.max.sise": 2})
    with pytest.raises(ConfigError, match="nodes must be at least 1"):
        EmbeddedBroker(nodes=0).start()
    with pytest.raises(ConfigError, match="no listener"), EmbeddedBroker() as broker:
        broker.bootstrap_servers_of("NOPE")
    with EmbeddedBroker() as broker:
        taken = broker.bootstrap_servers
        with pytest.raises(ConfigError, match="in use"):
            EmbeddedBroker(listeners=f"PLAINTEXT://{taken}").start()


@pytest.mark.parametrize("slice_size", [2_000, 1])
def test_a_crash_while_a_topic_is_deleted_brings_nothing_of_it_back(
    slice_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 1: the group's log is still being loaded when the deletion is completed
    monkeypatch.setattr(coordinators, "AT_ONCE_RECORDS", slice_size)
    with EmbeddedBroker(topics={"t": 2}) as broker:
        with connect(broker) as client:
            assert produce(client, "t", batch(b"v")).error_code == 0
            joined = join(client, "g")
            assert commit(client, "g", joined.generation_id, joined.member_id, 7) == 0
        catalogue = broker._running().cluster.catalogue
        broker._on_loop(lambda: catalogue.delete_topic("t"))  # and no further did it come
        broker.restart()
        with connect(broker) as client:
            # made anew at the start
            assert end_offset(client, "t") == 0
            assert committed(client, "g") == -1


def test_sessions_rest_while_the_only_node_is_down() -> None:
    with EmbeddedBroker(clock=ManualClock(), topics={"t": 1}) as broker:
        with connect(broker) as client:
            joined = join(client, "g")
        epoch = broker._running().cluster.leader_epoch("t", 0)
        broker.stop_node(1)
        broker.advance(3_600_000)
        broker.start_node(1)
        with connect(broker) as client:
            assert commit(client, "g", joined.generation_id, joined.member_id, 7) == 0
        assert broker._running().cluster.leader_epoch("t", 0) == epoch + 1
        broker.advance(60_000)
        assert not broker.groups["g"].members


def test_a_single_topic_may_be_a_text_and_a_wrong_setting_is_named_as_it_was_given() -> None:
    with EmbeddedBroker(topics="orders") as broker, connect(broker) as client:
        topics = client.ask(MetadataRequest(None), 12).topics
        assert [(each.name, len(each.partitions)) for each in topics] == [("orders", 1)]
    with pytest.raises(ConfigError, match=r"^unknown broker setting group\.max\.sise"):
        EmbeddedBroker({"group.max.sise": 3})
    assert (
        EmbeddedBroker(
            {"group.initial.rebalance.delay.ms": 7}
        ).config.group_initial_rebalance_delay_ms
        == 7
    )


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"nodes": "x"}, "nodes must be an integer, not 'x'"),
        ({"nodes": True}, "nodes must be an integer, not True"),
        ({"first_node_id": "x"}, "first_node_id must be an integer, not 'x'"),
        ({"topics": 5}, "topics must be a mapping or a list of names, not 5"),
        ({"topics": [5]}, "the topic 5: a topic's name must be a string"),
    ],
)
def test_an_argument_of_a_wrong_type_is_named(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=f"^{problem}$"):
        EmbeddedBroker(**arguments).start()


@pytest.mark.parametrize("name", [5, None, b"x"])
def test_a_topic_whose_name_is_no_string_is_refused(broker: EmbeddedBroker, name: Any) -> None:
    with pytest.raises(ConfigError, match=f"the topic {name!r}: a topic's name must be a string"):
        broker.create_topic(name)


@pytest.mark.parametrize("count", [0, -1, 10_001, 10**9, True, "3", 1.5])
def test_a_number_of_partitions_that_cannot_be_is_refused(
    broker: EmbeddedBroker, count: Any
) -> None:
    with pytest.raises(
        ConfigError,
        match=r"the topic 'more': the number of partitions must be an integer from 1 to 10000",
    ):
        broker.create_topic("more", count)
    with pytest.raises(ConfigError, match=r"the topic 'more': .* partitions"):
        EmbeddedBroker(topics={"more": count}).start()
    broker.create_topic("more", 1)


def test_selectors_of_gevent_are_refused_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class GeventSelector(selectors.DefaultSelector):
        pass

    GeventSelector.__module__ = "gevent.selectors"
    monkeypatch.setattr("selectors.DefaultSelector", GeventSelector)
    with pytest.raises(EmbeddedBrokerError, match=r"gevent has replaced .* `groupsdk broker`"):
        EmbeddedBroker().start()
