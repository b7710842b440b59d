"""Tests what is read, and how long a reader waits."""

from collections.abc import Callable
from typing import cast
from uuid import UUID, uuid4

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.broker.server.call import Call
from groupsdk.broker.server.fetch_sessions import FetchSessions
from groupsdk.broker.server.handlers.fetch import fetch
from groupsdk.broker.server.pace import Steps
from groupsdk.clock import ManualClock
from groupsdk.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from groupsdk.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from groupsdk.wire.records.batch import batches
from groupsdk.wire.records.record import read_records
from groupsdk.wire.schema import Response
from tests.broker.clients import Client, batch, connect, produce
from tests.broker.rig import ClusterRig
from tests.broker.server.calls import StandInConnection, call_of


def request(
    *partitions: FetchPartition,
    topic: str = "t",
    wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 10_000_000,
    session: tuple[int, int] = (0, -1),
    committed: bool = False,
    topic_id: UUID | None = None,
) -> FetchRequest:
    named = FetchTopic(topic, partitions=partitions)
    if topic_id is not None:
        named = FetchTopic("", topic_id, partitions)
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=int(committed),
        session_id=session[0],
        session_epoch=session[1],
        topics=(named,) if partitions else (),
    )


def partition(
    index: int = 0, offset: int = 0, max_bytes: int = 1_000_000, leader_epoch: int = -1
) -> FetchPartition:
    return FetchPartition(index, leader_epoch, fetch_offset=offset, partition_max_bytes=max_bytes)


def values(part: PartitionData) -> list[bytes | None]:
    data = part.records or b""
    return [each.value for _, at in batches(data) for each in read_records(data, at)]


def only(answer: FetchResponse) -> PartitionData:
    (topic,) = answer.responses
    (part,) = topic.partitions
    return part


@pytest.mark.parametrize("version", range(4, 13))
def test_records_come_as_they_were_produced(client: Client, version: int) -> None:
    produce(client, "t", batch(b"a", b"b"))
    produce(client, "t", batch(b"c"))
    part = only(client.ask(request(partition()), version))
    assert values(part) == [b"a", b"b", b"c"]
    assert part.high_watermark == 3
    assert values(only(client.ask(request(partition(offset=2)), version))) == [b"c"]
    assert only(client.ask(request(partition(offset=3)), version)).records == b""


def test_from_version_13_on_topics_are_named_by_id(client: Client) -> None:
    produce(client, "t", batch(b"a"))
    topic = client.ask(MetadataRequest((MetadataRequestTopic(name="t"),)), 12).topics[0]
    for version in range(13, 19):
        found = only(client.ask(request(partition(), topic_id=topic.topic_id), version))
        assert values(found) == [b"a"]
        for unknown in (uuid4(), UUID(int=0)):
            answer = client.ask(request(partition(), topic_id=unknown), version)
            assert only(answer).error_code == 100


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (request(partition(9)), 3),
        (request(partition(), topic="none"), 3),
        (request(partition(offset=5)), 1),
        (request(partition(offset=-1)), 1),
        (request(partition(leader_epoch=7)), 75),
        (request(partition(), session=(99, 1)), None),
    ],
)
def test_errors_come_at_once(client: Client, asked: FetchRequest, error: int | None) -> None:
    answer = client.ask(asked, 11)
    if error is None:
        assert answer.error_code == 70
    else:
        part = only(answer)
        assert (part.error_code, part.high_watermark) == (error, -1)


def test_limits_hold_but_for_the_first_batch(client: Client) -> None:
    for _ in range(4):
        produce(client, "t", batch(b"x" * 1000))
    produce(client, "t", batch(b"y" * 1000), partition=1)
    one = only(client.ask(request(partition(max_bytes=1)), 11))
    assert len(values(one)) == 1
    assert len(one.records or b"") > 1000
    answer = client.ask(request(partition(max_bytes=2500), partition(1), max_bytes=2600), 11)
    first, second = answer.responses[0].partitions
    assert len(values(first)) == 2
    assert len(second.records or b"") < 600


def test_a_reader_waits_for_enough(broker: EmbeddedBroker, client: Client) -> None:
    asked = request(partition(), wait_ms=20_000, min_bytes=1500)
    sent = client.send(asked, 11)
    with connect(broker) as producer:
        produce(producer, "t", batch(b"x" * 1000))
        produce(producer, "t", batch(b"x" * 1000))
    assert len(values(only(client.answer(asked, sent)))) == 2


def test_a_reader_waits_no_longer_than_it_says() -> None:
    clock = ManualClock(1_000)
    with EmbeddedBroker(clock=clock, topics={"t": 1}) as broker, connect(broker) as client:
        asked = request(partition(), wait_ms=500)
        sent = client.send(asked, 11)
        cluster = broker._running().cluster
        while not broker._on_loop(lambda: len(cluster._waiters)):
            pass
        broker.advance(500)
        assert only(client.answer(asked, sent)).records == b""
        assert not cluster._waiters


