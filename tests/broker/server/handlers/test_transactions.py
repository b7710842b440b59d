"""Tests transactions over the wire, in both of their protocols."""

from collections.abc import Callable, Mapping

import pytest
from pytest_mock import MockerFixture

from groupsdk.broker.coordinators import Coordinators
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.error_code import ErrorCode
from groupsdk.testing import LocalKafka
from groupsdk.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from groupsdk.wire.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from groupsdk.wire.messages.topics import CreatableTopic, CreateTopicsRequest
from groupsdk.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.broker.clients import Client, batch, connect, join, produce


def until(done: Callable[[], int], retried: int = 51) -> int:
    """Repeats a request while a transaction is still being completed."""
    for _ in range(1_000):
        code = done()
        if code != retried:
            return code
    raise AssertionError("the transaction is never completed")


class Producer:
    """A transactional producer that keeps its id and epoch."""

    def __init__(
        self, client: Client, transactional_id: str = "x", *, implicit: bool = True
    ) -> None:
        self.client = client
        self.id = transactional_id
        self.implicit = implicit
        self.sequence = 0
        self.producer_id = self.epoch = -1
        assert until(self.init) == 0

    def init(self) -> int:
        """Gets an id and an epoch."""
        answer = self.client.ask(InitProducerIdRequest(self.id, 60_000), 4)
        self.producer_id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0
        return answer.error_code

    def add(self, partition: int = 0) -> int:
        """Adds a partition, as TV1 does."""
        topics = (AddPartitionsToTxnTopic("t", (partition,)),)
        asked = AddPartitionsToTxnRequest((), self.id, self.producer_id, self.epoch, topics)
        answer = self.client.ask(asked, 3)
        return answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code

    def send(self, value: bytes) -> int:
        """Produces a record; returns the error."""
        records = batch(
            value,
            transactional=True,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
        )
        version = 12 if self.implicit else 11
        code = produce(
            self.client, "t", records, transactional_id=self.id, version=version
        ).error_code
        self.sequence += code == 0
        return code

    def commit_offset(self, offset: int) -> int:
        """Commits an offset of the group g as part of the transaction."""
        if not self.implicit:
            added = AddOffsetsToTxnRequest(self.id, self.producer_id, self.epoch, "g")
            assert until(lambda: self.client.ask(added, 3).error_code) == 0
        topics = (
            TxnOffsetCommitRequestTopic(
                "t", partitions=(TxnOffsetCommitRequestPartition(0, offset),)
            ),
        )
        asked = TxnOffsetCommitRequest(self.id, "g", self.producer_id, self.epoch, topics=topics)
        answer = self.client.ask(asked, 5 if self.implicit else 4)
        return answer.topics[0].partitions[0].error_code

    def end(self, *, commit: bool) -> int:
        asked = EndTxnRequest(self.id, self.producer_id, self.epoch, commit)
        answer = self.client.ask(asked, 5 if self.implicit else 4)
        if self.implicit and answer.error_code == 0:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequence = 0
        return answer.error_code


def read(client: Client, *, committed: bool = True) -> PartitionData:
    """Reads t-0 from its start."""
    wanted = (FetchTopic("t", partitions=(FetchPartition(0, partition_max_bytes=100_000),)),)
    asked = FetchRequest(max_wait_ms=0, isolation_level=int(committed), topics=wanted)
    return client.ask(asked, 11).responses[0].partitions[0]


def offset(client: Client, *, stable: bool = False) -> tuple[int, int]:
    """Fetches the offset of the group g: its error and value."""
    group = OffsetFetchRequestGroup(
        "g", topics=(OffsetFetchRequestTopics("t", partition_indexes=(0,)),)
    )
    asked = OffsetFetchRequest(groups=(group,), require_stable=stable)
    found = client.ask(asked, 8).groups[0].topics[0].partitions[0]
    return found.error_code, found.committed_offset


