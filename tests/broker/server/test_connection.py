"""Tests one connection: requests in order, bytes of any kind, clients that do not read."""

import asyncio
import contextlib
import random
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from pytest_mock import MockerFixture

from groupsdk.broker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.broker.server import listener
from groupsdk.broker.server.call import Call, load_route
from groupsdk.broker.server.connection import TRANSITIONS, Connection, ConnectionTrigger
from groupsdk.wire.api import encode_request
from groupsdk.wire.messages.connection import (
    ApiVersionsRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from groupsdk.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from groupsdk.wire.messages.groups import HeartbeatRequest, HeartbeatResponse
from groupsdk.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.clients import (
    Client,
    batch,
    commit_request,
    connect,
    eventually,
    fetch_request,
    join_request,
    produce,
)


def still_serves(broker: EmbeddedBroker) -> bool:
    """Says whether a new connection gets an answer."""
    with connect(broker) as client:
        return client.ask(ApiVersionsRequest("a", "1"), 3).error_code == 0


def test_requests_sent_together_are_answered_in_their_order(client: Client) -> None:
    requests = [HeartbeatRequest(f"g{n}", n, "m") for n in range(50)]
    frames = [encode_request(each, 4, n, "c") for n, each in enumerate(requests)]

    client.socket.sendall(b"".join(frames))

    answers = [client.frame() for _ in requests]
    assert [struct.unpack_from(">i", each)[0] for each in answers] == list(range(50))


def test_a_request_behind_one_that_waits_is_answered_after_it(
    broker: EmbeddedBroker, client: Client
) -> None:
    asked = fetch_request(max_wait_ms=20_000, min_bytes=1)
    fetch = client.send(asked, 11)
    beat = client.send(HeartbeatRequest("g", 1, "m"), 4)
    with connect(broker) as producer:
        produce(producer, "t", batch(b"v"))

    assert client.answer(asked, fetch).responses[0].partitions[0].records
    assert client.answer(HeartbeatRequest(), beat).error_code == 25


def _members(broker: EmbeddedBroker) -> list[str]:
    group = broker.consumer_group("h")
    assert group is not None
    return list(group.members)


def joining(member_id: str) -> ConsumerGroupHeartbeatRequest:
    """Builds the first heartbeat of a member of the group h."""
    return ConsumerGroupHeartbeatRequest(
        *("h", member_id, 0),
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=("t",),
        topic_partitions=(),
    )


@contextlib.contextmanager
def held(broker: EmbeddedBroker) -> Iterator[None]:
    """Holds the broker's loop, so that it finds all that is sent meanwhile at the same time."""
    loop, begun, ended = broker._loop, threading.Event(), threading.Event()
    assert loop is not None

    def hold() -> None:
        begun.set()
        ended.wait()

    loop.call_soon_threadsafe(hold)
    begun.wait()
    try:
        yield
    finally:
        ended.set()


def test_the_requests_of_a_group_that_forms_wait_for_those_of_other_clients(
    broker: EmbeddedBroker, mocker: MockerFixture
) -> None:
    commit = commit_request("c", 5)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(broker)) for _ in range(6)]
        for each in clients:
            each.ask(commit, 8)
        handled = mocker.spy(CoordinatorRuntime, "submit")
        with held(broker):
            for each in clients[:4]:
                each.send(join_request("g"), 9)
            clients[4].send(joining("m"), 1)
            clients[5].send(commit, 8)
        for each in clients:
            each.frame()
    kinds = [type(each.args[1]).__name__ for each in handled.call_args_list]
    assert kinds[0] == "OffsetCommitRequest"
    assert sorted(kinds[1:]) == ["ConsumerGroupHeartbeatRequest"] + ["JoinGroupRequest"] * 4


def test_a_heartbeat_of_a_member_at_rest_does_not_wait(
    broker: EmbeddedBroker, client: Client, mocker: MockerFixture
) -> None:
    epoch = client.ask(joining("m"), 1).member_epoch
    waited = mocker.spy(Connection, "_take_up_later")
    assert client.ask(ConsumerGroupHeartbeatRequest("h", "m", epoch), 1).error_code == 0
    assert client.ask(ConsumerGroupHeartbeatRequest("no", "m", 1), 1).error_code == 69
    leaving = ConsumerGroupHeartbeatRequest("h", "m", -1, topic_partitions=())
    assert client.ask(leaving, 1).error_code == 0
    assert waited.call_count == 0