def test_a_reader_that_is_gone_is_forgotten() -> None:
    with EmbeddedBroker(topics={"t": 1}) as broker:
        cluster = broker._running().cluster
        with connect(broker) as client:
            client.send(request(partition(), wait_ms=2**31 - 1), 11)
            while not broker._on_loop(lambda: len(cluster._waiters)):
                pass
        while broker._on_loop(lambda: len(cluster._waiters)):
            pass
        assert not cluster._waiters


def test_a_deleted_topic_ends_the_waiting(broker: EmbeddedBroker, client: Client) -> None:
    asked = request(partition(), wait_ms=20_000)
    sent = client.send(asked, 11)
    cluster = broker._running().cluster
    while not broker._on_loop(lambda: len(cluster._waiters)):
        pass
    broker.delete_topic("t")
    assert only(client.answer(asked, sent)).error_code == 3


class Reader(StandInConnection):
    """The connection of a reader, with what is appended between the steps of its reads."""

    must_answer_small = False
    on_lost = None

    def __init__(self, rig: ClusterRig) -> None:
        super().__init__(rig)
        self.node.fetch_sessions = FetchSessions(1)
        self.between: list[Callable[[], None]] = []

    def go_on_with(self, call: Call, request: FetchRequest, steps: Steps) -> None:
        response = self.through(steps)
        if response is not None:
            call.answer(response)

    def through(self, steps: Steps) -> Response | None:
        """Does all the steps, and after each one the next thing that is to be done between them."""
        while True:
            try:
                next(steps)
            except StopIteration as done:
                return cast("Response | None", done.value)
            if self.between:
                self.between.pop(0)()


def read_with_appends(between: list[bool], *later: list[bool], enough: int) -> list[bytes | None]:
    """Reads 1,200 partitions, with an append to the first of them where `between` and `later` say so.

    Args:
        between: whether to append after each step of the first read.
        later: for each further append, after which steps of the read that it causes to append.
        enough: how many bytes are waited for.
    """
    rig = ClusterRig(topics={"t": 1_200})

    def append() -> None:
        rig.cluster.led_log(1, "t", 0).append(batch(b"v"), leader_epoch=0, now_ms=1_000)
        rig.cluster.appended(("t", 0))

    def appends(when: list[bool]) -> list[Callable[[], None]]:
        return [append if each else lambda: None for each in when]

    reader = Reader(rig)
    wanted = request(*(partition(n) for n in range(1_200)), wait_ms=500, min_bytes=enough)
    call = call_of(reader, 1, 11)
    reader.between = appends(between)
    reader.go_on_with(call, wanted, fetch(call, wanted))
    for each in later:
        reader.between = appends(each)
        append()
        rig.settle()
    rig.settle()
    (answer,) = reader.answers
    assert not reader.between
    assert not rig.cluster._waiters
    (found,) = (each for each in answer.responses[0].partitions if each.records)
    assert found.partition_index == 0
    return values(found)


def test_an_append_between_two_steps_of_a_read_is_not_missed() -> None:
    # two pauses while the partitions are noted, and two while they are read
    for late in range(4):
        assert read_with_appends([False] * late + [True], enough=1) == [b"v"]


def test_an_append_between_two_steps_of_a_later_read_is_not_missed() -> None:
    for late in range(2):
        assert read_with_appends([], [False] * late + [True], enough=100) == [b"v", b"v"]


def test_in_a_session_only_news_are_told(client: Client) -> None:
    produce(client, "t", batch(b"a"))
    full = client.ask(request(partition(), partition(1), session=(0, 0)), 11)
    assert full.session_id > 0
    assert len(full.responses[0].partitions) == 2
    nothing = client.ask(request(partition(0, 1), session=(full.session_id, 1)), 11)
    assert nothing.responses == ()
    produce(client, "t", batch(b"b"), partition=1)
    news = only(client.ask(request(session=(full.session_id, 2)), 11))
    assert (news.partition_index, values(news)) == (1, [b"b"])
    assert client.ask(request(session=(full.session_id, 9)), 11).error_code == 71


def test_fetch_at_the_wrong_node_names_the_leader() -> None:
    with EmbeddedBroker(nodes=2, topics={"t": 1}) as broker, connect(broker, 2) as client:
        topic = client.ask(MetadataRequest((MetadataRequestTopic(name="t"),)), 12).topics[0]
        for version in range(4, 19):
            by_id = topic.topic_id if version >= 13 else None
            answer = client.ask(request(partition(), topic_id=by_id), version)
            part = only(answer)
            assert part.error_code == 6
            assert part.current_leader.leader_id == (1 if version >= 12 else -1)
            assert [each.node_id for each in answer.node_endpoints] == (
                [1] if version >= 16 else []
            )


def test_committed_read_without_aborted_transactions_lists_none(
    client: Client,
) -> None:
    produce(client, "t", batch(b"a"))
    assert only(client.ask(request(partition(), committed=True), 11)).aborted_transactions == ()
    assert only(client.ask(request(partition()), 11)).aborted_transactions is None