@pytest.mark.parametrize("implicit", [True, False])
def test_a_transaction_is_seen_as_a_whole_or_not_at_all(client: Client, implicit: bool) -> None:
    producer = Producer(client, implicit=implicit)
    for commit, seen in ((True, 1), (False, 1), (True, 3)):
        if not implicit:
            assert until(producer.add) == 0
        assert until(lambda: producer.send(b"v"), 19) == 0
        assert producer.commit_offset(seen * 10) == 0
        before = read(client)
        assert before.last_stable_offset < before.high_watermark
        assert offset(client, stable=True)[0] == 88
        assert producer.end(commit=commit) == 0
        while read(client).last_stable_offset != read(client).high_watermark:
            pass
        expected = 10 * seen
        assert until(lambda: 51 if offset(client, stable=True)[0] == 88 else 0) == 0
        assert offset(client)[1] == (expected if commit else 10)
    aborted = read(client).aborted_transactions or ()
    assert [(each.producer_id, each.first_offset) for each in aborted] == [
        (producer.producer_id, 2)
    ]
    assert read(client, committed=False).high_watermark == 6


def test_a_write_outside_a_transaction_is_refused(client: Client) -> None:
    producer = Producer(client, implicit=False)
    assert producer.send(b"v") == 120
    assert read(client).high_watermark == 0


def test_a_newer_producer_fences_the_older_one(broker: EmbeddedBroker, client: Client) -> None:
    old = Producer(client)
    assert old.send(b"old") == 0
    with connect(broker) as other:
        new = Producer(other)
        assert new.epoch > old.epoch
        assert old.send(b"again") == 47
        assert old.end(commit=True) in {47, 90}
        assert until(lambda: new.send(b"new"), 19) == 0
        assert new.end(commit=True) == 0
    while read(client).last_stable_offset != read(client).high_watermark:
        pass
    assert len(read(client).aborted_transactions or ()) == 1


def test_partitions_that_do_not_exist_add_none(client: Client) -> None:
    producer = Producer(client, implicit=False)
    topics = (AddPartitionsToTxnTopic("t", (0, 9)), AddPartitionsToTxnTopic("none", (0,)))
    asked = AddPartitionsToTxnRequest((), "x", producer.producer_id, producer.epoch, topics)
    answer = client.ask(asked, 3).results_by_topic_v3_and_below
    codes = [each.partition_error_code for topic in answer for each in topic.results_by_partition]
    assert codes == [55, 3, 3]
    assert producer.send(b"v") == 120


def test_transactions_are_described_and_listed(client: Client) -> None:
    producer = Producer(client)
    producer.send(b"v")
    states = client.ask(DescribeTransactionsRequest(("x", "none")), 0).transaction_states
    assert [(each.transactional_id, each.error_code) for each in states] == [
        ("x", 0),
        ("none", 105),
    ]
    assert states[0].transaction_state == "Ongoing"
    assert states[0].topics[0].partitions == (0,)
    listed = client.ask(ListTransactionsRequest(("Ongoing", "Odd")), 0)
    assert [each.transactional_id for each in listed.transaction_states] == ["x"]
    assert listed.unknown_state_filters == ("Odd",)
    assert client.ask(ListTransactionsRequest(("Empty",)), 0).transaction_states == ()


def test_ids_without_a_transaction(client: Client) -> None:
    ids = [client.ask(InitProducerIdRequest(None, 1000), 5).producer_id for _ in range(3)]
    assert len(set(ids)) == 3
    assert client.ask(InitProducerIdRequest("", 1000), 4).error_code == 42
    assert client.ask(InitProducerIdRequest("x", 10_000_000), 4).error_code == 50
    assert client.ask(InitProducerIdRequest(None, 1000, 5, -1), 4).error_code == 42


def test_an_open_transaction_outlasts_a_restart(broker: EmbeddedBroker, client: Client) -> None:
    producer = Producer(client)
    assert producer.send(b"v") == 0
    broker.restart()
    with connect(broker) as again:
        producer.client = again
        assert read(again).last_stable_offset == 0
        assert until(lambda: producer.end(commit=True)) == 0
        while read(again).last_stable_offset != 2:
            pass


def mark(
    client: Client,
    places: Mapping[str, tuple[int, ...]],
    *,
    producer_id: int = 5,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    version: int = 2,
) -> dict[tuple[str, int], int]:
    """Writes an abort marker to partitions; returns the errors."""
    topics = tuple(WritableTxnMarkerTopic(name, indexes) for name, indexes in places.items())
    marker = WritableTxnMarker(producer_id, epoch, False, topics, coordinator_epoch)
    answer = client.ask(WriteTxnMarkersRequest((marker,)), version)
    return {
        (topic.name, each.partition_index): each.error_code
        for found in answer.markers
        for topic in found.topics
        for each in topic.partitions
    }