def test_a_heartbeat_of_a_member_that_waits_for_partitions_of_another_waits_its_turn(
    broker: EmbeddedBroker, client: Client, mocker: MockerFixture
) -> None:
    client.ask(joining("owner"), 1)
    waiting = client.ask(joining("waiting"), 1)
    assert waiting.assignment is not None
    assert not waiting.assignment.topic_partitions
    waited = mocker.spy(Connection, "_take_up_later")
    # it costs as much as a step, and comes before the revocation that it waits for
    beat = ConsumerGroupHeartbeatRequest("h", "waiting", waiting.member_epoch)
    assert client.ask(beat, 1).error_code == 0
    assert waited.call_count == 1


def test_a_heartbeat_behind_others_of_its_group_is_decoded_in_its_turn(
    broker: EmbeddedBroker, mocker: MockerFixture
) -> None:
    commit = commit_request("c", 5)
    with contextlib.ExitStack() as stack:
        member, joins, other = [stack.enter_context(connect(broker)) for _ in range(3)]
        beat = ConsumerGroupHeartbeatRequest("h", "m", member.ask(joining("m"), 1).member_epoch)
        for each in (joins, other):
            each.ask(commit, 8)
        handled = mocker.spy(Connection, "_handle")
        with held(broker):
            joins.send(joining("n"), 1)
            first, second = member.send(beat, 1), member.send(commit, 8)
            other.send(commit, 8)
        member.answer(beat, first)
        member.answer(commit, second)
        other.frame()
        joins.frame()
    kinds = [int.from_bytes(each.args[1][:2]) for each in handled.call_args_list]
    assert kinds == [68, 8, 68, 8]


def test_a_member_leaves_though_its_client_is_gone_before_the_turn_of_its_group(
    broker: EmbeddedBroker, client: Client, mocker: MockerFixture
) -> None:
    client.ask(joining("stays"), 1)
    cluster = broker._running().cluster
    steps: list[Callable[[], Any]] = []
    with connect(broker) as member:
        member.ask(joining("leaves"), 1)
        mocker.patch.object(cluster, "has_waiting", lambda group: group == "h")
        mocker.patch.object(cluster, "in_steps", lambda step, _group: steps.append(step))
        member.send(ConsumerGroupHeartbeatRequest("h", "leaves", -1, topic_partitions=()), 1)
    eventually(lambda: _members(broker), ["stays"])
    (step,) = steps
    step()


def test_a_request_may_come_byte_by_byte(client: Client) -> None:
    client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in encode_request(HeartbeatRequest("g", 1, "m"), 4, 7, "c"):
        client.socket.send(bytes([byte]))
    assert client.frame()[:4] == struct.pack(">i", 7)


@pytest.mark.parametrize(
    "sent",
    [
        b"\xff\xff\xff\xff",  # a negative length
        b"\x7f\xff\xff\xff",  # two gigabytes
        b"\0\0\0\x02\0\x12",  # no room for a header
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",  # TLS
        struct.pack(">ihhih", 10, 18, 0, 1, 5),  # a client id behind the end
        struct.pack(">ihhih", 10, 9999, 0, 1, -1),  # no such API
        struct.pack(">ihhih", 10, 12, 99, 1, -1),  # no such version
        struct.pack(">ihhih", 10, 12, 0, 1, -1),  # a body that is missing
        struct.pack(">ihhih", 10, 18, 77, 1, -1),  # a header that ends before its tagged fields
        struct.pack(">ihhih", 10, 0, 2, 1, -1),  # Produce 2 is shown, not served
    ],
)
def test_bytes_that_are_not_a_request_close_only_their_connection(
    broker: EmbeddedBroker, client: Client, sent: bytes
) -> None:
    with connect(broker) as bad:
        bad.socket.sendall(sent)
        assert bad.is_closed()
    assert client.ask(HeartbeatRequest("g", 1, "m")).error_code == 25


@pytest.mark.parametrize(("size", "name"), [(-2, b""), (2, b"\xff\xfe")])
def test_a_strange_client_id_is_taken_as_kafka_takes_it(
    client: Client, size: int, name: bytes
) -> None:
    client.socket.sendall(
        struct.pack(">ihhih", 10 + len(name), 18, 0, 5, size) + name  # no length, or no UTF-8
    )
    assert client.frame()[:6] == struct.pack(">ih", 5, 0)