def check_markers(client: Client) -> None:
    """Asks the one node of a cluster with a topic `marked` of two partitions."""
    here = {"marked": (0,)}
    assert mark(client, here, version=1) == {("marked", 0): 0}
    assert mark(client, here, epoch=3) == {("marked", 0): 0}
    assert mark(client, here, epoch=2) == {("marked", 0): 47}
    assert mark(client, here, epoch=4, coordinator_epoch=2) == {("marked", 0): 0}
    assert mark(client, here, epoch=4, coordinator_epoch=1) == {("marked", 0): 52}
    assert mark(client, here, producer_id=-1, epoch=-1) == {("marked", 0): -1}
    nowhere: dict[str, tuple[int, ...]] = {"none": (0,), "marked": (1, 9)}
    assert mark(client, nowhere) == {("none", 0): 3, ("marked", 1): 0, ("marked", 9): 3}
    assert mark(client, {}) == {}
    markers = tuple(
        WritableTxnMarker(producer_id, epoch, False, (WritableTxnMarkerTopic("marked", (1,)),), 2)
        for producer_id, epoch in ((7, 4), (7, 5), (8, 0))
    )
    answer = client.ask(WriteTxnMarkersRequest(markers), 2)
    assert [each.producer_id for each in answer.markers] == [7, 8]


def test_markers_are_written_without_their_coordinator() -> None:
    with EmbeddedBroker(topics={"marked": 2}) as broker, connect(broker) as client:
        check_markers(client)


def test_kafka_answers_markers_the_same(kafka: LocalKafka) -> None:
    with connect(kafka) as client:
        topic = CreatableTopic("marked", 2, 1)
        assert client.ask(CreateTopicsRequest((topic,))).topics[0].error_code == 0
        ready = {("marked", 0): 0, ("marked", 1): 0}
        for _ in range(1_000):  # a new topic takes Kafka a moment
            if mark(client, {"marked": (0, 1)}, producer_id=99) == ready:
                break
        check_markers(client)


def test_a_marker_ends_a_hanging_transaction() -> None:
    # What AdminClient.abortTransaction sends for a transaction whose coordinator has forgotten it.
    with (
        EmbeddedBroker(
            {"transaction.partition.verification.enable": False}, topics={"t": 1}
        ) as broker,
        connect(broker) as client,
    ):
        data = batch(b"v", producer_id=9, producer_epoch=1, base_sequence=0, transactional=True)
        assert produce(client, "t", data, transactional_id="gone").error_code == 0
        log = broker._running().cluster.log("t", 0)
        assert log.last_stable_offset == 0
        assert mark(client, {"t": (0,)}, producer_id=9, epoch=1) == {("t", 0): 0}
        assert log.last_stable_offset == log.log_end_offset == 2


def test_a_marker_for_the_offsets_topic_reaches_the_coordinator() -> None:
    with EmbeddedBroker() as broker, connect(broker) as client:
        join(client, "g")
        (partition,) = [
            index
            for index in range(50)
            if broker._running().cluster.logs.exists("__consumer_offsets", index)
        ]
        place = {"__consumer_offsets": (partition,)}
        assert mark(client, place) == {("__consumer_offsets", partition): 0}
        assert broker.groups["g"].members


def test_old_producers_are_told_of_loading_what_they_know(mocker: MockerFixture) -> None:
    with EmbeddedBroker(topics={"t": 1}) as broker, connect(broker) as client:
        writer = Producer(client, "old", implicit=False)
        added = AddOffsetsToTxnRequest("old", writer.producer_id, writer.epoch, "g")
        assert until(lambda: client.ask(added, 3).error_code) == 0
        partition = TxnOffsetCommitRequestPartition(0, 5)
        asked = TxnOffsetCommitRequest(
            *("old", "g", writer.producer_id, writer.epoch),
            topics=(TxnOffsetCommitRequestTopic("t", partitions=(partition,)),),
        )
        mocker.patch.object(
            Coordinators, "runtime_for", return_value=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        )
        codes = {
            version: client.ask(asked, version).topics[0].partitions[0].error_code
            for version in (0, 1, 2, 4)
        }
    assert codes == {0: 15, 1: 15, 2: 14, 4: 14}