def test_a_topic_that_is_asked_for_twice_is_described_once(client: Client) -> None:
    asked = (MetadataRequestTopic(name="t"),) * 3 + (MetadataRequestTopic(name=""),) * 1000
    answer = client.ask(MetadataRequest(asked), 4)
    assert [each.name for each in answer.topics] == ["t", ""]


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(client: Client) -> None:
    client.socket.sendall(struct.pack(">ihhihb", 11, 18, 77, 5, -1, 0))

    answer = client.frame()

    assert answer == struct.pack(">ihihhh", 5, 35, 1, 18, 0, 4)
    # and the client asks again on the same connection
    assert client.ask(ApiVersionsRequest("a", "1"), 3).error_code == 0


def test_random_bytes_disturb_nobody(broker: EmbeddedBroker) -> None:
    chance = random.Random(7)
    good = [
        encode_request(MetadataRequest((MetadataRequestTopic(name="t"),)), 12, 1, "c"),
        encode_request(join_request("g"), 9, 2, "c"),
        encode_request(HeartbeatRequest("g", 1, "m"), 4, 3, "c"),
    ]
    for _ in range(300):
        data = bytearray(chance.choice(good))
        for _ in range(chance.randint(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        with connect(broker) as bad:
            bad.socket.sendall(data)
    assert still_serves(broker)


def test_a_client_that_never_reads_is_served_no_further() -> None:
    with EmbeddedBroker(topics={"t": 1}) as broker:
        with connect(broker) as producer:
            for _ in range(8):
                assert produce(producer, "t", batch(b"x" * 900_000)).error_code == 0
        asked = fetch_request(max_wait_ms=0)
        with connect(broker) as deaf:
            deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            frame = encode_request(asked, 11, 1, "c")
            deaf.socket.settimeout(0.2)
            sent = 0
            try:
                # what the broker takes in beyond its first answers is bounded
                for _ in range(200_000):
                    sent += deaf.socket.send(frame)
            except TimeoutError:
                pass
            assert sent < 20_000_000
            assert still_serves(broker)


def test_many_connections_that_say_nothing_stand_in_nobodys_way(broker: EmbeddedBroker) -> None:
    silent = [connect(broker) for _ in range(300)]
    try:
        assert still_serves(broker)
    finally:
        for each in silent:
            each.socket.close()


def test_large_requests_wait_for_memory_and_small_ones_do_not() -> None:
    with (
        EmbeddedBroker(queued_max_request_bytes=100_000, topics={"t": 1}) as broker,
        connect(broker) as greedy,
        connect(broker) as second,
    ):
        greedy.socket.sendall(struct.pack(">i", 90_000_000) + b"x" * 1_000_000)
        while reserved(broker) < 1_000_000:
            assert still_serves(broker)
        second.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            produce(second, "t", batch(b"y" * 200_000))
        assert still_serves(broker)
        greedy.socket.close()
        second.socket.settimeout(20)
        assert second.frame()
        assert reserved(broker) == 0


def reserved(broker: EmbeddedBroker) -> int:
    limits = broker._running().limits
    return broker._on_loop(lambda: limits._bytes + limits._unknown_bytes)


def test_announced_request_size_takes_no_memory_from_others() -> None:
    with EmbeddedBroker(queued_max_request_bytes=1_000_000, topics={"t": 1}) as broker:
        silent = [connect(broker) for _ in range(30)]
        for each in silent:
            each.socket.sendall(struct.pack(">i", 100_000_000) + b"x" * 100)
        assert still_serves(broker)
        with connect(broker) as client:
            assert produce(client, "t", batch(b"y" * 900_000)).error_code == 0
        assert reserved(broker) == 3_000 + 4 * 30
        for each in silent:
            each.socket.close()
        while reserved(broker):
            assert still_serves(broker)


def test_a_request_has_to_arrive_in_time(mocker: MockerFixture) -> None:
    mocker.patch.multiple(listener, _REQUEST_MS=50, _LOOK_MS=10)
    with (
        EmbeddedBroker(topics={"t": 1}) as broker,
        connect(broker) as large,
        connect(broker) as small,
        connect(broker) as whole,
    ):
        assert produce(whole, "t", batch(b"v")).error_code == 0
        large.socket.sendall(struct.pack(">i", 100 * 2**20) + b"x" * 100_000)
        small.socket.sendall(struct.pack(">i", 100) + b"x")
        assert small.is_closed()
        # 100 MiB have longer, and who waits for nothing may stay
        while reserved(broker) == 0:
            assert still_serves(broker)
        assert produce(whole, "t", batch(b"v")).error_code == 0
    assert broker.config.connections_max_idle_ms > 60_000


def test_clients_that_have_not_authenticated_share_no_memory_with_others() -> None:
    with EmbeddedBroker(
        {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "queued.max.request.bytes": 1_000_000},
        users={"alice": "secret"},
        topics={"t": 1},
    ) as broker:
        unknown = [connect(broker) for _ in range(50)]
        closed = 0
        for each in unknown:
            with contextlib.suppress(ConnectionError):
                each.socket.sendall(struct.pack(">i", 500_000) + b"x" * 450_000)
        with connect(broker) as alice:
            assert alice.ask(SaslHandshakeRequest("PLAIN"), 1).error_code == 0
            assert alice.ask(SaslAuthenticateRequest(b"\0alice\0secret"), 2).error_code == 0
            assert produce(alice, "t", batch(b"y" * 900_000)).error_code == 0
        for each in unknown:
            each.socket.settimeout(0.05)
            with contextlib.suppress(TimeoutError):
                closed += each.is_closed()
            each.socket.close()
        # 16 MiB are 37 times 450,000 bytes
        assert 10 <= closed <= 40  # 16 MiB are 37 times 450,000 bytes


def test_an_idle_connection_is_closed() -> None:
    with EmbeddedBroker(connections_max_idle_ms=100) as broker, connect(broker) as client:
        began = time.perf_counter()
        assert client.is_closed()
        assert time.perf_counter() - began > 0.05


def test_a_connection_moves_as_its_table_says(
    broker: EmbeddedBroker, mocker: MockerFixture
) -> None:
    taken: list[Call] = []
    mocker.patch.object(Connection, "run", lambda _, call, __: taken.append(call))
    transport = mocker.Mock(spec=asyncio.Transport)
    transport.get_extra_info.return_value = ("127.0.0.1", 1)
    transport.get_write_buffer_size.return_value = 0
    load_route(HeartbeatRequest.api.key, 4)
    frame = encode_request(HeartbeatRequest("g", 1, "m"), 4, 7, "c")
    t = ConnectionTrigger

    def walk() -> None:
        made = Connection(broker._running().nodes[1].listeners[0])
        made.connection_made(transport)
        moves = {
            t.TAKEN_UP: lambda: made.data_received(frame),
            t.ANSWERED: lambda: taken.pop().answer(HeartbeatResponse()),
            t.WRITING_PAUSED: made.pause_writing,
            t.WRITING_RESUMED: made.resume_writing,
            t.CLOSED: made.close,
        }
        walked = [
            *(t.TAKEN_UP, t.WRITING_PAUSED, t.ANSWERED, t.WRITING_RESUMED),
            *(t.WRITING_PAUSED, t.WRITING_RESUMED, t.TAKEN_UP, t.WRITING_PAUSED),
            *(t.WRITING_RESUMED, t.ANSWERED, t.TAKEN_UP, t.CLOSED, t.CLOSED),
        ]
        for trigger in walked:
            expected = TRANSITIONS[made._state, trigger]
            moves[trigger]()
            assert made._state is expected, trigger
        for trigger in (t.ANSWERED, t.WRITING_PAUSED, t.WRITING_RESUMED, t.TAKEN_UP):
            moves[trigger]()
            assert made.closed, trigger
        made.connection_lost(None)
        assert made.closed

    broker._on_loop(walk)


def test_a_tls_connection_that_is_reset_with_answers_pending_logs_nothing_of_asyncio(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = trustme.CA()
    pem = tmp_path / "server.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(pem))
    context = ssl.create_default_context()
    authority.configure_trust(context)
    settings = {"listeners": "SSL://localhost:0", "ssl.keystore.location": str(pem)}
    with EmbeddedBroker(settings) as broker:
        port = int(broker.bootstrap_servers.rsplit(":", 1)[1])
        plain = socket.create_connection(("localhost", port), timeout=60)
        client = context.wrap_socket(plain, server_hostname="localhost")
        request = encode_request(ApiVersionsRequest("a", "1"), 3, 1, "c")
        client.sendall(request)
        assert client.recv(4)
        with held(broker):
            client.sendall(request * 2_000)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
        plain = socket.create_connection(("localhost", port), timeout=60)
        with context.wrap_socket(plain, server_hostname="localhost") as other:
            other.sendall(request)
            assert other.recv(4)
    assert [each.getMessage() for each in caplog.records if each.name == "asyncio"] == []
